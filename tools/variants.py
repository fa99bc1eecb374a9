#!/usr/bin/env python3
"""Does a kernel depend on how an operation is written? Softmax, RMSNorm and gelu as PyTorch's function and written out by
hand, with extra results, along the last, the first and a middle axis, at several sizes: number of kernels and speed.

python3 tools/variants.py [--device cuda] [--elements N] [--sizes 1,127,4096,4097] [--inductor]; the library as for the demo. A row
fails if a variant has more kernels than the function along the last axis, or moves its bytes at less than 0.9 of the
speed of the first variant along the same axis (the function, where there is one), measured in turns. How an axis compares
with the last one is printed too: memory makes that differ.
"""

import argparse
import collections
import ctypes
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "frontend/torch"))

import cinn_like  # noqa: E402
from cinn_like.backend import cinn_like as backend  # noqa: E402


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of malloc.h


def softmax(x, axis):
    return F.softmax(x, axis)


def softmax_written(x, axis):
    e = torch.exp(x - x.amax(axis, keepdim=True))
    return e / e.sum(axis, keepdim=True)


def softmax_extra(x, axis):
    largest = x.amax(axis, keepdim=True)
    e = torch.exp(x - largest)
    total = e.sum(axis, keepdim=True)
    return e / total, largest, total


def rms_norm(x, axis):
    return F.rms_norm(x, (x.shape[-1],), eps=1e-6) if axis == x.ndim - 1 else rms_norm_written(x, axis)


def rms_norm_written(x, axis):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(axis, keepdim=True) + 1e-6)).to(x.dtype)


def rms_norm_extra(x, axis):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(axis, keepdim=True) + 1e-6)
    return (wide * scale).to(x.dtype), scale


def gelu(x, axis):
    return F.gelu(x)


def gelu_written(x, axis):
    return (0.5 * x.float() * (1 + torch.erf(x.float() * 0.7071067811865476))).to(x.dtype)


def gelu_extra(x, axis):
    return gelu_written(x, axis), x > 0


FAMILIES = {
    "softmax": (softmax, softmax_written, softmax_extra),
    "rms_norm": (rms_norm, rms_norm_written, rms_norm_extra),
    "gelu": (gelu, gelu_written, gelu_extra),
}


def shape_of(size, axis, elements):
    rest = max(1, elements // size)
    return {"last": (rest, size), "first": (size, rest), "middle": (max(1, rest // 512), size, 512)}[axis]


def seconds(run, x, device):
    """Time of one call."""
    if device.type != "cuda":
        start = time.perf_counter()
        run(x)
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000)  # the host is ahead by the time that it ends
    begin.record()
    run(x)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3


def speeds(cases, device, rounds=41):
    """Bytes per second of each case at its fastest; cases take turns, and the first call of a turn is not timed."""
    times = [[] for _ in cases]
    for i in range(rounds):
        for case, t in zip(cases, times):
            for _ in range(2):
                last = seconds(case.run, case.inputs[i % len(case.inputs)], device)
            t.append(last)
    return [case.moved / min(t) for case, t in zip(cases, times)]


Case = collections.namedtuple("Case", "run inputs moved kernels error")


def prepare(fn, shape, axis, dtype, device, backend=backend):
    """Compiles one variant; its kernels, the bytes it moves and its largest relative error against float64."""
    cinn_like.reset_report()
    inputs = [torch.randn(shape, device=device, dtype=torch.float32).to(dtype) for _ in range(2)]
    compiled = torch.compile(lambda x: fn(x, axis), backend=backend, fullgraph=True, dynamic=False)
    outputs = compiled(inputs[0])
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    expected = fn(inputs[0].double(), axis)
    error = max(
        ((a.double() - b.double()).abs() / (b.double().abs() + 0.02 * b.double().abs().max() + 1e-30)).max().item()
        for a, b in zip(outputs, expected if isinstance(expected, tuple) else (expected,))
    )
    # A CPU reads a cache line before it writes to it.
    writes = 2 if device.type == "cpu" else 1
    moved = sum(t.numel() * t.element_size() * n for t, n in ((inputs[0], 1), *((o, writes) for o in outputs)))
    kernels = sum(s.kernels for s in cinn_like.report().subgraphs)
    return Case(compiled, inputs, moved, kernels, error)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--elements", type=int, default=None)
    parser.add_argument("--sizes", default="1,127,4096,4097")
    parser.add_argument("--inductor", action="store_true", help="print how many times our time Inductor takes")
    args = parser.parse_args()
    device = torch.device(args.device)
    dtype = getattr(torch, args.dtype or ("bfloat16" if device.type == "cuda" else "float32"))
    if device.type == "cpu":
        # Results stay in the process' memory: what the allocator returns to the system comes back by page faults.
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    elements = args.elements or (1 << 26 if device.type == "cuda" else 1 << 22)
    bad = 0
    bound = {torch.bfloat16: 1.6e-2, torch.float16: 2e-3, torch.float32: 2e-5}[dtype]
    print(f"{'case':36} {'kernels':>8} {'GB/s':>8} {'of the first':>13} {'of last axis':>13} {'error':>9}" + " / Inductor" * args.inductor)
    for family, variants in FAMILIES.items():
        for size in (int(s) for s in args.sizes.split(",")):
            along_last = None
            for axis in ("last", "first", "middle"):
                shape = shape_of(size, axis, elements)
                number = {"last": len(shape) - 1, "first": 0, "middle": 1}[axis]
                # The function knows trailing axes only.
                chosen = variants[1:] if family == "rms_norm" and axis != "last" else variants
                torch._dynamo.reset()
                cases = [prepare(fn, shape, number, dtype, device) for fn in chosen]
                if args.inductor:
                    cases += [prepare(fn, shape, number, dtype, device, "inductor") for fn in chosen]
                results = speeds(cases, device)
                along_last = along_last or (cases[0].kernels, results[0])
                for k, (fn, case, speed) in enumerate(zip(chosen, cases, results)):
                    wrong = [w for w, is_so in (("KERNELS", case.kernels > along_last[0]),
                                                ("SLOW", speed < 0.9 * results[0]),
                                                ("WRONG", not case.error <= bound)) if is_so]  # fmt: skip
                    bad += bool(wrong)
                    print(f"{fn.__name__ + ' ' + axis + ' ' + str(size):36} {case.kernels:8} {speed / 1e9:8.1f} "
                          f"{speed / results[0]:13.2f} {speed / along_last[1]:13.2f} {case.error:9.1e} "
                          + (f"{speed / results[k + len(chosen)]:10.2f} " if args.inductor else "")
                          + " ".join(wrong), flush=True)  # fmt: skip
    print(f"{bad} of them fall short")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
