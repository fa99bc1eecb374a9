"""A stage that NumPy computes: matrices are scaled by generated code, sorted by a function of Python, weighted by generated
code again; and the same function called by name, from a file without the compiler."""

import pathlib
import tempfile

import cinn_like
import numpy as np
from cinn_like import te

n, m = te.var("n"), te.var("m")
X = te.placeholder((n, m), name="X")
twice = te.compute((n, m), lambda i, j: X[i, j] * 2.0, name="twice")


@cinn_like.register_func("example.sort_rows")
def sort_rows(x, smallest, rows, places):
    """Its inputs, then its outputs: arrays over the kernel's memory."""
    places[...] = np.argsort(x, axis=1, kind="stable")
    rows[...] = np.maximum(np.take_along_axis(x, places, axis=1), smallest)


def expected(x, smallest=-1.0):
    return (np.maximum(np.sort(x * 2.0, axis=1), smallest) * np.arange(x.shape[1])).sum(axis=1, dtype="f8")


def main():
    rows, places = te.extern([(n, m), (n, m)], [twice, -1.0], "example.sort_rows", name="rows", dtype=["float32", "int64"])
    k = te.reduce_axis((0, m), "k")
    ranked = te.compute((n,), lambda i: te.sum(rows[i, k] * te.cast(k, "float32"), axis=k), name="ranked")
    s = te.create_schedule([ranked, places], name="ranked_sums")
    s.parallel(s.loops(twice)[0])
    print(s)
    try:
        s.inline(rows)
    except ValueError as why:
        print(why)

    f = te.build(s)
    x = np.random.default_rng(0).random((100, 8), "float32") - 0.5
    got, at = f(x)
    np.testing.assert_allclose(got, expected(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(at, np.argsort(x * 2, axis=1, kind="stable"))

    # What the function raises is the call's error.
    cinn_like.register_func("example.sort_rows", lambda *_: 1 / 0, override=True)
    try:
        f(x)
    except RuntimeError as why:
        print(why)
        assert isinstance(why.__cause__, ZeroDivisionError)
    cinn_like.register_func("example.sort_rows", sort_rows, override=True)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "ranked.so"
        f.export_library(path)
        np.testing.assert_allclose(cinn_like.load_library(path)(x)[0], expected(x), rtol=1e-5, atol=1e-5)

    # A function of Python as it is.
    sums = te.extern((n,), [X], lambda x, y: np.sum(x, axis=1, out=y), name="sums")
    sums = te.build(te.create_schedule(te.compute((n,), lambda i: te.exp(sums[i]), name="Y")))
    np.testing.assert_allclose(sums(x), np.exp(x.sum(axis=1)), rtol=1e-5)
    cinn_like.remove_global_func("example.sort_rows")


if __name__ == "__main__":
    main()
