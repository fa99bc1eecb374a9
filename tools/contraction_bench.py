#!/usr/bin/env python3
"""Products and convolutions of models on a CPU, with weights that may change: ours against eager PyTorch.

    contraction_bench.py [--dtype f32|bf16] [--threads 1] [--rounds 7] [--only TEXT] [--symbolic] [--json FILE]

Each case is compiled twice: with the framework's bids off (`ours`), and as users have it (`chosen`: who runs it then, ours or the
framework). The three take turns, of which each lasts about 20 ms; figures are medians, ratios are eager / ours (above 1 ours is
faster), and the output is checked against float64. Exit code 1 where an output is wrong. With --symbolic ours are compiled for any batch, rows and sizes of
images: what is no weight's.
"""

import argparse
import json
import math
import statistics
import sys
import time
import types

import torch
import torch.nn.functional as F

import cinn_like


# With the largest error of a result, as a part of the largest result.
DTYPES = {"f32": (torch.float32, 1e-4), "bf16": (torch.bfloat16, 1e-2)}


def convolution(batch, size, channels, out, kernel, stride=1, padding=None, groups=1, dilation=1):
    """The function and the shapes of its operands; `size` may be of one to three dimensions, `kernel` of as many."""
    size = (size, size) if isinstance(size, int) else size
    kernel = (kernel,) * len(size) if isinstance(kernel, int) else kernel
    f = (F.conv1d, F.conv2d, F.conv3d)[len(size) - 1]
    padding = [k // 2 for k in kernel] if padding is None else padding
    window = {"stride": stride, "padding": padding, "groups": groups, "dilation": dilation}
    shapes = (batch, channels, *size), (out, channels // groups, *kernel)
    return lambda x, w: f(x, w, **window), shapes


def transposed(batch, size, channels, out, kernel, stride, padding=0):
    window = {"stride": stride, "padding": padding}
    size = (size, size) if isinstance(size, int) else size
    f = F.conv_transpose2d if len(size) == 2 else F.conv_transpose1d
    shapes = (batch, channels, *size), (channels, out, *[kernel] * len(size))
    return lambda x, w: f(x, w, **window), shapes


def input_gradient(batch, size, channels, out, kernel, stride):
    """Of a convolution with a stride, in what it reads; `size` is that of its result."""
    window = [[stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], 1, [True, False, False]]

    def f(dy, w):
        x = dy.new_empty(()).expand(batch, channels, size * stride, size * stride)
        return torch.ops.aten.convolution_backward(dy, x, w, None, *window)[0]

    return f, ((batch, out, size, size), (out, channels, kernel, kernel))


def product(rows, depth, columns):
    return lambda x, w: F.linear(x, w), ((rows, depth), (columns, depth))


def weight_gradient(rows, inputs, outputs):
    """Of such a product: of `outputs` rows and `inputs` columns."""

    def f(dy, x):
        return dy.t() @ x

    f.symbolic = ((0,), (0,))
    return f, ((rows, outputs), (rows, inputs))


CASES = {
    "ResNet-50 56x56 64>64 3x3": convolution(1, 56, 64, 64, 3),
    "ResNet-50 56x56 64>64 3x3, batch 8": convolution(8, 56, 64, 64, 3),
    "ResNet-50 56x56 128>128 3x3 / 2": convolution(1, 56, 128, 128, 3, 2),
    "ResNet-50 28x28 128>128 3x3": convolution(1, 28, 128, 128, 3),
    "ResNet-50 14x14 256>256 3x3": convolution(1, 14, 256, 256, 3),
    "ResNet-50 14x14 256>256 3x3, batch 8": convolution(8, 14, 256, 256, 3),
    "ResNet-50 28x28 256>256 3x3 / 2, batch 8": convolution(8, 28, 256, 256, 3, 2),
    "ResNet-50 7x7 512>512 3x3": convolution(1, 7, 512, 512, 3),
    "ResNet-50 56x56 64>256 1x1": convolution(1, 56, 64, 256, 1),
    "ResNet-50 56x56 256>512 1x1 / 2": convolution(1, 56, 256, 512, 1, 2),
    "ResNet-50 7x7 2048>512 1x1, batch 8": convolution(8, 7, 2048, 512, 1),
    "ResNet-50 224x224 3>64 7x7 / 2": convolution(1, 224, 3, 64, 7, 2),
    "ResNeXt 28x28 256>256 3x3, 32 groups": convolution(1, 28, 256, 256, 3, groups=32),
    "DeepLab 28x28 256>256 3x3, dilated 2": convolution(1, 28, 256, 256, 3, padding=2, dilation=2),
    "DCGAN 16x16 256>128 4x4 transposed / 2": transposed(1, 16, 256, 128, 4, 2, 1),
    "DCGAN 4x4 512>256 4x4 transposed / 2, batch 16": transposed(16, 4, 512, 256, 4, 2, 1),
    "DCGAN 8x8 256>128 4x4 transposed / 2, batch 16": transposed(16, 8, 256, 128, 4, 2, 1),
    "DCGAN 16x16 128>64 4x4 transposed / 2, batch 16": transposed(16, 16, 128, 64, 4, 2, 1),
    "DCGAN 32x32 64>3 4x4 transposed / 2, batch 16": transposed(16, 32, 64, 3, 4, 2, 1),
    "UNet 32x32 256>128 2x2 transposed / 2": transposed(1, 32, 256, 128, 2, 2),
    "UNet 64x64 128>64 2x2 transposed / 2": transposed(1, 64, 128, 64, 2, 2),
    "HiFi-GAN 256 256>128 16 transposed / 8": transposed(1, (256,), 256, 128, 16, 8, 4),
    "gradient of ResNet-50 28x28 128>128 3x3 / 2": input_gradient(1, 28, 128, 128, 3, 2),
    "gradient of ResNet-50 14x14 256>256 3x3 / 2, batch 8": input_gradient(8, 14, 256, 256, 3, 2),
    "gradient of ResNet-50 28x28 256>512 1x1 / 2": input_gradient(1, 28, 256, 512, 1, 2),
    "MobileNetV3 56x56 72 3x3 depthwise": convolution(1, 56, 72, 72, 3, groups=72),
    "MobileNetV3 28x28 120 5x5 depthwise": convolution(1, 28, 120, 120, 5, groups=120),
    "MobileNetV3 14x14 480>112 1x1": convolution(1, 14, 480, 112, 1),
    "ConvNeXt 56x56 96 7x7 depthwise": convolution(1, 56, 96, 96, 7, groups=96),
    "Whisper 3000 80>384 3": convolution(1, (3000,), 80, 384, 3),
    "Whisper 3000 384>384 3 / 2": convolution(1, (3000,), 384, 384, 3, 2),
    "R3D 8x28x28 64>64 3x3x3": convolution(1, (8, 28, 28), 64, 64, 3),
    "R3D 8x28x28 64>128 3x3x3 / 2": convolution(1, (8, 28, 28), 64, 128, 3, 2),
    "S3D 8x28x28 96>208 1x3x3": convolution(1, (8, 28, 28), 96, 208, (1, 3, 3)),
    "S3D 8x28x28 208>208 3x1x1": convolution(1, (8, 28, 28), 208, 208, (3, 1, 1)),
    "BERT 128x768x3072": product(128, 768, 3072),
    "BERT 128x3072x768": product(128, 3072, 768),
    "GPT-2 1024x768x2304": product(1024, 768, 2304),
    "GPT-2 1024x3072x768": product(1024, 3072, 768),
    "Llama one token 1x2048x5632": product(1, 2048, 5632),
    "gradient of BERT's weights, 1024 of 768>768": weight_gradient(1024, 768, 768),
    "gradient of BERT's weights, 512 of 768>3072": weight_gradient(512, 768, 3072),
    "gradient of GPT-2's weights, 4096 of 3072>768": weight_gradient(4096, 3072, 768),
    "gradient of ConvNeXt's weights, 1568 of 1536>384": weight_gradient(1568, 1536, 384),
}


def flops(f, shapes):
    y = f(*(torch.empty(s, device="meta") for s in shapes))
    # Each element of the result, or, transposed, of the input meets all of the kernel's other dimensions.
    if y.shape[1] == shapes[1][0] and y.numel() <= math.prod(shapes[0]) * shapes[1][0] / shapes[0][1]:
        return 2 * y.numel() * math.prod(shapes[1][1:])
    return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])


def mark(f, args):
    """What is no weight's is symbolic, if it is not 1."""
    dims = getattr(f, "symbolic", ((0, *range(2, args[0].dim())), ()))
    for arg, symbolic in zip(args, dims):
        for d in symbolic:
            if arg.shape[d] > 1:
                torch._dynamo.mark_dynamic(arg, d)


def compiled(f, args, leave):
    """`f` by us, and which of its ops were left to the framework."""
    cinn_like.set_flag("cinn_leave_to_framework", leave)
    cinn_like.reset_report()
    # Dynamo remembers by code: one for each compilation.
    code = f.__code__.replace(co_name=f"leave_{leave}")
    g = torch.compile(types.FunctionType(code, f.__globals__, closure=f.__closure__), backend="cinn_like")
    y = g(*args)
    report = cinn_like.report()
    if report.failures:
        sys.exit(f"does not compile: {report.failures}")
    return g, y, bool(report.fallback_ops)


def seconds(f, args, lasts=0.02):
    begin = time.perf_counter()
    calls = 0
    while calls < 2 or time.perf_counter() - begin < lasts:
        f(*args)
        calls += 1
    return (time.perf_counter() - begin) / calls


def case(name, f, shapes, rounds, dtype, symbolic):
    torch.manual_seed(0)
    args = [torch.randn(s).to(dtype) for s in shapes]
    torch._dynamo.reset()
    if symbolic:
        mark(f, args)
    ours, y, _ = compiled(f, args, False)
    chosen, _, left = compiled(f, args, True)
    right = f(*(a.double() for a in args))
    error = float((y.double() - right).abs().max() / right.abs().max())
    ways = {"eager": f, "ours": ours, "chosen": chosen}
    times = {way: [] for way in ways}
    for way in ways:
        seconds(ways[way], args)
    for _ in range(rounds):
        for way in ways:
            times[way].append(seconds(ways[way], args))
    medians = {way: statistics.median(t) for way, t in times.items()}
    return {
        "name": name,
        "gflops": {way: flops(f, shapes) / t * 1e-9 for way, t in medians.items()},
        "ours": statistics.median(e / o for e, o in zip(times["eager"], times["ours"])),
        "chosen": statistics.median(e / c for e, c in zip(times["eager"], times["chosen"])),
        "left": left,
        "error": error,
    }


def geomean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="f32", choices=DTYPES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--symbolic", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype, most = DTYPES[args.dtype]
    rows = []
    print(f"{'eager / ours, GFLOP/s':44}{'eager':>8}{'ours':>8}{'ratio':>8}{'chosen':>8}  by")
    with torch.no_grad():
        for name, (f, shapes) in CASES.items():
            if args.only not in name:
                continue
            row = case(name, f, shapes, args.rounds, dtype, args.symbolic)
            rows.append(row)
            print(f"{name:44}{row['gflops']['eager']:8.1f}{row['gflops']['ours']:8.1f}{row['ours']:8.2f}{row['chosen']:8.2f}"
                  f"  {'framework' if row['left'] else 'ours'}{'' if row['error'] < most else '  WRONG'}", flush=True)  # fmt: skip
    if rows:
        print(f"geomean of ours {geomean([r['ours'] for r in rows]):.2f}, chosen {geomean([r['chosen'] for r in rows]):.2f}; "
              f"least {min(r['ours'] for r in rows):.2f}, {min(r['chosen'] for r in rows):.2f}")  # fmt: skip
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return int(any(not r["error"] < most for r in rows))


if __name__ == "__main__":
    sys.exit(main())
