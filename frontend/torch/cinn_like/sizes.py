"""Sizes that a graph reads from values it computes, computed from its inputs' sizes instead.

A trace reads `x.view(-1, n).size(0)` from the view, so that the view would be written out for its size alone:

    %view = view(%x, [-1, 64]); %n = sym_size(%view, 0)  ->  %s = sym_size(%input, 0); %n = mul(16, %s)
"""

import contextlib
import functools

import torch
from torch._guards import detect_fake_mode

from . import dims, partition


def read_from_inputs(graph):
    """Replaces every read of a computed tensor's size whose expression the inputs' sizes give."""
    symbols = partition.placeholder_symbols(graph)
    for node in list(graph.nodes):
        if node.target is not torch.ops.aten.sym_size.int or node.args[0].op == "placeholder":
            continue
        size = node.meta.get("val")
        if not isinstance(size, (int, torch.SymInt)):
            continue
        with graph.inserting_before(node):
            computed = _compute(graph, dims.to_expr(size), symbols)
        if computed is not None:
            node.replace_all_uses_with(computed) if isinstance(computed, torch.fx.Node) else _replace_by_number(node, computed)
            graph.erase_node(node)


def _replace_by_number(node, number):
    for user in list(node.users):
        user.args, user.kwargs = torch.fx.map_arg((user.args, user.kwargs), lambda n: number if n is node else n)


def _compute(graph, e, symbols):
    """A number, a node or, where an operand or an operator is not known, None."""
    if isinstance(e, int) or e.is_Integer:
        return int(e)
    if e.is_Symbol:
        if e not in symbols:
            return None
        tensor, d = symbols[e]
        return tensor if d is None else call(graph, torch.ops.aten.sym_size.int, tensor, d)
    args = [_compute(graph, a, symbols) for a in e.args]
    if e.func not in dims.PYTHON_OPERATORS or None in args:
        return None
    _, operator = dims.PYTHON_OPERATORS[e.func]
    return functools.reduce(functools.partial(call, graph, operator), args)


def call(graph, target, *args, **named):
    """A node that calls `target`, and what it is known to give."""
    node = graph.call_function(target, args, named)
    args, named = torch.fx.map_arg((args, named), lambda n: n.meta["val"])
    with detect_fake_mode(args) or contextlib.nullcontext():
        node.meta["val"] = target(*args, **named)
    return node
