"""Rows of the table: reductions, scans and softmax."""

import torch

from . import dims
from .errors import Unsupported
from .formula import wide_dtype
from .table import TABLE, as_value, row

aten = torch.ops.aten


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


def check_elements(x, axes):
    """Nothing has no largest element: the framework says so."""
    if any(x.shape[a] == 0 for a in axes):
        raise Unsupported("an extreme of no elements")


def extreme(name):
    def rule(w, out, x, axes=None, keepdim=False):
        axes = _axes(x, axes)
        check_elements(x, axes)
        return w.reduce(name, x, axes, keepdim)

    return rule


TABLE[aten.amax.default] = TABLE[aten.max.default] = extreme("reduce_max")
TABLE[aten.amin.default] = TABLE[aten.min.default] = extreme("reduce_min")


def reduce_bool(name):
    return lambda w, out, x, axes=None, keepdim=False: w.cast(
        w.reduce(name, w.cast(x, torch.bool), _axes(x, axes), keepdim), out.dtype
    )


for _name in ("any", "all"):
    for _overload in ("default", "dim", "dims"):
        TABLE[getattr(getattr(aten, _name), _overload)] = reduce_bool(f"reduce_{_name}")


def arg_extreme(w, out, x, axis=None, keepdim=False, name=None):
    if x.rank == 0:
        return w.full(0, torch.int64)
    x = w.cast(x, torch.uint8) if x.dtype == torch.bool else x
    if axis is None:
        x, axis = w.reshape(x, [dims.product(x.shape)]), 0
    axis %= x.rank
    check_elements(x, [axis])
    shape = [1 if i == axis else s for i, s in enumerate(x.shape) if keepdim or i != axis]
    value = w.op(name, [x], (torch.int64, shape), axis=axis, keepdims=keepdim)
    return w.reshape(value, out.shape)


TABLE[aten.argmax.default] = lambda *a, **k: arg_extreme(*a, name="argmax", **k)
TABLE[aten.argmin.default] = lambda *a, **k: arg_extreme(*a, name="argmin", **k)


def extreme_dim(name):
    def rule(w, out, x, axis, keepdim=False):
        if x.rank == 0:
            return x, w.full(0, torch.int64)
        check_elements(x, [axis])
        return w.reduce(f"reduce_{name}", x, [axis], keepdim), TABLE[getattr(aten, f"arg{name}").default](
            w, out[1], x, axis, keepdim
        )

    return rule


TABLE[aten.max.dim], TABLE[aten.min.dim] = extreme_dim("max"), extreme_dim("min")


def scan(name):
    def rule(w, out, x, axis, *, dtype=None):
        x = w.cast(x, out.dtype)
        return w.op(name, [x], (x.dtype, x.shape), axis=axis % x.rank) if x.rank else x

    return rule


TABLE[aten.cumsum.default], TABLE[aten.cumprod.default] = scan("cumsum"), scan("cumprod")


def extreme_scan(name):
    def rule(w, out, x, axis):
        if x.rank == 0:
            return x, w.full(0, torch.int64)
        values = w.cast(x, torch.uint8) if x.dtype == torch.bool else x
        values, places = w.op(name, [values], [(values.dtype, x.shape), (torch.int64, x.shape)], axis=axis % x.rank)
        return w.cast(values, x.dtype), places

    return rule


TABLE[aten.cummax.default], TABLE[aten.cummin.default] = extreme_scan("cummax"), extreme_scan("cummin")


def moments(w, x, axes, correction):
    """Mean and variance with the reduced axes kept, in x's dtype."""
    mean = w.reduce("reduce_mean", x, axes, True)
    square = w.unary("square", w.binary("sub", x, mean))
    if correction == 0:
        return mean, w.reduce("reduce_mean", square, axes, True)
    count = dims.product(x.shape[a] for a in axes)
    divisor = max(count - correction, 0) if isinstance(count, int) else count - correction
    return mean, w.binary("div", w.reduce("reduce_sum", square, axes, True), as_value(w, divisor, x.dtype))


@row(aten.var_mean.correction)
def var_mean(w, out, x, axes=None, *, correction=None, keepdim=False):
    x_wide, axes = w.cast(x, wide_dtype(x.dtype)), _axes(x, axes)
    mean_and_variance = moments(w, x_wide, axes, 1 if correction is None else correction)
    mean, variance = (w.reshape(w.cast(m, x.dtype), o.shape) for m, o in zip(mean_and_variance, reversed(out)))
    return variance, mean


@row(aten.var.correction)
def var(w, out, x, axes=None, **options):
    return var_mean(w, (out, out), x, axes, **options)[0]


# Log-softmax is the framework's decomposition: its gradient then needs what it reads and two numbers a row, where the
# whole op would keep what it gives, in f32 of 16-bit logits.
@row(aten._softmax.default)
def softmax(w, out, x, axis, half_to_float):
    x = w.cast(x, out.dtype)
    if x.rank == 0:
        return w.unary("exp", w.binary("sub", x, x))
    return w.unary("softmax", x, axis=axis % x.rank)
