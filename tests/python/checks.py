"""Helpers of the tests: random tensors, and a function compiled and compared with eager PyTorch."""

import cinn_like
import torch
from cinn_like.backend import cinn_like as backend


def rand(*shape, dtype=torch.float32):
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(-5 if dtype.is_signed else 0, 9, shape, dtype=dtype)
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def check(fn, *inputs, grad=False, fallback=()):
    """`grad`: compare gradients too, of every float input or of those listed; `fallback`: what falls back."""
    torch._dynamo.reset()
    cinn_like.reset_report()
    for k, x in enumerate(inputs):
        if isinstance(x, torch.Tensor) and x.is_floating_point() and grad and (grad is True or k in grad):
            x.requires_grad_()
    clones = [i.detach().clone().requires_grad_(i.requires_grad) if isinstance(i, torch.Tensor) else i for i in inputs]
    expected = fn(*inputs)
    got = torch.compile(fn, backend=backend, fullgraph=True)(*clones)
    compare(expected, got)
    if grad:
        outputs = expected if isinstance(expected, tuple) else (expected,)
        weights = [torch.randn_like(o) for o in outputs]
        sum((o * w).sum() for o, w in zip(outputs, weights)).backward()
        sum((o * w).sum() for o, w in zip(got if isinstance(got, tuple) else (got,), weights)).backward()
        for i, c in zip(inputs, clones):
            if isinstance(i, torch.Tensor) and i.requires_grad:
                compare(i.grad, c.grad)
    report = cinn_like.report()
    assert not report.failures, report.failures
    assert set(fallbacks(report)) == set(fallback), report.fallback_ops
    return report


def fallbacks(report):
    """What fell back but for attention, which stays whole where the framework has a kernel for it."""
    return {op: why for op, why in report.fallback_ops.items() if "_scaled_dot_product_" not in op}


def compare(expected, got):
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(got)
        for e, g in zip(expected, got):
            compare(e, g)
    elif isinstance(expected, torch.Tensor):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        strides = [(a, b) for a, b, n in zip(got.stride(), expected.stride(), expected.shape) if n > 1]
        assert expected.numel() == 0 or all(a == b for a, b in strides), (got.stride(), expected.stride())
        tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(expected.dtype, 2e-5)
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        assert got == expected
