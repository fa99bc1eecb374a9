"""Rows of the table: matrix products, convolution and pooling."""

import torch

from . import dims
from .errors import Unsupported
from .table import row

aten = torch.ops.aten


@row(aten.mm.default, aten.bmm.default)
def matmul(w, out, a, b):
    return w.matmul(a, b)


@row(aten._int_mm.default)
def int_mm(w, out, a, b):
    return w.matmul(a, b, out.dtype)


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
    lift, stride, padding, dilation = _spatial(w, x.rank, stride, padding, dilation)
    attributes = _conv_attributes(stride, padding, dilation, groups)
    dx = dw = db = None
    y, xl, wl = lift(dy), lift(x), lift(weight)
    if transposed:
        # The forward pass is the gradient of a convolution from dy's place to x's.
        if output_mask[0]:
            dx = w.reshape(w.op("conv2d", [y, wl], (x.dtype, xl.shape), **attributes), x.shape)
        y, xl = xl, y
    elif output_mask[0]:
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
