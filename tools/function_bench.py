#!/usr/bin/env python3
"""Small functions of many kinds through torch.compile, beside eager PyTorch: where is a cliff?

    function_bench.py [--set small|large|groups|orders] [--device cpu|cuda] [--dtype f32|bf16|f64] [--threads 2] [--seconds 0.5]
                      [--symbolic all|first] [--inductor] [--only TEXT,TEXT] [--list]

Nothing is set but the backend. The small set's cases are shapes and spellings that no tactic was written for in particular: pools, scans, gathers and
scatters, operands of products that are masked, transposed, widened or gathered, rearrangements (reductions over any axis have
tools/reduction_bench.py); the large set's (bench/large.py) are what a GPU's memory takes its time for, with gradients, each of the type that
its name ends in; those of `groups` (bench/groups.py) normalise groups of elements, as images and heads have them;
those of `orders` (bench/orders.py) move elements in several orders.
Eager and ours take turns; the figure is the median of ours / eager (below 1 ours is faster), the worst first, with what was left
to the framework; on a GPU it is the device's time. `--symbolic`: ours with all sizes symbolic, or the first of each tensor, and the time
with constant ones beside it. `--inductor`: the figure is the median of ours / the faster one of eager and Inductor, whose time is the second
column. Results are checked against float64 where they are floats. Exit code 1 where one is wrong or does not run.
"""

import argparse
import math
import statistics
import sys

import torch
import torch.nn.functional as F
from bench.cases import Cases, integers
from bench.groups import GROUPS
from bench.large import LARGE
from bench.orders import ORDERS
from bench.sizes import with_symbolic_sizes
from bench.turns import in_turns

import cinn_like

DTYPES = {"f32": (torch.float32, 1e-3), "bf16": (torch.bfloat16, 3e-2), "f64": (torch.float64, 1e-10)}
CASES = Cases()
case, simple = CASES.case, CASES.simple

# ---- reductions and scans -----------------------------------------------------------------------------------------------------

simple("var and mean of channels", lambda x: torch.var_mean(x, (0, 2, 3)), (16, 64, 32, 32))
simple("sum of short rows", lambda x: x.sum(-1), (100000, 7))
simple("sum of all", lambda x: (x * x).sum(), (1 << 22,))
simple("group norm and silu", lambda x, g, b: F.silu(F.group_norm(x, 32, g, b)), (2, 320, 32, 32), (320,), (320,))
simple("running sum, last axis", lambda x: x.cumsum(-1) * 2, (1024, 1024))
simple("running sum, first axis", lambda x: x.cumsum(0) * 2, (1024, 1024))
simple("running sum of 64 rows", lambda x: x.cumsum(1), (64, 4096))
simple("running sum of 64 columns", lambda x: x.cumsum(0), (4096, 64))
simple("running sum, middle axis", lambda x: x.cumsum(1), (8, 512, 128))
simple("running sum of short rows", lambda x: x.cumsum(1), (100000, 7))
simple("running sum of one row", lambda x: x.cumsum(1), (1, 1000000))
simple("running product and its function", lambda x: (x.sigmoid().cumprod(-1) + 1).log(), (256, 2048))
simple("running maximum", lambda x: x.cummax(-1), (256, 2048))
CASES["running sum of a mask"] = lambda r: (lambda m: m.cumsum(1) - 1, [torch.rand(32, 512) > 0.3])
CASES["running sum of integers"] = lambda r: (lambda x: x.cumsum(1), [integers(9, 32, 512)])
simple("distances", lambda a, b: ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1), (256, 64), (256, 64))
simple("largest of sums", lambda a, b: (a[:, :, None] + b[None, :, :]).amax(1), (256, 256), (256, 256))

# ---- pools ----------------------------------------------------------------------------------------------------------

for pool, f in {
    "max pool 3x3 / 2": lambda x: F.max_pool2d(x, 3, 2, 1).relu(),
    "max pool 3x3 / 1": lambda x: F.max_pool2d(x, 3, 1, 1),
    "mean pool 3x3 / 2": lambda x: F.avg_pool2d(x, 3, 2, 1).relu(),
    "mean pool 2x2": lambda x: F.avg_pool2d(x, 2),
    "mean pool to 1x1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "mean pool to 7x7": lambda x: F.adaptive_avg_pool2d(x, 7),
}.items():
    simple(pool, f, (8, 64, 56, 56))
    CASES[f"{pool}, channels last"] = lambda r, f=f: (f, [r(8, 64, 56, 56).contiguous(memory_format=torch.channels_last)])

_POOL = ([3, 3], [2, 2], [1, 1])


@case("gradient of max pool 3x3 / 2")
def _(r):
    x = r(8, 64, 112, 112)
    y, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    return lambda dy, x, i: torch.ops.aten.max_pool2d_with_indices_backward(dy, x, *_POOL, [1, 1], False, i), [y, x, places]


@case("gradient of max pool 2x2")
def _(r):
    x = r(8, 64, 112, 112)
    y, places = F.max_pool2d(x, 2, 2, return_indices=True)
    window = ([2, 2], [2, 2], [0, 0])
    return lambda dy, x, i: torch.ops.aten.max_pool2d_with_indices_backward(dy, x, *window, [1, 1], False, i), [y, x, places]


simple("gradient of mean pool 3x3 / 2", lambda dy, x: torch.ops.aten.avg_pool2d_backward(dy, x, *_POOL, False, True, None),
       (8, 64, 56, 56), (8, 64, 112, 112))  # fmt: skip
simple("gradient of mean pool 2x2", lambda dy, x: torch.ops.aten.avg_pool2d_backward(dy, x, [2, 2], [2, 2], [0, 0], False, True, None),
       (8, 64, 56, 56), (8, 64, 112, 112))  # fmt: skip

# ---- products and convolutions --------------------------------------------------------------------------------------

simple("product 33x301x77", lambda a, b: a @ b + 1, (33, 301), (301, 77))
simple("product 301^3", lambda a, b: (a @ b).relu(), (301, 301), (301, 301))
simple("product of transposed rows", lambda a, b: a.t() @ b, (1024, 512), (1024, 512))
simple("product with transposed columns", lambda a, b: a @ b.t(), (512, 1024), (512, 1024))
simple("products in a batch", lambda a, b: torch.bmm(a, b) * 0.1, (96, 128, 64), (96, 64, 128))
simple("einsum bijk,il->bjkl", lambda a, b: torch.einsum("bijk,il->bjkl", a, b), (4, 64, 32, 32), (64, 64))
simple("masked product", lambda a, b: a.tril() @ b, (8, 256, 256), (8, 256, 256))
simple("layer norm and linear", lambda x, g, w: F.linear(F.layer_norm(x, (768,), g), w), (128, 768), (768,), (2304, 768))
simple("two linears, SwiGLU", lambda x, a, b: F.silu(F.linear(x, a)) * F.linear(x, b), (128, 1024), (2816, 1024), (2816, 1024))
simple(
    "three linears of one operand",
    lambda x, q, k, v: (F.linear(x, q), F.linear(x, k), F.linear(x, v)),
    (128, 768),
    *[(768, 768)] * 3,
)


@case("gathered rows and linear")
def _(r):
    return lambda i, e, w: F.linear(e[i], w), [integers(30000, 256), r(30000, 512), r(512, 512)]


for rows, outputs, inputs in ((1, 5632, 2048), (128, 1024, 1024)):
    CASES[f"weights of 8 bits, {rows} rows"] = lambda r, rows=rows, outputs=outputs, inputs=inputs: (
        lambda x, w, s: x @ (w.to(x.dtype) * s).t(),
        [r(rows, inputs), integers(127, outputs, inputs, dtype=torch.int8), r(outputs, 1)],
    )
CASES["product of f16"] = lambda r: (lambda a, b: (a @ b).relu(), [r(512, 512).half(), r(512, 512).half()])
CASES["product of integers"] = lambda r: (
    lambda a, b: a @ b,
    [integers(9, 256, 256, dtype=torch.int32), integers(9, 256, 256, dtype=torch.int32)],
)
IMAGE, WINDOW = (1, 64, 56, 56), (64, 64, 3, 3)
simple("convolution", lambda x, w: F.conv2d(x, w, padding=1).relu(), IMAGE, WINDOW)
CASES["convolution, channels last"] = lambda r: (
    lambda x, w: F.conv2d(x, w, padding=1).relu(),
    [r(*IMAGE).contiguous(memory_format=torch.channels_last), r(*WINDOW)],
)
simple("convolution of a reflected border", lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), w), IMAGE, WINDOW)
SMALL = (1, 64, 28, 28)
simple("convolution of a larger image", lambda x, w: F.conv2d(F.interpolate(x, scale_factor=2), w, padding=1), SMALL, WINDOW)
simple(
    "convolution of two images",
    lambda x, y, w: F.conv2d(torch.cat([x, y], 1), w, padding=1),
    SMALL,
    SMALL,
    (64, 128, 3, 3),
)
simple(
    "transposed convolution",
    lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1).relu(),
    (1, 64, 32, 32),
    (64, 32, 4, 4),
)
simple("convolution in three dimensions", lambda x, w: F.conv3d(x, w, padding=1).relu(), (1, 16, 16, 28, 28), (32, 16, 3, 3, 3))
simple("causal convolution", lambda x, w: F.silu(F.conv1d(x, w, padding=3, groups=768)[..., :512]), (2, 768, 512), (768, 1, 4))

# ---- resizing, borders, repetitions -----------------------------------------------------------------------------------

PHOTO = (4, 64, 56, 56)
simple("nearest, twice as large", lambda x: F.interpolate(x, scale_factor=2), PHOTO)
simple("nearest, three times as large", lambda x: F.interpolate(x, scale_factor=3) * 2, (4, 64, 28, 28))
simple("bilinear, twice as large", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (4, 64, 28, 28))
for _mode in ("reflect", "replicate", "circular", "constant"):
    simple(f"border, {_mode}", lambda x, m=_mode: F.pad(x, (2, 2, 2, 2), mode=m) * 2, PHOTO)
simple("rolled windows", lambda x: torch.roll(x, (3, 3), (1, 2)) * 2, (4, 56, 56, 96))
simple("repeated elements", lambda x: x.repeat_interleave(3, -1) * 2, (512, 512))
simple("repeated heads", lambda x: x.repeat_interleave(4, 1) * 2, (2, 8, 512, 64))
simple("joined rows", lambda a, b: torch.cat([a, b], -1) * 2, (4096, 100), (4096, 60))
simple("pairs", lambda a, b: torch.stack([a, b], -1) * 2, (4096, 256), (4096, 256))
simple("image of windows", lambda x: F.fold(x, (28, 28), 3, padding=1), (2, 576, 784))
simple("differences", lambda x: x.diff(dim=-1), (1024, 1000))

# ---- quotients ----------------------------------------------------------------------------------------------------------

simple("remainders", torch.fmod, (1024, 512), (1024, 512))
simple("floored quotients", torch.floor_divide, (1024, 512), (1024, 512))
CASES["quotients of integers"] = lambda r: (
    lambda a, b: (a // b, a % b),
    [integers(1000, 1024, 512, dtype=torch.int32), integers(99, 1024, 512, dtype=torch.int32) + 1],
)

# ---- vectors and matrices, channels by themselves -----------------------------------------------------------------------

simple("a row by a matrix", lambda a, x: x @ a, (2048, 2048), (2048,))
simple("a matrix by a column", lambda a, x: a @ x, (2048, 2048), (2048,))
simple("linear of one row", F.linear, (1, 1024), (4096, 1024))
simple("small products in a batch", torch.bmm, (4096, 8, 8), (4096, 8, 8))
simple("each channel 7x7", lambda x, w: F.conv2d(x, w, padding=3, groups=64), (8, 64, 56, 56), (64, 1, 7, 7))
simple("each channel 3x3, dilated", lambda x, w: F.conv2d(x, w, padding=2, dilation=2, groups=64), (8, 64, 56, 56), (64, 1, 3, 3))

# ---- interpolation, forward and gradient --------------------------------------------------------------------------------

for mode in ("nearest", "bilinear", "bicubic"):
    CASES[f"gradient of interpolation, {mode}"] = lambda r, mode=mode: (
        lambda x: F.interpolate(x, (60, 60), mode=mode),
        [r(4, 64, 28, 28)],
        r(4, 64, 60, 60),
    )

# ---- elements -------------------------------------------------------------------------------------------------------


@case("rotary embedding")
def _(r):
    def f(x, c, s):
        a, b = x[..., :64], x[..., 64:]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    return f, [r(8, 1024, 128), r(1024, 64), r(1024, 64)]


@case("Adam")
def _(r):
    def f(p, g, m, v):
        m = m * 0.9 + g * 0.1
        v = v * 0.999 + g * g * 0.001
        return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v

    return f, [r(1 << 21), r(1 << 21), r(1 << 21), r(1 << 21).abs()]


@case("cross entropy")
def _(r):
    return F.cross_entropy, [r(1024, 32000), integers(32000, 1024)]


@case("bytes to an image")
def _(r):
    return lambda x, m, s: (x.permute(0, 3, 1, 2).to(m.dtype) / 255 - m) * s, [
        integers(255, 8, 224, 224, 3, dtype=torch.uint8),
        r(3, 1, 1),
        r(3, 1, 1),
    ]


@case("sums of gathered rows")
def _(r):
    return lambda e, i: e[i].sum(1), [r(30000, 256), integers(30000, 512, 20)]


@case("rows added to rows")
def _(r):
    return lambda x, i: x.new_zeros(1000, 128).index_add(0, i, x) * 2, [r(8192, 128), integers(1000, 8192)]


simple("softmax under a condition", lambda x: torch.where(x > x.mean(-1, keepdim=True), x, -1e9).softmax(-1), (1024, 1024))
simple("pixel shuffle", lambda x: F.pixel_shuffle(x, 2).relu(), (4, 64, 64, 64))
simple(
    "windows of an image",
    lambda x: x.view(4, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96) * 2,
    (4, 56, 56, 96),
)
simple("gelu", F.gelu, (2048, 512))
simple("batch norm in training", lambda x, g, b: F.batch_norm(x, None, None, g, b, True), (8, 64, 56, 56), (64,), (64,))
simple("channels of length one", lambda x: F.normalize(x, dim=1), (8, 64, 56, 56))
simple("largest of ten", lambda x: x.argmax(-1), (65536, 10))
CASES["means of an image's bytes"] = lambda r: (lambda x: x.to(r(1).dtype).mean((1, 2)), [integers(255, 8, 224, 224, 3, dtype=torch.uint8)])
CASES["elements by index"] = lambda r: (lambda x, i: x.gather(1, i) * 2, [r(2048, 1000), integers(1000, 2048, 64)])
simple("transposed and added", lambda x, y: x.t() + y, (1024, 1000), (1000, 1024))
for name in ("exp", "exp2", "expm1", "sigmoid", "tanh", "erf", "sin", "cos"):
    simple("elementwise " + name, getattr(torch, name), (256, 1024))
for name in ("log", "log1p"):
    simple("elementwise " + name, lambda x, f=getattr(torch, name): f(x.abs()), (256, 1024))
simple("elementwise pow", lambda x, y: x.abs() ** y, (256, 1024), (256, 1024))
simple("elementwise fmod", torch.fmod, (256, 1024), (256, 1024))


def is_right(got, eager, right, most):
    """`right` is of float64; where rounding chooses, eager's result will do (argmax), or the next number (quantisation)."""
    for g, e, r in zip(*([y.detach() for y in torch.utils._pytree.tree_leaves(x)] for x in (got, eager, right))):
        if g.shape != e.shape or g.dtype != e.dtype or g.stride() != e.stride():
            return False
        if not g.is_floating_point():
            wrong = (g != e) & (g != r.to(g.dtype))
            if bool(wrong.any()) and not (g.dtype == torch.int8 and bool(((g - r).abs() <= 1).all()) and wrong.double().mean() < 1e-4):
                return False
            continue
        scale = max(float(r.abs().max()), 1e-30)
        error, theirs = (float((x.double() - r).abs().max()) / scale for x in (g, e))
        if not (error <= most or error <= 2 * theirs):
            return False
    return True


def measure(make, dtype, most, lasts, device, symbolic, inductor):
    torch.manual_seed(0)
    f, args, *dy = make(lambda *shape: torch.randn(shape, device=device).to(dtype))
    args = [a.to(device).requires_grad_(bool(dy) and a.is_floating_point()) for a in args]

    def result(f, args, dy=dy):
        y = f(*args)
        return (y, *torch.autograd.grad(y, [a for a in args if a.requires_grad], *dy)) if dy else y

    with torch.set_grad_enabled(bool(dy)):
        torch._dynamo.reset()
        contenders = [lambda: result(f, args)]
        # Code of its own for each, or a symbolic one would be another size of a constant one.
        for backend in ["inductor"] * inductor + ["cinn_like"] * bool(symbolic):
            constant = torch.compile(lambda *xs: f(*xs), backend=backend, dynamic=False)
            contenders.append(lambda constant=constant: result(constant, args))
            contenders[-1](), contenders[-1]()
        cinn_like.reset_report()
        ours = torch.compile(lambda *xs: f(*xs), backend="cinn_like")
        given = with_symbolic_sizes(args, only_first=symbolic == "first") if symbolic else args
        contenders.append(lambda: result(ours, given))
        for _ in range(2):
            got, eager = contenders[-1](), contenders[0]()
        wide = [a.detach().double().requires_grad_(a.requires_grad) if a.is_floating_point() else a for a in args]
        right = result(f, wide, [d.double() for d in dy])
        report = cinn_like.report()
        wrong = bool(report.failures) or not is_right(got, eager, right, most)
        del got, eager, wide, right
        times = in_turns(contenders, lasts, device)
    peer = min(times[: 1 + inductor], key=statistics.median)
    return {
        "ratio": statistics.median(o / p for p, o in zip(peer, times[-1])),
        "us": [statistics.median(t) * 1e6 for t in times],
        "left": [name.split(".")[1] for name in report.fallback_ops],
        "wrong": wrong,
    }


SETS = {"small": CASES, "large": LARGE, "groups": GROUPS, "orders": ORDERS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="small", choices=SETS)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="f32", choices=DTYPES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="that a case is measured for")
    parser.add_argument("--symbolic", nargs="?", const="all", choices=["all", "first"], help="sizes of each tensor; beside them, constant ones")
    parser.add_argument("--inductor", action="store_true", help="Inductor is a peer, too")
    parser.add_argument("--only", default="", help="cases whose names contain one of these")
    parser.add_argument("--list", action="store_true", help="the names of the cases")
    args = parser.parse_args()
    cases = SETS[args.set]
    names = [n for n in cases if any(text in n for text in args.only.split(","))]
    if args.list:
        print("\n".join(names))
        return 0
    if not names:
        parser.error(f"no case is named so: {args.only}")
    torch.set_num_threads(args.threads)
    rows, broken = [], []
    for name in names:
        try:
            dtype, most = DTYPES[name.split()[-1] if args.set == "large" else args.dtype]
            rows.append((name, measure(cases[name], dtype, most, args.seconds, args.device, args.symbolic, args.inductor)))
        except Exception as e:  # noqa: BLE001: one case that does not run is a row
            broken.append(f"{name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")
    for name, row in sorted(rows, key=lambda x: -x[1]["ratio"]):
        print(f"{row['ratio']:6.2f} {' '.join(f'{us:10.{0 if us > 100 else 1}f}' for us in row['us'])} us  {name}"
              f"{'  WRONG' if row['wrong'] else ''}{'  left: ' + ', '.join(row['left']) if row['left'] else ''}")  # fmt: skip
    if rows:
        ratios = [row["ratio"] for _, row in rows]
        print(f"geomean of ours / {'the faster peer' if args.inductor else 'eager'} {math.exp(statistics.fmean(map(math.log, ratios))):.2f}, "
              f"{sum(r > 1.05 for r in ratios)} of {len(ratios)} above 1.05")  # fmt: skip
    for text in broken:
        print("does not run:", text)
    return int(bool(broken) or any(row["wrong"] for _, row in rows))


if __name__ == "__main__":
    sys.exit(main())
