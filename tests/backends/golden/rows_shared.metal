#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
typedef uint __attribute__((may_alias)) cinn_uint;
static inline float cinn_max_f32(float a, float b) { return a > b || a != a ? a : b; }
static inline float cinn_erf_f32(float x) {
  const float a = fabs(x), b = fmin(a, 4.0f), z = x * x;
  float s = -0.000599940424f, q = 0.000282679161f;
  s = fma(s, z, 0.00499483012f), q = fma(q, b, -0.00439044833f);
  s = fma(s, z, -0.0267677195f), q = fma(q, b, 0.0320667177f);
  s = fma(s, z, 0.112818457f), q = fma(q, b, -0.149941698f);
  s = fma(s, z, -0.376124978f), q = fma(q, b, -0.919259548f);
  s = fma(s, z, 0.128379151f), q = fma(q, b, -1.62689209f);
  q = fma(q, b, -0.000282287132f);
  return a >= 0.92f ? copysign(1.0f - exp2(q), x) : fma(s, x, x);
}
static inline float cinn_f32_f16(ushort a) { return (float)as_type<half>(a); }
static inline ushort cinn_f16_f32(float a) { return as_type<ushort>((half)a); }
static inline uint cinn_pack_f16(float a, float b) { return (uint)cinn_f16_f32(a) | (uint)cinn_f16_f32(b) << 16; }

[[kernel, max_total_threads_per_threadgroup(64)]] void rows(device const ushort* p0 [[buffer(0)]], device ushort* p1 [[buffer(1)]], constant long& n0 [[buffer(2)]], uint3 cinn_block [[threadgroup_position_in_grid]], uint3 cinn_thread [[thread_position_in_threadgroup]]) {
  alignas(16) threadgroup float s0[64];
  alignas(16) threadgroup float s1[64];
  const long i0 = cinn_block.x;
  float r0[2];
  const long i1 = cinn_thread.x;
  const long t0 = i0 * 128L + i1 * 2L;
  const cinn_uint t1 = *(device const cinn_uint*)(p0 + t0);
  r0[0L] = cinn_f32_f16((ushort)t1);
  r0[1L] = cinn_f32_f16((ushort)(t1 >> 16));
  const long i2 = cinn_thread.x;
  s0[i2] = cinn_erf_f32(cinn_max_f32(r0[0L], r0[1L]));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (long i3 = 0; i3 < n0; ++i3) {
    const long i4 = cinn_thread.x;
    s1[i4] = s0[63L - i4];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const long i5 = cinn_thread.x;
    r0[0L] = r0[0L] + s1[i5];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  const long i6 = cinn_thread.x;
  const uint t2 = cinn_pack_f16(r0[0L], r0[1L]);
  const long t3 = i0 * 128L + i6 * 2L;
  *(device cinn_uint*)(p1 + t3) = (t2);
}
