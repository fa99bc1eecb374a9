"""What an op does where it is easy to be different from eager PyTorch: conversions that do not fit, dtypes and sizes that
few programs use, indices out of range."""

import math

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from checks import check
from cinn_like.backend import cinn_like as backend

INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
BEYOND = [math.nan, math.inf, -math.inf, 3e9, -3e9, 5e9, 1e10, -1e10, 300.7, -300.7, 1e5, -1.5, 255.0, 256.0, 2.0**31,
          -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 1e19, 1e30, -1e30, 40000.0, -40000.0, 0.5, -0.5]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_numbers_that_no_integer_holds(real_library, dtype):
    """Sizes that are not whole vectors too: eager converts the last elements one by one."""
    x = torch.tensor(BEYOND * 5, dtype=torch.float64).to(dtype)
    check(lambda x: tuple(x.to(t) for t in INTEGERS), x)


# Ops that graph text has for other dtypes or ranks, and regions of nothing that is wanted. They are compiled or left to
# the framework by the partition; none is refused after it.
UNUSUAL = {
    "convolution of integers": (lambda x: F.conv2d(x, x[:, :, :2, :2]) + 1, torch.arange(32).reshape(1, 2, 4, 4)),
    "transposed convolution of integers": (lambda x: F.conv_transpose1d(x, x) * 2, torch.arange(8).reshape(1, 1, 8)),
    "pooling of integers": (lambda x: F.max_pool2d(x, 2) + 1, torch.arange(16).reshape(1, 1, 4, 4)),
    "average of integers": (lambda x: F.avg_pool1d(x, 2) + 1, torch.arange(16).reshape(1, 1, 16)),
    "index_select of 0-d": (lambda x: torch.index_select(x, 0, torch.tensor([0])) * 2, torch.tensor(3.0)),
    "gather of 0-d": (lambda x: torch.gather(x, 0, torch.tensor(0)) * 2, torch.tensor(3.0)),
    "the largest of bools": (lambda x: (x > 0).max(1).values, torch.randn(3, 4)),
    "no results": (lambda x: torch.empty_like(x.t()).shape[0] + x, torch.randn(3, 4)),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_what_the_compiler_refuses_the_partition_leaves(real_library, case):
    fn, x = UNUSUAL[case]
    for dynamic in (None, True):
        torch._dynamo.reset()
        cinn_like.reset_report()
        got = torch.compile(fn, backend=backend, dynamic=dynamic)(x)
        assert not cinn_like.report().failures
        torch.testing.assert_close(got, fn(x), rtol=0, atol=0)


def test_an_argmax_of_bools(real_library):
    """Eager has none, but the gradient of cumprod asks for one."""
    x = torch.tensor([[1.0, 0.0, 2.0], [3.0, 4.0, 0.0]])
    xs = [x.clone().requires_grad_() for _ in range(2)]
    torch.cumprod(xs[0], 1).sum().backward()
    torch.compile(lambda x: torch.cumprod(x, 1), backend=backend)(xs[1]).sum().backward()
    assert not cinn_like.report().failures
    torch.testing.assert_close(xs[0].grad, xs[1].grad)


def test_a_size_that_graph_text_lacks(real_library):
    """min(n, m)."""
    torch.testing.assert_close(
        torch.compile(lambda x: x.trace() * 2, backend=backend, dynamic=True)(torch.eye(5, 7)), torch.tensor(10.0)
    )
    assert not cinn_like.report().failures


def test_an_op_of_the_framework_with_another_dtype_than_traced(real_library):
    """The statistics of this op are traced as f32 and come as bf16 on the CPU."""
    x, w, m = torch.randn(4, 5, 3).bfloat16(), torch.ones(5).bfloat16(), torch.zeros(5).bfloat16()

    def fn(x, w, b, m, v):
        return torch.ops.aten._batch_norm_with_update(x, w, b, m, v, 0.5, 0.1)[:3]

    expected = fn(x, w, m.clone(), m.clone(), w.clone())
    got = torch.compile(fn, backend=backend)(x, w, m.clone(), m.clone(), w.clone())
    assert not cinn_like.report().failures
    torch.testing.assert_close(got, expected)
