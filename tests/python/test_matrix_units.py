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


def run(text, reference, dtype, scale=1.0):
    """Of inputs with NaN behind them, and twice: what a call leaves in shared memory is no part of the next."""
    generator = torch.Generator("cuda").manual_seed(1)
    inputs = []
    for shape in re.findall(rf"%\w+: {dtype}\[([\d,]+)\]", text.split("{")[0]):
        shape = [int(d) for d in shape.split(",")]
        memory = torch.full([torch.Size(shape).numel() + 64], float("nan"), device="cuda", dtype=DTYPES[dtype])
        x = memory[: -64].view(shape)
        x.copy_(torch.randn(shape, device="cuda", generator=generator) * scale)
        inputs.append(x)
    expected = reference(*[x.double() for x in inputs])
    if torch.is_tensor(expected):
        expected = (expected,)
    signature = Signature((False,) * len(inputs), (None,) * len(inputs), 0, len(expected))
    function = compile_function(text, "cuda -arch=native", torch.device("cuda"), signature)
    for _ in range(2):
        for got, wanted in zip(function.call(*inputs), expected, strict=True):
            error = (got.double() - wanted).abs() / (wanted.abs() + 0.02 * wanted.abs().max())
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


@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(512, 512, 512), (1000, 600, 776), (77, 40, 64), (16, 4096, 512), (257, 130, 64)], ids=str)
def test_gates(dtype, size):
    """Two products and what reads both in one kernel: of one operand (SwiGLU), and of four (a cell of a network)."""
    m, n, k = size
    text = f"""graph @gate(%x: {dtype}[{m},{k}], %g: {dtype}[{n},{k}], %u: {dtype}[{n},{k}]) {{
  %0 = transpose(%g) {{perm=[1,0]}} : {dtype}[{k},{n}]
  %1 = transpose(%u) {{perm=[1,0]}} : {dtype}[{k},{n}]
  %2 = matmul(%x, %0) : {dtype}[{m},{n}]
  %3 = matmul(%x, %1) : {dtype}[{m},{n}]
  %4 = silu(%2) : {dtype}[{m},{n}]
  %5 = mul(%4, %3) : {dtype}[{m},{n}]
  return %5
}}
"""
    run(text, lambda x, g, u: F.silu(x @ g.mT) * (x @ u.mT), dtype, k**-0.25)
    text = f"""graph @cell(%x: {dtype}[{m},{k}], %g: {dtype}[{k},{n}], %h: {dtype}[{m},{k}], %u: {dtype}[{k},{n}]) {{
  %0 = matmul(%x, %g) : {dtype}[{m},{n}]
  %1 = matmul(%h, %u) : {dtype}[{m},{n}]
  %2 = sigmoid(%0) : {dtype}[{m},{n}]
  %3 = tanh(%1) : {dtype}[{m},{n}]
  %4 = mul(%2, %3) : {dtype}[{m},{n}]
  return %4
}}
"""
    run(text, lambda x, g, h, u: torch.sigmoid(x @ g) * torch.tanh(h @ u), dtype, k**-0.25)


@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(512, 768, 768), (1000, 600, 776), (77, 40, 64), (16, 4096, 512), (257, 130, 64)], ids=str)
def test_queries_keys_and_values(dtype, size):
    m, n, k = size
    text = f"""graph @qkv(%x: {dtype}[{m},{k}], %q: {dtype}[{n},{k}], %k: {dtype}[{n},{k}], %v: {dtype}[{n},{k}], %b: {dtype}[{n}]) {{
  %0 = transpose(%q) {{perm=[1,0]}} : {dtype}[{k},{n}]
  %1 = transpose(%k) {{perm=[1,0]}} : {dtype}[{k},{n}]
  %2 = transpose(%v) {{perm=[1,0]}} : {dtype}[{k},{n}]
  %3 = matmul(%x, %0) : {dtype}[{m},{n}]
  %4 = matmul(%x, %1) : {dtype}[{m},{n}]
  %5 = matmul(%x, %2) : {dtype}[{m},{n}]
  %6 = add(%3, %b) : {dtype}[{m},{n}]
  %7 = relu(%5) : {dtype}[{m},{n}]
  return %6, %4, %7
}}
"""
    run(text, lambda x, q, k, v, b: (x @ q.mT + b, x @ k.mT, F.relu(x @ v.mT)), dtype)
