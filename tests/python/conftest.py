"""Fixtures: the reference evaluator in the library's place, so that what the frontend writes is tested on its own."""

import os
import pathlib
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).parent
# The installed package, library included, comes before the sources.
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parents[1] / "frontend" / "torch"))

# Tests of what is compiled want all of it compiled, whoever is faster (test_bids.py is about that).
os.environ.setdefault("FLAGS_cinn_leave_to_framework", "false")

import cinn_like  # noqa: E402
from cinn_like import function, library  # noqa: E402
from reference import DTYPES, Graph  # noqa: E402

# CINN_TEST_DEVICE=cuda: tensors that a test makes without naming a device, and so what is compiled, live there.
if "CINN_TEST_DEVICE" in os.environ:
    torch.set_default_device(os.environ["CINN_TEST_DEVICE"])
    _compile = torch.compile

    class Compiled:
        """What torch.compile gives, called without a default device: Dynamo does not trace all code under that mode."""

        def __init__(self, *args, **kwargs):
            self.compiled = _compile(*args, **kwargs)

        def __call__(self, *args, **kwargs):
            device = torch.get_default_device()
            torch.set_default_device(None)
            try:
                return self.compiled(*args, **kwargs)
            finally:
                torch.set_default_device(device)

        def __getattr__(self, name):
            return getattr(self.compiled, name)

    torch.compile = Compiled
# CINN_TEST_TARGET=opencl: what a test compiles without naming a target is compiled for that one.
if "CINN_TEST_TARGET" in os.environ:
    function.default_target = lambda device: os.environ["CINN_TEST_TARGET"]
# What is compared with is eager PyTorch in the dtype that it says.
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


class ReferenceFunction:
    """Evaluates the text in float64, on the CPU, and gives results in the dtypes that it writes."""

    def __init__(self, text, target, device, signature):
        self.text, self.signature, self.info = text, signature, {"kernels": 1, "seconds": {}}
        self.graph, self.calls, self.device = Graph(text), 0, device

    def call(self, *args):
        self.calls += 1
        n = len(args) - self.signature.num_symbols
        with torch.no_grad():
            values, dtypes = self.graph.run(args[:n], args[n:])
        return tuple(v.to(self.device, DTYPES[t]).contiguous() for v, t in zip(values, dtypes))


@pytest.fixture
def reference(monkeypatch):
    """Compiles with the reference evaluator; gives the list of its functions."""
    made = []

    def compile_function(*args):
        made.append(ReferenceFunction(*args))
        return made[-1]

    monkeypatch.setattr(function, "compile_function", compile_function)
    return made


@pytest.fixture
def real_library(monkeypatch):
    """The shared library; gives the list of functions compiled with it."""
    if not library.available():
        pytest.skip("needs the shared library (CINN_LIKE_LIBRARY)")
    made, compile_function = [], function.compile_function

    def keep(*args):
        made.append(compile_function(*args))
        return made[-1]

    monkeypatch.setattr(function, "compile_function", keep)
    return made


@pytest.fixture(params=["reference", "library"])
def engine(request):
    """Runs a test twice: what the frontend writes is evaluated by the reference, and by the library."""
    return request.getfixturevalue("reference" if request.param == "reference" else "real_library")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    cinn_like.reset_report()
    torch.manual_seed(0)
