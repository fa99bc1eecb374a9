"""The one table of the frontend, filled by the ops_*.py files: ATen overload -> the rule that writes it as graph text.

A rule is `rule(w, out, *args, **kwargs)`: `w` is the GraphWriter, `out` the node's FakeTensor (or tuple of them),
tensors arrive as Values, sizes as ints or sympy expressions. It returns a Value, or a tuple with None for results that
it does not give. What it cannot say is Unsupported, and then the framework runs the op.
"""

import functools
import operator

import sympy
import torch
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv, IntTrueDiv, ToFloat

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


def symbolic_number(w, e, dtype):
    """A size, or arithmetic on sizes, as a 0-d value."""
    if not dtype.is_floating_point:
        return w.cast(_size_value(w, e), dtype)
    wide = dtype if dtype == torch.float64 else torch.float32

    def number(e):
        if e.is_number:
            return w.full(float(e), wide)
        if e.is_integer:
            return w.cast(_size_value(w, e), wide)
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

    return w.cast(number(e), dtype)


def _size_value(w, e):
    """The integer e as a 0-d i64: the element e of 0, 1, ..., e."""
    ramp = w.iota(torch.int64, [e + 1])
    return w.reshape(w.slice(ramp, 0, e, e + 1, 1, 1), [])


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
