"""Functions whose time is a GPU's memory's: what they read and write is larger than its caches. The type of a case is in its name."""

import torch
import torch.nn.functional as F

from .cases import Cases, integers

LARGE = Cases()
case, simple = LARGE.case, LARGE.simple

simple("gelu(x + b) * 0.5 + r, 32768x4096 bf16", lambda x, b, r: F.gelu(x + b) * 0.5 + r, (32768, 4096), (4096,), (32768, 4096))
simple("softmax 16384x4096 bf16", lambda x: F.softmax(x, -1), (16384, 4096))
simple("softmax 4096x50257 bf16", lambda x: F.softmax(x, -1), (4096, 50257))
simple("softmax, first axis 4096x16384 bf16", lambda x: F.softmax(x, 0), (4096, 16384))
simple("softmax, middle axis 32x4096x512 bf16", lambda x: F.softmax(x, 1), (32, 4096, 512))
simple("residual and RMS norm 16384x8192 bf16", lambda x, r, w: F.rms_norm(x + r, (8192,), w), (16384, 8192), (16384, 8192), (8192,))
simple("column sum 65536x2048 f32", lambda x: x.sum(0), (65536, 2048))
simple("sum of squares 2^28 f32", lambda x: (x * x).sum(), (1 << 28,))
simple("transposed, and a bias 8192^2 f32", lambda x, b: (x.t() + b).contiguous(), (8192, 8192), (8192,))
simple("SwiGLU 32768x8192 bf16", lambda a, b: F.silu(a) * b, (32768, 8192), (32768, 8192))
simple("group norm and silu 32x320x64x64 bf16", lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)), (32, 320, 64, 64), (320,), (320,))
simple("argmax 16384x4096 f32", lambda x: x.argmax(-1), (16384, 4096))
simple("running sum 16384x4096 f32", lambda x: x.cumsum(-1), (16384, 4096))
simple("running sum, first axis 4096x16384 f32", lambda x: x.cumsum(0), (4096, 16384))
simple("gradient of log-softmax 8192x32000 f32", lambda dy, y: dy - y.exp() * dy.sum(-1, keepdim=True), (8192, 32000), (8192, 32000))
simple("log-softmax 8192x50257 bf16", lambda x: F.log_softmax(x, -1), (8192, 50257))


@case("layer norm and its gradients 16384x4096 bf16")
def _(r):
    return lambda x, w, b: F.layer_norm(x, (4096,), w, b), [r(16384, 4096), r(4096), r(4096)], r(16384, 4096)


@case("batch norm in training, relu and gradients 64x256x56x56 bf16")
def _(r):
    x = r(64, 256, 56, 56)
    return lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)), [x, r(256), r(256)], r(*x.shape)


@case("cross entropy 8192x50257 bf16")
def _(r):
    return F.cross_entropy, [r(8192, 50257), integers(50257, 8192)]


@case("cross entropy and its gradient 4096x32000 f32")
def _(r):
    return F.cross_entropy, [r(4096, 32000), integers(32000, 4096)], r()


@case("rotary embedding 8x4096x32x128 bf16")
def _(r):
    def f(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    return f, [r(8, 4096, 32, 128), r(4096, 1, 128), r(4096, 1, 128)]


@case("Adam 134M f32")
def _(r):
    def f(p, g, m, v):
        m = torch.lerp(m, g, 0.1)
        v = v * 0.999 + g * g * 0.001
        return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v

    n = 1 << 27
    return f, [r(n), r(n), r(n), r(n).abs()]


@case("gradient of an embedding, 65536 words into 32000x1024 bf16")
def _(r):
    return lambda w, i: F.embedding(i, w), [r(32000, 1024), integers(32000, 65536)], r(65536, 1024)


@case("scale, shift and relu behind a convolution 64x256x56x56 bf16")
def _(r):
    x = r(64, 256, 56, 56).contiguous(memory_format=torch.channels_last)
    w = (r(256, 256, 3, 3) * 0.02).contiguous(memory_format=torch.channels_last)
    return lambda x, w, s, b: F.relu(F.conv2d(x, w, padding=1) * s + b), [x, w, r(256, 1, 1), r(256, 1, 1)]
