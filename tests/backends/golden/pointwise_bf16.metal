#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
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
static inline float cinn_f32_bf16(ushort a) { return as_type<float>((uint)a << 16); }
static inline ushort cinn_bf16_f32(float a) {
  const uint b = as_type<uint>(a);
  return a != a ? 0x7fc0 : (ushort)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
static inline uint cinn_pack_bf16(float a, float b) { return (uint)cinn_bf16_f32(a) | (uint)cinn_bf16_f32(b) << 16; }

[[kernel, max_total_threads_per_threadgroup(256)]] void pointwise(device const ushort* p0 [[buffer(0)]], device const ushort* p1 [[buffer(1)]], device ushort* p2 [[buffer(2)]], constant long& n0 [[buffer(3)]], uint3 cinn_block [[threadgroup_position_in_grid]], uint3 cinn_thread [[thread_position_in_threadgroup]]) {
  const long i0 = cinn_block.x;
  const long i1 = cinn_thread.x;
#pragma unroll
  for (long i2 = 0; i2 < 2L; ++i2) {
    const long v0 = (i2 * 256L + i1) * 8L;
    const long t0 = i0 * 4096L + v0;
    const uint4 t1 = *(device const uint4*)(p0 + t0);
    const uint4 t2 = *(device const uint4*)(p1 + v0);
    const float t3 = cinn_f32_bf16((ushort)t1.x) + cinn_f32_bf16((ushort)t2.x);
    const float t4 = cinn_f32_bf16((ushort)(t1.x >> 16)) + cinn_f32_bf16((ushort)(t2.x >> 16));
    const float t5 = cinn_f32_bf16((ushort)t1.y) + cinn_f32_bf16((ushort)t2.y);
    const float t6 = cinn_f32_bf16((ushort)(t1.y >> 16)) + cinn_f32_bf16((ushort)(t2.y >> 16));
    const float t7 = cinn_f32_bf16((ushort)t1.z) + cinn_f32_bf16((ushort)t2.z);
    const float t8 = cinn_f32_bf16((ushort)(t1.z >> 16)) + cinn_f32_bf16((ushort)(t2.z >> 16));
    const float t9 = cinn_f32_bf16((ushort)t1.w) + cinn_f32_bf16((ushort)t2.w);
    const float t10 = cinn_f32_bf16((ushort)(t1.w >> 16)) + cinn_f32_bf16((ushort)(t2.w >> 16));
    const uint t11 = cinn_pack_bf16(t3 * 0.5f * (1.0f + cinn_erf_f32(t3 * 0.70710677f)), t4 * 0.5f * (1.0f + cinn_erf_f32(t4 * 0.70710677f)));
    const uint t12 = cinn_pack_bf16(t5 * 0.5f * (1.0f + cinn_erf_f32(t5 * 0.70710677f)), t6 * 0.5f * (1.0f + cinn_erf_f32(t6 * 0.70710677f)));
    const uint t13 = cinn_pack_bf16(t7 * 0.5f * (1.0f + cinn_erf_f32(t7 * 0.70710677f)), t8 * 0.5f * (1.0f + cinn_erf_f32(t8 * 0.70710677f)));
    const uint t14 = cinn_pack_bf16(t9 * 0.5f * (1.0f + cinn_erf_f32(t9 * 0.70710677f)), t10 * 0.5f * (1.0f + cinn_erf_f32(t10 * 0.70710677f)));
    *(device uint4*)(p2 + t0) = uint4(t11, t12, t13, t14);
  }
}
