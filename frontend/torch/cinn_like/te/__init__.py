"""Tensor expressions: what elements are, then a schedule that says how they are computed (docs/te.md).

n = te.var("n")
A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
C = te.compute((n,), lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C)
s.parallel("l_i")
add = te.build(s, target="cpu")
c = add(a, b)  # NumPy arrays, PyTorch tensors, whatever speaks DLPack
"""

from .expr import (
    Expr, cast, const, divide, dtype_of, floordiv, floormod, functions, if_then_else, infinity, max_value, min_value,
    power, select, truncdiv, truncmod,
)  # fmt: skip
from .expr import call as _call
from .function import Function, build, export_library, has_device
from .module import Module, build_module
from .schedule import Diff, Schedule, Text, create_schedule, lower, steps
from .stages import (
    Stage, Tensor, argmax, argmin, comm_reducer, compute, extern, isfinite, isinf, placeholder, prod, reduce_axis, scan,
    sigmoid, thread_axis, var,
)  # fmt: skip
from .stages import all_ as all
from .stages import any_ as any
from .stages import max_ as max
from .stages import min_ as min
from .stages import sum_ as sum
from .stages import var as size_var


def __getattr__(name):
    """exp, tanh, sqrt, ...: every function of loop text."""
    if not name.startswith("_") and name in functions():
        function = lambda *args: _call(name, *args)  # noqa: E731
        function.__name__ = name
        return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *functions()]
