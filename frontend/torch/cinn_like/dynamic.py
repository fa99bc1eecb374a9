"""options={"dynamic_batch": True}: asks Dynamo to trace a frame's inputs with a symbolic first dimension at once.

Dynamo specialises every size on the first call and makes a size symbolic only when it sees a second one, which costs a
recompile; so does this backend unless asked. Who knows that batch sizes will change asks: on the first trace of a
frame the backend then records the first dimension of every user's tensor as dynamic in Dynamo's own profile of the
frame and has the frame traced again, which costs that second trace at the first call. A size of 1 stays a case of its
own, as everywhere in PyTorch. Where this PyTorch has no such profile, the second batch size recompiles once.
"""

import torch


def request_dynamic_batch(gm):
    """Raises Dynamo's restart exception if that makes a size symbolic that is not; else returns."""
    try:
        from torch._dynamo import config
        from torch._dynamo.exc import TensorifyScalarRestartAnalysis
        from torch._dynamo.pgo import CodeId, auto_dynamic, get_code_state
        from torch._dynamo.symbolic_convert import InstructionTranslator

        if not config.automatic_dynamic_shapes or not config.assume_static_by_default:
            return
        tx = InstructionTranslator.current_tx()
        while getattr(tx, "parent", None) is not None:
            tx = tx.parent
        try:
            code = CodeId.make(tx.f_code, tx.closure)
        except (TypeError, AttributeError):
            code = CodeId.make(tx.f_code)
        entries = get_code_state()[code].automatic_dynamic
    except (ImportError, AttributeError, AssertionError, KeyError, TypeError):
        return
    changed = False
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        name = _source_name(node)
        entry = entries.get(name) if name else None
        value = node.meta.get("example_value")
        if entry is None or not isinstance(value, torch.Tensor) or not isinstance(entry.size, tuple) or not entry.size:
            continue
        if isinstance(value, torch.nn.Parameter) or type(entry.size[0]) is not int or entry.size[0] < 2:
            continue
        entry.size = (auto_dynamic, *entry.size[1:])
        changed = True
    if changed:
        raise TensorifyScalarRestartAnalysis(restart_reason="cinn_like: the first dimension is dynamic")


def _source_name(node):
    """How the frame reaches the input, if it is an argument or variable of its own and no module attribute."""
    grapharg = node.meta.get("grapharg")
    source = getattr(grapharg, "source", None)
    if source is None or getattr(grapharg, "is_tensor", True) is False:
        return None
    name = source.name() if callable(source.name) else source.name
    guard_source = source.guard_source() if callable(source.guard_source) else source.guard_source
    if guard_source.is_specialized_nn_module() or guard_source.is_unspecialized_nn_module():
        return None
    return name
