"""Convolutions of random windows, against float64: what of them is masked, strided, dilated, grouped or transposed is read
through panels, and each shape leaves other parts of tiles over."""

import random

import pytest
import torch
import torch.nn.functional as F

import cinn_like
from checks import backend


def case(seed):
    """The function, its operands, and what it is."""
    r = random.Random(seed)
    dims = r.choice((1, 2, 2))
    groups = r.choice((1, 1, 2, 3))
    channels, out = groups * r.choice((1, 4, 7, 33)), groups * r.choice((1, 5, 16, 40))
    kernel, stride, dilation = ([r.randint(1, 3) for _ in range(dims)] for _ in range(3))
    padding = [r.randint(0, 2) for _ in range(dims)]
    size = [d * (k - 1) + r.choice((1, 4, 11, 19)) for k, d in zip(kernel, dilation)]
    window = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x = torch.randn(r.choice((1, 3)), channels, *size)
    if r.random() < 0.25:
        f = F.conv_transpose1d if dims == 1 else F.conv_transpose2d
        w = torch.randn(channels, out // groups, *kernel)
        # All that lies within the padding is cut away.
        window["padding"] = [min(p, d * (k - 1) // 2) for p, k, d in zip(padding, kernel, dilation)]
    else:
        f = F.conv1d if dims == 1 else F.conv2d
        w = torch.randn(out, channels // groups, *kernel)
    last = dims == 2 and r.random() < 0.3
    bias = r.random() < 0.5

    def run(x, w, b):
        y = f(x.permute(0, 3, 1, 2) if last else x, w, b if bias else None, **window)
        return torch.relu(y.permute(0, 2, 3, 1) if last else y)

    x = x.permute(0, 2, 3, 1).contiguous() if last else x
    return run, (x, w, torch.randn(out)), f"{f.__name__} {tuple(x.shape)} {tuple(w.shape)} {window}"


@pytest.mark.parametrize("block", range(8))
def test_random_windows(real_library, block):
    for seed in range(block * 5, block * 5 + 5):
        torch.manual_seed(seed)
        run, args, what = case(seed)
        torch._dynamo.reset()
        cinn_like.reset_report()
        got = torch.compile(run, backend=backend, fullgraph=True, dynamic=False)(*args)
        right = run(*(a.double() for a in args))
        torch.testing.assert_close(got.double(), right, rtol=1e-5, atol=1e-4, msg=lambda m: f"{seed}: {what}\n{m}")
        assert not cinn_like.report().failures and not any(s.refused for s in cinn_like.report().subgraphs), what
