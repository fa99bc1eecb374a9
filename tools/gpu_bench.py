#!/usr/bin/env python3
"""Checks graphs on this machine's GPU against float64, times some of them beside PyTorch eager and torch.compile, and
reductions with a constant first dimension beside the same with a symbolic one.

python3 tools/gpu_bench.py [folder for bench.json, bench.txt and sources]; CINN_LIKE_LIBRARY names libcinn_like.so. Needs
PyTorch with CUDA, and an NVRTC that PyTorch brings.
"""

import glob
import json
import os
import pathlib
import statistics
import sys
import time
import traceback

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "frontend/torch"))

import cinn_like  # noqa: E402

if "CINN_LIKE_LIBRARY" in os.environ:  # the extension module lies beside it
    cinn_like.__path__.append(str(pathlib.Path(os.environ["CINN_LIKE_LIBRARY"]).resolve().parent))

from cinn_like import library  # noqa: E402
from cinn_like.emit import Signature  # noqa: E402
from cinn_like.function import compile_function, default_target  # noqa: E402

DEVICE = torch.device("cuda")
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64, "i64": torch.int64}
TOLERANCE = {torch.bfloat16: 1.6e-2, torch.float16: 2e-3, torch.float32: 2e-5, torch.int64: 0}


def gelu_case(rows, columns, approximate):
    t = f"bf16[{rows},{columns}]"
    text = f"""graph @gelu(%x: {t}, %b: bf16[{columns}], %r: {t}) {{
  %0 = add(%x, %b) : {t}
  %1 = gelu(%0) {{approximate="{approximate}"}} : {t}
  %2 = full() {{value=0.5, dtype=bf16}} : bf16[]
  %3 = mul(%1, %2) : {t}
  %4 = add(%3, %r) : {t}
  return %4
}}
"""
    return text, lambda x, b, r: F.gelu(x + b, approximate=approximate) * 0.5 + r


def softmax_case(shape, axis, dtype):
    t = f"{dtype}[{','.join(map(str, shape))}]"
    text = f"graph @softmax(%x: {t}) {{\n  %0 = softmax(%x) {{axis={axis}}} : {t}\n  return %0\n}}\n"
    return text, lambda x: F.softmax(x, axis)


def rms_case(rows, columns):
    t = f"bf16[{rows},{columns}]"
    text = f"""graph @rms(%x: {t}, %r: {t}, %w: bf16[{columns}]) {{
  %0 = add(%x, %r) : {t}
  %1 = rms_norm(%0, %w) {{axes=[1], epsilon=1e-6}} : {t}
  return %0, %1
}}
"""

    def run(x, r, w):
        h = x + r
        return h, F.rms_norm(h, (columns,), w, 1e-6)

    return text, run


def one_op(use, result, run):
    """"softmax(f32[3,4]) {axis=1}" -> the graph of one op."""
    head, rest = use.split("(", 1)
    operands, attributes = rest.split(")", 1)
    types = [o.strip() for o in operands.split(";") if o.strip()]
    params = ", ".join(f"%p{i}: {t}" for i, t in enumerate(types))
    args = ", ".join(f"%p{i}" for i in range(len(types)))
    return f"graph @one({params}) {{\n  %0 = {head}({args}){attributes} : {result}\n  return %0\n}}\n", run


def parameters(text):
    """The types of the graph's parameters: (dtype, shape) each."""
    head = text[text.index("(") + 1 : text.index(") {")]
    r = []
    for part in head.split("%")[1:]:
        dtype, shape = part.split(": ", 1)[1].split("[")
        r.append((DTYPES[dtype], [int(d) for d in shape.split("]")[0].split(",") if d]))
    return r


def compile_text(text, num_results):
    types = parameters(text)
    signature = Signature((False,) * len(types), (None,) * len(types), 0, num_results)
    return compile_function(text, default_target(DEVICE), DEVICE, signature)


def inputs_of(text, generator):
    return [torch.randn(shape, device=DEVICE, generator=generator, dtype=torch.float32).to(dtype) for dtype, shape in parameters(text)]


def wide(x):
    return x.double() if x.is_floating_point() else x


def check(name, text, run, generator):
    inputs = inputs_of(text, generator)
    outputs = run(*[wide(x) for x in inputs])
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    function = compile_text(text, len(outputs))
    got = function.call(*inputs)
    torch.cuda.synchronize()
    worst = 0.0
    for a, b in zip(got, outputs):
        tolerance = TOLERANCE[a.dtype]
        error = ((wide(a) - b).abs() / (b.abs() + 0.05 * b.abs().max() + 1e-30)).max().item()
        worst = max(worst, error)
        if not error <= max(tolerance, 1e-30):
            raise AssertionError(f"relative error {error:.3g} > {tolerance}")
    return worst, function


CHECKS = [
    *[(f"gelu_{a} 333x264", *gelu_case(333, 264, a)) for a in ("tanh", "none")],
    ("rms 77x1024", *rms_case(77, 1024)),
    ("rms 5x8192", *rms_case(5, 8192)),
    ("rms 3x1000", *rms_case(3, 1000)),
    *[
        (f"softmax {d} {s} axis {a}", *softmax_case(s, a, d))
        for d in ("f32", "bf16")
        for s in ((33, 1), (17, 127), (9, 4097), (5, 50257), (127, 40), (4097, 33), (50257, 2), (3, 127, 65), (64, 4096))
        for a in range(len(s))
    ],
    ("column sum", *one_op("reduce_sum(f32[1000,77]) {axes=[0]}", "f32[77]", lambda x: x.sum(0))),
    ("full sum", *one_op("reduce_sum(f32[333,77]) {axes=[0,1]}", "f32[]", lambda x: x.sum())),
    ("row max", *one_op("reduce_max(bf16[333,77]) {axes=[1]}", "bf16[333]", lambda x: x.amax(1))),
    ("argmax", *one_op("argmax(f32[50,333]) {axis=1}", "i64[50]", lambda x: x.argmax(1))),
    ("argmax columns", *one_op("argmax(f32[333,50]) {axis=0}", "i64[50]", lambda x: x.argmax(0))),
    ("transpose", *one_op("transpose(bf16[333,77]) {perm=[1,0]}", "bf16[77,333]", lambda x: x.t())),
    ("matmul", *one_op("matmul(f32[100,77]; f32[77,130])", "f32[100,130]", torch.matmul)),
    ("matmul bf16", *one_op("matmul(bf16[128,256]; bf16[256,64])", "bf16[128,64]", torch.matmul)),
    ("batched matmul", *one_op("matmul(f32[3,40,77]; f32[3,77,30])", "f32[3,40,30]", torch.matmul)),
    ("layer_norm", *one_op("layer_norm(f32[77,1024]; f32[1024]; f32[1024]) {axes=[1], epsilon=1e-5}", "f32[77,1024]",
                           lambda x, w, b: F.layer_norm(x, (1024,), w, b, 1e-5))),
    ("conv", *one_op("conv(f32[2,3,20,21]; f32[8,3,3,3]) {stride=[1,1], padding=[1,1]}", "f32[2,8,20,21]",
                       lambda x, w: F.conv2d(x, w, padding=1))),
    ("two kernels", """graph @two(%x: f32[65,64], %y: f32[64,200]) {
  %0 = matmul(%x, %y) : f32[65,200]
  %1 = softmax(%0) {axis=1} : f32[65,200]
  return %0, %1
}
""", lambda x, y: (x @ y, F.softmax(x @ y, 1))),
    ("exp of a scalar", *one_op("exp(f32[])", "f32[]", torch.exp)),
]  # fmt: skip

TIMED = [
    ("gelu_tanh 32768x4096", *gelu_case(32768, 4096, "tanh"), 3 * 32768 * 4096 * 2),
    ("gelu_erf 32768x4096", *gelu_case(32768, 4096, "none"), 3 * 32768 * 4096 * 2),
    ("softmax 16384x4096", *softmax_case((16384, 4096), 1, "bf16"), 2 * 16384 * 4096 * 2),
    ("rmsnorm 16384x8192", *rms_case(16384, 8192), 4 * 16384 * 8192 * 2),
]


def norm_backward_case(rows, columns):
    """The gradients of layer_norm in x, weight and bias, as the framework decomposes them."""
    b, f, s = f"bf16[{rows},{columns}]", f"f32[{rows},{columns}]", f"f32[{rows},1]"
    text = f"""graph @norm_backward(%dy: {b}, %x: {b}, %w: bf16[{columns}], %mean: {s}, %rstd: {s}) {{
  %0 = cast(%dy) {{dtype=f32}} : {f}
  %1 = cast(%x) {{dtype=f32}} : {f}
  %2 = cast(%w) {{dtype=f32}} : f32[{columns}]
  %3 = sub(%1, %mean) : {f}
  %4 = mul(%3, %rstd) : {f}
  %5 = mul(%0, %2) : {f}
  %6 = reduce_mean(%5) {{axes=[1], keepdims=true}} : {s}
  %7 = mul(%5, %4) : {f}
  %8 = reduce_mean(%7) {{axes=[1], keepdims=true}} : {s}
  %9 = mul(%4, %8) : {f}
  %10 = sub(%5, %6) : {f}
  %11 = sub(%10, %9) : {f}
  %12 = mul(%11, %rstd) : {f}
  %13 = cast(%12) {{dtype=bf16}} : {b}
  %14 = mul(%0, %4) : {f}
  %15 = reduce_sum(%14) {{axes=[0]}} : f32[{columns}]
  %16 = cast(%15) {{dtype=bf16}} : bf16[{columns}]
  %17 = reduce_sum(%0) {{axes=[0]}} : f32[{columns}]
  %18 = cast(%17) {{dtype=bf16}} : bf16[{columns}]
  return %13, %16, %18
}}
"""

    def run(dy, x, w, mean, rstd):
        normal, g = (x - mean) * rstd, dy * w
        dx = (g - g.mean(1, keepdim=True) - normal * (g * normal).mean(1, keepdim=True)) * rstd
        return dx, (dy * normal).sum(0), dy.sum(0)

    return text, run


# A first dimension that is a symbol costs at most this much more than a constant one. (name, text, run, first dimension)
MOST_OF_STATIC = 1.2
SYMBOLIC = [
    ("sum of squares 2^28", """graph @squares(%x: f32[268435456]) {
  %0 = mul(%x, %x) : f32[268435456]
  %1 = reduce_sum(%0) {axes=[0]} : f32[]
  return %1
}
""", lambda x: (x * x).sum(), 1 << 28),
    ("column sum 65536x2048", *one_op("reduce_sum(f32[65536,2048]) {axes=[0]}", "f32[2048]", lambda x: x.sum(0)), 65536),
    ("norm backward 16384x4096", *norm_backward_case(16384, 4096), 16384),
]  # fmt: skip


def with_symbol(text, size, hint):
    """The same graph with `n` in place of a first dimension."""
    where = f") where n in 2..2147483647 hint {hint} {{"
    return text.replace(f"[{size},", "[n,").replace(f"[{size}]", "[n]").replace(") {", where, 1)


def time_symbolic(name, text, run, size, generator):
    """{"static", "symbolic", "other hint", "eager"}: microseconds."""
    error, static = check(name, text, run, generator)
    inputs = [inputs_of(text, generator) for _ in range(2)]
    num_results = len(run(*inputs[0])) if isinstance(run(*inputs[0]), tuple) else 1
    signature = Signature((False,) * len(inputs[0]), (None,) * len(inputs[0]), 0, num_results)
    calls = {"static": static.call}
    for who, hint in [("symbolic", size), ("other hint", max(size // 16, 2))]:
        function = compile_function(with_symbol(text, size, hint), default_target(DEVICE), DEVICE, signature)
        calls[who] = function.call
        for a, b in zip(function.call(*inputs[0]), static.call(*inputs[0])):
            difference = (wide(a) - wide(b)).abs().max().item() / (wide(b).abs().max().item() + 1e-30)
            if not difference <= TOLERANCE[a.dtype]:
                raise AssertionError(f"{who}: differs from static by {difference:.3g}")
    calls["eager"] = run
    times = {who: microseconds(call, inputs) for who, call in calls.items()}
    for who in reversed(calls):
        times[who] = min(times[who], microseconds(calls[who], inputs))
    return times


def microseconds(run, inputs, repeats=30):
    """Median of CUDA-event times of the device; the calls of a batch rotate over input sets that do not fit in the L2 together."""
    for i in range(3):
        run(*inputs[i % len(inputs)])
    torch.cuda.synchronize()
    times = []
    for i in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(2_000_000)  # the host is ahead by the time that it ends
        begin.record()
        for k in range(4):
            run(*inputs[(i + k) % len(inputs)])
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / 4)
    return statistics.median(times)


def find_nvrtc():
    """PyTorch has loaded one; else any in its packages."""
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if "libnvrtc.so" in line}
    site = pathlib.Path(torch.__file__).resolve().parent.parent
    packaged = [p for p in glob.glob(str(site / "nvidia/**/libnvrtc.so.1*"), recursive=True) if "alt" not in p]
    system = glob.glob("/usr/local/cuda*/lib64/libnvrtc.so.1*")
    return next(iter(sorted(loaded) + sorted(packaged) + sorted(system)), None)


def function_module():
    from cinn_like.function import _binder

    return _binder().__module__ or "_call"


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    out.mkdir(parents=True, exist_ok=True)
    torch.zeros(1, device=DEVICE)
    nvrtc = find_nvrtc()
    if nvrtc:
        library.get().set_flag("cinn_nvrtc", nvrtc)
    lines, report = [], {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "nvrtc": nvrtc, "call": function_module(), "checks": {}, "timings": {}}

    def say(line):
        print(line, flush=True)
        lines.append(line)

    def save():
        (out / "bench.json").write_text(json.dumps(report, indent=1))
        (out / "bench.txt").write_text("\n".join(lines) + "\n")

    say(f"{report['device']}, PyTorch {report['torch']}, {nvrtc}, target {default_target(DEVICE)}, calls by {report['call']}")
    generator = torch.Generator(DEVICE).manual_seed(1)
    for name, text, run in CHECKS:
        try:
            begin = time.perf_counter()
            error, _ = check(name, text, run, generator)
            report["checks"][name] = error
            say(f"ok    {name:36} error {error:.2g}, {(time.perf_counter() - begin) * 1e3:.0f} ms")
        except Exception as why:
            report["checks"][name] = str(why)
            say(f"WRONG {name:36} {type(why).__name__}: {str(why)[:400]}")
    save()
    say(f"{'case':24} {'cinn_like':>10} {'inductor':>10} {'eager':>10} us; GB/s of cinn_like; speed-up over inductor")
    for name, text, run, size in TIMED:
        try:
            error, function = check(name, text, run, generator)
            (out / (name.split()[0] + ".cu")).write_text(function.source("cuda") or "")
            inputs = [inputs_of(text, generator) for _ in range(2)]
            compiled = torch.compile(run)
            times = {}
            for who, call in [("cinn_like", function.call), ("inductor", compiled), ("eager", run)]:
                times[who] = microseconds(call, inputs)
            # Once more, in the other order: a machine that drifts shows.
            for who, call in [("eager", run), ("inductor", compiled), ("cinn_like", function.call)]:
                times[who] = min(times[who], microseconds(call, inputs))
            report["timings"][name] = {**times, "bytes": size, "error": error, "info": function.info}
            say(f"{name:24} {times['cinn_like']:10.1f} {times['inductor']:10.1f} {times['eager']:10.1f}     "
                f"{size / times['cinn_like'] / 1e3:6.0f} {times['inductor'] / times['cinn_like']:6.2f}x")  # fmt: skip
            del inputs
        except Exception as why:
            report["timings"][name] = str(why)
            say(f"FAILED {name}: {why}\n{traceback.format_exc()[-600:]}")
        torch.cuda.empty_cache()
        torch._dynamo.reset()
        save()
    say(f"{'first dimension':26} {'static':>10} {'symbolic':>10} {'other hint':>10} {'eager':>10} us; symbolic / static")
    too_slow = 0
    for name, text, run, size in SYMBOLIC:
        try:
            times = report["timings"][name] = time_symbolic(name, text, run, size, generator)
            ratio = times["symbolic"] / times["static"]
            too_slow += ratio > MOST_OF_STATIC
            say(f"{name:26} " + " ".join(f"{t:10.1f}" for t in times.values()) + f"     {ratio:.2f}x")
        except Exception as why:
            report["timings"][name] = str(why)
            too_slow += 1
            say(f"FAILED {name}: {why}\n{traceback.format_exc()[-600:]}")
        torch.cuda.empty_cache()
        save()
    return 0 if all(isinstance(v, float) for v in report["checks"].values()) and not too_slow else 1


if __name__ == "__main__":
    sys.exit(main())
