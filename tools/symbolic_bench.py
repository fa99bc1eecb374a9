#!/usr/bin/env python3
"""Column sums, sums of squares, layer norms forward and backward, and rows (softmax over each axis, norms, reductions,
transpositions, elements, a product), through torch.compile(backend="cinn_like") on a GPU: with constant sizes, symbolic
rows, all sizes symbolic, and by eager PyTorch. A line of JSON a case: microseconds of
a call on the GPU (its kernels, by the profiler), of the wall in a row of calls, of the host to enqueue one; errors against
float64.

python3 tools/symbolic_bench.py [--rounds 3] [--only sum|squares|norm|rows]
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
                if d < x.dim() and x.shape[d] > 1:
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


def case(name, f, make, right, rounds, results, variants=None):
    if variants is None:
        variants = {"static": (), "rows": (0,)}
        if name.startswith("sum"):
            variants["both"] = (0, 1)
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
    if a.only in ("", "rows"):
        f32, bf16 = torch.float32, torch.bfloat16
        softmax = lambda d: lambda x: F.softmax(x, d)  # noqa: E731
        cases = [(f"softmax {n}x{m} {str(t)[6:]}", softmax(-1), [(n, m)], t)
                 for n, m, t in ((65536, 128, f32), (65536, 100, f32), (65536, 577, f32), (100000, 33, f32),
                                 (8192, 4096, f32), (4096, 32000, f32), (65536, 128, bf16), (16384, 1024, bf16))]
        cases += [
            ("log_softmax 4096x32000", lambda x: F.log_softmax(x, -1), [(4096, 32000)], f32),
            ("softmax + bias 16x12x512x512", lambda x, b: F.softmax(x * 0.125 + b, -1),
             [(16, 12, 512, 512), (16, 1, 512, 512)], f32),
            ("softmax axis 0 1024x16384", softmax(0), [(1024, 16384)], f32),
            ("softmax axis 0 4096x4096", softmax(0), [(4096, 4096)], f32),
            ("softmax axis 1 64x128x4096", softmax(1), [(64, 128, 4096)], f32),
            ("rms_norm 16384x4096", lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6), [(16384, 4096)], f32),
            ("layer_norm 65536x768", lambda x: F.layer_norm(x, (x.shape[-1],)), [(65536, 768)], f32),
            ("layer_norm 65536x768", lambda x: F.layer_norm(x, (x.shape[-1],)), [(65536, 768)], bf16),
            ("instance_norm 32x64x56x56", lambda x: F.instance_norm(x), [(32, 64, 56, 56)], f32),
            ("squares of rows 1048576x64", lambda x: (x * x).sum(1), [(1 << 20, 64)], f32),
            ("amax 65536x128", lambda x: x.amax(1), [(65536, 128)], f32),
            ("argmax 65536x512", lambda x: x.argmax(1), [(65536, 512)], f32),
            ("x + 2 y 64x1000x1000", lambda x, y: x + y * 2, [(64, 1000, 1000)] * 2, f32),
            ("gelu(x + b) 8192x4096", lambda x, b: F.gelu(x + b), [(8192, 4096), (4096,)], bf16),
            ("transpose 64x1000x512", lambda x: x.transpose(1, 2).contiguous() * 2, [(64, 1000, 512)], f32),
            ("gelu(x @ w) 2048x1024x4096", lambda x, w: F.gelu(x @ w.t()), [(2048, 1024), (4096, 1024)], bf16),
        ]
        for name, f, shapes, dtype in cases:
            torch.manual_seed(0)
            xs = [torch.rand(s, device=dev).to(dtype) for s in shapes]
            case(name, f, lambda: xs, lambda *xs: f(*[x.double() for x in xs]), a.rounds, results,
                 {"static": (), "all": tuple(range(len(shapes[0])))})
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
