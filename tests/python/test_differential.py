"""Random graphs: the library against the reference evaluator, which computes them in float64."""

import random

import pytest
import torch
from cinn_like import emit, function, library
from cinn_like.writer import GraphWriter, Value
from reference import DTYPES, Graph

UNARY = "neg abs exp tanh erf sigmoid relu sin cos floor ceil round sign silu square".split()
BINARY = "add sub mul maximum minimum".split()
SIZES = [1, 2, 3, 5, 8, 16, 17, 33, 127]


class Generator:
    """A random, valid graph over a few tensors; magnitudes stay small, so that f32 can be compared to f64."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.writer = GraphWriter("random")
        self.dtype = self.random.choice([torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16])
        a, b, c = (self.random.choice(SIZES) for _ in range(3))
        self.values = [
            self.param((a, b)),
            self.param((b, c)),
            self.param((a, 1)),
            self.param((c,)),
            self.param((2, a, b)),
        ]
        for _ in range(self.random.randint(3, 14)):
            self.values.append(self.tame(self.step()))
        self.results = self.random.sample(self.values[5:], min(3, len(self.values) - 5))

    def param(self, shape):
        strides = None
        if len(shape) == 2 and self.random.random() < 0.3:
            strides = (1, shape[0])
        return self.writer.param(self.dtype, shape, strides, static=self.random.random() < 0.3)

    def tame(self, x):
        return self.writer.unary("tanh", x) if self.random.random() < 0.5 else x

    def number(self, value):
        return self.writer.full(value, self.dtype)

    def step(self):
        w, pick = self.writer, self.random.choice
        x = pick(self.values)
        kind = pick("unary unary binary binary binary scalar select reduce reduce matmul matmul softmax layer_norm "
                    "transpose reshape slice concat pad gather broadcast".split())  # fmt: skip
        axis = self.random.randrange(x.rank)
        if kind == "unary":
            name = pick(UNARY)
            # Steps of discontinuous functions would turn rounding into large differences.
            if name in ("floor", "ceil", "round", "sign"):
                name = "relu"
            return w.unary(name, w.unary("tanh", x) if name in ("exp", "square") else x)
        if kind == "scalar":
            return w.binary(pick(["add", "mul"]), x, self.number(self.random.uniform(-1, 1)))
        if kind in ("binary", "select"):
            others = [y for y in self.values if self.broadcast(x, y)]
            y = pick(others)
            if kind == "binary":
                return w.binary(pick(BINARY), x, y)
            return w.select(w.compare(pick(["lt", "ge"]), x, self.number(0.25)), w.binary("add", x, y), y)
        if kind == "reduce":
            axes = sorted(self.random.sample(range(x.rank), self.random.randint(1, x.rank)))
            keep = True if len(axes) == x.rank else self.random.random() < 0.5
            return w.reduce(
                pick(["reduce_sum", "reduce_max", "reduce_min", "reduce_mean"]), w.unary("tanh", x), axes, keep
            )
        if kind == "matmul":
            pairs = [(p, q) for p in self.values for q in self.values if p.rank >= 2 and q.rank == 2
                     and p.shape[-1] == q.shape[0]]  # fmt: skip
            if pairs:
                p, q = pick(pairs)
                return w.binary("mul", w.matmul(p, q), self.number(1.0 / q.shape[0]))
            return w.unary("relu", x)
        if kind == "softmax":
            return w.unary(pick(["softmax", "log_softmax"]), x, axis=axis)
        if kind == "layer_norm":
            size = (x.shape[-1],)
            return w.op("layer_norm", [x, w.full(0.5, self.dtype, size), w.full(0.25, self.dtype, size)],
                        (x.dtype, x.shape), axes=[x.rank - 1], epsilon=1e-2)  # fmt: skip
        if kind == "transpose":
            return w.transpose(x, self.random.sample(range(x.rank), x.rank))
        if kind == "reshape":
            total = 1
            for s in x.shape:
                total *= s
            first = pick([d for d in range(1, total + 1) if total % d == 0])
            return w.reshape(x, (first, total // first))
        if kind == "slice":
            size = x.shape[axis]
            begin = self.random.randrange(size)
            step = pick([1, 1, 2])
            end = self.random.randint(begin + 1, size)
            return w.slice(x, axis, begin, end, step, -(-(end - begin) // step))
        if kind == "concat":
            return w.concat([x, w.unary("neg", x)], axis)
        if kind == "pad":
            return w.pad(
                x, [self.random.randint(0, 2) for _ in x.shape], [self.random.randint(0, 2) for _ in x.shape], 0.5
            )
        if kind == "gather":
            n = self.random.randint(1, 6)
            index = w.binary("mod", w.binary("mul", w.iota(torch.int64, [n]), w.full(3, torch.int64)),
                             w.full(x.shape[axis], torch.int64))  # fmt: skip
            return w.op("gather", [x, index], (x.dtype, (*x.shape[:axis], n, *x.shape[axis + 1 :])), axis=axis)
        return w.broadcast_to(x, (2, *x.shape))

    @staticmethod
    def broadcast(x: Value, y: Value):
        shapes = zip(reversed(x.shape), reversed(y.shape))
        return max(x.rank, y.rank) <= 4 and all(a == b or 1 in (a, b) for a, b in shapes)

    def text(self):
        return self.writer.text(self.results)

    def inputs(self):
        generator = torch.Generator("cpu").manual_seed(self.random.randrange(2**31))
        inputs = []
        for p in self.writer.params:
            x = torch.randn(p.value.shape, generator=generator, dtype=torch.float64, device="cpu")
            x = x.to(torch.get_default_device(), self.dtype)
            inputs.append(x if p.strides is None else x.t().contiguous().t().as_strided(p.value.shape, p.strides))
        return inputs


TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@pytest.mark.parametrize("seed", range(60))
def test_random_graph(seed):
    generator = Generator(seed)
    text, inputs = generator.text(), generator.inputs()
    values, dtypes = Graph(text).run(inputs)  # the text is valid, whether or not there is a library
    if not library.available():
        pytest.skip("needs the shared library (CINN_LIKE_LIBRARY)")
    device = torch.get_default_device()
    static = tuple(p.static for p in generator.writer.params)
    compiled = function.compile_function(
        text, function.default_target(device), device,
        emit.Signature(static, (None,) * len(static), 0, len(values)))  # fmt: skip
    tolerance = TOLERANCE[generator.dtype]
    for got, want, dtype in zip(compiled.call(*inputs), values, dtypes, strict=True):
        assert got.dtype == DTYPES[dtype]
        torch.testing.assert_close(got.cpu().double(), want, rtol=tolerance, atol=tolerance, msg=lambda m: f"{m}\n{text}")
