"""A long sum in parts (rfactor), an argmax, a reducer of one's own and running sums."""

import numpy as np
from cinn_like import te

n = te.var("n", multiple=1024)
A = te.placeholder((n,), name="A")
k = te.reduce_axis((0, n), name="k")


def total():
    """One chain of additions becomes 16 lanes of them, which are added at last."""
    S = te.compute((), lambda: te.sum(A[k], axis=k), name="S")
    s = te.create_schedule(S, name="total")
    _, lane = s.unfold(S, "k", 16, to=("step", "lane"))
    part = s.rfactor(S, lane, to="part")
    lanes, steps = s.loops(f"b_{part}")
    s.reorder(steps, lanes)
    s.split_init(f"b_{part}", steps)
    s.vectorize(lanes)
    return s


def peak():
    """Two results: where the largest element is, and what it is."""
    return te.create_schedule(list(te.compute((), lambda: te.argmax(A[k], axis=k), name="peak")), name="peak")


def moments():
    """Sums of elements and of squares, in one pass."""
    pair = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda s, t: (0.0, 0.0), name="pair")
    wide = A[k].astype("float64")
    return te.create_schedule(list(te.compute((), lambda: pair((wide, wide * wide), axis=k), name="moments")), name="moments")


def running():
    """y[i] is the sum up to there; y[i] = 0.9 * y[i - 1] + x[i] is as short."""
    return te.create_schedule(te.scan((n,), lambda i, s: s + A[i], 0.0, dtype="float64", out_dtype="float32", name="R"))


def main():
    a = np.random.default_rng(0).random(1 << 16, "float32")
    s = total()
    print(s)
    print(s.schedule)
    np.testing.assert_allclose(te.build(s)(a), a.sum(), rtol=1e-5)
    at, largest = te.build(peak())(a)
    assert at == a.argmax() and largest == a.max()
    first, second = te.build(moments())(a)
    np.testing.assert_allclose((first, second), (a.sum(dtype="f8"), (a.astype("f8") ** 2).sum()))
    np.testing.assert_allclose(te.build(running())(a), np.cumsum(a, dtype="f8"), rtol=1e-6)


if __name__ == "__main__":
    main()
