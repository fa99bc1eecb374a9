"""Architectures that no tactic has in mind: one of each family of torchvision and of transformers, small, with random weights, by the
constructors and defaults of their packages. Each is a row for inference and a row for training."""

import dataclasses

import torch

from . import models

LAYERS, WIDTH, WORDS = 3, 512, 8000


def from_config(name, options, auto="AutoModel"):
    """A model of transformers; how it computes attention is its own choice, as it is a user's."""

    def build():
        t = models.transformers()
        if not hasattr(t, name + "Config"):
            raise models.Missing(f"transformers has no {name}")
        return getattr(t, auto).from_config(getattr(t, name + "Config")(**options))

    return build


# ---- inputs ---------------------------------------------------------------------------------------------------------


def words(length, *others, **fixed):
    """Tokens, under each of the names."""

    def make(model, batch, device, dtype):
        return {k: torch.randint(5, WORDS, (batch, length), device=device) for k in ("input_ids", *others)} | fixed

    return make


def values(name, *shape):
    return lambda model, batch, device, dtype: {name: torch.randn(batch, *shape, device=device).to(dtype)}


# ---- sizes, by the names that configurations have for them ----------------------------------------------------------

_UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_PLAIN = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 8, "intermediate_size": 3 * WIDTH}
_ENCODER = {**_PLAIN, **_UNDROPPED, "vocab_size": WORDS}
_DECODER = {**_PLAIN, "vocab_size": WORDS, "pad_token_id": 0}
_GROUPED = {**_DECODER, "num_key_value_heads": 2}
_HEADS = {**_GROUPED, "head_dim": 64}
_EXPERTS = {**_GROUPED, "moe_intermediate_size": 256, "num_experts": 8, "num_experts_per_tok": 2}
_SHORT = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": 8, "rotary_dim": 32, "vocab_size": WORDS}
_BOTH = {"d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": 8,
         "decoder_attention_heads": 8, "encoder_ffn_dim": 3 * WIDTH, "decoder_ffn_dim": 3 * WIDTH, "vocab_size": WORDS,
         "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "pad_token_id": 0,
         "decoder_start_token_id": 2}  # fmt: skip
_RELATIVE = {"d_model": WIDTH, "num_layers": LAYERS, "num_heads": 8, "d_ff": 2 * WIDTH, "vocab_size": WORDS, "dropout_rate": 0.0,
             "decoder_start_token_id": 0}  # fmt: skip
_PATCHES = {"hidden_size": 384, "num_hidden_layers": LAYERS, "num_attention_heads": 6, "intermediate_size": 1536}
_SPEECH = {**_PLAIN, "hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "feat_proj_dropout": 0.0,
           "layerdrop": 0.0, "apply_spec_augment": False}  # fmt: skip

_VISION = ("alexnet", "vgg11_bn", "squeezenet1_1", "shufflenet_v2_x1_0", "mnasnet1_0", "mobilenet_v2", "regnet_y_400mf",
           "resnext50_32x4d", "wide_resnet50_2", "efficientnet_v2_s", "swin_v2_t", "maxvit_t", "vit_b_32", "densenet169")  # fmt: skip
_ENCODERS = {
    "Albert": {**_ENCODER, "embedding_size": 128}, "Roberta": _ENCODER, "Electra": _ENCODER, "MPNet": _ENCODER,
    "ConvBert": _ENCODER, "RoFormer": _ENCODER, "SqueezeBert": {**_ENCODER, "embedding_size": WIDTH}, "BigBird": _ENCODER,
    "Nystromformer": _ENCODER, "Longformer": {**_ENCODER, "attention_window": 128}, "RemBert": _ENCODER,
    "ModernBert": {**_ENCODER, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
    "DebertaV2": {**_ENCODER, "relative_attention": True, "position_buckets": 64, "pos_att_type": ["p2c", "c2p"]},
    "MobileBert": {**_UNDROPPED, "num_hidden_layers": LAYERS, "vocab_size": WORDS},
    "FNet": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "intermediate_size": 3 * WIDTH, "vocab_size": WORDS,
             "hidden_dropout_prob": 0.0},
    "XLNet": {"d_model": WIDTH, "n_layer": LAYERS, "n_head": 8, "d_inner": 3 * WIDTH, "vocab_size": WORDS, "dropout": 0.0}}  # fmt: skip
_DECODERS = {
    "GPTNeoX": _DECODER, "Falcon": _DECODER, "Persimmon": _DECODER, "Phi": _GROUPED, "Phi3": _GROUPED, "Qwen2": _GROUPED,
    "StableLm": _GROUPED, "Starcoder2": _GROUPED, "Olmo2": _GROUPED, "Cohere": _GROUPED, "Granite": _GROUPED,
    "Nemotron": _GROUPED, "Glm": _HEADS, "Qwen3": _HEADS, "Mistral": {**_GROUPED, "sliding_window": 64},
    "Gemma2": {**_HEADS, "query_pre_attn_scalar": 64, "sliding_window": 64},
    "Gemma3Text": {**_HEADS, "query_pre_attn_scalar": 64, "sliding_window": 64}, "GPTJ": _SHORT, "CodeGen": _SHORT,
    "OPT": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "ffn_dim": 3 * WIDTH, "num_attention_heads": 8, "vocab_size": WORDS,
            "word_embed_proj_dim": WIDTH, "dropout": 0.0},
    "Bloom": {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": 8, "vocab_size": WORDS},
    "Mpt": {"d_model": WIDTH, "n_layers": LAYERS, "n_heads": 8, "vocab_size": WORDS},
    "GPTNeo": {"hidden_size": WIDTH, "num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 8,
               "vocab_size": WORDS},
    "Qwen2Moe": {**_EXPERTS, "decoder_sparse_step": 1, "shared_expert_intermediate_size": 256}, "Olmoe": _EXPERTS,
    "GptOss": {**_HEADS, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 64},
    "DeepseekV3": {**_DECODER, "num_key_value_heads": 8, "moe_intermediate_size": 256, "n_routed_experts": 8, "n_group": 2,
                   "topk_group": 1, "num_experts_per_tok": 2, "q_lora_rank": 128, "kv_lora_rank": 64, "first_k_dense_replace": 1},
    "Mamba2": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_heads": 16, "head_dim": 64, "vocab_size": WORDS, "n_groups": 1},
    "RecurrentGemma": {**_DECODER, "lru_width": WIDTH, "attention_window_size": 64}}  # fmt: skip
_SEQUENCES = {"Bart": _BOTH, "Pegasus": _BOTH, "Marian": _BOTH, "LED": {**_BOTH, "attention_window": 64}, "MT5": _RELATIVE,
              "SwitchTransformers": {**_RELATIVE, "num_experts": 4, "router_jitter_noise": 0.0}}  # fmt: skip
_PIXELS = {"DeiT": _PATCHES, "Beit": _PATCHES, "Dinov2": _PATCHES, "Yolos": {**_PATCHES, "image_size": [224, 224]},
           "CLIPVision": _PATCHES, "SiglipVision": _PATCHES, "Segformer": {}, "PoolFormer": {}, "Cvt": {}, "Levit": {},
           "MobileViT": {}, "MobileViTV2": {}, "FocalNet": {}, "Hiera": {}, "Pvt": {}, "PvtV2": {}, "SwiftFormer": {}, "Bit": {},
           "Swinv2": {}, "ConvNextV2": {}}  # fmt: skip
_SPEECHES = {"Wav2Vec2": _SPEECH, "Hubert": _SPEECH, "WavLM": _SPEECH, "SEW": _SPEECH}
_ROUTED = {"Qwen2Moe", "Olmoe", "GptOss", "DeepseekV3", "SwitchTransformers"}  # rounding changes who computes what


def _all():
    for name in _VISION:
        yield name, models.vision(name), models.images(224)
    yield "fcn_resnet50", lambda: models.torchvision().models.segmentation.fcn_resnet50(weights=None, weights_backbone=None), models.images(224)
    for name in ("r3d_18", "mvit_v2_s", "s3d"):
        yield name, models.vision(name), lambda model, batch, device, dtype: (torch.randn(batch, 3, 16, 224, 224, device=device).to(dtype),)
    for name, options in _ENCODERS.items():
        yield name, from_config(name, options), words(256)
    for name, options in _DECODERS.items():
        yield name, from_config(name, options, "AutoModelForCausalLM"), words(256, use_cache=False)
    for name, options in _SEQUENCES.items():
        yield name, from_config(name, options, "AutoModelForSeq2SeqLM"), words(128, "decoder_input_ids", use_cache=False)
    for name, options in _PIXELS.items():
        yield name, from_config(name, options), values("pixel_values", 3, 224, 224)
    for name, options in _SPEECHES.items():
        yield name, from_config(name, options), values("input_values", 16000)
    yield "ASTransformer", from_config("AST", _PATCHES), values("input_values", 1024, 128)


def listed():
    """{name: Model}."""
    found = {}
    for name, build, inputs in _all():
        made = models.Model(name, build, inputs, 2, tolerance=0.3 if name in _ROUTED else 0.0)
        key = "zoo_" + name.lower()
        found[key] = made
        if name != "RecurrentGemma":  # its states are buffers that a step of training leaves in its graph
            found[key + "_train"] = dataclasses.replace(made, training=True)
    return found
