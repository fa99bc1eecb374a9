"""Every debugging flag, set by cinn_like.set_flag and by FLAGS_<name> in the environment."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import cinn_like
import pytest
import torch
from cinn_like import emit, function, library
from cinn_like.backend import cinn_like as backend

TEXT = """graph @f(%x: f32[64,512]) {
  %0 = tanh(%x) : f32[64,512]
  %1 = tanh(%x) : f32[64,512]
  %2 = add(%0, %1) : f32[64,512]
  %3 = softmax(%2) {axis=1} : f32[64,512]
  return %3
}
"""
HOST = "x86_64 -mcpu=native"
FLAGS = [f"cinn_{name}" for name in """dump_ir dump_source dump_llvm dump_asm dump_ptx dump_dir keep_nvrtc_log
         disable_fusion disable_cache disable_passes num_threads thread_pool verbose_timing verify cache_dir
         numerics check_bounds cuda_compiler""".split()]  # fmt: skip

pytestmark = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")


@pytest.fixture(autouse=True)
def flags_as_before(tmp_path):
    before = {name: cinn_like.get_flag(name) for name in FLAGS}
    cinn_like.set_flag("cinn_cache_dir", str(tmp_path / "cache"))
    yield
    for name, value in before.items():
        cinn_like.set_flag(name, value)


def compile_with(flags, text=TEXT, target=HOST):
    """The info of a function compiled with these flags."""
    for name, value in flags.items():
        cinn_like.set_flag(name, value)
    lib = library.get()
    handle = lib.compile(text, target)
    info = {**lib.info(handle), **{kind: lib.source(handle, kind) for kind in ("graph", "llvm")}}
    lib.release(handle)
    return info


def child_environment(tmp_path, flags):
    path = str(pathlib.Path(cinn_like.__file__).parents[1]) + ":" + os.environ.get("PYTHONPATH", "")
    flags = {"cinn_cache_dir": tmp_path / "cache", **flags}
    env = {**os.environ, "CINN_LIKE_LIBRARY": str(library.path()), "PYTHONPATH": path}
    return env | {f"FLAGS_{name}": str(value) for name, value in flags.items()}


def compile_in_environment(tmp_path, flags, text=TEXT, target=HOST):
    """The same in a new process: (info, what it wrote to stderr)."""
    code = f"""import json, sys; from cinn_like import library; lib = library.get()
handle = lib.compile({text!r}, {target!r})
print(json.dumps({{**lib.info(handle), "graph": lib.source(handle, "graph")}}))"""
    env = child_environment(tmp_path, flags)
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    return json.loads(run.stdout) if run.returncode == 0 else None, run.stderr


def dumped(folder):
    """{what: [texts]} of files named <name>.<number>.<what>."""
    files = collections.defaultdict(list)
    for path in sorted(folder.iterdir(), key=lambda p: p.name.split(".")[1]):
        files[path.name.split(".", 2)[2]].append(path.read_text())
    return files


def check_dumps(files):
    assert list(files)[0] == "graph.input" and files["graph.input"][0].count("tanh(") == 2
    assert files["graph.cse"][0].count("tanh(") == 1  # the pass that changed it, and how
    assert files["schedule"] and all(
        "func @" in text for what in files if what.startswith("loops.") for text in files[what]
    )
    assert len([what for what in files if what.startswith("loops.")]) > 3
    assert "define" in files["ll"][0] and ".globl" in files["s"][0]


def test_dumps(tmp_path):
    flags = {"cinn_dump_ir": True, "cinn_dump_llvm": True, "cinn_dump_asm": True, "cinn_dump_dir": tmp_path / "dumps"}
    compile_with(flags)
    check_dumps(dumped(tmp_path / "dumps"))


def test_flags_from_the_environment(tmp_path):
    flags = {"cinn_dump_ir": 1, "cinn_dump_llvm": 1, "cinn_dump_asm": 1, "cinn_dump_dir": tmp_path / "dumps",
             "cinn_disable_fusion": "true", "cinn_disable_cache": "true", "cinn_verbose_timing": "yes"}  # fmt: skip
    info, stderr = compile_in_environment(tmp_path, flags)
    check_dumps(dumped(tmp_path / "dumps"))
    assert info["kernels"] > 1 and not (tmp_path / "cache").exists()
    assert "f codegen" in stderr and "f graph.cse" in stderr
    info, stderr = compile_in_environment(
        tmp_path, {"cinn_dump_llvm": 1, "cinn_disable_passes": "cse", "cinn_num_threads": 1}
    )
    assert "// ---- " in stderr and "define" in stderr  # without a folder
    assert info["graph"].count("tanh(") == 2
    info, stderr = compile_in_environment(tmp_path, {"cinn_numerics": "quick"})
    assert info is None and "flag 'cinn_numerics': expected fused or exact, got 'quick'" in stderr


def test_cuda_compiler():
    """Code of nvcc's is what nvcc is asked for; tests/driver/source_hooks_test.cc has more."""
    with pytest.raises(ValueError, match="'cinn_cuda_compiler': expected nvrtc, nvcc or a path, got 'gcc'"):
        cinn_like.set_flag("cinn_cuda_compiler", "gcc")
    with pytest.raises(RuntimeError, match="there is no '/no/such/nvcc'"):
        compile_with({"cinn_cuda_compiler": "/no/such/nvcc"}, target="cuda -arch=sm_90a")


@pytest.mark.parametrize("how", ["api", "environment"])
def test_device_dumps(tmp_path, how):
    """What NVRTC was given, what it made and what it said; loading the code needs a GPU, this does not."""
    flags = {
        "cinn_dump_source": True,
        "cinn_dump_ptx": True,
        "cinn_keep_nvrtc_log": True,
        "cinn_dump_dir": tmp_path / "dumps",
    }
    error = ""
    if how == "api":
        try:
            compile_with(flags, target="cuda -arch=sm_90a")
        except RuntimeError as why:
            error = str(why)
    else:
        error = compile_in_environment(tmp_path, flags, target="cuda -arch=sm_90a")[1]
    if "NVRTC was not found" in error:
        pytest.skip("no NVRTC")
    assert (tmp_path / "dumps").exists(), error
    files = dumped(tmp_path / "dumps")
    assert "__global__" in files["cu"][0] and ".target sm_90a" in files["ptx"][0] and files["log"], error


def test_disable_fusion():
    assert compile_with({})["kernels"] == 1
    assert compile_with({"cinn_disable_fusion": True})["kernels"] > 1


def test_disable_cache(tmp_path):
    compile_with({"cinn_disable_cache": True})
    assert not (tmp_path / "cache").exists()
    assert not compile_with({"cinn_disable_cache": False})["cache_hit"]
    assert compile_with({})["cache_hit"]
    assert not compile_with({"cinn_disable_cache": True})["cache_hit"]


def test_disable_passes():
    assert compile_with({})["graph"].count("tanh(") == 1
    assert compile_with({"cinn_disable_passes": "cse,dce"})["graph"].count("tanh(") == 2
    cinn_like.set_flag("cinn_disable_passes", "cse,css")
    with pytest.raises(RuntimeError, match="no pass 'css'; known: .*cse"):
        library.get().compile(TEXT, HOST)
    cinn_like.set_flag("cinn_disable_passes", "lower_blocks")
    with pytest.raises(RuntimeError, match="pass 'lower_blocks' is required and can't be disabled"):
        library.get().compile(TEXT, HOST)


def test_num_threads():
    """Three threads work where one did."""
    big = TEXT.replace("64,512", "2048,2048")
    threads = []
    for n in (1, 3):
        cinn_like.set_flag("cinn_num_threads", n)
        call = function.compile_function(big, HOST, torch.device("cpu"), emit.Signature((False,), (None,), 0, 1)).call
        x = torch.randn(2048, 2048, device="cpu")
        torch.testing.assert_close(call(x)[0], (x.tanh() * 2).softmax(1), rtol=1e-4, atol=1e-6)
        threads.append(len(os.listdir("/proc/self/task")))
    assert threads[1] >= threads[0]
    assert cinn_like.get_flag("cinn_num_threads") == "3"


def test_verbose_timing(capfd):
    compile_with({"cinn_verbose_timing": False})
    assert "codegen" not in capfd.readouterr().err
    compile_with({"cinn_verbose_timing": True, "cinn_disable_cache": True})
    err = capfd.readouterr().err
    assert all(f"f {stage} " in err for stage in ("optimize", "fuse", "lower", "codegen", "graph.cse")), err


def test_exact_numerics_are_another_entry_of_the_cache():
    compile_with({"cinn_numerics": "fused"})
    assert not compile_with({"cinn_numerics": "exact"})["cache_hit"]
    assert compile_with({"cinn_numerics": "exact"})["cache_hit"]


def test_check_bounds():
    """What is not known to stay inside is asked; that code is another entry of the cache, and right programs run."""
    text = TEXT.replace("64,512", "n,m").replace(") {", ") where n in 1..99, m in 1..999 {", 1)
    assert "cinn_bounds_error" not in compile_with({}, text)["llvm"]
    info = compile_with({"cinn_check_bounds": True}, text)
    assert "cinn_bounds_error" in info["llvm"] and not info["cache_hit"]
    x = torch.randn(7, 45, device="cpu")
    signature = emit.Signature((False,), (None,), 0, 1)
    call = function.compile_function(text, HOST, torch.device("cpu"), signature).call
    torch.testing.assert_close(call(x)[0], (x.tanh() * 2).softmax(1), rtol=1e-4, atol=1e-6)


def test_an_unknown_flag():
    with pytest.raises(ValueError, match="'cinn_dumpir' is unknown; known: cinn_dump_ir"):
        cinn_like.set_flag("cinn_dumpir", 1)
    with pytest.raises(ValueError, match="'cinn_num_threads': expected an integer"):
        cinn_like.set_flag("cinn_num_threads", "many")


# ---- cinn_verify ----------------------------------------------------------------------------------------------------


def model(x, w):
    return torch.tanh(x @ w).softmax(1) + 1.0


def run_verified(monkeypatch, break_text):
    """Compiles `model` with a compiler that is given a wrong text; gives what the report says."""
    made, compile_function = [], function.compile_function

    def wrong(text, *args):
        made.append(break_text(text, len(made)))
        return compile_function(made[-1], *args)

    monkeypatch.setattr(function, "compile_function", wrong)
    cinn_like.set_flag("cinn_verify", True)
    torch.compile(model, backend=backend, fullgraph=True)(torch.randn(6, 8), torch.randn(8, 8))
    assert len(made) == 2 and not cinn_like.report().failures, cinn_like.report().failures
    return cinn_like.report().differences


def test_verify_is_silent_where_all_is_right(monkeypatch):
    assert run_verified(monkeypatch, lambda text, k: text) == []


@pytest.mark.parametrize("right, wrong, op", [
    ("tanh(", "sin(", " = aten.tanh.default"), ("matmul(%p0, %p1)", "matmul(%p1, %p1)", None),
    ("add(", "sub(", " = aten.add.Tensor"), ("axis=1", "axis=0", " = aten._softmax.default")])  # fmt: skip
def test_verify_names_the_first_op_that_is_compiled_wrongly(monkeypatch, right, wrong, op):
    if op is None:
        right, wrong, op = "tanh(%0)", "tanh(%p0)", " = aten.tanh.default"
    with pytest.warns(UserWarning, match="cinn_verify"):
        differences = run_verified(monkeypatch, lambda text, k: text.replace(right, wrong))
    assert op in differences[0] and len(differences) == 1, differences


def test_verify_tells_a_fault_of_fusion(monkeypatch):
    """Right op by op, wrong in the region as it runs."""
    with pytest.warns(UserWarning, match="only when fused"):
        differences = run_verified(monkeypatch, lambda text, k: text.replace("tanh(", "sin(") if k == 0 else text)
    assert (
        differences[0].startswith("only when fused: add")
        and "aten.add.Tensor: the largest difference is" in differences[0]
    )


def test_verify_from_the_environment(tmp_path):
    code = """import torch; from cinn_like import function; from cinn_like.backend import cinn_like as backend
real = function.compile_function
function.compile_function = lambda text, *args: real(text.replace("exp(", "sin("), *args)
torch.compile(lambda x: (x + 1).exp() * 2, backend=backend)(torch.randn(4))"""
    env = child_environment(tmp_path, {"cinn_verify": 1})
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and "cinn_verify: exp = aten.exp.default: the largest difference" in run.stderr, (
        run.stderr
    )
