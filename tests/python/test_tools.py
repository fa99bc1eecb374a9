"""cinn_opt and cinn_compile on the examples. $CINN_TOOLS is the folder of the built programs."""

import os
import pathlib
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
MLP = str(ROOT / "examples" / "mlp.graph")
ROWSUM = str(ROOT / "examples" / "rowsum.loops")


def find_tools():
    folders = [os.environ["CINN_TOOLS"]] if "CINN_TOOLS" in os.environ else sorted(ROOT.glob("build/*/bin"))
    return next((pathlib.Path(f) for f in folders if (pathlib.Path(f) / "cinn_compile").exists()), None)


TOOLS = find_tools()
pytestmark = pytest.mark.skipif(TOOLS is None, reason="the tools are not built")


def run(program, *args, text=None, code=0):
    """Standard output of a success, standard error of a failure."""
    result = subprocess.run([TOOLS / program, *args], input=text and text.encode(), capture_output=True, timeout=120)
    assert result.returncode == code, result.stderr.decode()
    return result.stdout if code == 0 else result.stderr.decode()


def test_graph_passes():
    text = """graph @f(%x: f32[8]) {
  %0 = exp(%x) : f32[8]
  %1 = exp(%x) : f32[8]
  %2 = add(%0, %1) : f32[8]
  return %2
}
"""
    out = run("cinn_opt", "--passes=cse | dce", text=text).decode()
    assert out.count("exp(") == 1 and "add(%0, %0)" in out
    assert run("cinn_opt", text=text).decode() == text
    loops = run("cinn_opt", "--passes=optimize | loops", text=text).decode()
    assert loops.startswith("func @f(") and run("cinn_opt", text=loops).decode() == loops


def test_schedule_steps(tmp_path):
    out = tmp_path / "out"
    run("cinn_opt", "--passes=split k 8 -> ko ki | unroll ki | lower_blocks | simplify", f"--o={out}", ROWSUM)
    text = out.read_text()
    assert "for ki in 0..8 @unrolled" in text and "x[i, ko * 8 + ki]" in text and "block" not in text


SCALE = """func @scale(x: f32[n], y: f32[n] out) where n in 1..4096 {
  for i in 0..n {
    block y_(v in 0..n = i) { y[v] = x[v] * 2.0 }
  }
}
"""


@pytest.mark.parametrize("kind, target, steps, part", [
    ("llvm", "cpu", "split i 8 -> a b | vectorize b", b"<8 x float>"), ("asm", "cpu", "", b".globl\tscale"),
    ("c", "c", "", b"int32_t scale("), ("schedule", "cpu", "parallel i", b"parallel i"), ("object", "cpu", "", b"\x7fELF"),
    *((kind, target, "split i 64 -> a b | bind a blockIdx.x | bind b threadIdx.x", part) for kind, target, part in [
        ("cuda", "cuda -arch=sm_90a", b"__launch_bounds__(64)"), ("opencl", "opencl", b"get_group_id(0)"),
        ("metal", "metal", b"[[kernel, "), ("hip", "hip -arch=gfx90a", b"__global__"),
        ("resources", "cuda -arch=sm_90a", b"scale_k0_kernel  64 x 1 x 1")]),
])  # fmt: skip
def test_emit_of_loops(kind, target, steps, part):
    """What loop text with a schedule becomes."""
    result = subprocess.run([TOOLS / "cinn_opt", f"--emit={kind}", f"--target={target}", f"--passes={steps}"],
                            input=SCALE.encode(), capture_output=True, timeout=120)  # fmt: skip
    if b"NVRTC was not found" in result.stderr:
        pytest.skip("NVRTC is not on this machine")
    assert result.returncode == 0 and part in result.stdout, result.stderr.decode()


def test_emit_of_a_graph_behind_passes():
    assert b"define i32 @mlp(" in run("cinn_opt", "--emit=llvm", "--passes=decompose | cse", MLP)


HOST_KINDS = {"graph": b"graph @mlp_prepare(", "stages": b"func @mlp_k0(", "schedule": b" by ",
              "loops": b"func @mlp entry", "llvm": b"define", "asm": b".globl\tmlp", "object": b"\x7fELF"}
HOSTS = ["cpu", "x86_64 -mcpu=x86-64 -num-threads=2"]
GPUS = ["cuda -arch=sm_75", "cuda -arch=sm_90a -libs=cublas"]


@pytest.mark.parametrize("target", [*HOSTS, *GPUS])
@pytest.mark.parametrize("kind", HOST_KINDS)
def test_emit(kind, target):
    """Neither this CPU nor a GPU is asked."""
    assert HOST_KINDS[kind] in run("cinn_compile", f"--emit={kind}", f"--target={target}", MLP)


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize("kind, part", [("cuda", b"__global__"), ("ptx", b".target sm_"), ("cubin", b"\x7fELF"),
                                        ("resources", b"mlp_k1_kernel")])  # fmt: skip
def test_emit_device_code(kind, part, target):
    result = subprocess.run([TOOLS / "cinn_compile", f"--emit={kind}", f"--target={target}", MLP],
                            capture_output=True, timeout=120)
    if b"NVRTC was not found" in result.stderr:
        pytest.skip("NVRTC is not on this machine")
    assert result.returncode == 0 and part in result.stdout, result.stderr.decode()


@pytest.mark.parametrize("kind", ["cuda", "ptx", "cubin"])
def test_only_gpus_have_device_code(kind):
    for target in HOSTS:
        message = run("cinn_compile", f"--emit={kind}", f"--target={target}", MLP, code=1)
        assert f"no source of kind '{kind}'; there are graph, stages, schedule, loops, c, llvm, asm, object\n" in message


def test_code_is_for_the_cpu_of_the_target():
    assert b"zmm" in run("cinn_compile", "--emit=asm", "--target=x86_64 -mcpu=skylake-avx512", MLP)
    assert b"zmm" not in run("cinn_compile", "--emit=asm", "--target=x86_64 -mcpu=haswell", MLP)


def test_this_machine_can_be_a_smaller_one(monkeypatch):
    """Whatever it has."""
    monkeypatch.setenv("CINN_LIKE_MAX_ISA", "avx2")
    code = run("cinn_compile", "--emit=asm", "--target=cpu", MLP)
    assert b"zmm" not in code and b"%k1" not in code
    monkeypatch.setenv("CINN_LIKE_MAX_ISA", "sse")
    message = run("cinn_compile", "--emit=asm", "--target=cpu", MLP, code=1)
    assert "environment: CINN_LIKE_MAX_ISA: expected avx2 or avx512, got 'sse'" in message


def test_lanes_that_are_known_are_not_gathered_and_remainders_are_no_calls():
    text = """graph @g(%x: f32[512,512,1], %a: f32[512,512], %b: f32[512,512]) {
  %0 = broadcast_to(%x) {shape=[512,512,3]} : f32[512,512,3]
  %1 = reshape(%0) {shape=[512,1536]} : f32[512,1536]
  %2 = mod(%a, %b) : f32[512,512]
  return %1, %2
}
"""
    code = run("cinn_compile", "--emit=asm", "--target=x86_64 -mcpu=znver4", "-", text=text)
    assert b"gather" not in code and b"fmod" not in code


def test_help_lists_what_there_is():
    helped = {}
    for program in ("cinn_opt", "cinn_compile"):
        result = subprocess.run([TOOLS / program, "--help"], capture_output=True, timeout=60)
        helped[program] = result.stdout.decode()
        assert helped[program].startswith(f"{program}: [--") and "-cinn_disable_passes" in helped[program]
    for kind in [*HOST_KINDS, "cuda", "ptx", "cubin"]:
        assert kind in helped["cinn_compile"].split("-emit (")[1].split(")")[0]
    for line in ("Passes of graph text: optimize, ", "Passes of loop text: lower, ", "  split LOOP FACTOR... -> NAME"):
        assert line in helped["cinn_opt"]


def test_every_pass_in_the_help_runs():
    helped = subprocess.run([TOOLS / "cinn_opt", "--help"], capture_output=True, timeout=60).stdout.decode()
    passes = {kind: helped.split(f"Passes of {kind} text: ")[1].split("\n")[0] for kind in ("graph", "loop")}
    for name in passes["graph"].replace(" or, at the end, ", ", ").split(", "):
        assert run("cinn_opt", f"--passes=decompose | {name}", MLP)
    for name in passes["loop"].split(", "):
        if name == "narrow_index":  # of kernels, which the step `lower` makes
            continue
        if name == "check_bounds":  # of code without blocks, over flat buffers
            name = f"lower_blocks | flatten | {name}"
        assert b"func @rowsum" in run("cinn_opt", f"--passes={name}", ROWSUM), name


ROWS = """graph @rows(%x: f32[300,200], %w: f32[200]) {
  %0 = mul(%x, %w) : f32[300,200]
  %1 = softmax(%0) {axis=1} : f32[300,200]
  %2 = reduce_max(%x) {axes=[0], keepdims=true} : f32[1,200]
  %3 = transpose(%1) {perm=[1,0]} : f32[200,300]
  return %1, %2, %3
}
"""


PRODUCT = """graph @product(%x: f32[512,300], %w: f32[700,300], %b: f32[700]) {
  %0 = transpose(%w) {perm=[1,0]} : f32[300,700]
  %1 = matmul(%x, %0) : f32[512,700]
  %2 = add(%1, %b) : f32[512,700]
  %3 = transpose(%2) {perm=[1,0]} : f32[700,512]
  return %3
}
"""


@pytest.mark.parametrize("graph, target", [(graph, target) for graph in [ROWS, PRODUCT, pathlib.Path(MLP).read_text()]
                                           for target in [*HOSTS, *GPUS, "cuda -arch=sm_90a"]])
def test_schedules_replay(graph, target, tmp_path):
    """From the stages alone, for all kernels of a graph: what is lowered then is what the compiler lowers."""
    stages, schedule, loops = (run("cinn_compile", f"--emit={kind}", f"--target={target}", text=graph)
                               for kind in ("stages", "schedule", "loops"))
    (tmp_path / "stages").write_bytes(stages)
    (tmp_path / "schedule").write_bytes(schedule)
    replayed = run("cinn_opt", f"--schedule={tmp_path / 'schedule'}", "--passes=lower", f"--target={target}",
                   str(tmp_path / "stages")).decode()
    functions = ["func @" + f.strip() for f in replayed.split("func @")[1:]]
    assert functions and [f for f in functions if f not in loops.decode()] == []


GOLDEN = sorted((ROOT / "tests" / "golden" / "tools").glob("*.txt"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden(path):
    """`// RUN: program arguments`, standard input, `----`, standard output or the error; BLESS=1 rewrites the last."""
    text, _, want = path.read_text().partition("----\n")
    head, _, given = text.partition("\n")
    program, *args = shlex.split(head.removeprefix("// RUN: "))
    result = subprocess.run([TOOLS / program, *args], input=given.encode(), capture_output=True, timeout=120)
    got = (result.stdout if result.returncode == 0 else result.stderr).decode()
    if "BLESS" in os.environ:
        path.write_text(f"{head}\n{given}----\n{got}")
    else:
        assert got == want, f"{path}: tools/bless.sh rewrites it"


@pytest.mark.parametrize("program, args, message", [
    ("cinn_opt", ["--passes=css", MLP], "mlp.graph: unknown graph pass 'css', expected one of optimize"),
    ("cinn_opt", ["--passes=flaten", ROWSUM], "'flaten' is none of the loop passes lower, "),
    ("cinn_opt", ["--passes=split q 8 -> a b", ROWSUM], "no loop 'q' in @rowsum; its loops are i, k"),
    ("cinn_opt", [f"--schedule={ROWSUM}", ROWSUM], "unknown schedule step 'func'"),
    ("cinn_opt", ["--schedule=/no/such/steps", ROWSUM], "can't read '/no/such/steps'"),
    ("cinn_opt", [f"--schedule={ROWSUM}", MLP], "a schedule needs loop text: cinn_compile --emit=stages gives it"),
    ("cinn_opt", ["--show=all", ROWSUM], "--show=all: expected end, steps or diffs"),
    ("cinn_opt", ["--show=steps", "--emit=c", ROWSUM], "--show is of steps, --emit of code"),
    ("cinn_opt", ["--emit=c", ROWSUM], "@rowsum: parameter y is written and not marked out"),
    ("cinn_opt", ["/no/such/file"], "can't read '/no/such/file'"),
    ("cinn_opt", [MLP, ROWSUM], "expected one input file and got 2"),
    ("cinn_compile", ["--emit=wasm", MLP], "no source of kind 'wasm'; there are graph, stages, schedule, loops, c, llvm, asm, object"),
    ("cinn_compile", ["--emit=ptx", MLP], "no source of kind 'ptx'"),
    ("cinn_compile", ["--target=tpu", MLP], "unknown kind 'tpu'; known: "),
    ("cinn_compile", ["--target=cuda -arch=sm_42", MLP], "unknown arch 'sm_42'; known: native, "),
    ("cinn_compile", ["--target=x86_64 -mcpu=pentium99", MLP], "pentium99"),
    ("cinn_compile", ["--cinn_disable_passes=css", MLP], "flag 'cinn_disable_passes': no pass 'css'; known: "),
    ("cinn_compile", ["--cinn_disable_passes=legalize", MLP], "pass 'legalize' is required and can't be disabled"),
    ("cinn_compile", ["--cinn_numerics=wild", MLP], "wild"),
    ("cinn_compile", ["--o=/dev/full", MLP], "can't write '/dev/full'"),
    ("cinn_compile", ["--o=/no/such/folder/file", MLP], "can't write '/no/such/folder/file'"),
    ("cinn_compile", ["--emit=cubin", "--target=cuda", MLP], "arch"),
    ("cinn_compile", ["--emit=ptx", "--target=cuda -arch=sm_90", "--cinn_nvrtc=/no/such.so", MLP], "/no/such.so"),
    ("cinn_compile", [ROWSUM], "rowsum.loops: line 1"),
])
def test_errors(program, args, message):
    stderr = run(program, *args, code=1)
    assert stderr.startswith(program + ": ") and message in stderr


def schedule_cases():
    """The indented blocks of docs/schedules.md: `// RUN: steps`, a function, `----`, a function or an error."""
    block = []
    for line in [*(ROOT / "docs" / "schedules.md").read_text().splitlines(), "end"]:
        if line.startswith("    "):
            block.append(line[4:])
        elif block:
            if block[0].startswith("// RUN: "):
                rule = block.index("----")
                yield block[0].removeprefix("// RUN: "), "\n".join(block[1:rule]), "\n".join(block[rule + 1:])
            block = []


@pytest.mark.parametrize("steps, before, after", schedule_cases())
def test_schedules_page(steps, before, after):
    if after.startswith("error: "):
        assert run("cinn_opt", f"--passes={steps}", text=before, code=1).rstrip().endswith(after.removeprefix("error: "))
    else:
        assert run("cinn_opt", f"--passes={steps}", text=before).decode().strip() == after


def test_schedules_page_has_every_step():
    helped = run("cinn_opt", "--passes=no_such_step", ROWSUM, code=1).split("the steps are\n")[1]
    page = (ROOT / "docs" / "schedules.md").read_text()
    steps = [line.split()[0] for line in helped.splitlines() if line]
    assert len(steps) > 10
    assert [s for s in steps if f"`{s} " not in page] == []
