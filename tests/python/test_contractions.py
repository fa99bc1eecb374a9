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
    dims = r.choice((1, 2, 2, 3))
    groups = r.choice((1, 1, 2, 3))
    channels, out = groups * r.choice((1, 4, 7, 33)), groups * r.choice((1, 5, 16, 40))
    kernel, stride, dilation = ([r.randint(1, 3) for _ in range(dims)] for _ in range(3))
    padding = [r.randint(0, 2) for _ in range(dims)]
    size = [d * (k - 1) + r.choice((1, 4, 11, 19) if dims < 3 else (1, 4, 7)) for k, d in zip(kernel, dilation)]
    window = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x = torch.randn(r.choice((1, 3)), channels, *size)
    if r.random() < 0.25:
        f = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        w = torch.randn(channels, out // groups, *kernel)
        # All that lies within the padding is cut away.
        window["padding"] = [min(p, d * (k - 1) // 2) for p, k, d in zip(padding, kernel, dilation)]
    else:
        f = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
        w = torch.randn(out, channels // groups, *kernel)
    last = dims > 1 and r.random() < 0.3
    bias = r.random() < 0.5

    def run(x, w, b):
        y = f(x.movedim(-1, 1) if last else x, w, b if bias else None, **window)
        return torch.relu(y.movedim(1, -1) if last else y)

    x = x.movedim(1, -1).contiguous() if last else x
    return run, (x, w, torch.randn(out)), f"{f.__name__} {tuple(x.shape)} {tuple(w.shape)} {window}"


def check_random(case, seed, dynamic):
    torch.manual_seed(seed)
    run, args, what = case(seed)
    torch._dynamo.reset()
    cinn_like.reset_report()
    got = torch.compile(run, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    right = run(*(a.double() for a in args))
    torch.testing.assert_close(got.double(), right, rtol=1e-5, atol=1e-4, msg=lambda m: f"{seed}: {what}\n{m}")
    assert not cinn_like.report().failures and not any(s.refused for s in cinn_like.report().subgraphs), what


@pytest.mark.parametrize("block", range(8))
def test_random_windows(real_library, block):
    for seed in range(block * 5, block * 5 + 5):
        check_random(case, seed, False)


def depthwise(seed):
    """(function, arguments, what it is): each channel by windows of its own, of odd strides, dilations and paddings."""
    r = random.Random(seed)
    dims, multiplier = r.choice((1, 2, 2, 2, 3)), r.choice((1, 1, 1, 2))
    kernel = [r.choice((1, 2, 3, 4, 5, 7)) for _ in range(dims)]
    window = {"stride": [r.choice((1, 1, 2, 3)) for _ in range(dims)], "dilation": [r.choice((1, 1, 2)) for _ in range(dims)],
              "padding": [r.randint(0, k) for k in kernel]}  # fmt: skip
    channels = r.choice((1, 3, 16, 33))
    sizes = [r.randint(d * (k - 1) + 1, (300, 60, 20)[dims - 1]) for k, d in zip(kernel, window["dilation"])]
    f = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    x, w = torch.randn(r.randint(1, 3), channels, *sizes), torch.randn(channels * multiplier, 1, *kernel)

    def run(x, w, b):
        y = f(x, w, b, groups=channels, **window)
        return F.silu(y) * y if seed % 2 else y

    return run, (x, w, torch.randn(channels * multiplier)), f"{f.__name__} {tuple(x.shape)} {tuple(w.shape)} {window}"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("block", range(4))
def test_random_windows_of_single_channels(real_library, block, dynamic):
    for seed in range(block * 4, block * 4 + 4):
        check_random(depthwise, seed, dynamic)


def rows_apart(seed):
    """(function, arguments, what it is): each step of the reduction reads a row of a matrix, as gradients of weights do."""
    r = random.Random(seed)
    steps, rows, columns = r.choice((1568, 1200, 1001, r.randint(900, 2000))), r.choice((384, 256, 300, 517)), r.choice((40, 96, 77))
    batch = (r.randint(2, 3),) if r.random() < 0.3 else ()
    x, w = torch.randn(*batch, steps, rows) * 0.1, torch.randn(*batch, steps, columns)

    def run(x, w):
        y = (torch.sigmoid(x) if seed % 3 == 1 else x).transpose(-1, -2) @ w
        return F.silu(y) if seed % 2 else y

    return run, (x, w), f"{tuple(x.shape)} {tuple(w.shape)}"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("block", range(2))
def test_random_rows_that_lie_apart(real_library, block, dynamic):
    for seed in range(block * 6, block * 6 + 6):
        check_random(rows_apart, seed, dynamic)


@pytest.mark.parametrize("turned", ["-", "x", "w"])
def test_symbolic_products(real_library, turned):
    """One function for all sizes: fewer than a tile, several parts of the depth, rests of each."""

    def f(x, w):
        x, w = x.transpose(-1, -2) if turned == "x" else x, w.transpose(-1, -2) if turned == "w" else w
        return torch.relu(x @ w + 1.0)

    torch.manual_seed(0)
    compiled = torch.compile(f, backend=backend, fullgraph=True, dynamic=True)
    for rows, depth, columns in ((600, 5000, 70), (3, 2, 5), (8, 2048, 32), (9, 2049, 33), (521, 17, 100), (70, 1023, 16)):
        x = torch.randn((depth, rows) if turned == "x" else (rows, depth))
        w = torch.randn((columns, depth) if turned == "w" else (depth, columns))
        for t in (x, w):
            torch._dynamo.mark_dynamic(t, 0)
            torch._dynamo.mark_dynamic(t, 1)
        got, want = compiled(x, w), f(x.double(), w.double())
        assert (got.double() - want).abs().max() < 1e-6 * depth**0.5 * 8, (rows, depth, columns)
    assert len(cinn_like.report().subgraphs) == 1


PHASES = {  # x, w, what the transposed window is
    "generator": ((4, 64, 4, 4), (64, 48, 4, 4), {"stride": 2, "padding": 1}),
    "two_by_two": ((1, 40, 17, 19), (40, 24, 2, 2), {"stride": 2}),
    "no_multiples": ((2, 33, 9, 7), (33, 20, 3, 3), {"stride": 2, "padding": 1}),
    "other_strides": ((2, 16, 9, 7), (16, 20, 5, 3), {"stride": (3, 2), "padding": (2, 0), "output_padding": (1, 0)}),
    "more_places_than_taps": ((1, 64, 12, 12), (64, 40, 1, 1), {"stride": 2, "output_padding": 1}),
    "dilated": ((1, 16, 9, 9), (16, 16, 3, 3), {"stride": 4, "dilation": 2, "padding": 1}),
    "groups": ((2, 32, 9, 9), (32, 12, 4, 4), {"stride": 2, "padding": 1, "groups": 2}),
    "of_one_dimension": ((2, 64, 50), (64, 32, 16), {"stride": 8, "padding": 4}),
    "of_three_dimensions": ((1, 16, 5, 6, 7), (16, 20, 2, 3, 2), {"stride": 2, "padding": (0, 1, 0)}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", PHASES)
def test_phases(real_library, name, dtype):
    """Also of an epilogue, and as the gradient of the convolution that reads what this writes."""
    x, w, window = PHASES[name]
    f = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(x) - 3]
    torch.manual_seed(0)
    x, w = torch.randn(x).to(dtype), torch.randn(w).to(dtype)
    b = torch.randn(w.shape[1] * window.get("groups", 1)).to(dtype)

    def run(x, w, b):
        return torch.relu(f(x, w, b, **window)) + 1

    got = torch.compile(run, backend=backend, fullgraph=True, dynamic=False)(x, w, b)
    right = run(x.double(), w.double(), b.double())
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 0.1}
    torch.testing.assert_close(got.double(), right, **tolerance)
    report = cinn_like.report()
    assert not report.failures and not any(s.refused for s in report.subgraphs), name


@pytest.mark.parametrize("seed", range(100, 106))
def test_windows_over_symbolic_sizes(real_library, seed):
    check_random(case, seed, True)


def test_padded_copies_of_symbolic_sizes(real_library):
    """What a task copies is as large as the image at hand, not as any that the symbols' bounds allow."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 120, 3, stride=8, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(120, 120, 5, padding=2, groups=120)
    )
    compiled = torch.compile(net, backend=backend, fullgraph=True)
    for size in ((192, 192), (224, 160), (100, 333)):
        x = torch.randn(1, 3, *size)
        for d in (2, 3):
            torch._dynamo.mark_dynamic(x, d)
        torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-4)
    assert not cinn_like.report().failures


WINDOWS = {  # what reads windows, x, w, what the window is: of channels enough for a matrix unit's tiles
    "same": (F.conv2d, (1, 64, 14, 14), (64, 64, 3, 3), {"padding": 1}),
    "strides": (F.conv2d, (2, 96, 15, 57), (70, 96, 3, 3), {"padding": 1, "stride": 2}),
    "no multiples": (F.conv2d, (1, 81, 28, 9), (33, 81, 3, 5), {"padding": (1, 2)}),
    "dilated, without padding": (F.conv2d, (1, 64, 20, 23), (40, 64, 3, 3), {"dilation": 2}),
    "groups": (F.conv2d, (2, 128, 14, 14), (128, 64, 3, 3), {"padding": 1, "groups": 2}),
    "groups of odd numbers": (F.conv2d, (1, 105, 9, 14), (72, 35, 3, 3), {"padding": 1, "groups": 3}),
    "one dimension": (F.conv1d, (1, 80, 301), (96, 80, 3), {"padding": 1, "stride": 2}),
    "three dimensions": (F.conv3d, (1, 64, 4, 9, 9), (40, 64, 3, 3, 3), {"padding": 1}),
    "deep": (F.conv2d, (1, 544, 7, 7), (96, 544, 3, 3), {"padding": 1}),
    "transposed": (F.conv_transpose2d, (4, 64, 8, 16), (64, 64, 4, 4), {"padding": 1, "stride": 2}),
    "transposed, odd": (F.conv_transpose2d, (2, 65, 9, 28), (65, 64, 3, 3), {"padding": 1, "stride": 2}),
    "transposed, one place": (F.conv_transpose2d, (1, 128, 9, 16), (128, 33, 2, 2), {"stride": 2}),
    "transposed, one dimension": (F.conv_transpose1d, (1, 64, 100), (64, 40, 16), {"padding": 4, "stride": 8}),
}


@pytest.mark.parametrize("last", [False, True], ids=["", "channels_last"])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_in_bf16(real_library, name, last):
    f, x, w, window = WINDOWS[name]
    torch.manual_seed(0)
    x, w = torch.randn(x).bfloat16(), torch.randn(w).bfloat16()
    if last:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)

    def run(x, w):
        return torch.relu(f(x, w, **window)) + 1

    got = torch.compile(run, backend=backend, fullgraph=True, dynamic=False)(x, w)
    right = run(x.double(), w.double())
    error = (got.double() - right).abs().max() / right.abs().max()
    assert error < 1e-2, f"{name}: {error}"
    report = cinn_like.report()
    assert not report.failures and not any(s.refused for s in report.subgraphs), name


DEEP = {
    # Panels hold a part of the reduction.
    "depth": (lambda x, w: x @ w.T, (30, 8190), (40, 8190)),
    "depth in two": (lambda x, w: torch.einsum("abi,abj->ij", x, w), (7, 1200, 30), (7, 1200, 40)),
    "channels": (lambda x, w: F.conv2d(x, w, padding=1), (1, 520, 5, 9), (30, 520, 3, 3)),
    # Few lanes, many rows: tasks are blocks of rows.
    "rows": (lambda x, w: F.conv2d(x, w, padding=1), (1, 20, 4, 5), (300, 20, 3, 3)),
    "deep rows": (lambda x, w: F.conv2d(x, w, padding=1), (1, 520, 4, 5), (2100, 520, 3, 3)),
}


@pytest.mark.skipif(torch.get_default_device().type != "cpu", reason="panels are the CPU's")
@pytest.mark.parametrize("name", DEEP)
def test_panels_in_parts(real_library, name):
    f, *shapes = DEEP[name]
    args = [torch.randn(s) for s in shapes]
    got = torch.compile(f, backend=backend, fullgraph=True, dynamic=False)(*args)
    right = f(*(a.double() for a in args))
    torch.testing.assert_close(got.double(), right, rtol=1e-4, atol=1e-3)
    subgraphs = cinn_like.report().subgraphs
    assert not cinn_like.report().failures and not any(s.refused for s in subgraphs)
    assert any("matmul_cpu" in t for s in subgraphs for t in s.tactics)


def test_gradients_of_a_convolution(real_library):
    args = [torch.randn(s, requires_grad=True) for s in ((3, 5, 61, 64), (9, 5, 3, 3))]
    wide = [a.detach().double().requires_grad_() for a in args]
    f = torch.compile(lambda x, w: F.conv2d(x, w, padding=1, stride=(1, 2)), backend=backend, dynamic=False)
    got = torch.autograd.grad(f(*args).sin().sum(), args)
    right = torch.autograd.grad(F.conv2d(*wide, padding=1, stride=(1, 2)).sin().sum(), wide)
    for g, r in zip(got, right):
        torch.testing.assert_close(g.double(), r, rtol=1e-3, atol=1e-3)
    assert not cinn_like.report().failures and not any(s.refused for s in cinn_like.report().subgraphs)


HALVES = {
    "linear": (lambda x, w: F.linear(x, w), (50, 96), (70, 96)),
    "odd depth": (lambda x, w: x @ w, (13, 77), (77, 33)),
    "odd depth, transposed": (lambda x, w: F.relu(F.linear(x, w)), (13, 77), (33, 77)),
    "transposed": (lambda x, w: x.T @ w, (64, 30), (64, 41)),
    "both transposed": (lambda x, w: x.T @ w.T, (64, 30), (41, 64)),
    "batch": (lambda x, w: torch.bmm(x, w), (3, 20, 40), (3, 40, 50)),
    "deep": (lambda x, w: F.linear(x, w), (30, 16400), (40, 16400)),
    "deep in two": (lambda x, w: torch.einsum("abi,abj->ij", x, w), (7, 2400, 30), (7, 2400, 40)),
    "window": (lambda x, w: F.conv2d(x, w, padding=1), (2, 16, 9, 13), (24, 16, 3, 3)),
    "window, odd channels": (lambda x, w: F.conv2d(x, w, padding=1), (2, 15, 9, 13), (24, 15, 3, 3)),
    "window, strided, groups": (lambda x, w: F.conv2d(x, w, stride=2, groups=2), (2, 16, 19, 20), (24, 8, 3, 3)),
    "window of rows": (lambda x, w: F.conv1d(x, w, padding=2), (2, 20, 40), (24, 20, 5)),
    "window, transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (1, 16, 9, 8), (16, 20, 4, 4)),
    "one row": (lambda x, w: F.linear(x, w), (1, 200), (300, 200)),
    "one column": (lambda x, w: x @ w, (50, 200), (200, 1)),
}


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("name", HALVES)
def test_products_of_16_bit_floats(real_library, name, dynamic, dtype):
    f, *shapes = HALVES[name]
    args = [torch.randn(s).to(dtype) for s in shapes]
    got = torch.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    # Windows of any size are left to the framework, whose sums are not always in f32.
    left = name.startswith("window") and dynamic
    assert bool(cinn_like.report().fallback_ops) == left
    right = f(*args).double() if left else f(*(a.double() for a in args))
    # The result is rounded; sums are in f32.
    torch.testing.assert_close(got.double(), right, rtol=2**-7, atol=1e-3 * float(right.abs().max()))
    assert not cinn_like.report().failures and not any(s.refused for s in cinn_like.report().subgraphs)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_products_that_are_turned_and_summed(real_library, dtype):
    """The rounding is a step of the product, at its places, with iterators of its own."""
    x, w = torch.rand(8, 16, 48).to(dtype), torch.rand(8, 48, 64).to(dtype)
    f = torch.compile(lambda x, w: (x @ w).transpose(1, 2).sum(0), backend=backend, fullgraph=True,
                      options={"leave_to_framework": False})  # fmt: skip
    right = (x.double() @ w.double()).transpose(1, 2).sum(0)
    torch.testing.assert_close(f(x, w).double(), right, rtol=2**-7, atol=0)
    report = cinn_like.report()
    assert not report.failures and not report.fallback_ops, str(report)


RESULTS = {  # of a linear layer's sums h; r is as large
    "pre_activation": lambda h, r: (h, F.gelu(h)),
    "mask": lambda h, r: (F.relu(h), h > 0),
    "residual_sum": lambda h, r: (h + r, h),
    "three": lambda h, r: (torch.tanh(h + r), h + r, h),
    "costly_on_the_way": lambda h, r: (lambda t: (t * r, t + r))(torch.tanh(h)),
    "turned": lambda h, r: (torch.tanh(h).t().contiguous(), h),
    "other_shape": lambda h, r: (h, F.silu(h.view(h.shape[0], 3, -1).transpose(0, 1).contiguous())),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("name", RESULTS)
def test_several_results(real_library, name, threads, dtype):
    """Of one kernel where loops of their own would not pay: few results a core. Rows of any number, odd sizes."""

    def run(x, w, b, r):
        return RESULTS[name](F.linear(x, w, b), r)

    loose = dtype == torch.bfloat16
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for rows, depth, columns in ((1, 64, 96), (7, 77, 51), (33, 300, 66), (128, 256, 192), (64, 1536, 96)):
            for dynamic in (False, True):
                torch.manual_seed(0)
                x, w, b, r = (torch.randn(s) for s in ((rows, depth), (columns, depth), columns, (rows, columns)))
                x, w, b, r = x.to(dtype), (w / depth**0.5).to(dtype), b.to(dtype), r.to(dtype)
                for t in (x, r) if dynamic and rows > 1 else ():
                    torch._dynamo.mark_dynamic(t, 0)
                torch._dynamo.reset()
                cinn_like.reset_report()
                got = torch.compile(run, backend=backend, fullgraph=True)(x, w, b, r)
                what = f"{name} {rows}x{depth}x{columns}"
                for a, q in zip(got, run(*(t.double() for t in (x, w, b, r)))):
                    if a.dtype == torch.bool:
                        assert (a != q).double().mean() < (2e-2 if loose else 1e-3), what
                    else:
                        tolerance = {"rtol": 2e-2, "atol": 5e-2} if loose else {"rtol": 1e-4, "atol": 1e-4}
                        torch.testing.assert_close(a.double(), q, **tolerance, msg=lambda m: f"{what}\n{m}")
                report = cinn_like.report()
                assert not report.failures and not any(s.refused for s in report.subgraphs), what
                if threads == 16 and not dynamic and rows < 64 and x.device.type == "cpu":
                    assert [len(s.tactics) for s in report.subgraphs] == [1], what
    finally:
        torch.set_num_threads(before)
