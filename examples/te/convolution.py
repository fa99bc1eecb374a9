"""A convolution, bias and maximum with 0 on a GPU, a step at a time: an element a thread; as a product of a matrix of windows
(im2col), of which there is only a tile at a time, in shared memory; on matrix units, with copies ahead (tensor_cores.py)."""

import numpy as np
from cinn_like import te
from tensor_cores import TILE, check, on_matrix_units, pipelined, share_out, sum_tile

SIZE, IN, OUT = 16, 32, 64  # rows and columns of an image, channels that come in and go out

n = te.var("n", high=1024)
X = te.placeholder((n, SIZE, SIZE, IN), "float16", name="X")
W = te.placeholder((3, 3, IN, OUT), "float16", name="W")
bias = te.placeholder((OUT,), name="bias")


def window(pixel, k):
    """Element k of the window around a pixel: 3 by 3 by all channels, zeros outside of the image."""
    row, column = pixel // SIZE % SIZE + k // (3 * IN) - 1, pixel % SIZE + k // IN % 3 - 1
    inside = te.all(0 <= row, row < SIZE, 0 <= column, column < SIZE)
    return te.if_then_else(inside, X[pixel // (SIZE * SIZE), row, column, k % IN], 0.0)


k = te.reduce_axis((0, 9 * IN), name="k")
windows = te.compute((n * SIZE * SIZE, 9 * IN), window, name="windows")
weights = te.compute((9 * IN, OUT), lambda k, o: W[k // (3 * IN), k // IN % 3, k % IN, o], name="weights")
product = lambda pixel, o: te.cast(windows[pixel, k], "float32") * te.cast(weights[k, o], "float32")  # noqa: E731
T = te.compute((n * SIZE * SIZE, OUT), lambda pixel, o: te.sum(product(pixel, o), axis=k), name="T")
result = lambda i, y, x, o: te.max(T[(i * SIZE + y) * SIZE + x, o] + bias[o], 0.0)  # noqa: E731
Y = te.compute((n, SIZE, SIZE, OUT), lambda i, y, x, o: te.cast(result(i, y, x, o), "float16"), name="Y")


def element_per_thread():
    s = te.create_schedule(Y, name="convolution", align=16)
    s.inline("b_windows")
    s.inline("b_weights")
    pixel = s.fuse(*s.loops(Y)[:3])
    block, row = s.split(pixel, 4)
    channel = s.loops(Y)[-1]
    for loop, axis in ((block, "blockIdx.x"), (row, "threadIdx.y"), (channel, "threadIdx.x")):
        s.bind(loop, axis)
    s.scope(T, "local")
    s.compute_at(T, channel)
    return s


def on_threads():
    """A block's windows and weights are copied to shared memory, for a part of k at a time."""
    s = te.create_schedule(Y, name="convolution", align=16)
    pixel = s.fuse(*s.loops(Y)[:3])
    by, bx, _, _ = s.tile(pixel, s.loops(Y)[1], TILE, TILE)
    s.bind(by, "blockIdx.y")
    s.bind(bx, "blockIdx.x")
    sum_tile(s, T, bx, ("windows", "weights"))
    share_out(s, T, Y, ("windows", "weights"))
    return s


STEPS = {
    "element per thread": element_per_thread, "tiles of windows": on_threads,
    "on matrix units": lambda: on_matrix_units(on_threads()), "pipelined": lambda: pipelined(on_threads()),
}  # fmt: skip


def reference(x, w, bias):
    padded = np.pad(x.astype("float64"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.maximum(np.einsum("nyxcrs,rsco->nyxo", parts, w.astype("float64")) + bias, 0.0)


def main():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, SIZE, SIZE, IN)).astype("float16")
    w = (rng.standard_normal((3, 3, IN, OUT)) / (9 * IN) ** 0.5).astype("float16")
    b = rng.standard_normal(OUT).astype("float32")
    for name, make in STEPS.items():
        s = make()
        print(s.schedule)
        targets = ("cuda", "opencl") if name in ("element per thread", "pipelined") else ("cuda",)
        check(s, name, (x, w, b), reference(x, w, b), targets)


if __name__ == "__main__":
    main()
