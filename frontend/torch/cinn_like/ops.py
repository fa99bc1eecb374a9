"""The one table of the frontend: ATen overload -> the function that writes it as graph text.

A rule is `rule(w, out, *args, **kwargs)`: `w` is the GraphWriter, `out` the node's FakeTensor (or tuple of them), tensors
arrive as Values, sizes as ints or sympy expressions. It returns a Value, or a tuple with None for results that it does
not give. What it cannot say is Unsupported, and then the framework runs the op.
"""

import functools
import math
import operator

import sympy
import torch
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv, IntTrueDiv, ToFloat

from . import dims
from .errors import Unsupported
from .writer import Value

aten, prims = torch.ops.aten, torch.ops.prims
TABLE = {}


def row(*overloads):
    def add(rule):
        for overload in overloads:
            TABLE[overload] = rule
        return rule

    return add


# ---- pointwise ----------------------------------------------------------------------------------------------------


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


def unary(name):
    return lambda w, out, x: w.unary(name, w.cast(x, out.dtype))


for _name in ("neg abs exp log sqrt rsqrt tanh erf sigmoid relu sin cos floor ceil round sign reciprocal log1p expm1 "
              "silu square").split():  # fmt: skip
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
    def rule(w, out, a, b, alpha=1):
        a, b = as_value(w, a, out.dtype), as_value(w, b, out.dtype)
        if alpha != 1:
            b = w.binary("mul", b, as_value(w, alpha, out.dtype))
        return w.binary(name, a, b)

    return rule


def boolean_sum(name):
    """add and mul of two bools are `or` and `and`."""

    def rule(w, out, a, b, alpha=1):
        if out.dtype == torch.bool:
            return w.binary({"add": "or", "mul": "and"}[name], as_value(w, a, torch.bool), as_value(w, b, torch.bool))
        return binary(name)(w, out, a, b, alpha)

    return rule


for _name in ("add", "mul"):
    TABLE[getattr(aten, _name).Tensor] = TABLE[getattr(aten, _name).Scalar] = boolean_sum(_name)
TABLE[aten.sub.Tensor] = TABLE[aten.sub.Scalar] = binary("sub")
for _name in ("maximum", "minimum"):
    TABLE[getattr(aten, _name).default] = binary(_name)
for _overload in ("Tensor_Tensor", "Tensor_Scalar", "Scalar"):
    TABLE[getattr(aten.pow, _overload)] = binary("pow")


@row(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(w, out, a, b):
    a, b = as_value(w, a, out.dtype), as_value(w, b, out.dtype)
    return w.binary("mul", w.unary("sign", a), w.binary("mod", w.unary("abs", a), w.unary("abs", b)))


TABLE[aten.remainder.Tensor] = TABLE[aten.remainder.Scalar] = binary("mod")
TABLE[aten.floor_divide.default] = binary("floor_div")
for _name in ("and", "or", "xor"):
    for _overload in ("Tensor", "Scalar"):
        TABLE[getattr(getattr(aten, f"bitwise_{_name}"), _overload)] = binary(_name)


@row(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, prims.div.default)
def div(w, out, a, b):
    return w.binary("div", as_value(w, a, out.dtype), as_value(w, b, out.dtype))


@row(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(w, out, a, b, rounding_mode=None):
    a, b = as_value(w, a, out.dtype), as_value(w, b, out.dtype)
    if rounding_mode is None:
        return w.binary("div", a, b)
    if rounding_mode == "floor":
        return w.binary("floor_div", a, b)
    if out.dtype.is_floating_point:
        return trunc(w, out, w.binary("div", a, b))
    magnitude = w.binary("floor_div", w.unary("abs", a), w.unary("abs", b))
    return w.binary("mul", magnitude, w.binary("mul", w.unary("sign", a), w.unary("sign", b)))


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


# ---- constants ----------------------------------------------------------------------------------------------------


@row(aten.full.default)
def full(w, out, size, value, **kwargs):
    if isinstance(value, sympy.Expr):
        return w.broadcast_to(as_value(w, value, out.dtype), out.shape)
    return w.full(value, out.dtype, out.shape)


@row(aten.full_like.default)
def full_like(w, out, x, value, **kwargs):
    return full(w, out, None, value)


@row(aten.scalar_tensor.default)
def scalar_tensor(w, out, value, **kwargs):
    return full(w, out, None, value)


# Uninitialised memory may hold anything, zeros too.
@row(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, aten.empty.memory_format,
     aten.empty_like.default, aten.new_empty.default)  # fmt: skip
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


# ---- views and movement -------------------------------------------------------------------------------------------


@row(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.squeeze.default, aten.squeeze.dim,
     aten.squeeze.dims, aten.unsqueeze.default, aten.flatten.using_ints, prims.view_of.default)  # fmt: skip
def reshape(w, out, x, *args):
    return w.reshape(x, out.shape)


@row(aten.as_strided.default)
def as_strided(w, out, x, size, stride, offset=0):
    """Of a value that lies contiguously, as the trace's values do, when the result covers it in order."""
    shape, strides = [dims.to_expr(s) for s in out.shape], [dims.to_expr(s) for s in stride]
    whole = dims.same(dims.product(shape), dims.product(x.shape)) and offset in (0, None)
    if not whole or not dims.is_contiguous(shape, strides):
        raise Unsupported("as_strided that is no reshape")
    return w.reshape(x, shape)


@row(aten.permute.default)
def permute(w, out, x, perm):
    return w.transpose(x, perm)


@row(aten.t.default)
def t(w, out, x):
    return w.transpose(x, range(x.rank)[::-1])


@row(aten.transpose.int)
def transpose(w, out, x, a, b):
    perm = list(range(x.rank))
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return w.transpose(x, perm)


@row(aten.expand.default)
def expand(w, out, x, *args, **kwargs):
    return w.broadcast_to(x, out.shape)


@row(prims.broadcast_in_dim.default)
def broadcast_in_dim(w, out, x, shape, axes):
    kept = [x.shape[axes.index(i)] if i in axes else 1 for i in range(out.ndim)]
    return w.broadcast_to(w.reshape(x, kept), out.shape)


@row(aten.repeat.default)
def repeat(w, out, x, repeats):
    inner = (1,) * (len(repeats) - x.rank) + x.shape
    x = w.reshape(x, [s for size in inner for s in (1, size)])
    x = w.broadcast_to(x, [s for n, size in zip(repeats, inner) for s in (n, size)])
    return w.reshape(x, out.shape)


def _wrap(index, size):
    """A Python index from the end (negative) as one from the start."""
    return index + size if isinstance(index, int) and index < 0 else index


def _narrow(w, x, axis, begin, size, step=1):
    end = dims.to_expr(begin + (size - 1) * step + 1)
    return w.slice(x, axis, begin, end, step, size)


@row(aten.slice.Tensor)
def slice_(w, out, x, axis=0, start=None, end=None, step=1):
    axis %= x.rank
    begin = _wrap(0 if start is None else start, x.shape[axis])
    if isinstance(begin, int) and isinstance(x.shape[axis], int):
        begin = max(0, min(begin, x.shape[axis]))
    size = dims.to_expr(out.shape[axis])
    if size == 0:
        return w.full(0, x.dtype, out.shape)
    return _narrow(w, x, axis, begin, size, step)


@row(aten.select.int)
def select(w, out, x, axis, index):
    axis %= x.rank
    return w.reshape(_narrow(w, x, axis, _wrap(index, x.shape[axis]), 1), out.shape)


@row(aten.cat.default)
def cat(w, out, xs, axis=0):
    # PyTorch ignores operands of shape [0] whatever the other operands' rank.
    xs = [w.cast(x, out.dtype) for x in xs if x.shape != (0,) or out.ndim == 1]
    return w.concat(xs, axis % out.ndim)


@row(aten.stack.default)
def stack(w, out, xs, axis=0):
    axis %= out.ndim
    return w.concat([w.reshape(w.cast(x, out.dtype), (*x.shape[:axis], 1, *x.shape[axis:])) for x in xs], axis)


@row(aten.constant_pad_nd.default)
def constant_pad(w, out, x, pads, value=0.0):
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pads) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    return w.pad(x, low, high, float(value))


@row(aten.flip.default)
def flip(w, out, x, axes):
    for axis in (a % x.rank for a in axes):
        size = x.shape[axis]
        index = w.iota(torch.int64, [size])
        x = gather(w, x, w.binary("sub", as_value(w, size - 1, torch.int64), index), axis)
    return x


@row(aten.slice_backward.default)
def slice_backward(w, out, dy, sizes, axis, start, end, step):
    if step != 1:
        raise Unsupported("slice_backward with a step")
    axis %= dy.rank
    begin = _wrap(start, sizes[axis])
    low, high = [0] * dy.rank, [0] * dy.rank
    low[axis], high[axis] = begin, dims.to_expr(sizes[axis] - begin - dy.shape[axis])
    return w.pad(dy, low, high)


@row(aten.select_backward.default)
def select_backward(w, out, dy, sizes, axis, index):
    axis %= len(sizes)
    dy = w.reshape(dy, [1 if i == axis else s for i, s in enumerate(sizes)])
    return slice_backward(w, out, dy, sizes, axis, index, None, 1)


@row(aten.slice_scatter.default)
def slice_scatter(w, out, x, source, axis=0, start=None, end=None, step=1):
    axis %= x.rank
    if step != 1:
        raise Unsupported("slice_scatter with a step")
    begin, size = _wrap(start or 0, x.shape[axis]), source.shape[axis]
    after = dims.to_expr(x.shape[axis] - begin - size)
    parts = [source]
    if begin != 0:
        parts.insert(0, _narrow(w, x, axis, 0, begin))
    if after != 0:
        parts.append(_narrow(w, x, axis, dims.to_expr(begin + size), after))
    return w.concat(parts, axis)


@row(aten.select_scatter.default)
def select_scatter(w, out, x, source, axis, index):
    axis %= x.rank
    source = w.reshape(source, [1 if i == axis else s for i, s in enumerate(x.shape)])
    return slice_scatter(w, out, x, source, axis, index)


# ---- indexing -----------------------------------------------------------------------------------------------------


def gather(w, x, index, axis):
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return w.op("gather", [x, index], (x.dtype, shape), axis=axis)


@row(aten.embedding.default)
def embedding(w, out, weight, index, *args, **kwargs):
    return gather(w, weight, index, 0)


@row(aten.index_select.default)
def index_select(w, out, x, axis, index):
    return w.reshape(gather(w, x, index, axis % max(x.rank, 1)), out.shape)


@row(aten.gather.default)
def take_along(w, out, x, axis, index, sparse_grad=False):
    return w.op("take_along", [x, index], (x.dtype, index.shape), axis=axis % max(x.rank, 1))


@row(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(w, out, x, indices):
    """x[i, j, :]: the indexed axes are moved to the front and flattened, and one gather reads the flat index."""
    axes = [i for i, ix in enumerate(indices) if ix is not None]
    if any(indices[a].dtype in (torch.bool, torch.uint8) for a in axes):
        raise Unsupported("a mask as an index (its result's size depends on data)")
    rest = [i for i in range(x.rank) if i not in axes]
    flat = None
    for axis in axes:
        size, i = as_value(w, x.shape[axis], torch.int64), w.cast(indices[axis], torch.int64)
        i = w.select(w.compare("lt", i, w.full(0, torch.int64)), w.binary("add", i, size), i)
        flat = i if flat is None else w.binary("add", w.binary("mul", flat, size), i)
    moved = w.transpose(x, axes + rest)
    moved = w.reshape(moved, (dims.product(x.shape[a] for a in axes), *(x.shape[r] for r in rest)))
    result = gather(w, moved, flat, 0)
    if axes == list(range(axes[0], axes[-1] + 1)):
        # Adjacent indices: their axes take the place of the indexed ones.
        before, n = axes[0], flat.rank
        perm = [*range(n, n + before), *range(n), *range(n + before, result.rank)]
        result = w.transpose(result, perm)
    return result


# ---- reductions ---------------------------------------------------------------------------------------------------


def _axes(x, axes):
    if axes is None or axes == []:
        return list(range(x.rank))
    return [axes] if isinstance(axes, int) else list(axes)


def reduce(name, cast=True):
    def rule(w, out, x, axes=None, keepdim=False, dtype=None):
        return w.reduce(name, w.cast(x, out.dtype) if cast else x, _axes(x, axes), keepdim)

    return rule


TABLE[aten.sum.default] = lambda w, out, x, dtype=None: reduce("reduce_sum")(w, out, x)
TABLE[aten.sum.dim_IntList] = reduce("reduce_sum")
TABLE[aten.mean.default] = lambda w, out, x, dtype=None: reduce("reduce_mean")(w, out, x)
TABLE[aten.mean.dim] = reduce("reduce_mean")
TABLE[aten.prod.default] = lambda w, out, x, dtype=None: reduce("reduce_prod")(w, out, x)
TABLE[aten.prod.dim_int] = reduce("reduce_prod")
TABLE[aten.amax.default] = TABLE[aten.max.default] = reduce("reduce_max")
TABLE[aten.amin.default] = TABLE[aten.min.default] = reduce("reduce_min")


def reduce_bool(name):
    return lambda w, out, x, axes=None, keepdim=False: w.cast(
        w.reduce(name, w.cast(x, torch.bool), _axes(x, axes), keepdim), out.dtype
    )


for _name in ("any", "all"):
    for _overload in ("default", "dim", "dims"):
        TABLE[getattr(getattr(aten, _name), _overload)] = reduce_bool(f"reduce_{_name}")


def arg_extreme(w, out, x, axis=None, keepdim=False, name=None):
    if axis is None:
        x, axis = w.reshape(x, [dims.product(x.shape)]), 0
    axis %= x.rank
    shape = [1 if i == axis else s for i, s in enumerate(x.shape) if keepdim or i != axis]
    value = w.op(name, [x], (torch.int64, shape), axis=axis, keepdims=keepdim)
    return w.reshape(value, out.shape)


TABLE[aten.argmax.default] = lambda *a, **k: arg_extreme(*a, name="argmax", **k)
TABLE[aten.argmin.default] = lambda *a, **k: arg_extreme(*a, name="argmin", **k)


def extreme_dim(name):
    def rule(w, out, x, axis, keepdim=False):
        if x.rank == 0:
            return x, w.full(0, torch.int64)
        return w.reduce(f"reduce_{name}", x, [axis], keepdim), TABLE[getattr(aten, f"arg{name}").default](
            w, out[1], x, axis, keepdim
        )

    return rule


TABLE[aten.max.dim], TABLE[aten.min.dim] = extreme_dim("max"), extreme_dim("min")


def _moments(w, x, axes, correction):
    """Mean and variance with the reduced axes kept, in x's dtype."""
    mean = w.reduce("reduce_mean", x, axes, True)
    square = w.unary("square", w.binary("sub", x, mean))
    if correction == 0:
        return mean, w.reduce("reduce_mean", square, axes, True)
    count = dims.product(x.shape[a] for a in axes)
    divisor = max(count - correction, 0) if isinstance(count, int) else count - correction
    return mean, w.binary("div", w.reduce("reduce_sum", square, axes, True), as_value(w, divisor, x.dtype))


@row(aten.var.correction)
def var(w, out, x, axes=None, *, correction=None, keepdim=False):
    return w.reshape(_moments(w, x, _axes(x, axes), 1 if correction is None else correction)[1], out.shape)


@row(aten.var_mean.correction)
def var_mean(w, out, x, axes=None, *, correction=None, keepdim=False):
    mean, variance = _moments(w, x, _axes(x, axes), 1 if correction is None else correction)
    return w.reshape(variance, out[0].shape), w.reshape(mean, out[1].shape)


# ---- matrices -----------------------------------------------------------------------------------------------------


@row(aten.mm.default, aten.bmm.default)
def matmul(w, out, a, b):
    return w.matmul(a, b)


@row(aten.addmm.default, aten.baddbmm.default)
def addmm(w, out, bias, a, b, beta=1, alpha=1):
    result = w.matmul(a, b)
    result = result if alpha == 1 else w.binary("mul", result, w.full(alpha, out.dtype))
    if beta == 0:
        return result
    return w.binary("add", result, bias if beta == 1 else w.binary("mul", bias, w.full(beta, out.dtype)))


@row(aten.mv.default)
def mv(w, out, a, b):
    return w.reshape(w.matmul(a, w.reshape(b, (*b.shape, 1))), out.shape)


@row(aten.dot.default)
def dot(w, out, a, b):
    return w.reshape(w.matmul(w.reshape(a, (1, *a.shape)), w.reshape(b, (*b.shape, 1))), out.shape)


# ---- normalisation ------------------------------------------------------------------------------------------------


@row(aten._softmax.default)
def softmax(w, out, x, axis, half_to_float, name="softmax"):
    x = w.cast(x, out.dtype)
    if x.rank == 0:
        return w.unary("exp", w.binary("sub", x, x))
    return w.unary(name, x, axis=axis % x.rank)


@row(aten._log_softmax.default)
def log_softmax(w, out, x, axis, half_to_float):
    if x.rank == 0:
        return w.binary("sub", x, x)
    return softmax(w, out, x, axis, half_to_float, "log_softmax")


@row(aten.native_layer_norm.default)
def layer_norm(w, out, x, normalized_shape, weight, bias, epsilon):
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    weight = w.full(1, x.dtype, normalized_shape) if weight is None else w.cast(weight, x.dtype)
    bias = w.full(0, x.dtype, normalized_shape) if bias is None else w.cast(bias, x.dtype)
    result = w.op("layer_norm", [x, weight, bias], (x.dtype, x.shape), axes=axes, epsilon=epsilon)
    # The statistics are what the backward pass reads; where nobody does, the compiler drops them.
    wide = w.cast(x, out[1].dtype)
    mean, variance = _moments(w, wide, axes, 0)
    rstd = w.unary("rsqrt", w.binary("add", variance, w.full(epsilon, wide.dtype)))
    return result, mean, rstd


@row(aten._native_batch_norm_legit_no_training.default)
def batch_norm(w, out, x, weight, bias, mean, var, momentum, epsilon):
    channels = [x.shape[1]]
    weight = w.full(1, mean.dtype, channels) if weight is None else weight
    bias = w.full(0, mean.dtype, channels) if bias is None else bias
    operands = [w.cast(v, x.dtype) for v in (x, weight, bias, mean, var)]
    return w.op("batch_norm", operands, (x.dtype, x.shape), epsilon=epsilon, axis=1), None, None


# ---- convolution and pooling --------------------------------------------------------------------------------------


def _pair(x):
    x = [x] if isinstance(x, int) else list(x)
    return x * 2 if len(x) == 1 else x


def _conv_attributes(stride, padding, dilation, groups):
    return dict(stride=stride, padding=padding, dilation=dilation, groups=groups)


def _spatial(w, rank, stride, padding, dilation):
    """A one-dimensional convolution is a two-dimensional one of height 1."""
    if rank == 4:
        return (lambda x: x), list(stride), list(padding), list(dilation)
    if rank != 3:
        raise Unsupported(f"a convolution of {rank - 2} dimensions")
    lift = lambda x: w.reshape(x, (*x.shape[:2], 1, x.shape[2]))  # noqa: E731
    return lift, [1, *stride], [0, *padding], [1, *dilation]


@row(aten.convolution.default)
def convolution(w, out, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    lift, stride, padding, dilation = _spatial(w, x.rank, stride, padding, dilation)
    attributes = _conv_attributes(stride, padding, dilation, groups)
    shape = tuple(dims.to_expr(s) for s in out.shape)
    lifted = shape if x.rank == 4 else (*shape[:2], 1, shape[2])
    if transposed:
        result = w.op("conv2d_input_grad", [lift(x), lift(weight)], (x.dtype, lifted), input_shape=lifted, **attributes)
    else:
        result = w.op("conv2d", [lift(x), lift(weight)], (x.dtype, lifted), **attributes)
    if bias is not None:
        result = w.binary("add", result, w.reshape(bias, (1, *bias.shape, 1, 1)))
    return w.reshape(result, shape)


@row(aten.convolution_backward.default)
def convolution_backward(w, out, dy, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
                         groups, output_mask):  # fmt: skip
    if transposed:
        raise Unsupported("the gradient of a transposed convolution")
    lift, stride, padding, dilation = _spatial(w, x.rank, stride, padding, dilation)
    attributes = _conv_attributes(stride, padding, dilation, groups)
    dx = dw = db = None
    y, xl, wl = lift(dy), lift(x), lift(weight)
    if output_mask[0]:
        dx = w.op("conv2d_input_grad", [y, wl], (x.dtype, xl.shape), input_shape=xl.shape, **attributes)
        dx = w.reshape(dx, x.shape)
    if output_mask[1]:
        dw = w.op("conv2d_weight_grad", [y, xl], (x.dtype, wl.shape), weight_shape=wl.shape, **attributes)
        dw = w.reshape(dw, weight.shape)
    if output_mask[2]:
        db = w.reduce("reduce_sum", dy, [0, *range(2, dy.rank)])
    return dx, dw, db


def _images(w, x):
    """[C,H,W] as a batch of one."""
    return x if x.rank == 4 else w.reshape(x, (1, *x.shape))


@row(aten.max_pool2d_with_indices.default)
def max_pool(w, out, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    image = _images(w, x)
    shape = (*image.shape[:2], *out[0].shape[-2:])
    results = w.op("max_pool2d", [image], [(x.dtype, shape), (torch.int64, shape)], kernel=_pair(kernel),
                   stride=_pair(stride or kernel), padding=_pair(padding), dilation=_pair(dilation),
                   ceil_mode=ceil_mode)  # fmt: skip
    return tuple(w.reshape(r, o.shape) for r, o in zip(results, out))


@row(aten.max_pool2d_with_indices_backward.default)
def max_pool_backward(w, out, dy, x, kernel, stride, padding, dilation, ceil_mode, indices):
    shape = _images(w, x).shape
    dx = w.op("max_pool2d_grad", [_images(w, dy), _images(w, indices)], (dy.dtype, shape), input_shape=shape,
              kernel=_pair(kernel), stride=_pair(stride or kernel), padding=_pair(padding),
              dilation=_pair(dilation))  # fmt: skip
    return w.reshape(dx, x.shape)


@row(aten.avg_pool2d.default)
def avg_pool(w, out, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    if divisor_override is not None:
        raise Unsupported("avg_pool2d with divisor_override")
    image = _images(w, x)
    result = w.op("avg_pool2d", [image], (x.dtype, (*image.shape[:2], *out.shape[-2:])), kernel=_pair(kernel),
                  stride=_pair(stride or kernel), padding=_pair(padding), count_include_pad=count_include_pad,
                  ceil_mode=ceil_mode)  # fmt: skip
    return w.reshape(result, out.shape)


@row(aten.avg_pool2d_backward.default)
def avg_pool_backward(w, out, dy, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    if divisor_override is not None or ceil_mode:
        raise Unsupported("the gradient of avg_pool2d with divisor_override or ceil_mode")
    shape = _images(w, x).shape
    dx = w.op("avg_pool2d_grad", [_images(w, dy)], (dy.dtype, shape), input_shape=shape, kernel=_pair(kernel),
              stride=_pair(stride or kernel), padding=_pair(padding), count_include_pad=count_include_pad)  # fmt: skip
    return w.reshape(dx, x.shape)


def _adaptive_kernel(size, out):
    if not all(isinstance(s, int) for s in (*size[-2:], *out[-2:])) or any(a % b for a, b in zip(size[-2:], out[-2:])):
        raise Unsupported("adaptive pooling to a size that does not divide the input's")
    return [a // b for a, b in zip(size[-2:], out[-2:])]


@row(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool(w, out, x, size):
    kernel = _adaptive_kernel(x.shape, out.shape)
    return avg_pool(w, out, x, kernel)


@row(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool_backward(w, out, dy, x):
    return avg_pool_backward(w, out, dy, x, _adaptive_kernel(x.shape, dy.shape), (), 0, False, True, None)


@row(operator.getitem)
def getitem(w, out, values, index):
    return values[index]
