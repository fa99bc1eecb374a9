"""What users can get wrong or take to extremes: each is handled, or is an error that names the culprit. The table of
docs/torch.md lists them."""

import ctypes
import os

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from checks import check, rand
from cinn_like import emit, function, library
from cinn_like.backend import cinn_like as backend

CPU = torch.device("cpu")
EXP = "graph @f(%x: f32[4]) {\n  %0 = exp(%x) : f32[4]\n  return %0\n}\n"
needs_library = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")


def no_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return False


# ---- text and targets -----------------------------------------------------------------------------------------------


@needs_library
@pytest.mark.parametrize("right, wrong, message", [
    ("exp(", "expp(", "line 2, column 8: unknown op 'expp'"),
    ("exp(%x)", "exp(%x) {foo=1}", "op 'exp': unknown attribute 'foo', expected none"),
    ("exp(%x)", "exp(%y)", "line 2, column 12: unknown value '%y'"),
    ("exp(%x)", "exp(%x, %x)", "op 'exp'"),
    (": f32[4]\n  ret", ": f32[5]\n  ret", r"op 'exp': type written for '%0': expected f32\[4\], got f32\[5\]"),
    (": f32[4]\n  ret", ": f64[4]\n  ret", r"op 'exp': type written for '%0': expected f32\[4\], got f64\[4\]"),
    ("%x: f32", "%x: f31", "f31"),
    (EXP[30:], "", "line 2, column 8: expected an op's name, got end of text"),
    (EXP, "", "line 1, column 1: expected 'graph', got end of text"),
])  # fmt: skip
def test_malformed_text(right, wrong, message):
    assert right in EXP
    with pytest.raises(RuntimeError, match=message):
        library.get().compile(EXP.replace(right, wrong), "x86_64")


@needs_library
@pytest.mark.parametrize("target, message", [
    ("tpu", "unknown kind 'tpu'; known: cpu, x86_64, cuda, opencl, hip, metal, c"),
    ("x86_64 -mcpu=abacus", "unknown CPU 'abacus'; known: native, "),
    ("x86_64 -speed=9", "speed"),
    ("cuda -arch=sm_12", "unknown arch 'sm_12'; known: native, sm_75"),
    ("cuda", "target 'cuda -arch=native' names no arch: no CUDA driver: "),
    ("cuda -arch=sm_90a -libs=magma", "unknown library 'magma'; known: cublas"),
    ("cuda -arch=sm_90a -libs=cudnn", "unknown library 'cudnn'; known: cublas"),
    ("opencl -sm-count=4", "opencl has no option -sm-count; known: -arch, "),
])  # fmt: skip
def test_wrong_targets(target, message):
    if target == "cuda" and not no_driver():
        pytest.skip("this machine has a GPU")
    with pytest.raises(RuntimeError, match=message):
        library.get().compile(EXP, target)


@needs_library
@pytest.mark.skipif(not no_driver(), reason="this machine has a driver")
def test_no_driver():
    with pytest.raises(RuntimeError, match="NVRTC was not found; install|graph @f: no CUDA driver: libcuda"):
        library.get().compile(EXP, "cuda -arch=sm_90a")


@needs_library
def test_a_wrong_target_as_an_option_is_reported():
    x = torch.ones(4)
    got = torch.compile(lambda x: x + 1, backend=backend, options={"target": "tpu"})(x)
    assert torch.equal(got, x + 1) and "unknown kind 'tpu'" in cinn_like.report().failures[0]


# ---- arguments of a compiled function -------------------------------------------------------------------------------


@needs_library
@pytest.mark.parametrize("make, message", [
    (lambda: torch.ones(4, dtype=torch.float64),
     r"f: argument 'x': expected f32\[4\], got f64\[4\] on cpu: dtype f64 is not f32"),
    (lambda: torch.ones(4, dtype=torch.complex64), "argument 'x': .* is not f32"),
    (lambda: torch.ones(5), r"argument 'x': .*dimension 0 is 5, expected 4"),
    (lambda: torch.ones(2, 2), r"argument 'x': .*rank 2 is not 1"),
    (lambda: torch.ones(8)[::2], r"argument 'x': .*stride 0 is 2, expected 1"),
    (lambda: torch.ones(4, device="meta"), "meta"),
    (lambda: torch.ones(4).to_sparse(), "storage|sparse"),
    (lambda: None, "argument 0 is no tensor"),
])  # fmt: skip
def test_wrong_arguments(make, message):
    with CPU:
        x = make()
    f = function.compile_function(EXP, "x86_64", CPU, emit.Signature((False,), (None,), 0, 1))
    with pytest.raises((RuntimeError, TypeError), match=message):
        f.call(x)
    torch.testing.assert_close(f.call(torch.ones(4, device="cpu"))[0], torch.ones(4, device="cpu").exp())


@needs_library
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_tensor_on_the_wrong_device():
    f = function.compile_function(EXP, "x86_64", CPU, emit.Signature((False,), (None,), 0, 1))
    with pytest.raises(RuntimeError, match="argument 'x': .*on cuda"):
        f.call(torch.ones(4, device="cuda"))


def test_a_device_without_code_is_left_to_the_framework(real_library):
    got = torch.compile(lambda x: x * 2 + 1, backend=backend)(torch.ones(4, device="meta"))
    assert got.device.type == "meta" and "no code for devices of type 'meta'" in cinn_like.report().failures[0]


@torch._dynamo.config.patch(recompile_limit=32)
def test_one_function_for_all_dtypes_devices_and_strides(real_library):
    """torch.compile checks what a graph was made for; another dtype or layout is another graph."""
    f = torch.compile(lambda x: x * 3 + 1, backend=backend, fullgraph=True)
    for x in (rand(4, 6), rand(4, 6, dtype=torch.float64), rand(6, 4).t(), rand(8, 6)[::2], rand(4, 1).expand(4, 6),
              rand(4, 6, dtype=torch.int32), rand(4), rand(), rand(0, 6), rand(5, 6)[1:]):  # fmt: skip
        got = f(x)
        torch.testing.assert_close(got, x * 3 + 1)
        assert got.dtype == x.dtype and got.stride() == (x * 3 + 1).stride()


# ---- sizes ----------------------------------------------------------------------------------------------------------

EMPTY = {
    "pointwise": (lambda x: (x + 1).tanh(), [(0, 3)]),
    "sums": (lambda x: (x.sum(), x.sum(0), x.sum(1), x.prod(0), x.mean(1), (x > 0).all(0), (x > 0).any(1)), [(0, 3)]),
    "softmax": (lambda x: (x.softmax(0), x.softmax(1), x.log_softmax(1)), [(0, 3)]),
    "inner_product": (lambda a, b: a @ b, [(4, 0), (0, 3)]),
    "no_rows": (lambda a, b: a @ b, [(0, 4), (4, 3)]),
    "batches": (lambda a, b: torch.bmm(a, b), [(0, 2, 4), (0, 4, 3)]),
    "layer_norm": (lambda x: F.layer_norm(x, (3,)), [(0, 3)]),
    "joined": (lambda a, b: (torch.cat([a, b], 0), torch.stack([a, a])), [(0, 3), (2, 3)]),
    "sliced": (lambda x: (x[1:1] * 2, x[:, 3:] + 1, x.reshape(-1)[:0]), [(2, 3)]),
    "indexed": (lambda x: x[torch.zeros(0, dtype=torch.int64, device=x.device)] * 2, [(2, 3)]),
    "conv": (lambda x, w: F.conv2d(x, w), [(0, 3, 8, 8), (4, 3, 3, 3)]),
    "broadcast": (lambda a, b: a + b, [(0, 1), (1, 5)]),
    "scalars": (lambda x: (x + 1, x.exp().sum(), x.softmax(0), x.reshape(1, 1) @ x.reshape(1, 1), x.max()), [()]),
}


@pytest.mark.parametrize("name", EMPTY)
def test_no_elements_and_no_dimensions(engine, name):
    fn, shapes = EMPTY[name]
    check(fn, *[rand(*shape) for shape in shapes])


HUGE = 2**31 + 10


def test_more_elements_than_32_bits_count(real_library):
    """A view of one byte with 2^31 elements and more, as an input and as an intermediate."""
    one = torch.ones(1, dtype=torch.int8)
    count = torch.compile(lambda x: (x.sum(dtype=torch.int64), x.amax()), backend=backend, fullgraph=True)
    for size in (HUGE, 1000, HUGE + 7):
        assert [int(r) for r in count(one.expand(size))] == [size, 1]
    inside = torch.compile(lambda x: (x.expand(HUGE) + 1).sum(dtype=torch.int64), backend=backend, fullgraph=True)
    assert int(inside(one)) == 2 * HUGE
    assert not cinn_like.report().fallback_ops and not cinn_like.report().failures


def test_elements_further_apart_than_32_bits_reach(real_library):
    """The memory is never touched but for a few pages."""
    base = torch.empty(2**32 + 64, dtype=torch.int8)
    far = base.as_strided((3, 5), (2**31 - 3, 1))
    far.copy_(torch.arange(15, dtype=torch.int8).view(3, 5))
    base[-64:] = 7
    at = torch.tensor([0, 2**31 - 2, 2 * (2**31 - 3)])

    def fn(far, base, at):
        return far + 1, far.t() * 2, base[2**31 - 3 : 2**31 + 2] + 1, base[-64:] * 3, base[at] + 1, base[2**32] + 0

    for got, want in zip(torch.compile(fn, backend=backend, fullgraph=True)(far, base, at), fn(far, base, at)):
        assert torch.equal(got, want)
    assert not cinn_like.report().fallback_ops and not cinn_like.report().failures


def free_memory():
    lines = open("/proc/meminfo").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024


@pytest.mark.skipif(free_memory() < 8 * 2**30, reason="needs 8 GiB of free memory")
def test_a_result_of_more_elements_than_32_bits_count(real_library):
    row = torch.arange(64, dtype=torch.int8)
    got = torch.compile(lambda x: x.expand(HUGE // 64 + 1, 64) * 2, backend=backend, fullgraph=True)(row)
    assert got.numel() > 2**31 and got.is_contiguous()
    for i in (0, 2**25 - 1, got.size(0) - 1):
        assert torch.equal(got[i], row * 2)
    assert not cinn_like.report().fallback_ops and not cinn_like.report().failures


# ---- the cache ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache_dir(tmp_path):
    before = cinn_like.get_flag("cinn_cache_dir")
    yield tmp_path / "cache"
    cinn_like.set_flag("cinn_cache_dir", before)


@needs_library
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "gone"])
def test_a_corrupt_entry_of_the_cache_is_compiled_anew(cache_dir, damage):
    cinn_like.set_flag("cinn_cache_dir", str(cache_dir))
    lib = library.get()
    for expected in (False, True):
        assert lib.info(lib.compile(EXP, "x86_64"))["cache_hit"] == expected
    files = [p for p in cache_dir.rglob("*") if p.is_file() and p.stat().st_size]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        data[middle] ^= 0x40
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes({"cut": data[:middle], "flip": data, "empty": b""}[damage])
    f = function.compile_function(EXP, "x86_64", CPU, emit.Signature((False,), (None,), 0, 1))
    assert not f.info["cache_hit"]
    torch.testing.assert_close(f.call(torch.ones(4, device="cpu"))[0], torch.ones(4, device="cpu").exp())


@needs_library
@pytest.mark.parametrize("folder", ["/proc/no_such_folder", "/dev/full/x"])
def test_a_cache_that_cannot_be_written_is_no_error(cache_dir, folder):
    cinn_like.set_flag("cinn_cache_dir", folder)
    lib = library.get()
    assert not any(lib.info(lib.compile(EXP, "x86_64"))["cache_hit"] for _ in range(2))
    assert not os.path.exists(folder)


# ---- nothing and next to nothing ------------------------------------------------------------------------------------


NOTHING = (0, 0)


@needs_library
@pytest.mark.parametrize("function, shapes", [
    (lambda x: F.unfold(x, 2), [(0, 1, 5, 5)]),
    (torch.cholesky_inverse, [NOTHING]),
    (torch.cholesky_solve, [NOTHING, NOTHING]),
    (lambda x: torch.linalg.svd(x, full_matrices=False), [NOTHING]),
], ids=["unfold", "cholesky_inverse", "cholesky_solve", "svd"])  # fmt: skip
def test_gradients_of_nothing(function, shapes):
    def gradients(f):
        inputs = [torch.empty(s, requires_grad=True) for s in shapes]
        results = f(*inputs)
        sum(r.sum() for r in (results if isinstance(results, tuple) else (results,))).backward()
        return [x.grad.shape for x in inputs]

    assert gradients(torch.compile(function, backend="cinn_like")) == gradients(function)


@needs_library
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_extreme_of_a_number_has_place_0(name):
    function = getattr(torch, name)
    for arguments in [(), (0,), (-1, True)]:
        result = torch.compile(lambda x, a=arguments: function(x, *a), backend="cinn_like")(torch.tensor(3.0))
        assert result.shape == () and result.dtype == torch.int64 and result == 0


def test_the_extreme_of_nothing_is_eagers_error():
    with pytest.raises(IndexError, match="reduction dim 0 to have non-zero size"):
        torch.compile(lambda x: torch.argmax(x, 0), backend="cinn_like")(torch.empty(0, 3))
