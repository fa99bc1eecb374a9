"""Modules and functions as users write them: results and gradients against PyTorch in float64, and what falls back."""

import copy

import cinn_like
import pytest
import torch
import torch.nn.functional as F
from checks import fallbacks
from cinn_like.backend import cinn_like as backend
from torch import nn

DEVICE = torch.get_default_device()


class Block(nn.Module):
    """A transformer block with pre-norm."""

    def __init__(self, causal=False):
        super().__init__()
        self.causal = causal
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 4)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Attention(nn.Module):
    """nn.MultiheadAttention with both masks."""

    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        causal = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        padding = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        padding[:, -1] = True
        return self.inner(x, x, x, key_padding_mask=padding, attn_mask=causal, need_weights=False)[0]


class Weights(nn.Module):
    """nn.MultiheadAttention that also gives its weights."""

    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        y, weights = self.inner(x, x, x)
        return torch.cat([y, weights @ x], -1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.inner = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        padding = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        padding[:, -1] = True
        return self.inner(x, src_key_padding_mask=padding)[:, :-1]


class MaskedByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        scores = torch.einsum("bqc,bkc->bqk", self.q(x), self.k(x)) / 4
        hidden = torch.ones(x.size(1), x.size(1), device=x.device).tril() == 0
        return torch.einsum("bqk,bkc->bqc", scores.masked_fill(hidden, float("-inf")).softmax(-1), x)


class LstmCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(16, 8)

    def forward(self, x):
        h = c = x.new_zeros(x.size(0), 8)
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
        return torch.cat([h, c], -1)


class GruCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 8)

    def forward(self, x):
        h = x.new_zeros(x.size(0), 8)
        for step in x.unbind(1):
            h = self.cell(step, h)
        return h


class GruByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates, self.state = nn.Linear(24, 16), nn.Linear(24, 8)

    def forward(self, x):
        h = x.new_zeros(x.size(0), 8)
        for step in x.unbind(1):
            r, z = torch.sigmoid(self.gates(torch.cat([step, h], 1))).chunk(2, 1)
            h = torch.lerp(h, torch.tanh(self.state(torch.cat([step, r * h], 1))), z)
        return h


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x):
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8, padding_idx=0)
        self.linear = nn.Linear(8, 3)

    def forward(self, ids):
        words = self.table(ids)
        weight = (ids != 0).unsqueeze(-1).to(words.dtype)
        return self.linear((words * weight).sum(1) / weight.sum(1).clamp(min=1))


class Rope(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rate", 100.0 ** (-torch.arange(0, 16, 2) / 16))

    def forward(self, x):
        angle = torch.outer(torch.arange(x.size(1), device=x.device).to(x.dtype), self.rate.to(x.dtype))
        angle = torch.cat([angle, angle], -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()


class SwiGlu(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.a, self.b, self.c = nn.RMSNorm(16), nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x):
        y = self.norm(x)
        return x + self.c(F.silu(self.a(y)) * self.b(y))


class Experts(nn.Module):
    """A mixture of experts with a dense combination; topk is the framework's."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(16, 4), nn.Parameter(torch.randn(4, 16, 16) / 4)

    def forward(self, x):
        score, chosen = self.gate(x).topk(2, dim=-1)
        weight = torch.zeros_like(self.gate(x)).scatter(-1, chosen, score.softmax(-1))
        return torch.einsum("btc,ecd,bte->btd", x, self.experts, weight)


class Updates(nn.Module):
    """Assignments in place."""

    def forward(self, x):
        y = x.clone()
        y[:, 0] = 0
        y[:, 1:, :4] *= 2
        y += x.mean()
        y[:, :, 1::3] = x[:, :, :5].exp()
        y.clamp_(-1, 1)[..., -1].add_(3)
        return y


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.LeakyReLU(0.1), nn.GroupNorm(3, 6))
        self.up = nn.Sequential(nn.ConvTranspose2d(6, 4, 4, stride=2, padding=1), nn.Tanh())

    def forward(self, x):
        return F.interpolate(self.up(self.down(x)), scale_factor=2, mode="nearest")


def sequence(*layers):
    return lambda: nn.Sequential(*[layer() for layer in layers])


NO_OP = "no such op in graph text"
X = lambda: torch.randn(3, 5, 16)  # noqa: E731
IMAGE = lambda: torch.randn(2, 4, 8, 8)  # noqa: E731
# name: (module, input, ops left to the framework in inference, more of them in training)
MODULES = {
    "block": (Block, X, {}, {}),
    "causal_block": (lambda: Block(causal=True), X, {}, {}),
    "encoder_layer": (lambda: nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True), X, {}, {}),
    "encoder": (Encoder, X, {}, {}),
    "multihead_attention": (Attention, X, {}, {}),
    "multihead_weights": (Weights, X, {}, {}),
    "masked_by_hand": (MaskedByHand, X, {}, {}),
    "lstm_cell": (LstmCell, X, {}, {}),
    "gru_cell": (GruCell, X, {}, {}),
    "gru_by_hand": (GruByHand, X, {}, {}),
    "residual": (Residual, IMAGE, {}, {}),
    "autoencoder": (Autoencoder, IMAGE, {}, {}),
    "depthwise": (sequence(lambda: nn.Conv2d(4, 4, 3, groups=4), lambda: nn.Conv2d(4, 6, 1), nn.Hardswish),
                  IMAGE, {}, {}),
    "pools": (sequence(lambda: nn.MaxPool2d(2), lambda: nn.AvgPool2d(2), lambda: nn.AdaptiveAvgPool2d(1), nn.Flatten),
              IMAGE, {}, {}),
    "instance_norm": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE, {}, {}),
    "pixel_shuffle": (sequence(lambda: nn.PixelShuffle(2), lambda: nn.Conv2d(1, 2, 3, padding="same")), IMAGE, {}, {}),
    "bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE, {}, {}),
    "conv1d": (sequence(lambda: nn.Conv1d(5, 4, 3, dilation=2), nn.ELU, lambda: nn.BatchNorm1d(4)), X, {}, {}),
    "volumes": (sequence(lambda: nn.Conv3d(2, 4, 3, padding=1), lambda: nn.InstanceNorm3d(4), nn.LeakyReLU,
                         lambda: nn.MaxPool3d(2), lambda: nn.ConvTranspose3d(4, 2, 2, 2), lambda: nn.AvgPool3d(2)),
                lambda: torch.randn(2, 2, 4, 6, 8), {}, {}),
    "bags": (Bags, lambda: torch.randint(20, (3, 5)), {}, {"aten.embedding_dense_backward.default": NO_OP}),
    "embedding_bag": (lambda: nn.EmbeddingBag(20, 8, mode="mean"), lambda: torch.randint(20, (3, 5)),
                      {"aten._embedding_bag.default": NO_OP}, {"aten._embedding_bag_backward.default": NO_OP}),
    "rope": (Rope, X, {}, {}),
    "swiglu": (SwiGlu, X, {}, {}),
    "experts": (Experts, X, {"aten.topk.default": NO_OP, "aten.scatter.src": NO_OP}, {}),
    "updates": (Updates, X, {"aten.slice_scatter.default": "slice_scatter with a step"}, {}),
    "activations": (sequence(nn.Softplus, nn.Mish, nn.SELU, nn.GLU, lambda: nn.PReLU(), nn.LogSigmoid), X, {}, {}),
    "gelus": (sequence(nn.GELU, lambda: nn.GELU(approximate="tanh"), nn.Softsign, nn.Hardtanh), X, {}, {}),
    "dropout": (sequence(lambda: nn.Linear(16, 16), lambda: nn.Dropout(0.5)), X, {}, {}),
}  # fmt: skip


def relative_error(got, want):
    assert got.shape == want.shape
    return ((got.double() - want).abs().max() / want.abs().max().clamp(min=1)).item()


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_module(real_library, name, train):
    make, make_input, fallback, more = MODULES[name]
    module, x = make().train(train), make_input()
    if train and not any(p.requires_grad for p in module.parameters()) or (train and name == "dropout"):
        pytest.skip("nothing to train, or nothing that repeats")
    if DEVICE.type != "cpu":
        try:
            torch.compile(copy.deepcopy(module), backend="eager", fullgraph=True)(x)
        except torch._dynamo.exc.Unsupported:
            pytest.skip("this PyTorch does not trace it on this device")
    exact = copy.deepcopy(module).double()
    wide = x.double() if x.is_floating_point() else x
    x.requires_grad_(train and x.is_floating_point())
    wide.requires_grad_(x.requires_grad)
    with torch.set_grad_enabled(train):
        got, want = torch.compile(module, backend=backend, fullgraph=True)(x), exact(wide)
    assert got.dtype == torch.float32 and relative_error(got, want) < 2e-5
    if train:
        weight = torch.randn_like(got)
        (got * weight).sum().backward()
        (want * weight).sum().backward()
        for ours, reference in [(x, wide), *zip(module.parameters(), exact.parameters())]:
            if ours.requires_grad:
                assert relative_error(ours.grad, reference.grad) < 5e-5
        for ours, reference in zip(module.buffers(), exact.buffers()):
            assert relative_error(ours, reference.double()) < 2e-5
    report = cinn_like.report()
    assert not report.failures, report.failures
    assert fallbacks(report) == {**fallback, **(more if train else {})}, str(report)


LOSSES = {
    "cross_entropy": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=2),
    "weighted_nll": lambda x, t: F.nll_loss(
        F.log_softmax(x, 1), t, torch.linspace(0.5, 2, 6, dtype=x.dtype, device=x.device)
    ),
    "soft_targets": lambda x, t: F.cross_entropy(x, F.one_hot(t, 6).to(x.dtype)),
    "bce": lambda x, t: F.binary_cross_entropy_with_logits(x[:, 0], (t % 2).to(x.dtype)),
    "smooth_l1": lambda x, t: F.smooth_l1_loss(x, t[:, None].expand(x.shape).to(x.dtype)),
    "kl": lambda x, t: F.kl_div(x.log_softmax(1), x.detach().flip(0).softmax(1), reduction="batchmean"),
    "cosine": lambda x, t: 1 - F.cosine_similarity(x, x.roll(1, 0)).mean(),
    "contrastive": lambda x, t: F.cross_entropy(F.normalize(x) @ F.normalize(x).t() / 0.1, t % x.size(0)),
    "penalty": lambda x, t: (
        (torch.linalg.vector_norm(x, dim=1) - 1).relu().pow(2).sum() + x.var() + x.logsumexp(0).mean()
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss(real_library, name):
    x, t = torch.randn(8, 6), torch.randint(6, (8,))
    wide = x.double().requires_grad_()
    x.requires_grad_()
    loss = torch.compile(LOSSES[name], backend=backend, fullgraph=True)(x, t)
    exact = LOSSES[name](wide, t)
    loss.backward()
    exact.backward()
    assert relative_error(loss, exact) < 1e-5 and relative_error(x.grad, wide.grad) < 1e-5
    # one_hot checks its classes.
    assert set(cinn_like.report().fallback_ops) <= {"aten._assert_async.msg"}, str(cinn_like.report())


def test_autocast(real_library):
    """Products in bf16, the rest in f32, as eager has it; gradients are f32."""
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    x, exact = torch.randn(8, 16), copy.deepcopy(model).double()

    def fn(x):
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            return model(x)

    got = torch.compile(fn, backend=backend, fullgraph=True)(x)
    assert got.dtype == torch.bfloat16 and relative_error(got, exact(x.double())) < 2e-2
    got.float().square().sum().backward()
    exact(x.double()).square().sum().backward()
    for ours, reference in zip(model.parameters(), exact.parameters()):
        assert ours.grad.dtype == torch.float32 and relative_error(ours.grad, reference.grad) < 5e-2
    assert not cinn_like.report().fallback_ops, str(cinn_like.report())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_block_in_another_dtype(real_library, dtype):
    block = Block().eval().to(dtype).requires_grad_(False)
    x = torch.randn(3, 5, 16, dtype=dtype)
    got, want = torch.compile(block, backend=backend, fullgraph=True)(x), copy.deepcopy(block).double()(x.double())
    assert got.dtype == dtype
    assert relative_error(got, want) < {torch.float16: 3e-3, torch.bfloat16: 3e-2, torch.float64: 1e-12}[dtype]
    assert not fallbacks(cinn_like.report())


def test_an_optimizer_step(real_library):
    """Adam written out, parameters updated in place."""
    w, g = torch.randn(7, 5), torch.randn(7, 5)
    ours, eager = ([t.clone() for t in (w, torch.zeros_like(w), torch.zeros_like(w))] for _ in range(2))
    eager = [t.double() for t in eager]

    def step(w, m, v, g):
        m.lerp_(g, 0.1)
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        w.addcdiv_(m, v.sqrt() + 1e-6, value=-0.01)

    compiled = torch.compile(step, backend=backend, fullgraph=True)
    for _ in range(3):
        compiled(*ours, g)
        step(*eager, g.double())
    for a, b in zip(ours, eager):
        assert relative_error(a, b) < 1e-6
    assert not cinn_like.report().fallback_ops


def test_dropout_scales_what_it_keeps(real_library):
    """The random numbers are the framework's; the rest is compiled."""
    x = torch.ones(64, 64).requires_grad_()
    y = torch.compile(lambda x: F.dropout(x * 2, 0.25), backend=backend, fullgraph=True)(x)
    kept = y != 0
    assert 0.7 < kept.float().mean() < 0.8
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 2 / 0.75))
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert len(cinn_like.report().subgraphs) >= 2
    assert all("rand" in op or "dropout" in op for op in cinn_like.report().fallback_ops), str(cinn_like.report())
