"""What repeats elements or goes on beyond a border: resizing, padding, rolls. Equal to eager, bit for bit."""

import cinn_like
import pytest
import sympy
import torch
import torch.nn.functional as F
from cinn_like import dims
from cinn_like.backend import cinn_like as backend
from torch.utils._sympy.functions import FloorDiv, Mod, ModularIndexing

SIZES = {1: (2, 3, 21), 2: (2, 3, 13, 37), 3: (1, 2, 5, 6, 19)}


def check(fn, *inputs, dynamic=False):
    torch._dynamo.reset()
    cinn_like.reset_report()
    got, expected = torch.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)(*inputs), fn(*inputs)
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    report = cinn_like.report()
    assert not report.failures and not report.fallback_ops


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8], ids=str)
@pytest.mark.parametrize("factor", [1, 2, 3, 5, 7, 1.5])
@pytest.mark.parametrize("rank", SIZES)
def test_nearest(real_library, rank, factor, dtype):
    x = torch.randint(0, 200, SIZES[rank]).to(dtype)
    for mode in ("nearest", "nearest-exact"):
        check(lambda x: F.interpolate(x, scale_factor=factor, mode=mode), x)
    size = [int(n * factor) for n in x.shape[2:]]
    check(lambda x: F.interpolate(x, size=size) * 2, x)


def test_nearest_by_another_factor_along_each_axis(real_library):
    x = torch.randn(2, 3, 6, 11)
    check(lambda x: F.interpolate(x, scale_factor=(3, 2)), x)
    check(lambda x: F.interpolate(x, size=(6, 44)), x)
    check(lambda x: F.interpolate(x, size=(7, 5)), x)  # not all repeated as often
    x = torch.randn(2, 4, 6, 11)  # of fewer channels eager's result on a GPU lies otherwise than it says of fake tensors
    check(lambda x: F.interpolate(x, scale_factor=2), x.contiguous(memory_format=torch.channels_last))
    check(torch.nn.Upsample(scale_factor=2), x)


@pytest.mark.parametrize("resize", [lambda x: F.interpolate(x, scale_factor=2), lambda x: F.interpolate(x, scale_factor=3)])
def test_nearest_of_any_size(real_library, resize):
    for shape in ((2, 3, 6, 11), (4, 5, 9, 8)):
        check(lambda x: resize(x) + 1, torch.randn(shape), dynamic=True)


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.5])
def test_sizes_that_the_framework_counts_in_floats(real_library, factor):
    """int(n * 1.5) of a size that is a symbol."""

    def scale(x):
        n = int(x.shape[0] * factor)
        return x.new_ones(n) + x.sum(0)

    torch._dynamo.reset()
    compiled = torch.compile(scale, backend=backend, fullgraph=True, dynamic=True)
    for n in (7, 12, 33):
        x = torch.randint(9, (n, 1)).float()
        torch.testing.assert_close(compiled(x), scale(x), rtol=0, atol=0)
    report = cinn_like.report()
    assert report.graphs == 1 and not report.failures and not report.fallback_ops, str(report)


def test_sizes_that_are_quotients_of_products():
    """What a size is divided by is one thing, whatever it is a product of: `6*n / (2*n)` is no `6*n / 2*n`."""
    n, m = sympy.symbols("n m", integer=True, nonnegative=True)
    sizes = [FloorDiv(6 * n * m, 2 * n, evaluate=False), FloorDiv(m * 7, n * n, evaluate=False), Mod(n * m * 5, n * 3),
             ModularIndexing(m * 9, 2 * n, 3 * n), FloorDiv(m * 7, n * FloorDiv(m, n) + 2), n * FloorDiv(m, 2)]  # fmt: skip
    for size in sizes:
        text = dims.print_expr(size, {n: "n", m: "m"})
        for values in ((3, 5), (5, 3), (7, 40)):
            known = size.subs(dict(zip((n, m), values)))
            assert eval(text.replace("/", "//"), dict(zip("nm", values))) == known, f"{size}: {text}"


def test_the_gradient_of_nearest(real_library):
    xs = [torch.randn(2, 4, 5, 7, requires_grad=True)]
    xs.append(xs[0].detach().clone().requires_grad_())
    fn = lambda x: (F.interpolate(x, scale_factor=2) ** 2).sum()  # noqa: E731
    fn(xs[0]).backward()
    torch._dynamo.reset()
    torch.compile(fn, backend=backend)(xs[1]).backward()
    torch.testing.assert_close(xs[0].grad, xs[1].grad)


RESIZED = [(1, "linear", {"scale_factor": 1.7}), (2, "bilinear", {"size": (20, 5), "align_corners": True}),
           (2, "bilinear", {"scale_factor": (2.5, 1.3)}), (2, "bilinear", {"scale_factor": 2.3, "recompute_scale_factor": True}),
           (2, "bicubic", {"size": (20, 50)}), (2, "bicubic", {"scale_factor": 0.7, "align_corners": True}),
           (3, "trilinear", {"size": (7, 3, 20)}), (1, "nearest", {"scale_factor": 1.7}), (2, "nearest", {"size": (20, 50)}),
           (3, "nearest", {"scale_factor": 1.5}), (2, "nearest-exact", {"size": 20})]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True], ids=["constant", "symbolic"])
@pytest.mark.parametrize("rank, mode, how", RESIZED, ids=lambda v: v if isinstance(v, str) else None)
def test_gradients_of_resizing_are_one_kernel(real_library, rank, mode, how, dynamic):
    """And not sums to computed places, one for each element that a result is made of, which took up to three times as long."""
    f = lambda x: F.interpolate(x * 2, mode=mode, **how).tanh()  # noqa: E731
    torch._dynamo.reset()
    cinn_like.reset_report()
    x = torch.randn(SIZES[rank]).requires_grad_()
    wide = x.detach().double().requires_grad_()
    got, expected = torch.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)(x), f(wide)
    assert got.stride() == f(x).stride()
    torch.testing.assert_close(got, expected.float(), rtol=1e-4, atol=1e-4)
    dy = torch.randn_like(got)
    got.backward(dy)
    expected.backward(dy.double())
    torch.testing.assert_close(x.grad, wide.grad.float(), rtol=1e-4, atol=1e-4)
    left = cinn_like.report().fallback_ops
    assert "aten.index_put.default" not in left and any("upsample" in op and op.endswith("_backward.default") for op in left)
    assert len(left) == 1 or dynamic  # sizes that are counted in floats are not said in text


def test_the_frameworks_ops_keep_their_own_gradients(real_library):
    op, key = torch.ops.aten.upsample_bicubic2d.default, torch._C.DispatchKey.Autograd
    before = op.py_kernels[key]
    torch.compile(lambda x: F.interpolate(x, size=(5, 5), mode="bicubic"), backend=backend)(torch.randn(1, 1, 3, 3).requires_grad_())
    assert op.py_kernels[key] is before


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("rank", SIZES)
def test_borders(real_library, rank, mode, dtype):
    """A few elements, as many as a vector has, and all that there are."""
    if mode == "reflect" and dtype == torch.int64:
        pytest.skip("eager has none of integers")
    x = torch.randint(-99, 99, SIZES[rank]).to(dtype)
    most = [n - (mode == "reflect") for n in reversed(x.shape[2:])]
    for wanted in ((1, 1), (2, 0), (0, 3), (4, 16), (99, 99)):
        padding = [min(w, n) for n in most for w in wanted]
        if mode == "replicate" and dtype == torch.int64:
            continue
        check(lambda x: F.pad(x, padding, mode=mode) * 2, x)


def test_long_borders_of_few_rows(real_library):
    x = torch.randn(1, 1, 3000)
    for mode in ("reflect", "replicate", "circular"):
        check(lambda x: F.pad(x, (200, 100), mode=mode), x)
        check(lambda x: F.pad(x, (3, 1), mode=mode), x)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_borders_of_any_size(real_library, mode):
    for shape in ((2, 3, 30, 41), (1, 2, 17, 90)):
        check(lambda x: F.pad(x, (2, 3, 1, 1), mode=mode) + 1, torch.randn(shape), dynamic=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("times", [2, 3, 4, 5, 9])
def test_repeated_elements(real_library, times, dtype):
    for shape in ((3, 50), (64, 16), (5, 1)):
        x = torch.randint(0, 2, shape).to(dtype)
        check(lambda x: x.repeat_interleave(times, -1).logical_not(), x)
        check(lambda x: x.repeat_interleave(times, 0), x)


def test_rolls(real_library):
    x = torch.randn(6, 7, 40)
    check(lambda x: torch.roll(x, (2, -3, 5), (0, 1, 2)) * 2, x)


def test_remainders(real_library):
    """By lanes: exact for any quotient; of infinities, zeros and denormals, too."""
    special = torch.tensor([0.0, -0.0, 1.0, -3.0, 1e30, 1e-40, torch.inf, -torch.inf, torch.nan, 5.5])
    x = torch.cat([torch.randn(2000) * 10 ** torch.randn(2000).mul(5), special.repeat_interleave(10)])
    y = torch.cat([torch.randn(2000), special.repeat(10)])
    for op, most in ((torch.fmod, 0), (torch.remainder, 1e-7)):
        torch._dynamo.reset()
        got = torch.compile(op, backend=backend, dynamic=False)(x, y)
        torch.testing.assert_close(got.double(), op(x.double(), y.double()), rtol=most, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_quotients_of_integers(real_library, dtype):
    info = torch.iinfo(dtype)
    ends = torch.tensor([info.min, info.min + 1, info.max - 1, info.max], dtype=dtype)
    x = torch.cat([torch.randint(info.min, info.max, (4000,), dtype=dtype), ends.repeat(25)])
    y = torch.cat([torch.randint(info.min, info.max, (4000,), dtype=dtype), torch.randint(1, 9, (100,), dtype=dtype)])
    y = torch.where((y == 0) | (y == -1 if info.min < 0 else False), 1, y).to(dtype)
    for mode in ("trunc", "floor"):
        check(lambda x, y: torch.div(x, y, rounding_mode=mode), x, y)
    check(torch.remainder, x, y)
    check(torch.fmod, x, y)
