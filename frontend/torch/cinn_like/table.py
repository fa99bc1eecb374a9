"""The one table of the frontend, filled by the ops_*.py files: ATen overload -> the rule that writes it as graph text.

A rule is `rule(w, out, *args, **kwargs)`: `w` is the GraphWriter, `out` the node's FakeTensor (or tuple of them),
tensors arrive as Values, sizes as ints or sympy expressions. It returns a Value, or a tuple with None for results that
it does not give. What it cannot say is Unsupported, and then the framework runs the op.
"""

import functools
import operator

import sympy
import torch
from torch.utils._sympy.functions import (
    CleanDiv,
    FloatPow,
    FloatTrueDiv,
    FloorDiv,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    PythonMod,
    ToFloat,
)

from .errors import Unsupported
from .writer import Value

TABLE = {}


def row(*overloads):
    def add(rule):
        for overload in overloads:
            TABLE[overload] = rule
        return rule

    return add


def as_value(w, x, dtype):
    """An operand, tensor or number, in `dtype`."""
    if isinstance(x, Value):
        return w.cast(x, dtype)
    if isinstance(x, sympy.Expr):
        return symbolic_number(w, x, dtype)
    if isinstance(x, complex):
        raise Unsupported("a complex number")
    return w.full(x, dtype)


_INTEGER_OPS = {
    sympy.Add: "add", sympy.Mul: "mul", FloorDiv: "floor_div", CleanDiv: "floor_div", Mod: "mod", PythonMod: "mod",
    Max: "maximum", Min: "minimum",
}  # fmt: skip


def symbolic_number(w, e, dtype):
    """A size or another number that the trace does not fix, or arithmetic on them, as a 0-d value."""
    wide = dtype if dtype == torch.float64 else torch.float32

    def integer(e):
        if e.is_number:
            return w.full(int(e), torch.int64)
        if e.is_Symbol:
            return _symbol_value(w, e)
        if e.is_Pow and e.exp.is_Integer and e.exp > 0:
            return functools.reduce(functools.partial(w.binary, "mul"), [integer(e.base)] * int(e.exp))
        if e.func not in _INTEGER_OPS:
            raise Unsupported(f"the number {e}")
        return functools.reduce(functools.partial(w.binary, _INTEGER_OPS[e.func]), map(integer, e.args))

    def number(e):
        if e.is_number:
            return w.full(float(e), wide)
        if e.is_integer:
            return w.cast(integer(e), wide)
        args = [number(a) for a in e.args]
        if isinstance(e, ToFloat):
            return args[0]
        if isinstance(e, (IntTrueDiv, FloatTrueDiv)):
            return w.binary("div", *args)
        if isinstance(e, (sympy.Add, sympy.Mul)):
            return functools.reduce(functools.partial(w.binary, "add" if e.is_Add else "mul"), args)
        if isinstance(e, (sympy.Pow, FloatPow)):
            return w.binary("pow", *args)
        raise Unsupported(f"the number {e}")

    return w.cast(number(e) if dtype.is_floating_point else integer(e), dtype)


def _symbol_value(w, symbol):
    """A symbol as a 0-d i64: the element n of 0, 1, ..., n."""
    ramp = w.iota(torch.int64, [symbol + 1])
    return w.reshape(w.slice(ramp, 0, symbol, symbol + 1, 1, 1), [])


def promoted(*xs):
    """PyTorch's common dtype of tensors (0-d ones and numbers weigh less)."""
    dtypes = [torch.empty((1,) * min(x.rank, 1), dtype=x.dtype) if isinstance(x, Value) else x for x in xs]
    dtypes = [(1 if x.is_integer else 1.0) if isinstance(x, sympy.Expr) else x for x in dtypes]
    result = dtypes[0]
    for x in dtypes[1:]:
        dtype = torch.result_type(result, x)
        dimension = max(getattr(result, "ndim", 0), getattr(x, "ndim", 0))
        result = torch.empty((1,) * dimension, dtype=dtype)
    return result.dtype


@row(operator.getitem)
def getitem(w, out, values, index):
    return values[index]
