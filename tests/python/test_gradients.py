"""Gradients and normalisations, which the frontend keeps whole through AOTAutograd and writes out itself."""

import copy

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from checks import check, fallbacks, rand
from cinn_like import emit
from cinn_like.backend import cinn_like as backend

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def norm(fn, *args, **kwargs):
    return lambda *xs: fn(xs[0], *args, *xs[1:], **kwargs)


POINTWISE = {
    "relu": F.relu,
    "threshold": lambda x: F.threshold(x, 0.3, -2.0),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "hardswish": lambda x: F.hardswish(x * 4),
    "hardsigmoid": lambda x: F.hardsigmoid(x * 4),
    "hardtanh": lambda x: F.hardtanh(x, -0.7, 0.4),
    "relu6": lambda x: F.relu6(x * 6),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 1.7),
    "selu": F.selu,
    "softplus": lambda x: F.softplus(x * 9, 1.3, 4.0),
    "softmax": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1),
}
NORMS = {
    "layer_norm": (norm(F.layer_norm, (3, 7)), [(2, 5, 3, 7), (3, 7), (3, 7)]),
    "layer_norm_of_all": (norm(F.layer_norm, (5, 7)), [(5, 7), (5, 7)]),
    "group_norm": (norm(F.group_norm, 2), [(3, 6, 4, 5), (6,), (6,)]),
    "group_norm_of_rows": (norm(F.group_norm, 2), [(3, 6), (6,)]),
    "batch_norm": (norm(F.batch_norm, None, None, training=True), [(4, 3, 5, 2), (3,), (3,)]),
    "batch_norm_plain": (norm(F.batch_norm, None, None, training=True), [(9, 3)]),
    "instance_norm": (F.instance_norm, [(2, 3, 5, 4)]),
}


def compare_gradients(fn, inputs, weights):
    """Values and gradients of (eager's, ours, those in f64): no value of ours is farther from the last than eager's may
    be, and nothing falls back."""

    def run(fn, dtype):
        own = [x.detach().clone().to(dtype).requires_grad_() for x in inputs]
        results = fn(*own)
        return list(results) + [g for y, v in zip(results, weights)
                                for g in torch.autograd.grad(y, own, v.to(y.dtype), retain_graph=True)]  # fmt: skip

    dtype = inputs[0].dtype
    compiled = torch.compile(fn, backend=backend, fullgraph=True)
    for i, (got, want, true) in enumerate(zip(run(compiled, dtype), run(fn, dtype), run(fn, torch.float64))):
        assert got.dtype == want.dtype and got.stride() == want.stride()
        scale = true.abs().clamp(min=1)
        error, theirs = ((x.double() - true).abs() / scale for x in (got, want))
        assert error.max() <= 2 * theirs.max() + (64 if dtype.itemsize > 2 else 2) * torch.finfo(dtype).eps, i
    assert not fallbacks(cinn_like.report()) and not cinn_like.report().failures


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pointwise(real_library, dtype):
    """Eager rounds the factors of hardsigmoid and hardswish to f32, in f64, too."""
    names = [n for n in POINTWISE if "hards" not in n or dtype != torch.float64]
    x = rand(40, 7, dtype=dtype)
    compare_gradients(lambda x: tuple(POINTWISE[n](x) for n in names), [x], [rand(40, 7, dtype=dtype) for _ in names])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_norm(real_library, name, dtype):
    fn, shapes = NORMS[name]
    inputs = [rand(*s, dtype=dtype) for s in shapes]
    compare_gradients(lambda *xs: (fn(*xs),), inputs, [rand(*shapes[0], dtype=dtype)])


@pytest.mark.parametrize("wanted", [[0], [1, 2]], ids=str)
@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm"])
def test_gradients_of_some_operands(engine, name, wanted):
    fn, shapes = NORMS[name]
    check(fn, *[rand(*s) for s in shapes], grad=wanted)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("shape", [(4, 3, 5, 2), (6, 3)], ids=str)
def test_batch_norm_and_what_it_remembers(real_library, frozen, shape):
    """Two training steps; `frozen`: with the running statistics, as fine-tuning does, and gradients all the same."""
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(3) if len(shape) == 2 else torch.nn.BatchNorm2d(3), torch.nn.SiLU())
    own = copy.deepcopy(net)
    compiled = torch.compile(own, backend=backend, fullgraph=True)
    for model in (net, own):
        model[0].train(not frozen)
    for _ in range(2):
        x = rand(*shape) * 2 + 1
        mine = x.clone().requires_grad_()
        x.requires_grad_()
        for f, v in ((net, x), (compiled, mine)):
            f(v).square().sum().backward()
        torch.testing.assert_close(mine.grad, x.grad, rtol=1e-4, atol=1e-4)
    assert not cinn_like.report().fallback_ops and not cinn_like.report().failures
    for a, b in zip([*own.parameters(), *own.buffers()], [*net.parameters(), *net.buffers()]):
        torch.testing.assert_close(a, b)
        assert a.grad is None or torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-4)


OF_32_BITS = {
    "batch_norm": lambda: torch.nn.BatchNorm2d(8),
    "instance_norm": lambda: torch.nn.InstanceNorm2d(8, affine=True),
    "layer_norm": lambda: torch.nn.LayerNorm(9),
    "group_norm": lambda: torch.nn.GroupNorm(2, 8),
}


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("name", OF_32_BITS)
def test_norms_of_16_bits_with_parameters_of_32(real_library, monkeypatch, name, left):
    """The statistics stay f32, as in eager: 16 bits of a mean far from 0 are none of what is left of x without it.
    `left`: the framework computes the gradient, which takes no others."""
    if left:
        for op in ("native_batch_norm_backward", "native_layer_norm_backward", "native_group_norm_backward"):
            monkeypatch.delitem(emit.TABLE, getattr(torch.ops.aten, op).default)
    if torch.get_default_device().type != "cpu" and (left or name in ("layer_norm", "group_norm")):
        pytest.skip("where the framework's own is less exact, or takes no two types")
    net = OF_32_BITS[name]()
    exact = copy.deepcopy(net).double()
    x = (rand(4, 8, 9, 9) + 20).bfloat16().requires_grad_()
    wide = x.detach().double().requires_grad_()
    weight = torch.randint(2, x.shape).bfloat16() * 2 - 1
    torch.compile(net, backend=backend, fullgraph=True)(x).backward(weight)
    exact(wide).backward(weight.double())
    # The framework's own gradient of a layer norm's scale adds up in 16 bits.
    rtol, atol = (0.2, 2) if left and name == "layer_norm" else (1e-4, 1e-3)
    torch.testing.assert_close(net.weight.grad.double(), exact.weight.grad, rtol=rtol, atol=atol)
    torch.testing.assert_close(x.grad.double(), wide.grad, rtol=2e-2, atol=2e-2)
    report = cinn_like.report()
    assert not report.failures and bool(report.fallback_ops) == left, str(report)


def test_norms_are_one_op_until_they_are_written(real_library):
    """The graphs hold the ops themselves: fewer to trace and to partition."""

    def fn(x, w, b):
        return F.silu(F.group_norm(F.layer_norm(F.batch_norm(x, None, None, training=True), (5,)), 1, w, b))

    x = rand(4, 3, 5).requires_grad_()
    torch.compile(fn, backend=backend, fullgraph=True)(x, rand(3), rand(3)).sum().backward()
    ops = [op for s in cinn_like.report().subgraphs for op in s.ops]
    for name in ("layer_norm", "group_norm"):
        assert sum(f"native_{name}.default" in op for op in ops) == 1, ops
        assert sum(f"native_{name}_backward" in op for op in ops) == 1, ops
    assert sum("batch_norm_backward" in op for op in ops) == 1 and sum("silu_backward" in op for op in ops) == 1, ops


def test_results_of_one_op_stay_in_its_region(real_library):
    """The statistics of a norm are read by a later region alone; the op is not, and so they are not moved there."""

    def fn(x, w):
        y, mean, rstd = torch.native_layer_norm(x, (64,), None, None, 1e-5)
        return (torch.sort(y, dim=0).values @ w) * mean * rstd

    x, w = rand(8, 64), rand(64, 64)
    torch.testing.assert_close(torch.compile(fn, backend=backend)(x, w), fn(x, w), rtol=1e-4, atol=1e-4)
    assert not cinn_like.report().failures


def test_log_softmax_keeps_what_it_reads():
    """And two numbers a row, where the whole op would keep its own result: in f32 of 16-bit logits."""

    def loss(logits, target):
        return F.cross_entropy(logits.float(), target)

    torch._dynamo.reset()
    logits = rand(64, 501, dtype=torch.bfloat16).requires_grad_()
    target = torch.arange(64, device=logits.device) * 7 % 501
    got = torch.compile(loss, backend=backend)(logits, target)
    kept = got.grad_fn.saved_tensors
    assert max(t.numel() * t.element_size() for t in kept) == logits.numel() * 2, [(t.dtype, t.shape) for t in kept]
    got.backward()
    expected = logits.detach().double().requires_grad_()
    loss(expected, target).backward()
    assert torch.allclose(logits.grad.double(), expected.grad, atol=1e-4)
