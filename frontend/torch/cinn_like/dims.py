"""Symbolic sizes: from the framework's SymInt to graph text's integer expressions (`+ - * / %`, `/` floors).

SymInt(8*s33) -> 8*s33 (sympy) -> "8*n"
"""

import operator
import weakref

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, Mod, ModularIndexing, PythonMod, ToFloat, TruncToInt

from .errors import Unsupported

# Graph text gives every symbol an inclusive range. An unbounded one ends here, where 32 bits hold it, and the framework
# traces anew for what is larger.
LARGEST = 2**31 - 1
_LARGEST_OF_ALL = 2**62
NEGATED_FACTS = (1, _LARGEST_OF_ALL, 1)

# What Python computes sizes by: {sympy class: (text, function)}.
PYTHON_OPERATORS = {
    sympy.Add: ("+", operator.add), sympy.Mul: ("*", operator.mul), FloorDiv: ("//", operator.floordiv),
    CleanDiv: ("//", operator.floordiv), Mod: ("%", operator.mod), PythonMod: ("%", operator.mod),
}  # fmt: skip


# {shape environment: (how many of its guards were read, {expression: what one says that it is})}
_guarded = weakref.WeakKeyDictionary()


def _values_of_guards(shape_env):
    """What is a number or a symbol wherever the trace holds: x.view(n, -1, 32) has a dimension s // (s // 32), guarded to
    be 32, and flattened again 32 * (s // 32), guarded to be s."""
    seen, values = _guarded.get(shape_env, (0, {}))
    for guard in shape_env.guards[seen:]:
        if not isinstance(guard.expr, sympy.Eq):
            continue
        lhs, rhs = guard.expr.args
        if lhs.has(FloorDiv, Mod) and (rhs.is_Integer or rhs.is_Symbol):
            values[lhs] = rhs
    _guarded[shape_env] = len(shape_env.guards), values
    return values


def to_expr(size):
    """An int or SymInt as an int or sympy expression; a SymInt whose value is known is an int."""
    expr = size.node.expr if isinstance(size, torch.SymInt) else size
    if isinstance(size, torch.SymInt) and size.node.shape_env is not None and expr.has(FloorDiv, Mod):
        expr = expr.xreplace(_values_of_guards(size.node.shape_env)).replace(FloorDiv, _quotient)
    if not isinstance(expr, sympy.Expr):
        return int(expr)
    if expr.is_number:
        return int(expr)
    if expr.has(sympy.floor):  # of a quotient, as `//` of two sympy expressions says it
        expr = expr.replace(sympy.floor, lambda q: _quotient(*q.as_numer_denom()))
    return expr.replace(_is_scaled, _scaled) if expr.has(TruncToInt) else expr


def _quotient(number, by):
    """s * s // s is s."""
    exact = number / by
    return exact if exact.as_numer_denom()[1] == 1 else FloorDiv(number, by)


def _is_scaled(e):
    """A size times a number with a fraction, such as the scale of an image: int(x * 2.0). Where the product of all sizes
    is exact in f64, it is one of integers."""
    if not isinstance(e, TruncToInt) or not isinstance(e.args[0], sympy.Mul) or len(e.args[0].args) != 2:
        return False
    scale, size = e.args[0].args
    if not isinstance(scale, sympy.Float) or not isinstance(size, ToFloat):
        return False
    return 0 < sympy.Rational(scale).p < 2**22 and size.args[0].is_nonnegative is True


def _scaled(e):
    scale, size = e.args[0].args
    exact = sympy.Rational(scale)
    return size.args[0] * exact.p if exact.q == 1 else FloorDiv(size.args[0] * exact.p, exact.q)


def strides_of(fake):
    """A FakeTensor's strides. The framework counts an empty axis as 1 in them (Max(1, n)); no element tells."""
    strides = [to_expr(s) for s in fake.stride()]
    return [s if isinstance(s, int) else s.replace(_is_at_least_one, _other_argument) for s in strides]


def _is_at_least_one(e):
    return isinstance(e, Max) and len(e.args) == 2 and 1 in e.args


def _other_argument(e):
    return e.args[1] if e.args[0] == 1 else e.args[0]


def free_symbols(size):
    expr = to_expr(size)
    return set() if isinstance(expr, int) else expr.free_symbols


def same(a, b):
    a, b = to_expr(a), to_expr(b)
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a == b or sympy.expand(a - b) == 0


def product(sizes):
    result = 1
    for size in sizes:
        result = result * to_expr(size)
    return to_expr(result) if isinstance(result, sympy.Expr) else result


def contiguous_strides(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step = product([step, size])
    return strides[::-1]


def is_contiguous(shape, strides):
    if any(s == 0 for s in shape):
        return True
    expected = contiguous_strides(shape)
    return all(size == 1 or same(a, b) for size, a, b in zip(shape, strides, expected))


def print_expr(size, names):
    """The text of an expression; `names` maps sympy symbols to their names in the text."""

    def show(e, tight):
        if e.is_Integer:
            return f"({e})" if tight and e < 0 else str(e)
        if e.is_Symbol:
            if e not in names:
                raise Unsupported(f"the size {e} depends on data")
            return names[e]
        if e.is_Add:
            # A sum that starts with its first non-negative term needs no leading minus sign.
            terms = sorted(e.args, key=lambda t: (t.could_extract_minus_sign(), str(t)))
            text = show(terms[0], False)
            for term in terms[1:]:
                negative = term.could_extract_minus_sign()
                text += (" - " if negative else " + ") + show(-term if negative else term, negative)
            return f"({text})" if tight else text
        if e.is_Mul:
            if any(a.is_Rational and not a.is_Integer for a in e.args):
                raise Unsupported(f"the size {e} is not an integer expression")
            return "*".join(show(a, True) for a in e.args)
        if e.is_Pow and e.exp.is_Integer and e.exp > 0:
            return "*".join([show(e.base, True)] * int(e.exp))
        if isinstance(e, (FloorDiv, CleanDiv)):
            return f"({show(e.args[0], True)} / {divisor(e.args[1])})"
        if isinstance(e, (Mod, PythonMod)):
            return f"({show(e.args[0], True)} % {divisor(e.args[1])})"
        if isinstance(e, ModularIndexing):
            return f"({show(e.args[0], True)} / {divisor(e.args[1])} % {divisor(e.args[2])})"
        raise Unsupported(f"the size expression {e}")

    def divisor(e):
        """`* / %` bind alike, from the left: a product after `/` is one in parentheses."""
        return f"({show(e, True)})" if e.is_Mul or e.is_Pow else show(e, True)

    expr = to_expr(size)
    return str(expr) if isinstance(expr, int) else show(expr, False)


def is_negative(symbol, shape_env):
    """Whether this trace is for a negative number; the framework traces anew when the sign changes."""
    return shape_env.bound_sympy(symbol).lower < 0 and bool(shape_env.evaluate_expr(sympy.Lt(symbol, 0)))


def hint_of(symbol, shape_env):
    """The value of a symbol, or of a symbol's negation, in the call that is traced; 0 where it has none."""
    values = getattr(shape_env, "backed_var_to_val", None) or getattr(shape_env, "var_to_val", {})
    value = sympy.sympify(symbol).subs(values)
    return int(value) if value.is_Integer else 0


def symbol_facts(symbol, shape_env):
    """(lowest, highest, divisor) of a symbol that is not negative, as the framework's shape environment knows them."""
    if shape_env.bound_sympy(symbol).lower < 0:
        shape_env.evaluate_expr(sympy.Ge(symbol, 0))
    if shape_env.bound_sympy(symbol).upper > LARGEST:
        shape_env.evaluate_expr(sympy.Le(symbol, LARGEST))
    bounds = shape_env.bound_sympy(symbol)

    def clamp(bound, default):
        return int(bound) if bound.is_Integer and abs(bound) <= _LARGEST_OF_ALL else default

    divisor = 1
    for fact in getattr(shape_env, "divisible", {}):
        if not isinstance(fact, (Mod, PythonMod)):
            continue
        # n * s % (n * 32) is n * (s % 32).
        number, by = (fact.args[0] / fact.args[1]).as_numer_denom()
        if number == symbol and by.is_Integer and shape_env.bound_sympy(fact.args[1]).lower > 0:
            divisor = max(divisor, int(by))
    low = -(-max(clamp(bounds.lower, 0), 0) // divisor) * divisor  # the first multiple there
    return low, clamp(bounds.upper, _LARGEST_OF_ALL), divisor
