"""Tensor expressions from Python, against NumPy. (tests/python/test_te_examples.py runs the tutorials.)"""

import gc
import os
import shutil
import subprocess
import sys

import cinn_like
import numpy as np
import pytest
import torch
from cinn_like import library, te

pytestmark = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")

RNG = np.random.default_rng(0)
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def array(shape, dtype="float32"):
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    if dtype in INTS:
        low = -50 if dtype.startswith("int") else 0
        return RNG.integers(low, 50, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def copy_of_ones():
    return te.compute((4,), lambda i: 1.0, name="C")


opencl = pytest.mark.skipif(not (library.available() and te.has_device("opencl")), reason="no device of OpenCL")
cuda = pytest.mark.skipif(not (library.available() and te.has_device("cuda")), reason="no GPU of CUDA")
TARGETS = ["cpu", pytest.param("opencl", marks=opencl), pytest.param("cuda", marks=cuda)]


def bind_all(s):
    """Each nest a kernel: its data loops over blocks, reduced ones inside."""
    for block in s.blocks():
        data, text = [], s.text
        domains = text[text.index(f"block {block}(") :].split("\n")[0]
        for loop in s.loops(block):
            if f"in 0..{extent_of(text, loop)} = {loop}" in domains:
                data.append(loop)
        if not data:
            continue
        fused = s.fuse(*data, to=f"{block}_f")
        s.split(fused, 32, to=(f"{block}_x", f"{block}_t"))
        s.bind(f"{block}_x", "blockIdx.x")
        s.bind(f"{block}_t", "threadIdx.x")
    return s


def extent_of(text, loop):
    return text.split(f"for {loop} in 0..")[1].split(" {")[0]


def run(outputs, *args, target="cpu", **options):
    s = te.create_schedule(outputs, **options)
    return te.build(bind_all(s) if target != "cpu" else s, target)(*args)


def close(got, expected, tolerance=1e-5):
    for g, e in zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]:
        e = np.asarray(e)
        assert g.shape == e.shape and g.dtype == e.dtype, (g.dtype, g.shape, e.dtype, e.shape)
        scale = 400 if e.dtype == np.float16 else 1
        np.testing.assert_allclose(g, e, rtol=tolerance * scale, atol=tolerance * scale)


@pytest.mark.parametrize("dtype, target", [*((t, "cpu") for t in ["bool", *INTS, *FLOATS]), *(pytest.param(
    t, "opencl", marks=opencl) for t in ["bool", "int8", "uint16", "int64", "float16", "float64"]), *(pytest.param(
    t, "cuda", marks=cuda) for t in ["bool", *INTS, *FLOATS])])  # fmt: skip
def test_dtypes(dtype, target):
    n, m = te.var("n"), te.var("m")
    A, B = te.placeholder((n, m), dtype, "A"), te.placeholder((m, n), dtype, "B")
    a, b = array((5, 7), dtype), array((7, 5), dtype)
    if dtype == "bool":
        C = te.compute((n, m), lambda i, j: (A[i, j] & ~B[j, i]) ^ (i < j), name="C")
        i, j = np.indices((5, 7))
        return close(run(C, a, b, target=target), (a & ~b.T) ^ (i < j))
    if target == "opencl" and dtype != "float16":
        k = te.reduce_axis((0, m))
        R = te.compute((n,), lambda i: te.max(A[i, k] + B[k, i], axis=k), name="R")
        return close(run(R, a, b, target=target), (a + b.T).max(1).astype(dtype))
    C, D = te.compute((n, m), lambda i, j: (A[i, j] * 2 + B[j, i], te.max(A[i, j], B[j, i]) - 1), name="C")
    k = te.reduce_axis((0, m))
    R = te.compute((n,), lambda i: te.sum(C[i, k], axis=k), name="R")
    with np.errstate(over="ignore"):
        c = (a * 2 + b.T).astype(dtype)
        expected = c, (np.maximum(a, b.T) - np.array(1, dtype)).astype(dtype), c.sum(1, dtype=dtype)
    return close(run([C, D, R], a, b, target=target), expected)


def test_bfloat16_of_pytorch():
    """Tensors of PyTorch come in and go out; what is not passed is not imported (below)."""
    n = te.var("n")
    A = te.placeholder((n,), torch.bfloat16, "A")
    C = te.compute((n,), lambda i: te.exp(A[i].astype("float32")), name="C")
    D = te.compute((n,), lambda i: A[i] + A[i], name="D")
    f, x = te.build(te.create_schedule([C, D])), torch.randn(33, device="cpu").to(torch.bfloat16)
    c, d = f(x)
    torch.testing.assert_close(c, x.float().exp())
    torch.testing.assert_close(d, x + x)
    out = torch.empty(33, device="cpu"), torch.empty(33, dtype=torch.bfloat16, device="cpu")
    assert f(x, out=out)[0] is out[0]
    torch.testing.assert_close(out[1], d)


def test_neither_pytorch_nor_numpy_is_imported():
    code = "import sys; from cinn_like import te; print(te.lower(te.create_schedule(te.compute((3,), lambda i: i)))); " \
           "assert not {'torch', 'numpy'} & set(sys.modules)"  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert "func @program(" in subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


class OnlyDLPack:
    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **_):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_dlpack():
    n = te.var("n")
    A = te.placeholder((n, 3), "float64", "A")
    f = te.build(te.create_schedule(te.compute((n,), lambda i: A[i, 0] - A[i, 2], name="C")))
    a, out = array((4, 3), "float64"), np.zeros(4)
    close(f(OnlyDLPack(a)), a[:, 0] - a[:, 2])
    f(OnlyDLPack(a), OnlyDLPack(out))
    close(out, a[:, 0] - a[:, 2])


@pytest.mark.parametrize("target", TARGETS)
def test_functions(target):
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    cases = {
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sqrt": lambda x: np.sqrt(x), "tanh": np.tanh, "sin": np.sin,
        "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "log": np.log,
        "log1p": np.log1p, "abs": np.abs, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": None,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "neg": np.negative,
    }  # fmt: skip
    a = np.abs(array(37)) + 0.5
    power = lambda x: te.power(x, 2.5) + x**2.0 + te.pow(x, x)  # noqa: E731
    outputs = te.compute((n,), lambda i, names=tuple(cases): (*(getattr(te, name)(A[i]) for name in names), power(A[i])))
    got = run(list(outputs), a, target=target)
    erf = torch.erf(torch.from_numpy(a)).numpy()
    for (name, f), g in zip(cases.items(), got):
        np.testing.assert_allclose(g, erf if f is None else f(a), rtol=3e-6, atol=3e-6, err_msg=name)
    close(got[-1], (a**2.5 + a**2 + a**a).astype("f"))
    assert set(te.functions()) <= set(dir(te))


def test_quotients():
    """Of integers as NumPy rounds them, and 0 where it divides by 0."""
    n = te.var("n")
    for dtype in INTS:
        A, B = te.placeholder((n,), dtype, "A"), te.placeholder((n,), dtype, "B")
        C = te.compute((n,), lambda i: (A[i] // B[i], A[i] % B[i], te.truncdiv(A[i], B[i]), A[i] // 7, 7 % B[i]))  # noqa: B023
        a, b = array(200, dtype), array(200, dtype) % np.array(5, dtype)
        a[0], b[0] = np.iinfo(dtype).min, np.array(-1).astype(dtype)
        with np.errstate(all="ignore"):
            trunc = np.where(b == 0, 0, np.trunc(a.astype("f8") / np.where(b == 0, 1, b).astype("f8")))
            expected = a // b, a % b, trunc, a // np.array(7, dtype), np.array(7, dtype) % b
        got = te.build(te.create_schedule(list(C)))(a, b)
        for k, (g, e) in enumerate(zip(got, expected)):
            np.testing.assert_array_equal(g[1:], e[1:].astype(dtype), err_msg=f"{dtype} {k}")


@pytest.mark.parametrize("target", TARGETS)
def test_reductions(target):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    a = array((6, 13))
    axis = lambda: te.reduce_axis((0, m), "k")  # noqa: E731
    k, p, q = axis(), axis(), te.reduce_axis((2, m), "late")
    outputs = [
        te.compute((n,), lambda i: te.prod(A[i, k], axis=k), name="P"),
        te.compute((n,), lambda i: te.max(A[i, k], k), name="M"),
        te.compute((n,), lambda i: te.min(A[i, k], axis=[k]), name="N"),
        te.compute((n,), lambda i: te.any(A[i, k] > 1.5, axis=k), name="Any"),
        te.compute((n,), lambda i: te.all(A[i, k] > -1.5, axis=k), name="All"),
        te.compute((n,), lambda i: te.sum(A[i, q], axis=q), name="Late"),
        te.compute((n,), lambda i: te.sum(A[i, p], axis=p, where=A[i, p] > 0), name="Positive"),
        te.compute((n,), lambda i: te.sum(A[i, k] * A[p, k], axis=[k, p], where=p < n), name="Both"),
    ]
    n_of = min(6, 13)
    s = [a.prod(1), a.max(1), a.min(1), (a > 1.5).any(1), (a > -1.5).all(1), a[:, 2:].sum(1), np.where(a > 0, a, 0).sum(1),
         (a @ a[:n_of].T).sum(1)]  # fmt: skip
    for output, expected in list(zip(outputs, s))[:: 3 if target == "opencl" else 1]:  # PoCL takes its time
        close(run(output, a, target=target), expected, 1e-4)


@pytest.mark.parametrize("dtype, target", [*((t, "cpu") for t in ["float32", "int16", "uint8", "float64"]),
                                           pytest.param("float32", "opencl", marks=opencl),
                                           pytest.param("float32", "cuda", marks=cuda)])  # fmt: skip
def test_argmax(dtype, target):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), dtype, "A")
    k = te.reduce_axis((0, m))
    at, largest = te.compute((n,), lambda i: te.argmax(A[i, k], axis=k), name="best")
    lowest_at, _ = te.compute((n,), lambda i: te.argmin(A[i, k], axis=k), name="worst")
    a = array((7, 40), dtype)
    if dtype in FLOATS:
        a[2, 5] = a[2, 9] = np.nan
        a[3] = -np.inf
    close(run([at, largest, lowest_at], a, target=target), (a.argmax(1), a.max(1), a.argmin(1)))
    r = te.reduce_axis((0, n), "r")
    if target == "cpu":
        close(run(te.compute((), lambda: te.argmax(A[r, k], axis=[r, k]))[0], a), np.array(a.argmax()))


def test_reducer_of_ones_own():
    n = te.var("n")
    A = te.placeholder((n, 9), name="A")
    k = te.reduce_axis((0, 9))
    stats = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda s, t: (0.0, te.min_value(t)), "stats")
    C = te.compute((n,), lambda i: stats((A[i, k] * A[i, k], A[i, k]), axis=k, where=k != 4), name="C")
    a = array((5, 9))
    rest = np.delete(a, 4, 1)
    close(run(C, a), ((rest**2).sum(1), rest.max(1)))
    first = te.comm_reducer(lambda x, y: te.max(x, y), lambda t: te.min_value(t))
    close(run(te.compute((n,), lambda i: first(A[i, k], axis=k)), a), a.max(1))


def test_scans():
    n, m = te.var("n"), te.var("m")
    A, H = te.placeholder((n, m), name="A"), te.placeholder((n,), name="H")
    a, h = array((4, 21)), array(4)
    sums = te.scan((n, m), lambda i, t, s: s + A[i, t], 0.0, name="S", dtype="float64", out_dtype="float32")
    close(run(sums, a), a.astype("f8").cumsum(1).astype("f"))
    down = te.scan((n, m), lambda i, t, s: s + A[i, t], 0.0, axis=0)
    close(run(down, a), a.cumsum(0))
    decayed = te.scan((n, m), lambda i, t, y: y * 0.5 + A[i, t], 1.0)
    y, expected = np.ones(4, "f"), np.empty_like(a)
    for t in range(21):
        y = expected[:, t] = y * np.float32(0.5) + a[:, t]
    close(run(decayed, a), expected)
    # Fibonacci's numbers: two values, each of which needs the other.
    F, G = te.scan((m,), lambda t, x, y: (y, x + y), (te.const(0, "int64"), te.const(1, "int64")), name="F")
    close(run(list((F, G)), 8), (np.array([1, 1, 2, 3, 5, 8, 13, 21]), np.array([1, 2, 3, 5, 8, 13, 21, 34])))


def test_softmax_in_stages():
    """Stages read stages; a schedule fuses them."""
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "r")
    M = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="M")
    E = te.compute((n, m), lambda i, j: te.exp(A[i, j] - M[i]), name="E")
    S = te.compute((n,), lambda i: te.sum(E[i, r], axis=r), name="S")
    P = te.compute((n, m), lambda i, j: E[i, j] / S[i], name="P")
    s = te.create_schedule(P)
    row, _ = s.loops(P)
    for t in (S, E, M):
        s.compute_at(t, row)
    s.parallel(row)
    a = array((9, 33))
    e = np.exp(a - a.max(1, keepdims=True))
    close(te.build(s)(a), e / e.sum(1, keepdims=True))


@pytest.mark.parametrize("target", TARGETS)
def test_borders(target):
    """A padded window: what lies outside is not read."""
    n = te.var("n")
    A = te.placeholder((n, n), name="A")
    k, q = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 3), "q")
    P = te.compute((n + 2, n + 2), lambda i, j: te.if_then_else(te.all(i > 0, i <= n, 0 < j, j < n + 1), A[i - 1, j - 1], -1.0),
                   name="P")  # fmt: skip
    C = te.compute((n, n), lambda i, j: te.sum(P[i + k, j + q], axis=[k, q]), name="C")
    a = array((11, 11))
    padded = np.pad(a, 1, constant_values=-1)
    close(run(C, a, target=target), sum(padded[i : i + 11, j : j + 11] for i in range(3) for j in range(3)), 1e-4)


def test_what_is_not_known_to_be_inside_is_asked():
    n = te.var("n")
    A, I = te.placeholder((n,), name="A"), te.placeholder((n,), "int32", "I")
    C = te.compute((n,), lambda i: A[I[i]] * 2.0, name="C")
    s = te.create_schedule(C)
    s.parallel("l_i")
    f, a, at = te.build(s), array(8), np.array([7, 0, 3, 3, 1, 2, 6, 5], "i4")
    close(f(a, at), a[at] * 2)
    for wrong in (8, -1, 2**31 - 1):
        at[4] = wrong
        with pytest.raises((IndexError, RuntimeError), match=r"A\[.*outside"):
            f(a, at)
    safe = te.compute((n,), lambda i: A[te.max(0, te.min(I[i].astype("int64"), n - 1))], name="C")
    f = te.build(te.create_schedule(safe))
    assert "bounds_error" not in f.get_source("loops")
    close(f(a, at), a[np.clip(at, 0, 7)])
    with pytest.raises((IndexError, RuntimeError), match="outside"):
        run(te.compute((n,), lambda i: A[i + 1]), a)


def test_sizes():
    """Symbolic ones that divide nothing, expressions of them, those that no argument tells, those of extent 1 and 0."""
    n, m = te.var("n", low=0), te.var("m")
    A = te.placeholder((n, m), name="A")
    C = te.compute((m, n * 2 + 1), lambda j, i: te.if_then_else(i < n, A[i, j], te.cast(i * m, "float32")), name="C")
    s = te.create_schedule(C)
    s.tile("l_j", "l_i", 4, 8)
    f = te.build(s)
    for shape in [(5, 7), (1, 1), (16, 8), (0, 3), (3, 1)]:
        a = array(shape)
        i = np.arange(shape[0] * 2 + 1)
        expected = np.where(i < shape[0], np.pad(a.T, ((0, 0), (0, shape[0] + 1))), i * shape[1]).astype("f")
        close(f(a), expected)
    with pytest.raises(RuntimeError, match="m = 0 is outside 1..2147483647"):
        f(array((3, 0)))
    start = te.var("start", low=0)
    ramp = te.compute((n,), lambda i: i - start, name="ramp")
    close(run(ramp, 7, 4, args=[start, n]), np.arange(-7, -3))
    close(run(ramp, 4, 7), np.arange(-7, -3))
    k = te.reduce_axis((0, m))
    total = te.compute((), lambda: te.sum(A[0, k], axis=k), name="total")
    close(run(total, array((1, 5)) * 0 + 2), np.array(10, "f"))


def test_multiples_and_hints():
    n = te.var("n", multiple=8, high=1024, hint=512)
    A = te.placeholder((n,), name="A")
    s = te.create_schedule(te.compute((n,), lambda i: A[i] + 1, name="C"))
    s.split("l_i", 8)
    assert "where n in 1..1024 multiple 8 hint 512" in s.text and " if " not in s.text
    with pytest.raises(RuntimeError, match="n = 12"):
        te.build(s)(array(12))


def test_strides():
    n, m, s0, s1 = te.var("n"), te.var("m"), te.var("s0", low=0), te.var("s1")
    A = te.placeholder((n, m), name="A", strides=(s0, s1))
    f = te.build(te.create_schedule(te.compute((m, n), lambda j, i: A[i, j] + 0.5, name="C")))
    a = array((12, 10))
    for x in (a, a[::2, ::3], a.T, np.broadcast_to(a[:1], (4, 10))):
        close(f(x), x.T + np.float32(0.5))
    x = torch.randn(6, 5, device="cpu")
    torch.testing.assert_close(f(x[:, ::2]), x[:, ::2].t() + 0.5)
    close(f(a), f(a, out=np.empty((10, 12), "f")))


def test_a_row_of_every_step():
    """Methods are the C++ table's rows, and none is hidden by another attribute."""
    rows = library.get().list_steps()
    assert len(rows) > 30 and {r["on"] for r in rows} == {"stages", "loops"}
    s = te.create_schedule(copy_of_ones())
    for row in rows:
        assert row["name"] in dir(s) and getattr(s, row["name"]).args == (row["name"],), row
        with pytest.raises((ValueError, TypeError), match=f"expected {row['name']} |expected to="):
            getattr(s, row["name"])()
    assert len(s.history) == 1


def test_steps_on_stages():
    n = te.var("n")
    A = te.placeholder((n, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k] * 2, axis=k), name="B")
    s = te.create_schedule(B)
    assert s.define("doubled[i, k] = A[i, k] * f32(2.0)") is None and s.blocks() == ["b_doubled", "b_B"]
    assert s.unfold(B, "k", 16) == ("k_o", "k_i")
    part = s.rfactor(B, "k_i", to="part")
    assert part == "part" and s.loops("b_part") == ["l_part_0", "l_part_1", "l_k_o"]
    assert s.loops(B) == ["l_i", "l_k_i"]
    assert s.fold("part", to="all[part_0, part_1] k[k_o]") == ("all", "k")
    a = array((5, 64))
    close(te.build(s)(a), a.sum(1) * 2, 1e-4)


def test_axes_of_threads():
    """te.thread_axis as TVM's users write it, with an extent or without."""
    s = te.create_schedule(copy_of_ones())
    outer, inner = s.split("l_i", 2)
    s.bind(outer, te.thread_axis("blockIdx.x"))
    s.bind(inner, te.thread_axis((0, 2), "threadIdx.x"))
    assert s.schedule.splitlines()[1:] == ["bind l_i_o blockIdx.x", "bind l_i_i threadIdx.x"]


def test_words_of_loop_text():
    """What no buffer can be called is a fine name of an index or an axis."""
    A, k = te.placeholder((4, 2), name="A"), te.reduce_axis((0, 2), "nan")
    f = te.build(te.create_schedule(te.compute((4,), lambda true: te.sum(A[true, k], axis=k)), name="launch"))
    close(f(np.ones((4, 2), "f")), np.full(4, 2, "f"))


def test_names_that_are_not_given():
    A = te.placeholder((64, 64), name="A")
    s = te.create_schedule(te.compute((64, 64), lambda i, j: A[i, j], name="C"))
    assert s.split("l_i", 8) == ("l_i_o", "l_i_i") and s.split("l_j", 2, 8) == ("l_j_0", "l_j_1", "l_j_2")
    assert s.split("l_i_o", 2, to="l_i_o_x l_i_o_y") == ("l_i_o_x", "l_i_o_y")
    assert s.fuse("l_j_0", "l_j_1") == "l_j_0_fuse" and s.parallel("l_i_o_x") is None
    assert s.loops("b_C") == ["l_i_o_x", "l_i_o_y", "l_i_i", "l_j_0_fuse", "l_j_2"]
    assert s.schedule.splitlines()[0] == "split l_i 8 -> l_i_o l_i_i"
    a = array((64, 64))
    close(te.build(te.create_schedule(te.compute((64, 64), lambda i, j: A[i, j], name="C")).run(s.schedule))(a), a)


def test_what_is_seen():
    n = te.var("n")
    A = te.placeholder((n,), name="A<")  # refused below
    with pytest.raises(ValueError, match="letters"):
        te.create_schedule(te.compute((n,), lambda i: A[i]))
    A = te.placeholder((n,), name="A")
    s = te.create_schedule(te.compute((n,), lambda i: te.if_then_else(A[i] < 0, 0.0, A[i]), name="C"))
    s.split("l_i", 8, to=("io", "ii"))
    s.vectorize("ii")
    assert [step for step, _ in s.history] == ["", "split l_i 8 -> io ii", "vectorize ii"]
    diff = str(s.diff())
    assert "1: split l_i 8 -> io ii" in diff and "2: vectorize ii" in diff and "| " in diff
    assert sum(" | " in line for line in diff.splitlines()) == 1
    assert "for l_i in 0..n" in str(s.diff(0, 1)) and "<table" in s.diff()._repr_html_()
    assert "ramp(" in te.lower(s) and te.lower(s)._repr_html_().startswith("<pre>")
    with pytest.raises(IndexError, match="step 7 of 2"):
        s.diff(0, 7)
    f = te.build(s, "c", "")
    assert "io" in f.get_source() and "restrict" in f.get_source("c")
    with pytest.raises(ValueError, match="no source of kind 'nothing'; there are stages, schedule, loops, c"):
        f.get_source("nothing")
    with pytest.raises(RuntimeError, match="'c'"):
        f(array(3))
    f = te.build(s)
    for kind, part in {"stages": "block b_C", "schedule": "vectorize ii", "loops": "@program_k0(", "llvm": "define", "asm": ".globl",
                       "c": "int32_t"}.items():  # fmt: skip
        assert part in f.get_source(kind)
    assert f.get_source("object").startswith(b"\x7fELF") and len(f.get_source("object")) > 500
    assert "Function program(A: f32['n']) -> f32['n'], for cpu" == repr(f)


def test_source_for_devices_that_are_not_here():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    s = te.create_schedule(te.compute((n,), lambda i: A[i] * 2.0, name="C"))
    assert "grid(1, 1, 1)" in te.build(s, "cuda -arch=sm_90a").get_source("loops")  # one thread, until loops are bound
    s.bind("l_i", "blockIdx.x")
    assert "__global__" in te.build(s, "cuda -arch=sm_90a").get_source()
    assert "__kernel" in te.build(s, "opencl").get_source()
    assert "metal_stdlib" in te.build(s, "metal").get_source()
    assert "hip_runtime.h" in te.build(s, "hip -arch=gfx942").get_source()
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="[Cc][Uu][Dd][Aa]"):
            te.build(s, "cuda")(array(3))


def copies():
    return te.create_schedule(copy_of_ones())


def bad(make):
    n = te.var("n")
    A, k = te.placeholder((n, 8), name="A"), te.reduce_axis((0, 8))
    return make(n, A, k)


@pytest.mark.parametrize("make, message", [
    (lambda n, A, k: te.compute((n,), lambda i: A[i]), "A has 2 dimensions and is indexed by 1"),
    (lambda n, A, k: te.compute((n,), lambda i, j: A[i, j]), "expected a function of 1 indices, got 2"),
    (lambda n, A, k: te.compute((n,), lambda i: A), "expected an element of it"),
    (lambda n, A, k: te.compute((n,), lambda i: A[i, 0.5]), "0.5 with int64"),
    (lambda n, A, k: te.compute((n,), lambda i: A[i, :]), "expected indices of one element"),
    (lambda n, A, k: te.compute((n,), lambda i: "x"), "expected an expression or a number, got str"),
    (lambda n, A, k: te.compute((n,), lambda i: i / 2), "/ of int64: use //"),
    (lambda n, A, k: te.compute((n,), lambda i: i + 0.5), "0.5 with int64: cast one"),
    (lambda n, A, k: te.compute((n,), lambda i: A[i, 0] % 2), "% of float32: expected integers"),
    (lambda n, A, k: te.compute((n,), lambda i: 1.0 if A[i, 0] > 0 else 2.0), "has no truth value"),
    (lambda n, A, k: te.compute((n,), lambda i: te.sum(A[i, k], axis=k) + 1), "a reduction is all that a compute computes"),
    (lambda n, A, k: te.compute((n,), lambda i: te.exp(te.sum(A[i, k], axis=k))), "a reduction is all"),
    (lambda n, A, k: te.compute((n,), lambda i: te.sum(A[i, k], axis=n)), "expected what te.reduce_axis gives"),
    (lambda n, A, k: te.compute((n,), lambda i: te.sum(A[i, k] > 0, axis=k)), "sum of bool: cast first"),
    (lambda n, A, k: te.compute((n,), lambda i: te.any(A[i, k], axis=k)), "any of float32"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, k])), "reduce axis that nothing reduces over"),
    (lambda n, A, k: te.create_schedule(A), "expected what te.compute"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, 0], name="A")), "the name A is taken"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, 0], name="for")), "tensor: for is a word of loop text"),
    (lambda n, A, k: te.create_schedule(te.compute((te.var("inf"),), lambda i: 1.0)), "var: inf is a word of loop text"),
    (lambda n, A, k: te.scan(A, A, A), "shape: expected sizes, got Tensor"),
    (lambda n, A, k: te.compute((n,), lambda i: te.sum(A[i, k], axis=k, init=1.0)), "sum: a reduction begins with what changes nothing"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, 0]), args=[n]), "is missing"),
    (lambda n, A, k: te.create_schedule(te.compute((n, n), lambda i, j: te.exp(i))), "exp"),
    (lambda n, A, k: te.create_schedule(te.compute((k,), lambda i: 1.0)), "a size speaks of k"),
    (lambda n, A, k: te.compute((n,), lambda i: te.const(300, "uint8")), "300 is no uint8, 0 to 255"),
    (lambda n, A, k: te.compute((n,), lambda i: te.cast(i, "complex64")), "unknown dtype 'complex64'"),
    (lambda n, A, k: te.placeholder((-1,)), "expected sizes from 0 up, got -1"),
    (lambda n, A, k: te.placeholder((n,), strides=(1, 1)), "1 dimensions and 2 strides"),
    (lambda n, A, k: te.scan((n,), lambda i, s: A[i, 0], 0), "running values are int32 and the next is float32"),
    (lambda n, A, k: te.scan((n,), lambda i, s: s, 0, axis=3), "scan: axis 3 of 1 dimensions"),
    (lambda n, A, k: te.frobnicate, "no attribute 'frobnicate'"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, 0])).frobnicate, "no step 'frobnicate'; there are align"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, 0])).split("nothing", 8), "nothing"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, 0])).split("l_i"), "expected split LOOP|expected to="),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, 0])).split("l_i", "x"), "expected a factor"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: A[i, 0])).inline(A), "no stage of this schedule"),
    (lambda n, A, k: te.create_schedule(te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="C")).parallel("l_k"),
     "step 'parallel l_k'"),
    # As in TVM.
    (lambda n, A, k: te.var("n", "float32"), "var n: expected int32 or int64, got float32"),
    (lambda n, A, k: te.size_var("n", "int32", high=2**31), "var n: 2147483648 is no int32"),
    (lambda n, A, k: copies().split("l_i", factor=64), "split: expected arguments in the order of .*, got factor="),
    (lambda n, A, k: copies().compute_inline("C"), "no step 'compute_inline': here it is inline"),
    (lambda n, A, k: copies()["C"], "s.split"),
    (lambda n, A, k: te.lower(copies(), [A]), "target: expected a text .*is given arguments"),
    (lambda n, A, k: te.build(copies(), [A], "llvm"), "target: expected a text .*is given arguments"),
    (lambda n, A, k: te.build(copies(), 3), "target: expected a text such as .*got 3"),
    (lambda n, A, k: te.thread_axis((0, 64)), "thread_axis: expected a name"),
    (lambda n, A, k: te.build(te.create_schedule(te.compute((n,), lambda i: A[i, 0])), "nowhere"), "nowhere"),
])  # fmt: skip
def test_errors(make, message):
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        bad(make)


def test_wrong_calls():
    n = te.var("n", high=100)
    A, B = te.placeholder((n, 8), name="A"), te.placeholder((n,), "int32", "B")
    C, D = te.compute((n,), lambda i: (A[i, 0], B[i]), name="C")
    f = te.build(te.create_schedule([C, D], name="pair"))
    a, b = array((3, 8)), array(3, "int32")
    frozen = np.empty(3, "f")
    frozen.flags.writeable = False
    for args, kind, message in [
        ((a,), TypeError, "pair: expected 2 arguments, and 2 results or none, got 1"),
        ((a, b, a), TypeError, "got 3"),
        ((a, [1, 2, 3]), TypeError, "argument 'B': expected an array or a tensor, got list"),
        ((a.astype("f8"), b), RuntimeError, r"argument 'A': expected f32\[n,8\], got f64\[3,8\]"),
        ((a[:, :7], b), RuntimeError, "argument 'A'"),
        ((a[::2], b), RuntimeError, "argument 'A'"),
        ((a, array(4, "int32")), RuntimeError, "argument 'B'.*expected 3|dimension 0 is 4"),
        ((array((101, 8)), array(101, "int32")), RuntimeError, r"n = 101 is outside 1\.\.100"),
        ((a, b, np.empty(4, "f"), np.empty(3, "i4")), RuntimeError, "result 'C': .*dimension 0 is 4, expected n = 3"),
        ((a, b, frozen, np.empty(3, "i4")), ValueError, "result 0: the array is read-only"),
        ((a.astype("c8"), b), TypeError, "unknown dtype"),
        ((a.astype(">f4"), b), TypeError, "byte order"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=message):
            f(*args)
    close(f(a, b), (a[:, 0], b))


@opencl
def test_opencl_tensors_are_the_hosts():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1, name="C")
    s = te.create_schedule(C)
    x, t = s.split("l_i", 64)
    s.bind(x, "blockIdx.x")
    s.bind(t, "threadIdx.x")
    f = te.build(s, "opencl")
    x = torch.randn(1000, device="cpu")
    torch.testing.assert_close(f(x), x + 1)
    out = np.empty(1000, "f")
    close(f(x.numpy(), out), x.numpy() + 1)


@cuda
def test_tensors_on_a_gpu():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), torch.bfloat16, "A")
    k = te.reduce_axis((0, m))
    C = te.compute((n,), lambda i: te.sum(A[i, k].astype("float32"), axis=k), name="C")
    s = te.create_schedule(C)
    i, j = s.loops(C)
    _, thread = s.split(j, 32, to=("step", "thread"))
    s.reorder(i, thread, "step")
    s.bind(i, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    f, x = te.build(s, "cuda"), torch.randn(100, 77, device="cpu").to(torch.bfloat16)
    on_gpu = x.cuda()
    torch.testing.assert_close(f(on_gpu), on_gpu.float().sum(1))
    torch.testing.assert_close(f(x), x.float().sum(1))  # tensors of the host are copied
    with torch.cuda.stream(torch.cuda.Stream()):
        out = torch.empty(100, device="cuda")
        assert f(on_gpu * 2, out) is out
    torch.cuda.synchronize()
    torch.testing.assert_close(out, on_gpu.float().sum(1) * 2)
    with pytest.raises(RuntimeError, match="result 'C'"):
        f(on_gpu, torch.empty(100, device="cpu"))
    assert ".visible .entry" in f.get_source("ptx")


@cuda
def test_places_are_asked_on_a_gpu():
    n = te.var("n")
    A, I = te.placeholder((n,), name="A"), te.placeholder((n,), "int32", "I")
    s = te.create_schedule(te.compute((n,), lambda i: A[I[i]], name="C"))
    f, a = te.build(bind_all(s), "cuda"), torch.randn(8, device="cuda")
    at = torch.arange(8, device="cuda", dtype=torch.int32)
    torch.testing.assert_close(f(a, at), a)


def test_text_of_ones_own():
    """build takes loop text, too: one function, or several and an entry."""
    text = """func @twice(x: f32[n], y: f32[n] out) where n in 1..4096 {
  for i in 0..n { block b(vi in 0..n = i) { y[vi] = x[vi] * 2.0 } }
}
"""
    a = array(10)
    close(te.build(text, schedule="split i 4 -> o ii\nunroll ii // all")(a), a * 2)
    entry = text + "func @main entry (x: f32[8], y: f32[8] out) { call @twice(&x[0], &y[0]) }"
    with pytest.raises(ValueError, match="@twice takes 2 arguments|n"):
        te.build(entry.replace("y[0])", "y[0], 5)"))
    for wrong, message in [
        ("func @f(", "expected"), (text.replace(" out", ""), "y is written and not marked out"),
        (text.replace("x: f32[n]", "x: f32[n] out"), "x is marked out and nothing writes it"),
        (text.replace("x: f32[n],", "x: f32[n], a: f32,"), "parameter a: expected a tensor, or an i64 with a range"),
        (text.replace("x: f32[n]", "x: f32[n] static"), "nothing prepares it"),
        (text + text.replace("@twice", "@thrice"), "none of 2 functions is an entry"),
        (text.replace("n] ", "m] ").replace("in 0..n = i", "in 0..n = i"), "m"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            te.build(wrong)


def scaled(target):
    """x * 2, and what builds it for a target."""
    n = te.var("n", high=4096)
    x = te.placeholder((n,), name="x")
    s = te.create_schedule(te.compute((n,), lambda i: x[i] * 2.0, name="y"), name="scale")
    if target != "c":
        block, thread = s.split("l_i", 8)
        s.bind(block, "blockIdx.x")
        s.bind(thread, "threadIdx.x")
    return lambda **hooks: te.build(s, target, **hooks)


@opencl
@pytest.mark.parametrize("target", TARGETS[1:])
def test_roles_of_threads(target):
    """16 of 64 threads fill the ring, two iterations ahead of all; then 32 add with other loops than the rest."""
    text = """func @rows(x: f32[n, 512] align 16, y: f32[n, 64] out) where n in 1..4096 {
      alloc s: f32[64] @shared
      for i in 0..n {
        for k in 0..8 {
          for t in 0..16 {
            for v in 0..4 {
              block a(vi in 0..n = i, vt in 0..512 = k * 64 + t * 4 + v) { s[vt % 64] = x[vi, vt] }
            }
          }
          for u in 0..64 {
            block b(wi in 0..n = i, wu in 0..64 = u, wk reduce 0..8 = k) init { y[wi, wu] = 0.0 } {
              y[wi, wu] = y[wi, wu] + s[63 - wu]
            }
          }
        }
      }
    }"""
    steps = "split_init b k -> start\nbind i blockIdx.x\nbind t threadIdx.x\nbind u threadIdx.x\nbind u_init threadIdx.x\n" \
            "vectorize v\npipeline k 3\nspecialize b u < 32 -> first"  # fmt: skip
    x = array((5, 512))
    close(te.build(text, target, steps)(x), x.reshape(5, 8, 64)[:, :, ::-1].sum(1), 1e-4)
    source = te.build(text, "cuda -arch=sm_90a", steps).get_source()
    assert "if (i2 < 16)" in source and "cp.async" in source and " < 32)" in source, source


def test_source_of_ones_own():
    build, x = scaled("opencl"), array(100)
    source = """
        __kernel void scale_k0_kernel(long n, __global const float* x, long x_at, __global float* y, long y_at) {
          if (get_global_id(0) < n) y[get_global_id(0) + y_at / 4] = x[get_global_id(0) + x_at / 4] * 7;
        }"""
    np.testing.assert_array_equal(build(source=source)(x), x * 7)
    seen = []

    def thrice(text, language):
        seen.append((text, language))
        return text.replace("2.0f", "3.0f")

    f = build(rewrite=thrice)
    np.testing.assert_array_equal(f(x), x * 3)
    assert seen[0] == (build().get_source(), "opencl") and f.get_source() == seen[0][0].replace("2.0f", "3.0f")
    np.testing.assert_array_equal(build(source=source.replace("7", "2.0f"), rewrite=thrice)(x), x * 3)
    with pytest.raises(RuntimeError, match=r"the source has no function 'scale_k0_kernel\(...\)'"):
        build(source=source.replace("scale_k0", "other"))(x)
    with pytest.raises(RuntimeError, match="compiling OpenCL C for"):
        build(rewrite=lambda text, _: text.replace("2.0f", "nonsense"))(x)


def test_source_that_is_rewritten():
    for target in "c", "cuda -arch=sm_90a", "opencl":
        build = scaled(target)
        assert build(rewrite=lambda text, _: text.replace("2.0f", "9.0f")).get_source() == build().get_source().replace("2.0f", "9.0f")

        def breaks(text, language):
            raise KeyError(language)

        with pytest.raises(ValueError, match=r"rewriting the source \((c|cuda|opencl)\): .*breaks: KeyError: ") as why:
            build(rewrite=breaks).get_source()
        assert isinstance(why.value.__cause__, KeyError)
        with pytest.raises(ValueError, match="<lambda>: TypeError: expected str, got NoneType"):
            build(rewrite=lambda text, language: None).get_source()
    with pytest.raises(ValueError, match="device 'x86_64': its functions have no source text that is compiled"):
        te.build(te.create_schedule(copy_of_ones()), rewrite=lambda text, _: text)
    with pytest.raises(TypeError, match="source: expected the text of kernels"):
        build(source="")
    with pytest.raises(TypeError, match="rewrite: expected a function, got 'text'"):
        build(rewrite="text")


def test_a_compiler_of_ones_own():
    build = scaled("cuda -arch=sm_90a")
    with pytest.raises(ValueError, match="compiling CUDA .*: .*<lambda>: ZeroDivisionError: ") as why:
        build(compiler=lambda source, arch, options: 1 // 0).get_source("ptx")
    assert isinstance(why.value.__cause__, ZeroDivisionError)
    seen = []
    assert build(compiler=lambda *args: seen.append(args) or b".version 1").get_source("ptx") == ".version 1"
    source, arch, options = seen[0]
    assert source == build().get_source().replace("// scale_k0_kernel\n", "")
    assert arch == "sm_90a" and options == ["-ptx", "--fmad=true", "--prec-div=false", "--prec-sqrt=false"]
    with pytest.raises(ValueError, match="expected a cubin, a fatbin or PTX, got 4 bytes"):
        build(compiler=lambda *_: b"code").get_source("ptx")
    with pytest.raises(ValueError, match="device 'opencl': there is no compiler of opencl source to replace"):
        scaled("opencl")(compiler=lambda *_: b"code")


def test_nvcc_as_a_compiler_of_ones_own(tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc in PATH")

    def nvcc(source, arch, options):
        (tmp_path / "k.cu").write_text(source)
        subprocess.run(["nvcc", f"-arch={arch}", *options, "-o", tmp_path / "k", tmp_path / "k.cu"], check=True)
        return (tmp_path / "k").read_bytes()

    assert ".target sm_90a" in scaled("cuda -arch=sm_90a")(compiler=nvcc).get_source("ptx")


def test_a_function_is_saved_and_loaded_again(tmp_path):
    n = te.var("n")
    a, b = (te.placeholder((n,), "float32", name) for name in "ab")
    f = te.build(te.create_schedule(te.compute((n,), lambda i: a[i] + b[i] * 2, "c")))
    f.export_library(str(tmp_path / "axpy.so"))
    for wrong, message in ((), "expected functions to write, got none"), ((f, "f"), "expected what te.build gives, got str"):
        with pytest.raises(TypeError, match=message):
            te.export_library(tmp_path / "none.so", *wrong)
    loaded = cinn_like.load_library(str(tmp_path / "axpy.so"))
    for count in (1, 77):
        x, y = array(count), array(count)
        np.testing.assert_array_equal(loaded(x, y), f(x, y))
    with pytest.raises(RuntimeError, match="can't write"):
        f.export_library(str(tmp_path / "no" / "such.so"))


@pytest.fixture
def registered():
    """Registers functions for a test."""
    names = []

    def register(name, f):
        names.append(name)
        cinn_like.register_func(name, f)

    yield register
    for name in names:
        cinn_like.remove_global_func(name)


def test_extern(registered):
    """Between computed stages, of several outputs, sizes and kinds of input."""
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A", strides=(te.var("s"), te.var("t")))
    T = te.compute((n, m), lambda i, j: A[i, j] * 2, name="T")

    def split(a, t, k, x, flag, top, count, ends):
        assert (k, x, flag) == (a.shape[0] + 1, 0.5, True)
        top[...] = np.sort(t, 0)[::-1] + a
        count[...] = (t > x).sum(0)
        ends[...] = [t.min(), t.max()]

    registered("test.split", split)
    for function in ("test.split", split):
        top, count, ends = te.extern(
            [(n, m), (m,), (2,)], [A, T, n + 1, 0.5, True], function, name="top", dtype=["float32", "int64", "float64"]
        )
        Y = te.compute((n, m), lambda i, j: top[i, j] - te.cast(count[j], "float32"), name="Y")
        s = te.create_schedule([Y, count, ends])
        s.parallel(s.loops(T)[0])
        s.vectorize(s.split(s.loops(Y)[1], 8)[1])
        assert s.loops(top) == [] and te.create_schedule([Y]).run(s.schedule).text
        library_text = library.get().run_on_text(s.text)
        assert library_text == s.text
        a = array((14, 5)).T[:, ::2]
        y, c, e = te.build(s)(a)
        t = 2 * a
        close(y, np.sort(t, 0)[::-1] + a - (t > 0.5).sum(0).astype("float32"))
        close(c, (t > 0.5).sum(0))
        close(e, np.array([t.min(), t.max()], "float64"))


def test_extern_without_inputs_and_of_a_compiled_function(registered):
    ones = te.extern((3,), [], lambda y: y.fill(1), name="ones", dtype="float64")
    close(te.build(te.create_schedule(te.compute((3,), lambda i: ones[i] + 1, name="C")))(), np.full(3, 2.0))
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    registered("test.twice", te.build(te.create_schedule(te.compute((n,), lambda i: A[i] * 2, name="B"), name="twice")))
    twice = te.extern((n,), A, "test.twice", name="twice")
    f = te.build(te.create_schedule(te.compute((n,), lambda i: twice[i] + 1, name="C")))
    a = array(100)
    close(f(a), a * 2 + 1)


def test_extern_of_bfloat16():
    n = te.var("n")
    A = te.placeholder((n,), "bfloat16", "A")
    E = te.extern((n,), [A], lambda x, y: [torch.from_dlpack(y).copy_(torch.from_dlpack(x) * 2)] and None, name="E")
    f, x = te.build(te.create_schedule(te.compute((n,), lambda i: E[i] + E[i], name="C"))), torch.randn(33, device="cpu").bfloat16()
    assert torch.equal(f(x), x * 4)


def test_extern_errors(registered, tmp_path):
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), "int64", "B")
    E = te.extern((n,), [A], "test.unknown", name="E")
    f = te.build(te.create_schedule(E))
    with pytest.raises(RuntimeError, match="no function 'test.unknown' is registered"):
        f(array(3))

    def fails(x, y):
        raise KeyError("which")

    registered("test.unknown", fails)
    with pytest.raises(RuntimeError, match="function 'test.unknown': KeyError: 'which'") as raised:
        f(array(3))
    assert isinstance(raised.value.__cause__, KeyError)
    kept = []
    cinn_like.register_func("test.unknown", lambda x, y: kept.append(x), override=True)
    with pytest.raises(RuntimeError, match="argument 0 is still in use after the call"):
        f(array(3))
    assert 'cinn_call_function(0, "test.unknown", words, 2, 0)' in te.build(te.create_schedule(E), "c").get_source()
    unnamed = te.build(te.create_schedule(te.extern((n,), [A], fails, name="E")))
    with pytest.raises(ValueError, match="a file calls functions by name: register_func\\('fails'\\) first"):
        unnamed.export_library(tmp_path / "f.so")
    with pytest.raises(TypeError, match="expected dtype=, of inputs of float32, int64"):
        te.extern((n,), [A, B], "f")
    with pytest.raises(TypeError, match="expected dtype=, of inputs of none"):
        te.extern((n,), [], "f")
    with pytest.raises(TypeError, match="extern: input 1: expected a tensor or a number, got str"):
        te.extern((n,), [A, "x"], "f")
    with pytest.raises(ValueError, match="2 shapes and 1 dtypes"):
        te.extern([(n,), (n,)], [A], "f", dtype=["float32"])
    with pytest.raises(ValueError, match="no function can be named"):
        te.extern((n,), [A], 'a"b')
    with pytest.raises(TypeError, match="expected a function's name or a function, got int"):
        te.extern((n,), [A], 3)
    s = te.create_schedule(te.compute((n,), lambda i: E[i] + 1, name="C"))
    with pytest.raises(ValueError, match='block b_E calls "test.unknown", which computes its outputs as a whole'):
        s.inline(E)
    with pytest.raises(ValueError, match='scope E: "test.unknown" takes it'):
        s.scope("E", "local")


@pytest.mark.parametrize("target", TARGETS)
def test_extern_between_kernels(target):
    n = te.var("n")
    A = te.placeholder((n, 4), name="A")
    T = te.compute((n, 4), lambda i, j: A[i, j] * 2, name="T")

    def sort(t, a, size, ordered, rows):
        assert size == t.shape[0] and t.strides == a.strides == ordered.strides == (16, 4)
        ordered[...] = np.sort(t + a, 1)
        rows[...] = np.arange(size)

    ordered, rows = te.extern([(n, 4), (n,)], [T, A, n], sort, name="ordered", dtype=["float32", "int32"])
    C = te.compute((n, 4), lambda i, j: ordered[i, j] + te.cast(rows[i], "float32"), name="C")
    s = te.create_schedule([C, rows])
    if target != "cpu":
        bind_all(s)
    f = te.build(s, target)
    for size in (1, 57):
        a = array((size, 4))
        c, r = f(a)
        close(c, np.sort(3 * a, 1) + np.arange(size, dtype="float32")[:, None])
        close(r, np.arange(size, dtype="int32"))
    if target == "cuda":
        a = torch.randn(57, 4, device="cpu")
        torch.testing.assert_close(f(a.cuda())[0].cpu(), f(a)[0])
    failing = te.extern((n, 4), [T], lambda t, out: {}["which"], name="failing")
    s = te.create_schedule(te.compute((n, 4), lambda i, j: failing[i, j], name="D"))
    if target != "cpu":
        bind_all(s)
    with pytest.raises(RuntimeError, match="KeyError: 'which'"):
        te.build(s, target)(array((3, 4)))


def test_extern_functions_live_as_long_as_code_that_calls_them():
    gc.collect()
    before = cinn_like.list_global_func_names()
    A = te.placeholder((3,), name="A")
    f = te.build(te.create_schedule(te.extern((3,), [A], lambda x, y: np.copyto(y, x), name="E")))
    gc.collect()
    close(f(np.ones(3, "float32")), np.ones(3, "float32"))
    assert len(cinn_like.list_global_func_names()) == len(before) + 1
    del f
    gc.collect()
    assert cinn_like.list_global_func_names() == before


def test_extern_in_a_library(registered, tmp_path):
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    E = te.extern((n,), [A], "test.in_library", name="E")
    te.build(te.create_schedule(te.compute((n,), lambda i: E[i] + 1, name="C"), name="f")).export_library(tmp_path / "f.so")
    f = cinn_like.load_library(tmp_path / "f.so")
    with pytest.raises(RuntimeError, match="no function 'test.in_library' is registered"):
        f(array(3))
    registered("test.in_library", lambda x, y: np.multiply(x, 3, out=y))
    a = array(9)
    close(f(a), a * 3 + 1)
    close(f(torch.from_numpy(a)).numpy(), a * 3 + 1)
