static __device__ __forceinline__ float cinn_max_f32(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a > b || a != a ? a : b;
#endif
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
static __device__ __forceinline__ float cinn_f32_bits(unsigned int a) { return __uint_as_float(a); }

extern "C" __global__ void __launch_bounds__(256) softmax(const unsigned short* __restrict__ p0, unsigned short* __restrict__ p1, long long n0) {
  const long long i0 = blockIdx.x;
  __shared__ __align__(16) float s0[8];
  float r0[16];
  float r1[1];
  float r2[1];
  const long long i1 = threadIdx.x;
  r1[0LL] = cinn_f32_bits(0xff800000u);
#pragma unroll
  for (long long i2 = 0; i2 < 2LL; ++i2) {
    const long long t0 = i0 * 4096LL + (i2 * 256LL + i1) * 8LL;
    const uint4 t1 = cinn_load16(p0 + t0);
    const long long t2 = i2 * 8LL;
    r0[t2] = cinn_f32_bf16((unsigned short)t1.x);
    r0[t2 + 1LL] = cinn_f32_bf16((unsigned short)(t1.x >> 16));
    r0[t2 + 2LL] = cinn_f32_bf16((unsigned short)t1.y);
    r0[t2 + 3LL] = cinn_f32_bf16((unsigned short)(t1.y >> 16));
    r0[t2 + 4LL] = cinn_f32_bf16((unsigned short)t1.z);
    r0[t2 + 5LL] = cinn_f32_bf16((unsigned short)(t1.z >> 16));
    r0[t2 + 6LL] = cinn_f32_bf16((unsigned short)t1.w);
    r0[t2 + 7LL] = cinn_f32_bf16((unsigned short)(t1.w >> 16));
    const long long t3 = i2 * 8LL;
    r1[0LL] = cinn_max_f32(r1[0LL], cinn_max_f32(cinn_max_f32(cinn_max_f32(r0[t3], r0[t3 + 1LL]), cinn_max_f32(r0[t3 + 2LL], r0[t3 + 3LL])), cinn_max_f32(cinn_max_f32(r0[t3 + 4LL], r0[t3 + 5LL]), cinn_max_f32(r0[t3 + 6LL], r0[t3 + 7LL]))));
  }
  const float t4 = r1[0LL];
  r1[0LL] = cinn_max_f32(t4, __shfl_xor_sync(0xffffffffu, t4, 16));
  const float t5 = r1[0LL];
  r1[0LL] = cinn_max_f32(t5, __shfl_xor_sync(0xffffffffu, t5, 8));
  const float t6 = r1[0LL];
  r1[0LL] = cinn_max_f32(t6, __shfl_xor_sync(0xffffffffu, t6, 4));
  const float t7 = r1[0LL];
  r1[0LL] = cinn_max_f32(t7, __shfl_xor_sync(0xffffffffu, t7, 2));
  const float t8 = r1[0LL];
  r1[0LL] = cinn_max_f32(t8, __shfl_xor_sync(0xffffffffu, t8, 1));
  if (i1 % 32LL == 0LL) {
    s0[i1 / 32LL] = r1[0LL];
  }
  __syncthreads();
  const long long i3 = threadIdx.x;
  r1[0LL] = s0[i3 % 8LL];
  const float t9 = r1[0LL];
  r1[0LL] = cinn_max_f32(t9, __shfl_xor_sync(0xffffffffu, t9, 4));
  const float t10 = r1[0LL];
  r1[0LL] = cinn_max_f32(t10, __shfl_xor_sync(0xffffffffu, t10, 2));
  const float t11 = r1[0LL];
  r1[0LL] = cinn_max_f32(t11, __shfl_xor_sync(0xffffffffu, t11, 1));
  r2[0LL] = 0.0f;
#pragma unroll
  for (long long i4 = 0; i4 < 2LL; ++i4) {
    const long long t12 = i4 * 8LL;
    const float t13 = r1[0LL];
    const float v0_0 = expf(r0[t12] - t13);
    const float v0_1 = expf(r0[t12 + 1LL] - t13);
    const float v0_2 = expf(r0[t12 + 2LL] - t13);
    const float v0_3 = expf(r0[t12 + 3LL] - t13);
    const float v0_4 = expf(r0[t12 + 4LL] - t13);
    const float v0_5 = expf(r0[t12 + 5LL] - t13);
    const float v0_6 = expf(r0[t12 + 6LL] - t13);
    const float v0_7 = expf(r0[t12 + 7LL] - t13);
    const long long t14 = i4 * 8LL;
    r0[t14] = v0_0;
    r0[t14 + 1LL] = v0_1;
    r0[t14 + 2LL] = v0_2;
    r0[t14 + 3LL] = v0_3;
    r0[t14 + 4LL] = v0_4;
    r0[t14 + 5LL] = v0_5;
    r0[t14 + 6LL] = v0_6;
    r0[t14 + 7LL] = v0_7;
    r2[0LL] = r2[0LL] + (v0_0 + v0_1 + (v0_2 + v0_3) + (v0_4 + v0_5 + (v0_6 + v0_7)));
  }
  const float t15 = r2[0LL];
  r2[0LL] = t15 + __shfl_xor_sync(0xffffffffu, t15, 16);
  const float t16 = r2[0LL];
  r2[0LL] = t16 + __shfl_xor_sync(0xffffffffu, t16, 8);
  const float t17 = r2[0LL];
  r2[0LL] = t17 + __shfl_xor_sync(0xffffffffu, t17, 4);
  const float t18 = r2[0LL];
  r2[0LL] = t18 + __shfl_xor_sync(0xffffffffu, t18, 2);
  const float t19 = r2[0LL];
  r2[0LL] = t19 + __shfl_xor_sync(0xffffffffu, t19, 1);
  __syncthreads();
  const long long i5 = threadIdx.x;
  if (i5 % 32LL == 0LL) {
    s0[i5 / 32LL] = r2[0LL];
  }
  __syncthreads();
  const long long i6 = threadIdx.x;
  r2[0LL] = s0[i6 % 8LL];
  const float t20 = r2[0LL];
  r2[0LL] = t20 + __shfl_xor_sync(0xffffffffu, t20, 4);
  const float t21 = r2[0LL];
  r2[0LL] = t21 + __shfl_xor_sync(0xffffffffu, t21, 2);
  const float t22 = r2[0LL];
  r2[0LL] = t22 + __shfl_xor_sync(0xffffffffu, t22, 1);
  const float v1 = 1.0f / r2[0LL];
#pragma unroll
  for (long long i7 = 0; i7 < 2LL; ++i7) {
    const long long t23 = i7 * 8LL;
    const unsigned int t24 = cinn_pack_bf16(r0[t23] * v1, r0[t23 + 1LL] * v1);
    const unsigned int t25 = cinn_pack_bf16(r0[t23 + 2LL] * v1, r0[t23 + 3LL] * v1);
    const unsigned int t26 = cinn_pack_bf16(r0[t23 + 4LL] * v1, r0[t23 + 5LL] * v1);
    const unsigned int t27 = cinn_pack_bf16(r0[t23 + 6LL] * v1, r0[t23 + 7LL] * v1);
    const long long t28 = i0 * 4096LL + (i7 * 256LL + i6) * 8LL;
    *(uint4*)(p1 + t28) = make_uint4(t24, t25, t26, t27);
  }
}
