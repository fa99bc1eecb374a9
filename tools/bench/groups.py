"""Functions that reduce groups of elements and write all of them by what their group has, in another shape."""

import torch
import torch.nn.functional as F

from .cases import Cases

GROUPS = Cases()
simple = GROUPS.simple


def group_norm(groups, act):
    return lambda x, w, b: act(F.group_norm(x, groups, w, b))


def quantise(x):
    """Bytes by the largest of each 32, and the scales, in f32 or wider: 127 of 16 bits may be rounded to 128, which is no byte."""
    parts = x.view(x.shape[0], -1, 32)
    parts = parts if parts.dtype == torch.float64 else parts.float()
    scale = parts.abs().amax(-1, keepdim=True) / 127
    return (parts / scale).round().to(torch.int8).view(x.shape), scale.squeeze(-1)


def rms_of_heads(x, w):
    batch, length, _ = x.shape
    heads = x.view(batch, length, -1, w.shape[0])
    return (heads * torch.rsqrt((heads * heads).mean(-1, keepdim=True) + 1e-6) * w).view(batch, length, -1)


def keep(x):
    return x


for shape in ((32, 320, 64, 64), (2, 320, 64, 64), (2, 1280, 16, 16), (1, 128, 512, 512)):
    simple(f"group norm and silu {'x'.join(map(str, shape))}", group_norm(32, F.silu), shape, shape[1:2], shape[1:2])
simple("group norm of 256 groups 64x256x56x56", group_norm(256, keep), (64, 256, 56, 56), (256,), (256,))
simple("group norm of one group 64x96x56x56", group_norm(1, keep), (64, 96, 56, 56), (96,), (96,))
simple("group norm of 2 channels each 4096x64", group_norm(32, keep), (4096, 64), (64,), (64,))
simple("instance norm 64x64x112x112", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (64, 64, 112, 112), (64,), (64,))
for shape in ((16, 64, 64, 320), (2, 64, 64, 128), (1, 32, 32, 512), (1, 512, 512, 128)):
    for name, act in (("group norm and silu", F.silu), ("group norm", keep)):
        simple(f"{name}, channels last {'x'.join(map(str, shape))}",
               lambda x, w, b, norm=group_norm(32, act): norm(x.permute(0, 3, 1, 2), w, b), shape, shape[3:], shape[3:])  # fmt: skip
simple("quantised by groups of 32 8192x4096", quantise, (8192, 4096))
simple("means of each ten beside rows 16384x1280", lambda x, m: (x.view(len(x), -1, 10) * m[:, None]).view(x.shape), (16384, 1280), (128,))
simple("RMS norm of heads 8x2048x(32x128)", rms_of_heads, (8, 2048, 4096), (128,))
