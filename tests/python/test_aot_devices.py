"""Files with functions for other devices than the CPU, and for several: results of the JIT's, from tensors of the host and
of the device."""

import os
import subprocess
import sys

import cinn_like
import numpy as np
import pytest
import torch
from cinn_like import library, te
from torch import nn
from torch.export import Dim

OPENCL, CUDA = 4, 2  # DLPack's numbers


def has(target):
    return library.available() and te.has_device(target)


def _twice(schedule=True):
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    s = te.create_schedule(te.compute((n,), lambda i: x[i] + x[i], name="y"), name="twice")
    if schedule:
        outer, inner = s.split("l_i", 64)
        s.bind(outer, "blockIdx.x")
        s.bind(inner, "threadIdx.x")
    return s


DEVICES = [
    pytest.param(target, kind, marks=pytest.mark.skipif(not has(target), reason=f"no device of {target}"), id=target)
    for target, kind in (("opencl", OPENCL), ("cuda", CUDA))
]
on_devices = pytest.mark.parametrize("target, kind", DEVICES)
needs_library = pytest.mark.skipif(not library.available(), reason="needs the shared library")


@pytest.fixture(autouse=True)
def tensors_of_the_host():
    with torch.device("cpu"):
        yield


class Net(nn.Module):
    """Packed weights and weights that are read as they are."""

    def __init__(self):
        super().__init__()
        self.tokens, self.norm = nn.Embedding(40, 32), nn.LayerNorm(32)
        self.mix, self.out = nn.Linear(32, 64), nn.Linear(64, 40, bias=False)
        self.register_buffer("scale", torch.rand(32), persistent=False)

    def forward(self, ids, x):
        h = self.norm(self.tokens(ids) * self.scale + x)
        return self.out(nn.functional.gelu(self.mix(h))), h.amax(1)


def exported(tmp_path, target):
    model = Net().eval()
    ids, x = torch.randint(0, 40, (2, 6)), torch.rand(2, 6, 32)
    batch = {0: Dim("batch", max=64)}
    path = cinn_like.aot(model, (ids, x), dynamic_shapes=(batch, batch), path=tmp_path / "net.so", target=target)
    return model, cinn_like.load_library(path), path


@on_devices
def test_a_model(tmp_path, target, kind):
    model, net, _ = exported(tmp_path, target)
    assert net.net.device_type == kind
    for count in (1, 5, 33):
        ids, x = torch.randint(0, 40, (count, 6)), torch.rand(count, 6, 32)
        expected = model(ids, x)
        for got, want in zip(net(ids, x), expected):
            torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-4)
        again = net(ids.numpy(), x.numpy())
        np.testing.assert_array_equal(again[0], net(ids, x)[0].numpy())
    if kind == OPENCL:  # CUDA's assertions end the context
        with pytest.raises(IndexError, match="out of range"):
            net(torch.full((1, 6), 40), torch.rand(1, 6, 32))


@on_devices
def test_tensors_of_the_device(tmp_path, target, kind):
    if kind != CUDA:
        pytest.skip("PyTorch has no tensors there")
    _, net, _ = exported(tmp_path, target)
    ids, x = torch.randint(0, 40, (7, 6)), torch.rand(7, 6, 32)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        got = net(ids.cuda(), x.cuda())[0]
        assert got.is_cuda
        got = got.cpu()
    side.synchronize()
    assert torch.equal(got, net(ids, x)[0])
    model = Net().eval().cuda()
    path = cinn_like.aot(model, (ids.cuda(), x.cuda()), path=tmp_path / "there.so", target=target)
    torch.testing.assert_close(cinn_like.load_library(path)(ids.cuda(), x.cuda())[0], model(ids.cuda(), x.cuda())[0].detach(),
                               rtol=1e-4, atol=1e-4)  # fmt: skip


@on_devices
def test_the_first_that_is_there(tmp_path, target, kind):
    model, net, _ = exported(tmp_path, [target, "cpu"])
    assert net.net.device_type == kind
    about = net.info["functions"][0]["variants"]
    assert [v["device"] for v in about] == [target, "x86_64"]
    ids, x = torch.randint(0, 40, (3, 6)), torch.rand(3, 6, 32)
    on_device = net(ids, x)[0]
    _, net, _ = exported(tmp_path / "..", ["cpu", target])
    assert net.net.device_type == 1 and on_device.shape == net(ids, x)[0].shape


@on_devices
def test_weights_that_are_handed_over(tmp_path, target, kind):
    text = "graph @f(%x: f32[n,4], %w: f32[4,3] static) where n in 1..9 {\n  %0 = matmul(%x, %w) : f32[n,3]\n  return %0\n}\n"
    lib = library.get()
    handle = lib.bid(text, target)
    lib.export_library([handle], tmp_path / "f.so")
    lib.release(handle)
    x, w = torch.rand(5, 4), torch.rand(4, 3)
    f = cinn_like.load_library(tmp_path / "f.so").f
    torch.testing.assert_close(f.prepare(w)(x), x @ w)
    np.testing.assert_allclose(f.prepare(w.numpy())(x.numpy()), (x @ w).numpy(), rtol=1e-5)


@on_devices
def test_expressions_for_several_targets(tmp_path, target, kind):
    built = [te.build(_twice(), target), te.build(_twice(False), "cpu")]
    te.export_library(tmp_path / "f.so", *built)
    x = np.random.default_rng(0).random(1000, "float32")
    for order in (built, built[::-1]):
        te.export_library(tmp_path / f"{len(order[0].target)}.so", *order)
        f = cinn_like.load_library(tmp_path / f"{len(order[0].target)}.so")
        assert (f.twice.device_type == kind) == (order is built)
        np.testing.assert_array_equal(f(x), 2 * x)


@on_devices
def test_tvm_ffi(tmp_path, target, kind):
    tvm_ffi = pytest.importorskip("tvm_ffi")
    te.export_library(tmp_path / "g.so", te.build(_twice(), target))
    runtime = os.path.join(cinn_like.get_library_dir(), "libcinn_runtime.so.0")
    assert os.path.exists(runtime)
    f = tvm_ffi.load_module(str(tmp_path / "g.so")).twice
    x = torch.rand(100)
    y = torch.empty(100)
    f(x, y)
    assert torch.equal(y, 2 * x)
    if kind == CUDA:
        assert torch.equal(torch.from_dlpack(f(x.cuda())).cpu(), 2 * x)


@needs_library
def test_what_is_missing_is_said(tmp_path):
    try:
        _, net, path = exported(tmp_path, "cuda -arch=sm_80")
    except RuntimeError as why:
        pytest.skip(str(why).split(";")[0])
    assert "cuda -arch=sm_80" in net.description
    if has("cuda"):
        pytest.skip("this machine has a CUDA device")
    for use in (lambda: net.net.device_type, lambda: net(torch.zeros(1, 6).long(), torch.rand(1, 6, 32))):
        with pytest.raises(RuntimeError, match="net: no CUDA driver"):
            use()
    program = f"import cinn_like\ncinn_like.load_library({str(path)!r}).net"
    subprocess.run([sys.executable, "-c", program], check=True)
