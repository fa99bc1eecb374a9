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
import weakref

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
    """An AOTAutograd graph as a function of one list of arguments, which threads compile until its first call. `freeze`:
    parameters and buffers are static; `leave_to_framework`: ops that it computes faster, by the compiler's prices, are
    left to it."""
    with _lock, _no_collections():
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
        shares = _Shares(graph, device, target, write)
        shares.bid()
        shares.compile()
        pending = _Pending(gm, shares)
        reporting.add_pending(pending)

    def run(args):
        return (pending.run or pending.settle())(args)

    run._boxed_call = True
    return run


@contextlib.contextmanager
def _no_collections():
    """Python looks for cycles each time some hundreds of objects were made; among a trace's many that takes a tenth of a
    first call, and finds nothing. What was made is old at the end: the next look is not at all of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # else those would be collected again
                gc.freeze()
                gc.unfreeze()
            gc.enable()


# Rounds in which ops may go back to the framework; what is compiled after them stays.
_ROUNDS = 3

_THREADS = 8  # that compile regions of one graph


class _Shares:
    """A graph, shared out between the framework and regions of ours: what the compiler's prices give to the framework,
    the graph is partitioned once more without."""

    def __init__(self, graph, device, target, write):
        """`write`: a region as graph text."""
        self.graph, self._device, self._target, self._write = graph, device, target, write
        self._round, self._bids, self._compiled = 0, {}, {}
        with reporting.timed("partition"):
            self.reasons = partition.classify(graph, device)

    def bid(self):
        """Until no region loses an op to the framework."""
        while True:
            with reporting.timed("partition"):
                self.regions = partition.cut(self.graph, self.reasons)
            is_asked = self._round < _ROUNDS and "-framework=" in self._target
            self._bidding = self._target if is_asked else _without_framework(self._target)
            new = {key: region for region, key in self._keys().items() if key not in self._bids}
            self._bids.update(_bid(new, self._write, self._bidding, self._device))
            self._round += 1
            if not self._leave_lost(self._bids):
                return

    def compile(self):
        """Starts to compile what was bid, in threads."""
        new = {key: self._bids[key] for key in self._keys().values() if key not in self._compiled}
        with _threads(len(new)) as submit:
            for key, bid in new.items():
                self._compiled[key] = bid if isinstance(bid, Exception) else submit(_compile_region, bid)

    def wait(self):
        """{region: (callable, argument symbols, permutations)}, when all of it is compiled. What fails, or is lost after
        all, is left to the framework."""
        while True:
            self._compiled = {key: _result(of) for key, of in self._compiled.items()}
            if not self._leave_lost(self._compiled):
                break
            with _lock:
                self.bid()
                self.compile()
        results = {region: self._compiled[key] for region, key in self._keys().items()}
        failed = {r: f"{type(why).__name__}: {why}" for r, why in results.items() if isinstance(why, Exception)}
        for region, why in failed.items():
            reporting.add_failure(f"a region of {len(region.nodes)} ops: {why}")
            self.reasons.update(dict.fromkeys(region.nodes, why))
        done = {region: result for region, result in results.items() if region not in failed}
        for _, subgraph in done.values():
            reporting.add_subgraph(subgraph)
        return {region: call for region, (call, _) in done.items()}

    def _keys(self):
        """{region: what it is known by in the next rounds}."""
        return {r: (self._bidding, tuple(r.nodes), tuple(r.inputs), tuple(r.outputs)) for r in self.regions}

    def _leave_lost(self, results):
        """Whether there were lost ops."""
        found = [results[key].ops for key in self._keys().values() if isinstance(results[key], LeftToFramework)]
        for ops in found:
            self.reasons.update(ops)
        return bool(found)


@contextlib.contextmanager
def _threads(jobs):
    """submit(f, *args) -> future, in at most so many threads, which live until all is done."""
    pool = concurrent.futures.ThreadPoolExecutor(max(1, min(jobs, len(os.sched_getaffinity(0)), _THREADS)))

    def submit(*args):
        future = pool.submit(*args)
        _running.add(future)
        return future

    try:
        yield submit
    finally:
        pool.shutdown(wait=False)


_running = weakref.WeakSet()  # futures; a fork waits for them


def _result(of):
    """A future's result or exception; others are what they are."""
    return (of.exception() or of.result()) if isinstance(of, concurrent.futures.Future) else of


def _bid(regions, write, target, device):
    """{key: what _bid_region gave, or the exception} of {key: region}: written one by one, and each bid for while the
    next ones are written."""
    results = {}
    with _threads(len(regions)) as submit:
        for key, region in regions.items():
            try:
                results[key] = submit(_bid_region, region, write(region), device, target)
            except Exception as why:
                results[key] = why
    return {key: _result(of) for key, of in results.items()}


class _Pending:
    """A graph that threads compile. `run`: a function of one list of arguments, when somebody waited for it."""

    def __init__(self, gm, shares):
        self._gm, self._shares, self.run, self.lock = gm, shares, None, threading.Lock()

    def settle(self):
        """Waits, reports and gives `run`."""
        with self.lock:
            if self.run is not None:
                return self.run
            gm, shares = self._gm, self._shares
            compiled = shares.wait()
            for node, reason in shares.reasons.items():
                # A copy back into an input is AOTAutograd's, not the user's op.
                is_of_user = not partition.is_getitem(node) and node.target is not torch.ops.aten.copy_.default
                if reason is not None and is_of_user:
                    reporting.add_fallback(emit.op_name(node), reason)
            reporting.add_graph(gm, {n for region in compiled for n in region.nodes})
            with reporting.timed("stitch"):
                self.run = stitch(gm.graph, gm, shares.regions, compiled)
            self._gm = self._shares = None
        reporting.remove_pending(self)
        return self.run


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


@dataclasses.dataclass
class _Bid:
    """A region that loses no ops, as far as is known before it is compiled."""

    region: partition.Region
    written: _Written
    device: torch.device
    target: str
    compiled: object  # compile_function's, which compiles when asked
    is_verified: bool


def _bid_region(region, written, device, target):
    with _left_to_framework(written):
        compiled = function.compile_function(written.text, target, device, written.emitter.signature(len(region.outputs)))
    return _Bid(region, written, device, target, compiled, verify.enabled())


@contextlib.contextmanager
def _left_to_framework(written):
    """LostOps as LeftToFramework."""
    try:
        yield
    except function.LostOps as why:
        reason = "the framework's kernel is faster: {:.2g} s predicted, ours {:.2g} s".format
        sources = written.emitter.writer.sources
        raise LeftToFramework({sources[op]: reason(theirs, ours) for op, ours, theirs in why.ops}) from None


def _compile_region(bid):
    """((callable, argument symbols, permutations), what to report)."""
    region, written, compiled = bid.region, bid.written, bid.compiled
    with _left_to_framework(written):
        call = compiled.call
    if bid.is_verified:
        call = verify.beside(call, region, written.emitter, written.permutations, written.shape_env,
                             _without_framework(bid.target), bid.device)  # fmt: skip
    info = compiled.info
    stages = {"emit": written.seconds, **info.get("seconds", {})}
    total = stages.pop("total", 0.0)
    subgraph = reporting.Subgraph(
        name=written.name,
        ops=[emit.op_name(n) for n in region.nodes if not partition.is_getitem(n)],
        target=bid.target,
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
    return (call, written.emitter.writer.extra_symbols(), written.permutations), subgraph


def _before_fork():
    """A child would find the compiler in the middle of its work."""
    _lock.acquire()
    concurrent.futures.wait(list(_running))


def _after_fork():
    global _lock
    _lock = threading.RLock()
    reporting.reset_after_fork()
    library.reset_after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=lambda: _lock.release(), after_in_child=_after_fork)
