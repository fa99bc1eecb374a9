"""Rows of the table: layer, group and batch norm, and their gradients."""

import math

import torch

from . import dims
from .formula import formula
from .ops_reduction import moments
from .table import row

aten = torch.ops.aten


@row(aten.native_layer_norm.default)
def layer_norm(w, out, x, normalized_shape, weight, bias, epsilon):
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    weight = w.full(1, x.dtype, normalized_shape) if weight is None else w.cast(weight, x.dtype)
    bias = w.full(0, x.dtype, normalized_shape) if bias is None else w.cast(bias, x.dtype)
    result = w.op("layer_norm", [x, weight, bias], (x.dtype, x.shape), axes=axes, epsilon=epsilon)
    # The statistics are what the backward pass reads; where nobody does, the compiler drops them.
    wide = w.cast(x, out[1].dtype)
    mean, variance = moments(w, wide, axes, 0)
    rstd = w.unary("rsqrt", w.binary("add", variance, w.full(epsilon, wide.dtype)))
    return result, mean, rstd


@row(aten.native_layer_norm_backward.default)
@formula
def layer_norm_backward(grad, x, normalized_shape, mean, rstd, weight, bias, output_mask):
    outer = list(range(x.rank - len(normalized_shape)))
    inner = list(range(len(outer), x.rank))
    count = grad.number(dims.product(x.shape[a] for a in inner))
    normal = (x - mean) * rstd
    scaled = grad if weight is None else grad * weight
    dx = rstd / count * (scaled * count - scaled.sum(inner, True) - normal * (scaled * normal).sum(inner, True))
    return (
        dx if output_mask[0] else None,
        (grad * normal).sum(outer) if output_mask[1] and weight is not None else None,
        grad.sum(outer) if output_mask[2] and bias is not None else None,
    )


def _by_channel(x, v):
    """A vector of x's channels, against x."""
    return None if v is None else v.reshape([s if i == 1 else 1 for i, s in enumerate(x.shape)])


def _all_but_channels(x):
    return [i for i in range(x.rank) if i != 1]


@row(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(w, out, x, weight, bias, mean, var, momentum, epsilon):
    channels = [x.shape[1]]
    weight = w.full(1, mean.dtype, channels) if weight is None else weight
    bias = w.full(0, mean.dtype, channels) if bias is None else bias
    operands = [w.cast(v, x.dtype) for v in (x, weight, bias, mean, var)]
    return (w.op("batch_norm", operands, (x.dtype, x.shape), epsilon=epsilon, axis=1), *_saved(w, out, mean, var, epsilon))


def _saved(w, out, mean, var, epsilon):
    """What is saved for the backward pass of a batch norm that takes the running statistics: nothing on the CPU."""
    if tuple(out[1].shape) == (0,):
        return tuple(w.full(0, o.dtype, (0,)) for o in out[1:3])
    rstd = w.unary("rsqrt", w.binary("add", var, w.full(epsilon, var.dtype)))
    return w.cast(mean, out[1].dtype), w.cast(rstd, out[2].dtype)


@row(aten._native_batch_norm_legit_functional.default)
def batch_norm(w, out, x, weight, bias, running_mean, running_var, training, momentum, epsilon):
    if training:
        return batch_norm_training(w, out, x, weight, bias, running_mean, running_var, momentum, epsilon)
    results = batch_norm_inference(w, out, x, weight, bias, running_mean, running_var, momentum, epsilon)
    return (*results, running_mean, running_var)


@formula
def batch_norm_training(x, weight, bias, running_mean, running_var, momentum, epsilon):
    axes = _all_but_channels(x)
    mean = x.mean(axes)
    centered = x - _by_channel(x, mean)
    variance = centered.square().mean(axes)
    rstd = (variance + epsilon).rsqrt()
    result = centered * _by_channel(x, rstd)
    result = result if weight is None else result * _by_channel(x, weight)
    result = result if bias is None else result + _by_channel(x, bias)
    count = dims.product(x.shape[a] for a in axes)
    if isinstance(count, int):
        correction = count / (count - 1) if count != 1 else math.inf
    else:
        correction = x.number(count) / x.number(count - 1)
    return (
        result, mean, rstd, mean * momentum + running_mean * (1 - momentum),
        variance * correction * momentum + running_var * (1 - momentum),
    )  # fmt: skip


@row(aten.native_batch_norm_backward.default)
@formula
def batch_norm_backward(grad, x, weight, running_mean, running_var, mean, rstd, train, epsilon, output_mask):
    axes = _all_but_channels(x)
    if not train:
        mean, rstd = running_mean, (running_var + epsilon).rsqrt()
    centered = x - _by_channel(x, mean)
    sum_, dot = grad.sum(axes), (grad * centered).sum(axes)
    scale = _by_channel(x, rstd if weight is None else rstd * weight)
    dx = grad
    if train:
        norm = 1 / x.number(dims.product(x.shape[a] for a in axes))
        dx = grad - centered * _by_channel(x, dot * norm * (rstd * rstd)) - _by_channel(x, sum_ * norm)
    return (
        dx * scale if output_mask[0] else None,
        dot * rstd if output_mask[1] else None,
        sum_ if output_mask[2] else None,
    )


@row(aten.native_group_norm.default)
@formula
def group_norm(x, weight, bias, batch, channels, inner, groups, epsilon):
    parts = x.reshape([batch, groups, channels // groups, inner])
    mean = parts.mean([2, 3], True)
    centered = parts - mean
    rstd = (centered.square().mean([2, 3], True) + epsilon).rsqrt()
    result = (centered * rstd).reshape(x.shape)
    result = result if weight is None else result * _by_channel(x, weight)
    result = result if bias is None else result + _by_channel(x, bias)
    return result, mean.reshape([batch, groups]), rstd.reshape([batch, groups])


@row(aten.native_group_norm_backward.default)
@formula
def group_norm_backward(grad, x, mean, rstd, weight, batch, channels, inner, groups, output_mask):
    size = channels // groups
    by_group, one = [batch, groups, size], [batch, groups, 1, 1]
    parts, grads = (v.reshape([*by_group, inner]) for v in (x, grad))
    dot, sum_ = (grads * parts).sum([3]), grads.sum([3])
    mean, rstd = mean.reshape([batch, groups, 1]), rstd.reshape([batch, groups, 1])
    dx = None
    if output_mask[0]:
        gamma = None if weight is None else weight.reshape([1, groups, size])
        dot_all, sum_all = ((v if gamma is None else v * gamma).sum([2], True) for v in (dot, sum_))
        norm = 1 / x.number(dims.product([inner, size]))
        scale = rstd if gamma is None else rstd * gamma
        slope = (sum_all * mean - dot_all) * rstd * rstd * rstd * norm
        offset = -slope * mean - sum_all * rstd * norm
        dx = grads * scale.reshape([*scale.shape, 1]) + parts * slope.reshape(one) + offset.reshape(one)
        dx = dx.reshape(x.shape)
    return (
        dx,
        ((dot - sum_ * mean) * rstd).sum([0]).reshape([channels]) if output_mask[1] else None,
        sum_.sum([0]).reshape([channels]) if output_mask[2] else None,
    )
