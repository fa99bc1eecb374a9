"""Products whose operands are computed of what is read (weights of integers with scales and zero points, masks), and
products of other types than f32 and bf16, against float64."""

import random

import pytest
import torch

import cinn_like
from checks import backend

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def scaled_rows(r, k, n, dtype):
    w = torch.randint(-128, 128, (n, k), dtype=torch.int8)
    s = (torch.rand(n, 1) / 64).to(dtype)
    return lambda x, w, s: x @ (w.to(x.dtype) * s).t(), (w, s)


def scaled_columns(r, k, n, dtype):
    w = torch.randint(-128, 128, (k, n), dtype=torch.int8)
    s = (torch.rand(n) / 64).to(dtype)
    return lambda x, w, s: x @ (w.to(x.dtype) * s), (w, s)


def groups_with_zero_points(r, k, n, dtype):
    size = r.choice([d for d in (8, 15, 16, 32) if k % d == 0] or [k])
    w = torch.randint(0, 256, (n, k), dtype=torch.uint8)
    s = (torch.rand(n, k // size, 1) / 64).to(dtype)
    z = torch.randint(100, 156, (n, k // size, 1)).to(dtype)

    def run(x, w, s, z):
        return x @ ((w.view(n, k // size, size).to(x.dtype) - z) * s).reshape(n, k).t()

    return run, (w, s, z)


def nibbles(r, k, n, dtype):
    w = torch.randint(0, 256, (n, (k + 1) // 2), dtype=torch.uint8)
    s = (torch.rand(n, 1) / 4).to(dtype)

    def run(x, w, s):
        both = torch.stack((w & 15, w >> 4), -1).reshape(n, -1)[:, :k]
        return x @ ((both.to(x.dtype) - 8) * s).t()

    return run, (w, s)


def scaled_left(r, k, n, dtype):
    w = torch.randint(-128, 128, (n, k), dtype=torch.int8)
    s = (torch.rand(n, 1) / 64).to(dtype)
    return lambda x, w, s: (w.to(x.dtype) * s) @ x.t(), (w, s)


def masked_left(r, k, n, dtype):
    w = torch.randn(k, n).to(dtype)
    return lambda x, w: (x * (x > 0)) @ w + 1, (w,)


KINDS = (scaled_rows, scaled_columns, groups_with_zero_points, nibbles, scaled_left, masked_left)


def right(run, args):
    return run(*(a.double() if a.is_floating_point() else a for a in args))


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_computed_operands(real_library, kind, dtype, dynamic):
    r = random.Random(f"{kind.__name__}{dtype}{dynamic}")
    for _ in range(2):
        m, k, n = r.choice((1, 2, 7, 16, 33, 130)), r.choice((16, 45, 96, 301, 512, 1000)), r.choice((17, 64, 96, 250))
        torch.manual_seed(k)
        run, weights = kind(r, k, n, dtype)
        args = (torch.randn(m, k).to(dtype), *weights)
        torch._dynamo.reset()
        cinn_like.reset_report()
        got = torch.compile(run, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
        expected = right(run, args)
        most = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype] * float(expected.abs().max())
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=most, msg=lambda t: f"{m} {k} {n}\n{t}")
        assert not cinn_like.report().failures and not any(s.refused for s in cinn_like.report().subgraphs), (m, k, n)


on_cpu = pytest.mark.skipif(torch.get_default_device().type != "cpu", reason="eager has these, of any shape, on the CPU alone")
BYTE_PRODUCTS = (
    lambda x, w: torch._int_mm(x, w.t()),
    lambda x, w: torch._int_mm(w, x.t()) + 1,
    lambda x, w: x.to(torch.int32) @ w.t().to(torch.int32),
    lambda x, w: (torch._int_mm(x, w.t()) * 0.5).relu(),
)


@on_cpu
@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("run", BYTE_PRODUCTS)
def test_products_of_bytes(real_library, run, dynamic):
    """`torch._int_mm` and what it is written as, of operands in any layout, at the ends of what bytes hold."""
    r = random.Random(dynamic)
    torch.manual_seed(dynamic)
    for m, k, n in ((17, 64, 96), (33, 300, 72), (64, 97, 40), (r.randint(2, 90), r.randint(2, 90), r.randint(2, 90))):
        for transposed in (False, True):
            x = torch.randint(-128, 128, (k, m) if transposed else (m, k), dtype=torch.int8)
            x = x.t() if transposed else x
            w = torch.randint(-128, 128, (n, k), dtype=torch.int8)
            for of in (lambda t: t, lambda t: torch.where(t < 0, -128, 127).to(torch.int8), lambda t: t * 0 - 128):
                torch._dynamo.reset()
                cinn_like.reset_report()
                got = torch.compile(run, backend=backend, fullgraph=True, dynamic=dynamic)(of(x), of(w))
                assert torch.equal(got, run(of(x), of(w))), (m, k, n, transposed)
                report = cinn_like.report()
                assert not report.failures and not any(s.refused for s in report.subgraphs)


@on_cpu
@pytest.mark.parametrize("dtype", (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64))
def test_products_of_integers(real_library, dtype):
    r = random.Random(str(dtype))
    for m, k, n in ((1, 64, 96), (33, 301, 77), (64, 96, 40), (r.randint(2, 90), r.randint(2, 90), r.randint(2, 90))):
        low = 0 if dtype == torch.uint8 else -99
        x, w = torch.randint(low, 100, (m, k), dtype=dtype), torch.randint(low, 100, (n, k), dtype=dtype)
        for run in (lambda x, w: x @ w.t(), lambda x, w: x.to(torch.int32) @ w.t().to(torch.int32) + 1):
            torch._dynamo.reset()
            got = torch.compile(run, backend=backend, fullgraph=True, dynamic=False)(x, w)
            assert torch.equal(got, run(x, w)), (m, k, n)
