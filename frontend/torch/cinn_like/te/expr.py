"""Expressions: what an element is, in terms of others. They become the text of loops (ir/expr.h), whose parser checks them."""

import math
import numbers

from .. import library
from ..dtypes import DTYPES, bits_of, dtype_of

def is_float(dtype):
    return "float" in dtype


def is_int(dtype):
    return "int" in dtype


def least(dtype):
    return -(2 ** (bits_of(dtype) - 1)) if dtype.startswith("int") else 0


def greatest(dtype):
    return 2 ** (bits_of(dtype) - dtype.startswith("int")) - 1


class Expr:
    """An immutable node. `op`: const, var, load, running, cast, an operator or a function of loop text."""

    __slots__ = ("args", "data", "dtype", "op")

    def __init__(self, op, dtype, args=(), data=None):
        self.op, self.dtype, self.args, self.data = op, dtype, tuple(args), data

    def __add__(self, other):
        return binary("+", self, other)

    def __radd__(self, other):
        return binary("+", other, self)

    def __sub__(self, other):
        return binary("-", self, other)

    def __rsub__(self, other):
        return binary("-", other, self)

    def __mul__(self, other):
        return binary("*", self, other)

    def __rmul__(self, other):
        return binary("*", other, self)

    def __truediv__(self, other):
        return divide(self, other)

    def __rtruediv__(self, other):
        return divide(other, self)

    def __floordiv__(self, other):
        return floordiv(self, other)

    def __rfloordiv__(self, other):
        return floordiv(other, self)

    def __mod__(self, other):
        return floormod(self, other)

    def __rmod__(self, other):
        return floormod(other, self)

    def __pow__(self, other):
        return power(self, other)

    def __rpow__(self, other):
        return power(other, self)

    def __neg__(self):
        return call("neg", self)

    def __pos__(self):
        return self

    def __abs__(self):
        return call("abs", self)

    def __invert__(self):
        return call("not", self)

    def __and__(self, other):
        return binary("&", self, other)

    def __rand__(self, other):
        return binary("&", other, self)

    def __or__(self, other):
        return binary("|", self, other)

    def __ror__(self, other):
        return binary("|", other, self)

    def __xor__(self, other):
        return binary("^", self, other)

    def __rxor__(self, other):
        return binary("^", other, self)

    def __lshift__(self, other):
        return binary("<<", self, other)

    def __rlshift__(self, other):
        return binary("<<", other, self)

    def __rshift__(self, other):
        return binary(">>", self, other)

    def __rrshift__(self, other):
        return binary(">>", other, self)

    def __lt__(self, other):
        return binary("<", self, other, "bool")

    def __le__(self, other):
        return binary("<=", self, other, "bool")

    def __gt__(self, other):
        return binary("<", other, self, "bool")

    def __ge__(self, other):
        return binary("<=", other, self, "bool")

    def __eq__(self, other):
        return binary("==", self, other, "bool")

    def __ne__(self, other):
        return binary("!=", self, other, "bool")

    __hash__ = object.__hash__

    def __bool__(self):
        raise TypeError("a condition of elements has no truth value here; use te.if_then_else, te.all and te.any")

    def __iter__(self):
        raise TypeError("an expression has no parts")

    def astype(self, dtype):
        return cast(self, dtype)

    def __repr__(self):
        return "\n".join(Writer(lambda e: getattr(e, "name", e.data), lambda e: f"running{e.data}").statement("", self)).strip()


class Var(Expr):
    """A size or another integer that each call gives: `where n in 1..4096 multiple 8 hint 512`."""

    __slots__ = ("facts",)

    def __init__(self, name, low, high, multiple, hint):
        super().__init__("var", "int64", data=name)
        self.facts = f"{low}..{high}" + (f" multiple {multiple}" if multiple != 1 else "") + (f" hint {hint}" if hint else "")
        if low > high or multiple < 1:
            raise ValueError(f"var {name}: expected low <= high and multiple >= 1, got {self.facts}")

    @property
    def name(self):
        return self.data


class ReduceAxis(Expr):
    """low + `raw`, which runs over 0..extent; where that is out of memory, over as much of 0..most."""

    __slots__ = ("extent", "most", "raw")

    def __init__(self, low, high, name, most=None):
        reads = isinstance(high, Expr) and any(e.op == "load" for e in postorder([high]))
        if reads and (most is None or not isinstance(low, int) or low != 0):
            raise ValueError(f"reduce_axis {name}: an end out of memory needs most=, and to begin at 0")
        self.most = most if reads else None
        zero = isinstance(low, int) and low == 0
        if zero:
            super().__init__("var", "int64", data=name)
            self.raw, self.extent = self, high
        else:
            self.raw = Expr("var", "int64", data=name)
            self.extent = high - low
            super().__init__("+", "int64", (as_expr(low, "int64"), self.raw))

    @property
    def name(self):
        return self.raw.data


def const(value, dtype):
    """A number of a dtype. Of integers it is one of them."""
    dtype = dtype_of(dtype)
    if dtype == "bool":
        if value not in (0, 1):
            raise ValueError(f"{value} is no bool")
        return Expr("const", dtype, data=bool(value))
    if is_float(dtype):
        return Expr("const", dtype, data=float(value))
    if value != int(value) or not least(dtype) <= value <= greatest(dtype):
        raise ValueError(f"{value} is no {dtype}, {least(dtype)} to {greatest(dtype)}")
    return Expr("const", dtype, data=int(value))


def _is_number(x):
    return isinstance(x, (bool, numbers.Number)) or (hasattr(x, "dtype") and getattr(x, "ndim", None) == 0 and hasattr(x, "item"))


def as_expr(x, dtype=None):
    """An expression; a Python number takes `dtype`, or float32, int32 and bool where there is none."""
    if isinstance(x, Expr):
        return x
    if hasattr(x, "as_expr"):
        return x.as_expr()
    if not _is_number(x):
        raise TypeError(f"expected an expression or a number, got {type(x).__name__}")
    if dtype is None and hasattr(x, "dtype"):
        dtype = dtype_of(x.dtype)
    x = x.item() if hasattr(x, "item") else x
    if isinstance(x, complex):
        raise TypeError("complex numbers are no elements")
    if dtype is None:
        dtype = "bool" if isinstance(x, bool) else "int32" if isinstance(x, int) else "float32"
    elif isinstance(x, float) and not is_float(dtype):
        raise TypeError(f"{x} with {dtype}: cast one, te.cast(x, 'float32')")
    return const(x, dtype)


def _common(a, b):
    """The dtype of both: floats before integers before bools, then the wider."""
    if a == b:
        return a
    rank = lambda t: (2 if is_float(t) else 1 if is_int(t) else 0, bits_of(t))  # noqa: E731
    wider, other = (a, b) if rank(a) > rank(b) else (b, a)
    if rank(a) == rank(b) or (is_int(a) and is_int(b) and a[0] != b[0]):
        raise TypeError(f"operands are {a} and {b}: cast one (te.cast)")
    return wider


def operands(*xs):
    """In one dtype; numbers take that of the others."""
    typed = [x for x in xs if not _is_number(x) or hasattr(x, "dtype")]
    exprs = [as_expr(x) for x in typed]
    dtype = exprs[0].dtype if exprs else None
    for e in exprs[1:]:
        dtype = _common(dtype, e.dtype)
    return [cast(as_expr(x, dtype), dtype or as_expr(x).dtype) for x in xs]


def binary(op, a, b, result=None):
    try:
        a, b = operands(a, b)
    except TypeError as why:
        raise TypeError(f"{op}: {why}") from None
    if op in "&|^" and a.dtype == "bool" and op != "^":
        op *= 2  # the same of truth values, and what masks are made of
    return Expr(op, result or a.dtype, (a, b))


def _is_positive(e):
    """Known without asking what memory holds."""
    if e.op == "const":
        return e.data > 0
    if isinstance(e, Var):
        return not e.facts.startswith(("-", "0.."))
    if e.op in ("+", "*", "min"):
        return all(_is_positive(x) for x in e.args)
    return e.op == "max" and any(map(_is_positive, e.args))


def _integer_quotient(op, a, b):
    """0 where the divisor is."""
    if _is_positive(b) or (b.op == "const" and b.data):
        return Expr(op, a.dtype, (a, b))
    zero, one = const(0, b.dtype), const(1, b.dtype)
    is_zero = Expr("==", "bool", (b, zero))
    safe = Expr("select", b.dtype, (is_zero, one, b))
    return Expr("select", a.dtype, (is_zero, zero, Expr(op, a.dtype, (a, safe))))


def divide(a, b):
    a, b = operands(a, b)
    if not is_float(a.dtype):
        raise TypeError(f"/ of {a.dtype}: use // for integers, or cast first (te.cast)")
    return Expr("/", a.dtype, (a, b))


def floordiv(a, b):
    """Rounded down; of integers 0 where `b` is."""
    a, b = operands(a, b)
    if is_float(a.dtype):
        return call("floor", Expr("/", a.dtype, (a, b)))
    return _integer_quotient("/", a, b)


def _integers(op, a, b):
    a, b = operands(a, b)
    if not is_int(a.dtype):
        raise TypeError(f"{op} of {a.dtype}: expected integers")
    return _integer_quotient(op, a, b)


def floormod(a, b):
    """What floordiv leaves, of the divisor's sign; 0 where the divisor is."""
    return _integers("%", a, b)


def truncdiv(a, b):
    """The quotient of integers rounded to 0, as in C; 0 where `b` is."""
    return _integers("tdiv", a, b)


def truncmod(a, b):
    return _integers("tmod", a, b)


def power(a, b):
    """Of floats any; of integers a small constant number of times."""
    if isinstance(b, int) and not isinstance(b, bool) and isinstance(a, Expr) and is_int(a.dtype):
        if not 0 <= b <= 64:
            raise TypeError(f"** {b} of {a.dtype}: expected an exponent of 0 to 64, or floats")
        result = const(1, a.dtype)
        for k in range(b):
            result = a if k == 0 else result * a
        return result
    return call("pow", a, b)


def cast(x, dtype):
    """To integers: rounded to 0."""
    dtype, x = dtype_of(dtype), as_expr(x, None)
    if x.dtype == dtype:
        return x
    if x.op == "const" and (is_float(dtype) or isinstance(x.data, bool)):
        return const(x.data, dtype)
    return Expr("cast", dtype, (x,))


def select(condition, true_value, false_value):
    """Both values are computed, and what they read is read; see if_then_else."""
    condition = as_expr(condition)
    if condition.dtype != "bool":
        raise TypeError(f"select: expected a bool, got {condition.dtype}")
    a, b = operands(true_value, false_value)
    return Expr("select", a.dtype, (condition, a, b))


def if_then_else(condition, true_value, false_value):
    """Of the values only the chosen one is read: the other's places may be outside of tensors."""
    condition = as_expr(condition)
    _, a, b = select(condition, true_value, false_value).args
    if a.op == "load" and _is_zero(b):
        return masked(a, condition)  # which is 0 where it is not read
    return Expr("select", a.dtype, (condition, masked(a, condition), masked(b, ~condition)))


def _is_zero(e):
    return e.op == "const" and e.dtype != "bool" and e.data == 0 and math.copysign(1, e.data) == 1


def call(name, *args):
    """A function of loop text: those that CinnListFunctions lists."""
    row = functions().get(name)
    if row is None or row["operands"] != len(args):
        raise TypeError(f"no function {name} of {len(args)} operands; there are {', '.join(functions())}")
    if name == "select":
        return select(*args)
    if name in ("tdiv", "tmod"):
        return _integers(name, *args)
    args = operands(*args)
    return Expr(name, "bool" if row["result"] == "bool" else args[0].dtype, args)


_functions = {}


def functions():
    if not _functions:
        _functions.update({row["name"]: row for row in library.get().list_functions()})
    return _functions


def infinity(dtype):
    return const(math.inf, dtype)


def min_value(dtype):
    """The least there is; of floats -inf."""
    dtype = dtype_of(dtype)
    return const(-math.inf if is_float(dtype) else least(dtype), dtype)


def max_value(dtype):
    dtype = dtype_of(dtype)
    return const(math.inf if is_float(dtype) else greatest(dtype), dtype)


def postorder(roots):
    """Every node below once, children first."""
    seen, order, stack = set(), [], [(e, False) for e in reversed(roots)]
    while stack:
        e, done = stack.pop()
        if done:
            order.append(e)
        elif id(e) not in seen:
            seen.add(id(e))
            stack.append((e, True))
            stack.extend((a, False) for a in reversed(e.args))
    return order


def rewrite(root, change):
    """`change(node with new args)` of every node, children first."""
    new = {}
    for e in postorder([root]):
        args = tuple(new[id(a)] for a in e.args)
        same = all(a is b for a, b in zip(args, e.args))
        new[id(e)] = change(e if same else Expr(e.op, e.dtype, args, e.data))
    return new[id(root)]


def masked(e, condition):
    """`e`, which reads only where `condition` holds."""

    def change(x):
        if x.op != "load":
            return x
        tensor, has_mask = x.data
        mask = Expr("&&", "bool", (condition, x.args[-1])) if has_mask else condition
        return Expr("load", x.dtype, (*(x.args[:-1] if has_mask else x.args), mask), (tensor, True))

    return rewrite(e, change)


_PRECEDENCE = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9,
               "-": 9, "*": 10, "/": 10, "%": 10}  # fmt: skip
_ATOM = 11
_DEEPEST = 60  # levels of one expression's text: the parser's nesting has an end


class Writer:
    """Expressions as text: `name_of(var)`, `running_of(running)`; loads name their tensors by `name_of`."""

    def __init__(self, name_of, running_of):
        self.name_of, self.running_of = name_of, running_of

    def statement(self, start, value):
        """Lines: `let $0 = ` what is used twice, then `start` and the value."""
        order = postorder([value])
        uses = {}
        for e in order:
            for a in e.args:
                uses[id(a)] = uses.get(id(a), 0) + 1
        lines, texts = [], {}  # of a node: text, precedence, levels
        for e in order:
            text, precedence = self._node(e, texts)
            depth = 1 + max((texts[id(a)][2] for a in e.args), default=0)
            small = e.op in ("const", "var", "running")
            if (uses.get(id(e), 0) > 1 and not small) or depth > _DEEPEST:
                name = f"${len(lines)}"
                lines.append(f"let {name} = {text}")
                text, precedence, depth = name, _ATOM, 1
            texts[id(e)] = text, precedence, depth
        return [*lines, start + texts[id(value)][0]]

    def _node(self, e, texts):
        args = [texts[id(a)][0] for a in e.args]
        if e.op == "const":
            return constant(e), _ATOM
        if e.op == "var":
            return self.name_of(e), _ATOM
        if e.op == "running":
            return self.running_of(e), _ATOM
        if e.op == "load":
            tensor, has_mask = e.data
            indices = ", ".join(args[:-1] if has_mask else args)
            return f"{self.name_of(tensor)}[{indices}{'; ' + args[-1] if has_mask else ''}]", _ATOM
        if e.op == "cast":
            return f"{DTYPES[e.dtype]}({args[0]})", _ATOM
        if e.op in _PRECEDENCE:
            own = _PRECEDENCE[e.op]
            left, right = (
                t if texts[id(a)][1] >= least else f"({t})" for a, t, least in zip(e.args, args, (own, own + 1))
            )
            return f"{left} {e.op} {right}", own
        return f"{e.op}({', '.join(args)})", _ATOM


def constant(e):
    if e.dtype == "bool":
        return "true" if e.data else "false"
    value = e.data - 2**64 if e.dtype == "uint64" and e.data >= 2**63 else e.data
    text = repr(value)
    return text if e.dtype == "int64" and value >= 0 else f"{DTYPES[e.dtype]}({text})"
