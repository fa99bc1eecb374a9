"""What lies on the CPU beside an accelerator's tensors: constants move when the graph is compiled, 0-d tensors when it
runs, so that the ops that read them need not be left to the framework.

    mul(a_cuda, s_cpu)   ->   c = _to_copy(s_cpu, device=cuda); mul(a_cuda, c)

Numbers that become 0-d tensors within the graph need neither: emit.is_constant.
"""

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from . import emit

aten = torch.ops.aten


def bring_to_device(gm, device):
    moved = {}
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or device not in _devices(node):
            continue
        for source in node.all_input_nodes:
            fake = source.meta.get("val")
            if not isinstance(fake, torch.Tensor) or fake.device == device or emit.is_constant(source):
                continue
            if source not in moved:
                with gm.graph.inserting_before(node):
                    moved[source] = _move(gm, node, source, fake, device)
            if moved[source] is not None:
                node.replace_input_with(source, moved[source])
    for source, copy in moved.items():
        if copy is not None and not source.users and source.op == "call_function":
            gm.graph.erase_node(source)


def _devices(node):
    fake = node.meta.get("val")
    return [t.device for t in (fake if isinstance(fake, (tuple, list)) else [fake]) if isinstance(t, torch.Tensor)]


def _move(gm, node, source, fake, device):
    """A node with the value of `source` on `device`, or None."""
    constant = source.args[0] if source.target is aten.lift_fresh_copy.default else source
    if constant.op == "get_attr":
        with unset_fake_temporarily():
            value = getattr(gm, constant.target).to(device)
        name = f"{constant.target}_on_{device.type}"
        gm.register_buffer(name, value, persistent=False)
        result = gm.graph.get_attr(name)
        _describe(result, fake, device)
        if source is not constant:
            result = gm.graph.call_function(source.target, (result,))
    elif fake.ndim == 0 and node.target is not aten._to_copy.default:
        result = gm.graph.call_function(aten._to_copy.default, (source,), {"device": device})
    else:
        return None
    return _describe(result, fake, device)


def _describe(node, fake, device):
    with fake.fake_mode:
        node.meta["val"] = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=device)
    return node
