"""Writes graph text (docs/graph_text.md): one method per kind of op, each of which gives the value it defines.

w = GraphWriter(); x = w.param(torch.float32, [2, 3]); y = w.unary("exp", x); w.text([y])
-> graph @subgraph(%p0: f32[2,3]) {
     %0 = exp(%p0) : f32[2,3]
     return %0
   }
"""

import dataclasses
import itertools
import math
import re

import sympy
import torch

from . import dims
from .errors import Unsupported

DTYPES = {
    torch.bool: "bool", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
}  # fmt: skip
_SYMBOL_NAMES = "nmkpqrstuv"


def dtype_text(dtype):
    if dtype not in DTYPES:
        raise Unsupported(f"the dtype {dtype}")
    return DTYPES[dtype]


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    name: str
    dtype: torch.dtype
    shape: tuple  # ints and sympy expressions

    @property
    def rank(self):
        return len(self.shape)


@dataclasses.dataclass
class _Param:
    value: Value
    strides: tuple | None
    static: bool


class GraphWriter:
    def __init__(self, name="subgraph", names=None):
        """`names`: those of parameters and {symbol: name} that the caller has chosen."""
        self.name = name
        self.params, self._ops, self._names = [], [], {}
        self._chosen = names or {}
        self._count = 0
        self._negated = {}  # see magnitude()
        self._reshaped = {}  # result of a reshape -> what was reshaped
        self.source = None  # whoever the ops are written for
        self.sources = []  # of each op of the last text
        self._seen = {}  # (op, operands, attributes, type) -> value: equal constants and views are written once

    # ---- parameters -------------------------------------------------------------------------------------------

    def param(self, dtype, shape, strides=None, static=False, name=None):
        """A tensor parameter; `strides` only where it is not contiguous."""
        shape = tuple(dims.to_expr(s) for s in shape)
        value = Value(f"%{name or f'p{len(self.params)}'}", dtype, shape)
        dtype_text(dtype)
        for size in (*shape, *(strides or ())):
            self._dim(size)
        self.params.append(_Param(value, tuple(strides) if strides is not None else None, static))
        return value

    def _symbol(self, symbol):
        if symbol not in self._names:
            taken = {*self._names.values(), *self._chosen.values()}
            names = itertools.chain(_SYMBOL_NAMES, (f"n{k}" for k in itertools.count()))
            self._names[symbol] = self._chosen.get(symbol) or next(name for name in names if name not in taken)

    def magnitude(self, symbol):
        """A symbol for -`symbol`, where `symbol` is a negative number: symbols of graph text are not."""
        positive = sympy.Symbol(f"minus_{symbol}", integer=True, positive=True)
        self._negated[positive] = -symbol
        return positive

    def may_be_negative(self, e):
        return any(s in self._negated for s in e.free_symbols)

    # Symbols that no parameter has as a plain dimension; they are parameters after the tensors, in this order.
    def _extra(self, params):
        plain = {s for p in params for s in p.value.shape if isinstance(s, sympy.Symbol)}
        return [s for s in self._names if s not in plain]

    def extra_symbols(self):
        """What to pass for them: a symbol of the framework, or its negation."""
        return [self._negated.get(s, s) for s in self._extra(self.params)]

    # ---- ops --------------------------------------------------------------------------------------------------

    def op(self, name, operands, results, **attributes):
        """`results` is one (dtype, shape) or a list of them; gives one Value or a list."""
        single = isinstance(results, tuple)
        types = []
        for dtype, shape in [results] if single else results:
            shape = tuple(dims.to_expr(s) for s in shape)
            types.append((dtype, shape, f"{dtype_text(dtype)}[{','.join(map(self._dim, shape))}]"))
        text = f"{name}({', '.join(o.name for o in operands)})"
        if attributes:
            text += " {" + ", ".join(f"{k}={self._attribute(v)}" for k, v in attributes.items()) + "}"
        text += " : " + ", ".join(t for _, _, t in types)
        if text in self._seen:
            values = self._seen[text]
        else:
            values = [Value(f"%{self._count + i}", dtype, shape) for i, (dtype, shape, _) in enumerate(types)]
            self._count += len(values)
            self._ops.append((values, operands, f"  {', '.join(v.name for v in values)} = {text}", self.source))
            self._seen[text] = values
        return values[0] if single else list(values)

    def unary(self, name, x, **attributes):
        return self.op(name, [x], (x.dtype, x.shape), **attributes)

    def binary(self, name, a, b, dtype=None):
        return self.op(name, [a, b], (dtype or a.dtype, self.broadcast_shapes(a.shape, b.shape)))

    def compare(self, name, a, b):
        return self.binary(name, a, b, torch.bool)

    def select(self, c, a, b):
        shape = self.broadcast_shapes(self.broadcast_shapes(c.shape, a.shape), b.shape)
        return self.op("select", [c, a, b], (a.dtype, shape))

    def cast(self, x, dtype):
        if x.dtype == dtype:
            return x
        return self.op("cast", [x], (dtype, x.shape), dtype=dtype)

    def full(self, value, dtype, shape=()):
        shape = tuple(dims.to_expr(s) for s in shape)
        if dtype == torch.bool:
            value = bool(value)
        elif dtype.is_floating_point:
            value = float(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise Unsupported(f"the constant {value} as {dtype}")
        else:
            value = int(value)
        return self.op("full", [], (dtype, shape), value=value, dtype=dtype, shape=shape)

    def iota(self, dtype, shape, axis=0):
        shape = tuple(dims.to_expr(s) for s in shape)
        return self.op("iota", [], (dtype, shape), dtype=dtype, shape=shape, axis=axis)

    def reshape(self, x, shape):
        shape = tuple(dims.to_expr(s) for s in shape)
        x = self._reshaped.get(x, x)
        if len(shape) == x.rank and all(map(dims.same, shape, x.shape)):
            return x
        result = self.op("reshape", [x], (x.dtype, shape), shape=shape)
        self._reshaped[result] = x
        return result

    def transpose(self, x, perm):
        perm = [p % x.rank for p in perm] if x.rank else []
        if perm == list(range(x.rank)):
            return x
        return self.op("transpose", [x], (x.dtype, [x.shape[p] for p in perm]), perm=perm)

    def broadcast_to(self, x, shape):
        shape = tuple(dims.to_expr(s) for s in shape)
        if len(shape) == x.rank and all(map(dims.same, shape, x.shape)):
            return x
        return self.op("broadcast_to", [x], (x.dtype, shape), shape=shape)

    def slice(self, x, axis, begin, end, step, size):
        """`size` is the result's size along `axis`."""
        if begin == 0 and step == 1 and dims.same(size, x.shape[axis]):
            return x
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        return self.op("slice", [x], (x.dtype, shape), axis=axis, begin=dims.to_expr(begin), end=dims.to_expr(end),
                       step=step)  # fmt: skip

    def concat(self, xs, axis):
        if len(xs) == 1:
            return xs[0]
        size = dims.to_expr(sum(x.shape[axis] for x in xs))
        return self.op("concat", xs, (xs[0].dtype, (*xs[0].shape[:axis], size, *xs[0].shape[axis + 1 :])), axis=axis)

    def pad(self, x, low, high, value=0.0):
        shape = [s + lo + hi for s, lo, hi in zip(x.shape, low, high)]
        return self.op("pad", [x], (x.dtype, shape), low=list(low), high=list(high), value=value)

    def reduce(self, name, x, axes, keepdims=False):
        axes = sorted(a % x.rank for a in axes) if x.rank else []
        if not axes:
            return x
        shape = [1 if i in axes else s for i, s in enumerate(x.shape) if keepdims or i not in axes]
        return self.op(name, [x], (x.dtype, shape), axes=axes, keepdims=keepdims)

    def matmul(self, a, b, dtype=None):
        """`dtype`: that of the sums, where it is not the operands'."""
        # bmm on [b*h, ...] that was [b, h, ...] keeps its own batch dimensions.
        wide = [self._reshaped.get(v, v) for v in (a, b)]
        if a.rank == 3 and all(v.rank > 3 and v.shape[-2:] == o.shape[-2:] for v, o in zip(wide, (a, b))):
            if wide[0].shape[:-2] == wide[1].shape[:-2]:
                return self.reshape(self.matmul(*wide, dtype), (*a.shape[:2], b.shape[2]))
        batch = self.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        attributes = {} if dtype in (None, a.dtype) else dict(wide=True)
        return self.op("matmul", [a, b], (dtype or a.dtype, (*batch, a.shape[-2], b.shape[-1])), **attributes)

    @staticmethod
    def broadcast_shapes(a, b):
        rank = max(len(a), len(b))
        result = []
        for x, y in zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)):
            if not (dims.same(x, y) or x == 1 or y == 1):
                raise Unsupported(f"broadcasting sizes {x} and {y}")
            result.append(y if x == 1 else x)
        return tuple(result)

    def mark(self):
        """What has been written so far, for `fragment` and `rollback`."""
        return len(self._ops), len(self._seen)

    def rollback(self, mark):
        """Forgets the ops written since `mark`."""
        del self._ops[mark[0] :]
        for text in list(self._seen)[mark[1] :]:
            del self._seen[text]

    # ---- text -------------------------------------------------------------------------------------------------

    def _dim(self, size):
        for symbol in sorted(dims.free_symbols(size), key=str):
            self._symbol(symbol)
        return dims.print_expr(size, self._names)

    def _attribute(self, value):
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, torch.dtype):
            return dtype_text(value)
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, float):
            text = repr(value)
            return text if "." in text or "e" in text or not math.isfinite(value) else text + ".0"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self._attribute(v) for v in value) + "]"
        return self._dim(value)

    def _live(self, results):
        """(line, source) of the ops that the results need."""
        needed, live = {v.name for v in results}, []
        for values, operands, line, source in reversed(self._ops):
            if any(v.name in needed for v in values):
                needed.update(o.name for o in operands)
                live.append((line, source))
        return live[::-1]

    def fragment(self, mark, shape_env=None):
        """The text of the ops written since `mark`, whose operands from before are parameters; None without ops."""
        ops = self._ops[mark[0] :]
        inside = {v for values, *_ in ops for v in values}
        outside = dict.fromkeys(o for _, operands, *_ in ops for o in operands if o not in inside)
        if not ops:
            return None
        text = self._program([_Param(v, None, False) for v in outside], [o[2] for o in ops], ops[-1][0], shape_env)
        return re.sub(r"%(\d)", r"%v\1", text)  # a parameter's name is no number

    def text(self, results, shape_env=None):
        live = self._live(results)
        self.sources = [source for _, source in live]  # by op of the text
        return self._program(self.params, [line for line, _ in live], results, shape_env)

    def _program(self, parameters, lines, results, shape_env):
        params = []
        for p in parameters:
            line = f"{p.value.name}: {dtype_text(p.value.dtype)}[{','.join(map(self._dim, p.value.shape))}]"
            if p.strides is not None:
                line += f" strides [{','.join(map(self._dim, p.strides))}]"
            params.append(line + (" static" if p.static else ""))
        params += [f"{self._names[s]}: i64" for s in self._extra(parameters)]
        where = []
        for symbol, name in self._names.items():
            negated = symbol in self._negated
            low, high, divisor = dims.NEGATED_FACTS if negated else dims.symbol_facts(symbol, shape_env)
            hint = dims.hint_of(self._negated.get(symbol, symbol), shape_env)
            where.append(
                f"{name} in {low}..{high}"
                + (f" multiple {divisor}" if divisor > 1 else "")
                + (f" hint {hint}" if 0 < hint and low <= hint <= high else "")
            )
        head = f"graph @{self.name}({', '.join(params)})" + (f" where {', '.join(where)}" if where else "") + " {"
        return "\n".join([head, *lines, f"  return {', '.join(v.name for v in results)}", "}", ""])
