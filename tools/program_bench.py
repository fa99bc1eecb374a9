#!/usr/bin/env python3
"""Small programs that no test names, as a user calls them, beside eager PyTorch and Inductor.

    program_bench.py [--device cpu|cuda] [--train] [--threads 1] [--rounds 7] [--no-inductor] [--symbolic] [--only WORD,WORD]

Each program is compiled with nothing set. The contenders take turns, of which each lasts about 100 ms; times are medians of calls,
ratios are ours / theirs (below 1 ours is faster), errors are in the norm, against float64. `--train`: with the gradients of all inputs.
`--symbolic`: ours with all sizes symbolic, beside eager and ours with constant sizes.
Exit code 1 where ours is less exact than eager by more than a factor of 16.
"""

import argparse
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from bench.sizes import with_symbolic_sizes

import cinn_like  # noqa: F401  (the backend)

PROGRAMS = {}


def program(*shapes):
    """Inputs: shapes of normal numbers, or functions of a device that make them."""

    def add(f):
        PROGRAMS[f.__name__] = f, shapes
        return f

    return add


def boxes(n):
    return lambda device: torch.rand(n, 4, device=device)


def classes(n, size):
    return lambda device: torch.arange(size, device=device) * 7 % n


@program((2, 256, 256))
def stencil(u):
    for _ in range(4):
        around = torch.roll(u, 1, -1) + torch.roll(u, -1, -1) + torch.roll(u, 1, -2) + torch.roll(u, -1, -2) - 4 * u
        u = u + 0.1 * around + 0.01 * u * (1 - u * u)
    return u


@program((1, 1, 256, 256))
def sobel(x):
    p = F.pad(x, (1, 1, 1, 1), mode="replicate")
    across = p[..., 1:-1, 2:] - p[..., 1:-1, :-2] + 0.5 * (p[..., 2:, 2:] - p[..., :-2, :-2])
    down = p[..., 2:, 1:-1] - p[..., :-2, 1:-1] + 0.5 * (p[..., 2:, 2:] - p[..., 2:, :-2])
    return torch.sqrt(across * across + down * down + 1e-6)


@program((512, 3))
def n_body(x):
    d = x[:, None] - x[None]
    r2 = (d * d).sum(-1) + 0.01
    return -(d / (r2 * r2.sqrt()).unsqueeze(-1)).sum(1)


@program(boxes(400), boxes(300))
def box_overlap(a, b):
    def area(z):
        return (z[:, 2] - z[:, 0]).clamp(min=0) * (z[:, 3] - z[:, 1]).clamp(min=0)

    sides = (torch.min(a[:, None, 2:], b[None, :, 2:]) - torch.max(a[:, None, :2], b[None, :, :2])).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    return both / (area(a)[:, None] + area(b)[None] - both + 1e-6)


@program((8, 24, 12), (12, 12))
def conditional_random_field(emissions, moves):
    a = emissions[:, 0]
    for i in range(1, emissions.shape[1]):
        a = torch.logsumexp(a.unsqueeze(2) + moves, 1) + emissions[:, i]
    return torch.logsumexp(a, 1)


@program((512, 512), (512, 512), (512, 512), (512, 512))
def adam(w, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v.abs() + 0.001 * g * g
    return w * (1 - 1e-4) - 1e-3 * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8) + m + v


@program((2048, 91), classes(91, 2048))
def focal_loss(x, y):
    t, p = F.one_hot(y, 91).to(x.dtype), torch.sigmoid(x)
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    return (0.25 * t + 0.75 * (1 - t)) * loss * (1 - (p * t + (1 - p) * (1 - t))) ** 2


@program((4, 8, 96, 96), (4, 8, 96, 96))
def dice_loss(x, y):
    p, y = torch.softmax(x, 1), torch.sigmoid(y)
    return 1 - ((2 * (p * y).sum((2, 3)) + 1) / ((p * p).sum((2, 3)) + (y * y).sum((2, 3)) + 1)).mean(1)


@program((256, 128), (256, 128))
def contrastive_loss(a, b):
    logits = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T * 2.7
    right = torch.arange(a.shape[0], device=a.device)
    return F.cross_entropy(logits, right, reduction="none") + F.cross_entropy(logits.T, right, reduction="none")


@program((2, 3, 96, 96), (2, 3, 96, 96))
def structural_similarity(x, y):
    def mean(z):
        return F.avg_pool2d(z, 7, 1)

    a, b = mean(x), mean(y)
    c, s = mean(x * y) - a * b, mean(x * x) - a * a + mean(y * y) - b * b
    return ((2 * a * b + 1e-4) * (2 * c + 9e-4) / ((a * a + b * b + 1e-4) * (s + 9e-4))).mean((1, 2, 3))


@program((2, 128, 8, 64))
def rotary_norm(x):
    places = torch.arange(x.shape[1], device=x.device)[:, None]
    angles = places / 10000 ** (torch.arange(0, 64, 2, device=x.device) / 64)
    c, s = angles.cos()[None, :, None].to(x.dtype), angles.sin()[None, :, None].to(x.dtype)
    a, b = x[..., ::2], x[..., 1::2]
    y = torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
    return y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)


@program((1, 32, 48, 48))
def attention_over_windows(x):
    b, c, h, w = x.shape
    windows = F.unfold(x, 3, padding=1).view(b, c, 9, h * w)
    weights = torch.softmax((x.flatten(2).unsqueeze(2) * windows).sum(1, keepdim=True) / 6, 2)
    return (weights * windows).sum(2).view_as(x)


@program((64, 1024))
def running_norm(x):
    mean = torch.cumsum(x, 1) / torch.arange(1, x.shape[1] + 1, device=x.device)
    return (x - mean) / (torch.cumsum((x - mean) ** 2, 1) + 1).sqrt()


@program((8, 1024))
def soft_histogram(x):
    centres = torch.linspace(0, 1, 32, device=x.device, dtype=x.dtype)
    return torch.exp(-(((x.unsqueeze(-1) - centres) * 20) ** 2)).sum(1)


@program((64, 32), (64, 33))
def advantages(r, v):
    d = r + 0.99 * v[:, 1:] - v[:, :-1]
    a, out = torch.zeros_like(r[:, 0]), []
    for i in reversed(range(r.shape[1])):
        a = d[:, i] + 0.95 * 0.99 * a
        out.append(a)
    out = torch.stack(out[::-1], 1)
    return (out - out.mean()) / (out.std() + 1e-5)


@program((4, 64, 32))
def pairs(x):
    a, b = x.unsqueeze(2), x.unsqueeze(1)
    return torch.cat([(a - b).abs(), a * b, (a + b).expand(-1, 64, 64, -1)], -1).mean(2)


@program((2000, 16), (20, 16))
def k_means(x, c):
    nearest = ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1)
    one = F.one_hot(nearest, 20).to(x.dtype)
    return (one.T @ x) / (one.sum(0)[:, None] + 1)


@program((2, 16, 48, 48))
def bicubic(x):
    y = F.silu(F.group_norm(x, 4))
    return F.avg_pool2d(F.interpolate(y, scale_factor=2, mode="bicubic", align_corners=False), 3, 2, 1) + y


@program((8, 128, 300))
def moments(x):
    y = (x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, keepdim=True) + 1e-5)
    return torch.cat([y.amax(1), y.amin(1), (y**3).mean(1)], 1)


def made(shapes, device, train):
    torch.manual_seed(0)
    inputs = [s(device) if callable(s) else torch.randn(s, device=device) for s in shapes]
    return [x.requires_grad_() if train and x.is_floating_point() else x for x in inputs]


def results(f, inputs, train):
    if not train:
        with torch.no_grad():
            return [f(*inputs)]
    y = f(*inputs)
    return [y.detach(), *torch.autograd.grad(y.sum(), [x for x in inputs if x.requires_grad])]


def error(got, right):
    return max(float((g.double() - r).norm() / (r.norm() + 1e-12)) for g, r in zip(got, right))


def seconds(f, inputs, train, calls):
    start = time.perf_counter()
    for _ in range(calls):
        results(f, inputs, train)
    if inputs[0].is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--symbolic", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    wrong = False
    other = "constant" if args.symbolic else "Inductor"
    print(f"{'us a call; errors':24} {'eager':>9} {'ours':>9} {other:>9}   / eager / {other}   error eager      ours")
    for name, (f, shapes) in PROGRAMS.items():
        if not any(word in name for word in args.only.split(",")):
            continue
        inputs = made(shapes, args.device, args.train)
        wide = [x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in inputs]
        right = results(f, wide, args.train)
        torch._dynamo.reset()
        contenders = [(f, inputs), (torch.compile(f, backend="cinn_like"), inputs)]
        if args.symbolic:
            # Code of its own for each, or the second would be another size of the first.
            symbolic = torch.compile(lambda *xs, f=f: f(*xs), backend="cinn_like")
            contenders.insert(1, (symbolic, with_symbolic_sizes(inputs)))
        elif not args.no_inductor:
            contenders.append((torch.compile(f), inputs))
        errors = [error(results(g, given, args.train), right) for g, given in contenders]
        calls = max(1, int(0.1 / seconds(f, inputs, args.train, 3)))
        times = [[] for _ in contenders]
        for _ in range(args.rounds):
            for i, (g, given) in enumerate(contenders):
                times[i].append(seconds(g, given, args.train, calls))
        eager, ours, *other = (statistics.median(t) * 1e6 for t in times)
        theirs = [f"{other[0]:9.0f}", f"{ours / other[0]:10.2f}"] if other else [" " * 9, " " * 10]
        bad = errors[1] > 16 * errors[0] + 1e-5
        wrong |= bad
        print(f"{name:24} {eager:9.0f} {ours:9.0f} {theirs[0]} {ours / eager:9.2f} {theirs[1]}   {errors[0]:11.1e} "
              f"{errors[1]:9.1e}{'  WRONG' if bad else ''}", flush=True)  # fmt: skip
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
