"""Vector addition of any length: written once, scheduled for a CPU, and for the blocks and threads of a GPU; saved, loaded
and called again."""

import pathlib
import tempfile

import cinn_like
import numpy as np
from cinn_like import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute((n,), lambda i: A[i] + B[i], name="C")


def on_cpu():
    s = te.create_schedule(C, name="add")
    (i,) = s.loops(C)
    outer, inner = s.split(i, 64)
    s.parallel(outer)
    s.vectorize(inner)
    return s


def on_gpu():
    s = te.create_schedule(C, name="add")
    (i,) = s.loops(C)
    block, thread = s.split(i, 64, to=("block", "thread"))
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    return s


def strided():
    """Arguments may lie anywhere: calls read the strides off them."""
    X, Y = (te.placeholder((n,), name=name, strides=(te.var(f"stride_{name}"),)) for name in "XY")
    return te.create_schedule(te.compute((n,), lambda i: X[i] + Y[i], name="Z"), name="add")


def main():
    rng = np.random.default_rng(0)
    s = on_cpu()
    print(s)  # the loops, as the steps have made them
    print(s.diff())  # what the last step changed
    print(te.lower(s))  # the last, partial vector is apart from the whole ones
    add = te.build(s, target="cpu")
    for size in (1, 64, 1000):
        a, b = rng.random((2, size), "float32")
        np.testing.assert_array_equal(add(a, b), a + b)
    out = np.empty(1000, "float32")
    add(a, b, out)  # or into a result that there is
    np.testing.assert_array_equal(out, a + b)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "add.so"
        add.export_library(path)
        np.testing.assert_array_equal(cinn_like.load_library(path)(a, b), a + b)  # which needs no compiler

    matrix = rng.random((1000, 3), "float32")
    np.testing.assert_array_equal(te.build(strided())(matrix[:, 1], a), matrix[:, 1] + a)

    # Source is there for any device, with or without it.
    for target in ("cuda -arch=sm_90a", "opencl"):
        print(te.build(on_gpu(), target).get_source())
    assert "int32_t add(" in te.build(on_cpu(), target="c").get_source()  # C99, without dependencies


if __name__ == "__main__":
    main()
