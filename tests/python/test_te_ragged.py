"""Loops that memory ends: reductions over rows of different lengths, and loop text with while, against NumPy."""

import numpy as np
import pytest
from cinn_like import library, te
from test_te import TARGETS

pytestmark = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")

MOST = 64
RNG = np.random.default_rng(3)


def rows(n):
    lengths = RNG.integers(-3, MOST + 9, n)  # what does not fit counts as none, or all
    lengths[: min(n, 3)] = [0, 1, MOST][:n]
    return RNG.standard_normal((n, MOST)).astype("float32"), lengths.astype("int64")


def parts(x, lengths):
    return [row[: min(max(length, 0), MOST)] for row, length in zip(x, lengths)]


def program(reduce):
    n = te.var("n")
    x, length = te.placeholder((n, MOST), "float32", "x"), te.placeholder((n,), "int64", "length")

    def element(i):
        k = te.reduce_axis((0, length[i]), "k", most=MOST)
        return reduce(x[i, k] * 2, axis=k)

    y = te.compute((n,), element, name="y")
    return te.compute((n,), lambda i: y[i] + 1, name="z")


def bind(s, target):
    if target != "cpu":
        for loop in dict.fromkeys(s.loops(block)[0] for block in s.blocks()):
            s.bind(loop, "blockIdx.x")
    return s


STEPS = {
    "plain": lambda s, target: bind(s, target),
    "tiled": lambda s, target: (s.split("l_k", 8, to=("ko", "ki")), bind(s, target)),
    "unrolled": lambda s, target: (s.split("l_k", 4, to=("ko", "ki")), s.unroll("ki"), bind(s, target)),
    "parallel": lambda s, target: s.parallel("l_i") if target == "cpu" else bind(s, target),
    "special": lambda s, target: (s.specialize("l_i", "n == 9", to="nine"), bind(s, target)),
    "ahead": lambda s, target: (s.prefetch("x", "l_k", 1), s.annotate("l_k", "unroll=2"), bind(s, target)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", STEPS)
def test_ragged_sums(steps, target):
    s = te.create_schedule(program(te.sum))
    STEPS[steps](s, target)
    f = te.build(s, target)
    for n in (1, 9, 40):
        x, lengths = rows(n)
        want = [np.sum(row.astype("float64")) * 2 + 1 for row in parts(x, lengths)]
        np.testing.assert_allclose(np.asarray(f(x, lengths)), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduce, numpy_reduce", [(te.max, lambda v: np.max(v, initial=-np.inf)),
                                                  (te.min, lambda v: np.min(v, initial=np.inf))])  # fmt: skip
def test_ragged_extremes(reduce, numpy_reduce):
    f = te.build(te.create_schedule(program(reduce)))
    x, lengths = rows(50)
    np.testing.assert_array_equal(f(x, lengths), [numpy_reduce(2 * row) + 1 for row in parts(x, lengths)])


def test_ragged_places():
    n = te.var("n")
    x, length = te.placeholder((n, MOST), "float32", "x"), te.placeholder((n,), "int64", "length")

    def first(i):
        k = te.reduce_axis((0, length[i]), "k", most=MOST)
        return te.argmax(x[i, k], axis=k)

    f = te.build(te.create_schedule(te.compute((n,), first, name="y")))
    a, lengths = rows(30)
    lengths = np.maximum(lengths, 1)
    got = f(a, lengths)
    np.testing.assert_array_equal(got[0], [np.argmax(row) for row in parts(a, lengths)])
    np.testing.assert_array_equal(got[1], [np.max(row) for row in parts(a, lengths)])


def test_what_it_needs():
    n = te.var("n")
    length = te.placeholder((n,), "int64", "length")
    for axis in (lambda i: te.reduce_axis((0, length[i])), lambda i: te.reduce_axis((1, length[i]), most=4)):
        with pytest.raises(ValueError, match="needs most="):
            te.compute((n,), lambda i: te.sum(te.const(1, "float32"), axis=axis(i)), name="y")  # noqa: B023
    s = te.create_schedule(program(te.sum))
    for step, why in ((lambda: s.unroll("l_k"), "not constant"), (lambda: s.fuse("l_i", "l_k"), "reads memory")):
        with pytest.raises(ValueError, match=why):
            step()


WHILE = """
func @root(x: f32[n], y: f32[n] out, steps: i64[n] out) where n in 1..65536 {
  for i in 0..n {
    block b(vi in 0..n = i) {
      y[vi] = max(x[vi], 1.0)
      steps[vi] = 0
      while 0.00001 * y[vi] < y[vi] - x[vi] / y[vi] && steps[vi] < 99 {
        y[vi] = (y[vi] + x[vi] / y[vi]) * 0.5
        steps[vi] = steps[vi] + 1
      }
    }
  }
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", ["", "split i 32 -> io ii", "specialize i n % 8 == 0 -> even"])
def test_square_roots(steps, target):
    kind = "parallel {}" if target == "cpu" else "bind {} blockIdx.x"
    outer = {"": ["i"], "split i 32 -> io ii": ["io"]}.get(steps, ["i", "i_even"])
    f = te.build(WHILE, target, "\n".join([steps, *(kind.format(loop) for loop in outer)]))
    for n in (1, 40, 301):
        x = RNG.uniform(0, 1000, n).astype("float32")
        y, taken = (np.asarray(a) for a in f(x))
        np.testing.assert_allclose(y, np.sqrt(np.maximum(x, 1e-30)), rtol=1e-4, atol=1e-2)
        assert 0 <= taken.min() and taken.max() < 30
