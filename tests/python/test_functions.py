"""Functions by name between Python and C++ (cinn_like.register_func, get_global_func), and compiled ones for tvm-ffi."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref

import cinn_like
import numpy as np
import pytest
import torch
from cinn_like import abi, functions, library, loaded, te

pytestmark = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")


@pytest.fixture(autouse=True)
def names():
    """What a test registers it leaves to nobody."""
    before = set(cinn_like.list_global_func_names())
    yield
    for name in set(cinn_like.list_global_func_names()) - before:
        cinn_like.remove_global_func(name)


def add_function():
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return te.build(te.create_schedule(te.compute((n,), lambda i: A[i] + B[i], name="C"), name="add"))


def test_values_go_both_ways():
    got = []
    cinn_like.register_func("test.same", lambda *args: got.extend(args) or (args[0] if args else None))
    same = cinn_like.get_global_func("test.same")
    for x in (0, -(2**63), 2**63 - 1, 1.5, True, False, "text é", "", None):
        result = same(x, 7)
        assert result == x and type(result) is type(x)
        assert got[-2:] == [x, 7]
    assert same() is None
    assert same(np.float32(0.5)) == 0.5 and same(np.int8(-3)) == -3 and same(np.bool_(True)) is True
    assert "test.same" in cinn_like.list_global_func_names()


def test_tensors_are_arrays_over_the_callers_memory():
    @cinn_like.register_func("test.scale")
    def scale(x, factor, y):
        assert type(x) is np.ndarray
        y[...] = x * factor
        return float(x.sum())

    f = cinn_like.get_global_func("test.scale")
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.zeros((4, 3), "float32")
    assert f(x.T, 2.0, y) == 66
    np.testing.assert_array_equal(y, x.T * 2)
    t = torch.zeros(4, 3, device="cpu")
    f(torch.from_numpy(x).T, 3, t)
    torch.testing.assert_close(t.numpy(), x.T * 3)
    for dtype in ("bool", "uint8", "int64", "float16", "float64"):
        x, y = np.ones((0, 2), dtype), np.ones((), dtype)
        f(x, 1, np.empty((0, 2), dtype))
        f(y, 1, y)
    bf16, out = torch.ones(3, dtype=torch.bfloat16, device="cpu"), []
    cinn_like.register_func("test.bf16", lambda x: out.append(torch.from_dlpack(x).clone()))
    cinn_like.get_global_func("test.bf16")(bf16)
    assert torch.equal(out[0], bf16)


def test_what_is_refused():
    with pytest.raises(ValueError, match="no function 'test.none' is registered"):
        cinn_like.get_global_func("test.none")
    assert cinn_like.get_global_func("test.none", allow_missing=True) is None
    with pytest.raises(ValueError, match="no function 'test.none' is registered"):
        cinn_like.remove_global_func("test.none")
    f = cinn_like.register_func("test.f", lambda *args: args[0])
    with pytest.raises(ValueError, match="function 'test.f' is registered already"):
        cinn_like.register_func("test.f", f)
    cinn_like.register_func("test.f", f, override=True)
    with pytest.raises(ValueError, match="has no quotes"):
        cinn_like.register_func('a"b', f)
    with pytest.raises(TypeError, match="expected a function, got int"):
        cinn_like.register_func("test.g", 3)
    call = cinn_like.get_global_func("test.f")
    with pytest.raises(TypeError, match="test.f: argument 1: expected a tensor, a number, a bool, a string or None, got dict"):
        call(1, {})
    with pytest.raises(OverflowError, match="test.f: argument 0: .* more than 64 bits"):
        call(2**63)
    assert call(np.ones(3)) is None
    cinn_like.register_func("test.f", lambda x: x + 1, override=True)
    with pytest.raises(RuntimeError, match="function 'test.f': TypeError: expected a number, .* got ndarray"):
        cinn_like.get_global_func("test.f")(np.ones(3))


def test_an_exception_that_can_not_say_what_it_is():
    class Mute(Exception):
        def __str__(self):
            raise ValueError

    def fails():
        raise Mute

    cinn_like.register_func("test.f", fails, override=True)
    with pytest.raises(RuntimeError, match="function 'test.f': Mute$"):
        cinn_like.get_global_func("test.f")()


def test_exceptions_name_the_function_and_are_the_cause():
    class Mine(Exception):
        pass

    @cinn_like.register_func
    def fails(x):
        raise Mine("bad luck")

    cinn_like.register_func("test.outer", lambda x: cinn_like.get_global_func("fails")(x))
    with pytest.raises(RuntimeError, match="function 'fails': Mine: bad luck") as raised:
        cinn_like.get_global_func("fails")(1)
    assert isinstance(raised.value.__cause__, Mine)
    with pytest.raises(RuntimeError, match="function 'test.outer': RuntimeError: function 'fails': Mine: bad luck"):
        cinn_like.get_global_func("test.outer")(1)
    with pytest.raises(RuntimeError, match="function 'fails': TypeError: .*positional argument"):
        cinn_like.get_global_func("fails")()


def test_memory_of_a_call_is_not_kept():
    kept = []
    cinn_like.register_func("test.keep", lambda x, y: kept.append(y[1:]))
    with pytest.raises(RuntimeError, match="function 'test.keep': ValueError: argument 1 is still in use after the call"):
        cinn_like.get_global_func("test.keep")(np.ones(3), np.ones(3))
    kept.clear()
    cinn_like.register_func("test.copy", lambda x: kept.append(x.copy()))
    cinn_like.get_global_func("test.copy")(np.ones(3))

    def cycle(x):
        loop = [x]
        loop.append(loop)

    cinn_like.register_func("test.cycle", cycle)
    cinn_like.get_global_func("test.cycle")(np.ones(3))


def test_functions_live_as_long_as_they_are_needed():
    class Callable:
        def __call__(self):
            return 5

    f = Callable()
    alive = weakref.ref(f)
    cinn_like.register_func("test.f", f)
    del f
    gc.collect()
    found = cinn_like.get_global_func("test.f")
    cinn_like.remove_global_func("test.f")
    gc.collect()
    assert found() == 5 and alive() is not None
    del found
    gc.collect()
    assert alive() is None and not any(x is alive for x, _ in functions._kept.values())


def test_threads_of_python_and_of_others():
    """A thread that Python has not made calls, too: one of C, by the callback of a timer."""
    seen = []
    cinn_like.register_func("test.seen", lambda x: seen.append(x))
    f = cinn_like.get_global_func("test.seen")
    threads = [threading.Thread(target=lambda k=k: [f(k) for _ in range(50)]) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(seen) == sorted([0, 1, 2, 3] * 50)
    # pthread_create(CinnGlobalList) for its own sake would say nothing: the thread calls the function itself.
    lib = ctypes.CDLL(str(library.path()))
    start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

    def run(_):
        value, handle = abi.Value(1, 0, 99), ctypes.c_void_p()
        lib.CinnGlobalFind(b"test.seen", ctypes.byref(handle))
        lib.CinnGlobalCall(handle, ctypes.byref(value), 1, None)
        lib.CinnGlobalRelease(handle)
        return None

    entry, thread = start(run), ctypes.c_ulong()
    libc = ctypes.CDLL(None)
    assert libc.pthread_create(ctypes.byref(thread), None, entry, None) == 0
    libc.pthread_join(thread, None)
    assert seen[-1] == 99


def test_the_runtime_of_libraries_has_them_too():
    cinn_like.register_func("test.both", lambda x: x + 1)
    registry = next(r for r in [*functions._registries, loaded._runtime() and functions._registries[-1]]
                    if not hasattr(r._lib, "CinnCompile"))  # fmt: skip
    assert "test.both" in registry.names()
    f = functions.GlobalFunction(registry, "test.both", registry.find("test.both"))
    assert f(2) == 3
    cinn_like.remove_global_func("test.both")
    assert "test.both" not in registry.names() and f(3) == 4


def test_compiled_functions_are_functions():
    """Called by name without Python, results given."""
    add = add_function()
    cinn_like.register_func("test.add", add)
    a, b, out = np.arange(5, dtype="float32"), np.ones(5, "float32"), np.zeros(5, "float32")
    f = cinn_like.get_global_func("test.add")
    assert f(a, b, out) is None
    np.testing.assert_array_equal(out, a + b)
    with pytest.raises(RuntimeError, match=r"function 'test.add': add: expected 2 arguments, and none or 1 tensors for results, "
                       r"those of @add\(A: f32\[n\], B: f32\[n\]\) -> f32\[n\], got 1"):  # fmt: skip
        f(a)
    with pytest.raises(RuntimeError, match="function 'test.add': add: argument 'B': expected"):
        f(a, b.astype("float64"), out)


def test_tvm_ffi_takes_compiled_functions():
    tvm_ffi = pytest.importorskip("tvm_ffi")
    add = add_function()
    f = add.to_tvm_ffi()
    alive = weakref.ref(add)
    del add
    gc.collect()
    assert isinstance(f, tvm_ffi.Function)
    a, b = torch.rand(7, device="cpu"), torch.rand(7, device="cpu")
    assert torch.equal(torch.from_dlpack(f(a, tvm_ffi.from_dlpack(b))), a + b)
    out = torch.empty(7, device="cpu")
    f(a, b, out)
    assert torch.equal(out, a + b)
    tvm_ffi.register_global_func("test.cinn_like.add", f, override=True)
    assert torch.equal(torch.from_dlpack(tvm_ffi.get_global_func("test.cinn_like.add")(a, b)), a + b)
    tvm_ffi.remove_global_func("test.cinn_like.add")
    with pytest.raises(RuntimeError, match="add: expected 2 arguments, and none or 1 tensors for results.* got 1"):
        f(a)
    with pytest.raises(RuntimeError, match="add: argument 'B': expected f32"):
        f(a, b.double())
    del f
    gc.collect()
    assert alive() is None


def test_registered_functions_outlive_nothing():
    """Python ends while functions are registered and found."""
    code = (
        "import cinn_like\n"
        "from cinn_like import te\n"
        "cinn_like.register_func('f', lambda x: x)\n"
        "f = cinn_like.get_global_func('f')\n"
        "A = te.placeholder((3,), name='A')\n"
        "cinn_like.register_func('g', te.build(te.create_schedule(te.compute((3,), lambda i: A[i]))))\n"
        "try:\n    import tvm_ffi\n"
        "    h = te.build(te.create_schedule(te.compute((3,), lambda i: A[i]))).to_tvm_ffi()\n"
        "except ImportError:\n    pass\n"
        "print(f(3))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
