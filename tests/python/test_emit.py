"""What the frontend writes computes what the framework computes, op by op: by the reference evaluator and by the
library."""

import math

import pytest
import torch
import torch.nn.functional as F
from checks import check, rand
from cinn_like.backend import cinn_like as backend

UNARY = "neg abs exp sqrt rsqrt tanh erf sigmoid relu sin cos floor ceil round sign reciprocal log1p expm1 square " \
        "log exp2 log2 log10 trunc isnan isinf logical_not sgn".split()  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool])
def test_unary(engine, name, dtype):
    x = rand(3, 5, dtype=dtype)
    if name in ("sqrt", "rsqrt", "log", "log1p", "log2", "log10", "reciprocal") and dtype != torch.bool:
        x = x.abs() + 1
    if dtype == torch.bool and name in (
        "neg",
        "floor",
        "ceil",
        "round",
        "trunc",
        "sign",
        "square",
        "abs",
        "relu",
        "sgn",
    ):
        pytest.skip("not defined for bool")
    check(lambda x: getattr(torch, name)(x), x)


BINARY = "add sub mul div pow maximum minimum remainder floor_divide eq ne lt le gt ge".split()


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float32), (torch.float32, torch.int64),
                                    (torch.int32, torch.int64),
                                    (torch.float16, torch.float32), (torch.uint8, torch.int8)], ids=str)  # fmt: skip
def test_binary(engine, name, dtypes):
    a, b = rand(4, 1, 5, dtype=dtypes[0]), rand(3, 5, dtype=dtypes[1])
    if name == "pow":
        if not any(d.is_floating_point for d in dtypes):
            pytest.skip("an integer power of tensors is left to the framework")
        a, b = a.abs(), b.abs().clamp(max=4)
    if name in ("remainder", "floor_divide"):
        b = b.abs() + 1
    check(lambda a, b: getattr(torch, name)(a, b), a, b)


@pytest.mark.parametrize("name", [n for n in BINARY if n not in ("maximum", "minimum")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float16])
@pytest.mark.parametrize("scalar", [2, 2.5])
def test_scalar(engine, name, dtype, scalar):
    check(lambda x: getattr(torch, name)(x, scalar), rand(3, 4, dtype=dtype).abs())


CASES = {
    "bools": lambda a, b: (a & b, a | b, a ^ b, ~a, a + b, a * b, torch.logical_and(a, b)),
    "rsub": lambda a, b: 3 - a,
    "alpha": lambda a, b: torch.add(a, b, alpha=3) - torch.sub(a, b, alpha=2),
    "where": lambda a, b: torch.where(a > 0, b, 1),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, -math.inf),
    "clamp": lambda a, b: (a.clamp(-1, 1), a.clamp(min=0), a.clamp(max=b)),
    "div_modes": lambda a, b: (torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc")),
    "casts": lambda a, b: (a.to(torch.float16), a.to(torch.int32), a.bool(), a.double()),
    "activations": lambda a, b: (F.gelu(a), F.gelu(a, approximate="tanh"), F.silu(a), F.leaky_relu(a), F.elu(a),
                                 F.hardtanh(a), F.softplus(a), F.hardswish(a)),
    "reductions": lambda a, b: (a.sum(), a.sum(1), a.mean((0, 1), keepdim=True), a.amax(-1), a.amin(0), a.prod(1),
                                a.max(), (a > 0).any(1), (a > 0).all(), (a > 0).sum()),
    "extremes": lambda a, b: (*a.max(1), *a.min(0, keepdim=True), a.argmax(), a.argmin(1, keepdim=True)),
    "scans": lambda a, b: (a.cumsum(1), (b * 2).cumsum(0) + a, a.cumprod(-1), *a.cummax(1), *b.cummin(0),
                           (a > 0).cumsum(0), a.cumsum(1, dtype=torch.float64)),
    "moments": lambda a, b: (a.var(), a.var(1, correction=0), a.std(0), *torch.var_mean(a, 1)),
    "norm": lambda a, b: (torch.linalg.vector_norm(a, dim=1), F.normalize(a)),
    "softmax": lambda a, b: (a.softmax(1), F.log_softmax(b, 0), a.logsumexp(1)),
    "views": lambda a, b: ((a.reshape(2, 2, 6) + 1).transpose(0, 1), (a + 1).t(), (a * 2).unsqueeze(1),
                           (a * 2)[1:3], (a * 3)[:, -2], (a + b).view(-1)),
    "expanded": lambda a, b: (a[:, None, :].expand(4, 3, 6) + b[:, None], (a * 2).sum(0).expand(5, 6)),
    "movement": lambda a, b: (torch.cat([a, b], 1), torch.stack([a, b]), a.repeat(2, 3), torch.flip(a, [1]),
                              F.pad(a, (1, 2), value=3.0), torch.roll(a, 1, 0)),
    "rolls": lambda a, b: (torch.roll(a, (1, -2), (0, 1)), torch.roll(b, 7), torch.roll(a, 9, -1), torch.roll(b, -1, 0)),
    "fills": lambda a, b: (torch.fill(a, 2), torch.fill(a, b[0, 0])),
    "split": lambda a, b: (*[x + 1 for x in a.split(4, 1)], *[x * 2 for x in b.chunk(2)], *[x * 1 for x in a.unbind(0)]),
    "steps": lambda a, b: (a[::2] + 0, a[:, 1::3] * 2, a[-3:-1] * 2),
    "triangles": lambda a, b: (torch.tril(a), torch.triu(b, 1)),
    "gather": lambda a, b: torch.gather(a, 1, b.argmax(1, keepdim=True)),
    "created": lambda a, b, **on: (torch.arange(4, **on) * 2, torch.arange(1.0, 3.0, 0.5, **on) + a[0, 0],
                                   torch.zeros_like(a) + b, torch.ones(3, **on) * 2, torch.full((2,), 7, **on) + 1,
                                   torch.eye(3, **on) + 1),
    "matmuls": lambda a, b: (a @ b.t(), a[:, None] @ b[:, :, None], torch.addmm(a[:, :4], a, b.t(), beta=2, alpha=0.5),
                             torch.mv(a, b[0]), torch.dot(a[0], b[0])),
    "scatters": lambda a, b: (torch.slice_scatter(a, a[:, :2] * 2, 1, 1, 3), torch.select_scatter(a, b[0], 0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_case(engine, case):
    dtype = torch.bool if case == "bools" else torch.float32
    a, b = rand(4, 6, dtype=dtype), rand(4, 6, dtype=dtype)
    fn = CASES[case]
    check((lambda a, b: fn(a, b, device=a.device)) if case == "created" else fn, a, b)


def test_index(engine):
    def fn(a, i, j, k):
        return a[i] + 1, a[:, i[1:]] * 2, a[j, k] + 0, torch.index_select(a, 1, j)

    check(fn, rand(4, 6), torch.tensor([0, -1, 2]), torch.tensor([0, 1]), torch.tensor([-2, 3]))


def test_an_index_that_the_function_makes(engine):
    check(lambda a: a[torch.tensor([0, -1, 2], device=a.device)] * torch.tensor(2.0, device=a.device), rand(4, 6))


HALF = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_lerp(engine, dtype):
    a, b, t = rand(4, 5, dtype=dtype), rand(4, 5, dtype=dtype), torch.rand(4, 5).to(dtype)
    check(lambda a, b, t: (torch.lerp(a, b, 0.3), torch.lerp(a, b, 0.8), torch.lerp(a, b, t)), a, b, t)


def test_fused_multiply_add(engine):
    check(torch.ops.prims.fma.default, rand(4, 5), rand(4, 5), rand(4, 5))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("bits", [0, 3, 7, 31, 63, 64])
def test_shifts(engine, dtype, bits):
    x = torch.tensor([0, 1, 2, 9, 100, 127, -1, -2, -9, -128]).to(dtype)
    check(lambda x: (x << bits, x >> bits), x)


@pytest.mark.parametrize("dtype", HALF)
def test_numbers_beside_16_bit_floats_are_not_rounded_to_them(real_library, dtype):
    """Bit by bit what eager PyTorch gives on the CPU; elsewhere it multiplies by reciprocals."""

    def fn(x, s):
        return x * 0.1, x + 0.1, x / 3.3, x - 0.7, torch.add(x, x, alpha=0.3), x * s

    x, s = rand(64, dtype=dtype), torch.tensor(0.1)
    for got, want in zip(torch.compile(fn, backend=backend)(x, s), fn(x, s)):
        ulp = torch.finfo(dtype).eps if x.is_cuda else 0
        torch.testing.assert_close(got, want, rtol=ulp, atol=0)


def test_variance_of_16_bit_floats(engine):
    x = rand(8, 300, dtype=torch.float16) + 20
    check(lambda x: (x.var(1), *torch.var_mean(x, 0, correction=0)), x)


GRADIENTS = {
    "gelu": (F.gelu, [(5, 7)]),
    "silu": (F.silu, [(5, 7)]),
    "relu": (F.relu, [(5, 7)]),
    "tanh_sigmoid": (lambda x: torch.tanh(x) * torch.sigmoid(x), [(5, 7)]),
    "softmax": (lambda x: F.softmax(x, 1), [(5, 7)]),
    "log_softmax": (lambda x: F.log_softmax(x, 1), [(5, 7)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (7,), w, b), [(2, 5, 7), (7,), (7,)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (7,), w), [(5, 7), (7,)]),
    "linear": (F.linear, [(2, 5, 7), (3, 7), (3,)]),
    "bmm": (torch.bmm, [(2, 5, 7), (2, 7, 3)]),
    "conv": (lambda x, w, b: F.conv2d(x, w, b, padding=1, stride=2), [(2, 3, 8, 9), (4, 3, 3, 3), (4,)]),
    "conv_groups": (lambda x, w: F.conv2d(x, w, groups=2, dilation=2), [(2, 4, 8, 8), (6, 2, 3, 3)]),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, padding=1), [(2, 3, 8), (4, 3, 3), (4,)]),
    "conv3d": (lambda x, w, b: F.conv3d(x, w, b, padding=1, stride=(2, 1, 2)), [(2, 3, 4, 5, 6), (4, 3, 3, 3, 1), (4,)]),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [(2, 3, 8, 9)]),
    "max_pool3d": (lambda x: F.max_pool3d(x, (2, 3, 1), 2, (1, 1, 0)), [(2, 3, 4, 8, 9)]),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, padding=1, count_include_pad=False), [(3, 4, 8, 8)]),
    "adaptive3d": (lambda x: F.adaptive_avg_pool3d(x, (1, 2, 4)), [(2, 3, 4, 8, 8)]),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2), [(2, 3, 8, 8)]),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 1), [(2, 3, 8, 8)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 5), (4,), (4,)]),
    "slices": (lambda x: x[1:, 2] * x[:-1, -1] + x[0, 0], [(4, 5)]),
    "cat": (lambda a, b: torch.cat([a, b * 2], 1).tanh(), [(4, 5), (4, 3)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(2, 3, 5, 4)] * 3),
    "mse": (lambda a, b: F.mse_loss(a, b), [(4, 5), (4, 5)]),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradient(engine, case):
    fn, shapes = GRADIENTS[case]
    check(fn, *[rand(*s) for s in shapes], grad=True)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(engine, reduction, weighted):
    target = torch.tensor([1, 0, -100, 3])
    weight = torch.rand(5) if weighted else None
    check(lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction), rand(4, 5), target, weight, grad=[0])


@pytest.mark.parametrize("train", [False, True])
def test_batch_norm(engine, train):
    def fn(x, w, b, mean, var):
        return F.batch_norm(x, mean, var, w, b, training=train)

    check(fn, rand(4, 3, 5, 5), rand(3), rand(3), torch.zeros(3), torch.ones(3))


def masks(kind):
    m = torch.rand(2, 1, 5, 6) > 0.3
    m[..., 0] = True
    if kind == "dead_row":
        m[1, :, 2] = False
    return torch.zeros(m.shape).masked_fill(~m, -math.inf) if kind == "float" else m


@pytest.mark.parametrize("mask", ["bool", "float", "dead_row"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "written_out"])
def test_attention_mask(engine, mask, whole):
    """Whole, or for values of another size than the keys, for which the framework has no kernel on the CPU."""
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
          rand(2, 3, 5, 4), rand(2, 3, 6, 4), rand(2, 3, 6, 4 if whole else 3), masks(mask), grad=[0, 1, 2])  # fmt: skip


ATTENTION = {
    "plain": {}, "causal": {"is_causal": True}, "scaled": {"scale": 0.3}, "gqa": {"enable_gqa": True},
    "causal_gqa": {"is_causal": True, "enable_gqa": True},
}  # fmt: skip


@pytest.mark.skipif(torch.get_default_device().type != "cpu", reason="names the kernels of the CPU")
@pytest.mark.parametrize("case", ATTENTION)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_attention_stays_whole(reference, case, dtype):
    """One op of the framework forward, one backward, exactly eager's results, and no scores in the graph."""
    heads = 2 if "gqa" in case else 4
    inputs = [rand(2, n, 40, 8, dtype=dtype) for n in (4, heads, heads)]
    report = check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **ATTENTION[case]), *inputs, grad=True)
    kernel = "aten._scaled_dot_product_flash_attention_for_cpu"
    assert set(report.fallback_ops) == {f"{kernel}.default", f"{kernel}_backward.default"}
    assert not any("40,40]" in f.text for f in reference)


@pytest.mark.skipif(torch.get_default_device().type != "cpu", reason="the kernels of a GPU have other limits")
@pytest.mark.parametrize("case", ["mask_needs_a_gradient", "values_of_another_size", "three_axes"])
def test_attention_without_a_kernel_is_compiled(reference, case):
    fn = lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m)  # noqa: E731
    q, m = rand(2, 3, 5, 4), None
    k, v = rand(2, 3, 6, 4), rand(2, 3, 6, 4)
    if case == "mask_needs_a_gradient":
        m = rand(5, 6)
    elif case == "values_of_another_size":
        v = rand(2, 3, 6, 7)
    else:
        q, k, v = q[0], k[0], v[0]
    assert not check(fn, q, k, v, m, grad=True).fallback_ops and "softmax" in reference[0].text


def test_conv_transpose(engine):
    check(lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
          rand(2, 3, 5, 5), rand(3, 4, 3, 3), rand(4))  # fmt: skip


def test_channels_last_result_keeps_its_strides(engine):
    x = rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    check(lambda x: torch.relu(x) * 2, x)


def test_strided_inputs(engine):
    check(lambda a, b, c: a + b + c, rand(6, 4).t(), rand(8, 12)[::2, ::2], rand(6).expand(4, 6))


def test_empty_and_scalar_tensors(engine):
    check(lambda a, b: (a + 1, a.sum(), torch.cat([a, a], 1), b * 2, b.exp().sum()), rand(0, 3), rand())


def test_large_constants(engine):
    check(
        lambda x: (x + torch.finfo(torch.float32).min, x.clamp(-1e-30, 1e30), torch.where(x > 0, x, math.nan)), rand(5)
    )


def test_rounded_copies_of_other_shapes():
    """16-bit copies of f32 results, transposed or reshaped, which others read in the same kernel or in another."""
    half = torch.bfloat16

    def normalized(x, t):
        z = F.gelu(x).to(half).transpose(1, 2)
        return F.layer_norm((z + t).float(), (6,)).to(half), z.reshape(10, 6)

    def summed(x):
        y = x.exp()
        z = y.to(half).reshape(20, 6)
        return y, z, z.float().sum(1).to(half)

    check(normalized, rand(1, 6, 10), rand(10, 6, dtype=half))
    check(lambda x, t: F.gelu(x).permute(0, 2, 1) + t, rand(1, 6, 10, dtype=half), rand(10, 6, dtype=half))
    check(summed, rand(4, 5, 6))
    check(lambda x, w: (F.silu(x.to(half).permute(0, 2, 1)) * w, x + 1), rand(2, 7, 9), rand(2, 9, 7, dtype=half))
    check(lambda x, w: F.softmax((x * 2).to(half).permute(0, 2, 1).float() + w, -1).to(half), rand(2, 7, 9), rand(2, 9, 7))
