"""Functions that repeat elements, written as what says so: the framework writes them as gathers by computed indices, of
which no compiler knows where they lie. Where gradients are asked for, other resampling keeps the framework's kernel for
them: those of gathers are sums to computed places, one for each element that a result is made of."""

import contextlib
import functools
from array import array

import torch
from torch._C import DispatchKey
from torch._prims_common import suggest_memory_format

aten = torch.ops.aten

# By mode and spatial axes. The partitioner sees the op forward, which the table of decompositions takes apart, and its gradient.
_OPS = {
    ("nearest", 1): aten.upsample_nearest1d.default, ("nearest", 2): aten.upsample_nearest2d.default,
    ("nearest", 3): aten.upsample_nearest3d.default, ("nearest-exact", 1): aten._upsample_nearest_exact1d.default,
    ("nearest-exact", 2): aten._upsample_nearest_exact2d.default, ("nearest-exact", 3): aten._upsample_nearest_exact3d.default,
    ("linear", 1): aten.upsample_linear1d.default, ("bilinear", 2): aten.upsample_bilinear2d.default,
    ("trilinear", 3): aten.upsample_trilinear3d.default, ("bicubic", 2): aten.upsample_bicubic2d.default,
}  # fmt: skip
DIFFERENTIATED = list(_OPS.values())


def _shape_of_gradient(dy, output_size, input_size, *rest):
    """As the framework's own description, which takes no symbolic sizes."""
    return dy.new_empty(input_size).to(memory_format=suggest_memory_format(dy))


for _op in DIFFERENTIATED:
    _gradient = getattr(aten, _op._schema.name.split("::")[1] + "_backward").default
    if DispatchKey.Meta not in _gradient.py_kernels:
        _gradient.py_impl(DispatchKey.Meta)(_shape_of_gradient)
        torch._decomp.meta_table.setdefault(_gradient, _shape_of_gradient)

interpolate_by_framework = torch.nn.functional.interpolate
pad_by_framework = torch._C._nn.pad


def whole_factors(x, size, scale_factor):
    """How many times each element is repeated along each spatial axis by `nearest`; None: not the same number of times."""
    sizes = x.shape[2:]
    if size is None:
        scales = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(sizes)
        factors = [int(s) if isinstance(s, (int, float)) and s == int(s) and s >= 1 else 0 for s in scales]
    else:
        size = size if isinstance(size, (list, tuple)) else [size] * len(sizes)
        if not all(isinstance(s, int) for s in (*size, *sizes)):
            return None
        factors = [new // old if old > 0 and new % old == 0 else 0 for new, old in zip(size, sizes)]
    if len(factors) != len(sizes) or not all(factors):
        return None
    for n, k in zip(sizes, factors):
        # The framework rounds i * (1 / k) in f32. That is exact for powers of two; others are tried.
        if k & (k - 1) and not (isinstance(n, int) and _rounds_down(n * k, k)):
            return None
    return factors


@functools.lru_cache
def _rounds_down(n, k):
    """Whether f32 products give i // k for all i below n, in either way that the framework has of writing the scale."""
    if n > 1 << 16:
        return False
    for scale in array("f", [1.0 / k, (n // k) / n]):
        for offset in (0, 0.5):  # of "nearest-exact"
            places = array("f", [(i + offset) * scale for i in range(n)])
            if any(int(place) != i // k for i, place in enumerate(places)):
                return False
    return True


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):  # fmt: skip
    factors = None
    if mode in ("nearest", "nearest-exact") and align_corners is None and not antialias and 3 <= x.dim() <= 5:
        factors = whole_factors(x, size, scale_factor)
    is_differentiable = (mode, x.dim() - 2) in _OPS and not antialias and not torch.are_deterministic_algorithms_enabled()
    if factors is None and x.requires_grad and is_differentiable:
        return _differentiable(x, size, scale_factor, mode, align_corners, recompute_scale_factor)
    if factors is None:
        return interpolate_by_framework(x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    shape, repeated, result = list(x.shape[:2]), list(x.shape[:2]), list(x.shape[:2])
    for n, k in zip(x.shape[2:], factors):
        shape += [n, 1]
        repeated += [n, k]
        result.append(n * k)
    layout = suggest_memory_format(x)
    if x.dim() == 4 and x.device.type == "cuda" and x.shape[1] < 4:
        layout = torch.contiguous_format  # as the framework's kernels do
    return x.reshape(shape).expand(repeated).reshape(result).contiguous(memory_format=layout)


def _differentiable(x, size, scale_factor, mode, align_corners, recompute_scale_factor):
    """The framework's op, whose gradient is another one, and not what its description in Python would give."""
    axes = x.dim() - 2
    each = lambda v: list(v) if isinstance(v, (list, tuple)) else [v] * axes  # noqa: E731
    scales = [None] * axes
    if size is None:
        scales = [float(s) for s in each(scale_factor)]
        size = [torch.sym_int(torch.sym_float(n) * s) for n, s in zip(x.shape[2:], scales)]
        if recompute_scale_factor:
            scales = [None] * axes
    op = _OPS[mode, axes]
    corners = [] if mode.startswith("nearest") else [bool(align_corners)]
    with _own_gradient(op):
        return op(x, each(size), *corners, *scales)


@contextlib.contextmanager
def _own_gradient(op):
    """The op's gradient is its kernel's while this holds, as without a trace."""
    keys = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
    kept = {k: op.py_kernels.pop(k) for k in keys if k in op.py_kernels}
    op._dispatch_cache.clear()
    try:
        yield
    finally:
        op.py_kernels.update(kept)
        op._dispatch_cache.clear()


def pad(x, padding, mode="constant", value=None):
    axes = [x.dim() - 1 - k // 2 for k in range(0, len(padding), 2)]
    around = list(zip(axes, padding[::2], padding[1::2]))
    if mode != "circular" or any(min(l, r) < 0 or max(l, r) > x.shape[d] for d, l, r in around):
        return pad_by_framework(x, padding, mode, value)
    for d, left, right in around:
        n = x.shape[d]
        x = torch.cat([x.narrow(d, n - left, left), x, x.narrow(d, 0, right)], d)
    return x.contiguous()
