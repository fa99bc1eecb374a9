#!/usr/bin/env python3
"""Attention that is written out, compiled with nothing set, beside eager, the framework's own kernel and Inductor.

Every contender takes its turn in each round; a figure is the median of the rounds, in milliseconds; behind them is what
schedules ours. Lengths of cases that are named symbolic are not known when compiling, as after a second one was seen.
`--threads 1 --pin CORE` for a machine that is busy otherwise; `--left-to-framework no` compiles all of it, whoever is
cheaper."""

import argparse
import math
import os
import statistics
import time

INF = float("inf")


def plain(q, k, v):
    import torch

    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v


def causal(q, k, v):
    import torch

    i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None, :]
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(torch.where(j <= i, s, -INF), -1) @ v


def window(q, k, v):
    import torch

    i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None, :]
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(torch.where((j <= i) & (i < j + 256), s, -INF), -1) @ v


def biased(q, k, v, bias):
    import torch

    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias, -1) @ v


def grouped(q, k, v):
    import torch

    b, h, n, d = q.shape
    k, v = (x[:, : h // 4] for x in (k, v))
    a = torch.einsum("bgrid,bgjd->bgrij", q.reshape(b, h // 4, 4, n, d) / math.sqrt(d), k).softmax(-1)
    return torch.einsum("bgrij,bgjd->bgrid", a, v).reshape(q.shape)


# name: function, batch, heads, rows, keys, size, dtype
CASES = {
    "8x12x512x64": (plain, 8, 12, 512, 512, 64, "float32"),
    "1x12x128x64": (plain, 1, 12, 128, 128, 64, "float32"),
    "1x32x1024x128 causal": (causal, 1, 32, 1024, 1024, 128, "float32"),
    "1x8x2048x64 in a window of 256": (window, 1, 8, 2048, 2048, 64, "float32"),
    "1x32x1x128, 4096 keys, by fours": (grouped, 1, 32, 1, 4096, 128, "float32"),
    "1x32x1x128, 4096 keys": (plain, 1, 32, 1, 4096, 128, "float32"),
    "1x32x2x128, 1024 keys": (plain, 1, 32, 2, 1024, 128, "float32"),
    "1x32x4x64, 256 keys": (plain, 1, 32, 4, 256, 64, "float32"),
    "1x32x8x128, 1024 keys": (plain, 1, 32, 8, 1024, 128, "float32"),
    "1x8x197x64": (plain, 1, 8, 197, 197, 64, "float32"),
    "1x16x577x64": (plain, 1, 16, 577, 577, 64, "float32"),
    "1x8x4096x40": (plain, 1, 8, 4096, 4096, 40, "float32"),
    "1x8x4096x40, 77 keys": (plain, 1, 8, 4096, 77, 40, "float32"),
    "64x4x49x32 with a bias": (biased, 64, 4, 49, 49, 32, "float32"),
    "2x12x512x64 with a bias": (biased, 2, 12, 512, 512, 64, "float32"),
    "1x8x1024x64, 300 keys": (plain, 1, 8, 1024, 300, 64, "float32"),
    "1x12x512x64 bf16": (plain, 1, 12, 512, 512, 64, "bfloat16"),
    "8x12x512x64, symbolic": (plain, 8, 12, 512, 512, 64, "float32"),
    "1x12x128x64, symbolic": (plain, 1, 12, 128, 128, 64, "float32"),
    "1x32x1024x128 causal, symbolic": (causal, 1, 32, 1024, 1024, 128, "float32"),
    "1x8x197x64, symbolic": (plain, 1, 8, 197, 197, 64, "float32"),
    "1x8x4096x40, 77 keys, symbolic": (plain, 1, 8, 4096, 77, 40, "float32"),
    "1x12x20x64, symbolic": (plain, 1, 12, 20, 20, 64, "float32"),
    "2x12x512x64 with a bias, symbolic": (biased, 2, 12, 512, 512, 64, "float32"),
}


def measure(name, options):
    import torch
    import torch.nn.functional as F

    import cinn_like

    function, batch, heads, rows, keys, size, dtype = CASES[name]
    dtype = getattr(torch, dtype)
    shapes = [(batch, heads, n, size) for n in (rows, keys, keys)] + [(heads, rows, keys)] * (function is biased)
    args = [torch.randn(s, dtype=dtype) for s in shapes]
    if name.endswith("symbolic"):
        for x in args:
            torch._dynamo.mark_dynamic(x, [2] if x.dim() == 4 else [1, 2])
    contenders = {"eager": function}
    if function in (plain, causal):
        contenders["sdpa"] = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=function is causal)
    torch._dynamo.reset()
    cinn_like.reset_report()
    contenders["ours"] = torch.compile(function, backend="cinn_like", dynamic=options.dynamic)
    if options.inductor:
        contenders["inductor"] = torch.compile(lambda *a: function(*a), dynamic=options.dynamic)
    with torch.no_grad():
        want = function(*[a.double() for a in args])
        for call in contenders.values():
            call(*args)
            call(*args)
        begin = time.perf_counter()
        function(*args)
        calls = max(1, int(0.02 / (time.perf_counter() - begin)))
        times = {c: [] for c in contenders}
        for _ in range(options.rounds):
            for c, call in contenders.items():
                begin = time.perf_counter()
                for _ in range(calls):
                    call(*args)
                times[c].append((time.perf_counter() - begin) / calls * 1e3)
        errors = {c: (contenders[c](*args).double() - want).abs().max().item() for c in ("eager", "ours")}
    if errors["ours"] > 3 * errors["eager"] + 1e-5:
        raise SystemExit(f"{name}: wrong by {errors['ours']}, eager by {errors['eager']}")
    ratio = statistics.median(a / b for a, b in zip(times["ours"], times["eager"]))
    kernels = [t.split(": ")[1] for s in cinn_like.report().subgraphs for t in s.tactics]
    cells = " ".join(f"{c} {statistics.median(t):8.3f}" for c, t in times.items())
    print(f"{name:33s} {cells}   ours / eager {ratio:.2f}   {', '.join(kernels) or 'the framework'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose names contain one of these, by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--pin", type=int, default=-1, help="run on this core")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--dynamic", action="store_true", default=None, help="every size is symbolic")
    parser.add_argument("--left-to-framework", choices=["auto", "no"], default="auto")
    options = parser.parse_args()
    if options.pin >= 0:
        os.sched_setaffinity(0, {options.pin})
    if options.left_to_framework == "no":
        os.environ["FLAGS_cinn_leave_to_framework"] = "false"
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    for name in CASES:
        if any(part in name for part in options.only.split(",")):
            measure(name, options)


if __name__ == "__main__":
    main()
