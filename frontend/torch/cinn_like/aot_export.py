"""Models compiled ahead of time: `torch.export`'s graph -> graph text, all of it -> one shared library, weights inside.

cinn_like.aot(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}, path="net.so")
net = cinn_like.load_library("net.so")  # or from C: docs/libraries.md
"""

import functools
import os
import pathlib
import re

import torch
from torch._decomp import decomposition_table
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import ValueRanges

from . import abi, decompositions, dims, emit, library, partition, resampling, table
from .errors import Unsupported
from .slow_call import describe_tensor

aten = torch.ops.aten


def aot(model, args, kwargs=None, dynamic_shapes=None, path="net.so", *, target="cpu"):
    """Writes `model` (a module or a function of tensors) as the file `path` and gives that path. `args`, `kwargs` and
    `dynamic_shapes` are torch.export's. The file's function has the path's name ("net"). It takes the tensors among the
    arguments in torch.export's order, contiguous, then the numbers that `dynamic_shapes` leaves open; it gives the
    tensors among the results in order, numbers as 0-d tensors. Unsupported names the ops that can't be compiled: there
    is no framework in a file. Of several targets, as in ["cuda -arch=sm_90a", "cuda -arch=sm_80", "cpu"], the first that
    is where the file is loaded is run; none but a CPU need be here."""
    path = os.fspath(path)
    name = re.sub(r"\W", "_", pathlib.Path(path).name.split(".")[0], flags=re.ASCII)
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: x.detach().contiguous(), (tuple(args), dict(kwargs or {})))
    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    with torch.no_grad():
        program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
        program = program.run_decompositions(_decompositions(program.graph))
        targets = [target] if isinstance(target, str) else list(target)
        lib, handles = library.get(), []
        try:
            for each in targets:
                text, weights = write(program, name, each)
                handles.append(lib.bid(text, each))
            weights = [w.cpu() for w in weights]
            described = [describe_tensor(w) for w in weights]
            lib.export_library(handles, path, abi.values_of(described, (), 0), len(weights))
        finally:
            for handle in handles:
                lib.release(handle)
    return path


class _Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


def _decompositions(graph):
    """What AOTAutograd does for backend.py: composite ops fall apart by themselves, the others by the table. All attention
    is written out, since there is no framework that has a kernel for it."""
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    ops = {n.target for n in graph.nodes if isinstance(n.target, torch._ops.OpOverload)}
    result = {op: f for op, f in torch.export.default_decompositions().items() if op.has_kernel_for_dispatch_key(composite)}
    result |= {op: _decomposition(op) for op in ops - result.keys() if op.has_kernel_for_dispatch_key(composite)}
    result |= decompositions.table()
    result[aten.scaled_dot_product_attention.default] = decompositions.attention
    result[aten.lstm_cell.default] = decompositions.lstm_cell
    result[aten.gru_cell.default] = decompositions.gru_cell
    for op in (aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec):
        result[op] = functools.partial(_upsample_nearest, op)
    return result


def _decomposition(op):
    return decomposition_table.get(op, op.decompose)


def _upsample_nearest(op, x, size, scales):
    if resampling.whole_factors(x, size, scales) is None:
        return _decomposition(op)(x, size, scales)
    return resampling.interpolate(x, size, scales)


def write(program, name, target):
    """(graph text, the static parameters' values) of an exported program."""
    graph, signature = program.graph_module.graph, program.graph_signature
    _drop_assertions(graph)
    inputs, weights = _sort_inputs(program)
    outputs = _user_outputs(graph, signature)
    _require_all(graph, target)

    numbers = {n: n.meta["val"].node.expr for n in inputs if isinstance(n.meta.get("val"), torch.SymInt)}
    names = {numbers.get(n, n): n.name for n in (*inputs, *weights)}
    emitter = emit.Emitter(name, names)
    for node in inputs:
        if node not in numbers:
            emitter.add_param(node, name=names[node])
    first = {}  # tied weights are one parameter
    for node, value in weights.items():
        key = (value.data_ptr(), value.dtype, value.shape, value.stride(), value.storage_offset())
        if key in first:
            emitter.values[node] = emitter.values[first[key]]
        else:
            first[key] = node
            emitter.add_param(node, static=True, name=names[node])
    for node in graph.nodes:
        if node.op == "call_function" and not emit.is_sym(node):
            emitter.add(node)
    emitter.writer.source = None
    results = [_result(emitter, value) for value in outputs]
    if not results:
        raise Unsupported("the model gives no tensors")
    text = emitter.writer.text(results, _Ranges(partition.shape_env(graph), program.range_constraints))
    for symbol in emitter.writer.extra_symbols():
        if symbol not in numbers.values():
            raise Unsupported(f"the size {symbol} is none of an input's own: give it as an argument, or a plain Dim")
    return text, [weights[node] for node in first.values()]


class _Ranges:
    """A shape environment with the ranges that the caller asked for: traces are for sizes from 2 on, and so it says
    itself, though what is traced holds for 1. For 0 it would, too, but products by sizes that may be 0 are slow."""

    def __init__(self, shape_env, ranges):
        self._shape_env, self._ranges = shape_env, ranges

    def bound_sympy(self, symbol):
        bounds = self._ranges.get(symbol) or self._shape_env.bound_sympy(symbol)
        return ValueRanges(max(bounds.lower, 1), min(bounds.upper, dims.LARGEST))

    def __getattr__(self, name):
        return getattr(self._shape_env, name)


def _drop_assertions(graph):
    """The call's check of arguments asks what they do of sizes."""
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and ("_assert" in str(node.target) or "sym_constrain" in str(node.target)):
            if not node.users:
                graph.erase_node(node)
    graph.eliminate_dead_code()


def _sort_inputs(program):
    """(placeholders of the caller's, {placeholder: value} of the model's own that are used)."""
    placeholders = {n.name: n for n in program.graph_module.graph.nodes if n.op == "placeholder"}
    inputs, weights = [], {}
    for spec in program.graph_signature.input_specs:
        node = placeholders[spec.arg.name]
        if spec.kind == InputKind.USER_INPUT:
            if not isinstance(spec.arg, ConstantArgument):
                inputs.append(node)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            stored = program.state_dict if spec.target in program.state_dict else program.constants
            if node.users:
                weights[node] = stored[spec.target].detach()
        else:
            raise Unsupported(f"an input of kind {spec.kind.name.lower()}: {spec.target or node.name}")
    return inputs, weights


def _user_outputs(graph, signature):
    """Nodes and numbers, in order; None is left out."""
    output = next(n for n in graph.nodes if n.op == "output")
    results = []
    for spec, value in zip(signature.output_specs, output.args[0]):
        if spec.kind != OutputKind.USER_OUTPUT:
            what = spec.kind.name.lower().replace("_", " ")
            raise Unsupported(f"{what}: the model writes to '{spec.target}', and a library keeps no state")
        if value is not None:
            results.append(value)
    return results


def _require_all(graph, target):
    device, refused = partition.find_device(graph), {}
    for node, why in partition.classify(graph, device, target).items():
        if why is not None and not partition.is_getitem(node):
            refused.setdefault(emit.op_name(node), why)
    # What fails because an operand did is no news.
    reasons = [f"{op} ({why})" for op, why in refused.items() if not why.startswith("an operand: ")]
    if refused:
        reasons = reasons or [f"{op} ({why})" for op, why in refused.items()]
        raise Unsupported("can't be compiled, and a library has no framework: " + "; ".join(reasons))


def _result(emitter, value):
    """The value of a result of its own: neither an input's nor another's memory."""
    w = emitter.writer
    if isinstance(value, torch.fx.Node):
        fake = value.meta["val"]
        if isinstance(fake, torch.Tensor):
            return emitter.values[value]
        value = fake
    if isinstance(value, torch.SymInt):
        return table.symbolic_number(w, emitter.number(value), torch.int64)
    if isinstance(value, (bool, int, float)):
        dtype = {bool: torch.bool, int: torch.int64, float: torch.float64}[type(value)]
        return w.full(value, dtype)
    raise Unsupported(f"a result that is no tensor: {value!r}")
