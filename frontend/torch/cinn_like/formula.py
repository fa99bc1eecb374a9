"""Rows of the table that are written as formulas.

    @row(aten.silu_backward.default)
    @formula
    def silu_backward(grad, x):
        s = x.sigmoid()
        return grad * s * (1 + x * (1 - s))
"""

import functools

import torch

from .table import as_value
from .writer import Value


def wide_dtype(dtype):
    """What PyTorch computes in: 16-bit floats are read and rounded, not computed with."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


class Formula:
    """A value of graph text, whose arithmetic with others of its dtype, and with numbers, writes ops."""

    def __init__(self, w, value):
        self.w, self.value = w, value

    def _operand(self, x):
        return x.value if isinstance(x, Formula) else as_value(self.w, x, self.value.dtype)

    def _binary(self, name, other, swap=False):
        operands = (self.value, self._operand(other))
        return Formula(self.w, self.w.binary(name, *(reversed(operands) if swap else operands)))

    def _compare(self, name, other):
        return Formula(self.w, self.w.compare(name, self.value, self._operand(other)))

    def __add__(self, other):
        return self._binary("add", other)

    def __sub__(self, other):
        return self._binary("sub", other)

    def __mul__(self, other):
        return self._binary("mul", other)

    def __truediv__(self, other):
        return self._binary("div", other)

    def __rsub__(self, other):
        return self._binary("sub", other, swap=True)

    def __rtruediv__(self, other):
        return self._binary("div", other, swap=True)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self.unary("neg")

    def __lt__(self, other):
        return self._compare("lt", other)

    def __le__(self, other):
        return self._compare("le", other)

    def __gt__(self, other):
        return self._compare("gt", other)

    def __ge__(self, other):
        return self._compare("ge", other)

    def __or__(self, other):
        return self._binary("or", other)

    def unary(self, name):
        return Formula(self.w, self.w.unary(name, self.value))

    def __getattr__(self, name):
        """x.exp(), x.tanh(): a unary op of graph text."""
        if name.startswith("_"):
            raise AttributeError(name)
        return functools.partial(self.unary, name)

    def clamp(self, low, high):
        return self._binary("maximum", low)._binary("minimum", high)

    def where(self, a, b):
        """`a` where this condition holds, else `b`; one of them is a Formula."""
        a, b = (a, a._operand(b)) if isinstance(a, Formula) else (b._operand(a), b)
        return Formula(self.w, self.w.select(self.value, *(x.value if isinstance(x, Formula) else x for x in (a, b))))

    @property
    def shape(self):
        return self.value.shape

    @property
    def rank(self):
        return self.value.rank

    def sum(self, axes, keepdims=False):
        return Formula(self.w, self.w.reduce("reduce_sum", self.value, axes, keepdims))

    def mean(self, axes, keepdims=False):
        return Formula(self.w, self.w.reduce("reduce_mean", self.value, axes, keepdims))

    def reshape(self, shape):
        return Formula(self.w, self.w.reshape(self.value, shape))

    def number(self, x):
        """A number, sizes of the trace in it or not, as an operand."""
        return Formula(self.w, as_value(self.w, x, self.value.dtype))


def formula(rule):
    """A row's rule as a function of Formulas: its float operands in the dtype that PyTorch computes the result in, what it
    gives (one or a tuple, None for what it does not give) rounded to the results' dtypes."""

    @functools.wraps(rule)
    def write(w, out, *args, **kwargs):
        results = out if isinstance(out, (tuple, list)) else (out,)
        wide = wide_dtype(next(r.dtype for r in results if r is not None))

        def operand(x):
            if not isinstance(x, Value):
                return x
            return Formula(w, w.cast(x, wide) if x.dtype.is_floating_point else x)

        written = rule(*map(operand, args), **{k: operand(v) for k, v in kwargs.items()})
        single = isinstance(written, Formula)
        values = tuple(
            None if f is None else w.cast(f.value, r.dtype) for f, r in zip((written,) if single else written, results)
        )
        return values[0] if single else values

    return write
