"""The flag cinn_verify: every compiled region runs beside the framework, op by op; the first difference is reported.

The region is compiled a second time with the result of every op as a result of the graph. If each op agrees there but
the region itself does not, the difference comes from fusing them.
"""

import os
import warnings

import torch
from torch.fx.node import map_arg

from . import dims, emit, function, library, reporting

_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def enabled():
    if library.available():
        return library.get().get_flag("cinn_verify") == "true"
    return os.environ.get("FLAGS_cinn_verify", "").lower() in ("1", "true")


def beside(call, region, emitter, permutations, shape_env, target, device):
    """A callable like `call` that also checks."""
    watched = [n for n in region.nodes if isinstance(n.meta["val"], torch.Tensor) and emitter.values[n] is not None]
    text = emitter.text([(n, None) for n in watched], shape_env)
    op_by_op = function.compile_function(text, target, device, emitter.signature(len(watched)))
    symbols = emitter.writer.extra_symbols()

    def checked(*args):
        results = call(*args)
        with torch.no_grad():
            expected = run_eagerly(region, args, symbols)
            what = first_difference(watched, op_by_op.call(*args), expected)
            if what is None:
                fused = [r if p is None else r.permute([p.index(i) for i in range(len(p))])
                         for r, p in zip(results, permutations)]  # fmt: skip
                what = first_difference(region.outputs, fused, expected)
                what = what and f"only when fused: {what}"
        if what is not None:
            reporting.add_difference(what)
            warnings.warn(f"cinn_verify: {what}", stacklevel=2)
        return results

    return checked


def run_eagerly(region, args, symbols):
    """{node: value} of the region's ops, run by the framework."""
    sizes = {}
    for e, actual in zip(symbols, args[len(region.inputs) :]):
        sizes[e if e.is_Symbol else -e] = actual if e.is_Symbol else -actual
    values = dict(zip(region.inputs, args))
    for node, x in values.items():
        for size, actual in zip(node.meta["val"].shape, x.shape):
            expr = dims.to_expr(size)
            if not isinstance(expr, int) and expr.is_Symbol:
                sizes[expr] = actual

    def value(node):
        if node in values:
            return values[node]
        number = node.meta["val"]
        if not isinstance(number, (torch.SymInt, torch.SymFloat)):
            return number
        number = number.node.expr.subs(sizes)
        return int(number) if number.is_Integer else float(number)

    for node in region.nodes:
        args, kwargs = map_arg((tuple(node.args), dict(node.kwargs)), value)
        values[node] = node.target(*args, **kwargs)
    return values


def first_difference(nodes, results, expected):
    """A sentence on the first node whose result differs from the framework's, or None."""
    for node, got in zip(nodes, results):
        want = expected[node]
        what = difference(got, want)
        if what is not None:
            return f"{node.name} = {emit.op_name(node)}: {what}"
    return None


def difference(got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, the framework gives {want.dtype}{list(want.shape)}"
    if want.numel() == 0:
        return None
    if not want.dtype.is_floating_point:
        wrong = int((got != want).sum())
        return f"{wrong} of {want.numel()} elements differ" if wrong else None
    a, b = got.double(), want.double()
    if bool((a.isnan() != b.isnan()).any()):
        return "NaN in other places"
    equal = (a == b) | a.isnan()
    error = torch.where(equal, 0.0, (a - b).abs()).max().item()
    scale = max(1.0, torch.where(b.isfinite(), b.abs(), 0.0).max().item())
    if error <= _TOLERANCE[want.dtype] * scale:
        return None
    return f"the largest difference is {error:.3g} where values reach {scale:.3g}"
