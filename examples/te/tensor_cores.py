"""A product of 16-bit matrices on a GPU's matrix units, a step at a time: tiles in shared memory; the units' products of
tiles; copies that run ahead of these, asynchronously. CUDA's source is there without a GPU; where there is one it runs.
The loops stay the meaning: what has no such units, here a device of OpenCL, runs them and computes the same."""

import numpy as np
from cinn_like import te

TILE = 32  # rows and columns of a block's tile; 64 or 128 are more code, and faster
PART = 32  # of k, in shared memory at a time
THREADS = (TILE // 16, 8, 4)  # of a block, z, y and x: warps, each of 8 by 4 threads, as the units want them

# Whole tiles; matmul_gpu.py has matrices of any size.
n, m, d = (te.var(name, low=128, high=8192, multiple=128) for name in "nmd")
A = te.placeholder((n, d), "float16", name="A")
B = te.placeholder((d, m), "float16", name="B")
k = te.reduce_axis((0, d), name="k")
T = te.compute((n, m), lambda i, j: te.sum(te.cast(A[i, k], "float32") * te.cast(B[k, j], "float32"), axis=k), name="T")
C = te.compute((n, m), lambda i, j: te.cast(T[i, j], "float16"), name="C")


def bind_threads(s, *loops):
    for loop, axis in zip(loops, ("threadIdx.z", "threadIdx.y", "threadIdx.x")):
        s.bind(loop, axis)


def sum_tile(s, T, block, copies):
    """T is computed a tile for each iteration of `block`, of a part of k at a time, from copies of what that part reads."""
    s.scope(T, "local")
    s.compute_at(T, block)
    i, j, k = s.loops(T)[-3:]
    s.split(k, PART, to=("ko", "ki"))
    s.split("ki", 16, to=("kk", "ke"))  # a unit's products are 16 deep
    s.reorder("ko", "kk", "ke", i, j)
    s.split_init(T, "ko", to="start")
    for copy in copies:
        s.scope(copy, "shared", "align", 16)
        s.compute_at(f"b_{copy}", "ko")


def copied_by_threads(s, copy):
    """Each thread copies 8 elements, 16 bytes, at a time."""
    outer, inner = s.loops(f"b_{copy}")[-2:]
    run, element = s.split(inner, 8)
    turn, *threads = s.split(s.fuse(outer, run), *THREADS, to=[f"{copy}_{axis}" for axis in ("turn", *"zyx")])
    s.reorder(*threads, turn)
    bind_threads(s, *threads)
    s.unroll(turn)
    s.vectorize(element)
    s.storage_align(copy, 16, 8)  # so that rows do not all begin in the same bank


def in_fragments(s, block, name, steps=(), depth=()):
    """The elements of a tile that each thread has, as a matrix unit's sums lie: a warp has 32 rows and half of the columns;
    its thread y, x has rows y and y + 8 of every 16 of these, columns 2 * x and 2 * x + 1 of every 8."""
    rows, columns = s.loops(block)[-2:]
    zi, i, h, y = s.split(rows, 2, 2, 8, to=[f"{name}_{part}" for part in ("zi", "i", "h", "y")])
    zj, j, x, l = s.split(columns, TILE // 16, 4, 2, to=[f"{name}_{part}" for part in ("zj", "j", "x", "l")])
    s.reorder(zi, zj, y, x, *steps, i, j, h, l, *depth)
    bind_threads(s, s.fuse(zi, zj, to=f"{name}_z"), y, x)
    return i, l


def share_out(s, T, result, copies):
    """What a block does, by its threads."""
    for copy in copies:
        copied_by_threads(s, copy)
    in_fragments(s, T, "sum", ["kk"], ["ke"])
    in_fragments(s, "start", "zero")
    _, pair = in_fragments(s, result, "out")
    s.vectorize(pair)


def on_threads():
    s = te.create_schedule(C, name="matmul", align=16)
    s.define("rows[i, k] = A[i, k]")
    s.define("columns[k, j] = B[k, j]")
    by, bx, _, _ = s.tile(*s.loops(C), TILE, TILE)
    s.bind(by, "blockIdx.y")
    s.bind(bx, "blockIdx.x")
    sum_tile(s, T, bx, ("rows", "columns"))
    share_out(s, T, C, ("rows", "columns"))
    return s


def on_matrix_units(s=None):
    s = s or on_threads()
    s.tensorize("sum_i", "mma_m16n8k16")
    return s


def pipelined(s=None):
    """Copies are two parts of k ahead, in three times the memory, and a unit's operands one product."""
    s = on_matrix_units(s)
    s.pipeline("ko", 3)
    s.unroll("kk")
    return s


STEPS = {"on threads": on_threads, "on matrix units": on_matrix_units, "pipelined": pipelined}


def check(s, name, arrays, expected, targets):
    """Prints CUDA's source, and runs the function on those of `targets` that there are."""
    print(f"// {name}\n{te.build(s, target='cuda -arch=sm_80').get_source()}")
    for target in filter(te.has_device, targets):
        np.testing.assert_allclose(te.build(s, target)(*arrays), expected, rtol=2e-3, atol=1e-2)
        print(f"{name}: right on {target}")


def main():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("float16") for shape in ((128, 256), (256, 128)))
    for name, make in STEPS.items():
        s = make()
        print(s.schedule)
        targets = ("cuda", "opencl") if make is pipelined else ("cuda",)  # compilers of OpenCL take their time
        check(s, name, (a, b), a.astype("float64") @ b.astype("float64"), targets)


if __name__ == "__main__":
    main()
