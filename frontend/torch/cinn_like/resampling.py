"""Functions that repeat elements, written as what says so: the framework writes them as gathers by computed indices, of
which no compiler knows where they lie."""

import functools
from array import array

import torch
from torch._prims_common import suggest_memory_format

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


def pad(x, padding, mode="constant", value=None):
    axes = [x.dim() - 1 - k // 2 for k in range(0, len(padding), 2)]
    around = list(zip(axes, padding[::2], padding[1::2]))
    if mode != "circular" or any(min(l, r) < 0 or max(l, r) > x.shape[d] for d, l, r in around):
        return pad_by_framework(x, padding, mode, value)
    for d, left, right in around:
        n = x.shape[d]
        x = torch.cat([x.narrow(d, n - left, left), x, x.narrow(d, 0, right)], d)
    return x.contiguous()
