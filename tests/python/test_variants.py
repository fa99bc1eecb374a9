"""Operators written out by hand, over other axes and with extra results, are one kernel like the framework's function."""

import importlib.util
import pathlib

import pytest
import torch

import cinn_like
from cinn_like.backend import cinn_like as backend

path = pathlib.Path(__file__).resolve().parents[2] / "tools/variants.py"
spec = importlib.util.spec_from_file_location("variants", path)
variants = importlib.util.module_from_spec(spec)
spec.loader.exec_module(variants)
pytestmark = pytest.mark.usefixtures("real_library")
DEVICE = torch.get_default_device()


@pytest.mark.parametrize("size", [1, 3, 127, 4097])
@pytest.mark.parametrize("axis", ["last", "first", "middle"])
@pytest.mark.parametrize("family", variants.FAMILIES)
def test_one_kernel(family, axis, size, monkeypatch):
    shape = {"last": (5, size), "first": (size, 37), "middle": (2, size, 37)}[axis]
    number = {"last": 1, "first": 0, "middle": 1}[axis]
    if size > 4096:
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # threads would share columns where that pays
    for fn in variants.FAMILIES[family]:
        if fn is variants.rms_norm and axis != "last":
            continue
        torch._dynamo.reset()
        case = variants.prepare(fn, shape, number, torch.float32, DEVICE)
        # On a GPU few long columns are shared by blocks, and each reduction by two kernels.
        most = 6 if DEVICE.type == "cuda" and axis != "last" and size > 4096 else 1
        assert case.kernels <= most, fn.__name__
        assert case.error < 2e-5, fn.__name__
        assert not cinn_like.report().fallback_ops


def test_what_reads_one_tensor_shares_a_kernel():
    """Also where no result depends on another; rows of other lengths stay apart."""
    x = torch.randn(33, 50, device=DEVICE)
    for fn, kernels in (
        (lambda x: (x.sin(), x > 0, x.sum(1), x.amax(1)), 1),
        (lambda x: (x.sum(0), x.amax(0) + 1, x * 2), 1),
        (lambda x: (x.sum(0), x.amax(1)), 2),
        (lambda x: (x[:, :7].sin(), x[:, :9].cos()), 2),
    ):
        torch._dynamo.reset()
        cinn_like.reset_report()
        compiled = torch.compile(fn, backend=backend, fullgraph=True, dynamic=False)
        for got, expected in zip(compiled(x), fn(x.double())):
            torch.testing.assert_close(got, expected.to(got.dtype), rtol=1e-5, atol=1e-5)
        assert sum(s.kernels for s in cinn_like.report().subgraphs) == kernels


def test_sizes_near_hints_and_others():
    """Where sizes near the first one's have a kernel of their own, others are as right."""
    for fn in (
        lambda x: torch.softmax(x, 1),
        lambda x: torch.softmax(x, 0),
        lambda x: (x * x).sum(1),
        lambda x: x.argmax(1),
        lambda x: x.t().contiguous() * 2,
        lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6),
    ):
        torch._dynamo.reset()
        cinn_like.reset_report()
        compiled = torch.compile(fn, backend=backend, fullgraph=True, dynamic=True)
        for shape in ((4096, 128), (4096, 100), (4000, 128), (33, 130), (7, 1001), (5000, 2), (2, 3)):
            x = torch.randn(shape, device=DEVICE)
            got, expected = compiled(x), fn(x.double())
            torch.testing.assert_close(got, expected.to(got.dtype), rtol=1e-5, atol=1e-5, msg=f"{shape}")
        tactics = [t for s in cinn_like.report().subgraphs for t in s.tactics]
        assert any("_near: " in t for t in tactics) == (DEVICE.type == "cuda"), tactics
    assert not cinn_like.report().fallback_ops
