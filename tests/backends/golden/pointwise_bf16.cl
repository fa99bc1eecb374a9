#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
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
static inline float cinn_f32_bf16(ushort a) { return as_float((uint)a << 16); }
static inline ushort cinn_bf16_f32(float a) {
  const uint b = as_uint(a);
  return a != a ? 0x7fc0 : (ushort)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
static inline uint cinn_pack_bf16(float a, float b) { return (uint)cinn_bf16_f32(a) | (uint)cinn_bf16_f32(b) << 16; }

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void pointwise(__global const ushort* restrict p0, long o0, __global const ushort* restrict p1, long o1, __global ushort* restrict p2, long o2, long n0) {
  p0 = (__global const ushort*)((__global const uchar*)p0 + o0);
  p1 = (__global const ushort*)((__global const uchar*)p1 + o1);
  p2 = (__global ushort*)((__global uchar*)p2 + o2);
  const long i0 = get_group_id(0);
  const long i1 = get_local_id(0);
#pragma unroll
  for (long i2 = 0; i2 < 2L; ++i2) {
    const long v0 = (i2 * 256L + i1) * 8L;
    const long t0 = i0 * 4096L + v0;
    const uint4 t1 = *(__global const uint4*)(p0 + t0);
    const uint4 t2 = *(__global const uint4*)(p1 + v0);
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
    *(__global uint4*)(p2 + t0) = (uint4)(t11, t12, t13, t14);
  }
}
