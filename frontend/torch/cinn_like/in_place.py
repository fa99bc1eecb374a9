"""Updates of a graph's inputs, where they are.

AOTAutograd makes `cache.index_copy_(1, at, x)` a functional op over the whole cache and a copy of its result back into the
input at the graph's end. Here the pair becomes one op again that writes what changes. It may where the graph reads the
input's old values nowhere else and doesn't return the result.
"""

import torch

aten = torch.ops.aten


def _write_through(view):
    def scatter_(x, src, *where, **named):
        view(x, *where, **named).copy_(src)
        return x

    scatter_.__name__ = f"{view.overloadpacket.__name__}_scatter_"
    return scatter_


# Updates of a part of the first operand: copies into a view of it, and those that aten has in place.
_VIEWS = {
    aten.slice_scatter.default: _write_through(aten.slice.Tensor),
    aten.select_scatter.default: _write_through(aten.select.int),
    aten.diagonal_scatter.default: _write_through(aten.diagonal.default),
    aten.as_strided_scatter.default: _write_through(aten.as_strided.default),
}
_SCATTERS = ("index_put", "index_copy", "index_add", "index_fill", "index_reduce", "scatter", "scatter_add",
             "scatter_reduce", "masked_scatter")  # fmt: skip


def _in_place_of(target):
    """What does the same to its first operand and returns it, or None."""
    if target in _VIEWS:
        return _VIEWS[target]
    packet = getattr(target, "overloadpacket", None)
    name = getattr(packet, "__name__", "")
    return getattr(getattr(aten, name + "_"), target._overloadname, None) if name in _SCATTERS else None


def restore(graph):
    """Puts updates of the graph's inputs back in place."""
    for copy in [n for n in graph.nodes if n.target is aten.copy.default]:
        _forward_copied(graph, copy)
    for copy in [n for n in graph.nodes if n.target is aten.copy_.default]:
        kept, update = copy.args[:2]
        if kept.op != "placeholder" or not isinstance(update, torch.fx.Node) or not update.args or update.args[0] is not kept:
            continue
        if set(kept.users) != {copy, update} or any(user.op == "output" for user in [*update.users, *copy.users]):
            continue
        if kept in [*update.args[1:], *update.kwargs.values()] or not _same_layout(kept, update):
            continue
        in_place = _in_place_of(update.target)
        if in_place is not None:
            update.target = in_place
            graph.erase_node(copy)


def _forward_copied(graph, copy):
    """What is scattered needs no copy in the layout of the part that it replaces."""
    replaced, source = copy.args[:2]
    a, b = replaced.meta["val"], source.meta["val"]
    if all(user.target in _VIEWS and user.args[1] is copy for user in copy.users) and (a.dtype, a.shape) == (b.dtype, b.shape):
        copy.replace_all_uses_with(source)
        for node in (copy, replaced):
            if not node.users and node.op == "call_function":
                graph.erase_node(node)


def _same_layout(a, b):
    """What reads the result finds the strides that the trace promised."""
    a, b = a.meta["val"], b.meta["val"]
    return a.dtype == b.dtype and a.device == b.device and a.shape == b.shape and a.stride() == b.stride()
