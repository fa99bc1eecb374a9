"""Views at any offset and with any strides: what a framework hands over never faults and is never an error."""

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from cinn_like import dims
from cinn_like.backend import cinn_like as backend
from torch._dynamo.backends.common import aot_autograd

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
PATHS = {
    "pointwise": lambda x, y: torch.relu(x * 2 + y).exp(),
    "softmax": lambda x, y: F.softmax(x + y, -1),
    "columns": lambda x, y: (x * y).sum(0),
    "transposed": lambda x, y: (x + y).t().contiguous() * 2,
    "norm": lambda x, y: F.layer_norm(x + y, (x.shape[1],)),
    "product": lambda x, y: torch.relu(x @ y.t()),
    "argmax": lambda x, y: (x + y).argmax(1),
    "scalars": lambda x, y: x * y[1, 1] + y.sum(),
}


@pytest.fixture(autouse=True)
def needs_library(real_library):
    pass


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("path", PATHS)
def test_views_at_odd_offsets(path, dtype, device):
    f, memory = PATHS[path], torch.randn(2 * 64 * 160 + 64, device=device).to(dtype)
    g = torch.compile(f, backend=backend)

    def at(offset, rows=64, columns=160):
        return memory[offset : offset + rows * columns].view(rows, columns)

    for offset, other in ((0, 64 * 160), (1, 64 * 160 + 3), (2, 64 * 160 + 1), (16, 64 * 160 + 5)):
        x, y = at(offset), at(other)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
        if path == "argmax":
            assert torch.equal(g(x, y), f(x.double(), y.double()))  # sums are not rounded before they are compared
        else:
            torch.testing.assert_close(g(x, y), f(x.double(), y.double()).to(dtype), **tolerance)


@pytest.mark.parametrize("device", DEVICES)
def test_a_view_with_other_strides_than_the_trace(device):
    f = lambda x: F.softmax(x * 2, -1)  # noqa: E731
    g, memory = torch.compile(f, backend=backend), torch.randn(4096, device=device)
    for x in (memory[:1024].view(32, 32), memory[1:2049].view(32, 64)[:, 1:33], memory[3:1027].view(32, 32).t()):
        torch.testing.assert_close(g(x), f(x), rtol=1e-4, atol=1e-5)


def test_a_buffer_at_an_odd_byte():
    data = bytearray(4 * 65)
    f = lambda x: x.abs() + 1  # noqa: E731
    g = torch.compile(f, backend=backend)
    for offset in (0, 1, 2, 4):
        x = torch.frombuffer(data, dtype=torch.float32, count=64, offset=offset)
        assert torch.equal(g(x), torch.ones_like(x))


LAST = torch.channels_last


# A copy that turns what it reads is worth a kernel; one of lines as they lie, or of short ones far apart, is the framework's.
@pytest.mark.parametrize("shape, copy, compiled", [
    ((100, 60), lambda x: x.t().contiguous(), True),
    ((2, 64, 17, 17), lambda x: x.contiguous(memory_format=LAST), True),
    ((2, 3, 33, 31), lambda x: x.contiguous(memory_format=LAST), True),
    ((2, 33, 31, 3), lambda x: x.permute(0, 3, 1, 2).contiguous(), True),
    ((40, 64), lambda x: x[:, ::2].contiguous(), True),
    ((2, 64, 7, 7), lambda x: x.contiguous(memory_format=LAST), False),
    ((2, 32, 6, 64), lambda x: x.transpose(1, 2).contiguous(), False),
    ((64, 100), lambda x: x[8:40, 16:80].contiguous(), False),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.float64])
@pytest.mark.parametrize("dynamic", [False, True])
def test_copies_that_turn(shape, copy, compiled, dtype, dynamic):
    cinn_like.reset_report()
    x = (torch.randn(shape) * 50).to(dtype)
    got = torch.compile(copy, backend=backend, dynamic=dynamic)(x)
    assert torch.equal(got, copy(x)) and got.stride() == copy(x).stride()
    assert bool(cinn_like.report().subgraphs) == compiled


# Results that move the same elements in different orders, in one kernel or several; what each reads may lie across it.
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1, 64, 64), (2, 100, 77), (3, 17, 130), (1, 257, 40)])
@pytest.mark.parametrize("fn", [
    lambda x, y: (x * 2, x.transpose(1, 2).contiguous() + 1),
    lambda x, y: ((x + y.transpose(1, 2)).contiguous(), (y + x.transpose(1, 2)).contiguous()),
    lambda x, y: (x.transpose(0, 2).contiguous() * 3, x + 1, x.transpose(1, 2).contiguous() + 2, y * 2),
    lambda x, y: (x.transpose(1, 2).contiguous().double(), x.half()),
    lambda x, y: (x + 1, (x + 1).transpose(1, 2).contiguous(), (x + 1).transpose(1, 2) + y),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_of_several_orders(shape, fn, dtype, dynamic, device):
    cinn_like.reset_report()
    a, b, c = shape
    x, y = ((torch.rand(s) * 50).to(dtype).to(device) for s in ((a, b, c), (a, c, b)))
    for got, want in zip(torch.compile(fn, backend=backend, dynamic=dynamic)(x, y), fn(x, y)):
        torch.testing.assert_close(got, want)
    assert not cinn_like.report().failures


def quantise(x):
    parts = x.view(x.shape[0], -1, 32)
    scale = parts.abs().amax(-1, keepdim=True) / 127
    return (parts / scale).round().to(torch.int8).view(x.shape), scale.squeeze(-1)


# A view's dimension that a guard says the value of is that value; sizes that `//` makes are floors.
@pytest.mark.parametrize("fn, shapes", [
    (quantise, [[(40, 128)], [(9, 96)]]),
    (lambda x: (x.view(x.shape[0], x.shape[1], -1, 16).softmax(-1) * 2).view(x.shape), [[(2, 5, 64)], [(3, 4, 48)]]),
    (lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)),
     [[(2, 16, 6, 6), (16,), (16,)], [(3, 24, 5, 5), (24,), (24,)]]),
])
@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_symbolic_sizes(fn, shapes, device):
    compiled = torch.compile(fn, backend=backend, dynamic=True, options={"leave_to_framework": False})
    for of_call in shapes:
        cinn_like.reset_report()
        args = [torch.randn(s, device=device) for s in of_call]
        got, expected = (r if isinstance(r, tuple) else (r,) for r in (compiled(*args), fn(*args)))
        for g, e in zip(got, expected, strict=True):
            assert g.dtype == e.dtype and torch.allclose(g.float(), e.float(), rtol=1e-4, atol=1e-5)
        report = cinn_like.report()
        assert not report.fallback_ops, report
        if device == "cpu":  # GPUs may have several, where rows may be few and long
            assert sum(r.kernels for r in report.subgraphs) <= 1, report


# Channels that come last: a group's are short lines, or long ones, of places that fill blocks of rows or don't.
@pytest.mark.parametrize("shape, groups", [
    ((2, 30, 5, 7), 3), ((1, 320, 33, 31), 32), ((3, 128, 20, 20), 32), ((2, 6, 40, 41), 2), ((2, 96, 9, 9), 1),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_groups_of_channels_that_come_last(shape, groups, dtype, dynamic, device):
    def norm(x, w, b):
        return F.silu(F.group_norm(x, groups, w, b))

    compiled = torch.compile(norm, backend=backend, dynamic=dynamic, options={"leave_to_framework": False})
    c = shape[1]
    args = [torch.randn(shape, device=device) * 3 + 5, torch.randn(c, device=device), torch.randn(c, device=device)]
    args = [x.to(dtype) for x in args]
    args[0] = args[0].contiguous(memory_format=torch.channels_last)
    got, expected = compiled(*args), norm(*(x.double() for x in args))
    tolerance = 2e-5 if dtype == torch.float32 else 2e-2
    assert got.dtype == dtype and torch.allclose(got.double(), expected, rtol=tolerance, atol=tolerance)


# What rows look up in one table, by blocks of 32 rows, of which the last may be shorter.
@pytest.mark.parametrize("rows", [1, 3, 4, 31, 33, 200])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_tables_of_lines(rows, dynamic, device):
    def look_up(x, i, w):
        return x * w[i] + w[i].exp()

    compiled = torch.compile(look_up, backend=backend, dynamic=dynamic)
    for columns in (70, 515):
        x, i, w = torch.randn(rows, columns), torch.randint(40, (columns,)), torch.randn(40)
        args = [y.to(device) for y in (x, i, w)]
        assert torch.allclose(compiled(*args), look_up(*args), rtol=1e-5, atol=1e-6)


# What the framework makes of a group norm's sizes where it has no kernel that says the shape: 4 * (s // 4), s * s // s.
# Channels are at least the first multiple of the groups that their range holds, also where the batch says nothing of them.
@pytest.mark.parametrize("batch", [1, 2])
def test_sizes_that_guards_know(batch):
    seen = []

    def compiler(gm, inputs):
        seen.extend(n.meta["val"] for n in gm.graph.nodes if n.target is torch.ops.aten.native_group_norm.default)
        return gm

    args = [torch.randn(s, device="meta") for s in [(batch, 16, 6, 6), (16,), (16,)]]
    norm = torch.compile(lambda x, w, b: F.group_norm(x, 4, w, b) * 2, backend=aot_autograd(fw_compiler=compiler), dynamic=True)
    assert norm(*args).shape == args[0].shape
    n, c, h, w = map(dims.to_expr, seen[0][0].shape)
    assert h == w and all(s == 1 or s.is_Symbol for s in (n, c, h, w)), (n, c, h, w)
    low, _, divisor = dims.symbol_facts(c, seen[0][0].shape[1].node.shape_env)
    assert divisor == 4 and low > 0 and low % divisor == 0
