"""Sums of rows that share an index: the row of the table against its meaning and f64, and gradients of embeddings on a device."""

import os

import cinn_like
import pytest
import torch
from checks import check
from cinn_like import backend, scatters
from cinn_like.ops_segments import segment_sum
from cinn_like.sizes import call
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

aten = torch.ops.aten
DEVICE = os.environ.get("CINN_TEST_DEVICE", "cpu")

INDICES = {
    "uniform": lambda n, size: torch.randint(-1, size + 1, (n,)),  # some are dropped
    "hot": lambda n, size: (torch.rand(n) ** 8 * size).long(),
    "one": lambda n, size: torch.full((n,), size // 2),
}


@pytest.fixture
def on_cpu():
    with torch.device("cpu"):
        yield


def sums(x, index, size):
    inside = (index >= 0) & (index < size)
    return torch.zeros(size, *x.shape[1:], dtype=torch.float64, device=x.device).index_add_(0, index[inside], x[inside].double())


def compiled(inputs, size, symbolic):
    """segment_sum as a graph of its own."""
    mode = FakeTensorMode(shape_env=ShapeEnv() if symbolic else None)
    graph, nodes = torch.fx.Graph(), []
    for k, x in enumerate(inputs):
        nodes.append(graph.placeholder(f"x{k}"))
        sizes = [DimDynamic.DUCK] + [DimDynamic.STATIC] * (x.ndim - 1)
        context = StatelessSymbolicContext(dynamic_sizes=sizes) if symbolic else None
        nodes[k].meta["val"] = mode.from_tensor(x, symbolic_context=context)
    graph.output((call(graph, segment_sum, *nodes, size),))
    gm = torch.fx.GraphModule({}, graph)
    return backend.compile_graph(gm, [n.meta["val"] for n in nodes], leave_to_framework=False)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("n, inner, size", [(5, (3,), 4), (64, (8,), 100), (1000, (2, 8), 7), (2500, (), 50)])
def test_segment_sum(real_library, on_cpu, n, inner, size, kind, symbolic):
    index = INDICES[kind](n, size)
    keys, order = torch.sort(index.int(), stable=True)
    x = torch.randn(n, *inner)
    want = sums(x, index, size)
    torch.testing.assert_close(segment_sum(x, order, keys, size), want.float(), rtol=1e-5, atol=1e-4)
    cinn_like.reset_report()
    run = compiled([x, order, keys], size, symbolic)
    torch.testing.assert_close(run([x, order, keys])[0], want.float(), rtol=1e-6, atol=1e-5)
    assert not cinn_like.report().fallback_ops
    if symbolic:
        keys, order = torch.sort(index[1:].int(), stable=True)
        torch.testing.assert_close(run([x[1:].clone(), order, keys])[0], sums(x[1:], index[1:], size).float(), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_types(real_library, on_cpu, dtype):
    index = INDICES["hot"](3000, 20)
    keys, order = torch.sort(index.to(torch.int16), stable=True)
    x = torch.randn(3000, 16).to(dtype)
    got = compiled([x, order, keys], 20, False)([x, order, keys])[0]
    assert got.dtype == dtype
    for result in (got, segment_sum(x, order, keys, 20)):
        torch.testing.assert_close(result, sums(x, index, 20).to(dtype))  # one rounding


def replaced(n=4000, count=100, padding=-1, by_frequency=False, device="meta", words=torch.int64):
    """The ops of a graph of one embedding's gradient, after the pass; and the graph. `meta` stands for an accelerator."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        if n is None:  # as many as data say
            n = 4 * mode.shape_env.create_unbacked_symint()
        grad, index = torch.empty(n // 4, 4, 8, device=device), torch.empty(n // 4, 4, dtype=words, device=device)
    graph = torch.fx.Graph()
    nodes = [graph.placeholder("grad"), graph.placeholder("index")]
    for node, value in zip(nodes, (grad, index)):
        node.meta["val"] = value
    graph.output(call(graph, aten.embedding_dense_backward.default, *nodes, count, padding, by_frequency))
    scatters.replace(graph)
    return [node.target for node in graph.nodes if node.op == "call_function"], graph


@pytest.mark.parametrize("words", [torch.int64, torch.int32])
@pytest.mark.parametrize("padding", [-1, 3])
@pytest.mark.parametrize("count, keys", [(127, torch.int8), (128, torch.int16), (32767, torch.int16), (32768, torch.int32)])
def test_gradients_are_replaced(on_cpu, count, keys, padding, words):
    targets, graph = replaced(count=count, padding=padding, words=words)
    assert segment_sum in targets and aten.embedding_dense_backward.default not in targets
    (sort,) = (node for node in graph.nodes if node.target is aten.sort.stable)
    assert sort.args[0].meta["val"].dtype == keys
    assert list(graph.nodes)[-1].args[0].meta["val"].shape == (count, 8)
    grad, index = torch.randn(1000, 4, 8), torch.randint(count, (1000, 4), dtype=words)
    got = torch.fx.Interpreter(torch.fx.GraphModule({}, graph)).run(grad, index)
    want = aten.embedding_dense_backward(grad.double(), index, count, padding, False)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("why", [dict(n=3072), dict(n=None), dict(by_frequency=True), dict(device="cpu")])
def test_gradients_that_stay(on_cpu, why):
    assert replaced(**why)[0] == [aten.embedding_dense_backward.default]


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU (CINN_TEST_DEVICE=cuda)")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", ["hot", "one"])
@pytest.mark.parametrize("size, width, padding", [(100, 64, None), (5, 3, 2), (40000, 256, 0), (4096, 1024, None)])
def test_embeddings_on_a_gpu(size, width, padding, kind, dynamic):
    """Against f64, and twice the same; a second number of words."""
    torch._dynamo.reset()
    cinn_like.reset_report()
    f = torch.compile(lambda w, i: torch.nn.functional.embedding(i, w, padding) * 2, backend="cinn_like", dynamic=dynamic)
    for n in (4000, 20011):
        for dtype in (torch.float32, torch.bfloat16):
            index = INDICES[kind](n, size).clamp(0, size - 1)
            w = torch.randn(size, width, dtype=dtype, requires_grad=True)
            dy = torch.randn(n, width, dtype=dtype)
            first, second = (torch.autograd.grad(f(w, index), w, dy)[0] for _ in range(2))
            assert torch.equal(first, second)
            want = sums(2 * dy.cpu(), index.cpu(), size)
            if padding is not None:
                want[padding] = 0
            torch.testing.assert_close(first.cpu(), want.to(dtype), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-4)
    assert set(cinn_like.report().fallback_ops) == {"aten.sort.stable"}, cinn_like.report().fallback_ops
    assert not cinn_like.report().failures


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("shape", [(7, 40, 33), (2048, 20, 256)])
def test_sums_that_memory_ends(real_library, shape, axis):
    """What lies beyond the ends is not read, but where it is a factor: 0 times NaN is NaN."""
    n = shape[axis]
    x, length = torch.randn(shape), torch.randint(0, n + 1, (shape[0],))
    flag = length > n // 2

    def inside(length):
        place = torch.arange(n, device=length.device)
        return (place.reshape(n, 1) if axis == 1 else place) < length[:, None, None]

    unread = torch.where(inside(length), x, float("nan"))
    # Each by itself: a loop of several goes on to the last end.
    check(lambda x, length: torch.where(inside(length), x, 0.0).sum(axis), unread, length)
    check(lambda x, length: torch.where(inside(length), x, -9.0).amax(axis), unread, length)
    check(lambda x, flag: torch.where(flag[:, None, None], x, 0.0).sum(axis), x, flag)
    check(lambda x, y, length: (torch.where(inside(length), x, 0.0) * y).sum(axis), x, unread, length)
