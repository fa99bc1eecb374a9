"""cinn_numerics=exact: every operation rounds as eager PyTorch's, bit by bit where IEEE 754 defines the result."""

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from cinn_like.backend import cinn_like as backend

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.fixture(params=["fused", "exact"])
def numerics(request, real_library):
    before = cinn_like.get_flag("cinn_numerics")
    cinn_like.set_flag("cinn_numerics", request.param)
    yield request.param
    cinn_like.set_flag("cinn_numerics", before)


@pytest.fixture
def exact(real_library):
    before = cinn_like.get_flag("cinn_numerics")
    cinn_like.set_flag("cinn_numerics", "exact")
    yield
    cinn_like.set_flag("cinn_numerics", before)


CHAINS = {
    "multiply_add": lambda a, b, c: a * b + c,
    "polynomial": lambda a, b, c: ((a * b + c) * b - a) * c + b,
    "quotients": lambda a, b, c: (a / (b.abs() + 0.3) - c) / (c * c + 3.0) + (c * 0.1).abs(),
    "number_sums": lambda a, b, c: (a + 0.1) * 0.7 - (b - 0.3) + c,
    "extremes": lambda a, b, c: torch.maximum(a * b, c).clamp(-0.7, 1.3) - torch.where(a > b, a * 0.3, -b),
    "up_and_down": lambda a, b, c: ((a.float() * b.float()).to(a.dtype) + c).double().mul(1 / 3).to(a.dtype),
    "rounding": lambda a, b, c: (a * 100).round() * 0.01 + (b * 7).floor() + (c * 3).trunc() - a.sign(),
    "number_tensor": lambda a, b, c: a * b.new_full((), 0.1, dtype=torch.float64) + c,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_chain(numerics, name, dtype):
    inputs = [torch.randn(1000, dtype=torch.float64).to(dtype) for _ in range(3)]
    fn = CHAINS[name]
    got, want = torch.compile(fn, backend=backend, fullgraph=True)(*inputs), fn(*inputs)
    assert got.dtype == want.dtype and not cinn_like.report().fallback_ops
    if numerics == "exact":
        assert torch.equal(got, want), f"{(got != want).sum()} of {got.numel()} differ"
    else:
        exact = fn(*[x.double() for x in inputs])
        bound = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
        assert ((got.double() - exact).abs() / exact.abs().clamp(min=1)).max() < 8 * bound


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_functions_round_once_each(numerics, dtype):
    """What precedes and follows a function of 16-bit floats is rounded too; its own last bit may differ from eager's,
    as its f32 value does before rounding."""
    x = torch.randn(4000, dtype=torch.float64).to(dtype)
    fn = lambda x: torch.tanh(x * 1.7) * 3.3 + torch.exp(x - 1.1)  # noqa: E731
    got, want = torch.compile(fn, backend=backend, fullgraph=True)(x), fn(x)
    if numerics == "exact":
        assert (got != want).float().mean() < 2e-3
    else:
        # Intermediates stay in f32: nearer to the truth than eager.
        exact = fn(x.double())
        assert (got.double() - exact).abs().mean() < (want.double() - exact).abs().mean()


def test_square_roots_are_rounded_correctly(numerics):
    """Eager PyTorch's are not, where it has them from MKL."""
    if numerics == "fused" and torch.get_default_device().type == "cuda":
        pytest.skip("an approximation on CUDA")
    x = torch.rand(4000, dtype=torch.float64).float()
    got = torch.compile(lambda x: x.sqrt(), backend=backend, fullgraph=True)(x)
    assert torch.equal(got, x.double().sqrt().float())


def test_integers_wrap_alike(numerics):
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        a, b = (torch.randint(torch.iinfo(dtype).min, torch.iinfo(dtype).max, (500,), dtype=dtype) for _ in range(2))
        fn = lambda a, b: ((a * b + 7) ^ (a - b), torch.maximum(a, b) * 3)  # noqa: E731
        torch._dynamo.reset()
        for got, want in zip(torch.compile(fn, backend=backend, fullgraph=True)(a, b), fn(a, b)):
            assert torch.equal(got, want)


def whole(x):
    """Whole numbers of 16 bits, whose products are summed without a rounding, in any order."""
    return (x * 2).round().clamp(-4, 4)


# What is fused into one kernel or library call, as steps: a function of the step before and the inputs.
STEPS = {
    "linear_relu": [
        lambda x, w, b, c: whole(x) @ whole(w),
        lambda y, w, b, c: y + b,
        lambda y, w, b, c: torch.relu(y),
    ],
    "linear_gelu": [
        lambda x, w, b, c: whole(x) @ whole(w) * 0.01,
        lambda y, w, b, c: y + b,
        lambda y, w, b, c: F.gelu(y, approximate="tanh"),
        lambda y, w, b, c: y * 1.7 + c,
        lambda y, w, b, c: F.gelu(y),
    ],
    "written_gelu": [
        lambda x, w, b, c: whole(x) @ whole(w) * 0.01,
        lambda y, w, b, c: 0.5 * y * (1.0 + torch.tanh(0.7978845608 * (y + 0.044715 * y**3))),
    ],
    "softmax": [
        lambda x, w, b, c: x * 1.7 + b,
        lambda y, w, b, c: torch.softmax(y, -1),
        lambda y, w, b, c: y * 3.3 - c,
    ],
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("device", [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")),
])  # fmt: skip
def test_exact_numerics_round_between_steps(exact, device, name, dtype):
    """One compiled function has every bit of its steps compiled each alone, which store what they round. Large enough
    for a library's product."""
    x, w, c = (torch.randn(512, 512, dtype=torch.float64).to(device, dtype) for _ in range(3))
    b = torch.randn(512, dtype=torch.float64).to(device, dtype)

    def together(x):
        for step in STEPS[name]:
            x = step(x, w, b, c)
        return x

    want = x
    for step in STEPS[name]:
        torch._dynamo.reset()
        want = torch.compile(lambda x, step=step: step(x, w, b, c), backend=backend, fullgraph=True)(want)
    torch._dynamo.reset()
    got = torch.compile(together, backend=backend, fullgraph=True)(x)
    assert not cinn_like.report().fallback_ops
    # The order of a sum is not part of the contract, and a block of threads may cut a row otherwise.
    allowed = 2e-3 * got.numel() if name == "softmax" and device == "cuda" else 0
    assert (got != want).sum() <= allowed, f"{(got != want).sum()} of {got.numel()} differ"
    if name == "linear_relu":
        assert torch.equal(got, together(x))


# What one accumulator adds up to is long: of positive values, so that it grows.
LONG_SUMS = {
    "all": lambda x: (x * x).sum(),
    "columns": lambda x: (x * x).sum(0),
    "rows": lambda x: (x.reshape(4, -1) * 0.7).sum(1),
    "around": lambda x: (x[:, :, None] * x[:, None, :8]).sum((0, 2)),
    "moments": lambda x: x.var(0),
    "softmax": lambda x: torch.softmax(x, 0),
    "product": lambda x: x[:, :48].t() @ x[:, 48:],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LONG_SUMS)
def test_long_sums(real_library, name, dynamic):
    x, fn = torch.rand(65536, 64), LONG_SUMS[name]
    if dynamic:
        torch._dynamo.mark_dynamic(x, 0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums are not shared out
    compiled = torch.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)
    try:
        got, want = compiled(x), fn(x.double())
    finally:
        torch.set_num_threads(threads)
    assert not cinn_like.report().fallback_ops
    assert ((got.double() - want).abs().max() / want.abs().max()) < 2e-6
