"""Models on a device of OpenCL: tensors are the framework's, on the CPU; compiled regions copy them there and back."""

import copy
import os
import pathlib
import subprocess
import sys
import threading

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from checks import compare, rand
from cinn_like import emit, function, library
from cinn_like.backend import cinn_like as backend
from torch import nn

EXP = "graph @f(%x: f32[n,4]) where n in 1..100 {\n  %0 = exp(%x) : f32[n,4]\n  return %0\n}\n"


def no_opencl():
    """Why there is none, or ''."""
    if not library.available():
        return "needs the shared library (CINN_LIKE_LIBRARY)"
    try:
        handle = library.get().compile(EXP, "opencl")
    except RuntimeError as why:
        return str(why)
    library.get().release(handle)
    return ""


pytestmark = pytest.mark.skipif(bool(why := no_opencl()), reason=why)


def compiled(fn, **options):
    return torch.compile(fn, backend=backend, fullgraph=True, options={"target": "opencl", **options})


def check_report(fallback=()):
    report = cinn_like.report()
    assert not report.failures, report.failures
    assert set(report.fallback_ops) == set(fallback), report.fallback_ops
    assert report.subgraphs and {s.target for s in report.subgraphs} == {"opencl"}
    return report


def mlp():
    return nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, 10), nn.Softmax(-1))


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, stride=2),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5),
    )  # fmt: skip


class Transformer(nn.Module):
    def __init__(self, words=50, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(words, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, words)

    def forward(self, words):
        x = self.embedding(words)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return self.head(x + self.down(F.gelu(self.up(self.norm2(x)))))


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("make, shape", [(mlp, (6, 24)), (conv_net, (2, 3, 12, 12))])
def test_inference(make, shape, freeze):
    model = make().eval()
    f = compiled(model, freeze=freeze)
    with torch.no_grad():
        for k in range(3):
            x = rand(*shape)
            compare(model(x), f(x))
            if k == 1:
                for p in model.parameters():
                    p.mul_(1.5)
    check_report()


def train(model, fn, steps, loss_of):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(fn, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.parametrize("name", ["mlp", "conv_net", "transformer"])
def test_training(name):
    model = {"mlp": mlp, "conv_net": conv_net, "transformer": Transformer}[name]()
    other = copy.deepcopy(model)
    shape = {"mlp": (6, 24), "conv_net": (4, 3, 12, 12)}.get(name)
    if shape is None:
        steps = [torch.randint(50, (2, 9)) for _ in range(3)]

        def loss_of(fn, words):
            return F.cross_entropy(fn(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
    else:
        steps = [rand(*shape) for _ in range(3)]

        def loss_of(fn, x):
            return (fn(x) - 0.5).square().sum()

    expected = train(model, model, steps, loss_of)
    got = train(other, compiled(other), steps, loss_of)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    for (name, p), q in zip(model.state_dict().items(), other.state_dict().values()):
        torch.testing.assert_close(q, p, rtol=1e-3, atol=1e-4, msg=lambda m, name=name: f"{name}: {m}")
    # Scatters are the framework's, as everywhere.
    check_report({"aten.embedding_dense_backward.default"} if shape is None else ())


def test_attention_is_compiled():
    """Where the framework computes, it has a kernel for it; elsewhere that would be a way there and back."""
    q, k, v = rand(2, 2, 9, 8), rand(2, 2, 9, 8), rand(2, 2, 9, 8)
    compare(F.scaled_dot_product_attention(q, k, v), compiled(F.scaled_dot_product_attention)(q, k, v))
    assert len(check_report().subgraphs) == 1


@pytest.mark.parametrize("early", [False, True])
def test_batch_sizes(early):
    model = mlp().eval()
    f = compiled(model, dynamic_batch=early)
    with torch.no_grad():
        for n in (3, 7, 65, 2):
            x = rand(n, 24)
            compare(model(x), f(x))
    assert cinn_like.report().graphs <= (1 if early else 2)
    check_report()


def test_several_results_and_views():
    def fn(x, y):
        z = x.t() * 2 + y[::2, 1:5]
        return z, z.sum(0), x.reshape(-1)[3:], (z > 0), z.argmax(1), y.expand(2, -1, -1) + 1

    x, y = rand(4, 6), rand(12, 7)
    compare(fn(x, y), compiled(fn)(x, y))
    check_report()


@torch._dynamo.config.patch(recompile_limit=32)
def test_strided_arguments():
    f = compiled(lambda x: (x * 3 + 1).sum(-1))
    for x in (rand(4, 6), rand(6, 4).t(), rand(8, 6)[::2], rand(4, 1).expand(4, 6), rand(4, 8)[:, 1:7], rand(5, 6)[1:],
              rand(0, 6), rand(2, 4, 6).permute(1, 2, 0)):  # fmt: skip
        compare((x * 3 + 1).sum(-1), f(x))
    check_report()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16, torch.bfloat16,
                                   torch.float64])  # fmt: skip
def test_dtypes(dtype):
    def fn(x, y):
        z = x ^ y if dtype == torch.bool else x * 2 + y
        return z, torch.where(z > 0, x, y), x.float().mean(1)

    x, y = rand(5, 7, dtype=dtype), rand(5, 7, dtype=dtype)
    compare(fn(x, y), compiled(fn)(x, y))
    check_report()


def test_indices():
    def fn(table, index):
        return table[index] + F.embedding(index, table * 2)

    table, f = rand(9, 4), compiled(fn)
    index = torch.tensor([[0, 8], [3, 3]])
    compare(fn(table, index), f(table, index))
    with pytest.raises(IndexError, match="expected 0 to 8, got 9|expected -9 to 8, got 9"):
        f(table, index + 1)
    compare(fn(table, index), f(table, index))
    check_report()


def test_in_place():
    def fn(cache, x):
        cache[:, 2:4] = x
        cache.add_(1)
        return cache.sum()

    a, b, x = rand(3, 6), None, rand(3, 2)
    b = a.clone()
    compare(fn(a, x), compiled(fn)(b, x))
    compare(a, b)
    assert not cinn_like.report().failures


def test_calls_from_threads():
    model = mlp().eval()
    f, xs = compiled(model, freeze=True), [rand(6, 24) for _ in range(4)]
    with torch.no_grad():
        expected = [model(x) for x in xs]
        f(xs[0])
    got = [None] * len(xs)

    def call(k):
        with torch.no_grad():
            for _ in range(10):
                got[k] = f(xs[k])

    threads = [threading.Thread(target=call, args=(k,)) for k in range(len(xs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    compare(expected, got)


def test_an_op_that_has_no_code_is_left_to_the_framework():
    def fn(x):
        return (x.exp().sort(-1)[0] * 2).sum()

    x = rand(4, 6)
    compare(fn(x), compiled(fn)(x))
    check_report({"aten.sort.default"})


def test_a_dtype_that_the_device_lacks_is_left_to_the_framework():
    def fn(x, y):
        return (x * 2 + 1).tanh(), (y.double() * 2 + 1).tanh()

    x, y = rand(4, 6), rand(4, 6)
    f = torch.compile(fn, backend=backend, options={"target": "opencl -features=-fp64"})
    compare(fn(x, y), f(x, y))
    report = cinn_like.report()
    assert not report.failures and [len(s.ops) for s in report.subgraphs] == [3]
    assert all("the opencl device has no f64" in why for why in report.fallback_ops.values()), report.fallback_ops
    assert "aten.tanh.default" in report.fallback_ops


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("make, message", [
    (lambda: torch.ones(3, 4, dtype=torch.float64), r"f: argument 'x': expected f32\[n,4\], got f64\[3,4\]"),
    (lambda: torch.ones(3, 5), r"argument 'x': .*dimension 1 is 5, expected 4"),
    (lambda: torch.ones(12), r"argument 'x': .*rank"),
    (lambda: torch.ones(101, 4), "n = 101 is outside 1..100"),
    (lambda: torch.ones(4, 3).t(), r"argument 'x': .*stride 1 is 3, expected 1"),
])  # fmt: skip
def test_wrong_arguments(monkeypatch, make, message, slow):
    monkeypatch.setenv("CINN_LIKE_SLOW_CALL", "1" if slow else "0")
    f = function.compile_function(EXP, "opencl", torch.device("cpu"), emit.Signature((False,), (None,), 0, 1))
    with pytest.raises(RuntimeError, match=message):
        f.call(make())
    torch.testing.assert_close(f.call(torch.ones(3, 4))[0], torch.ones(3, 4).exp())


def test_tensors_of_a_third_device():
    with pytest.raises(RuntimeError, match="target 'opencl': expected tensors of opencl:0 or the host, got those of cuda"):
        function.compile_function(EXP, "opencl", torch.device("cuda", 0), emit.Signature((False,), (None,), 0, 1))


def test_sample_graphs():
    """Those that lie beside the code are graphs; one of them runs, with prepared weights."""
    root = pathlib.Path(__file__).parents[2]
    paths = [root / "examples/mlp.graph", *root.glob("benchmarks/spaces/*.graph")]
    assert len(paths) > 10 and not [p for p in paths if library.get().check(p.read_text(), "opencl") is not None]
    signature = emit.Signature((False, True, True, True), (None,) * 4, 0, 1)
    args = [rand(33, 64), rand(64, 128) / 8, rand(128), rand(128)]
    of = [function.compile_function(paths[0].read_text(), target, torch.device("cpu"), signature).call(*args)
          for target in ("cpu", "opencl")]  # fmt: skip
    compare(*of)


def test_shared_out():
    """Between the host and OpenCL: what no op says goes by price, and in text an op names its device."""

    def fn(x, w):
        return torch.softmax(x @ w, -1).double() * 2

    x, w = rand(33, 24), rand(24, 40)
    torch._dynamo.reset()
    got = torch.compile(fn, backend=backend, fullgraph=True, options={"target": "cpu; opencl"})(x, w)
    compare(fn(x, w), got)
    assert [s.target for s in cinn_like.report().subgraphs] == ["cpu; opencl"]

    lib = library.get()
    text = EXP.replace("exp(%x)", "exp(%x) on opencl").replace("return %0", "%1 = tanh(%0) on cpu : f32[n,4]\n  return %1")
    handle = lib.compile(text, "cpu; opencl")
    assert [t.rsplit("_k", 1)[0] for t in lib.info(handle)["tactics"]] == ["f_0_opencl", "f_1_x86_64"]
    lib.release(handle)
    with pytest.raises(RuntimeError, match="op 'exp': to be computed on opencl, and the target is x86_64"):
        lib.compile(text, "cpu")
    with pytest.raises(RuntimeError, match="expected the host's target first, got 'opencl"):
        lib.compile(text, "opencl; cpu")


def test_no_driver():
    """What is missing; the frontend reports it (test_bad_input.py::test_a_wrong_target_as_an_option_is_reported)."""
    text = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
lib.CinnLastError.restype, f = ctypes.c_char_p, ctypes.c_void_p()
assert lib.CinnCompile(sys.argv[2].encode(), b"opencl", ctypes.byref(f)) < 0
print(lib.CinnLastError().decode())
"""
    env = {**os.environ, "OCL_ICD_VENDORS": "/nonexistent"}
    command = [sys.executable, "-c", text, str(library.path()), EXP]
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "target 'opencl -arch=native' names no arch: no OpenCL: libOpenCL.so.1 finds no driver; /etc/OpenCL" in out
