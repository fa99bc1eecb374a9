"""Ops that the framework computes faster are left to it, and the rest is partitioned once more."""

import pytest
import torch
import torch.nn.functional as F

import cinn_like
from checks import backend


# As fast as a GPU: whatever computes here, convolutions are left to it.
FAST_FRAMEWORK = {"target": "cpu -framework=sm_90"} if torch.get_default_device().type == "cpu" else {}


@pytest.fixture(autouse=True)
def bidding(real_library):
    cinn_like.set_flag("cinn_leave_to_framework", True)
    cinn_like.reset_report()
    yield
    cinn_like.set_flag("cinn_leave_to_framework", False)


def block(x, w, scale, shift, y):
    return torch.relu(F.conv2d(torch.tanh(x), w, padding=3, groups=64) * scale + shift) + y


def operands(batch=2):
    shapes = (batch, 64, 56, 56), (64, 1, 7, 7), (1, 64, 1, 1), (1, 64, 1, 1), (batch, 64, 56, 56)
    return [torch.randn(s) for s in shapes]


def test_a_convolution_goes_back_and_what_lies_around_it_is_compiled():
    args = operands()
    compiled = torch.compile(block, backend=backend, options=FAST_FRAMEWORK)
    torch.testing.assert_close(compiled(*args), block(*args), rtol=1e-4, atol=1e-4)
    report = cinn_like.report()
    assert list(report.fallback_ops) == ["aten.convolution.default"]
    assert "the framework's kernel is faster" in report.fallback_ops["aten.convolution.default"]
    assert [len(s.ops) for s in report.subgraphs] == [1, 4] and not report.failures
    torch.testing.assert_close(compiled(*operands(3)).shape, torch.Size((3, 64, 56, 56)))


def test_verifying_compiles_every_op_whoever_is_faster():
    cinn_like.set_flag("cinn_verify", True)
    try:
        args = operands()
        torch.testing.assert_close(torch.compile(block, backend=backend)(*args), block(*args), rtol=1e-4, atol=1e-4)
        assert not cinn_like.report().differences and not cinn_like.report().failures
    finally:
        cinn_like.set_flag("cinn_verify", False)


def test_its_gradient_goes_back_too():
    args = [a.requires_grad_() for a in operands()]
    compiled = torch.compile(block, backend=backend, options=FAST_FRAMEWORK)
    grads = [torch.autograd.grad(f(*args).square().sum(), args) for f in (compiled, block)]
    for got, expected in zip(*grads):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-2)
    assert set(cinn_like.report().fallback_ops) == {"aten.convolution.default", "aten.convolution_backward.default"}


@pytest.mark.parametrize("batch", [1, 64])
def test_a_product_with_work_around_it_stays_whatever_the_framework_has(batch):
    """Small products cost less than the border they would make."""
    x, w = torch.randn(batch, 8), torch.randn(8, 8)
    f = torch.compile(lambda x, w: torch.softmax(torch.tanh(x) @ w, -1), backend=backend)
    torch.testing.assert_close(f(x, w), torch.softmax(torch.tanh(x) @ w, -1))
    assert not cinn_like.report().fallback_ops and len(cinn_like.report().subgraphs) == 1


def test_the_option_compiles_everything():
    args = operands()
    compiled = torch.compile(block, backend=backend, options={"leave_to_framework": False})
    torch.testing.assert_close(compiled(*args), block(*args), rtol=1e-4, atol=1e-4)
    assert not cinn_like.report().fallback_ops and len(cinn_like.report().subgraphs) == 1
