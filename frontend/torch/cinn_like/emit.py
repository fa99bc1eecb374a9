"""FX nodes (ATen overloads with FakeTensor values) -> graph text, through the table that the ops_*.py files fill.

    mul = aten.mul.Tensor(arg0, 2.0)   ->   %1 = mul(%p0, %0) : f32[n,8]

The value that a rule writes must have the dtype and shape of the framework's FakeTensor; anything else is Unsupported.
"""

import dataclasses
import operator
import types

import sympy
import torch
from torch.fx.node import map_arg

from . import (  # noqa: F401
    dims,
    ops_gradients,
    ops_matrix,
    ops_movement,
    ops_normalization,
    ops_pointwise,
    ops_reduction,
    ops_segments,
)
from .errors import Unsupported
from .table import TABLE
from .writer import GraphWriter, Value


def is_sym(node):
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat, int, bool, float))


def is_constant(node):
    """A 0-d tensor computed from numbers alone; it may lie on the CPU beside tensors of any device."""
    fake = node.meta.get("val")
    made = node.op == "call_function" and isinstance(fake, torch.Tensor) and fake.ndim == 0
    return made and all(is_sym(n) or is_constant(n) for n in node.all_input_nodes)


def op_name(node):
    if isinstance(node.target, types.FunctionType):
        return node.target.__name__
    return str(node.target) if not isinstance(node.target, str) else f"{node.op} {node.target}"


class Emitter:
    """Emits node after node; `values` maps a node to its Value or tuple of Values."""

    def __init__(self, name="subgraph", names=None):
        self.writer = GraphWriter(name, names)
        self.values = {}
        self.refused = {}  # node -> why it has no value

    def add_param(self, node, static=False, name=None):
        fake = node.meta["val"]
        check_layout(fake)
        strides = None
        shape, stride = [dims.to_expr(s) for s in fake.shape], dims.strides_of(fake)
        if not dims.is_contiguous(shape, stride):
            strides = stride
        self.values[node] = self.writer.param(fake.dtype, shape, strides, static, name)

    def add(self, node):
        """Emits a call_function node; raises Unsupported."""
        rule = TABLE.get(node.target)
        if rule is None:
            raise Unsupported("no such op in graph text")
        out = node.meta["val"]
        check_layout(out)
        if node.target is torch.ops.aten.as_strided.default and dense_permutation(node.args[0].meta["val"]) is not None:
            raise Unsupported("as_strided of a tensor that is not contiguous")
        if node.target is not operator.getitem:
            check_device(node)
        args, kwargs = self._map(node.args), self._map(node.kwargs)
        self.writer.source = node
        result = rule(self.writer, out, *args, **kwargs)
        check_result(result, out)
        for user in node.users if isinstance(result, tuple) else ():
            if user.target is operator.getitem and result[user.args[1]] is None and user.users:
                raise Unsupported(f"its result {user.args[1]} is used")
        self.values[node] = result

    def _map(self, args):
        def value(node):
            if is_sym(node):
                return self.number(node.meta["val"])
            if node not in self.values:
                raise Unsupported(f"an operand: {self.refused.get(node, 'no tensor')}")
            return self.values[node]

        def convert(a):
            return list(a) if isinstance(a, (list, tuple)) else a

        mapped = map_arg(args, value)
        if isinstance(mapped, dict):
            return {k: convert(v) for k, v in mapped.items()}
        return [convert(a) for a in mapped]

    def number(self, v):
        if isinstance(v, torch.SymBool):
            raise Unsupported("a symbolic condition")
        if not isinstance(v, (torch.SymInt, torch.SymFloat)):
            return v
        if not v.node.has_hint():
            raise Unsupported("a number that depends on data")
        expr = dims.to_expr(v) if isinstance(v, torch.SymInt) else v.node.expr
        symbols = expr.free_symbols if isinstance(expr, sympy.Expr) else ()
        negative = [s for s in symbols if s.is_integer and dims.is_negative(s, v.node.shape_env)]
        return expr.subs({s: -self.writer.magnitude(s) for s in negative}) if negative else expr

    def signature(self, num_results):
        params = self.writer.params
        strides = []
        for p in params:
            expected = p.strides if p.strides is not None else dims.contiguous_strides(p.value.shape)
            strides.append(tuple(expected) if all(isinstance(s, int) for s in expected) else None)
        static, dtypes = tuple(p.static for p in params), tuple(p.value.dtype for p in params)
        ops = tuple(str(n.meta.get("original_aten", n.target)) for n in self.writer.sources)
        return Signature(static, tuple(strides), len(self.writer.extra_symbols()), num_results, dtypes, ops)

    def text(self, results, shape_env):
        """`results`: (node, perm or None) in order; a permuted-dense result is written in its memory order."""
        values = []
        for node, perm in results:
            value = self.values[node]
            self.writer.source = node
            values.append(self.writer.transpose(value, perm) if perm else value)
        return self.writer.text(values, shape_env)


@dataclasses.dataclass(frozen=True)
class Signature:
    """What the caller of compiled text must know."""

    static: tuple  # a bool per tensor parameter
    strides: tuple  # the expected strides per tensor parameter, None where they are symbolic
    num_symbols: int  # sizes passed after the tensors
    num_results: int
    dtypes: tuple = ()  # the expected dtype per tensor parameter; none: whatever the text says, or an error
    ops: tuple = ()  # the framework's name for each op of the text, for errors


def check_layout(out):
    for t in out if isinstance(out, (tuple, list)) else [out]:
        if isinstance(t, torch.Tensor):
            if t.layout != torch.strided or t.is_quantized:
                raise Unsupported(f"the layout {t.layout}")
            for size in t.shape:
                if not isinstance(size, torch.SymInt):
                    continue
                if not size.node.has_hint():
                    raise Unsupported("a size that depends on data")
                if any(size.node.shape_env.bound_sympy(s).upper < 0 for s in dims.free_symbols(size)):
                    raise Unsupported("a size made of a negative number")


def check_device(node):
    """Every operand lies on the result's device."""
    out = node.meta["val"]
    first = next((t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, torch.Tensor)), None)
    if first is None:
        raise Unsupported("a result that is no tensor")
    for source in node.all_input_nodes:
        fake = source.meta.get("val")
        if isinstance(fake, torch.Tensor) and fake.device != first.device and not is_constant(source):
            if node.target is torch.ops.aten._to_copy.default:
                raise Unsupported(f"a copy from {fake.device} to {first.device}")
            raise Unsupported(f"an operand on {fake.device} beside {first.device}")


def check_result(result, out):
    if isinstance(out, (tuple, list)):
        for r, o in zip(result, out):
            if r is not None:
                check_result(r, o)
        return
    if not isinstance(result, Value):
        return
    if result.dtype != out.dtype or result.rank != out.ndim or not all(map(dims.same, result.shape, out.shape)):
        raise Unsupported(f"written as {result.dtype}{list(result.shape)}, expected {out.dtype}{list(out.shape)}")


def hint(size):
    return size.node.hint if isinstance(size, torch.SymInt) else int(size)


def overlaps(fake):
    return any(stride == 0 and size != 1 for size, stride in zip(map(dims.to_expr, fake.shape), dims.strides_of(fake)))


def turns(source, copy):
    """Whether neighbours in the copy's memory lie apart in the source's: within a cache line or so, or such that the
    source has lines of its own that are as long, which tiles turn. Sizes are those that are expected."""
    line = 16  # elements
    sizes, strides, to = ([hint(n) or 0 for n in numbers] for numbers in (source.shape, source.stride(), copy.stride()))
    step = next((s for n, s, t in zip(sizes, strides, to) if t == 1 and n > 1), 1)
    own = max((n for n, s in zip(sizes, strides) if s == 1), default=1)
    return step != 1 and (step < line or own >= line)


def dense_permutation(fake):
    """How a tensor lies in memory: None if contiguous, the axes from outermost to innermost if it is a permutation of a
    contiguous one, False otherwise."""
    shape, strides = [dims.to_expr(s) for s in fake.shape], dims.strides_of(fake)
    if dims.is_contiguous(shape, strides):
        return None
    perm = sorted(range(fake.ndim), key=lambda i: (-hint(fake.stride(i)), i))
    if dims.is_contiguous([shape[p] for p in perm], [strides[p] for p in perm]):
        return perm
    return False
