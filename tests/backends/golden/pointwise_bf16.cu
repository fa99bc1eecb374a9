static __device__ __forceinline__ float cinn_exp2_f32(float a) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
static __device__ __forceinline__ float cinn_pick_f32(float a, float limit, float at_least, float below) {
  float r;
  asm("{.reg .pred p; setp.ge.f32 p, %1, %2; selp.f32 %0, %3, %4, p;}"
      : "=f"(r) : "f"(a), "f"(limit), "f"(at_least), "f"(below));
  return r;
}
static __device__ __forceinline__ float cinn_erf_f32(float x) {
  const float a = fabsf(x), b = fminf(a, 4.0f), z = x * x;
  float s = -0.000599940424f, q = 0.000282679161f;
  s = fmaf(s, z, 0.00499483012f), q = fmaf(q, b, -0.00439044833f);
  s = fmaf(s, z, -0.0267677195f), q = fmaf(q, b, 0.0320667177f);
  s = fmaf(s, z, 0.112818457f), q = fmaf(q, b, -0.149941698f);
  s = fmaf(s, z, -0.376124978f), q = fmaf(q, b, -0.919259548f);
  s = fmaf(s, z, 0.128379151f), q = fmaf(q, b, -1.62689209f);
  q = fmaf(q, b, -0.000282287132f);
  const float large = copysignf(1.0f - cinn_exp2_f32(q), x);
  return cinn_pick_f32(a, 0.92f, large, fmaf(s, x, x));
}
static __device__ __forceinline__ float cinn_f32_bf16(unsigned short a) { return __uint_as_float((unsigned int)a << 16); }
static __device__ __forceinline__ unsigned short cinn_bf16_f32(float a) {
#if __CUDA_ARCH__ >= 800
  unsigned short r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(a));
  return r;
#else
  const unsigned int b = __float_as_uint(a);
  return a != a ? 0x7fff : (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
#endif
}
static __device__ __forceinline__ unsigned int cinn_pack_bf16(float a, float b) {
#if __CUDA_ARCH__ >= 800
  unsigned int r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
#else
  return (unsigned int)cinn_bf16_f32(a) | (unsigned int)cinn_bf16_f32(b) << 16;
#endif
}
static __device__ __forceinline__ uint4 cinn_load16(const void* p) {
  uint4 r;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p));
  return r;
}
static __device__ __forceinline__ void cinn_store16(void* p, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

extern "C" __global__ void __launch_bounds__(256) pointwise(const unsigned short* __restrict__ p0, const unsigned short* __restrict__ p1, unsigned short* __restrict__ p2, long long n0) {
  const long long i0 = blockIdx.x;
  const long long i1 = threadIdx.x;
#pragma unroll
  for (long long i2 = 0; i2 < 2LL; ++i2) {
    const long long v0 = (i2 * 256LL + i1) * 8LL;
    const long long t0 = i0 * 4096LL + v0;
    const uint4 t1 = cinn_load16(p0 + t0);
    const uint4 t2 = *(const uint4*)(p1 + v0);
    const float t3 = cinn_f32_bf16((unsigned short)t1.x) + cinn_f32_bf16((unsigned short)t2.x);
    const float t4 = cinn_f32_bf16((unsigned short)(t1.x >> 16)) + cinn_f32_bf16((unsigned short)(t2.x >> 16));
    const float t5 = cinn_f32_bf16((unsigned short)t1.y) + cinn_f32_bf16((unsigned short)t2.y);
    const float t6 = cinn_f32_bf16((unsigned short)(t1.y >> 16)) + cinn_f32_bf16((unsigned short)(t2.y >> 16));
    const float t7 = cinn_f32_bf16((unsigned short)t1.z) + cinn_f32_bf16((unsigned short)t2.z);
    const float t8 = cinn_f32_bf16((unsigned short)(t1.z >> 16)) + cinn_f32_bf16((unsigned short)(t2.z >> 16));
    const float t9 = cinn_f32_bf16((unsigned short)t1.w) + cinn_f32_bf16((unsigned short)t2.w);
    const float t10 = cinn_f32_bf16((unsigned short)(t1.w >> 16)) + cinn_f32_bf16((unsigned short)(t2.w >> 16));
    const unsigned int t11 = cinn_pack_bf16(t3 * 0.5f * (1.0f + cinn_erf_f32(t3 * 0.70710677f)), t4 * 0.5f * (1.0f + cinn_erf_f32(t4 * 0.70710677f)));
    const unsigned int t12 = cinn_pack_bf16(t5 * 0.5f * (1.0f + cinn_erf_f32(t5 * 0.70710677f)), t6 * 0.5f * (1.0f + cinn_erf_f32(t6 * 0.70710677f)));
    const unsigned int t13 = cinn_pack_bf16(t7 * 0.5f * (1.0f + cinn_erf_f32(t7 * 0.70710677f)), t8 * 0.5f * (1.0f + cinn_erf_f32(t8 * 0.70710677f)));
    const unsigned int t14 = cinn_pack_bf16(t9 * 0.5f * (1.0f + cinn_erf_f32(t9 * 0.70710677f)), t10 * 0.5f * (1.0f + cinn_erf_f32(t10 * 0.70710677f)));
    cinn_store16(p2 + t0, make_uint4(t11, t12, t13, t14));
  }
}
