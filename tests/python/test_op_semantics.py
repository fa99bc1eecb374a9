"""What an op does where it is easy to be different from eager PyTorch: conversions that do not fit, dtypes and sizes that
few programs use, indices out of range."""

import copy
import math
import os
import subprocess
import sys

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from checks import check
from cinn_like import emit, function
from cinn_like.backend import cinn_like as backend

INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
BEYOND = [math.nan, math.inf, -math.inf, 3e9, -3e9, 5e9, 1e10, -1e10, 300.7, -300.7, 1e5, -1.5, 255.0, 256.0, 2.0**31,
          -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 1e19, 1e30, -1e30, 40000.0, -40000.0, 0.5, -0.5]  # fmt: skip


@pytest.mark.skipif(os.environ.get("CINN_TEST_TARGET") == "opencl", reason="it says otherwise (docs/numerics.md)")
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
    "index_select of 0-d": (lambda x: torch.index_select(x, 0, torch.tensor([0], device=x.device)) * 2, torch.tensor(3.0)),
    "gather of 0-d": (lambda x: torch.gather(x, 0, torch.tensor(0, device=x.device)) * 2, torch.tensor(3.0)),
    "the largest of bools": (lambda x: (x > 0).max(1).values, torch.randn(3, 4)),
    "no results": (lambda x: torch.empty_like(x.t()).shape[0] + x, torch.randn(3, 4)),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_what_the_compiler_refuses_the_partition_leaves(real_library, case):
    fn, x = UNUSUAL[case]
    try:
        expected = fn(x)
    except RuntimeError as e:
        if x.device.type == "cpu":
            raise
        pytest.skip(f"eager has it on the CPU alone: {e}")
    for dynamic in (None, True):
        torch._dynamo.reset()
        cinn_like.reset_report()
        got = torch.compile(fn, backend=backend, dynamic=dynamic)(x)
        assert not cinn_like.report().failures
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


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


# An index out of range is eager's error, which also names the op. (function, a good index, one out of range)
INDEXED = {
    "embedding": (lambda x, i: F.embedding(i, x) * 2, [0, 4], [1, 5]),
    "embedding, negative": (lambda x, i: F.embedding(i, x) * 2, [0, 4], [1, -1]),
    "index_select": (lambda x, i: torch.index_select(x, 1, i) + 1, [0, 6], [7, 0]),
    "gather": (lambda x, i: torch.gather(x, 0, i[:, None].expand(-1, 7)) + 1, [0, 4], [0, 5]),
    "x[i]": (lambda x, i: x[i] + 1, [-5, 4], [0, -6]),
    "x[:, i]": (lambda x, i: x[:, i] + 1, [-7, 6], [0, 7]),
    "x[i, j]": (lambda x, i: x[i, i + 1] + 1, [0, 4], [0, 5]),
    "x[i, j] in range when flattened": (lambda x, i: x[i - i, i] + 1, [0, 6], [0, 7]),
    "padded": (lambda x, i: F.pad(F.embedding(i - 1, x), (1, 2, 3, 4)).exp(), [1, 5], [6, 1]),
    "chosen": (lambda x, i: torch.where(i[:, None] > 1, F.embedding(i, x), 0.0), [1, 4], [-1, 4]),
    "cut": (lambda x, i: F.embedding(i, x)[1:] + 1, [0, 4], [0, 5]),
    "reduced": (lambda x, i: F.embedding(i, x).mean(), [0, 4], [5, 0]),
    "computed": (lambda x, i: F.embedding(torch.stack([x.argmax(1)[:1] * 0 + j for j in (i, i)]), x) + 1, [0, 4], [0, 9]),
    "int32": (lambda x, i: F.embedding(i.int(), x) + 1, [0, 4], [0, 5]),
    "nll_loss": (lambda x, i: F.nll_loss(x[i - i], i, ignore_index=-100), [0, 6, -100], [0, 7, -100]),
    "cross_entropy": (lambda x, i: F.cross_entropy(x[i - i], i, ignore_index=9), [0, 6, 9], [0, -1, 9]),
}  # fmt: skip


# On a GPU it is an assertion, which costs the process its context.
on_cpu = pytest.mark.skipif(torch.get_default_device().type != "cpu", reason="raises an IndexError on the CPU alone")


@on_cpu
@pytest.mark.parametrize("case", INDEXED)
@pytest.mark.parametrize("repeats", [1, 5000])  # in vectorized and parallel loops too
def test_an_index_out_of_range_is_an_index_error(real_library, case, repeats):
    fn, good, bad = INDEXED[case]
    x = torch.randn(5, 7)
    compiled = torch.compile(fn, backend=backend)
    good, bad = (torch.tensor(i * repeats) for i in (good, bad))
    torch.testing.assert_close(compiled(x, good), fn(x, good), rtol=1e-3, atol=1e-5)
    assert not cinn_like.report().fallback_ops and not cinn_like.report().failures
    with pytest.raises((IndexError, RuntimeError)):
        fn(x, bad)
    with pytest.raises(IndexError, match=r"^aten\.\w+(\.\w+)?: index out of range: expected -?\d+ to \d+, got -?\d+$"):
        compiled(x, bad)
    torch.testing.assert_close(compiled(x, good), fn(x, good), rtol=1e-3, atol=1e-5)


@on_cpu
def test_no_indices_and_no_elements(real_library):
    x, none = torch.randn(5, 7), torch.empty(0, dtype=torch.int64)
    check(lambda x, i: (F.embedding(i, x) + 1, x[i], x[i, i], torch.index_select(x, 1, i) * 2), x, none)
    with pytest.raises(IndexError, match="expected none, there is no place for any, got 0"):
        torch.compile(lambda x, i: x[:0].index_select(0, i) + 1, backend=backend)(x, torch.tensor([0]))


@on_cpu
@pytest.mark.parametrize("repeats", [1, 5000])
def test_indices_in_training(real_library, repeats):
    w = torch.randn(5, 7)

    def fn(w, i, target):
        return F.cross_entropy(F.embedding(i, w) * 2, target, ignore_index=-7)

    i, target = torch.tensor([0, 4, 2] * repeats), torch.tensor([6, -7, 0] * repeats)
    ws = [w.clone().requires_grad_() for _ in range(2)]
    compiled = torch.compile(fn, backend=backend)
    for f, w in zip((fn, compiled), ws):
        f(w, i, target).backward()
    torch.testing.assert_close(*(w.grad for w in ws), rtol=1e-4, atol=1e-5)
    assert not cinn_like.report().failures
    for bad in ((i + 1, target), (i - 1, target), (i, target + 1), (i, torch.where(target == 0, -1, target))):
        with pytest.raises(IndexError):
            fn(ws[0], *bad)
        with pytest.raises(IndexError, match="index out of range"):
            compiled(ws[1], *bad)
    torch.testing.assert_close(compiled(ws[1], i, target), fn(ws[0], i, target), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("repeats", [1, 100000])
def test_an_index_out_of_range_is_a_device_assertion(repeats):
    """It costs the process its CUDA context, as eager's does, so the process is another one."""
    program = f"""
import torch, cinn_like
f = torch.compile(lambda x, i: torch.nn.functional.embedding(i, x) * 2, backend="cinn_like")
x = torch.randn(5, 64, device="cuda")
f(x, torch.tensor([0, 4] * {repeats}, device="cuda"))
torch.cuda.synchronize()
assert cinn_like.report().subgraphs
try:
    f(x, torch.tensor([0, 5] * {repeats}, device="cuda"))
    torch.cuda.synchronize()
except RuntimeError as why:
    assert "device-side assert" in str(why), why
    print("asserted")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "asserted" in ran.stdout, ran.stderr


def test_sizes_that_leave_no_room_are_seen_at_the_call(real_library):
    """The text alone does not say that 2 * m is at most n."""
    text = """graph @f(%x: f32[n], %y: f32[m]) where n in 1..100, m in 1..100 {
  %0 = slice(%x) {axis=0, begin=m, end=2*m} : f32[m]
  %1 = add(%0, %y) : f32[m]
  return %1
}
"""
    signature = emit.Signature((False, False), (None, None), 0, 1)
    call = function.compile_function(text, "x86_64", torch.device("cpu"), signature).call
    x, y = torch.randn(10, device="cpu"), torch.randn(5, device="cpu")
    torch.testing.assert_close(call(x, y)[0], x[5:] + y)
    with pytest.raises(IndexError, match=r"^op 0, slice: attribute 'end': expected 6 to 10, got 12$"):
        call(x, torch.randn(6, device="cpu"))
    torch.testing.assert_close(call(x, y)[0], x[5:] + y)


NOTHING = {
    "max": lambda x: x.max() + 1,
    "min": lambda x: x.min() + 1,
    "max along an axis": lambda x: x.max(0).values + 1,
    "amax": lambda x: x.amax(0) + 1,
    "amin": lambda x: x.amin((0, 1)) + 1,
    "argmax": lambda x: x.argmax(0) + 1,
}


@pytest.mark.parametrize("case", NOTHING)
def test_nothing_has_no_largest_element(real_library, case):
    x = torch.empty(0, 3)
    with pytest.raises((RuntimeError, IndexError)):
        NOTHING[case](x)
    with pytest.raises((RuntimeError, IndexError)):
        torch.compile(NOTHING[case], backend=backend)(x)


def test_the_largest_elements_of_no_rows(real_library):
    check(lambda x: (x.amax(1), x.max(1).values, x.argmin(1)), torch.empty(0, 3))


SCAN_SHAPES = [(7,), (3, 130), (40, 33), (2, 19, 18), (5, 0), (1, 1000)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32,
                                   torch.uint8, torch.bool], ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", SCAN_SHAPES, ids=str)
def test_running_sums(real_library, shape, dtype):
    """Along every axis, alone and between pointwise functions; integers are summed up as int64."""
    torch.manual_seed(1)
    x = torch.randint(0, 3, shape).to(dtype)
    if x.device.type == "cuda" and dtype in (torch.bfloat16, torch.float16):
        x = x[..., :100]  # eager keeps long sums in 16 bits there

    def fn(x):
        for d in range(x.dim()):
            yield x.cumsum(d)
            yield (x * 1).cumsum(d) * 2 + 1
            yield (x > 0).cumsum(-d)
            yield x.cumsum(d, dtype=torch.float32)

    check(lambda x: tuple(fn(x)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_running_products(real_library, dtype):
    x = torch.tensor([[1, 2, -1, 3, 1, 0, 5] * 5, [2, 1, 1, -1, 1, 2, 1] * 5]).to(dtype)
    check(lambda x: (x.cumprod(0), x.cumprod(1), (x * 2).cumprod(1) - 1), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", SCAN_SHAPES, ids=str)
def test_running_extremes_and_their_places(real_library, shape, dtype):
    """The last of equals, and of NaN."""
    torch.manual_seed(2)
    x = torch.randint(0, 9, shape).to(dtype)
    xs = [x]
    if dtype.is_floating_point and x.numel():
        y = x.clone().flatten()
        y[:: max(y.numel() // 5, 1)] = math.nan
        xs += [y.reshape(shape), torch.full_like(x, -math.inf)]

    def fn(x):
        for d in range(x.dim()):
            yield from (*x.cummax(d), *x.cummin(d), x.cummax(d).values, x.cummin(d).indices)

    for x in xs:
        check(lambda x: tuple(fn(x)), x)


def test_a_long_running_sum_is_as_exact_as_eager(real_library):
    x = torch.full((300000,), 0.1)
    torch.testing.assert_close(torch.compile(lambda x: x.cumsum(0), backend=backend)(x), x.cumsum(0), rtol=1e-6, atol=0)


def test_a_scan_of_symbolic_sizes_and_its_gradient(real_library):
    fn = lambda x, w: (x * w).cumsum(1).sigmoid()  # noqa: E731
    compiled = torch.compile(fn, backend=backend, dynamic=True)
    for rows, columns in ((3, 50), (17, 64), (1, 129)):
        x = torch.randn(rows, columns)
        ws = [torch.ones(columns, requires_grad=True) for _ in range(2)]
        results = [f(x, w) for f, w in zip((fn, compiled), ws)]
        for r in results:
            r.square().sum().backward()
        torch.testing.assert_close(results[1], results[0])
        torch.testing.assert_close(ws[1].grad, ws[0].grad)
    assert not cinn_like.report().failures


def extremes(x):
    for d in range(x.dim()):
        yield from (*x.max(d), *x.min(d, keepdim=True), x.argmax(d), (x * 2 + 1).argmin(d, keepdim=True))
    yield from (x.argmax(), x.argmin())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", [(3, 7), (2, 1000), (2, 33, 17)], ids=str)
def test_the_first_of_equal_elements_and_nan(real_library, shape, dtype):
    """Along, across and in the middle of rows, lengths that are whole vectors and others."""
    generator = torch.Generator(torch.get_default_device()).manual_seed(3)
    x = torch.randint(0, 6, shape, generator=generator).to(dtype)
    xs = [x, torch.zeros_like(x)]
    if dtype.is_floating_point:
        for odd in ((math.nan,), (math.inf, -math.inf), (math.nan, math.inf), (-math.inf,)):
            y = x.clone().flatten()
            for v in odd:
                y[torch.randint(0, y.numel(), (1 + y.numel() // 50,), generator=generator)] = v
            xs.append(y.reshape(shape))
        xs += [torch.full_like(x, math.nan), torch.full_like(x, -math.inf)]
    compiled = torch.compile(lambda x: tuple(extremes(x)), backend=backend)
    for y in xs:
        for got, expected in zip(compiled(y), extremes(y)):
            torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    assert not cinn_like.report().failures


def test_any_and_all_of_lanes(real_library):
    def of_each(x):
        for d in range(x.dim()):
            yield from (x.any(d), x.all(d), (x > 0).any(), (x > 0).all(d, keepdim=True))

    for shape in ((70, 9), (2, 33, 17), (3, 0)):
        xs = torch.zeros(shape), torch.ones(shape), (torch.rand(shape) > 0.01).float(), torch.full(shape, math.nan)
        compiled = torch.compile(lambda x: tuple(of_each(x)), backend=backend)
        for x in xs:
            for got, expected in zip(compiled(x), of_each(x)):
                assert torch.equal(got, expected)
    assert not cinn_like.report().failures


def test_a_symbolic_net_in_training(real_library):
    """Products of its sizes' bounds are beyond 64 bits; the first of equal elements is the pool's."""
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
              torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
              torch.nn.Flatten(), torch.nn.Linear(16, 10)]  # fmt: skip
    net = torch.nn.Sequential(*layers)
    own = copy.deepcopy(net)
    compiled = torch.compile(own, backend=backend, dynamic=True)
    for shape in ((4, 3, 32, 32), (6, 3, 24, 24)):
        x = torch.randn(shape)
        for f in (net, compiled):
            f(x).square().mean().backward()
    assert not cinn_like.report().fallback_ops and not cinn_like.report().failures
    for p, q in zip(net.parameters(), own.parameters()):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-6)

    def pool(x):
        return F.max_pool2d(x.relu(), 2, return_indices=True)

    for got, expected in zip(torch.compile(pool, backend=backend, dynamic=True)(x), pool(x)):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
