"""Attention on the CPU, two products and a softmax between them, a step at a time: in tiles of queries; of keys, so that
there are never more scores than a tile has; in vectors. `attention.py 1024 1024` prints what each takes."""

import sys
import time

import numpy as np
from cinn_like import te

HEADS, D = 4, 64
n, m = te.var("n", high=8192), te.var("m", high=8192)
Q = te.placeholder((HEADS, n, D), name="Q")
K = te.placeholder((HEADS, m, D), name="K")
V = te.placeholder((HEADS, m, D), name="V")
d, j0, j1, j2 = te.reduce_axis((0, D), "d"), *(te.reduce_axis((0, m), f"j{k}") for k in range(3))

# Queries come last: they are what vectors are of.
QT = te.compute((HEADS, D, n), lambda h, d, i: Q[h, i, d] * D**-0.5, name="QT")
S = te.compute((HEADS, m, n), lambda h, j, i: te.sum(K[h, j, d] * QT[h, d, i], axis=d), name="S")
M = te.compute((HEADS, n), lambda h, i: te.max(S[h, j0, i], axis=j0), name="M")
P = te.compute((HEADS, m, n), lambda h, j, i: te.exp(S[h, j, i] - M[h, i]), name="P")
L = te.compute((HEADS, n), lambda h, i: te.sum(P[h, j1, i], axis=j1), name="L")
T = te.compute((HEADS, D, n), lambda h, c, i: te.sum(P[h, j2, i] * V[h, j2, c], axis=j2), name="T")
O = te.compute((HEADS, n, D), lambda h, i, c: T[h, c, i] / L[h, i], name="O")

ROWS, KEYS = 32, 64  # queries and keys at a time


def row_tiles():
    """Everything for 32 queries at a time, in parallel: what the stages hand on stays in cache."""
    s = te.create_schedule(O, name="attention")
    h, i, _ = s.loops(O)
    io, _ = s.split(i, ROWS)
    tile = s.fuse(h, io, to="tile")
    s.parallel(tile)
    for t in (T, L, P, M, S, QT):
        s.compute_at(t, tile)
    return s


def key_tiles():
    """The loops over keys become one, of 64 at a time. The maximum is then that of the keys so far, and as it grows, `chain`
    has the sums so far multiplied by what that makes of them. All that there is of scores is a tile."""
    s = row_tiles()
    stages = (QT, S, M, P, T, L)
    for t in stages:
        s.scope(t, "local", "align", 64)
    for t in stages:
        s.pad(t)
    outer = []
    for t, keys in ((S, "l_j_1"), (M, "l_j0_1"), (P, "l_j_1_1"), (T, "l_j2_1"), (L, "l_j1_1")):
        others = [loop for loop in s.loops(t)[1:] if loop != keys]
        outer.append(f"{t.name}_outer")
        s.split(keys, KEYS, to=(outer[-1], f"{t.name}_keys"))
        s.reorder(outer[-1], f"{t.name}_keys", *others)
        if t in (S, P):
            s.pad(t)
        else:
            s.split_init(t, outer[-1], to=f"{t.name}_start")
    s.chain(*outer, to="factor")
    for t in ("factor", "factor_old"):
        s.scope(t, "local", "align", 64)
    return s


def vectorized():
    """Vectors of queries; the sums of 8 keys, and of 8 features, stay in registers."""
    s = key_tiles()
    s.split("S_keys", 8, to=("keys_o", "keys_i"))
    i, d = s.loops(S)[-2:]
    s.reorder(d, "keys_i", i)
    s.split_init(S, d, to="S_start")
    c, i = s.loops(T)[-2:]
    co, ci = s.split(c, 8)
    s.reorder(co, "T_keys", ci)
    for loop in ("keys_i", ci):
        s.unroll(loop)
    for block in s.blocks():
        s.vectorize(s.loops(block)[-1])
    return s


STEPS = {
    "stages": lambda: te.create_schedule(O, name="attention"), "row tiles": row_tiles, "key tiles": key_tiles,
    "vectorized": vectorized,
}  # fmt: skip


def main(queries=100, keys=150):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((HEADS, rows, D)).astype("float32") for rows in (queries, keys, keys))
    scores = q.astype("float64") @ k.astype("float64").swapaxes(1, 2) / D**0.5
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    expected = weights / weights.sum(axis=2, keepdims=True) @ v
    for name, make in STEPS.items():
        s = make()
        f = te.build(s)
        out = f(q, k, v)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            f(q, k, v, out)
            seconds.append(time.perf_counter() - begin)
        print(f"{name:14}{min(seconds) * 1e3:9.2f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
