"""Rows of the table: gradients of pointwise ops and of softmax."""

import math

import torch

from .formula import formula
from .table import row

aten = torch.ops.aten


@row(aten.threshold_backward.default)
@formula
def threshold_backward(grad, x, threshold):
    return (x <= threshold).where(0, grad)


@row(aten.sigmoid_backward.default)
@formula
def sigmoid_backward(grad, y):
    return grad * (y * (1 - y))


@row(aten.tanh_backward.default)
@formula
def tanh_backward(grad, y):
    return grad * (1 - y * y)


@row(aten.gelu_backward.default)
@formula
def gelu_backward(grad, x, approximate="none"):
    if approximate == "tanh":
        slope, cubic = math.sqrt(2 / math.pi), 0.044715
        square = x * x
        inner = ((x + square * x * cubic) * slope).tanh()
        derivative = (square * (3 * cubic) + 1) * slope
        return grad * ((inner + 1) * 0.5 + x * 0.5 * (1 - inner * inner) * derivative)
    below = ((x * math.sqrt(0.5)).erf() + 1) * 0.5
    density = (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    return grad * (below + x * density)


@row(aten.silu_backward.default)
@formula
def silu_backward(grad, x):
    s = x.sigmoid()
    return grad * s * (x * (1 - s) + 1)


@row(aten.hardswish_backward.default)
@formula
def hardswish_backward(grad, x):
    return (x <= -3).where(0, (x < 3).where(grad * (x / 3 + 0.5), grad))


@row(aten.hardsigmoid_backward.default)
@formula
def hardsigmoid_backward(grad, x):
    return (x <= -3).where(0, (x < 3).where(grad * (1 / 6), 0))


@row(aten.hardtanh_backward.default)
@formula
def hardtanh_backward(grad, x, low, high):
    return ((x <= low) | (x >= high)).where(0, grad)


@row(aten.leaky_relu_backward.default)
@formula
def leaky_relu_backward(grad, x, slope, x_is_result):
    return (x > 0).where(grad, grad * slope)


@row(aten.elu_backward.default)
@formula
def elu_backward(grad, alpha, scale, input_scale, is_result, x):
    factor = alpha * scale
    below = x + factor if is_result else (x * input_scale).exp() * factor
    return (x <= 0).where(grad * input_scale * below, grad * scale)


@row(aten.softplus_backward.default)
@formula
def softplus_backward(grad, x, beta, threshold):
    e = (x * beta).exp()
    return (x * beta > threshold).where(grad, grad * e / (e + 1))


@row(aten._softmax_backward_data.default)
@formula
def softmax_backward(grad, y, axis, input_dtype):
    product = grad * y
    return product - y * product.sum([axis], True)
