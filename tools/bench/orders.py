"""Functions whose results move the same elements in different orders, and copies that turn what they read, at sizes of which some are no
multiple of anything."""

import torch
import torch.nn.functional as F

from .cases import Cases

ORDERS = Cases()
simple = ORDERS.simple


def turned(x):
    return x.t().contiguous()


for n in (8192, 4095, 4098, 1024):
    simple(f"exp(x), tanh(x.t()) {n}", lambda x: (torch.exp(x), torch.tanh(turned(x))), (n, n))
    simple(f"x + y.t(), y + x.t() {n}", lambda x, y: ((x + y.t()).contiguous(), (y + x.t()).contiguous()), (n, n), (n, n))
    simple(f"16 bits of x and of x.t() {n}", lambda x: (turned(x).bfloat16(), x.bfloat16()), (n, n))
    simple(f"gelu(x) and gelu(x).t() {n}", lambda x: (F.gelu(x), turned(F.gelu(x))), (n, n))
    simple(f"(x > 0).t(), x * 2 {n}", lambda x: (turned(x > 0), x * 2), (n, n))
    simple(f"2 * x.t() {n}", lambda x: turned(x) * 2, (n, n))
for shape in ((8, 1024, 128, 64), (8, 128, 16, 64)):
    name = "x".join(map(str, shape))
    simple(f"heads and sequence change places, beside themselves {name}", lambda h: (h.transpose(1, 2).contiguous() * 2, h * 3), shape)
    simple(f"heads and channels change places, beside themselves {name}", lambda h: (h.transpose(2, 3).contiguous() * 2, h * 3), shape)
