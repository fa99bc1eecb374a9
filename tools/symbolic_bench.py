#!/usr/bin/env python3
"""Column sums, sums of squares, and layer norms forward and backward, through torch.compile(backend="cinn_like") on a
GPU: with constant sizes, symbolic rows, both sizes symbolic, and by eager PyTorch. A line of JSON a case: microseconds of
a call on the GPU (its kernels, by the profiler), of the wall in a row of calls, of the host to enqueue one; errors against
float64.

python3 tools/symbolic_bench.py [--rounds 3] [--only sum|squares|norm]
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F


def gpu_and_host_us(f, reps):
    """(GPU us a call from kernel activity, wall us a call of a queue of `reps`, host us a call to enqueue)."""
    f(), f()
    torch.cuda.synchronize()
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as p:
        for _ in range(5):
            f()
        torch.cuda.synchronize()
    kernels = {}
    for e in p.key_averages():
        t = getattr(e, "self_device_time_total", None)
        t = getattr(e, "self_cuda_time_total", 0) if t is None else t
        if t:
            kernels[e.key[:90]] = round(kernels.get(e.key[:90], 0) + t / 5, 1)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    t0 = time.perf_counter()
    for _ in range(reps):
        f()
    host = (time.perf_counter() - t0) * 1e6 / reps
    end.record()
    torch.cuda.synchronize()
    return sum(kernels.values()), start.elapsed_time(end) * 1e3 / reps, host, kernels


def compiled(f, dynamic_dims):
    torch._dynamo.reset()
    g = torch.compile(f, backend="cinn_like", dynamic=False if not dynamic_dims else None)

    def mark(*xs):
        for x in xs:
            for d in dynamic_dims:
                if x.dim() > max(dynamic_dims, default=0):
                    torch._dynamo.mark_dynamic(x, d)
        return xs

    return g, mark


def colsum(x):
    return x.sum(0)


def squares(x):
    return (x * x).sum()


def norm(x, w, b, dy):
    y = F.layer_norm(x, (x.shape[-1],), w, b)
    return torch.autograd.grad(y, (x, w, b), dy)


def case(name, f, make, right, rounds, results):
    variants = {"static": (), "rows": (0,), "both": (0, 1)} if name.startswith("sum") else {"static": (), "rows": (0,)}
    fs = {"eager": (f, lambda *xs: xs)}
    row = {"case": name}
    for v, dims in variants.items():
        try:
            fs[v] = compiled(f, dims)
            xs = fs[v][1](*make())
            got = fs[v][0](*xs)
            want = right(*xs)
            for a, e in zip(got if isinstance(got, tuple) else [got], want if isinstance(want, tuple) else [want]):
                err = (a.double() - e.double()).abs().max() / e.double().abs().max().clamp_min(1e-30)
                row[f"error_{v}"] = max(row.get(f"error_{v}", 0), float(err))
            g = fs[v][0]
            times = []
            for _ in range(rounds):
                times.append(gpu_and_host_us(lambda: g(*xs), 50))
            best = min(times, key=lambda t: t[0])
            row[v] = dict(gpu_us=round(statistics.median(t[0] for t in times), 1),
                          wall_us=round(statistics.median(t[1] for t in times), 1),
                          host_us=round(statistics.median(t[2] for t in times), 1), kernels=best[3])
        except Exception as e:  # noqa: BLE001
            row[v] = repr(e)[:300]
    xs = make()
    times = [gpu_and_host_us(lambda: f(*xs), 50) for _ in range(rounds)]
    row["eager"] = dict(gpu_us=round(statistics.median(t[0] for t in times), 1),
                        wall_us=round(statistics.median(t[1] for t in times), 1), kernels=times[0][3])
    base = row["static"]["gpu_us"] if isinstance(row.get("static"), dict) else None
    for v in variants:
        if base and v != "static" and isinstance(row.get(v), dict):
            row[f"{v}_over_static"] = round(row[v]["gpu_us"] / base, 2)
    results.append(row)
    print(json.dumps(row), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="")
    a = p.parse_args()
    results = []
    dev = "cuda"
    if a.only in ("", "sum"):
        for dtype in (torch.float32, torch.bfloat16):
            for r, c in ((65536, 2048), (65535, 2048), (65537, 2048), (60000, 2048), (16384, 4096), (100003, 768)):
                torch.manual_seed(0)
                x = torch.randn(r, c, device=dev).to(dtype)
                case(f"sum {r}x{c} {str(dtype)[6:]}", colsum, lambda: (x,), lambda x: x.double().sum(0), a.rounds, results)
    if a.only in ("", "squares"):
        torch.manual_seed(0)
        x = torch.randn(1 << 28, device=dev)
        case("squares 2^28 f32", squares, lambda: (x,), lambda x: squares(x.double()), a.rounds, results)
    if a.only in ("", "norm"):
        for r, c, dtype in ((16384, 4096, torch.bfloat16), (16383, 4096, torch.bfloat16), (8192, 768, torch.float32)):
            x = torch.randn(r, c, device=dev).to(dtype).requires_grad_()
            w = torch.randn(c, device=dev).to(dtype).requires_grad_()
            b = torch.randn(c, device=dev).to(dtype).requires_grad_()
            dy = torch.randn(r, c, device=dev).to(dtype)

            def right(x, w, b, dy):
                args = [t.detach().double().requires_grad_() for t in (x, w, b)]
                y = F.layer_norm(args[0], (x.shape[-1],), args[1], args[2])
                return torch.autograd.grad(y, args, dy.double())

            def compile_norm(dims):
                torch._dynamo.reset()
                g = torch.compile(lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), backend="cinn_like",
                                  dynamic=False if not dims else None)

                def run(x, w, b, dy):
                    return torch.autograd.grad(g(x, w, b), (x, w, b), dy)

                def mark(x, w, b, dy):
                    for d in dims:
                        torch._dynamo.mark_dynamic(x, d)
                    return x, w, b, dy

                return run, mark

            global compiled
            plain, compiled = compiled, lambda f, dims: compile_norm(dims)
            case(f"norm {r}x{c} {str(dtype)[6:]}", norm, lambda: (x, w, b, dy), right, a.rounds, results)
            compiled = plain


if __name__ == "__main__":
    main()
