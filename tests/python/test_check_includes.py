"""The include checker finds what it is there for: each case is one file in a copy of the table's folders."""
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CASES = [
    ("ir/a.cc", '#include "cinn_like/base/status.h"', None),
    ("ir/a.cc", "#include <vector>\n#include <sys/mman.h>", None),
    ("ir/a.cc", '#include "absl/status/status.h"', None),
    ("backends/llvm/a.cc", "#include <llvm/IR/Module.h>", None),
    ("frontend/torch/a.c", "#include <Python.h>", None),
    ("ir/a.cc", '#include "runtime/call.h"', 'ir/a.cc:1: "runtime/call.h": ir may include cinn_like/base'),
    ("ir/a.cc", '\n#include "cinn_like/c_api.h"', 'ir/a.cc:2: "cinn_like/c_api.h": ir may include cinn_like/base'),
    ("cinn_like/base/a.h", '#include "cinn_like/c_api.h"', "cinn_like/base may include nothing else of ours"),
    ("frontend/torch/a.c", '#include "cinn_like/base/status.h"', "frontend/torch may include cinn_like/c_api.h, runtime/call.h"),
    ("hlir/a.cc", '#include "llvm/IR/Module.h"', "hlir may not include llvm"),
    ("backends/llvm/a.h", '#include "llvm/IR/Module.h"', "no header includes llvm"),
    ("backends/a.cc", "#include <cuda.h>", "backends may not include cuda.h"),
    ("runtime/a.cc", '#include "dtype.h"', "no such file; paths start at the repository root"),
]


@pytest.mark.parametrize("path,text,message", CASES)
def test_include(tmp_path, path, text, message):
    for name in ("docs/architecture.md", "cinn_like/base/status.h", "cinn_like/c_api.h", "runtime/call.h",
                 "runtime/global_functions.h"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text + "\n")
    run = subprocess.run([sys.executable, ROOT / "tools/check_includes.py", tmp_path], capture_output=True, text=True)
    assert (run.returncode == 0) == (message is None), run.stdout
    assert message is None or message in run.stdout
