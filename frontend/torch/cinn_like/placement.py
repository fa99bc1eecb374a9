"""What lies on the CPU beside an accelerator's tensors, and is read there: what is computed of constants alone is computed, and moves,
when the graph is compiled; 0-d tensors move when it runs. So the ops that read them need not be left to the framework.

    i = arange(9); index(a_cuda, [i + 1])   ->   index(a_cuda, [values_0])     # a tensor on the accelerator
    mul(a_cuda, s_cpu)                      ->   c = _to_copy(s_cpu, device=cuda); mul(a_cuda, c)

Numbers that become 0-d tensors within the graph need neither: emit.is_constant.
"""

import functools

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.node import map_arg

from . import emit, partition

aten = torch.ops.aten

_MOST_BYTES = 1 << 26  # of a tensor that is kept beside the compiled graph; a larger one is computed by each call


def bring_to_device(gm, device):
    constants, moved = _Constants(gm), {}
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or device not in _devices(node):
            continue
        for source in node.all_input_nodes:
            fake = source.meta.get("val")
            if not isinstance(fake, torch.Tensor) or fake.device == device or emit.is_constant(source):
                continue
            if source not in moved:
                with gm.graph.inserting_before(node):
                    moved[source] = _move(gm, node, source, fake, device, constants)
            if moved[source] is not None:
                node.replace_input_with(source, moved[source])
    replaced = {source for source, copy in moved.items() if copy is not None}
    if not replaced:
        return
    for node in reversed(list(gm.graph.nodes)):
        if not node.users and node.op in ("call_function", "get_attr") and (node in replaced or node in constants.known):
            gm.graph.erase_node(node)


def _devices(node):
    fake = node.meta.get("val")
    return [t.device for t in (fake if isinstance(fake, (tuple, list)) else [fake]) if isinstance(t, torch.Tensor)]


def _is_of_constant_size(node):
    """Not of one that a value decides (nonzero), which other nodes have by name."""
    fake = node.meta["val"]
    parts = fake if isinstance(fake, (tuple, list)) else [fake]
    return all(isinstance(n, int) for t in parts if isinstance(t, torch.Tensor) for n in t.shape)


def _move(gm, node, source, fake, device, constants):
    """A node with the value of `source` on `device`, or None."""
    value = constants.value(source)
    if value is not None:
        name = f"values_{len(constants.values)}"
        while hasattr(gm, name):
            name += "_"
        with unset_fake_temporarily():
            gm.register_buffer(name, value.to(device), persistent=False)
        return _describe(gm.graph.get_attr(name), getattr(gm, name), device, fake.fake_mode)
    if fake.ndim == 0 and node.target is not aten._to_copy.default:
        result = gm.graph.call_function(aten._to_copy.default, (source,), {"device": device})
        return _describe(result, fake, device, fake.fake_mode)
    return None


def _describe(node, like, device, fake_mode):
    with fake_mode:
        node.meta["val"] = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)
    return node


class _Constants:
    """Values on the CPU that every call computes anew of the same: of constants and numbers, by no random numbers. They are what the
    framework computes, bit by bit; another device may round elsewhere."""

    def __init__(self, gm):
        self.gm = gm
        self.values = {}  # node -> what it computes

    @functools.cached_property
    def known(self):
        """The nodes whose values these are, in topological order."""
        found = {}
        for node in self.gm.graph.nodes:
            if self._is_constant(node) and all(source in found for source in node.all_input_nodes):
                found[node] = None
        return found

    def _is_constant(self, node):
        """Whether it is one where its operands are."""
        if node.op == "get_attr":
            return isinstance(getattr(self.gm, node.target, None), torch.Tensor)
        if node.op != "call_function" or {d.type for d in _devices(node)} != {"cpu"} or not _is_of_constant_size(node):
            return False
        if partition.is_getitem(node):
            return True
        is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        return isinstance(node.target, torch._ops.OpOverload) and not is_random and not node.target._schema.is_mutable

    def value(self, node):
        """The value of a node, or None: it is none of them, or one too large to keep."""
        fake = node.meta["val"]
        if node not in self.known or fake.numel() * fake.element_size() > _MOST_BYTES:
            return None
        needed, stack = set(), [node]
        while stack:
            n = stack.pop()
            if n not in needed and n not in self.values:
                needed.add(n)
                stack.extend(n.all_input_nodes)
        try:
            with unset_fake_temporarily(), torch.no_grad():
                for n in self.known:
                    if n in needed:
                        self.values[n] = self._compute(n)
        except Exception:  # noqa: BLE001  (a call raises it, as the framework's would)
            return None
        return self.values[node]

    def _compute(self, node):
        if node.op == "get_attr":
            return getattr(self.gm, node.target)
        args, kwargs = map_arg((node.args, node.kwargs), self.values.__getitem__)
        return node.target(*args, **kwargs)
