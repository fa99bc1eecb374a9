"""Rows of the table: pointwise ops and constants."""

import math

import sympy
import torch
import torch._functorch.partitioners  # registers prims.fma, where this PyTorch has it

from .errors import Unsupported
from .formula import formula, wide_dtype
from .table import TABLE, as_value, promoted, row
from .writer import Value

aten, prims = torch.ops.aten, torch.ops.prims


def unary(name):
    return lambda w, out, x: w.unary(name, w.cast(x, out.dtype))


def rounding(name):
    return lambda w, out, x: w.unary(name, x) if x.dtype.is_floating_point else x


for _name in ("floor", "ceil", "round"):
    TABLE[getattr(aten, _name).default] = rounding(_name)
for _name in (
    "neg abs exp log sqrt rsqrt tanh erf sigmoid relu sin cos sign reciprocal log1p expm1 silu square"
).split():
    TABLE[getattr(aten, _name).default] = unary(_name)
TABLE[aten.sgn.default] = unary("sign")


@row(aten.gelu.default)
def gelu(w, out, x, approximate="none"):
    return w.unary("gelu", x, approximate=approximate)


@row(aten.trunc.default)
def trunc(w, out, x):
    if not x.dtype.is_floating_point:
        return x
    return w.select(w.compare("lt", x, w.full(0, x.dtype)), w.unary("ceil", x), w.unary("floor", x))


@row(aten.logical_not.default)
def logical_not(w, out, x):
    return w.unary("not", w.cast(x, torch.bool))


@row(aten.bitwise_not.default)
def bitwise_not(w, out, x):
    return w.unary("not", x)


@row(aten.isnan.default)
def isnan(w, out, x):
    if not x.dtype.is_floating_point:
        return w.full(False, torch.bool, x.shape)
    return w.op("isnan", [x], (torch.bool, x.shape))


@row(aten.isinf.default)
def isinf(w, out, x):
    if not x.dtype.is_floating_point:
        return w.full(False, torch.bool, x.shape)
    return w.compare("eq", w.unary("abs", x), w.full(math.inf, x.dtype))


def scaled_unary(name, before=1.0, after=1.0):
    def rule(w, out, x):
        x = w.cast(x, out.dtype)
        x = x if before == 1.0 else w.binary("mul", x, w.full(before, out.dtype))
        x = w.unary(name, x)
        return x if after == 1.0 else w.binary("mul", x, w.full(after, out.dtype))

    return rule


TABLE[aten.exp2.default] = scaled_unary("exp", before=math.log(2))
TABLE[aten.log2.default] = scaled_unary("log", after=1 / math.log(2))
TABLE[aten.log10.default] = scaled_unary("log", after=1 / math.log(10))


def binary(name):
    return lambda w, out, a, b: w.binary(name, as_value(w, a, out.dtype), as_value(w, b, out.dtype))


def arithmetic(name):
    """PyTorch computes 16-bit floats in f32. Numbers, and 0-d tensors of another dtype, it does not round to 16 bits
    first, but for sums on the CPU and 0-d tensors on an accelerator."""

    def rule(w, out, a, b, alpha=1):
        dtype = out.dtype
        plain = all(isinstance(x, Value) and x.dtype == dtype for x in (a, b)) and alpha == 1
        wide = dtype if plain else wide_dtype(dtype)
        on_cpu = out.device.type == "cpu"

        def operand(x):
            rounded = name in ("add", "sub") if on_cpu else isinstance(x, Value)
            return w.cast(as_value(w, x, dtype if rounded else wide), wide)

        a, b = operand(a), operand(b)
        if alpha != 1:
            b = w.binary("mul", b, operand(alpha))
        return w.cast(w.binary(name, a, b), dtype)

    return rule


def boolean_sum(name):
    """add and mul of two bools are `or` and `and`."""

    def rule(w, out, a, b, alpha=1):
        if out.dtype == torch.bool:
            return w.binary({"add": "or", "mul": "and"}[name], as_value(w, a, torch.bool), as_value(w, b, torch.bool))
        return arithmetic(name)(w, out, a, b, alpha)

    return rule


for _name in ("add", "mul"):
    TABLE[getattr(aten, _name).Tensor] = TABLE[getattr(aten, _name).Scalar] = boolean_sum(_name)
TABLE[aten.sub.Tensor] = TABLE[aten.sub.Scalar] = arithmetic("sub")
for _name in ("maximum", "minimum"):
    TABLE[getattr(aten, _name).default] = binary(_name)


@row(aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, aten.pow.Scalar)
def power(w, out, a, b):
    if out.dtype.is_floating_point:
        return binary("pow")(w, out, a, b)
    # An integer power is exact and wraps: a product, where the exponent is known.
    if not isinstance(b, int) or b < 0:
        raise Unsupported("an integer power whose exponent is no constant")
    result, square = w.full(1, out.dtype), as_value(w, a, out.dtype)
    while b > 0:
        if b % 2 == 1:
            result = w.binary("mul", result, square)
        square = w.binary("mul", square, square)
        b //= 2
    return result


@row(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(w, out, a, b):
    a, b = as_value(w, a, out.dtype), as_value(w, b, out.dtype)
    if out.dtype.is_floating_point:
        return w.binary("mul", w.unary("sign", a), w.binary("mod", w.unary("abs", a), w.unary("abs", b)))
    rest = w.binary("mod", a, b)
    if not out.dtype.is_signed:
        return rest
    return w.select(_is_rounded_up(w, a, b, rest, out.dtype), w.binary("sub", rest, b), rest)


def _is_rounded_up(w, a, b, rest, dtype):
    """Whether a / b, rounded towards 0, is one above its floor. The magnitude of the least integer is none, so that it can't
    be computed by magnitudes."""
    zero = w.full(0, dtype)
    signs_differ = w.compare("ne", w.compare("lt", a, zero), w.compare("lt", b, zero))
    return w.binary("and", w.compare("ne", rest, zero), signs_differ)


TABLE[aten.remainder.Tensor] = TABLE[aten.remainder.Scalar] = binary("mod")
TABLE[aten.floor_divide.default] = binary("floor_div")
for _name in ("and", "or", "xor"):
    for _overload in ("Tensor", "Scalar"):
        TABLE[getattr(getattr(aten, f"bitwise_{_name}"), _overload)] = binary(_name)


for _op in (aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, prims.div.default):
    TABLE[_op] = arithmetic("div")


def fma(w, out, a, b, c):
    a, b, c = (as_value(w, x, out.dtype) for x in (a, b, c))
    return w.binary("add", w.binary("mul", a, b), c)


if hasattr(prims, "fma"):
    TABLE[prims.fma.default] = fma


@row(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(w, out, a, b, weight):
    wide = wide_dtype(out.dtype)
    a, b, t = (as_value(w, x, wide) for x in (a, b, weight))
    difference = w.binary("sub", b, a)
    low = w.binary("add", a, w.binary("mul", t, difference))
    high = w.binary("sub", b, w.binary("mul", difference, w.binary("sub", w.full(1, wide), t)))
    if isinstance(weight, (int, float)):
        result = low if abs(weight) < 0.5 else high
    else:
        result = w.select(w.compare("lt", w.unary("abs", t), w.full(0.5, wide)), low, high)
    return w.cast(result, out.dtype)


@row(aten.hardswish.default)
@formula
def hardswish(x):
    return x * (x + 3).clamp(0, 6) / 6


@row(aten.hardsigmoid.default)
@formula
def hardsigmoid(x):
    return (x + 3).clamp(0, 6) / 6


@row(aten.leaky_relu.default)
@formula
def leaky_relu(x, slope=0.01):
    return (x > 0).where(x, x * slope)


@row(aten.elu.default)
@formula
def elu(x, alpha=1, scale=1, input_scale=1):
    return (x > 0).where(x * scale, (x * input_scale).expm1() * (alpha * scale))


@row(aten.softplus.default)
@formula
def softplus(x, beta=1, threshold=20):
    return (x * beta > threshold).where(x, (x * beta).exp().log1p() / beta)


def _shift(b, out):
    if not isinstance(b, int):
        raise Unsupported("a shift that is no constant")
    return b if 0 <= b < 8 * out.dtype.itemsize else None


@row(aten.__lshift__.Scalar, aten.bitwise_left_shift.Tensor_Scalar)
def left_shift(w, out, x, b):
    b = _shift(b, out)
    if b is None:
        return w.full(0, out.dtype, out.shape)
    power = 1 << b
    if out.dtype.is_signed and b == 8 * out.dtype.itemsize - 1:
        power = -power
    return w.binary("mul", x, w.full(power, out.dtype))


@row(aten.__rshift__.Scalar, aten.bitwise_right_shift.Tensor_Scalar)
def right_shift(w, out, x, b):
    b = _shift(b, out)
    if b is not None and b < 8 * out.dtype.itemsize - 1:
        return w.binary("floor_div", x, w.full(1 << b, out.dtype))
    if not out.dtype.is_signed:
        return (
            w.full(0, out.dtype, out.shape)
            if b is None
            else w.cast(w.compare("ge", x, w.full(1 << b, x.dtype)), x.dtype)
        )
    return w.unary("neg", w.cast(w.compare("lt", x, w.full(0, x.dtype)), x.dtype))


@row(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(w, out, a, b, rounding_mode=None):
    a, b = as_value(w, a, out.dtype), as_value(w, b, out.dtype)
    if rounding_mode is None:
        return w.binary("div", a, b)
    if rounding_mode == "floor":
        return w.binary("floor_div", a, b)
    if out.dtype.is_floating_point:
        return trunc(w, out, w.binary("div", a, b))
    floor = w.binary("floor_div", a, b)
    if not out.dtype.is_signed:
        return floor
    rest = w.binary("sub", a, w.binary("mul", floor, b))
    return w.binary("add", floor, w.cast(_is_rounded_up(w, a, b, rest, out.dtype), out.dtype))


def logical(name):
    return lambda w, out, a, b: w.binary(name, w.cast(a, torch.bool), w.cast(b, torch.bool))


for _name in ("and", "or", "xor"):
    TABLE[getattr(aten, f"logical_{_name}").default] = logical(_name)


def compare(name):
    def rule(w, out, a, b):
        dtype = promoted(a, b)
        return w.compare(name, as_value(w, a, dtype), as_value(w, b, dtype))

    return rule


for _name in "eq ne lt le gt ge".split():
    TABLE[getattr(aten, _name).Tensor] = TABLE[getattr(aten, _name).Scalar] = compare(_name)


@row(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where(w, out, c, a, b):
    return w.select(w.cast(c, torch.bool), as_value(w, a, out.dtype), as_value(w, b, out.dtype))


@row(aten.clamp.default, aten.clamp.Tensor)
def clamp(w, out, x, min=None, max=None):
    x = w.cast(x, out.dtype)
    x = x if min is None else w.binary("maximum", x, as_value(w, min, out.dtype))
    return x if max is None else w.binary("minimum", x, as_value(w, max, out.dtype))


@row(aten.clamp_min.default)
def clamp_min(w, out, x, low):
    return clamp(w, out, x, low)


@row(aten.clamp_max.default)
def clamp_max(w, out, x, high):
    return clamp(w, out, x, None, high)


@row(aten._to_copy.default, prims.convert_element_type.default)
def to_copy(w, out, x, dtype=None, **kwargs):
    return w.cast(x, out.dtype)


@row(aten.copy.default)
def copy(w, out, target, source, non_blocking=False):
    return w.broadcast_to(w.cast(source, target.dtype), target.shape)


@row(aten.clone.default, aten.alias.default, aten.detach.default, aten.contiguous.default, aten.lift_fresh_copy.default)
def identity(w, out, x, memory_format=None):
    return x


# Constants


@row(aten.full.default)
def full(w, out, size, value, **kwargs):
    if isinstance(value, sympy.Expr):
        return w.broadcast_to(as_value(w, value, out.dtype), out.shape)
    return w.full(value, out.dtype, out.shape)


@row(aten.full_like.default)
def full_like(w, out, x, value, **kwargs):
    return full(w, out, None, value)


@row(aten.fill.Scalar, aten.fill.Tensor)
def fill(w, out, x, value):
    return w.broadcast_to(as_value(w, value, out.dtype), out.shape)


@row(aten.scalar_tensor.default)
def scalar_tensor(w, out, value, **kwargs):
    return full(w, out, None, value)


# Uninitialised memory may hold anything, zeros too.
@row(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, aten.empty.memory_format,
     aten.empty_like.default, aten.new_empty.default, aten.empty_permuted.default)  # fmt: skip
def zeros(w, out, *args, **kwargs):
    return w.full(0, out.dtype, out.shape)


@row(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(w, out, *args, **kwargs):
    return w.full(1, out.dtype, out.shape)


@row(aten.new_full.default)
def new_full(w, out, x, size, value, **kwargs):
    return full(w, out, size, value)


def _ramp(w, out, start, step):
    index = w.iota(out.dtype, out.shape)
    index = index if step == 1 else w.binary("mul", index, as_value(w, step, out.dtype))
    return index if start == 0 else w.binary("add", index, as_value(w, start, out.dtype))


@row(aten.arange.start_step)
def arange(w, out, start, end, step=1, **kwargs):
    return _ramp(w, out, start, step)


@row(aten.arange.default)
def arange_end(w, out, end, **kwargs):
    return _ramp(w, out, 0, 1)


@row(prims.iota.default)
def iota(w, out, length, start, step, **kwargs):
    return _ramp(w, out, start, step)
