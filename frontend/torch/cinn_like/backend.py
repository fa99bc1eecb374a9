"""The torch.compile backend "cinn_like".

    torch.compile(model, backend="cinn_like")

Dynamo's graph -> attention and cells rewritten -> AOTAutograd (functional ATen ops) -> partition -> graph text ->
compiled regions, stitched with the framework's own ops where graph text can't say one.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import gc
import os
import threading
import time

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext, detect_fake_mode

from . import decompositions, dynamic, emit, function, in_place, library, partition, placement, reporting, verify
from .stitch import stitch

_OPTIONS = ("dynamic_batch", "freeze", "leave_to_framework", "target")


def _names(words):
    return ", ".join(f"'{word}'" for word in words)


# What torch.compile's modes ask for, and what there is in their place.
_MODES = {
    "reduce-overhead": "CUDA graphs are not captured",
    "max-autotune": "nothing is tuned by running",
    "max-autotune-no-cudagraphs": "nothing is tuned by running",
}

# Tracing and compiling are serialised: several threads may hit a new graph at once.
_lock = threading.RLock()


def cinn_like(gm, example_inputs, options=None, mode=None):
    """`options`: {"target": "cuda -libs=cublas", "dynamic_batch": True, "freeze": True,
    "leave_to_framework": False}; see docs/torch.md."""
    if mode not in (None, "default"):
        why = _MODES.get(mode, "it is unknown")
        raise ValueError(f"mode='{mode}' means nothing to backend='cinn_like' ({why}): leave it out; "
                         "what can be chosen are the options " + _names(_OPTIONS))  # fmt: skip
    library.load_beside()  # while the graph is traced
    options = options or {}
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise ValueError(f"unknown options {sorted(unknown)}; known are {_names(_OPTIONS)}")
    if options.get("dynamic_batch", False):
        dynamic.request_dynamic_batch(gm)

    def compiler(inference):
        freeze = inference and options.get("freeze", False)
        target, leave = options.get("target"), options.get("leave_to_framework", True)
        return lambda graph, inputs: compile_graph(graph, inputs, freeze, target, leave)

    from functorch.compile import min_cut_rematerialization_partition

    compile_fn = aot_autograd(
        fw_compiler=compiler(False),
        bw_compiler=compiler(False),
        inference_compiler=compiler(True),
        decompositions=decompositions.table(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    with _no_collections():
        return compile_fn(decompositions.rewrite(gm), example_inputs)


def __getattr__(name):
    """`dynamo_entry_point` is what the package's entry point names. Dynamo loads it without a lock and then registers
    what it got, which fails for all threads but one of those that compile first; so the backend registers itself, once,
    and Dynamo gets None, with which registering does nothing."""
    if name != "dynamo_entry_point":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from torch._dynamo.backends import registry

    with _lock:
        if "cinn_like" not in registry._COMPILER_FNS:
            registry.register_backend(cinn_like, "cinn_like")


def compile_graph(gm, example_inputs, freeze=False, target=None, leave_to_framework=True):
    """An AOTAutograd graph as a function of one list of arguments. `freeze`: parameters and buffers are static;
    `leave_to_framework`: ops that it computes faster, by the compiler's prices, are left to it."""
    with _lock, _no_collections():
        start = time.perf_counter()
        graph = gm.graph
        device = partition.find_device(graph)
        static = _static_inputs(graph) if freeze else set()
        placement.bring_to_device(gm, device)
        in_place.restore(graph)
        fake_mode = detect_fake_mode(example_inputs)
        shape_env = fake_mode.shape_env if fake_mode is not None else None
        write = functools.partial(_write_region, static=static, shape_env=shape_env)
        target = target or function.default_target(device)
        target = f"{target} -framework=auto" if leave_to_framework and "-framework=" not in target else target
        regions, reasons, compiled = _share_out(graph, device, target, write)
        for node, reason in reasons.items():
            # A copy back into an input is AOTAutograd's, not the user's op.
            if reason is not None and not partition.is_getitem(node) and node.target is not torch.ops.aten.copy_.default:
                reporting.add_fallback(emit.op_name(node), reason)
        reporting.add_graph(gm, {n for region in compiled for n in region.nodes})
        start = time.perf_counter()
        run = stitch(graph, gm, regions, compiled)
        reporting.add_seconds("stitch", time.perf_counter() - start)
        return run


@contextlib.contextmanager
def _no_collections():
    """Python looks for cycles each time some thousands of objects were made; among a trace's many that takes a tenth of a
    first call, and finds nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# Rounds in which ops may go back to the framework; what is compiled after them stays.
_ROUNDS = 3

_THREADS = 8  # that compile regions of one graph


def _share_out(graph, device, target, write):
    """(regions, reasons, {region: (callable, argument symbols, permutations)}). The compiler says which ops of a region
    the framework computes faster; the graph is partitioned once more without them."""
    start = time.perf_counter()
    reasons = partition.classify(graph, device)
    reporting.add_seconds("partition", time.perf_counter() - start)
    known = {}
    for round in range(_ROUNDS + 1):
        start = time.perf_counter()
        regions = partition.cut(graph, reasons)
        reporting.add_seconds("partition", time.perf_counter() - start)
        bidding = target if round < _ROUNDS and "-framework=" in target else _without_framework(target)
        keys = {r: (bidding, tuple(r.nodes), tuple(r.inputs), tuple(r.outputs)) for r in regions}
        new = {key: region for region, key in keys.items() if key not in known}
        known.update(_compile(new, write, bidding, device))
        compiled, lost, failures = {}, {}, []
        for region, key in keys.items():
            if isinstance(known[key], LeftToFramework):
                lost.update(known[key].ops)
            elif isinstance(known[key], Exception):
                failures.append((region, f"{type(known[key]).__name__}: {known[key]}"))
            else:
                compiled[region] = known[key]
        if not lost:
            break
        reasons.update(lost)
    for region, reason in failures:
        reporting.add_failure(f"a region of {len(region.nodes)} ops: {reason}")
        reasons.update(dict.fromkeys(region.nodes, reason))
    for _, subgraph in compiled.values():
        reporting.add_subgraph(subgraph)
    return regions, reasons, {region: call for region, (call, _) in compiled.items()}


def _compile(regions, write, target, device):
    """{key: what _compile_region gave, or the exception} of {key: region}: written one by one, and each compiled while
    the next ones are written."""

    def compile(region, submit):
        try:
            return submit(_compile_region, region, write(region), device, target)
        except Exception as why:
            return why

    if len(regions) < 2:
        return {key: compile(region, lambda f, *args: f(*args)) for key, region in regions.items()}
    with concurrent.futures.ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), _THREADS)) as pool:
        results = {key: compile(region, pool.submit) for key, region in regions.items()}
    for key, r in results.items():
        if isinstance(r, concurrent.futures.Future):
            results[key] = r.exception() or r.result()
    return results


def _without_framework(target):
    return " ".join(word for word in target.split() if not word.startswith("-framework="))


class LeftToFramework(Exception):
    """`ops`: {node: why} of a region, which the framework computes faster."""

    def __init__(self, ops):
        super().__init__(f"{len(ops)} ops are left to the framework")
        self.ops = ops


def _static_inputs(graph):
    """Placeholders that hold parameters and buffers which the graph does not change."""
    context = TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    if meta is None:
        return set()
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    mutated = set(getattr(meta, "mutated_inp_indices", ()) or getattr(meta, "mutated_inp_runtime_indices", ()))
    return {placeholders[i] for i in meta.static_input_indices if i < len(placeholders) and i not in mutated}


_counter = [0]


@dataclasses.dataclass
class _Written:
    """A region as graph text. `permutations`: per output, or None; `seconds`: of writing."""

    name: str
    emitter: emit.Emitter
    permutations: list
    text: str
    shape_env: object
    seconds: float


def _write_region(region, static, shape_env):
    start = time.perf_counter()
    _counter[0] += 1
    emitter = emit.Emitter()
    for node in region.inputs:
        emitter.add_param(node, static=node in static)
    for node in region.nodes:
        emitter.add(node)
    permutations = [emit.dense_permutation(n.meta["val"]) or None for n in region.outputs]
    text = emitter.text(list(zip(region.outputs, permutations)), shape_env)
    seconds = time.perf_counter() - start
    placeholders = partition.placeholder_symbols(region.nodes[0].graph)
    unknown = [s for e in emitter.writer.extra_symbols() for s in e.free_symbols if s not in placeholders]
    if unknown:
        raise emit.Unsupported(f"the number {unknown[0]} is no input of the graph")
    return _Written(f"subgraph{_counter[0]}", emitter, permutations, text, shape_env, seconds)


def _compile_region(region, written, device, target):
    """((callable, argument symbols, permutations), what to report)."""
    emitter = written.emitter
    try:
        compiled = function.compile_function(written.text, target, device, emitter.signature(len(region.outputs)))
    except function.LostOps as why:
        reason = "the framework's kernel is faster: {:.2g} s predicted, ours {:.2g} s".format
        sources = emitter.writer.sources
        raise LeftToFramework({sources[op]: reason(theirs, ours) for op, ours, theirs in why.ops}) from None
    call = compiled.call
    if verify.enabled():
        call = verify.beside(call, region, emitter, written.permutations, written.shape_env, _without_framework(target),
                             device)  # fmt: skip
    info = compiled.info
    stages = {"emit": written.seconds, **info.get("seconds", {})}
    total = stages.pop("total", 0.0)
    subgraph = reporting.Subgraph(
        name=written.name,
        ops=[emit.op_name(n) for n in region.nodes if not partition.is_getitem(n)],
        target=target,
        kernels=info.get("kernels", 0),
        unique_kernels=info.get("unique_kernels", 0),
        cache_hit=bool(info.get("cache_hit")),
        seconds=stages,
        total_seconds=written.seconds + total,
        peak_rss_bytes=info.get("peak_rss_bytes", 0),
        added_rss_bytes=info.get("added_rss_bytes", 0),
        tactics=info.get("tactics", []),
        refused=info.get("refused", []),
        text=written.text,
    )
    return (call, emitter.writer.extra_symbols(), written.permutations), subgraph


def _after_fork():
    global _lock
    _lock = threading.RLock()
    reporting.reset_after_fork()
    library.reset_after_fork()


# A fork waits for a compilation in another thread: a child would find the compiler in the middle of its work.
os.register_at_fork(before=lambda: _lock.acquire(), after_in_parent=lambda: _lock.release(), after_in_child=_after_fork)
