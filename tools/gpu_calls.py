#!/usr/bin/env python3
"""Functions through torch.compile on this machine's GPU: right? how fast, in how much memory, beside eager and Inductor?
Matrix products with and without the matrix library and in TF32, large reductions, transposes, convolutions, attention
(written out, causal, decoding), and a small encoder.

python3 tools/gpu_calls.py [--only WORD,WORD] [--no-inductor] [--out FOLDER]; CINN_LIKE_LIBRARY names libcinn_like.so.
Needs PyTorch with CUDA, and an NVRTC that PyTorch brings. A row that is timed: microseconds of a call on the GPU, and the
most memory that the framework's allocator holds for it (results and scratch) beyond what it held before.
"""

import argparse
import contextlib
import copy
import json
import pathlib
import statistics
import sys
import time
import traceback
from math import inf

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from gpu_bench import DEVICE, TOLERANCE, find_nvrtc, microseconds, wide  # noqa: E402

import cinn_like  # noqa: E402
from cinn_like import library  # noqa: E402
from cinn_like.backend import cinn_like as backend  # noqa: E402
from cinn_like.function import default_target  # noqa: E402

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def randn(*shape, dtype=F32, scale=1.0):
    return lambda: (torch.randn(shape, device=DEVICE) * scale).to(dtype)


def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b), approximate="tanh")


def linear_relu(x, w, b):
    return F.relu(F.linear(x, w, b))


def swiglu(x, w, v):
    return F.silu(x @ w) * (x @ v)


def linear_swiglu(x, gate, up):
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def projections(x, q, k, v, b, c, d):
    return F.linear(x, q, b), F.linear(x, k, c), F.linear(x, v, d)


def weights(count, n, k):
    return [randn(n, k, dtype=BF16, scale=k**-0.5) for _ in range(count)]


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def scores(q, k):
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


def distances(q, k):
    return torch.arange(q.shape[-2], device=q.device)[:, None] - torch.arange(k.shape[-2], device=q.device)[None, :]


def causal_written(q, k, v):
    return torch.softmax(scores(q, k).masked_fill(distances(q, k) < 0, -inf), -1) @ v


def window_written(q, k, v):
    d = distances(q, k)
    return torch.softmax(scores(q, k).masked_fill((d < 0) | (d > 256), -inf), -1) @ v


def soft_cap_written(q, k, v):
    return torch.softmax(30 * torch.tanh(scores(q, k) / 30), -1) @ v


def alibi_written(q, k, v):
    slopes = torch.exp2(-8.0 * torch.arange(1, q.shape[1] + 1, device=q.device) / q.shape[1])
    return torch.softmax(scores(q, k) - (distances(q, k) * slopes[:, None, None]).to(q.dtype), -1) @ v


def groups_written(q, k, v):
    return attention(q, *(x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v)))


def heads(x, n):
    return x.unflatten(-1, (n, -1)).transpose(-2, -3)


def attention_in_rows(q, k, v):
    """Heads lie inside of rows, as a linear layer leaves them."""
    return attention(heads(q, 12), heads(k, 12), heads(v, 12)).transpose(-2, -3).flatten(-2)


def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def conv_relu(x, w, b):
    return F.relu(F.conv2d(x, w, b, padding=1))


def norm_gradients(dy, x, mean, rstd, w):
    return torch.ops.aten.native_layer_norm_backward(dy, x, [x.shape[-1]], mean, rstd, w, w, [True, True, True])


def gelu_gradients(dy, x):
    """Of what a linear layer gives, and of its bias."""
    d = torch.ops.aten.gelu_backward(dy, x)
    return d, d.sum(tuple(range(x.dim() - 1)))


def norm_inputs(*shape, dtype):
    rows = (*shape[:-1], 1)
    return [randn(*shape, dtype=dtype), randn(*shape, dtype=dtype), randn(*rows), lambda: torch.rand(rows, device=DEVICE) + 0.5, randn(shape[-1], dtype=dtype)]


def scaled_weights(x, w, s):
    """Integers, a scale for each row of them."""
    return x @ (w.to(x.dtype) * s).t()


def scaled_product(x, w, s):
    return F.linear(x, w.to(x.dtype)) * s


def scaled_groups(x, w, s, z):
    """A scale and a zero point for each group of a row."""
    return x @ ((w.unflatten(1, (s.shape[1], -1)).to(x.dtype) - z) * s).flatten(1).t()


def integers(*shape, least=-127, most=128, dtype=torch.int8):
    return lambda: torch.randint(least, most, shape, device=DEVICE, dtype=dtype)


def scales(*shape):
    return lambda: ((torch.rand(shape, device=DEVICE) + 0.5) / 2000).to(BF16)


class Encoder(nn.Module):
    """The shape of MiniLM: 6 layers of 384, 12 heads."""

    def __init__(self, width=384, layers=6):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                **{name: nn.Linear(width, width) for name in "qkvo"},
                "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
                "norm1": nn.LayerNorm(width), "norm2": nn.LayerNorm(width),
            }) for _ in range(layers)
        )  # fmt: skip

    def forward(self, x):
        for a in self.layers:
            x = a["norm1"](x + a["o"](attention_in_rows(a["q"](x), a["k"](x), a["v"](x))))
            x = a["norm2"](x + a["down"](F.gelu(a["up"](x))))
        return x


def product(m, k, n, dtype):
    return [randn(m, k, dtype=dtype), randn(k, n, dtype=dtype, scale=k**-0.5)]


def linear(m, k, n, dtype):
    return [randn(m, k, dtype=dtype), randn(n, k, dtype=dtype, scale=k**-0.5), randn(n, dtype=dtype)]


# name, function, inputs; each with the library and without
CHECKS = [
    *[(f"matmul {m}x{k}x{n} {str(t)[6:]}", torch.matmul, product(m, k, n, t))
      for t in (F32, F64, F16, BF16) for m, k, n in ((100, 77, 130), (1, 64, 64), (127, 4097, 33), (256, 256, 128), (129, 1, 65))],
    *[(f"{f.__name__} {str(t)[6:]}", f, linear(70, 96, 136, t)) for t in (F32, F16, BF16) for f in (F.linear, linear_gelu, linear_relu)],
    ("linear 3d", linear_gelu, [randn(5, 7, 96, dtype=F16), randn(40, 96, dtype=F16), randn(40, dtype=F16)]),
    ("relu of NaN", lambda x, w, b: F.relu(F.linear(x * float("inf"), w, b)).isnan(), linear(64, 64, 64, F32)),
    ("transposes", lambda x, y: (x.t() @ y.t()).t(), [randn(64, 40, dtype=F16), randn(72, 64, dtype=F16)]),
    ("batched", torch.matmul, [randn(6, 3, 40, 72, dtype=BF16), randn(6, 3, 72, 24, dtype=BF16)]),
    ("batched by one", torch.matmul, [randn(6, 40, 72), randn(72, 24)]),
    ("batched f64", torch.matmul, [randn(6, 40, 72, dtype=F64), randn(6, 72, 24, dtype=F64)]),
    ("mixed with a gradient", lambda x, w, g: (g @ w, g.t() @ x), [randn(50, 96, dtype=F16), randn(40, 96, dtype=F16), randn(50, 40, dtype=F16)]),
    ("attention in rows", attention_in_rows, [randn(2, 64, 384, dtype=F16) for _ in "qkv"]),
    ("attention f32", attention, [randn(2, 3, 65, 40) for _ in "qkv"]),
    *[(f"conv {str(t)[6:]}", conv_relu, [randn(5, 16, 13, 11, dtype=t), randn(24, 16, 3, 3, dtype=t, scale=0.1), randn(24, dtype=t)]) for t in (F32, F16)],
    ("conv stride 2", lambda x, w: F.conv2d(x, w, stride=2, padding=1), [randn(5, 8, 13, 11), randn(12, 8, 3, 3, scale=0.1)]),
    ("conv groups", lambda x, w: F.conv2d(x, w, groups=2), [randn(5, 8, 13, 11), randn(12, 4, 3, 3, scale=0.1)]),
    ("digits conv", conv_relu, [randn(64, 1, 8, 8), randn(16, 1, 3, 3), randn(16)]),
    ("sum", lambda x: x.sum(), [randn(1000, 1013)]),
    ("sums of halves", lambda x: x.sum(1), [randn(2, 500_000)]),
    ("column sums of few columns", lambda x: x.sum(0), [randn(100_003, 5)]),
    ("argmax of all", lambda x: x.flatten().argmax(), [randn(300, 1013)]),
    ("argmax", lambda x: (x.argmax(0), x.argmax(1)), [randn(300, 1013)]),
    ("max and where", lambda x: x.max(1), [randn(300, 1013)]),
    ("layer_norm of the middle", lambda x: (x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, keepdim=True) + 1e-5), [randn(20, 127, 30)]),
]  # fmt: skip


def whole(x):
    return x


def two_heads(x):
    return x[:1, :2]


def one_sequence(x):
    return x[:1]


# name, function, inputs, floating-point operations (0: none to speak of), and where it is not the default: the part of each
# input and result that is compared with float64 (the whole would need too much memory), the precision of f32 products
TIMED = [
    ("matmul 8192^3 bf16", torch.matmul, product(8192, 8192, 8192, BF16), 2 * 8192**3),
    ("matmul 4096^3 bf16", torch.matmul, product(4096, 4096, 4096, BF16), 2 * 4096**3),
    ("matmul 16x8192x8192 bf16", torch.matmul, product(16, 8192, 8192, BF16), 2 * 16 * 8192**2),
    ("matmul 1024x4096x11008 bf16", torch.matmul, product(1024, 4096, 11008, BF16), 2 * 1024 * 4096 * 11008),
    ("matmul+bias+gelu 8192x4096x16384 bf16", linear_gelu, linear(8192, 4096, 16384, BF16), 2 * 8192 * 4096 * 16384),
    ("two matmuls+SwiGLU 8192x4096x14336 bf16", swiglu,
     [*product(8192, 4096, 14336, BF16), randn(4096, 14336, dtype=BF16, scale=1 / 64)], 4 * 8192 * 4096 * 14336),
    ("matmul 4096^3 f32", torch.matmul, product(4096, 4096, 4096, F32), 2 * 4096**3),
    ("matmul 4096^3 TF32", torch.matmul, product(4096, 4096, 4096, F32), 2 * 4096**3, whole, "high"),
    *[(f"int8 weights scaled {m}x8192x8192 bf16", scaled_weights, [randn(m, 8192, dtype=BF16), integers(8192, 8192), scales(8192, 1)], 0)
      for m in (1, 2, 4, 8, 16, 32, 64, 128, 256)],
    *[(f"int8 product scaled {m}x4096x11008 bf16", scaled_product, [randn(m, 4096, dtype=BF16), integers(11008, 4096), scales(11008)], 0)
      for m in (1, 16)],
    *[(f"4-bit weights, scaled groups {m}x4096x11008 bf16", scaled_groups,
       [randn(m, 4096, dtype=BF16), integers(11008, 4096, least=0, most=16, dtype=torch.uint8), scales(11008, 32, 1),
        lambda: torch.randint(4, 12, (11008, 32, 1), device=DEVICE).to(BF16)], 0) for m in (1, 16)],
    *[(f"one pass: SwiGLU {m}x{k}x{n} bf16", linear_swiglu, [randn(m, k, dtype=BF16), *weights(2, n, k)], 4 * m * n * k)
      for m, k, n in ((1, 4096, 14336), (16, 4096, 14336), (128, 4096, 14336), (512, 4096, 14336), (8192, 4096, 14336), (4096, 1024, 2816))],
    *[(f"one pass: queries, keys, values {m}x{k}x{n} bf16", projections,
       [randn(m, k, dtype=BF16), *weights(3, n, k), *[randn(n, dtype=BF16) for _ in range(3)]], 6 * m * n * k)
      for m, k, n in ((128, 768, 768), (512, 1024, 1024), (4096, 768, 768), (16, 4096, 4096))],
    *[(f"one row: linear {k}x{n} bf16", F.linear, [randn(1, k, dtype=BF16), *weights(1, n, k)], 0)
      for k, n in ((4096, 4096), (14336, 4096), (4096, 128256))],
    ("one row: matmul 4096x14336 bf16", torch.matmul, product(1, 4096, 14336, BF16), 0),
    ("batched 256x512x64x512 bf16", torch.matmul, [randn(256, 512, 64, dtype=BF16), randn(256, 64, 512, dtype=BF16)], 2 * 256 * 512 * 64 * 512),
    ("attention 16x16x512x64 bf16", attention, [randn(16, 16, 512, 64, dtype=BF16) for _ in "qkv"], 4 * 256 * 512 * 512 * 64),
    *[(f"attention {name}, written out, 8x16x1024x64 bf16", f, [randn(8, 16, 1024, 64, dtype=BF16) for _ in "qkv"], 4 * 128 * 1024**2 * 64, one_sequence)
      for name, f in (("plain", attention), ("causal", causal_written), ("of a window", window_written), ("soft cap", soft_cap_written),
                      ("ALiBi", alibi_written))],
    ("attention of groups, written out, 4x32/8x1024x128 bf16", groups_written,
     [randn(4, 32, 1024, 128, dtype=BF16), *[randn(4, 8, 1024, 128, dtype=BF16) for _ in "kv"]], 4 * 128 * 1024**2 * 128, one_sequence),
    ("causal attention 4x32x4096x128 bf16", causal_attention, [randn(4, 32, 4096, 128, dtype=BF16) for _ in "qkv"], 2 * 4 * 32 * 4096**2 * 128,
     two_heads),
    ("GQA decoding 32x32/8x4096x128 bf16", grouped_attention,
     [randn(32, 32, 1, 128, dtype=BF16), *[randn(32, 8, 4096, 128, dtype=BF16) for _ in "kv"]], 0, one_sequence),
    ("conv3x3 64x64x56x56 bf16", conv_relu, [randn(64, 64, 56, 56, dtype=BF16), randn(64, 64, 3, 3, dtype=BF16, scale=0.05), randn(64, dtype=BF16)],
     2 * 64 * 56 * 56 * 64 * 64 * 9),
    ("digits conv 256x16x8x8 f32", conv_relu, [randn(256, 16, 8, 8), randn(32, 16, 3, 3, scale=0.1), randn(32)], 2 * 256 * 64 * 32 * 16 * 9),
    ("column sum 65536x2048 f32", lambda x: x.sum(0), [randn(65536, 2048)], 0),
    ("sum(x*x) 2^28 f32", lambda x: (x * x).sum(), [randn(1 << 28)], 0),
    ("transpose+bias 8192^2 f32", lambda x, b: (x.t() + b).contiguous(), [randn(8192, 8192), randn(8192)], 0),
    ("softmax 4096x50257 bf16", lambda x: F.softmax(x, 1), [randn(4096, 50257, dtype=BF16)], 0),
    ("softmax first axis 4097x16384 bf16", lambda x: F.softmax(x, 0), [randn(4097, 16384, dtype=BF16)], 0),
    ("softmax first axis 4096x16384 bf16", lambda x: F.softmax(x, 0), [randn(4096, 16384, dtype=BF16)], 0),
    ("softmax 4096x32000 bf16", lambda x: F.softmax(x, 1), [randn(4096, 32000, dtype=BF16)], 0),
    ("softmax 2048x128256 bf16", lambda x: F.softmax(x, 1), [randn(2048, 128256, dtype=BF16)], 0),
    ("log-softmax 8192x50257 bf16", lambda x: F.log_softmax(x, 1), [randn(8192, 50257, dtype=BF16)], 0),
    ("argmax 16384x4096 f32", lambda x: x.argmax(1), [randn(16384, 4096)], 0),
    ("argmax first axis 4096x16384 f32", lambda x: x.argmax(0), [randn(4096, 16384)], 0),
    *[(f"norm gradients {'x'.join(map(str, s))} {str(t)[6:]}", norm_gradients, norm_inputs(*s, dtype=t), 0)
      for s, t in (((16384, 4096), BF16), ((65536, 1024), BF16), ((8, 1024, 768), BF16), ((64, 512, 768), BF16), ((65536, 768), F32))],
    *[(f"gelu gradients {'x'.join(map(str, s))} bf16", gelu_gradients, [randn(*s, dtype=BF16) for _ in "yx"], 0)
      for s in ((16384, 4096), (16, 1024, 3072))],
    ("SwiGLU 32768x8192 bf16", lambda a, b: F.silu(a) * b, [randn(32768, 8192, dtype=BF16) for _ in "ab"], 0),
]  # fmt: skip
# Also without the library.
OWN = ("matmul 4096^3 bf16", "matmul 4096^3 f32", "attention 16x16", "conv", "digits", "batched")


def compiled(fn, libs=True, **options):
    target = default_target(DEVICE) if libs else default_target(DEVICE).split(" -libs")[0]
    return torch.compile(fn, backend=backend, fullgraph=True, options={"target": target}, **options)


def error_of(got, expected):
    got, expected = (x if isinstance(x, (tuple, list)) else (x,) for x in (got, expected))
    worst = 0.0
    for a, b in zip(got, expected):
        a, b = (x.double() for x in (a, b))
        same = (a == b) | (a.isnan() & b.isnan())
        worst = max(worst, torch.where(same, 0.0, (a - b).abs() / (b.abs() + 0.02 * b.abs().max() + 1e-30)).nan_to_num(inf).max().item())
    return worst


def tolerance_of(fn, inputs, expected):
    """Rounding, and twice what eager is off by."""
    with torch.no_grad():
        return max({**TOLERANCE, F32: 1e-4, F64: 1e-11}[inputs[0].dtype], 2 * error_of(fn(*inputs), expected))


@contextlib.contextmanager
def matmul_precision(precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def peak_bytes(run, inputs):
    """Of a call that is not the first: neither what compiling takes nor the libraries' lasting workspaces."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(*inputs)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--out", default=".")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.zeros(1, device=DEVICE)
    if nvrtc := find_nvrtc():
        library.get().set_flag("cinn_nvrtc", nvrtc)
    lines, report, bad = [], {}, 0

    def say(line):
        print(line, flush=True)
        lines.append(line)
        (out / "calls.txt").write_text("\n".join(lines) + "\n")
        (out / "calls.json").write_text(json.dumps(report, indent=1))

    def wanted(name):
        return any(word in name for word in args.only.split(","))

    def kernels():
        return sum(s.kernels for s in cinn_like.report().subgraphs)

    torch.manual_seed(1)
    for name, fn, make in CHECKS:
        if not wanted(name):
            continue
        inputs = [m() for m in make]
        expected = fn(*[wide(x) for x in inputs])
        for libs in (True, False):
            try:
                torch._dynamo.reset()
                cinn_like.reset_report()
                error = error_of(compiled(fn, libs, dynamic=False)(*inputs), expected)
                right = error <= tolerance_of(fn, inputs, expected)
                bad += not right
                say(f"{'ok   ' if right else 'WRONG'} {name:36} {'library' if libs else 'own':8} error {error:.2g}, {kernels()} kernels")
                report[f"{name} {libs}"] = error
            except Exception as why:
                bad += 1
                say(f"WRONG {name:36} {'library' if libs else 'own':8} {type(why).__name__}: {str(why)[:600]}")

    if wanted("dynamic"):
        torch._dynamo.reset()
        cinn_like.reset_report()
        f = compiled(linear_gelu, dynamic=True)
        for rows in (33, 70, 129):
            inputs = [m() for m in linear(rows, 96, 136, F16)]
            error = error_of(f(*inputs), linear_gelu(*[wide(x) for x in inputs]))
            bad += error > TOLERANCE[F16]
            say(f"{'WRONG' if error > TOLERANCE[F16] else 'ok   '} dynamic rows {rows}: error {error:.2g}, subgraphs {len(cinn_like.report().subgraphs)}")

    def time_case(name, fn, inputs, flops, part=whole, precision="highest"):
        sets = [inputs(), inputs()]
        compared = [part(x) for x in sets[0]]
        reference = copy.deepcopy(fn).double() if isinstance(fn, nn.Module) else fn
        times, peaks, errors = {}, {}, {}
        with torch.no_grad(), matmul_precision(precision):
            expected = reference(*[wide(x) for x in compared])
            runs = {"ours": compiled(fn, True, dynamic=False)}
            if any(w in name for w in OWN):
                runs["own"] = compiled(fn, False, dynamic=False)
            if not args.no_inductor:
                runs["inductor"] = torch.compile(fn, dynamic=False)
            runs["eager"] = fn
            for who, run in runs.items():
                torch._dynamo.reset()
                cinn_like.reset_report()
                try:
                    got = run(*sets[0])
                    if who in ("ours", "own"):
                        errors[who] = error_of(part(got), expected)
                        say(f"      {name} by {who}: {kernels()} kernels, error {errors[who]:.2g}, compiled in "
                            f"{sum(s.total_seconds for s in cinn_like.report().subgraphs):.2f} s")  # fmt: skip
                    peaks[who] = peak_bytes(run, sets[0])
                    times[who] = microseconds(run, sets, repeats=15)
                except Exception as why:
                    if who in ("ours", "own"):
                        errors[who] = inf
                    say(f"FAILED {name} by {who}: {str(why)[:600]}\n{traceback.format_exc()[-300:]}")
            tolerance = tolerance_of(fn, compared, expected)
        wrong = any(e > tolerance for e in errors.values())
        report[name] = {"us": times, "peak_bytes": peaks, "errors": errors}
        rate = f"{flops / times['ours'] / 1e6:7.1f} TFLOP/s" if flops and "ours" in times else ""
        columns = ", ".join(f"{who} {t:9.1f} us {peaks[who] / 2**20:7.1f} MiB" for who, t in times.items())
        say(f"{name:42} {columns} {rate}{' WRONG' if wrong else ''}")
        torch.cuda.empty_cache()
        return wrong

    for name, fn, make, flops, *more in TIMED:
        if wanted(name):
            bad += time_case(name, fn, lambda: [m() for m in make], flops, *more)
    for batch in (1, 32):
        if wanted(name := f"encoder 6x384 batch {batch} f16"):
            model = Encoder().to(DEVICE, F16).eval()
            bad += time_case(name, model, lambda: [randn(batch, 32, 384, dtype=F16)()], 0)
            time_wall(say, model, batch, args.no_inductor)
    say(f"{bad} of them fall short")
    return 1 if bad else 0


def time_wall(say, model, batch, no_inductor):
    """What a caller sees: the host's time is part of it."""
    x = randn(batch, 32, 384, dtype=F16)()
    runs = {"ours": compiled(model, True, dynamic=False), "eager": model}
    if not no_inductor:
        runs["inductor"] = torch.compile(model, dynamic=False)
    line = []
    with torch.no_grad():
        for who, run in runs.items():
            torch._dynamo.reset()
            times = []
            for i in range(40):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                run(x)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - begin)
            line.append(f"{who} {statistics.median(times[10:]) * 1e3:.3f}")
    say(f"encoder batch {batch}, a call and its wait: " + ", ".join(line) + " ms")


if __name__ == "__main__":
    sys.exit(main())
