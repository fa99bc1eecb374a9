"""Calls into the shared library: static tensors, errors, threads and overhead, on both call paths."""

import ctypes
import resource
import threading
import time

import pytest
import torch
from cinn_like import emit, function, library

DEVICE = torch.get_default_device()
ADD = """graph @add(%a: f32[n,4], %b: f32[n,4]) where n in 1..1000 {
  %0 = add(%a, %b) : f32[n,4]
  return %0
}
"""
LINEAR = """graph @linear(%x: f32[n,8], %w: f32[8,8] static) where n in 1..1000 {
  %0 = transpose(%w) {perm=[1, 0]} : f32[8,8]
  %1 = exp(%0) : f32[8,8]
  %2 = matmul(%x, %1) : f32[n,8]
  return %2
}
"""


@pytest.fixture(params=["extension", "slow_call"])
def path(request, monkeypatch):
    if not library.available():
        pytest.skip("needs the shared library (CINN_LIKE_LIBRARY)")
    if request.param == "slow_call":
        monkeypatch.setenv("CINN_LIKE_SLOW_CALL", "1")
    elif not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("PyTorch before 2.10 has no exchange table")
    assert (function._binder().__module__ == "cinn_like.slow_call") == (request.param == "slow_call")
    return request.param


def compile_text(text, static=(False, False), results=1, symbols=0):
    signature = emit.Signature(static, (None,) * len(static), symbols, results)
    return function.compile_function(text, function.default_target(DEVICE), DEVICE, signature)


def test_add(path):
    add = compile_text(ADD)
    for n in (1, 3, 127):
        a, b = torch.randn(n, 4), torch.randn(n, 4)
        (got,) = add.call(a, b)
        assert torch.equal(got, a + b) and got.is_contiguous()
    weight = torch.nn.Parameter(torch.randn(3, 4))
    assert torch.equal(add.call(weight, weight)[0], weight.detach() * 2)


@pytest.mark.parametrize("hint", ["", " hint 33554432", " hint 3"])
def test_reductions_of_a_length_that_is_known_late(path, hint):
    """Parts of a reduction, as many as there are, whatever length was likely."""
    text = f"""graph @f(%x: f32[n,3]) where n in 1..2147483647{hint} {{
  %0 = mul(%x, %x) : f32[n,3]
  %1 = reduce_sum(%0) {{axes=[0,1]}} : f32[]
  %2 = reduce_max(%x) {{axes=[0]}} : f32[3]
  %3 = argmax(%x) {{axis=0}} : i64[3]
  return %1, %2, %3
}}
"""
    f = compile_text(text, (False,), 3)
    for n in (1, 17, 87381, 87382, 300001):
        x = torch.randn(n, 3)
        total, largest, where = f.call(x)
        torch.testing.assert_close(total.double(), x.double().square().sum(), rtol=1e-3, atol=0)
        assert torch.equal(largest, x.amax(0)) and torch.equal(where, x.argmax(0))


def test_static_tensors_are_prepared_again_when_they_change(path):
    linear = compile_text(LINEAR, (False, True))
    x, w = torch.randn(5, 8), torch.randn(8, 8)

    def check():
        torch.testing.assert_close(linear.call(x, w)[0], x @ w.t().exp(), rtol=1e-4, atol=1e-4)

    check()
    w.mul_(0.5)
    check()
    w.data = torch.randn(8, 8)
    check()
    with torch.inference_mode():
        w = torch.randn(8, 8)
        check()


def test_sets_of_static_tensors_are_prepared_side_by_side(path, monkeypatch):
    """Instances of a module that share a graph: none is prepared again at each call, and what is gone is replaced."""
    prepared, address = [], library.get().address
    prepare = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_int32, ctypes.c_void_p)
    inner = prepare(address("CinnFunctionPrepareSelf"))
    counted = prepare(lambda fn, self, *rest: prepared.append(self) or inner(fn, self, *rest))
    addresses = {"CinnFunctionPrepareSelf": ctypes.cast(counted, ctypes.c_void_p).value}
    monkeypatch.setattr(library.get(), "address", lambda name: addresses.get(name) or address(name))
    linear = compile_text(LINEAR, (False, True))
    weights, x = [torch.randn(8, 8) for _ in range(70)], torch.randn(5, 8)

    def check(w):
        torch.testing.assert_close(linear.call(x, w)[0], x @ w.t().exp(), rtol=1e-4, atol=1e-4)

    for _ in range(3):
        for w in weights[:40]:
            check(w)
    assert len(prepared) == len(set(prepared)) == 40
    weights[7].mul_(0.5)
    check(weights[7])
    assert prepared[-1] == prepared[7]  # the same tensor takes the same place
    weights[9].data = torch.randn(8, 8)
    check(weights[9])
    assert prepared[-1] == prepared[9]
    weights[3] = torch.randn(8, 8)
    check(weights[3])
    assert prepared[-1] == prepared[3] and len(prepared) == 43
    for w in weights:
        check(w)
    assert len(prepared) == 43 + 30 and len(set(prepared)) == 64


def test_wrong_arguments_are_errors_that_name_the_argument(path):
    add = compile_text(ADD)
    a = torch.randn(3, 4)
    for b, what in [(torch.randn(2, 4), "b"), (torch.randn(3, 5), "b"), (torch.randn(3, 4, 1), "b"),
                    (torch.randn(3, 4).double(), "b"), (torch.randn(4, 3).t(), "b")]:  # fmt: skip
        with pytest.raises(RuntimeError, match=what):
            add.call(a, b)
    with pytest.raises((TypeError, AttributeError)):
        add.call(a, 3)
    with pytest.raises(TypeError, match="expected 2 tensors and 0 sizes, got 1"):
        add.call(a)
    assert torch.equal(add.call(a, a)[0], a + a)


def test_bad_text_is_an_error_that_says_where(path):
    for text, what in [(ADD.replace("add(%a", "bad(%a"), "bad"), (ADD.replace("f32[n,4]\n  return", "f32[n,5]\n  return"), "add"),
                       (ADD.replace("%0 =", "%0 ="[:-1]), "line 2"), ("", "graph")]:  # fmt: skip
        with pytest.raises(RuntimeError, match=what):
            compile_text(text)
    with pytest.raises(RuntimeError, match="abacus"):
        function.compile_function(ADD, "abacus", DEVICE, emit.Signature((False, False), (None, None), 0, 1))


def test_symbols_that_no_shape_gives_are_arguments(path):
    ramp = compile_text(
        "graph @ramp(%x: f32[], n: i64) where n in 1..100 {\n  %0 = iota() {dtype=f32, shape=[n], axis=0} : f32[n]\n"
        "  %1 = mul(%0, %x) : f32[n]\n  return %1\n}\n", (False,), symbols=1)  # fmt: skip
    torch.testing.assert_close(ramp.call(torch.tensor(2.0), 5)[0], torch.arange(5) * 2.0)


def test_threads_share_a_function(path, monkeypatch):
    linear = compile_text(LINEAR, (False, True))
    bind, bound = function._binder(), []
    monkeypatch.setattr(function, "_binder", lambda: lambda *args: (bound.append(time.sleep(0.1)), bind(*args))[1])
    w, right = torch.randn(8, 8), []

    def work(x, expected):
        for _ in range(50):
            torch.testing.assert_close(linear.call(x, w)[0], expected, rtol=1e-4, atol=1e-4)
        right.append(len(x))

    inputs = [torch.randn(k + 1, 8) for k in range(4)]
    threads = [threading.Thread(target=work, args=(x, x @ w.t().exp())) for x in inputs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(right) == [1, 2, 3, 4]
    assert len(bound) == 1  # by whichever came first


def test_overhead(path):
    """An elementwise call on a few numbers costs little more than the framework's own add."""
    if path == "slow_call":
        pytest.skip("the extension is the fast path")
    if DEVICE.type != "cpu":
        pytest.skip("the bound is for the CPU")
    add, a, b = compile_text(ADD), torch.randn(1, 4), torch.randn(1, 4)
    best = {}
    for _ in range(20):
        for name, f in (("ours", lambda: add.call(a, b)), ("eager", lambda: torch.add(a, b))):
            start = time.perf_counter()
            for _ in range(500):
                f()
            best[name] = min(best.get(name, 1.0), (time.perf_counter() - start) / 500)
    assert best["ours"] - best["eager"] < 5e-6, best


def test_functions_are_released(path):
    for _ in range(50):
        add = compile_text(ADD)
        assert add.info["params"][0]["name"].lstrip("%") == "a"
        call = add.call
        del add
        assert torch.equal(call(torch.ones(1, 4), torch.ones(1, 4))[0], torch.full((1, 4), 2.0))


def test_flags(path):
    lib = library.get()
    before = lib.get_flag("cinn_verify")
    lib.set_flag("cinn_verify", True)
    assert lib.get_flag("cinn_verify") == "true"
    lib.set_flag("cinn_verify", before)
    with pytest.raises(ValueError, match="cinn_nothing"):
        lib.get_flag("cinn_nothing")
    with pytest.raises(ValueError):
        lib.set_flag("cinn_nothing", 1)


def test_large_workspaces_keep_their_pages():
    """malloc gives blocks of more than 32 MB back to the kernel: each call would fault in all of its pages."""

    def f(x, v, w):
        return (x @ v).relu() @ w  # 48 MB between

    if DEVICE.type != "cpu":
        pytest.skip("the framework's allocator keeps memory")
    torch._dynamo.reset()
    args = torch.rand(4096, 8), torch.rand(8, 3000), torch.rand(3000, 8)
    compiled = torch.compile(f, backend="cinn_like", options={"leave_to_framework": False})
    with torch.no_grad():
        for _ in range(3):
            compiled(*args)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            compiled(*args)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 5000, faults  # 60,000 if pages are new each time
