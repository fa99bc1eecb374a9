"""Kernels that start while the one before them ends (runtime/waiting_kernels.h): they wait before they touch memory."""

import ctypes
import os

import pytest
import torch

pytestmark = pytest.mark.skipif(os.environ.get("CINN_TEST_DEVICE", "cpu") != "cuda",
                                reason="needs a GPU (CINN_TEST_DEVICE=cuda)")  # fmt: skip

# late(to, from, n): lets the next kernel start, and only some 200 microseconds later writes to[i] = from[i], i < n.
PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry late(.param .u64 to, .param .u64 from, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<6>; .reg .f32 %f;
  griddepcontrol.launch_dependents;
  ld.param.u64 %d0, [to];
  ld.param.u64 %d1, [from];
  ld.param.u32 %r0, [n];
  mov.u64 %d2, %globaltimer;
  add.s64 %d2, %d2, 200000;
WAIT:
  mov.u64 %d3, %globaltimer;
  setp.lt.u64 %p, %d3, %d2;
  @%p bra WAIT;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r3, %r1, %r2, %r3;
  setp.ge.u32 %p, %r3, %r0;
  @%p bra DONE;
  mul.wide.u32 %d4, %r3, 4;
  add.s64 %d5, %d1, %d4;
  add.s64 %d4, %d0, %d4;
  ld.global.f32 %f, [%d5];
  st.global.f32 [%d4], %f;
DONE:
  ret;
}
"""


@pytest.fixture(scope="module")
def late():
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("kernels start early from sm_90 on")
    torch.zeros(1, device="cuda")
    cuda = ctypes.CDLL("libcuda.so.1")
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"late") == 0

    def launch(to, source):
        values = ctypes.c_void_p(to.data_ptr()), ctypes.c_void_p(source.data_ptr()), ctypes.c_uint(to.numel())
        params = (ctypes.c_void_p * 3)(*[ctypes.addressof(v) for v in values])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        blocks = -(-to.numel() // 128)
        assert cuda.cuLaunchKernel(kernel, blocks, 1, 1, 128, 1, 1, 0, stream, params, None) == 0

    return launch


def compiled(f):
    return torch.compile(f, backend="cinn_like", options={"leave_to_framework": False})


def test_reads_wait(late):
    f = compiled(lambda x: x.flip(0) * 2 + 1)
    values = torch.randn(4096)
    x = torch.zeros(4096)
    f(x)
    for _ in range(20):
        x.fill_(float("nan"))
        late(x, values)
        torch.testing.assert_close(f(x), values.flip(0) * 2 + 1)


def test_rows_and_columns_wait(late):
    """Rows in registers, column sums of several kernels, and a product."""
    shape = 32, 128
    functions = [lambda x: torch.softmax(x, 1), lambda x: x.sum(0), lambda x: x @ x.t()]
    for g in functions:
        f = compiled(g)
        values = torch.randn(shape)
        x = torch.zeros(shape)
        f(x)
        for _ in range(5):
            x.fill_(float("nan"))
            late(x, values)
            torch.testing.assert_close(f(x), g(values), rtol=1e-3, atol=1e-4)


def test_writes_wait(late):
    """What a kernel before still reads is not overwritten."""

    def step(x):
        x.mul_(3)

    f = compiled(step)
    f(torch.zeros(4096))
    for _ in range(20):
        x = torch.randn(4096)
        before, out = x.clone(), torch.empty_like(x)
        late(out, x)
        f(x)
        assert torch.equal(out, before)
        assert torch.equal(x, before * 3)


@pytest.mark.parametrize("size", [1 << 10, 1 << 20, 1 << 24])
def test_long_chains(size):
    """Each step reads what other blocks of the one before wrote, in memory that older steps had."""
    f = compiled(lambda x: x.flip(0) + 1)
    x = torch.randint(0, 1000, (size,), dtype=torch.int32)
    y = x
    for i in range(101):
        y = f(y)
        if i % 10 == 9:
            y = y.flip(0).flip(0)
    assert torch.equal(y, x.flip(0) + 101)


def test_captured_into_graphs():
    """Between kernels and copies of the framework, on two streams that meet."""
    f = compiled(lambda x: x.flip(0) + 1)
    x = torch.zeros(1 << 16)
    f(x)

    def steps(x):
        aside = torch.cuda.Stream()
        buffer = torch.empty_like(x)
        y = f(f(x))
        buffer.copy_(y)
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            z = f(f(f(buffer)))
        y = f(y) * 2
        buffer2 = torch.zeros_like(x)
        torch.cuda.current_stream().wait_stream(aside)
        return f(y), f(z), f(buffer2)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, z, w = steps(x)
    for _ in range(20):
        values = torch.randn(1 << 16)
        x.copy_(values)
        graph.replay()
        torch.testing.assert_close(y, (values.flip(0) + 3).mul(2).flip(0) + 1)
        torch.testing.assert_close(z, values + 6)
        assert torch.equal(w, torch.ones_like(values))
