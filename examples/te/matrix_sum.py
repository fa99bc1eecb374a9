"""The sum of two matrices: how split, reorder, tile and vectorize change the loops."""

import numpy as np
from cinn_like import te

n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), name="A")
B = te.placeholder((n, m), name="B")
C = te.compute((n, m), lambda i, j: A[i, j] + B[i, j], name="C")


def split():
    s = te.create_schedule(C)
    i, j = s.loops(C)
    s.split(j, 16)
    return s


def reorder():
    s = te.create_schedule(C)
    i, j = s.loops(C)
    s.reorder(j, i)
    return s


def tile():
    s = te.create_schedule(C)
    i, j = s.loops(C)
    i_outer, j_outer, i_inner, j_inner = s.tile(i, j, 8, 16)
    return s


def vectorize():
    s = tile()
    *_, j_inner = s.loops(C)
    s.vectorize(j_inner)
    s.parallel(s.loops(C)[0])
    return s


def main():
    a, b = np.random.default_rng(0).random((2, 100, 77), "float32")
    for make in (split, reorder, tile, vectorize):
        s = make()
        print(make.__name__, s.diff(0, -1), sep="\n")
        np.testing.assert_array_equal(te.build(s)(a, b), a + b)


if __name__ == "__main__":
    main()
