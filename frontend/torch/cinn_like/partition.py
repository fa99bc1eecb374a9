"""Splits an FX graph into regions that graph text can say and single ops that the framework runs.

Every op is written once on trial; what the table refuses is left to the framework with the reason, and so is what the
compiler refuses of that text (it reads the whole trial at once; only where something is wrong with it, op by op). Then each op gets a
level that grows where an edge crosses between the two kinds, and the compilable ops of one level are one region: edges
never lead from a level to a lower one, so the regions can't form a cycle. A level is the first one at which an op can run;
ops whose results one later region alone reads move there, where they are fused with what reads them, if that passes fewer
bytes between the regions.
"""

import dataclasses
import math
import operator

import torch

from . import emit, library
from .errors import Unsupported

aten = torch.ops.aten

# Ops whose result shares its operand's memory; a region of nothing else is no work to compile.
VIEWS = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.squeeze.default, aten.squeeze.dim,
    aten.squeeze.dims, aten.unsqueeze.default, aten.permute.default, aten.t.default, aten.transpose.int,
    aten.expand.default, aten.slice.Tensor, aten.select.int, aten.alias.default, aten.detach.default,
}  # fmt: skip
_TRIVIAL = VIEWS | {aten.clone.default, aten.lift_fresh_copy.default, aten.full.default, aten.scalar_tensor.default}


@dataclasses.dataclass(eq=False)
class Region:
    nodes: list  # in topological order
    inputs: list  # nodes outside that it reads, tensors only
    outputs: list  # nodes of the region that are read outside


def is_getitem(node):
    return node.target is operator.getitem


def find_device(graph):
    """The device that the graph computes on: the first accelerator among its values, else the CPU."""
    devices = [v.device for n in graph.nodes if isinstance(v := n.meta.get("val"), torch.Tensor)]
    return next((d for d in devices if d.type != "cpu"), torch.device("cpu"))


def classify(graph, device, target="cpu"):
    """{node: None if it can be compiled, else the reason} for every call of an op on tensors."""
    reasons, whole = _try(graph, device)
    if whole is not None and library.available() and library.get().check(whole, target) is not None:
        reasons, _ = _try(graph, device, lambda text: library.get().check(text, target))
    return reasons


def _try(graph, device, check=None):
    """(reasons, the trial's text). `check`: what the compiler has against the text of an op, or None."""
    emitter, reasons = emit.Emitter(), {}
    environment = shape_env(graph)
    for node in graph.nodes:
        if emit.is_sym(node):
            continue
        if node.op == "call_function":
            if is_getitem(node) and reasons.get(node.args[0]) is not None:
                reasons[node] = reasons[node.args[0]]
            else:
                mark = emitter.writer.mark()
                try:
                    emitter.add(node)
                    check_placement(node, device)
                    text = emitter.writer.fragment(mark, environment) if check is not None else None
                    if text is not None and (why := check(text)) is not None:
                        raise Unsupported(why)
                    reasons[node] = None
                    continue
                except Unsupported as why:
                    reasons[node] = str(why)
                except (TypeError, ValueError, KeyError, IndexError, AssertionError) as why:
                    reasons[node] = f"unexpected arguments ({type(why).__name__}: {why})"
                emitter.writer.rollback(mark)
        if node.op != "output" and isinstance(node.meta.get("val"), torch.Tensor):
            try:
                emitter.add_param(node)
            except Unsupported as why:
                emitter.refused[node] = str(why)
    return reasons, emitter.writer.fragment((0, 0), environment)


def shape_env(graph):
    sizes = (s for n in graph.nodes if isinstance(v := n.meta.get("val"), torch.Tensor) for s in v.shape)
    numbers = (v for n in graph.nodes if isinstance(v := n.meta.get("val"), torch.SymInt))
    return next((s.node.shape_env for s in (*sizes, *numbers) if isinstance(s, torch.SymInt)), None)


def check_placement(node, device):
    fake = node.meta["val"]
    results = list(fake) if isinstance(fake, (tuple, list)) else [fake]
    for result in results:
        if isinstance(result, torch.Tensor) and result.device != device and not emit.is_constant(node):
            raise Unsupported(f"it runs on {result.device} beside {device}")
    if isinstance(fake, torch.Tensor) and node.target not in VIEWS and emit.overlaps(fake):
        raise Unsupported(f"a result whose elements share memory (strides {list(fake.stride())})")


def cut(graph, reasons):
    """The regions of what can be compiled (`reasons`: as classify gives, with those of ops that are left to the framework
    all the same). Adds copies of view ops to the graph, and to the reasons, where a view crosses a border."""
    for node in reversed(list(graph.nodes)):  # copies of an earlier cut
        if node.target in VIEWS and not node.users:
            reasons.pop(node, None)
            graph.erase_node(node)
    for node in graph.nodes:
        if is_getitem(node) and node.args[0] in reasons:
            reasons[node] = reasons[node.args[0]]
    group = {}
    for node in graph.nodes:  # topological
        if node.op != "call_function" or emit.is_sym(node) or node not in reasons:
            continue
        compiled = reasons[node] is None
        level = 0
        for source in node.all_input_nodes:
            if source in group:
                source_compiled, source_level = group[source]
                level = max(level, source_level + (source_compiled != compiled))
        group[node] = (compiled, level)
    _sink(graph, group)
    _copy_views(graph, group, reasons)
    regions = []
    for key in sorted({g for g in group.values() if g[0]}, key=lambda g: g[1]):
        nodes = [n for n in graph.nodes if group.get(n) == key]
        region = _region(nodes)
        if region.outputs and any(_is_work(n) for n in nodes):
            regions.append(region)
    return regions


def _is_work(node):
    """Whether a kernel of ours may do it faster. A copy is the framework's, unless it repeats or turns what it reads: the
    framework's copies move such elements one by one."""
    if node.target is aten.clone.default:
        source = node.args[0].meta["val"]
        return emit.overlaps(source) or emit.turns(source, node.meta["val"])
    return node.target not in _TRIVIAL and not is_getitem(node)


def _sink(graph, group):
    """Moves ops to the later region that alone reads their results: what a backward pass recomputes from saved values
    alone would otherwise all run first, and lie in memory until it is read."""
    order = list(graph.nodes)
    for level in sorted({level for compiled, level in group.values() if compiled}, reverse=True):
        here = [n for n in order if group.get(n) == (True, level)]
        readers = {group[user] for n in here for user in n.users if group.get(user, (False, 0))[0]}
        for target in sorted(readers - {(True, level)}):
            moved = {}
            for node in reversed(here):
                if node.users and all(user in moved or group.get(user) == target for user in node.users):
                    moved[node] = None
            moved = {n: None for n in moved if not is_getitem(n) or n.args[0] in moved}  # a tuple is of one region
            for part in _connected(moved):
                if _is_worth_moving(part, group, level, target):
                    group.update(dict.fromkeys(part, target))
            here = [n for n in here if group[n] == (True, level)]


def _connected(nodes):
    """The sets of nodes that edges between them connect."""
    left, parts = dict.fromkeys(nodes), []
    while left:
        part, stack = set(), [next(iter(left))]
        while stack:
            node = stack.pop()
            if node in left:
                del left[node]
                part.add(node)
                stack.extend([*node.all_input_nodes, *node.users])
        parts.append(part)
    return parts


def _is_worth_moving(part, group, level, target):
    """Whether the values that no longer pass from the level to the target are at least those that would pass instead, and
    half of those that would live longer."""
    saved = sum(_bytes(n) for n in part if any(user not in part for user in n.users))
    passed = kept = 0
    for memory in {_memory_of(source) for n in part for source in n.all_input_nodes} - part:
        users = [user for user in _users_of_memory(memory) if user not in part]
        if group.get(memory) == (True, level):
            passed += 0 if any(group.get(user) != (True, level) for user in users) else _bytes(memory)
        if not any(group.get(user, target)[1] >= target[1] for user in users):
            kept += _bytes(memory)
    return passed <= saved and kept <= 2 * saved


def _memory_of(node):
    """What a view, or a view of one, shows."""
    while node.target in VIEWS:
        node = node.args[0]
    return node


def _users_of_memory(node):
    """What reads a value, through views or not."""
    for user in node.users:
        if user.target in VIEWS:
            yield from _users_of_memory(user)
        else:
            yield user


def _bytes(node):
    """Of a value by its sizes in the trace; a view has none of its own."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or node.target in VIEWS:
        return 0
    return math.prod(s.node.hint if isinstance(s, torch.SymInt) else s for s in value.shape) * value.element_size()


def _copy_views(graph, group, reasons):
    """A view read outside its region is repeated there, where that keeps what eager PyTorch gives: memory shared with
    the region's input or with another result, or strides that are no permutation of contiguous ones. So is a constant,
    which may lie on the CPU in a graph for another device."""
    framework = (False, None)

    def is_read_outside(node):
        return any(group.get(user, framework) != group[node] for user in node.users if not emit.is_sym(user))

    def shares_memory(node):
        source = node.args[0]
        if group.get(source, framework) != group[node]:
            return True
        return is_read_outside(source) or (source.target in VIEWS and shares_memory(source))

    for node in reversed(list(graph.nodes)):
        if not group.get(node, framework)[0]:
            continue
        if node.target not in VIEWS:
            if not emit.is_constant(node):
                continue
        elif not shares_memory(node) and emit.dense_permutation(node.meta["val"]) is not False:
            continue
        for user in list(node.users):
            where = group.get(user, framework)
            if where == group[node] or emit.is_sym(user):
                continue
            with graph.inserting_after(node):
                copy = graph.node_copy(node)
            copy.meta = dict(node.meta)
            reasons[copy] = reasons[node]
            user.replace_input_with(node, copy)
            group[copy] = where if where[0] else (False, group[node][1])


def _region(nodes):
    inside = set(nodes)
    inputs, outputs = {}, []
    for node in nodes:
        for source in node.all_input_nodes:
            if source not in inside and not emit.is_sym(source):
                inputs[source] = None
        if any(user not in inside for user in node.users) and not isinstance(node.meta["val"], (tuple, list)):
            outputs.append(node)
    return Region(nodes, list(inputs), outputs)


def placeholder_symbols(graph):
    """{sympy symbol: (placeholder, dimension or None)}: where each symbol's value can be read."""
    found = {}
    for node in graph.nodes:
        value = node.meta.get("val") if node.op == "placeholder" else None
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            found[value.node.expr] = (node, None)
        elif isinstance(value, torch.Tensor):
            for d, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    found.setdefault(size.node.expr, (node, d))
    return found
