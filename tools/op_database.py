#!/usr/bin/env python3
"""Runs PyTorch's op database through torch.compile(backend="cinn_like") and compares every op with eager PyTorch.

    tools/op_database.py --device cpu --dtypes f32,bf16,i64,grad --json ops.json

An op is run with its first samples in worker processes that many ops share. A case is an op in a dtype (`grad`: f32 and
its gradients). What is compared: values (NaN and infinities too, finite ones within a tolerance by dtype), dtype, shape
and strides. Random ops are run for their types alone: they are those that call an op with PyTorch's tag
`nondeterministic_seeded`; and so are results of uninitialised memory (they follow what `empty` is filled with).

    wrong     another answer than eager's, where backend="aot_eager" gives eager's
    raises    an error that neither eager nor backend="aot_eager" has
    failed    a region that the compiler refused after the partition (report().failures)
    crashed   the worker ended, or ran past the time limit

The exit code is 1 if there is any of these. Needs tools/requirements-bench.txt.
"""

import argparse
import collections
import json
import os
import queue
import subprocess
import sys
import threading
import time
import traceback

# {dtype: (relative, absolute tolerance)}; the absolute one grows with the largest finite element below 1 / relative.
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1e-4, 1e-5), "bfloat16": (3e-2, 1e-2), "float16": (4e-3, 1e-3)}
BAD = ("wrong", "raises", "failed", "crashed")
KINDS = {"f32": "float32", "bf16": "bfloat16", "i64": "int64", "f16": "float16", "f64": "float64", "grad": "float32"}


# ---- In a worker --------------------------------------------------------------------------------------------------


class Differs(Exception):
    pass


def flatten(x):
    import torch

    return [t for t in torch.utils._pytree.tree_leaves(x) if isinstance(t, torch.Tensor)]


def compare(ours, eager, values):
    """Raises Differs. `values`: False compares types alone."""
    import torch

    if len(ours) != len(eager):
        raise Differs(f"{len(ours)} results, eager has {len(eager)}")
    for i, (a, b) in enumerate(zip(ours, eager)):
        where = f"result {i}: " if len(eager) > 1 else ""
        if a.dtype != b.dtype or a.shape != b.shape or a.device != b.device or a.layout != b.layout:
            got, expected = (f"{t.dtype} {list(t.shape)} {t.layout} on {t.device}" for t in (a, b))
            raise Differs(f"{where}{got}, eager has {expected}")
        if a.layout != torch.strided:
            continue
        strides = [(p, q) for p, q, size in zip(a.stride(), b.stride(), b.shape) if size > 1]
        if b.numel() > 0 and any(p != q for p, q in strides):
            raise Differs(f"{where}strides {list(a.stride())}, eager has {list(b.stride())}")
        if values:
            compare_values(a.detach(), b.detach(), where)


def compare_values(a, b, where):
    import torch

    if a.is_quantized or not b.numel():
        return
    if a.is_conj() or b.is_conj() or a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    name = str(b.dtype).removeprefix("torch.")
    if not b.dtype.is_floating_point:
        bad = a.resolve_neg() != b.resolve_neg()
    else:
        relative, absolute = TOLERANCES.get(name, (0.1, 0.1))
        a, b = a.resolve_neg().double(), b.resolve_neg().double()
        finite = torch.isfinite(b)
        scale = b[finite].abs().max().item() if finite.any() else 0.0
        bad = torch.where(
            finite,
            ~((a - b).abs() <= absolute * max(min(scale, 1 / relative), 1.0) + relative * b.abs()),
            ~((a == b) | (torch.isnan(a) & torch.isnan(b))),
        )
    if bad.any():
        at = bad.reshape(-1).nonzero()[0].item()
        raise Differs(
            f"{where}{int(bad.sum())} of {bad.numel()} elements differ, at {at} {a.reshape(-1)[at].item()!r}, "
            f"eager has {b.reshape(-1)[at].item()!r}"
        )


def is_random(f):
    """Whether f calls an op that draws random numbers."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        seen = False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen |= torch.Tag.nondeterministic_seeded in func.tags
            return func(*args, **(kwargs or {}))

    with Watch() as watch:
        f()
    return watch.seen


def is_uninitialised(f):
    """Whether f's results follow what fresh memory is filled with."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Fill(TorchDispatchMode):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            fresh = "empty" in func._schema.name and isinstance(result, torch.Tensor)
            return result.fill_(self.value) if fresh and result.layout == torch.strided else result

    found = []
    for value in (0, 1):
        with Fill(value):
            found.append(f())
    try:
        compare(*found, True)
        return False
    except Differs:
        return True


def clone(x):
    """Tensors as they are laid out, gradients wanted where they were."""
    import torch

    def one(t):
        if not isinstance(t, torch.Tensor):
            return t
        return t.detach().clone().requires_grad_(t.requires_grad)

    return torch.utils._pytree.tree_map(one, x)


def runner(op, sample, with_gradients):
    """run(f): the results of f on the sample, and the gradients."""
    import torch

    def run(f):
        x, args, kwargs = clone((sample.input, sample.args, sample.kwargs))
        if not with_gradients:
            with torch.no_grad():
                return flatten(f(x, *args, **kwargs))
        inputs = [t for t in flatten((x, args, kwargs)) if t.requires_grad]
        results = flatten(f(x, *args, **kwargs))
        differentiable = [t for t in results if t.requires_grad and t.is_leaf is False]
        if not differentiable:
            return results

        def ramp(t):
            return torch.linspace(0.5, 1.5, t.numel(), device=t.device).reshape(t.shape).to(t.dtype)

        gradients = torch.autograd.grad(differentiable, inputs, [ramp(t) for t in differentiable], allow_unused=True)
        return results + [g for g in gradients if g is not None]

    return run


def check_sample(op, sample, with_gradients):
    """(status, detail) of one sample; see the top."""
    import cinn_like
    import torch

    run = runner(op, sample, with_gradients)

    def call(x, *args, **kwargs):
        return op(x, *args, **kwargs)

    def compiled(**options):
        torch._dynamo.reset()
        torch.manual_seed(0)
        return run(torch.compile(call, **options))

    try:
        torch.manual_seed(0)
        expected = run(call)
        values = not is_random(lambda: run(call)) and not is_uninitialised(lambda: run(call))
    except Exception as why:
        return "eager raises", f"{type(why).__name__}: {why}"
    cinn_like.reset_report()
    status, detail = None, ""
    try:
        compare(compiled(backend="cinn_like"), expected, values)
    except Differs as why:
        status, detail = "wrong", str(why)
    except Exception as why:
        last = traceback.extract_tb(why.__traceback__)[-1]
        status, detail = "raises", f"{type(why).__name__}: {why} ({os.path.basename(last.filename)}:{last.lineno})"
    report = cinn_like.report()
    if report.failures:
        return "failed", "; ".join(report.failures)
    if status is not None:
        try:
            compare(compiled(backend="aot_eager"), expected, values)
        except Exception as why:
            return "as aot_eager", f"{detail} / {type(why).__name__}: {why}"
        return status, detail
    if not values:
        return "types alone", "random or uninitialised"
    if report.subgraphs:
        return ("partly compiled" if report.fallback_ops else "compiled"), ", ".join(report.fallback_ops)
    return "fell back", "; ".join(f"{k}: {v}" for k, v in report.fallback_ops.items())


ORDER = (*BAD, "as aot_eager", "compiled", "partly compiled", "types alone", "fell back", "eager raises", "no samples")


def check_case(op, kind, device, count):
    """(status, detail): the worst of the op's first `count` samples."""
    import itertools

    import torch

    dtype, gradients = getattr(torch, KINDS[kind]), kind == "grad"
    try:
        torch.manual_seed(0)
        samples = list(itertools.islice(op.sample_inputs(device, dtype, requires_grad=gradients), count))
    except Exception as why:
        return "no samples", f"{type(why).__name__}: {why}"
    found = []
    for i, sample in enumerate(samples):
        status, detail = check_sample(op, sample, gradients)
        found.append((status, f"sample {i}: {detail}" if detail else ""))
    return min(found, key=lambda f: ORDER.index(f[0]), default=("no samples", ""))


def is_supported(op, kind, device):
    import torch

    dtype = getattr(torch, KINDS[kind])
    if kind == "grad":
        return op.supports_autograd and dtype in op.supported_backward_dtypes(device)
    return op.supports_dtype(dtype, device)


def full_name(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def database():
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def work(arguments):
    """Reads [index, kind] a line, writes [status, detail] a line."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what ops print is no answer
    import warnings

    warnings.simplefilter("ignore")
    import cinn_like  # noqa: F401
    import torch

    torch.set_num_threads(1 if arguments.device == "cpu" else torch.get_num_threads())
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    op_db = database()
    print(json.dumps(["ready", ""]), file=channel, flush=True)
    for line in sys.stdin:
        index, kind = json.loads(line)
        if arguments.device == "cuda":
            torch.cuda.synchronize()  # a lost context ends the worker before it spoils another case
        answer = check_case(op_db[index], kind, arguments.device, arguments.samples)
        if arguments.device == "cuda":
            torch.cuda.synchronize()
        print(json.dumps(answer), file=channel, flush=True)


# ---- The parent ---------------------------------------------------------------------------------------------------


class Worker:
    def __init__(self, arguments):
        command = [sys.executable, os.path.abspath(__file__), "--worker", "--device", arguments.device]
        command += ["--samples", str(arguments.samples)]
        self.errors = open(os.path.join(arguments.logs, f"{threading.get_ident()}.log"), "a+") if arguments.logs else None
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors or subprocess.DEVNULL, text=True
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.receive(300)

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def receive(self, seconds):
        """The next answer; None where the process ended; queue.Empty is raised after `seconds`."""
        line = self.lines.get(timeout=seconds)
        return None if line is None else json.loads(line)

    def ask(self, case, seconds):
        try:
            self.process.stdin.write(json.dumps(case) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.receive(seconds)

    def end(self):
        self.process.kill()
        return self.process.wait()


def serve(cases, results, arguments, total):
    """One thread's work: takes cases, asks its worker, restarts it when it ends."""
    worker = None
    while True:
        try:
            index, name, kind = cases.get_nowait()
        except queue.Empty:
            break
        start = time.perf_counter()
        worker = worker or Worker(arguments)
        try:
            answer = worker.ask([index, kind], arguments.seconds)
            if answer is None:
                answer = ["crashed", f"the process ended with {worker.end()}"]
                worker = None
        except queue.Empty:
            worker.end()
            answer, worker = ["crashed", f"no answer within {arguments.seconds} s"], None
        results.append({"op": name, "kind": kind, "status": answer[0], "detail": answer[1],
                        "seconds": round(time.perf_counter() - start, 2)})  # fmt: skip
        if answer[0] in BAD or arguments.verbose:
            print(f"[{len(results)}/{total}] {name} {kind}: {answer[0]}: {answer[1][:400]}", flush=True)
    if worker is not None:
        worker.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtypes", default="f32,bf16,i64,grad", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--samples", type=int, default=2, help="of each op")
    parser.add_argument("--ops", default="", help="comma-separated parts of names")
    parser.add_argument("--exact", action="store_true", help="--ops are whole names")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th op from the i-th on")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="for one case")
    parser.add_argument("--json", help="where to write all cases")
    parser.add_argument("--logs", help="a folder for what the workers write to stderr")
    parser.add_argument("--verbose", action="store_true", help="print every case")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
        return 0
    kinds = arguments.dtypes.split(",")
    unknown = set(kinds) - set(KINDS)
    if unknown:
        parser.error(f"--dtypes: unknown {sorted(unknown)}; known are {', '.join(KINDS)}")
    wanted = [w for w in arguments.ops.split(",") if w]
    first, step = map(int, arguments.part.split("/"))
    if arguments.logs:
        os.makedirs(arguments.logs, exist_ok=True)

    cases, total = queue.Queue(), 0
    for index, op in list(enumerate(database()))[first::step]:
        name = full_name(op)
        if wanted and not any(w == name if arguments.exact else w in name for w in wanted):
            continue
        for kind in kinds:
            if is_supported(op, kind, arguments.device):
                cases.put((index, name, kind))
                total += 1
    results, start = [], time.perf_counter()
    threads = [threading.Thread(target=serve, args=(cases, results, arguments, total)) for _ in range(arguments.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    counts = collections.Counter(r["status"] for r in results)
    bad = sum(counts[status] for status in BAD)
    print(f"{total} cases of {len({r['op'] for r in results})} ops in {time.perf_counter() - start:.0f} s")
    for status in ORDER:
        if counts[status] or status in BAD:
            print(f"  {status:<16}{counts[status]:>6}")
    if arguments.json:
        import torch

        head = {"torch": torch.__version__, "device": arguments.device, "counts": dict(counts)}
        with open(arguments.json, "w") as f:
            json.dump({**head, "cases": sorted(results, key=lambda r: (r["op"], r["kind"]))}, f, indent=1)
    return 1 if bad or not total else 0


if __name__ == "__main__":
    sys.exit(main())
