"""A product of matrices for a GPU, a step at a time: an element a thread; tiles of the operands in memory that a block's
threads share; 4 x 4 elements a thread, summed in its registers. It runs on a device of OpenCL, and is CUDA's source, too."""

import numpy as np
from cinn_like import te

THREADS, PART, TILE = 8, 4, 16  # threads along a side of a block, elements of each, and the part of k in shared memory

n, m, d = (te.var(name, high=8192) for name in "nmd")  # so places are numbers of 32 bits
A = te.placeholder((n, d), name="A")
B = te.placeholder((d, m), name="B")
k = te.reduce_axis((0, d), name="k")
C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def element_per_thread():
    s = te.create_schedule(C, name="matmul")
    i, j, k = s.loops(C)
    by, bx, ty, tx = s.tile(i, j, THREADS, THREADS)
    for loop, axis in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        s.bind(loop, axis)
    return s


def bind_threads(s, y, x):
    s.bind(y, "threadIdx.y")
    s.bind(x, "threadIdx.x")


def shared_tiles():
    s = te.create_schedule(C, name="matmul")
    # The sum has whole parts, whose last elements are zeros; operands are copied so, and sums kept apart.
    s.round_up(C, "k", TILE)
    s.define("a_tile[i, k] = A[i, k; k < d]")
    s.define("b_tile[k, j] = B[k, j; k < d]")
    s.cache_write(C, C, to="sums")
    i, j, k = s.loops(C)
    s.split(i, THREADS, PART, to=("by", "ty", "iy"))
    s.split(j, THREADS, PART, to=("bx", "tx", "ix"))
    s.split(k, TILE, to=("ko", "ki"))
    s.reorder("by", "bx", "ko", "ty", "tx", "ki", "iy", "ix")
    s.split_init(C, "ko", to="start")
    # For each part of k a block's threads copy tiles of the operands, then all read them.
    s.reverse_compute_at("sums_copy", "bx")
    s.scope("sums", "local")
    for tile in ("a_tile", "b_tile"):
        s.compute_at(f"b_{tile}", "ko")
        s.scope(tile, "shared")
    s.bind("by", "blockIdx.y")
    s.bind("bx", "blockIdx.x")
    # Tiles compute beyond the matrices' ends rather than ask at every element; only what is written is asked.
    for block in ("b_a_tile", "b_b_tile", "start", C):
        s.pad(block)
    for tile in ("a_tile", "b_tile"):
        elements = s.fuse(*s.loops(f"b_{tile}")[-2:])
        bind_threads(s, *s.split(elements, THREADS, THREADS)[1:])
    # The same threads start the sums, add to them and write them.
    bind_threads(s, "ty", "tx")
    bind_threads(s, *s.loops("start")[2:4])
    rows, columns = s.loops("sums_copy")[-2:]
    y, iy = s.split(rows, PART)
    x, ix = s.split(columns, PART)
    s.reorder(y, x, iy, ix)
    bind_threads(s, y, x)
    s.unroll("iy")
    s.unroll("ix")
    return s


def main():
    rng = np.random.default_rng(0)
    for make in (element_per_thread, shared_tiles):
        s = make()
        print(s.schedule)
        print(te.build(s, target="cuda -arch=sm_90a").get_source())
        f = te.build(s, target="opencl")
        for shape in ((64, 32, 48), (33, 70, 45)):
            a, b = (rng.random(size, "float32") for size in ((shape[0], shape[2]), (shape[2], shape[1])))
            np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-4)


if __name__ == "__main__":
    main()
