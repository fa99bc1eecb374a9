"""The program of vector_add.py and a sum of rows on a device of OpenCL: tensors stay the host's, calls copy."""

import numpy as np
from cinn_like import te
from vector_add import on_gpu

n, m = te.var("n"), te.var("m")
X = te.placeholder((n, m), name="X")
k = te.reduce_axis((0, m), name="k")
Y = te.compute((n,), lambda i: te.sum(X[i, k], axis=k), name="Y")


def rows():
    """A row for each block, whose 64 threads have a part of the sum each."""
    s = te.create_schedule(Y, name="rows")
    i, j = s.loops(Y)
    _, thread = s.split(j, 64, to=("step", "thread"))
    s.reorder(i, thread, "step")
    s.bind(i, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    return s


def main():
    add = te.build(on_gpu(), target="opencl")
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1000), "float32")
    np.testing.assert_array_equal(add(a, b), a + b)

    f = te.build(rows(), target="opencl")
    print(f.get_source())
    x = rng.random((100, 333), "float32")
    np.testing.assert_allclose(f(x), x.sum(1), rtol=1e-5)


if __name__ == "__main__":
    main()
