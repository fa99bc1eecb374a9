"""Attention in the ways in which it is written out: one kernel on a CPU, without a matrix of scores, whatever the spelling."""

import pytest
import torch

import cinn_like

BATCH, HEADS, ROWS, SIZE = 2, 4, 96, 32
INF = float("inf")


def turned(x):
    return x.transpose(-1, -2)


def scores(q, k):
    return q @ turned(k) * SIZE**-0.5


def places(q, k):
    return torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None, :]


def plain(q, k, v):
    return torch.softmax(scores(q, k), -1) @ v


def scaled_before(q, k, v):
    return torch.softmax((q * SIZE**-0.5) @ turned(k), -1) @ v


def causal(q, k, v):
    i, j = places(q, k)
    return torch.softmax(torch.where(j <= i, scores(q, k), -INF), -1) @ v


def causal_by_mask(q, k, v):
    i, j = places(q, k)
    return torch.softmax(scores(q, k).masked_fill(j > i, -INF), -1) @ v


def causal_by_sum(q, k, v):
    mask = torch.full((q.shape[-2], k.shape[-2]), -INF).triu(1)
    return torch.softmax(scores(q, k) + mask, -1) @ v


def late(q, k, v):  # the first rows see nothing, others begin in a later tile
    i, j = places(q, k)
    return torch.softmax(torch.where((j > i + 20) & (i > 4), scores(q, k), -INF), -1) @ v


def window(q, k, v):
    i, j = places(q, k)
    return torch.softmax(torch.where((j <= i) & (i < j + 17), scores(q, k), -INF), -1) @ v


def alibi(q, k, v):
    i, j = places(q, k)
    slopes = 2.0 ** -torch.arange(1, HEADS + 1).to(q.dtype)
    return torch.softmax(scores(q, k) + slopes[:, None, None] * (j - i), -1) @ v


def soft_cap(q, k, v):
    return torch.softmax(torch.tanh(scores(q, k) / 5.0) * 5.0, -1) @ v


def divided_after(q, k, v):
    s = scores(q, k)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e @ v) / e.sum(-1, keepdim=True)


def divided_before(q, k, v):
    s = scores(q, k)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)) @ v


def without_maximum(q, k, v):
    e = torch.exp(scores(q, k))
    return e / e.sum(-1, keepdim=True) @ v


def einsum(q, k, v):
    a = torch.einsum("bhid,bhjd->bhij", q, k).mul(0.2).softmax(-1)
    return torch.einsum("bhij,bhjd->bhid", a, v)


def heads_inside(q, k, v):
    q, k, v = (x.reshape(BATCH, -1, HEADS, SIZE).transpose(1, 2) for x in (q, k, v))
    return plain(q, k, v).transpose(1, 2).reshape(BATCH, -1, HEADS * SIZE)


def groups(q, k, v):
    k, v = (x[:, :2].repeat_interleave(2, 1) for x in (k, v))
    return plain(q, k, v)


def grouped(q, k, v):
    q = q.reshape(BATCH, 2, 2, ROWS, SIZE)
    a = torch.einsum("bgrid,bgjd->bgrij", q, k[:, :2]).mul(0.2).softmax(-1)
    return torch.einsum("bgrij,bgjd->bgrid", a, v[:, :2])


def flat(q, k, v):
    q, k, v = (x.reshape(BATCH * HEADS, -1, SIZE) for x in (q, k, v))
    return torch.bmm(torch.softmax(torch.bmm(q, turned(k)) * 0.2, -1), v)


def in_f32(q, k, v):
    return torch.softmax(scores(q, k).float(), -1).to(q.dtype) @ v


def with_bias(q, k, v, bias):
    return torch.softmax(scores(q, k) + bias, -1) @ v


def with_padding(q, k, v, keep):
    return torch.softmax(scores(q, k).masked_fill(~keep[:, None, None, :], -INF), -1) @ v


WRITTEN = [plain, scaled_before, causal, causal_by_mask, causal_by_sum, late, window, alibi, soft_cap, divided_after,
           divided_before, without_maximum, einsum, heads_inside, groups, grouped, flat, in_f32]


def tensors(rows=ROWS, keys=ROWS, dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(BATCH, HEADS, n, SIZE, generator=g).to(dtype) for n in (rows, keys, keys)]


def check(f, args, chained=True, tolerance=2e-5):
    torch._dynamo.reset()
    cinn_like.reset_report()
    with torch.no_grad():
        got = torch.compile(f, backend="cinn_like")(*args)
    want = f(*[x.double() if x.is_floating_point() else x for x in args])
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance, equal_nan=True)
    report = cinn_like.report()
    assert not report.failures
    assert [r for s in report.subgraphs for r in s.refused] == []
    tactics = [t.split(": ")[1] for s in report.subgraphs for t in s.tactics]
    if chained is None or torch.get_default_device().type != "cpu":
        return
    assert tactics.count("chain_cpu") == int(chained), tactics
    if chained:  # the two products are in it
        assert "matmul_cpu" not in tactics


def test_symbolic_lengths():
    torch._dynamo.reset()
    compiled = torch.compile(causal, backend="cinn_like", dynamic=True)
    for rows in (96, 97, 130, 31):
        args = tensors(rows, rows)
        with torch.no_grad():
            got = compiled(*args)
        torch.testing.assert_close(got.double(), causal(*[x.double() for x in args]), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("f", WRITTEN, ids=lambda f: f.__name__)
def test_written_out(f):
    check(f, tensors())


@pytest.mark.parametrize("rows, keys", [(96, 77), (33, 40), (200, 256), (96, 3), (64, 601), (1, 300), (5, 1)])
def test_sizes(rows, keys):  # who is cheaper is another matter
    for f in (plain, causal):
        check(f, tensors(rows, keys), chained=None)


def test_masks_of_the_caller():
    g = torch.Generator().manual_seed(1)
    check(with_bias, [*tensors(), torch.randn(HEADS, ROWS, ROWS, generator=g)])
    keep = torch.rand(BATCH, ROWS, generator=g) < 0.7
    keep[0, :50] = False
    check(with_padding, [*tensors(), keep])
    keep[1] = False  # every row of it is NaN, as in eager
    check(with_padding, [*tensors(), keep])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types(dtype):
    for f in (plain, causal, in_f32):
        check(f, tensors(dtype=dtype), tolerance=2e-2)


def test_large_scores():
    q, k, v = tensors()
    check(plain, [q * 100, k * 10, v], tolerance=1e-3)


def test_what_is_read_elsewhere_stays_apart():
    def weights_too(q, k, v):
        a = torch.softmax(scores(q, k), -1)
        return torch.cat([a @ v, a], -1)

    check(weights_too, tensors(), chained=False)
