#!/usr/bin/env python3
"""Reductions through torch.compile(backend="cinn_like") beside eager PyTorch, which take turns in one process. A line a
case, the slowest first: the median ratio ours / eager, ours / eager behind torch.compile (whose guards are most of small
cases), microseconds of eager and of ours, and bytes that ours reads in a second. On a GPU tensors are 64 times as large, and
times are the device's.

tools/reduction_bench.py [--device cpu|cuda] [--threads 2] [--seconds 0.4] [--only argmax,sum]
"""

import argparse
import statistics

import torch
from bench.turns import in_turns

SHAPES = {  # what is reduced: sizes, axes
    "last": ((1024, 4096), -1),
    "last 4097": ((256, 4097), -1),
    "last 127": ((8192, 127), -1),
    "last 33": ((30000, 33), -1),
    "last 7": ((150000, 7), -1),
    "first": ((4096, 1024), 0),
    "first of 257": ((4097, 257), 0),
    "first of 10": ((200000, 10), 0),
    "first of 3": ((700000, 3), 0),
    "middle": ((64, 127, 129), 1),
    "middle of 17": ((64, 1000, 17), 1),
    "middle of 7": ((64, 1000, 7), 1),
    "second of 5": ((8, 127, 3, 5, 7), 1),
    "images": ((16, 64, 56, 56), (0, 2, 3)),
    "all": ((1 << 21,), 0),
}
REDUCTIONS = {
    "sum": lambda x, d: x.sum(d),
    "mean keepdim": lambda x, d: x.mean(d, keepdim=True),
    "amax": lambda x, d: x.amax(d),
    "var": lambda x, d: x.var(d),
    "norm": lambda x, d: torch.linalg.vector_norm(x, dim=d),
    "logsumexp": lambda x, d: x.logsumexp(d),
    "any": lambda x, d: (x > 9).any(d),
    "count_nonzero": lambda x, d: x.count_nonzero(d),
    "argmax": lambda x, d: x.argmax(d),
    "max": lambda x, d: x.max(d),
    "argmin computed": lambda x, d: (x * 2 + 1).argmin(d),
}
TYPES = {"bf16": torch.bfloat16, "f64": torch.float64, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool}
OTHERS = {  # of other dtypes, along rows
    "sum": ["bf16", "f64", "i64", "bool"],
    "amax": ["bf16", "i64", "u8"],
    "argmax": ["bf16", "f64", "i64", "u8"],
    "count_nonzero": ["i64", "bool"],
    "all": ["bool", "i64"],
}
REDUCTIONS_OF_ANY = REDUCTIONS | {"all": lambda x, d: x.all(d)}


def cases(device, times):
    """The first size of each tensor is `times` as large."""
    for name, f in REDUCTIONS.items():
        for where, (shape, axes) in SHAPES.items():
            if isinstance(axes, tuple) and (name == "max" or name.startswith("arg")):
                continue
            yield f"{name}, {where}", f, torch.randn(shape[0] * times, *shape[1:], device=device), axes
    for name, types in OTHERS.items():
        for t in types:
            x = torch.randint(0, 100, (1024 * times, 4096), device=device, dtype=torch.uint8).to(TYPES[t])
            yield f"{name}, last, {t}", REDUCTIONS_OF_ANY[name], x, -1


def measure(f, x, axes, seconds, device):
    torch._dynamo.reset()
    contenders = [
        lambda: f(x, axes),
        lambda g=torch.compile(lambda x: f(x, axes), backend="cinn_like"): g(x),
        lambda g=torch.compile(lambda x: f(x, axes), backend="eager"): g(x),
    ]
    with torch.no_grad():
        for c in contenders * 3:
            c()
        eager, ours, framework = in_turns(contenders, seconds, device, least=9)
    ratio = [statistics.median(b / a for a, b in zip(base, ours)) for base in (eager, framework)]
    return *ratio, statistics.median(eager) * 1e6, statistics.median(ours) * 1e6, x.nbytes / statistics.median(ours) * 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a case")
    parser.add_argument("--only", default="", help="parts of names, by commas")
    args = parser.parse_args()
    import cinn_like  # noqa: F401

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    rows = []
    for name, f, x, axes in cases(args.device, 64 if args.device == "cuda" else 1):
        if any(part in name for part in args.only.split(",")):
            rows.append((name, *measure(f, x, axes, args.seconds, args.device)))
    print("| reduction | ours / eager | ours / compiled eager | eager us | ours us | ours GB/s |\n|---|---|---|---|---|---|")
    for name, ratio, behind, eager, ours, rate in sorted(rows, key=lambda r: -r[2]):
        print(f"| {name} | {ratio:.2f} | {behind:.2f} | {eager:.0f} | {ours:.0f} | {rate:.0f} |")
    for k, what in ((1, "eager"), (2, "compiled eager")):
        print(f"geomean of {len(rows)} over {what}: {statistics.geometric_mean(r[k] for r in rows):.3f}")


if __name__ == "__main__":
    main()
