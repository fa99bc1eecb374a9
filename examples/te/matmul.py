"""A product of matrices on the CPU, made faster a step at a time: blocked, vectorized, packed, accumulated in registers,
parallel. `matmul.py 1024` prints what each takes; `--plot FILE` draws it (requirements-plot.txt)."""

import argparse
import time

import numpy as np
from cinn_like import te

ROWS, COLUMNS, DEPTH = 4, 64, 64  # of a tile, and of the part of k that it is computed over


def product(size, packed=False):
    A = te.placeholder((size, size), name="A")
    B = te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    if not packed:
        return te.compute((size, size), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C"), None
    # Panels of columns, each of which lies in one piece, in the order in which it is read.
    panels = (size + COLUMNS - 1) // COLUMNS
    P = te.compute((panels, size, COLUMNS), lambda p, k, c: te.if_then_else(p * COLUMNS + c < size, B[k, p * COLUMNS + c], 0.0),
                   name="P")  # fmt: skip
    return te.compute((size, size), lambda i, j: te.sum(A[i, k] * P[j // COLUMNS, k, j % COLUMNS], axis=k), name="C"), P


def naive(size):
    return te.create_schedule(product(size)[0])


def blocked(size, packed=False):
    """A tile of C over a part of k at a time: what it reads stays in cache."""
    C, P = product(size, packed)
    s = te.create_schedule(C)
    i, j, k = s.loops(C)
    io, ii = s.split(i, ROWS, to=("io", "ii"))
    jo, ji = s.split(j, COLUMNS, to=("jo", "ji"))
    ko, ki = s.split(k, DEPTH, to=("ko", "ki"))
    s.reorder(jo, io, ko, ki, ii, ji)
    s.split_init(C, ko, to="start")  # else every step would ask whether it is the first
    return s, C, P


def vectorized(size, packed=False):
    s, C, P = blocked(size, packed)
    s.vectorize("ji")
    s.vectorize(s.loops("start")[-1])
    return s, C, P


def with_panels(size):
    s, C, P = vectorized(size, packed=True)
    s.vectorize(s.loops(P)[-1])
    return s, C, P


def in_registers(size):
    """The tile is accumulated apart and written once."""
    C, P = product(size, packed=True)
    s = te.create_schedule(C)
    sums = s.cache_write(C, C, to="sums")
    i, j, k = s.loops(C)
    s.split(i, ROWS, to=("io", "ii"))
    s.split(j, COLUMNS, to=("jo", "ji"))
    s.reorder("jo", "io", k, "ii", "ji")
    s.reverse_compute_at(f"{sums}_copy", "io")
    s.scope(sums, "local")
    s.split_init(C, k, to="start")
    s.unroll("ii")
    for block in (C, "start", f"{sums}_copy", P):
        s.vectorize(s.loops(block)[-1])
    for block in ("start", f"{sums}_copy"):
        s.unroll(s.loops(block)[-2])
    return s, C, P


def on_all_cores(size):
    s, C, P = in_registers(size)
    s.parallel("jo")
    s.parallel(s.loops(P)[0])
    return s, C, P


STEPS = {
    "naive": naive, "blocked": lambda n: blocked(n)[0], "vectorized": lambda n: vectorized(n)[0],
    "packed": lambda n: with_panels(n)[0], "in registers": lambda n: in_registers(n)[0],
    "parallel": lambda n: on_all_cores(n)[0],
}  # fmt: skip


def seconds_of(call):
    """The least of some calls, and of time and processor time: other processes disturb."""
    clocks = time.perf_counter, time.process_time
    least, begin = float("inf"), clocks[0]()
    for k in range(1000):
        before = [clock() for clock in clocks]
        call()
        least = min(least, *(clock() - was for clock, was in zip(clocks, before)))
        if k >= 2 and clocks[0]() - begin > 0.3:
            break
    return least


def plot(size, speeds, path):
    """GFLOP/s of each step as bars, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    bars = axes.barh(list(speeds), list(speeds.values()), color="#4a7fb5")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(f"GFLOP/s, {size} x {size} x {size}, f32")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", nargs="?", type=int, default=100)
    parser.add_argument("--plot", metavar="FILE", help="a PNG to write")
    options = parser.parse_args()
    size, speeds = options.size, {}
    a, b = np.random.default_rng(0).random((2, size, size), "float32")
    expected, c = a.astype("float64") @ b.astype("float64"), np.empty((size, size), "float32")
    for name, make in STEPS.items():
        f = te.build(make(size))
        f(a, b, c)
        np.testing.assert_allclose(c, expected, rtol=1e-4)
        seconds = seconds_of(lambda: f(a, b, c))
        speeds[name] = 2e-9 * size**3 / seconds
        print(f"{name:14}{seconds * 1e3:9.2f} ms{speeds[name]:9.1f} GFLOP/s")
    if options.plot:
        plot(size, speeds, options.plot)


if __name__ == "__main__":
    main()
