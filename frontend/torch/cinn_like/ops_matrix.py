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


def _conv_attributes(stride, padding, dilation, groups):
    return dict(stride=stride, padding=padding, dilation=dilation, groups=groups)


@row(aten.convolution.default)
def convolution(w, out, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    attributes = _conv_attributes(stride, padding, dilation, groups)
    shape = tuple(dims.to_expr(s) for s in out.shape)
    if transposed:
        result = w.op("conv_input_grad", [x, weight], (x.dtype, shape), input_shape=shape, **attributes)
    else:
        result = w.op("conv", [x, weight], (x.dtype, shape), **attributes)
    if bias is not None:
        result = w.binary("add", result, w.reshape(bias, (1, *bias.shape, *[1] * (x.rank - 2))))
    return result


@row(aten.convolution_backward.default)
def convolution_backward(w, out, dy, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
                         groups, output_mask):  # fmt: skip
    attributes = _conv_attributes(stride, padding, dilation, groups)
    dx = dw = db = None
    y, image = dy, x
    if transposed:
        # The forward pass is the gradient of a convolution from dy's place to x's.
        if output_mask[0]:
            dx = w.op("conv", [dy, weight], (x.dtype, x.shape), **attributes)
        y, image = x, dy
    elif output_mask[0]:
        dx = w.op("conv_input_grad", [dy, weight], (x.dtype, x.shape), input_shape=x.shape, **attributes)
    if output_mask[1]:
        dw = w.op("conv_weight_grad", [y, image], (x.dtype, weight.shape), weight_shape=weight.shape, **attributes)
    if output_mask[2]:
        db = w.reduce("reduce_sum", dy, [0, *range(2, dy.rank)])
    return dx, dw, db


def _numbers(x, spatial):
    x = [x] if isinstance(x, int) else list(x)
    return x * spatial if len(x) == 1 else x


def _window(spatial, kernel, stride, **others):
    """Attributes of a window over as many dimensions; a number stands for all of them, no stride for the kernel's."""
    values = dict(kernel=kernel, stride=stride or kernel, **others)
    return {name: _numbers(v, spatial) for name, v in values.items()}


def _images(w, x, spatial):
    """[C,H,W] as a batch of one."""
    return x if x.rank == spatial + 2 else w.reshape(x, (1, *x.shape))


def _max_pool(spatial):
    def forward(w, out, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        image = _images(w, x, spatial)
        shape = (*image.shape[:2], *out[0].shape[-spatial:])
        window = _window(spatial, kernel, stride, padding=padding, dilation=dilation)
        results = w.op("max_pool", [image], [(x.dtype, shape), (torch.int64, shape)], ceil_mode=ceil_mode, **window)
        return tuple(w.reshape(r, o.shape) for r, o in zip(results, out))

    def backward(w, out, dy, x, kernel, stride, padding, dilation, ceil_mode, indices):
        shape = _images(w, x, spatial).shape
        operands = [_images(w, dy, spatial), _images(w, indices, spatial)]
        window = _window(spatial, kernel, stride, padding=padding, dilation=dilation)
        return w.reshape(w.op("max_pool_grad", operands, (dy.dtype, shape), input_shape=shape, **window), x.shape)

    return forward, backward


def _avg_pool(spatial):
    def forward(w, out, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
                divisor_override=None):  # fmt: skip
        if divisor_override is not None:
            raise Unsupported("a mean pool with divisor_override")
        image = _images(w, x, spatial)
        window = _window(spatial, kernel, stride, padding=padding)
        result = w.op("avg_pool", [image], (x.dtype, (*image.shape[:2], *out.shape[-spatial:])), ceil_mode=ceil_mode,
                      count_include_pad=count_include_pad, **window)  # fmt: skip
        return w.reshape(result, out.shape)

    def backward(w, out, dy, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
        if divisor_override is not None or ceil_mode:
            raise Unsupported("the gradient of a mean pool with divisor_override or ceil_mode")
        shape = _images(w, x, spatial).shape
        dx = w.op("avg_pool_grad", [_images(w, dy, spatial)], (dy.dtype, shape), input_shape=shape,
                  count_include_pad=count_include_pad, **_window(spatial, kernel, stride, padding=padding))  # fmt: skip
        return w.reshape(dx, x.shape)

    return forward, backward


def _adaptive_avg_pool(spatial):
    pool, pool_backward = _avg_pool(spatial)

    def kernel(size, out):
        size, out = size[-spatial:], out[-spatial:]
        if not all(isinstance(s, int) for s in (*size, *out)) or any(a % b for a, b in zip(size, out)):
            raise Unsupported("adaptive pooling to a size that does not divide the input's")
        return [a // b for a, b in zip(size, out)]

    def forward(w, out, x, size):
        return pool(w, out, x, kernel(x.shape, out.shape))

    def backward(w, out, dy, x):
        return pool_backward(w, out, dy, x, kernel(x.shape, dy.shape), (), 0, False, True, None)

    return forward, backward


for _op, _rule in [
    (aten.max_pool2d_with_indices.default, _max_pool(2)[0]),
    (aten.max_pool3d_with_indices.default, _max_pool(3)[0]),
    (aten.max_pool2d_with_indices_backward.default, _max_pool(2)[1]),
    (aten.max_pool3d_with_indices_backward.default, _max_pool(3)[1]),
    (aten.avg_pool2d.default, _avg_pool(2)[0]),
    (aten.avg_pool3d.default, _avg_pool(3)[0]),
    (aten.avg_pool2d_backward.default, _avg_pool(2)[1]),
    (aten.avg_pool3d_backward.default, _avg_pool(3)[1]),
    (aten._adaptive_avg_pool2d.default, _adaptive_avg_pool(2)[0]),
    (aten._adaptive_avg_pool3d.default, _adaptive_avg_pool(3)[0]),
    (aten._adaptive_avg_pool2d_backward.default, _adaptive_avg_pool(2)[1]),
    (aten._adaptive_avg_pool3d_backward.default, _adaptive_avg_pool(3)[1]),
]:
    row(_op)(_rule)
