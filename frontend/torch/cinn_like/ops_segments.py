"""The row of sums of rows that share an index (scatters.py)."""

import torch
from torch.utils._sympy.functions import FloorDiv

from . import dims
from .table import as_value, row

_PART = 32  # rows that are summed beforehand where they share an index: few are left to whoever sums those of one that all share
_MOST_BITS = 31  # of the number of rows
_LEVELS = 2  # parts, and parts of parts


def segment_sum(x, order, keys, segments):
    """Row s of the result is the sum of the rows x[order[p]] with keys[p] == s. `x`: [n, ...]; `order`: [n], its places;
    `keys`: [n], ascending; those outside of 0..segments are dropped. n < 2^31. Returns [segments, ...] in x's dtype, summed in f32 or f64."""
    keys, wide = keys.long(), x if x.dtype == torch.float64 else x.float()
    kept = torch.where((keys < 0) | (keys > segments), segments, keys)
    sums = wide.new_zeros((segments + 1, *x.shape[1:])).index_add_(0, kept, wide[order])
    return sums.narrow(0, 0, segments).to(x.dtype, copy=True)


@row(segment_sum)
def write_segment_sum(w, out, x, order, keys, segments):
    """A result's rows are places begin..end of the order. What lies in whole parts of 32 is summed there, what lies in whole
    parts of those likewise; what is left of it is 0 to 5 runs, one after the other: before the parts, behind them, ...
    Loops end where the runs do."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    rest = [1] * (x.rank - 1)
    index = Arithmetic(w, torch.int32)

    def rows(v, at):
        return w.op("gather", [v, at], (v.dtype, (*at.shape, *v.shape[1:])), axis=0)

    def beside_rows(v):
        return w.reshape(v, [*v.shape, *rest])

    zero = w.full(0.0, wide)
    reads = [lambda at: w.cast(rows(x, rows(order, at)), wide)]
    size, span = x.shape[0], 1
    for _ in range(_LEVELS):
        size, span = _quotient(size), span * _PART
        of_part = w.reshape(w.slice(keys, 0, 0, size * span, 1, dims.to_expr(size * span)), [size, span])
        first = w.slice(of_part, 1, 0, 1, 1, 1)
        same = w.compare("eq", first, w.slice(of_part, 1, span - 1, span, 1, 1))
        same = w.binary("and", same, w.compare("ge", first, w.full(0, keys.dtype)))  # not of rows that are dropped
        at = w.reshape(w.iota(torch.int32, [size * _PART]), [size, _PART])
        part = w.reduce("reduce_sum", w.select(beside_rows(same), reads[-1](at), zero), [1])
        reads.append(lambda at, part=part: rows(part, at))
    bounds = lower_bounds(w, keys, segments + 1)
    begin, end = (w.reshape(w.slice(bounds, 0, i, segments + i, 1, segments), [segments, 1]) for i in (0, 1))
    most = dims.to_expr(2 * (_PART - 1) * _LEVELS + size)
    item, place = (w.iota(dtype, [segments, most], 1) for dtype in (torch.int32, torch.int64))

    def ends(end):  # in what loops count in
        return w.compare("lt", place, w.cast(end, torch.int64))

    runs, done = [], index.number(0)
    for level, read in enumerate(reads):
        first = index("sub", begin, done)  # item i is element first + i
        if level == _LEVELS:
            at, count = index("add", item, first), index("sub", end, begin)
        else:
            after = index("floor_div", index("add", begin, _PART - 1), _PART)  # the first whole part
            parts = index("maximum", index("sub", index("floor_div", end, _PART), after), 0)
            skipped = index("mul", parts, _PART)
            turn = index("add", index("sub", index("mul", after, _PART), begin), done)
            at = index("add", item, w.select(ends(turn), first, index("add", first, skipped)))
            count = index("sub", index("sub", end, begin), skipped)
            begin, end = after, index("add", after, parts)
        done = index("add", done, count)
        runs.append((ends(done), read(at)))
    is_any, value = runs.pop()
    for is_here, v in reversed(runs):
        value = w.select(beside_rows(is_here), v, value)
    return w.cast(w.reduce("reduce_sum", w.select(beside_rows(is_any), value, zero), [1]), x.dtype)


def _quotient(size):
    return size // _PART if isinstance(size, int) else FloorDiv(size, _PART)


class Arithmetic:
    """Binary ops on values and numbers of one dtype."""

    def __init__(self, w, dtype):
        self.w, self.dtype = w, dtype

    def number(self, v):
        return self.w.full(v, self.dtype)

    def __call__(self, name, a, b):
        return self.w.binary(name, *(self.number(v) if isinstance(v, int) else v for v in (a, b)))


def lower_bounds(w, keys, count):
    """For each number of 0..count the place, an i32, of the first of the ascending `keys` that is no less, by halves."""
    keys, index, n = w.cast(keys, torch.int64), Arithmetic(w, torch.int64), keys.shape[0]
    number, found, size = w.iota(torch.int64, [count]), index.number(0), as_value(w, n, torch.int64)
    for bit in reversed(range(n.bit_length() if isinstance(n, int) else _MOST_BITS)):
        probe = index("add", found, 1 << bit)
        key = w.op("gather", [keys, index("sub", probe, 1)], (torch.int64, probe.shape), axis=0)
        is_less = w.binary("and", w.compare("le", probe, size), w.compare("lt", key, number))
        found = w.select(is_less, probe, found)
    return w.cast(w.broadcast_to(found, [count]), torch.int32)
