"""The Python function that runs a partitioned graph: one line per region or framework op, in topological order.

def run(args):
    a, b = args
    v0, = region_0(a, b)
    v1 = aten_sort(v0)
    return (v1,)
"""

import operator

import torch
from torch.fx import Node

from . import dims, emit
from .partition import placeholder_symbols


class _Source:
    def __init__(self, graph, module):
        self.module, self.lines, self.scope, self.names = module, [], {}, {}
        self.symbols = placeholder_symbols(graph)
        self.symbol_names = {}

    def constant(self, value, hint="k"):
        name = f"{hint}_{len(self.scope)}"
        self.scope[name] = value
        return name

    def define(self, node):
        self.names[node] = f"v{len(self.names)}"
        return self.names[node]

    def render(self, arg):
        if isinstance(arg, Node):
            return self.size(arg) if self.is_size(arg) else self.names[arg]
        if isinstance(arg, tuple):
            return "(" + "".join(self.render(a) + ", " for a in arg) + ")"
        if isinstance(arg, list):
            return "[" + ", ".join(map(self.render, arg)) + "]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self.render(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({self.render(arg.start)}, {self.render(arg.stop)}, {self.render(arg.step)})"
        if arg is None or isinstance(arg, (bool, int, str)):
            return repr(arg)
        return self.constant(arg)

    # A size is computed from the placeholders' sizes, whatever node the trace read it from.
    def is_size(self, node):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.SymInt):
            return False
        return (
            all(s in self.symbols for s in value.node.expr.free_symbols)
            and self.expression(value.node.expr) is not None
        )

    def size(self, node):
        return self.expression(node.meta["val"].node.expr)

    def symbol(self, symbol):
        node, d = self.symbols[symbol]
        return self.names[node] if d is None else f"{self.names[node]}.size({d})"

    def number(self, e):
        return str(e) if isinstance(e, int) else self.expression(e)

    def expression(self, e):
        if e.is_Integer:
            return str(int(e))
        if e.is_Symbol:
            return self.symbol(e)
        args = [self.expression(a) for a in e.args]
        if e.func not in dims.PYTHON_OPERATORS or None in args:
            return None
        sign, _ = dims.PYTHON_OPERATORS[e.func]
        return "(" + f" {sign} ".join(args) + ")"


def stitch(graph, module, regions, compiled):
    """`compiled`: region -> (callable, argument symbols, permutation or None per output). Regions without an entry run
    op by op. Gives a function of one list of arguments."""
    unit_of = {node: region for region in regions if region in compiled for node in region.nodes}
    source = _Source(graph, module)
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    for node in placeholders:
        source.define(node)
    head = "".join(source.names[n] + ", " for n in placeholders)
    output = next(n for n in graph.nodes if n.op == "output")
    order = _order(graph, unit_of, source)
    last_use = _last_uses(order, output, source, unit_of)
    for unit in order:
        if isinstance(unit, Node):
            _call_op(source, unit)
        else:
            _call_region(source, unit, *compiled[unit])
        dead = [source.names[n] for n in last_use.get(unit, ()) if n in source.names]
        if dead:
            source.lines.append(f"del {', '.join(dead)}")
    body = [f"{head.rstrip()} = args" if placeholders else "pass", "args.clear()" if placeholders else "pass"]
    body += [*source.lines, f"return {source.render(tuple(output.args[0]))}"]
    text = "def run(args):\n" + "".join(f"    {line}\n" for line in body)
    exec(compile(text, "<cinn_like graph>", "exec"), source.scope)
    run = source.scope["run"]
    run._boxed_call = True
    run.source = text
    return run


def _needs(unit, unit_of, source):
    """The nodes whose values a unit reads."""
    nodes = unit.all_input_nodes if isinstance(unit, Node) else unit.inputs
    needs = [n for n in nodes if not source.is_size(n)]
    if any(source.is_size(n) for n in nodes) or not isinstance(unit, Node):
        needs += [node for node, _ in source.symbols.values()]
    return needs


def _order(graph, unit_of, source):
    """Units in an order in which every unit follows those it reads from."""
    order, done = [], set()
    stack = [(n, False) for n in reversed(list(graph.nodes)) if n.op in ("call_function", "get_attr")]
    while stack:
        node, expanded = stack.pop()
        unit = unit_of.get(node, node)
        if unit in done or node.op in ("placeholder", "output") or source.is_size(node):
            continue
        if expanded:
            done.add(unit)
            order.append(unit)
            continue
        stack.append((node, True))
        stack.extend((n, False) for n in _needs(unit, unit_of, source))
    return order


def _last_uses(order, output, source, unit_of):
    kept = set(output.all_input_nodes) | {node for node, _ in source.symbols.values()}
    last = {}
    for unit in order:
        for node in _needs(unit, unit_of, source):
            last[node] = unit
    uses = {}
    for node, unit in last.items():
        if node not in kept:
            uses.setdefault(unit, []).append(node)
    return uses


def _call_op(source, node):
    if node.op == "get_attr":
        value = source.module
        for name in node.target.split("."):
            value = getattr(value, name)
        source.lines.append(f"{source.define(node)} = {source.constant(value, 'attribute')}")
        return
    args = [source.render(a) for a in node.args] + [f"{k}={source.render(v)}" for k, v in node.kwargs.items()]
    if node.target is operator.getitem:
        source.lines.append(f"{source.define(node)} = {args[0]}[{args[1]}]")
        return
    name = source.constant(node.target, "op")
    source.lines.append(f"{source.define(node)} = {name}({', '.join(args)})")


def _call_region(source, region, function, symbols, permutations):
    args = [source.names[n] for n in region.inputs] + [source.expression(s) for s in symbols]
    names = [source.define(n) for n in region.outputs]
    source.lines.append(f"{', '.join(names)}, = {source.constant(function, 'region')}({', '.join(args)})")
    for node, name, perm in zip(region.outputs, names, permutations):
        fake = node.meta["val"]
        perm = perm or list(range(fake.ndim))
        inverse = [perm.index(i) for i in range(len(perm))]
        if perm != sorted(perm):
            source.lines.append(f"{name} = {name}.permute({inverse})")
        # What is left are the strides of axes of size 1, and memory with gaps, which eager PyTorch gives.
        shape, strides = [dims.to_expr(s) for s in fake.shape], dims.strides_of(fake)
        dense = dims.contiguous_strides([shape[p] for p in perm])
        if not all(map(dims.same, strides, [dense[i] for i in inverse])):
            texts = [source.number(s) for s in strides]
            if None not in texts:
                change = source.constant(
                    _with_gaps if emit.dense_permutation(fake) is False else torch.as_strided, "strides"
                )
                source.lines.append(f"{name} = {change}({name}, {name}.size(), [{', '.join(texts)}])")


def _with_gaps(x, size, strides):
    return torch.empty_strided(size, strides, dtype=x.dtype, device=x.device).copy_(x)
