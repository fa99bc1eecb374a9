"""Rows of the table: views, movement of data, indexing."""

import sympy
import torch

from . import dims
from .errors import Unsupported
from .table import as_value, row

aten, prims = torch.ops.aten, torch.ops.prims


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


def _wrap(w, index, size):
    """A Python index from the end (negative) as one from the start."""
    if isinstance(index, sympy.Expr) and w.may_be_negative(index):
        raise Unsupported("a negative index that the trace does not fix")
    return index + size if isinstance(index, int) and index < 0 else index


def _narrow(w, x, axis, begin, size, step=1):
    end = dims.to_expr(begin + (size - 1) * step + 1)
    return w.slice(x, axis, begin, end, step, size)


@row(aten.slice.Tensor)
def slice_(w, out, x, axis=0, start=None, end=None, step=1):
    axis %= x.rank
    begin = _wrap(w, 0 if start is None else start, x.shape[axis])
    if isinstance(begin, int) and isinstance(x.shape[axis], int):
        begin = max(0, min(begin, x.shape[axis]))
    size = dims.to_expr(out.shape[axis])
    if size == 0:
        return w.full(0, x.dtype, out.shape)
    return _narrow(w, x, axis, begin, size, step)


@row(aten.select.int)
def select(w, out, x, axis, index):
    axis %= x.rank
    return w.reshape(_narrow(w, x, axis, _wrap(w, index, x.shape[axis]), 1), out.shape)


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


@row(aten.roll.default)
def roll(w, out, x, shifts, axes=()):
    shifts, axes = ([a] if isinstance(a, int) else list(a) for a in (shifts, axes))
    if not axes:
        flat = w.reshape(x, (dims.product(x.shape),))
        return w.reshape(roll(w, out, flat, shifts, [0]), out.shape)
    for shift, axis in zip(shifts, (a % x.rank for a in axes)):
        size = x.shape[axis]
        if isinstance(size, int):
            shift = shift % max(size, 1)
            if shift:
                x = w.concat([_narrow(w, x, axis, size - shift, shift), _narrow(w, x, axis, 0, size - shift)], axis)
        else:
            index = w.binary("sub", w.iota(torch.int64, [size]), as_value(w, shift, torch.int64))
            x = gather(w, x, w.binary("mod", index, as_value(w, size, torch.int64)), axis)
    return x


@row(aten.slice_backward.default)
def slice_backward(w, out, dy, sizes, axis, start, end, step):
    if step != 1:
        raise Unsupported("slice_backward with a step")
    axis %= dy.rank
    begin = _wrap(w, start, sizes[axis])
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
    begin, size = _wrap(w, start or 0, x.shape[axis]), source.shape[axis]
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


def _with_axis(w, x):
    """A 0-d tensor as one of a single element."""
    return x if x.rank else w.reshape(x, (1,))


def checked(w, index, size, from_end=False):
    """`index`, but a call with an index out of range is an IndexError."""
    return w.op("check_index", [index], (index.dtype, index.shape), size=size, from_end=from_end)


def gather(w, x, index, axis):
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return w.op("gather", [x, index], (x.dtype, shape), axis=axis)


@row(aten.embedding.default)
def embedding(w, out, weight, index, *args, **kwargs):
    return gather(w, weight, checked(w, index, weight.shape[0]), 0)


@row(aten.index_select.default)
def index_select(w, out, x, axis, index):
    x = _with_axis(w, x)
    axis %= x.rank
    return w.reshape(gather(w, x, checked(w, index, x.shape[axis]), axis), out.shape)


@row(aten.gather.default)
def take_along(w, out, x, axis, index, sparse_grad=False):
    x, index = _with_axis(w, x), _with_axis(w, index)
    axis %= x.rank
    index = checked(w, index, x.shape[axis])
    return w.reshape(w.op("take_along", [x, index], (x.dtype, index.shape), axis=axis), out.shape)


@row(aten.index.Tensor)
def index(w, out, x, indices):
    checks = {a: checked(w, i, x.shape[a], from_end=True) for a, i in enumerate(indices) if i is not None and is_index(i)}
    return unsafe_index(w, out, x, [checks.get(a, i) for a, i in enumerate(indices)])


def is_index(x):
    return x.dtype not in (torch.bool, torch.uint8)


@row(aten._unsafe_index.Tensor)
def unsafe_index(w, out, x, indices):
    """x[i, j, :]: the indexed axes are moved to the front and flattened, and one gather reads the flat index."""
    axes = [i for i, ix in enumerate(indices) if ix is not None]
    if not all(is_index(indices[a]) for a in axes):
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
