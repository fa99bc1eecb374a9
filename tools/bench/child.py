"""One process of the bench: `first` calls a model once through one backend, twice through another size; `rounds` checks
and times all contenders in turns. Each fact is a line "BENCH {json}" as soon as it is known, so a process that dies or is
stopped loses only what it had not measured."""

import copy
import json
import math
import os
import pathlib
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from . import models

# Relative errors that the dtype explains by itself: what a sum in another order changes. In training it moves activations
# across the kink of a relu, so that single gradients change by percents.
GRANTED = {False: {"f32": 1e-4, "bf16": 2e-2}, True: {"f32": 5e-2, "bf16": 0.3}}
TIMES_EAGER = 3.0  # and beyond that, this many times eager's own error
_LEAST_SAMPLE_S = 5e-3  # shorter calls are timed in groups


def emit(**facts):
    print("BENCH " + json.dumps(facts), flush=True)


def backend_of(name):
    """By name where the package is installed, else the function of the sources beside this tool."""
    if name != "cinn_like" or "cinn_like" in torch._dynamo.list_backends(exclude_tags=()):
        return name
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "frontend/torch"))
    import cinn_like

    if "CINN_LIKE_LIBRARY" in os.environ:  # the extension module lies beside it
        cinn_like.__path__.append(str(pathlib.Path(os.environ["CINN_LIKE_LIBRARY"]).resolve().parent))
    from cinn_like.backend import cinn_like as function

    return function


def report_of_ours():
    """What was compiled and what was not: a ratio of 1.0 is no success where all was left to the framework."""
    import cinn_like

    report = cinn_like.report()
    return {"subgraphs": len(report.subgraphs), "kernels": sum(s.kernels for s in report.subgraphs),
            "ops": sum(report.compiled_ops.values()), "cache_hits": report.cache_hits,
            "seconds": round(report.total_seconds, 3), "failures": [str(f)[:400] for f in report.failures],
            "left": {str(k): str(v)[:120] for k, v in report.fallback_ops.items()}}  # fmt: skip


# ---- calls ----------------------------------------------------------------------------------------------------------


def tensors(output):
    """The tensors of a result, without the caches that a model hands through."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        return [t for v in output.values() for t in tensors(v)]
    return [t for v in output for t in tensors(v)] if isinstance(output, (list, tuple)) else []


def loss_of(output):
    if getattr(output, "loss", None) is not None:
        return output.loss
    values = tensors(output)[0]
    if values.ndim == 2:
        return F.cross_entropy(values, torch.arange(len(values), device=values.device) % values.shape[1])
    return values.square().mean()


class Step:
    """One call as a user makes it: inference, or forward, loss and backward into fresh gradients."""

    def __init__(self, row, module, run, inputs, device):
        self.module, self.run, self.inputs, self.device = module, run, inputs, device
        self.training, self.autocast = row.model.training, row.model.training and row.dtype == "bf16"

    def forward(self):
        args = self.inputs.args
        return self.run(**args) if isinstance(args, dict) else self.run(*args)

    def __call__(self):
        if not self.training:
            with torch.no_grad():
                return self.forward()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            loss = loss_of(self.forward())
        for p in self.module.parameters():
            p.grad = None
        loss.backward()
        return loss

    def results(self):
        """Outputs, or loss, gradients and buffers by name, of a call from the same state each time."""
        self.inputs.reset()
        buffers = {k: b.clone() for k, b in self.module.named_buffers()}
        output = self()
        if not self.training:
            return {f"output {i}": t.detach().clone() for i, t in enumerate(tensors(output))}
        found = {"loss": output.detach().clone()}
        # A compiled graph gives zeros to parameters of what the loss does not read, eager PyTorch nothing.
        for k, p in self.module.named_parameters():
            found[f"gradient of {k}"] = torch.zeros_like(p) if p.grad is None else p.grad.detach()
        for k, b in self.module.named_buffers():
            found[k] = b.clone()
            b.copy_(buffers[k])
        return found


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(step, device, calls=1, clock=time.perf_counter):
    """Seconds of one of `calls` calls in a row, until the device is done: on a GPU gaps between launches count."""
    synchronize(device)
    start = clock()
    for _ in range(calls):
        step()
    synchronize(device)
    return (clock() - start) / calls


# ---- errors ---------------------------------------------------------------------------------------------------------


class Wide(TorchDispatchMode):
    """Models cast to float32 here and there; a reference in float64 does not."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        def wide(v):
            return torch.float64 if v in (torch.float32, torch.bfloat16, torch.float16) else v

        is_dtype = lambda v: wide(v) if isinstance(v, torch.dtype) else v  # noqa: E731
        return func(*tree_map(is_dtype, args), **tree_map(is_dtype, kwargs or {}))


def reference_of(row, module, inputs, device):
    """The results in float64, by eager."""
    module = copy.deepcopy(module).double()
    if hasattr(module, "set_experts_implementation"):
        module.set_experts_implementation("eager")  # grouped products are not there in float64
    plain = models.Row(row.name, "f32", row.batch)  # without autocast
    torch.set_default_dtype(torch.float64)
    try:
        with Wide():
            return Step(plain, module, module, inputs.widened(), device).results()
    finally:
        torch.set_default_dtype(torch.float32)


def error(got, expected, elements=True):
    """(the largest relative error of a tensor, its name). Of a tensor it is |a - b| / |b| in the Euclidean norm, and in
    the largest element if that is larger and `elements` are asked for; |b| counts as 1e-3 of the largest such norm at
    least, so that the gradient of what has no influence is not measured by its own noise."""
    if set(got) != set(expected):
        return math.inf, f"other results: {sorted(set(got) ^ set(expected))[:3]}"
    floats = [k for k, t in expected.items() if t.is_floating_point() and t.numel()]
    largest = max((expected[k].norm().item() / math.sqrt(expected[k].numel()) for k in floats), default=0.0)
    worst, where = 0.0, ""
    for k, b in expected.items():
        a = got[k]
        if a.shape != b.shape:
            return math.inf, f"{k}: shape {list(a.shape)}, expected {list(b.shape)}"
        if k not in floats:
            if not torch.equal(a, b):
                return math.inf, f"{k}: other integers"
            continue
        difference = (a.double() - b).abs()
        least = 1e-3 * largest + 1e-30
        relative = difference.norm().item() / (b.norm().item() + least * math.sqrt(b.numel()))
        if elements:
            relative = max(relative, difference.max().item() / (b.abs().max().item() + least))
        if not relative <= worst:
            worst, where = relative, k
            if math.isnan(worst):
                return math.inf, f"{k}: NaN"
    return worst, where


def check(row, module, runs, inputs, device):
    """{contender: {"error", "where", "wrong"}}, against float64; wrong is what is clearly worse than eager."""
    expected = reference_of(row, module, inputs, device)
    found = {}
    for name, run in runs.items():
        worst, where = error(Step(row, module, run, inputs, device).results(), expected, not row.model.training)
        found[name] = {"error": worst if math.isfinite(worst) else "inf", "where": where, "wrong": not math.isfinite(worst)}
    if math.isfinite(float(found["eager"]["error"])):
        bound = TIMES_EAGER * found["eager"]["error"] + GRANTED[row.model.training][row.dtype] + row.model.tolerance
        for entry in found.values():
            entry["wrong"] = not float(entry["error"]) <= bound
    return found


# ---- tasks ----------------------------------------------------------------------------------------------------------


def first(row, name, device, checked):
    """Seconds of the first call, and of the first call at another batch size, in this fresh process."""
    module = models.build(row, device)
    inputs = [models.inputs(row, module, n, device) for n in row.model.batches[:2]]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    run = torch.compile(module, backend=backend_of(name))
    steps = [Step(row, module, run, i, device) for i in inputs]
    emit(first_s=time.perf_counter() - start + seconds(steps[0], device))
    if name == "cinn_like":
        emit(report=report_of_ours())
    emit(second_s=seconds(steps[1], device), peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
         added_rss_mib=(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)  # fmt: skip
    if checked:
        emit(check_second=check(row, module, {"eager": module, name: run}, inputs[1], device))


def rounds(row, names, device, seen, budget_s, clock):
    """Errors, and the seconds of each contender in rounds, at the last of the batch sizes that are seen: all take turns, so that
    a busy machine disturbs all alike."""
    module = models.build(row, device)
    sizes = [models.inputs(row, module, n, device) for n in row.model.batches[:seen]]
    inputs = sizes[-1]
    runs, steps = {"eager": module}, {}
    # Ours goes first: its first call is that of a fresh process which finds the disk cache.
    for name in sorted(names, key=lambda n: n != "cinn_like"):
        try:
            run = torch.compile(module, backend=backend_of(name))
            taken = [seconds(Step(row, module, run, i, device), device) for i in sizes]
            emit(cached_first_s={name: taken[0]})
            if name == "cinn_like":
                emit(cached_report=report_of_ours())
            runs[name] = run
        except Exception as why:
            emit(failed={name: message(why)})
    if "cinn_like" in names and "cinn_like" not in runs:
        return
    try:
        emit(check=check(row, module, runs, inputs, device))
    except torch.OutOfMemoryError as why:
        emit(unchecked=message(why))
    if device.type == "cuda":
        torch.cuda.empty_cache()
    once, calls = {}, {}
    for name, run in runs.items():
        steps[name] = step = Step(row, module, run, inputs, device)
        inputs.reset()
        step()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        inputs.reset()
        once[name] = min(seconds(step, device) for _ in range(2))
        if device.type == "cuda":
            emit(peak_gpu_mib={name: torch.cuda.max_memory_allocated(device) / 2**20})
        calls[name] = max(1, min(math.ceil(_LEAST_SAMPLE_S / once[name]), 100, row.model.max_calls // 2))
    until, order = time.perf_counter() + budget_s, list(steps)
    for i in range(60):
        if i >= 3 and time.perf_counter() > until:
            break
        found = {}
        for name in order[i % len(order) :] + order[: i % len(order)]:
            inputs.reset()
            if once[name] < 0.1:
                seconds(steps[name], device)  # what the one before left in the processor's caches is not counted
            found[name] = seconds(steps[name], device, calls[name], clock)
        emit(round=found)


def message(why):
    lines = [line for line in str(why).splitlines() if line.strip()]
    return f"{type(why).__name__}: {lines[0] if lines else ''}"[:500]


def machine(device):
    """Names and versions that a figure needs beside it."""
    import platform

    names = {"cpu": platform.processor() or platform.machine(), "cores": len(os.sched_getaffinity(0)),
             "threads": torch.get_num_threads(), "device": device.type, "python": platform.python_version(),
             "torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability()}  # fmt: skip
    info = pathlib.Path("/proc/cpuinfo")
    found = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    if found:
        names["cpu"] = found[0].split(":", 1)[1].strip()
    if device.type == "cuda":
        names["gpu"] = torch.cuda.get_device_name(device)
    from importlib import metadata

    for package in ("transformers", "torchvision", "cinn_like"):
        try:
            names[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            names[package] = None
    emit(machine=names)


def main():
    task = json.loads(sys.argv[1])
    device = torch.device(task["device"])
    if task.get("threads"):
        torch.set_num_threads(task["threads"])
    if task["task"] == "machine":
        return machine(device)
    row = models.row(task["row"], task.get("batch") or 0)
    try:
        if task["task"] == "first":
            first(row, task["contender"], device, task["contender"] == "cinn_like")
        else:
            rounds(row, task["contenders"], device, task["seen"], task["seconds"], getattr(time, task["clock"]))
    except models.Missing as why:
        emit(missing=str(why))
    except Exception as why:
        import traceback

        traceback.print_exc()
        emit(error=message(why))
        sys.exit(1)


if __name__ == "__main__":
    main()
