"""The models: random weights, sizes as users run them. A row of the bench is a model, a mode and a dtype."""

import copy
import dataclasses
import importlib.util
import os
import typing

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 30522


class Missing(Exception):
    """A package that a model needs is not installed."""


@dataclasses.dataclass(frozen=True)
class Model:
    family: str
    build: typing.Callable  # () -> Module with f32 weights, on the CPU
    inputs: typing.Callable  # (Module, batch size, device, dtype of floats) -> positional arguments (a tuple) or named ones
    batch: int
    second: int = 0  # the batch size that is seen next; 0: twice the first
    training: bool = False  # forward, loss and backward; else forward alone, without gradients
    channels_last: bool = False
    max_calls: int = 1 << 30  # as many calls follow one another before the inputs' state starts anew
    tolerance: float = 0.0  # of the relative error, beyond what the dtype is granted (routing that rounding flips)

    @property
    def batches(self):
        """Sizes of batches in the order in which they are seen: the second makes torch.compile trace the batch as a symbol, the
        third is one that it knows no hint of."""
        second = self.second or 2 * self.batch
        return self.batch, second, self.batch + second


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    dtype: str  # "f32" or "bf16"; training in bf16 is autocast over f32 weights
    batch: int = 0  # 0: the model's own

    @property
    def model(self):
        model = MODELS[self.name] if self.name in MODELS else zoo()[self.name]
        return dataclasses.replace(model, batch=self.batch, second=0) if self.batch else model

    @property
    def key(self):
        return f"{self.name}_{self.dtype}"


# ---- packages -------------------------------------------------------------------------------------------------------


def torchvision():
    if importlib.util.find_spec("torchvision") is None:
        raise Missing("torchvision is not installed (pip install --no-deps -r tools/requirements-bench.txt)")
    # Its Python files describe operators that its library registers; that of another build of PyTorch does not load.
    folder = os.path.dirname(importlib.util.find_spec("torchvision").origin)
    try:
        torch.ops.load_library(os.path.join(folder, "_C.so"))
    except OSError:
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

    return torchvision


def transformers():
    if importlib.util.find_spec("transformers") is None:
        raise Missing("transformers is not installed (pip install -r tools/requirements.txt)")
    if importlib.util.find_spec("torchvision") is not None:
        torchvision()  # which transformers imports where it finds it
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers


# ---- inputs ---------------------------------------------------------------------------------------------------------


def images(size, channels=3):
    def make(model, batch, device, dtype):
        return (torch.randn(batch, channels, size, size, device=device).to(dtype),)

    return make


def tokens(length, labels=False, **fixed):
    def make(model, batch, device, dtype):
        ids = torch.randint(0, model.config.vocab_size, (batch, length), device=device)
        return {"input_ids": ids, **fixed, **({"labels": ids} if labels else {})}

    return make


def text(length):
    """Tokens with a mask: the last sentence of a batch ends early."""

    def make(model, batch, device, dtype):
        inputs = tokens(length)(model, batch, device, dtype)
        mask = torch.ones(batch, length, dtype=torch.int64, device=device)
        mask[-1, length - length // 4 :] = 0
        return {**inputs, "attention_mask": mask}

    return make


def token_after(length, capacity):
    """One token after `length` others whose keys and values lie in a static cache."""

    def make(model, batch, device, dtype):
        cache = transformers().StaticCache(config=model.config, max_cache_len=capacity)
        ids = torch.randint(0, model.config.vocab_size, (batch, length), device=device)
        with torch.no_grad():
            model(input_ids=ids, past_key_values=cache, use_cache=True)
        return {"input_ids": ids[:, :1].contiguous(), "past_key_values": cache, "use_cache": True}

    return make


def features(*shape):
    def make(model, batch, device, dtype):
        return {"input_features": torch.randn(batch, *shape, device=device).to(dtype)}

    return make


def noise_and_times(size):
    def make(model, batch, device, dtype):
        return torch.randn(batch, 4, size, size, device=device).to(dtype), torch.arange(batch, device=device) * 37 + 5

    return make


# ---- builders -------------------------------------------------------------------------------------------------------


def vision(name, **options):
    return lambda: torchvision().models.get_model(name, weights=None, **options)


def deeplab():
    return torchvision().models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=21)


def hugging(architecture, config, **options):
    def build():
        t = transformers()
        return getattr(t, architecture)(getattr(t, config)(**options))

    return build


def bert(architecture="BertModel", layers=12, hidden=768):
    return hugging(architecture, "BertConfig", vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=layers,
                   num_attention_heads=12, intermediate_size=4 * hidden, hidden_dropout_prob=0.0,
                   attention_probs_dropout_prob=0.0)  # fmt: skip


def gpt2(layers=12):
    return hugging("GPT2LMHeadModel", "GPT2Config", n_layer=layers, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def llama(layers=12):
    return hugging("LlamaForCausalLM", "LlamaConfig", vocab_size=32000, hidden_size=768, intermediate_size=2048,
                   num_hidden_layers=layers, num_attention_heads=12, num_key_value_heads=12,
                   max_position_embeddings=2048)  # fmt: skip


def t5(architecture):
    return hugging(architecture, "T5Config", vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8,
                   dropout_rate=0.0, decoder_start_token_id=0)  # fmt: skip


llama_8b = hugging("LlamaForCausalLM", "LlamaConfig", vocab_size=128256, hidden_size=4096, intermediate_size=14336,
                   num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192,
                   rope_parameters={"rope_type": "default", "rope_theta": 500000.0})  # fmt: skip
mamba = hugging("MambaForCausalLM", "MambaConfig", vocab_size=8000, hidden_size=512, num_hidden_layers=4)
mixture = hugging("MixtralForCausalLM", "MixtralConfig", vocab_size=8000, hidden_size=512, intermediate_size=1024,
                  num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, num_local_experts=8,
                  num_experts_per_tok=2, max_position_embeddings=1024)  # fmt: skip


def whisper_encoder():
    t = transformers()
    config = t.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536,
                             decoder_layers=1, num_mel_bins=80, max_source_positions=1500)  # fmt: skip
    return t.models.whisper.modeling_whisper.WhisperEncoder(config)


class ResidualBlock(nn.Module):
    def __init__(self, before, after, embedding):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, before), nn.Conv2d(before, after, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, after), nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(embedding, after)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class ImageAttention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(32, width), heads
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        b, c, height, columns = x.shape
        parts = self.qkv(self.norm(x)).reshape(b, 3, self.heads, c // self.heads, height * columns).transpose(-1, -2)
        h = F.scaled_dot_product_attention(*parts.unbind(1))
        return x + self.out(h.transpose(-1, -2).reshape(b, c, height, columns))


class UNet(nn.Module):
    """Predicts the noise of a latent image: three resolutions, attention at the lower two."""

    def __init__(self, width=64, multiples=(1, 2, 4)):
        super().__init__()
        self.width = width
        embedding = 4 * width
        self.time = nn.Sequential(nn.Linear(width, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        widths = [width * m for m in multiples]
        self.down, self.up, before = nn.ModuleList(), nn.ModuleList(), width
        for i, after in enumerate(widths):
            attention = ImageAttention(after) if i else nn.Identity()
            smaller = nn.Conv2d(after, after, 3, stride=2, padding=1) if i + 1 < len(widths) else nn.Identity()
            self.down.append(nn.ModuleList([ResidualBlock(before, after, embedding), attention, smaller]))
            before = after
        self.middle = nn.ModuleList([ResidualBlock(before, before, embedding), ImageAttention(before)])
        for i, after in reversed(list(enumerate(widths))):
            attention = ImageAttention(after) if i else nn.Identity()
            self.up.append(nn.ModuleList([ResidualBlock(before + after, after, embedding), attention]))
            before = after
        self.norm, self.last = nn.GroupNorm(32, before), nn.Conv2d(before, 4, 3, padding=1)

    def forward(self, x, steps):
        rates = torch.exp(torch.arange(self.width // 2, device=x.device) * (-9.2 / (self.width // 2)))
        angles = steps[:, None] * rates
        t = self.time(torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype))
        h, kept = self.first(x), []
        for block, attention, smaller in self.down:
            h = attention(block(h, t))
            kept.append(h)
            h = smaller(h)
        h = self.middle[1](self.middle[0](h, t))
        for i, (block, attention) in enumerate(self.up):
            if i:
                h = F.interpolate(h, scale_factor=2.0, mode="nearest")
            h = attention(block(torch.cat([h, kept.pop()], 1), t))
        return self.last(F.silu(self.norm(h)))


def tiny():
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 8))


class WrongWhenCompiled(nn.Module):
    """Stands for a compiler that computes something else."""

    def forward(self, x):
        return x * 1.01 if torch.compiler.is_compiling() else x * 1.0


def dies():
    os.abort()


# ---- the list -------------------------------------------------------------------------------------------------------

MODELS = {
    "resnet50_b1": Model("ResNet-50", vision("resnet50"), images(224), 1),
    "resnet50_b8": Model("ResNet-50", vision("resnet50"), images(224), 8, 4),
    "resnet50_train": Model("ResNet-50", vision("resnet50"), images(64), 8, training=True),
    "resnet18_b1": Model("ResNet-18", vision("resnet18"), images(224), 1),
    "resnet18_train": Model("ResNet-18", vision("resnet18"), images(64), 8, training=True),
    "mobilenet_v3_b1": Model("MobileNetV3", vision("mobilenet_v3_large"), images(224), 1),
    "mobilenet_v3_train": Model("MobileNetV3", vision("mobilenet_v3_large"), images(64), 8, training=True),
    "efficientnet_b4": Model("EfficientNet-B0", vision("efficientnet_b0"), images(224), 4),
    "efficientnet_train": Model("EfficientNet-B0", vision("efficientnet_b0"), images(64), 8, training=True),
    "convnext_b1": Model("ConvNeXt-T", vision("convnext_tiny"), images(224), 1),
    "convnext_train": Model("ConvNeXt-T", vision("convnext_tiny"), images(64), 4, training=True),
    "densenet_b1": Model("DenseNet-121", vision("densenet121"), images(224), 1),
    "densenet_train": Model("DenseNet-121", vision("densenet121"), images(64), 4, training=True),
    "deeplabv3_b1": Model("DeepLabV3-MobileNet", deeplab, images(256), 1),
    "deeplabv3_train": Model("DeepLabV3-MobileNet", deeplab, images(64), 4, training=True),
    "vit_b1": Model("ViT-B/16", vision("vit_b_16"), images(224), 1),
    "vit_train": Model("ViT-B/16", vision("vit_b_16", image_size=64), images(64), 4, training=True),
    "swin_b1": Model("Swin-T", vision("swin_t"), images(224), 1),
    "swin_train": Model("Swin-T", vision("swin_t"), images(64), 4, training=True),
    "bert_b1": Model("BERT-base", bert(), text(128), 1),
    "bert_b8": Model("BERT-base", bert(), text(128), 8, 4),
    "bert_train": Model("BERT, 4 layers", bert("BertForMaskedLM", layers=4), tokens(128, labels=True), 4, training=True),
    "minilm_b1": Model("MiniLM", bert(layers=6, hidden=384), text(32), 1),
    "minilm_b32": Model("MiniLM", bert(layers=6, hidden=384), text(32), 32, 16),
    "minilm_train": Model("MiniLM", bert("BertForMaskedLM", 6, 384), tokens(32, labels=True), 8, training=True),
    "t5_encoder_b4": Model("T5-small encoder", t5("T5EncoderModel"), text(128), 4),
    "t5_train": Model("T5-small", t5("T5ForConditionalGeneration"), tokens(64, labels=True), 2, training=True),
    "gpt2_b1": Model("GPT-2", gpt2(), tokens(256, use_cache=False), 1),
    "gpt2_train": Model("GPT-2, 4 layers", gpt2(layers=4), tokens(128, labels=True, use_cache=False), 2, training=True),
    "llama_prefill": Model("Llama 160M", llama(), tokens(256, use_cache=False), 1),
    "llama_token": Model("Llama 160M, one token", llama(), tokens(1, use_cache=False), 1),
    "llama_static_cache": Model("Llama 160M, static cache", llama(), token_after(256, 1024), 1, max_calls=600),
    "llama_train": Model("Llama, 4 layers", llama(layers=4), tokens(128, labels=True, use_cache=False), 2, training=True),
    "whisper_encoder": Model("Whisper-tiny encoder", whisper_encoder, features(80, 3000), 1),
    "whisper_train": Model("Whisper-tiny encoder", whisper_encoder, features(80, 3000), 1, training=True),
    "mamba_b1": Model("Mamba", mamba, tokens(64, use_cache=False), 1),
    "mamba_train": Model("Mamba", mamba, tokens(32, labels=True, use_cache=False), 2, training=True),
    "mixture_b1": Model("Mixtral, small", mixture, tokens(128, use_cache=False), 1, tolerance=0.3),
    "mixture_train": Model("Mixtral, small", mixture, tokens(64, labels=True, use_cache=False), 2, training=True,
                           tolerance=0.3),
    "unet_b1": Model("UNet with attention", UNet, noise_and_times(32), 1, 2),
    "unet_train": Model("UNet with attention", UNet, noise_and_times(32), 2, training=True),
    # For one large GPU.
    "resnet50_b64_nhwc": Model("ResNet-50", vision("resnet50"), images(224), 64, 32, channels_last=True),
    "bert_b32": Model("BERT-base", bert(), text(128), 32, 16),
    "vit_b32": Model("ViT-B/16", vision("vit_b_16"), images(224), 32, 16),
    "llama8b_prefill": Model("Llama-8B, 4 layers", llama_8b, tokens(2048, use_cache=False), 1),
    "gpt2_b8_train": Model("GPT-2", gpt2(), tokens(1024, labels=True, use_cache=False), 8, 4, training=True),
    # For the tests of this tool.
    "tiny": Model("test", tiny, images(4), 3),
    "tiny_train": Model("test", tiny, images(4), 3, training=True),
    "tiny_wrong": Model("test", WrongWhenCompiled, images(4), 3),
    "tiny_crash": Model("test", dies, images(4), 3),
}  # fmt: skip

_QUICK = ("resnet50_b1_f32", "mobilenet_v3_b1_f32", "bert_b1_f32", "llama_static_cache_f32", "resnet18_train_f32",
          "gpt2_train_f32", "whisper_encoder_f32", "bert_b8_bf16")  # fmt: skip
_GPU = ("resnet50_b64_nhwc_bf16", "bert_b32_bf16", "bert_b1_bf16", "llama8b_prefill_bf16", "gpt2_b8_train_bf16",
        "vit_b32_bf16")  # fmt: skip
_TINY = ("tiny_f32", "tiny_train_bf16", "tiny_wrong_f32", "tiny_crash_f32")


def row(key, batch=0):
    name, _, dtype = key.rpartition("_")
    return Row(name, dtype, batch)


def zoo():
    """The models of zoo.py, which is written with what is above."""
    from .zoo import listed

    return listed()


def rows(which):
    if which == "zoo":
        return [Row(name, dtype) for name in zoo() for dtype in ("f32", "bf16")]
    if which == "full":
        large = {row(key).name for key in _GPU + _TINY} - {"bert_b1"}
        return [Row(name, dtype) for name in MODELS for dtype in ("f32", "bf16") if name not in large]
    return [row(key) for key in {"quick": _QUICK, "gpu": _GPU, "tiny": _TINY}[which]]


# ---- a model made ready ---------------------------------------------------------------------------------------------


def build(chosen, device):
    """The module of a row, with nothing left at a value that would hide an error, and without dropout."""
    torch.manual_seed(0)
    model = chosen.model.build().train(chosen.model.training)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim < 2:
                p.add_(torch.randn_like(p) * 0.05)
            elif not p.any():
                p.normal_(0, 0.02)
        for m in model.modules():
            if isinstance(m, nn.modules.batchnorm._BatchNorm):
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.8, 1.2)
            elif isinstance(m, nn.Dropout) or type(m).__name__ == "StochasticDepth":
                m.p = 0.0
    if chosen.dtype == "bf16" and not chosen.model.training:
        model = model.to(torch.bfloat16)
    model = model.to(device)
    return model.to(memory_format=torch.channels_last) if chosen.model.channels_last else model


class Inputs:
    """Arguments of a call. A cache of keys and values among them is filled further by each call, until `reset`."""

    def __init__(self, args):
        self.args = args
        self.counts = [[{k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in vars(layer).items() if _is_count(v)}
                        for layer in cache.layers] for cache in self._caches()]  # fmt: skip

    def _caches(self):
        return [v for v in (self.args.values() if isinstance(self.args, dict) else self.args) if hasattr(v, "layers")]

    def reset(self):
        """Caches are as full as they were when this was made; what lies beyond is masked out."""
        for cache, layers in zip(self._caches(), self.counts):
            for layer, counts in zip(cache.layers, layers):
                for k, v in counts.items():
                    if isinstance(v, torch.Tensor):
                        getattr(layer, k).copy_(v)
                    else:
                        setattr(layer, k, v)

    def widened(self):
        """A copy in float64."""

        def wide(v):
            return v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else copy.deepcopy(v)

        self.reset()
        made = {k: wide(v) for k, v in self.args.items()} if isinstance(self.args, dict) else tuple(map(wide, self.args))
        copied = Inputs(made)
        for cache in copied._caches():
            for layer in cache.layers:
                for k, v in list(vars(layer).items()):
                    setattr(layer, k, torch.float64 if k == "dtype" else wide(v))
        return copied


def _is_count(v):
    return isinstance(v, int) or isinstance(v, torch.Tensor) and v.dtype == torch.int64 and v.numel() == 1


def inputs(chosen, model, batch, device):
    torch.manual_seed(batch)
    dtype = torch.bfloat16 if chosen.dtype == "bf16" and not chosen.model.training else torch.float32
    made = chosen.model.inputs(model, batch, device, dtype)
    if chosen.model.channels_last:
        made = tuple(t.contiguous(memory_format=torch.channels_last) for t in made)
    return Inputs(made)
