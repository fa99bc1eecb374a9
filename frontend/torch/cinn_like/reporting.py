"""What happened since the last reset: `cinn_like.report()` and `cinn_like.reset_report()`."""

import contextlib
import dataclasses
import functools
import threading
import time

import torch


@dataclasses.dataclass
class Subgraph:
    name: str
    ops: list  # framework ops, in order
    target: str
    kernels: int = 0
    unique_kernels: int = 0
    cache_hit: bool = False
    seconds: dict = dataclasses.field(default_factory=dict)  # by stage, "a.b" within others; threads add up
    total_seconds: float = 0.0  # from the framework's graph to loaded code
    peak_rss_bytes: int = 0  # of the process
    added_rss_bytes: int = 0  # by compiling
    tactics: list = dataclasses.field(default_factory=list)  # "kernel: tactic", what schedules each
    refused: list = dataclasses.field(default_factory=list)  # "kernel k: tactic t: why" another runs in its place, or a loop is serial
    text: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass
class Report:
    subgraphs: list = dataclasses.field(default_factory=list)
    fallback_ops: dict = dataclasses.field(default_factory=dict)  # op -> reason
    failures: list = dataclasses.field(default_factory=list)  # why a whole region or graph was left to the framework
    compile_seconds: dict = dataclasses.field(default_factory=dict)  # stage -> seconds, see Subgraph.seconds
    total_seconds: float = 0.0  # what compiling took in all, the framework's tracing apart
    differences: list = dataclasses.field(default_factory=list)  # found by the flag cinn_verify
    _graphs: list = dataclasses.field(default_factory=list, repr=False)  # (GraphModule, compiled nodes)

    @property
    def compiled_ops(self):
        """Framework ops that were compiled, with how often each occurs."""
        counts = {}
        for subgraph in self.subgraphs:
            for op in subgraph.ops:
                counts[op] = counts.get(op, 0) + 1
        return counts

    @property
    def cache_hits(self):
        return sum(s.cache_hit for s in self.subgraphs)

    @property
    def graphs(self):
        """How many graphs the framework traced and handed over (a forward and its backward are two)."""
        return len(self._graphs)

    @property
    def peak_rss_bytes(self):
        """The most memory that the process held by the end of a compilation."""
        return max((s.peak_rss_bytes for s in self.subgraphs), default=0)

    @property
    def added_rss_bytes(self):
        """The most memory that one compilation added, for as long as it ran."""
        return max((s.added_rss_bytes for s in self.subgraphs), default=0)

    @functools.cached_property
    def compiled_share(self):
        """The share of eager's time that is spent in ops which were compiled; measured on made-up inputs when asked."""
        if all(node in nodes for gm, nodes in self._graphs for node in gm.graph.nodes if _is_tensor_op(node)):
            return 1.0 if self.subgraphs else 0.0
        compiled = total = 0.0
        for gm, nodes in self._graphs:
            times = _time_ops(gm)
            compiled += sum(t for n, t in times.items() if n in nodes)
            total += sum(times.values())
        return compiled / total if total else 0.0

    def _share(self):
        try:
            return f"{self.compiled_share:.0%} of eager's time"
        except Exception as why:  # an op refuses made-up inputs
            return f"their share of eager's time can't be measured ({type(why).__name__}: {why})"

    def __str__(self):
        compiled = sum(self.compiled_ops.values())
        head = f"cinn_like: {compiled} ops compiled in {len(self.subgraphs)} subgraphs"
        lines = [f"{head}, {self.cache_hits} from the cache; {self._share()}"]
        if self.subgraphs:
            width = max(len(s.name) for s in self.subgraphs)
            lines.append(
                f"  {'subgraph':<{max(width, 8)}}{'ops':>6}{'kernels':>9}{'different':>11}{'seconds':>9}  target"
            )
        for s in self.subgraphs[:_MAX_LINES]:
            numbers = f"{len(s.ops):>6}{s.kernels:>9}{s.unique_kernels:>11}{s.total_seconds:>9.3f}"
            lines.append(f"  {s.name:<{max(width, 8)}}{numbers}  {s.target}{' (cached)' if s.cache_hit else ''}")
        if len(self.subgraphs) > _MAX_LINES:
            lines.append(f"  ... and {len(self.subgraphs) - _MAX_LINES} more")
        lines.append("  left to the framework:" + ("" if self.fallback_ops else " nothing"))
        lines += [f"    {op}: {reason}" for op, reason in self.fallback_ops.items()]
        lines += [f"  failed: {why}" for why in self.failures]
        refused = [f"  refused: {s.name}: {why}" for s in self.subgraphs for why in s.refused]
        lines += refused[:_MAX_LINES]
        if len(refused) > _MAX_LINES:
            lines.append(f"  ... and {len(refused) - _MAX_LINES} more refused")
        lines += [f"  differs: {what}" for what in self.differences]
        # A stage named a.b is a part of the others.
        stages = sorted(((t, k) for k, t in self.compile_seconds.items() if "." not in k and t >= 5e-4), reverse=True)
        shown = "".join(f"{k} {t:.3f}, " for t, k in stages)
        if self.compile_seconds:
            lines.append(f"  compile seconds: {shown}in all {self.total_seconds:.3f}")
        if self.peak_rss_bytes:
            peak, added = self.peak_rss_bytes / 2**20, self.added_rss_bytes / 2**20
            lines.append(
                f"  peak memory: {peak:.0f} MiB of the process, at most {added:.0f} MiB added by a compilation"
            )
        return "\n".join(lines)


_MAX_LINES = 12
_lock = threading.Lock()
_report = Report()


def report():
    _settle()
    with _lock:
        fields = {f.name: getattr(_report, f.name) for f in dataclasses.fields(Report)}
        return Report(**{k: v.copy() if isinstance(v, (list, dict)) else v for k, v in fields.items()})


def reset_report():
    global _report
    _settle()
    with _lock:
        _report = Report()


# Graphs that threads compile still, or nobody waited for yet; they report when they are settled.
_pending = []


def add_pending(graph):
    with _lock:
        _pending.append(graph)


def remove_pending(graph):
    with _lock:
        _pending.remove(graph)


def _settle():
    with _lock:
        graphs = list(_pending)
    for graph in graphs:
        graph.settle()


def add_subgraph(subgraph):
    with _lock:
        _report.subgraphs.append(subgraph)
        _report.total_seconds += subgraph.total_seconds
        for stage, seconds in subgraph.seconds.items():
            _report.compile_seconds[stage] = _report.compile_seconds.get(stage, 0.0) + seconds


def add_seconds(stage, seconds):
    with _lock:
        _report.total_seconds += seconds
        _report.compile_seconds[stage] = _report.compile_seconds.get(stage, 0.0) + seconds


@contextlib.contextmanager
def timed(stage):
    start = time.perf_counter()
    yield
    add_seconds(stage, time.perf_counter() - start)


def add_fallback(op, reason):
    with _lock:
        _report.fallback_ops.setdefault(op, reason)


def add_failure(why):
    with _lock:
        _report.failures.append(why)


def add_difference(what):
    with _lock:
        _report.differences.append(what)


def add_graph(gm, compiled_nodes):
    with _lock:
        _report._graphs.append((gm, compiled_nodes))


def reset_after_fork():
    global _lock
    _lock = threading.Lock()
    for graph in _pending:
        graph.lock = threading.Lock()


def _is_tensor_op(node):
    return node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor)


def _make_input(value):
    """A tensor like the FakeTensor, small integers where it holds indices, ones elsewhere."""
    if isinstance(value, torch.SymInt):
        return value.node.hint
    if not isinstance(value, torch.Tensor):
        return value
    hint = lambda s: s.node.hint if isinstance(s, torch.SymInt) else s  # noqa: E731
    size, stride = [hint(s) for s in value.shape], [hint(s) for s in value.stride()]
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else 0
    make = torch.ones if value.dtype.is_floating_point else torch.zeros
    return make(extent, dtype=value.dtype, device=value.device).as_strided(size, stride)


class _Timer(torch.fx.Interpreter):
    def __init__(self, gm):
        super().__init__(gm)
        self.times = {}

    def run_node(self, node):
        start = time.perf_counter()
        result = super().run_node(node)
        if isinstance(result, torch.Tensor) and result.is_cuda:
            torch.cuda.synchronize(result.device)
        if node.op == "call_function":
            self.times[node] = time.perf_counter() - start
        return result


def _time_ops(gm):
    inputs = [_make_input(n.meta.get("val")) for n in gm.graph.nodes if n.op == "placeholder"]
    best = {}
    with torch.no_grad():
        for _ in range(3):
            timer = _Timer(gm)
            timer.run(*inputs)
            best = {n: min(t, best.get(n, t)) for n, t in timer.times.items()}
    return best
