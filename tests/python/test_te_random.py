"""Random programs under random legal steps compute what they compute without. CINN_TEST_ROUNDS says how many,
CINN_TEST_FIRST_ROUND with which to begin."""

import os
import random

import numpy as np
import pytest
from cinn_like import library, te
from test_te import TARGETS

pytestmark = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")


class Program:
    """One to three stages, each of which reads arguments or stages before it, over n by m."""

    def __init__(self, rng):
        self.rng, self.n, self.m = rng, te.var("n"), te.var("m")
        self.dtype = rng.choice(["float32", "float64", "int32", "int16"])
        self.tensors = [te.placeholder(shape, self.dtype, name) for name, shape in
                        (("A", (self.n, self.m)), ("B", (self.m, self.n)))]  # fmt: skip
        made = [self.stage(f"T{k}") for k in range(rng.randint(1, 3))]
        self.outputs = [t for t in made if rng.random() < 0.5] or made[-1:]

    def element(self, places):
        """Of some tensor, at iterators whose extents are its sizes; sometimes the next one, under a condition."""
        t = self.rng.choice(self.tensors)
        at = [self.rng.choice([i for i, size in places if size is d] or [0]) for d in t.shape]
        if self.rng.random() < 0.2:
            return te.if_then_else(at[0] + 1 < t.shape[0], t[(at[0] + 1, *at[1:])], 2)
        return t[tuple(at)]

    def stage(self, name):
        rng = self.rng
        shape = rng.choice([(self.n, self.m), (self.m, self.n), (self.n,)])
        kind = rng.choice(["pointwise", "reduction", "scan"])
        along = te.reduce_axis((0, rng.choice([self.n, self.m])), "k")
        reduce = rng.choice([te.sum, te.max, te.min])

        def body(*i):
            if kind == "scan":
                return te.max(i[-1] - 1, self.element(list(zip(i, shape))))
            places = list(zip(i, shape)) + ([(along, along.extent)] if kind == "reduction" else [])
            e = te.max(self.element(places), self.element(places) - 1)
            return reduce(e, axis=along) if kind == "reduction" else e

        if kind == "scan":
            fn = (lambda i, s: body(i, s)) if len(shape) == 1 else lambda i, j, s: body(i, j, s)
            t = te.scan(shape, fn, te.const(0, self.dtype), axis=rng.randrange(len(shape)), name=name)
        else:
            t = te.compute(shape, (lambda i: body(i)) if len(shape) == 1 else lambda i, j: body(i, j), name=name)
        self.tensors.append(t)
        return t


def take_steps(s, rng, target):
    """Up to nine; what is refused is left out."""
    for _ in range(rng.randint(1, 9)):
        block = rng.choice(s.blocks())
        around = s.loops(block)
        anywhere = [loop for b in s.blocks() for loop in s.loops(b)]
        if not around:
            continue
        step = rng.choice([
            lambda: s.split(rng.choice(around), rng.choice([2, 3, 8])), lambda: s.vectorize(around[-1]),
            lambda: s.parallel(around[0]) if target == "cpu" else s.bind(around[0], "blockIdx.x"),
            lambda: s.reorder(*rng.sample(around, len(around))), lambda: s.fuse(*around[:2]), lambda: s.unroll(around[-1]),
            lambda: s.split_init(block, rng.choice(around)), lambda: s.compute_at(block, rng.choice(anywhere)),
            lambda: s.inline(block), lambda: s.cache_write(block[2:], block), lambda: s.peel(around[0], "back", 1),
            lambda: s.reverse_compute_at(block, rng.choice(anywhere)), lambda: s.reverse_inline(block),
            lambda: s.fission(around[0], rng.choice(s.blocks())), lambda: s.unroll_jam(rng.choice(around)),
            lambda: s.specialize(rng.choice(around), "n % 2 == 0", to=f"s{len(s.history)}"),
            lambda: s.annotate(around[-1], "unroll=4"), lambda: s.prefetch("A", around[0], 2),
        ])  # fmt: skip
        try:
            step()  # noqa: B023
        except ValueError as why:
            assert "step '" in str(why), why


@pytest.mark.parametrize("target", TARGETS)
def test_random_schedules(target):
    taken, built, first = 0, 0, int(os.environ.get("CINN_TEST_FIRST_ROUND", 0))
    rounds = int(os.environ.get("CINN_TEST_ROUNDS", 100 if target == "cpu" else 8))
    for seed in range(first, first + rounds):
        rng = random.Random(seed)
        program = Program(rng)
        plain, s = te.create_schedule(program.outputs), te.create_schedule(program.outputs)
        take_steps(s, rng, target)
        taken += len(s.history) - 1
        expected = te.build(plain)
        try:
            f = te.build(s, target)
        except ValueError:
            assert target != "cpu", s.schedule  # what threads can't do together is known when all steps are there
            continue
        built += 1
        for n, m in ((5, 7), (16, 9)):
            numbers = np.random.default_rng(seed)
            sizes = {"n": n, "m": m}
            args = [sizes[p["name"]] if "symbol" in p else
                    (numbers.standard_normal([sizes[d] for d in p["shape"]]) * 10).astype(program.dtype)
                    for p in expected.info["params"]]  # fmt: skip
            one, other = expected(*args), f(*args)
            for x, y in zip(*((r if isinstance(r, tuple) else (r,)) for r in (one, other))):
                np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}\n{plain}\n{s.schedule}")
    assert taken > rounds and built > rounds / 3
