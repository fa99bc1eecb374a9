"""Views at any offset and with any strides: what a framework hands over never faults and is never an error."""

import pytest
import torch
import torch.nn.functional as F
from cinn_like.backend import cinn_like as backend

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
