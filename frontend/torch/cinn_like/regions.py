"""A graph's regions, from the cut to code: shared out with the framework by price, written as graph text, bid for and
compiled, all in threads.

    pending = start(gm, device, target, static, shape_env)  # when prices are known
    pending.settle()(args)  # waits for the code; the rest of the graph is the framework's
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import threading
import time
import weakref

import torch

from . import emit, function, library, partition, reporting, verify
from .stitch import stitch

# Tracing and compiling are serialised: several threads may hit a new graph at once.
lock = threading.RLock()

# Rounds in which ops may go back to the framework by price; what is compiled after them stays. What is compiled and lost
# after all, which is seldom, begins them anew.
_ROUNDS = 3

_THREADS = 8  # that compile regions of one graph


def start(gm, device, target, static, shape_env):
    """The graph of `gm`, which threads compile from now on. `static`: placeholders whose values stay."""
    shares = _Shares(gm.graph, device, target, functools.partial(_write_region, static=static, shape_env=shape_env))
    shares.bid()
    shares.compile()
    pending = _Pending(gm, shares)
    reporting.add_pending(pending)
    return pending


class _Shares:
    """A graph, shared out between the framework and regions of ours: what the compiler's prices give to the framework,
    the graph is partitioned once more without."""

    def __init__(self, graph, device, target, write):
        """`write`: a region as graph text."""
        self.graph, self._device, self._target, self._write = graph, device, target, write
        self._round, self._bids, self._compiled = 0, {}, {}
        with reporting.timed("partition"):
            self.reasons = partition.classify(graph, device, target)

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
            with lock:
                self._round = 0
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
        found = [results[key] for key in self._keys().values() if isinstance(results[key], LeftToFramework)]
        for left in found:
            self.reasons.update(left.ops)
            for why in left.failures:
                reporting.add_failure(why)
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
    """`ops`: {node: why} of a region, which the framework computes faster, or alone: `failures` of our kernels."""

    def __init__(self, ops, failures):
        super().__init__(f"{len(ops)} ops are left to the framework")
        self.ops, self.failures = ops, failures


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
        faster = "the framework's kernel is faster: {:.2g} s predicted, ours {:.2g} s".format
        sources, ops, failed = written.emitter.writer.sources, {}, collections.Counter()
        for op, ours, theirs, *failure in why.ops:
            ops[sources[op]] = failure[0] if failure else faster(theirs, ours)
            failed.update(failure)
        failures = [f"{n} ops of {written.name}: {failure}" for failure, n in failed.items()]
        raise LeftToFramework(ops, failures) from None


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
    lock.acquire()
    concurrent.futures.wait(list(_running))


def _after_fork():
    global lock
    lock = threading.RLock()
    reporting.reset_after_fork()
    library.reset_after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=lambda: lock.release(), after_in_child=_after_fork)
