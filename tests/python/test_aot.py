"""Models compiled ahead of time: the file's function gives what the JIT's does, from Python and from C."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import cinn_like
import numpy as np
import pytest
import torch
from checks import compare
from cinn_like import function, library, loaded
from cinn_like.backend import cinn_like as backend
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

pytestmark = [
    pytest.mark.skipif(not library.available(), reason="needs the shared library"),
    pytest.mark.skipif("CINN_TEST_DEVICE" in os.environ or "CINN_TEST_TARGET" in os.environ, reason="files are for CPUs"),
]


def export(tmp_path, model, *args, name="net.so", **options):
    """The library of `model`, compiled like the JIT's functions."""
    options = {"target": function.default_target(torch.device("cpu")), **options}
    if isinstance(model, nn.Module):
        model.eval()
    return cinn_like.load_library(cinn_like.aot(model, args, path=tmp_path / name, **options))


def jit(model, *args, **options):
    with torch.inference_mode():
        return torch.compile(model, backend=backend, fullgraph=True, options={"freeze": True}, **options)(*args)


class Net(nn.Module):
    """Tied weights, buffers, a constant, a convolution whose weights lie as its images do."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.tokens = nn.Embedding(40, 32)
        self.mix = nn.Linear(32, 32)
        self.norm = nn.BatchNorm1d(32)
        self.out = nn.Linear(32, 40, bias=False)
        self.out.weight = self.tokens.weight
        self.register_buffer("scale", torch.rand(32), persistent=False)
        self.shift = torch.rand(40)
        self.to(dtype)

    def forward(self, ids, x):
        h = torch.tanh(self.mix(self.tokens(ids) * self.scale + x.to(self.scale.dtype)))
        h = self.norm(h.transpose(1, 2)).transpose(1, 2)
        return self.out(h) + self.shift.to(h.dtype), h.amax(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_file_gives_what_the_jit_gives(tmp_path, dtype):
    model = Net(dtype).eval()
    n = Dim("n", max=64)
    net = export(tmp_path, model, torch.randint(0, 40, (4, 6)), torch.rand(4, 6, 32),
                 dynamic_shapes={"ids": {0: n}, "x": {0: n}})  # fmt: skip
    assert net.functions["net"].parameters == ["ids", "x"]
    assert "@net(%ids: i64[n,6], %x: f32[n,6,32]) where n in 1..64 hint 4 -> " in net.description
    for rows in (4, 9, 1):
        args = torch.randint(0, 40, (rows, 6)), torch.rand(rows, 6, 32)
        got = net(*args)
        if rows > 1:  # for which the JIT has code of its own
            assert all(map(torch.equal, got, jit(model, *args, dynamic=True)))
        tolerance = 1e-5 if dtype == torch.float32 else 5e-2
        torch.testing.assert_close(got, model(*args), rtol=tolerance, atol=tolerance)
        assert all(map(torch.equal, net(args[0], x=args[1]), got))
    with pytest.raises(RuntimeError, match=r"net: argument 'ids': dimension 0: n = 65 is outside 1\.\.64"):
        net(torch.zeros(65, 6, dtype=torch.int64), torch.rand(65, 6, 32))


def test_weights_that_are_tied_or_not_used_are_not_stored_twice(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.rest = nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False), nn.Linear(512, 512)
            self.b.weight = nn.Parameter(self.a.weight.detach())  # another parameter, the same memory

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    model, x = Tied(), torch.rand(3, 256)
    net = export(tmp_path, model, x)
    assert torch.equal(net(x), jit(model, x))
    assert (tmp_path / "net.so").stat().st_size < 1.5 * 256 * 256 * 4


def test_results_in_order(tmp_path):
    def f(x, tree, k=2, *, flag=None):
        y = tree["b"][0] * k
        rest = {"number": 0.5, "half": y[:1], "b": True}
        return {"x": x, "none": None, "rows": x.shape[0], "view": x.t(), "twice": (y, y), "rest": rest}

    x, b = torch.rand(3, 2), torch.rand(4)
    net = export(tmp_path, f, x, {"b": [b], "a": 1}, dynamic_shapes=({0: Dim("n")}, {"b": [None], "a": None}))
    assert net.net.parameters == ["x", "tree_b_0"]
    x = torch.rand(5, 2)
    got = net(x, b)
    numbers = torch.tensor(5), torch.tensor(0.5, dtype=torch.float64), torch.tensor(True)
    compare((x, numbers[0], x.t().contiguous(), b * 2, b * 2, numbers[1], b[:1] * 2, numbers[2]), got)
    assert got[0].data_ptr() != x.data_ptr() and len({g.data_ptr() for g in got}) == len(got)


def test_a_single_result_and_arguments_of_all_kinds(tmp_path):
    net = export(tmp_path, lambda x, n: x * n + x.shape[0], torch.rand(4, 3), 3,
                 dynamic_shapes=({0: Dim.DYNAMIC}, Dim.DYNAMIC))  # fmt: skip
    x = torch.rand(3, 6).t()  # not contiguous
    assert net.net.parameters == ["x", "n"]
    expected = x * 7 + 6
    torch.testing.assert_close(net(x, 7), expected)
    assert np.array_equal(net(x.numpy(), 7), net(x, 7).numpy()) and isinstance(net(x.numpy(), 7), np.ndarray)
    assert torch.equal(net(n=7, x=x), net(x, 7)) and torch.equal(net(torch.from_dlpack(x.numpy()), 7), net(x, 7))
    for args, error, message in [
        ((x,), TypeError, r"net: expected 2 arguments \(x, n\), got 1"),
        ((x, 7, 8), TypeError, "got 3"),
        ((x.double(), 7), RuntimeError, "net: argument 'x': expected f32.*got f64"),
        ((x[0], 7), RuntimeError, "net: argument 'x': .*rank 1 is not 2"),
        ((3, 7), TypeError, "net: expected a tensor, got int"),
    ]:
        with pytest.raises(error, match=message):
            net(*args)
    with pytest.raises(AttributeError, match="the library has no function 'other'; there are net"):
        net.other  # noqa: B018


def test_a_process_without_torch_and_without_a_compiler(tmp_path):
    model, x = Net().eval(), torch.rand(2, 6, 32)
    ids = torch.randint(0, 40, (2, 6))
    net = export(tmp_path, model, ids, x)
    np.savez(tmp_path / "args.npz", ids=ids.numpy(), x=x.numpy(), y=net(ids, x)[0].numpy())
    program = """
import sys, numpy, cinn_like
a = numpy.load(sys.argv[2])
y, h = cinn_like.load_library(sys.argv[1])(a["ids"], a["x"])
assert numpy.array_equal(y, a["y"]) and "torch" not in sys.modules
assert "libcinn_like.so" not in open("/proc/self/maps").read()
"""
    path = str(pathlib.Path(cinn_like.__file__).parents[1])
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "net.so"), str(tmp_path / "args.npz")], check=True,
                   env={**os.environ, "PYTHONPATH": path})  # fmt: skip


def test_without_weights_in_the_file(tmp_path, real_library):
    text = "graph @f(%x: f32[n,4], %w: f32[4,3] static) where n in 1..9 {\n  %0 = matmul(%x, %w) : f32[n,3]\n  return %0\n}\n"
    lib = library.get()
    handle = lib.compile(text, "cpu")
    lib.export_library([handle], tmp_path / "f.so")
    lib.release(handle)
    x, w = torch.rand(5, 4), torch.rand(4, 3)
    f = cinn_like.load_library(tmp_path / "f.so").f
    with pytest.raises(RuntimeError, match="f: its weights are not in the file"):
        f(x, w)
    with pytest.raises(TypeError, match=r"f: expected 1 weights \(w\), got 0"):
        f.prepare()
    torch.testing.assert_close(f.prepare(w)(x), x @ w)
    np.testing.assert_allclose(f.prepare(w.numpy())(x.numpy()), (x @ w).numpy(), rtol=1e-5)


@pytest.mark.parametrize("model, shapes", [
    (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), [(2, 5, 32)]),
    (nn.MultiheadAttention(32, 4, batch_first=True), [(2, 5, 32)] * 3),
    (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Upsample(scale_factor=2)), [(2, 3, 10, 10)]),
    (nn.Upsample(size=(7, 9), mode="bilinear"), [(1, 2, 4, 4)]),
    (nn.LSTM(8, 6, batch_first=True), [(2, 3, 8)]),
    (lambda x, y: x * 2, [(0, 3), (2,)]),
], ids=["encoder", "attention", "images", "bilinear", "lstm", "empty"])  # fmt: skip
def test_what_the_framework_would_keep_is_compiled(tmp_path, model, shapes):
    args = [torch.rand(shape) for shape in shapes]
    net = export(tmp_path, model, *args)
    got, expected = net(*args), pytree.tree_leaves(model(*args))
    got = got if isinstance(got, tuple) else (got,)
    torch.testing.assert_close(list(got), [e.detach() for e in expected], rtol=1e-4, atol=1e-5)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


def _write_to(x):
    x.add_(1)
    return x * 2


@pytest.mark.parametrize("model, arg, message", [
    (lambda x: torch.sort(torch.relu(x))[0], torch.rand(3), r"can't be compiled.*aten\.sort.*no such op"),
    (lambda x: x[x > 0].exp(), torch.rand(3), "aten"),
    (lambda x: torch.fft.fft(x), torch.rand(4), "aten._fft_r2c"),
    (Counter(), torch.rand(3), "buffer mutation: the model writes to 'count', and a library keeps no state"),
    (nn.Dropout(), torch.rand(3), r"aten\.native_dropout\.default \(no such op in graph text\)$"),
    (_write_to, torch.rand(3), "user input mutation: the model writes to 'x'"),
    (lambda x: None, torch.rand(3), "gives no tensors"),
], ids=["sort", "mask", "fft", "buffer", "random", "input", "nothing"])  # fmt: skip
def test_what_is_refused(tmp_path, model, arg, message):
    with pytest.raises(cinn_like.Unsupported, match=message):
        cinn_like.aot(model, (arg,), path=tmp_path / "net.so")
    assert not list(tmp_path.iterdir())


def test_files_that_are_none(tmp_path):
    with pytest.raises(RuntimeError, match="can't be read: No such file"):
        cinn_like.load_library(tmp_path / "none.so")
    export(tmp_path, nn.Linear(64, 64), torch.rand(2, 64))
    damaged = bytearray((tmp_path / "net.so").read_bytes())
    refused = 0
    for at in range(0, len(damaged), 499):
        bad = bytearray(damaged)
        bad[at] ^= 255
        (tmp_path / "bad.so").unlink(missing_ok=True)
        (tmp_path / "bad.so").write_bytes(bad)
        try:
            cinn_like.load_library(tmp_path / "bad.so")
        except RuntimeError:
            refused += 1
    assert refused > 20  # the rest is what the system does not load
    (tmp_path / "bad.so").write_bytes(damaged[: len(damaged) // 2])
    with pytest.raises(RuntimeError, match="is cut short"):
        cinn_like.load_library(tmp_path / "bad.so")


def minilm():
    """(token ids of sentences, the model with its first layer alone): its real weights where they are, else random ones in its
    shapes."""
    transformers = pytest.importorskip("transformers")
    try:
        from cinn_like import demo

        tokenizer, model = demo.load_minilm()
        ids = [tokenizer(s).input_ids for s in demo.SENTENCES[:5]]
    except ImportError:
        config = transformers.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
        model = transformers.BertModel(config).eval()
        ids = [torch.randint(1000, 30000, (k,)).tolist() for k in (7, 12, 9, 3, 11)]
    model.encoder.layer = model.encoder.layer[:1]  # what takes time
    model.set_attn_implementation("eager")  # else the JIT leaves attention to the framework
    return ids, model


def test_a_c_program_embeds_sentences(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no cc")
    ids, model = minilm()
    spec = importlib.util.spec_from_file_location("embed_sentences", EXAMPLES / "embed_sentences.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    longest = max(map(len, ids))
    padded = torch.tensor([line + [0] * (longest - len(line)) for line in ids])
    mask = torch.tensor([[1] * len(line) + [0] * (longest - len(line)) for line in ids])
    target = function.default_target(torch.device("cpu"))
    path = example.export(model, tmp_path / "minilm.so", padded, mask, target=target)
    assert os.path.getsize(path) < 1.05 * sum(p.numel() * 4 for p in model.parameters())

    env = {**os.environ, "PYTHONPATH": str(pathlib.Path(cinn_like.__file__).parents[1])}
    flags = subprocess.run([sys.executable, "-m", "cinn_like", "--cflags", "--libs"], stdout=subprocess.PIPE, text=True,
                           check=True, env=env)  # fmt: skip
    program = tmp_path / "embed"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, EXAMPLES / "embed_sentences.c"]
    subprocess.run([*command, *flags.stdout.split()], check=True)
    lines = "".join(" ".join(map(str, line)) + "\n" for line in ids)
    out = subprocess.run([program, path], input=lines, capture_output=True, text=True, check=True).stdout
    got = torch.tensor([[float(x) for x in line.split()] for line in out.splitlines()])
    assert torch.equal(got, cinn_like.load_library(path)(padded, mask))
    assert torch.equal(got, jit(example.Embed(model), padded, mask, dynamic=True))
    torch.testing.assert_close(got, example.Embed(model)(padded, mask).detach(), rtol=1e-4, atol=1e-5)
    failed = subprocess.run([program, EXAMPLES / "mlp.graph"], input=lines, capture_output=True, text=True)
    assert failed.returncode == 1 and "is no ELF file" in failed.stderr


def test_tvm_ffi_loads_it(tmp_path):
    tvm_ffi = pytest.importorskip("tvm_ffi")
    model, x = Net().eval(), torch.rand(2, 6, 32)
    ids = torch.randint(0, 40, (2, 6))
    net = export(tmp_path, model, ids, x)  # the runtime is loaded now
    expected = net(ids, x)
    f = tvm_ffi.load_module(str(tmp_path / "net.so")).net
    assert all(torch.equal(torch.from_dlpack(a), b) for a, b in zip(f(ids, x), expected, strict=True))
    given = [torch.empty_like(e) for e in expected]
    f(tvm_ffi.from_dlpack(ids), x, *given)
    assert all(map(torch.equal, given, expected))
    with pytest.raises(RuntimeError, match="net: expected 2 arguments, and none or 2 tensors for results.* got 1"):
        f(ids)
    with pytest.raises(IndexError, match="index out of range: expected 0 to 39, got 40"):
        f(ids + 40 - ids, x)


def test_where_things_are():
    assert pathlib.Path(cinn_like.get_include(), "runtime/library.h").exists()
    assert pathlib.Path(cinn_like.get_library_dir(), loaded._RUNTIME).exists()
