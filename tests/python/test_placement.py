"""Graphs of two devices. The device `meta` stands for an accelerator: it traces like one and needs none."""

import types

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from cinn_like import function, partition, placement
from cinn_like.backend import cinn_like as backend
from reference import Graph
from torch._subclasses import FakeTensorMode


@pytest.fixture
def texts(monkeypatch):
    """The texts of what is compiled for `meta`; results are tensors without data."""
    made = []

    class Compiled:
        def __init__(self, text, target, device, signature):
            made.append(text)
            self.info, self.graph, self.device = {}, Graph(text), device

        def call(self, *args):
            results = self.graph.run([torch.zeros_like(x, device="cpu") for x in args if isinstance(x, torch.Tensor)],
                                     [x for x in args if not isinstance(x, torch.Tensor)])  # fmt: skip
            return tuple(r.to(self.device, torch.float32) for r in results[0])

    monkeypatch.setattr(function, "compile_function", Compiled)
    monkeypatch.setattr(function, "default_target", lambda device: "cuda -arch=sm_90a")
    return made


def rand(*shape):
    return torch.randn(shape, device="meta")


def run(fn, *args):
    return torch.compile(fn, backend=backend, fullgraph=True)(*args)


def test_numbers_of_sizes_are_computed_where_they_are_used(texts):
    """The batch size of the loss's gradient is a 0-d tensor on the CPU."""

    def gradient(x, y, dy):
        count = torch.scalar_tensor(x.size(0) * 5, device="cpu")
        return torch.ops.aten.mse_loss_backward(dy, x, y, 1) + (x - y) * (2.0 / count)

    run(gradient, rand(4, 5), rand(4, 5), rand())
    assert not cinn_like.report().fallback_ops and len(texts) == 1


@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")  # the framework's, for meta
def test_gradient_of_mse_is_one_subgraph(texts):
    x, y = rand(4, 5).requires_grad_(), rand(4, 5)
    run(F.mse_loss, x, y).backward(rand())
    assert not cinn_like.report().fallback_ops and len(texts) == 2
    assert x.grad.shape == (4, 5) and x.grad.device.type == "meta"


def test_a_0d_tensor_on_the_cpu_is_copied_once(texts):
    s = torch.tensor(0.5, device="cpu")
    run(lambda x, s: (x * s + s).tanh() - s, rand(4, 5), s)
    assert cinn_like.report().fallback_ops == {"aten._to_copy.default": "a copy from cpu to meta"}
    assert len(texts) == 1 and texts[0].count("f32[]") == 1
    assert run(lambda x, s: (s + 1, x * (s + 1)), rand(4, 5), s)[0].item() == 1.5


def test_constants_move_when_the_graph_is_compiled():
    aten, graph, module = torch.ops.aten, torch.fx.Graph(), torch.nn.Module()
    module.register_buffer("c", torch.tensor([0, 2], device="cpu"))
    x, c = graph.placeholder("x"), graph.get_attr("c")
    fresh = graph.call_function(aten.lift_fresh_copy.default, (c,))
    on_device = graph.call_function(aten._to_copy.default, (fresh,), {"device": torch.device("meta")})
    graph.output((graph.call_function(aten.index.Tensor, (x, [on_device])),))
    gm = torch.fx.GraphModule(module, graph)
    with FakeTensorMode() as mode:
        values = [rand(4, 5), mode.from_tensor(module.c), mode.from_tensor(module.c)]
        values += [torch.empty(2, dtype=torch.int64, device="meta"), rand(2, 5)]
    for node, value in zip(gm.graph.nodes, values):
        node.meta["val"] = value
    placement.bring_to_device(gm, torch.device("meta"))
    assert module.c.device.type == "cpu"
    assert [n.meta["val"].device.type for n in gm.graph.nodes if n.users and n.op == "call_function"][-2:] == [
        "meta"
    ] * 2
    assert not any(partition.classify(gm.graph, torch.device("meta")).values())


def test_other_operands_on_the_cpu_are_left_to_the_framework(texts):
    run(lambda x, i: x[i] * 2 + 1, rand(4, 5), torch.tensor([1, 2], device="cpu"))
    assert cinn_like.report().fallback_ops == {"aten.index.Tensor": "an operand on cpu beside meta"}
    assert len(texts) == 1


def test_work_on_the_cpu_beside_an_accelerator_is_left_to_the_framework(texts):
    x, y = rand(4, 5), torch.ones(3, 4, device="cpu")
    got = run(lambda x, y: (x * 2, y * 3 + 1), x, y)
    assert cinn_like.report().fallback_ops == {"aten.mul.Tensor": "it runs on cpu beside meta",
                                               "aten.add.Tensor": "it runs on cpu beside meta"}  # fmt: skip
    assert torch.equal(got[1], y * 3 + 1) and got[0].device.type == "meta"


def far_apart(n):
    """Which of 8 ranges of distances each two of n places are in, as relative attention has them."""
    apart = (torch.arange(n, device="cpu")[:, None] - torch.arange(n, device="cpu")).abs()
    return (torch.log(apart.float() + 1) * 2).to(torch.int64).clamp(max=7)


def test_what_the_cpu_computes_of_constants_is_computed_once(texts, monkeypatch):
    made = []
    monkeypatch.setattr(placement._Constants, "_compute", lambda self, node, compute=placement._Constants._compute: made.append(compute(self, node)) or made[-1])  # fmt: skip
    table, x = rand(8, 4), rand(5, 5, 4)
    compiled = torch.compile(lambda x, table: x + table[far_apart(5)] + far_apart(5).to("meta")[..., None], backend=backend, fullgraph=True)
    for _ in range(2):
        compiled(x, table)
    assert cinn_like.report().fallback_ops == {} and len(texts) == 1 and texts[0].count("i64[5,5]") >= 1
    assert torch.equal(made[-1], far_apart(5))


def test_what_the_cpu_computes_anew_stays_there(texts, monkeypatch):
    """Random numbers, results of arguments or of sizes, and what is too large to keep."""
    x, y = rand(6), torch.randn(6, device="cpu")
    run(lambda x: x + torch.rand(6, device="cpu").to("meta"), x)
    assert "aten._to_copy.default" in cinn_like.report().fallback_ops
    run(lambda x, y: x + (torch.arange(6, device="cpu") * y).to("meta"), x, y)
    assert cinn_like.report().fallback_ops["aten.mul.Tensor"] == "it runs on cpu beside meta"
    sized = torch.compile(lambda x: x + (torch.arange(x.shape[0], device="cpu") * 2).to("meta"), backend=backend, dynamic=True)
    sized(x), sized(rand(9))
    assert cinn_like.report().fallback_ops["aten.mul.Tensor"] == "it runs on cpu beside meta"
    cinn_like.reset_report()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run(lambda x: x.sum() + torch.arange(6, device="cpu").nonzero().to("meta"), x)
    assert {"aten.nonzero.default", "aten._to_copy.default"} <= cinn_like.report().fallback_ops.keys()
    monkeypatch.setattr(placement, "_MOST_BYTES", 5 * 8)
    run(lambda x: x + (torch.arange(6, device="cpu") * 5).to("meta"), x)
    assert cinn_like.report().fallback_ops["aten.mul.Tensor"] == "it runs on cpu beside meta"


def test_what_was_computed_once_is_given_out_as_a_copy():
    if not torch.cuda.is_available():
        pytest.skip("it takes an accelerator that computes")
    compiled = torch.compile(lambda x: ((torch.arange(4) * 2).to("cuda"), x + 1), backend=backend, fullgraph=True)
    x = torch.ones(4, device="cuda")
    compiled(x)[0].zero_()
    assert compiled(x)[0].tolist() == [0, 2, 4, 6]


def test_the_target_has_the_numbers_of_the_device(monkeypatch):
    """Of an H200: 132 multiprocessors, 3201 MHz on 6016 bits. What a version of the framework does not tell is left out."""
    known = {"multi_processor_count": 132, "L2_cache_size": 62914560, "memory_clock_rate": 3201000, "memory_bus_width": 6016}
    for left_out, want in ((), " -sm-count=132 -l2-bytes=62914560 -bandwidth=4814"), (("memory_clock_rate",), " -sm-count=132 -l2-bytes=62914560"):
        told = types.SimpleNamespace(**{k: v for k, v in known.items() if k not in left_out})
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index, told=told: told)
        assert function._numbers.__wrapped__(0) == want
