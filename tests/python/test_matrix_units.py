"""Products of 16-bit floats by kernels of our own (no library) on a GPU, against float64."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from cinn_like.emit import Signature
from cinn_like.function import compile_function

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
TOLERANCE = {"bf16": 8e-3, "f16": 1e-3}


def run(text, reference, dtype):
    """Of inputs with NaN behind them, and twice: what a call leaves in shared memory is no part of the next."""
    generator = torch.Generator("cuda").manual_seed(1)
    inputs = []
    for shape in re.findall(rf"%\w+: {dtype}\[([\d,]+)\]", text.split("{")[0]):
        shape = [int(d) for d in shape.split(",")]
        memory = torch.full([torch.Size(shape).numel() + 64], float("nan"), device="cuda", dtype=DTYPES[dtype])
        x = memory[: -64].view(shape)
        x.copy_(torch.randn(shape, device="cuda", generator=generator))
        inputs.append(x)
    signature = Signature((False,) * len(inputs), (None,) * len(inputs), 0, 1)
    function = compile_function(text, "cuda -arch=native", torch.device("cuda"), signature)
    expected = reference(*[x.double() for x in inputs])
    for _ in range(2):
        (got,) = function.call(*inputs)
        error = (got.double() - expected).abs() / (expected.abs() + 0.02 * expected.abs().max())
        assert error.max().item() < TOLERANCE[dtype], text


SIZES = [(512, 512, 512), (1000, 600, 776), (999, 601, 777), (77, 33, 50), (130, 72, 1000), (16, 4096, 512), (257, 130, 64), (3000, 2056, 264), (300, 4000, 264), (2048, 2048, 1024)]


@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products(dtype, size):
    m, n, k = size
    for a, b in itertools.product((False, True), repeat=2):
        x, w = (f"{k},{m}" if a else f"{m},{k}"), (f"{n},{k}" if b else f"{k},{n}")
        text = f"""graph @product(%x: {dtype}[{x}], %w: {dtype}[{w}], %b: {dtype}[{n}]) {{
  %0 = transpose(%x) {{perm={"[1,0]" if a else "[0,1]"}}} : {dtype}[{m},{k}]
  %1 = transpose(%w) {{perm={"[1,0]" if b else "[0,1]"}}} : {dtype}[{k},{n}]
  %2 = matmul(%0, %1) : {dtype}[{m},{n}]
  %3 = add(%2, %b) : {dtype}[{m},{n}]
  %4 = relu(%3) : {dtype}[{m},{n}]
  return %4
}}
"""
        run(text, lambda x, w, c: F.relu((x.mT if a else x) @ (w.mT if b else w) + c), dtype)


@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches(dtype):
    text = f"graph @p(%x: {dtype}[6,200,72], %w: {dtype}[6,72,136]) {{\n  %0 = matmul(%x, %w) : {dtype}[6,200,136]\n  return %0\n}}\n"
    run(text, torch.matmul, dtype)


@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_convolutions(dtype):
    for c, o, size, kernel, stride in [(64, 64, 28, 3, 1), (24, 40, 15, 5, 2), (128, 72, 14, 1, 1)]:
        out = (size + 2 * (kernel // 2) - kernel) // stride + 1
        text = f"""graph @conv(%x: {dtype}[4,{c},{size},{size}], %w: {dtype}[{o},{c},{kernel},{kernel}]) {{
  %0 = conv(%x, %w) {{stride=[{stride},{stride}], padding=[{kernel // 2},{kernel // 2}]}} : {dtype}[4,{o},{out},{out}]
  return %0
}}
"""
        run(text, lambda x, w: F.conv2d(x, w, stride=stride, padding=kernel // 2), dtype)
