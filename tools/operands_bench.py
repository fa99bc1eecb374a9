#!/usr/bin/env python3
"""Products on the CPU whose operands are computed of what is read (weights of integers), or of other types than f32 and
bf16: milliseconds of eager and ours, call by call in turns, and the median of their ratios.

    .venv/bin/python tools/operands_bench.py [--threads 1] [NAME...]
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

import cinn_like  # noqa: F401: registers the backend

SECONDS = 0.5


def cases():
    k, n = 2048, 5632
    w = torch.randint(-127, 127, (n, k), dtype=torch.int8)
    for dtype in (torch.float32, torch.bfloat16):
        s = torch.rand(n, 1).to(dtype)
        for m in (1, 2, 4, 8, 16, 128):
            run = lambda x, s=s, dtype=dtype: x @ (w.to(dtype) * s).t()  # noqa: E731
            yield f"int8 rows scaled {str(dtype)[6:]} {m}x{k}x{n}", run, (torch.randn(m, k).to(dtype),)
    u = torch.randint(0, 16, (n, k), dtype=torch.uint8)
    s, z = torch.rand(n, k // 128, 1).bfloat16(), torch.randint(4, 12, (n, k // 128, 1)).bfloat16()
    run = lambda x: x @ ((u.view(n, k // 128, 128).to(torch.bfloat16) - z) * s).view(n, k).t()  # noqa: E731
    yield f"uint8 groups of 128 scaled, zero points bfloat16 8x{k}x{n}", run, (torch.randn(8, k).bfloat16(),)
    for m in (1, 64, 512):
        half = torch.randn(m, 512).half(), torch.randn(512, 512).half()
        yield f"float16 {m}x512x512", torch.matmul, half
        yield f"float16 linear {m}x512x512", F.linear, half
    for m, k, n in ((1, 2048, 5632), (16, 2048, 5632), (128, 2048, 5632), (512, 512, 512), (256, 301, 256)):
        x, w8 = torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (n, k), dtype=torch.int8)
        w8t = w8.t().contiguous()
        yield f"_int_mm of columns {m}x{k}x{n}", torch._int_mm, (x, w8.t())
        yield f"_int_mm of rows {m}x{k}x{n}", torch._int_mm, (x, w8t)
        yield f"int8 as int32 {m}x{k}x{n}", lambda x, w: x.int() @ w.int(), (x, w8t)
    for dtype in (torch.int8, torch.int32, torch.int64):
        pair = tuple(torch.randint(0, 9, (256, 256)).to(dtype) for _ in range(2))
        yield f"{str(dtype)[6:]} 256x256x256", torch.matmul, pair


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("names", nargs="*", help="parts of the names of cases")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    print("| product | eager ms | ours ms | ours / eager |\n|---|---|---|---|")
    for name, run, args in cases():
        if options.names and not any(part in name for part in options.names):
            continue
        torch._dynamo.reset()
        compiled = torch.compile(run, backend="cinn_like", dynamic=False)
        times = {run: [], compiled: []}
        with torch.no_grad():
            for f in (run, compiled, run, compiled):
                f(*args)
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end or len(times[run]) < 5:
                for f, seconds in times.items():
                    start = time.perf_counter()
                    f(*args)
                    seconds.append(time.perf_counter() - start)
        eager, ours = (statistics.median(times[f]) * 1e3 for f in (run, compiled))
        ratio = statistics.median(b / a for a, b in zip(times[run], times[compiled]))
        print(f"| {name} | {eager:.3f} | {ours:.3f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
