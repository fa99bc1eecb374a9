"""The tutorials of examples/te run, and docs/te.md and te_tutorials.md print what they say."""

import contextlib
import io
import pathlib
import re
import runpy

import pytest
from cinn_like import library, te

ROOT = pathlib.Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "examples" / "te").glob("*.py"))

pytestmark = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")


def printed(run):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run()
    return out.getvalue()


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_tutorial(path, monkeypatch):
    """They check their results themselves."""
    if path.stem in ("opencl", "matmul_gpu") and not te.has_device("opencl"):
        pytest.skip("no device of OpenCL")
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr("sys.argv", [str(path)])
    out = printed(lambda: runpy.run_path(str(path), run_name="__main__"))
    parts = {
        "vector_add": ["@vectorized", "__global__", "__kernel"], "opencl": ["barrier(CLK_LOCAL_MEM_FENCE)"],
        "reduction": ["alloc part: f32[16]", "rfactor S lane -> part"], "matrix_sum": ["@parallel", "l_i_o"],
        "extern": ['call "example.sort_rows"(twice, -1.0) -> (rows, rows_1)', "computes its outputs as a whole", "ZeroDivisionError"],
        "matmul": ["naive", "parallel", "GFLOP/s"], "matmul_gpu": ["__shared__", "round_up C k 16", "float r0[16]"],
        "tensor_cores": ["tensorize sum_i mma_m16n8k16", "cinn_mma_f16(r0[0]", "cp.async.wait_group 1;"],
        "convolution": ["inline b_windows", "cinn_mma_f16(r0[0]", "cp.async.wait_group 1;"],
        "attention": ["stages", "vectorized"], "attention_gpu": ["-> factor", "cinn_mma_f16(r1[0]", "__shfl_xor_sync"],
    }  # fmt: skip
    for part in parts[path.stem]:
        assert part in out
    if path.stem in ("tensor_cores", "convolution", "attention_gpu") and te.has_device("opencl"):
        assert "right on opencl" in out


def test_all_tutorials_are_on_the_page():
    page = (ROOT / "docs" / "te.md").read_text()
    assert {p.name for p in TUTORIALS} == set(re.findall(r"\]\(\.\./examples/te/(\w+\.py)\)", page))


@pytest.mark.parametrize("name, least", [("te.md", 10), ("te_tutorials.md", 12)])
def test_page(name, least, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "te"))
    blocks = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / name).read_text(), re.S)
    assert len(blocks) >= least
    names = {}
    for k, (kind, text) in enumerate(blocks):
        if kind == "python":
            out = printed(lambda text=text: exec(text, names))
            expected = blocks[k + 1][1] if k + 1 < len(blocks) and blocks[k + 1][0] == "text" else ""
            without_hashes = lambda x: re.sub(r"\b(k|cinn_waits_)[0-9a-f]{16}\b", r"\1", x).strip()  # noqa: E731
            assert without_hashes(out) == without_hashes(expected), text
