"""Attention of 16-bit floats on a GPU's matrix units (attention.py is on the CPU): a block has some queries, and takes a
part of the keys at a time; scores never leave the registers. CUDA's source is there without a GPU; a device of OpenCL runs
the loops."""

import numpy as np
from cinn_like import te
from tensor_cores import THREADS, TILE, check, copied_by_threads

HEADS, D = 2, 32
KEYS = TILE // 2  # at a time
QUERIES = 32 * THREADS[0]  # of a block, 32 of each warp
n, m = (te.var(name, low=QUERIES, high=8192, multiple=QUERIES) for name in "nm")
Q = te.placeholder((HEADS, n, D), "float16", name="Q")
K = te.placeholder((HEADS, m, D), "float16", name="K")
V = te.placeholder((HEADS, m, D), "float16", name="V")
d, *j = te.reduce_axis((0, D), "d"), *(te.reduce_axis((0, m), f"j{k}") for k in range(3))


def f32(x):
    return te.cast(x, "float32")


queries, keys, values = (te.compute(t.shape, lambda h, i, d, t=t: t[h, i, d], name=f"{t.name}_tile") for t in (Q, K, V))
S = te.compute((HEADS, n, m), lambda h, i, j: te.sum(f32(queries[h, i, d]) * f32(keys[h, j, d]), axis=d), name="S")
M = te.compute((HEADS, n), lambda h, i: te.max(S[h, i, j[0]], axis=j[0]), name="M")
P = te.compute((HEADS, n, m), lambda h, i, j: te.exp((S[h, i, j] - M[h, i]) * D**-0.5), name="P")
L = te.compute((HEADS, n), lambda h, i: te.sum(P[h, i, j[1]], axis=j[1]), name="L")
weights = te.compute((HEADS, n, m), lambda h, i, j: te.cast(P[h, i, j], "float16"), name="weights")
T = te.compute((HEADS, n, D), lambda h, i, c: te.sum(f32(weights[h, i, j[2]]) * f32(values[h, j[2], c]), axis=j[2]), name="T")
O = te.compute((HEADS, n, D), lambda h, i, c: te.cast(T[h, i, c] / L[h, i], "float16"), name="O")


def tiled():
    s = te.create_schedule(O, name="attention", align=16)
    h, i, _ = s.loops(O)
    io, _ = s.split(i, QUERIES)
    s.bind(h, "blockIdx.y")
    s.bind(io, "blockIdx.x")
    for t in (T, values, weights, L, P, M, S, keys, queries):
        s.scope(t, *(("shared", "align", 16) if t.dtype == "float16" else ("local",)))
        s.compute_at(t, io)
    return s


def key_tiles():
    """One loop over keys, some at a time, in place of the stages' own (attention.py says how `chain` can do that)."""
    s, outer = tiled(), []
    for t, at in ((values, 0), (keys, 0), (S, 1), (M, 1), (P, 1), (weights, 1), (T, 2), (L, 1)):
        loops = s.loops(t)[2:]
        jo, ji = s.split(loops[at], KEYS, to=(f"{t.name}_part", f"{t.name}_keys"))
        s.reorder(jo, *(ji if loop == loops[at] else loop for loop in loops))
        outer.append(jo)
        if t in (M, T, L):
            s.split_init(t, jo, to=f"{t.name}_start")
    s.chain(*outer, to="factor")
    for t in ("factor", "factor_old"):
        s.scope(t, "local")
    return s


def share_out(s, block, *loops, steps=(), depth=()):
    """A block's loops over rows, and over columns if there are, among threads as a matrix unit's sums lie: a warp has 32 rows,
    its thread y, x of these rows y and y + 8 of every 16, columns 2 * x and 2 * x + 1 of every 8."""
    v, i, h, y = s.split(loops[0], 2, 2, 8, to=[f"{block}_{part}" for part in ("v", "i", "h", "y")])
    s.bind(v, "threadIdx.z")
    s.bind(y, "threadIdx.y")
    if len(loops) == 1:
        s.reorder(v, y, i, h)
        return None, None
    j, x, l = s.split(loops[1], 4, 2, to=[f"{block}_{part}" for part in ("j", "x", "l")])
    s.bind(x, "threadIdx.x")
    if block in ("b_M", "b_L"):  # what threads find of a row they tell each other
        s.reorder(v, y, i, h, x, j, l)
    else:
        s.reorder(v, y, x, *steps, i, j, h, l, *depth)
    return i, l


def on_threads():
    s = key_tiles()
    for t in (queries, keys, values):
        copied_by_threads(s, t.name)
    within = {block: s.loops(block)[3 if f"{values.name}_part" in s.loops(block) else 2 :] for block in s.blocks()}
    for block, loops in within.items():
        if block.endswith("_tile"):
            continue
        if len(loops) == 3:  # a product
            kk, ke = s.split(loops[2], 16, to=(f"{block}_kk", f"{block}_ke"))
            share_out(s, block, *loops[:2], steps=[kk], depth=[ke])
        else:
            _, pair = share_out(s, block, *loops)
            if block in ("b_weights", "b_P", "b_O"):
                s.vectorize(pair)
    s.split_init(S, "b_S_kk", to="S_start")
    return s


def on_matrix_units():
    """Unrolled, what writes the weights and what reads them are the same registers of a warp: they need no memory."""
    s = on_threads()
    for t in (S, T):
        s.tensorize(f"b_{t.name}_i", "mma_m16n8k16")
    for loop in ("b_weights_i", "b_weights_j", "b_weights_h", "b_T_kk"):
        s.unroll(loop)
    return s


def pipelined():
    """Copies are a part of the keys ahead; nothing else may be in shared memory then."""
    s = on_matrix_units()
    s.pipeline(f"{values.name}_part", 2)
    return s


STEPS = {"on threads": on_threads, "on matrix units": on_matrix_units, "pipelined": pipelined}


def main():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((HEADS, rows, D)).astype("float16") for rows in (QUERIES, 2 * QUERIES, 2 * QUERIES))
    scores = q.astype("float64") @ k.astype("float64").swapaxes(1, 2) / D**0.5
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    for name, make in STEPS.items():
        s = make()
        print(s.schedule)
        targets = ("cuda", "opencl") if make is on_threads else ("cuda",)
        check(s, name, (q, k, v), p / p.sum(axis=2, keepdims=True) @ v, targets)


if __name__ == "__main__":
    main()
