"""Functions for several targets side by side (te.build_module): called, and written as one file."""

import cinn_like
import numpy as np
import pytest
from cinn_like import library, te

pytestmark = pytest.mark.skipif(not library.available(), reason="needs the shared library (CINN_LIKE_LIBRARY)")

n = te.var("n")
A = te.placeholder((n, 96), name="A")
k = te.reduce_axis((0, 96), name="k")
ROWS = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="S")
X = np.random.default_rng(0).random((50, 96), "float32")


def by_threads(name):
    s = te.create_schedule(ROWS, name=name)
    i, j = s.loops(ROWS)
    _, thread = s.split(j, 32, to=("step", "thread"))
    s.reorder(i, thread, "step")
    s.bind(i, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    return s


def twice():
    return te.create_schedule(te.compute((n, 96), lambda i, j: A[i, j] * 2, name="T"), name="twice")


def check(module, rows_on_device):
    np.testing.assert_allclose(module.rows(X), X.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(module.twice(X), X * 2)
    if rows_on_device:
        np.testing.assert_allclose(module.device_rows(X), X.sum(1), rtol=1e-5)


def test_of_several_targets(tmp_path):
    """`rows` is the host's here, unless there is a GPU; `device_rows` a device's that need not be there."""
    m = te.build_module({
        "cuda -arch=sm_90a": by_threads("rows"),
        "opencl": by_threads("device_rows"),
        "cpu": [te.create_schedule(ROWS, name="rows"), twice()],
    })
    assert m.names == ["rows", "device_rows", "twice"] and [f.name for f in m.functions] == ["rows", "device_rows", "rows", "twice"]
    assert "device_rows" in dir(m) and "\nFunction device_rows(A: f32['n', 96]) -> f32['n'], for opencl\n" in repr(m)
    has_opencl = te.has_device("opencl")
    check(m, has_opencl)
    assert m.rows.target == ("cuda -arch=sm_90a" if m.functions[0].runs_here() else "cpu")
    m.export_library(tmp_path / "m.so")
    loaded = cinn_like.load_library(tmp_path / "m.so")
    check(loaded, has_opencl)
    assert loaded.twice.device_type == 1
    if not has_opencl:
        with pytest.raises(RuntimeError, match="no OpenCL"):
            m.device_rows(X)


def test_what_is_refused():
    with pytest.raises(TypeError, match='expected schedules by their targets, {"cpu": s}, got '):
        te.build_module(twice())
    with pytest.raises(TypeError, match="expected schedules by their targets"):
        te.build_module({})
    with pytest.raises(ValueError, match="two functions 'twice' for target 'cpu'"):
        te.build_module({"cpu": [twice(), twice()]})
    with pytest.raises(ValueError, match="unknown kind 'dpu'"):  # registered in C++, for C++
        te.build_module({"cpu": twice(), "dpu": twice()})
    with pytest.raises(AttributeError, match="the module has no function 'thrice'; there are twice"):
        te.build_module({"cpu": twice()}).thrice
