"""How PyTorch's ops become the ones of the table: the framework's own decompositions, a few of ours, attention, and the
cells of recurrent networks.

Cells, and what repeats elements (resampling.py), are rewritten in the graph that Dynamo hands over, before AOTAutograd
looks at it, so that their gradients follow from the rewritten form. Attention stays whole, forward and backward, where the
framework has a kernel for it that never writes the scores to memory; where it has none, attention is rewritten like the
cells.
"""

import functools
import math

import torch
from torch._decomp import get_decompositions
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import map_arg
from torch.utils._python_dispatch import TorchDispatchMode

from . import resampling
from .emit import TABLE

aten = torch.ops.aten


@functools.cache
def table():
    # Without the ops that the dispatcher takes apart by itself, which take a tenth of a second to find.
    core = getattr(torch._decomp, "_core_aten_decompositions_post_autograd", torch._decomp.core_aten_decompositions)
    result = dict(core())
    extra = """
        nll_loss_forward _native_batch_norm_legit native_batch_norm addcmul addcdiv mse_loss mse_loss_backward
        smooth_l1_loss smooth_l1_loss_backward masked_fill rsub tril triu linalg_vector_norm std std_mean hardtanh
        _log_softmax _log_softmax_backward_data
    """.split()
    result.update(get_decompositions([getattr(aten, name) for name in extra]))
    result.update(get_decompositions(resampling.DIFFERENTIATED))
    # What the emitter writes out needs no smaller ops: each that is traced and partitioned costs the first call. The
    # partitioner takes an alias and a permutation for the views they are.
    for written in TABLE.keys() - {aten.detach.default, aten.transpose.int}:
        result.pop(written, None)
    # These fall apart into more passes over memory than they take.
    for kept in (aten._scaled_dot_product_flash_attention_for_cpu.default, aten.embedding_dense_backward.default,
                 aten.index_add.default, aten.index_copy.default, aten.col2im.default):  # fmt: skip
        result.pop(kept, None)
    for op in (aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.no_stats,
               aten.native_layer_norm.default, aten.native_group_norm.default):  # fmt: skip
        result[op] = norm_in_parameters_dtype(op, result.get(op))
    result[aten.nll_loss_backward.default] = nll_loss_backward
    result[aten.split_with_sizes.default] = split_with_sizes
    result[aten.split.Tensor] = split
    result[aten._native_multi_head_attention.default] = native_attention
    result[aten._transformer_encoder_layer_fwd.default] = encoder_layer
    return result


def norm_in_parameters_dtype(op, other):
    """On the CPU a norm of 16-bit values with f32 parameters saves statistics in f32, and its gradient takes no others;
    the framework's own description says 16 bits. In f32 both say the same. `other`: what is done where they agree."""

    def norm(x, *rest):
        parameters = [v for v in rest if isinstance(v, torch.Tensor)]
        dtype = parameters[0].dtype if parameters else x.dtype
        if x.device.type == "cpu" and dtype != x.dtype:
            result, *saved = op(x.to(dtype), *rest)
            return result.to(x.dtype), *saved
        return NotImplemented if other is None else other(x, *rest)

    return norm


def nll_loss_backward(grad_output, x, target, weight, reduction, ignore_index, total_weight):
    """The gradient as a comparison with the class index, where the framework's decomposition scatters."""
    axis = 1 if x.dim() > 1 else 0
    target = target.unsqueeze(axis)
    classes = torch.arange(x.size(axis), device=x.device)
    hit = classes.reshape([-1 if i == axis else 1 for i in range(x.dim())]) == target
    valid = target != ignore_index
    grad = grad_output
    if reduction == 1:
        grad = grad / total_weight
    elif grad.dim():
        grad = grad.unsqueeze(axis)
    grad = torch.where(valid, grad, 0)
    if weight is not None:
        grad = grad * weight.reshape([-1 if i == axis else 1 for i in range(x.dim())])
    return torch.where(hit, -grad, 0).to(x.dtype)


def split_with_sizes(x, sizes, dim=0):
    parts, begin = [], 0
    for size in sizes:
        parts.append(x.narrow(dim, begin, size))
        begin = begin + size
    return parts


def split(x, size, dim=0):
    total = x.size(dim)
    return [x.narrow(dim, begin, min(size, total - begin)) for begin in range(0, max(total, 1), max(size, 1))]


def attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, order=None
):
    """scaled_dot_product_attention in matmul, softmax and select; a row whose keys are all masked gives zeros. `order`:
    the result's axes from outermost to innermost in memory."""
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    scores = torch.matmul(query * scale, key.transpose(-2, -1))
    if is_causal:
        rows = torch.arange(query.size(-2), device=query.device).unsqueeze(-1)
        causal = rows >= torch.arange(key.size(-2), device=query.device)
        scores = torch.where(causal, scores, -math.inf)
    alive = None
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            alive = attn_mask.any(-1, keepdim=True)
            attn_mask = torch.where(attn_mask, 0.0, torch.where(alive, -math.inf, 0.0)).to(scores.dtype)
        else:
            alive = (attn_mask != -math.inf).any(-1, keepdim=True)
            attn_mask = torch.where(alive, attn_mask, 0.0)
        scores = scores + attn_mask
    weights = torch.softmax(scores, -1)
    if alive is not None:
        weights = torch.where(alive, weights, 0.0)
    if dropout_p > 0.0:
        weights = torch.dropout(weights, dropout_p, True)
    result = torch.matmul(weights, value)
    if order is None or order == sorted(order):
        return result
    return result.permute(order).contiguous().permute([order.index(i) for i in range(result.dim())])


def native_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
                     need_weights=True, average_attn_weights=True, mask_type=None):  # fmt: skip
    """What nn.MultiheadAttention calls in inference: one op, which would hide all of it."""
    linear = torch.nn.functional.linear
    if query is key and key is value:
        q, k, v = linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3))
        q, k, v = (linear(*part) for part in parts)
    q, k, v = (x.unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2) for x in (q, k, v))
    if mask is not None:
        if mask_type == 1:  # [batch, key]; else [query, key] or [batch, head, query, key]
            mask = mask[:, None, None, :]
        if mask.dtype == torch.bool:
            mask = ~mask
    if need_weights:
        result, weights = aten._scaled_dot_product_attention_math.default(q, k, v, mask)
    else:
        result = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    result = linear(result.transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, query.new_empty(0)
    return result, weights.mean(1) if average_attn_weights else weights


def encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
                  norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
                  ffn_bias_2, mask=None, mask_type=None):  # fmt: skip
    """What nn.TransformerEncoderLayer calls in inference."""
    linear = torch.nn.functional.linear

    def attend(x):
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return native_attention(x, x, x, embed_dim, num_heads, *weights, mask, False, mask_type=mask_type)[0]

    def feed(x):
        x = linear(x, ffn_weight_1, ffn_bias_1)
        return linear(torch.nn.functional.gelu(x) if use_gelu else torch.relu(x), ffn_weight_2, ffn_bias_2)

    def norm1(x):
        return torch.nn.functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm2(x):
        return torch.nn.functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attend(norm1(src))
        return src + feed(norm2(src))
    src = norm1(src + attend(src))
    return norm2(src + feed(src))


def lstm_cell(x, state, w_x, w_h, b_x=None, b_h=None):
    linear, (h, c) = torch.nn.functional.linear, state
    keep, forget, new, out = (linear(x, w_x, b_x) + linear(h, w_h, b_h)).chunk(4, 1)
    c = torch.sigmoid(forget) * c + torch.sigmoid(keep) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(c), c


def gru_cell(x, h, w_x, w_h, b_x=None, b_h=None):
    linear = torch.nn.functional.linear
    reset_x, update_x, new_x = linear(x, w_x, b_x).chunk(3, 1)
    reset_h, update_h, new_h = linear(h, w_h, b_h).chunk(3, 1)
    update = torch.sigmoid(update_x + update_h)
    new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
    return new + update * (h - new)


class _Ops(TorchDispatchMode):
    """The names of the ops that run under it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def keeps_attention(node):
    """Whether a call of scaled_dot_product_attention in Dynamo's graph stays whole: the framework, asked with the
    call's own arguments, takes a kernel and not the form of products and softmax (dropout on the CPU, masks that need a
    gradient, ...). Its rules are its own, per device, dtype and the user's sdpa_kernel settings."""
    query = node.all_input_nodes[0].meta.get("example_value")
    if not isinstance(query, FakeTensor):
        return True  # not Dynamo's graph, or a tensor of another kind
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["example_value"])
    with query.fake_mode, _Ops() as ops:
        try:
            torch.nn.functional.scaled_dot_product_attention(*args, **kwargs)
        except RuntimeError:  # some of its kernels' descriptions take no symbolic sizes; what it runs is known by then
            pass
    return any(name.startswith("_scaled_dot_product_") and "math" not in name for name in ops.names)


def rewrite(gm, keep_attention=True):
    """`keep_attention`: where the framework has a kernel for it."""
    ours = {
        torch.lstm_cell: lstm_cell,
        torch.gru_cell: gru_cell,
        torch.nn.functional.interpolate: resampling.interpolate,
        torch._C._nn.pad: resampling.pad,
    }
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        node.target = ours.get(node.target, node.target)
        if node.target in _ATTENTION and not (keep_attention and keeps_attention(node)):
            node.target = attention
            # The result is laid out as the framework's.
            result = node.meta["example_value"]
            strides = [s.node.hint if isinstance(s, torch.SymInt) else s for s in result.stride()]
            node.update_kwarg("order", sorted(range(result.dim()), key=lambda i: -strides[i]))
    gm.recompile()
    return gm


_ATTENTION = (torch._C._nn.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention)
