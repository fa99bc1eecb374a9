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
static __device__ __forceinline__ void cinn_store16(void* p, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
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
  const float t5 = __shfl_xor_sync(0xffffffffu, t4, 16);
  r1[0LL] = cinn_max_f32(t4, t5);
  const float t6 = r1[0LL];
  const float t7 = __shfl_xor_sync(0xffffffffu, t6, 8);
  r1[0LL] = cinn_max_f32(t6, t7);
  const float t8 = r1[0LL];
  const float t9 = __shfl_xor_sync(0xffffffffu, t8, 4);
  r1[0LL] = cinn_max_f32(t8, t9);
  const float t10 = r1[0LL];
  const float t11 = __shfl_xor_sync(0xffffffffu, t10, 2);
  r1[0LL] = cinn_max_f32(t10, t11);
  const float t12 = r1[0LL];
  const float t13 = __shfl_xor_sync(0xffffffffu, t12, 1);
  r1[0LL] = cinn_max_f32(t12, t13);
  if (i1 % 32LL == 0LL) {
    s0[i1 / 32LL] = r1[0LL];
  }
  __syncthreads();
  const long long i3 = threadIdx.x;
  r1[0LL] = s0[i3 % 8LL];
  const float t14 = r1[0LL];
  const float t15 = __shfl_xor_sync(0xffffffffu, t14, 4);
  r1[0LL] = cinn_max_f32(t14, t15);
  const float t16 = r1[0LL];
  const float t17 = __shfl_xor_sync(0xffffffffu, t16, 2);
  r1[0LL] = cinn_max_f32(t16, t17);
  const float t18 = r1[0LL];
  const float t19 = __shfl_xor_sync(0xffffffffu, t18, 1);
  r1[0LL] = cinn_max_f32(t18, t19);
  r2[0LL] = 0.0f;
#pragma unroll
  for (long long i4 = 0; i4 < 2LL; ++i4) {
    const long long t20 = i4 * 8LL;
    const float t21 = r1[0LL];
    const float v0_0 = expf(r0[t20] - t21);
    const float v0_1 = expf(r0[t20 + 1LL] - t21);
    const float v0_2 = expf(r0[t20 + 2LL] - t21);
    const float v0_3 = expf(r0[t20 + 3LL] - t21);
    const float v0_4 = expf(r0[t20 + 4LL] - t21);
    const float v0_5 = expf(r0[t20 + 5LL] - t21);
    const float v0_6 = expf(r0[t20 + 6LL] - t21);
    const float v0_7 = expf(r0[t20 + 7LL] - t21);
    const long long t22 = i4 * 8LL;
    r0[t22] = v0_0;
    r0[t22 + 1LL] = v0_1;
    r0[t22 + 2LL] = v0_2;
    r0[t22 + 3LL] = v0_3;
    r0[t22 + 4LL] = v0_4;
    r0[t22 + 5LL] = v0_5;
    r0[t22 + 6LL] = v0_6;
    r0[t22 + 7LL] = v0_7;
    r2[0LL] = r2[0LL] + (v0_0 + v0_1 + (v0_2 + v0_3) + (v0_4 + v0_5 + (v0_6 + v0_7)));
  }
  const float t23 = r2[0LL];
  const float t24 = __shfl_xor_sync(0xffffffffu, t23, 16);
  r2[0LL] = t23 + t24;
  const float t25 = r2[0LL];
  const float t26 = __shfl_xor_sync(0xffffffffu, t25, 8);
  r2[0LL] = t25 + t26;
  const float t27 = r2[0LL];
  const float t28 = __shfl_xor_sync(0xffffffffu, t27, 4);
  r2[0LL] = t27 + t28;
  const float t29 = r2[0LL];
  const float t30 = __shfl_xor_sync(0xffffffffu, t29, 2);
  r2[0LL] = t29 + t30;
  const float t31 = r2[0LL];
  const float t32 = __shfl_xor_sync(0xffffffffu, t31, 1);
  r2[0LL] = t31 + t32;
  __syncthreads();
  const long long i5 = threadIdx.x;
  if (i5 % 32LL == 0LL) {
    s0[i5 / 32LL] = r2[0LL];
  }
  __syncthreads();
  const long long i6 = threadIdx.x;
  r2[0LL] = s0[i6 % 8LL];
  const float t33 = r2[0LL];
  const float t34 = __shfl_xor_sync(0xffffffffu, t33, 4);
  r2[0LL] = t33 + t34;
  const float t35 = r2[0LL];
  const float t36 = __shfl_xor_sync(0xffffffffu, t35, 2);
  r2[0LL] = t35 + t36;
  const float t37 = r2[0LL];
  const float t38 = __shfl_xor_sync(0xffffffffu, t37, 1);
  r2[0LL] = t37 + t38;
  const float v1 = 1.0f / r2[0LL];
#pragma unroll
  for (long long i7 = 0; i7 < 2LL; ++i7) {
    const long long t39 = i7 * 8LL;
    const unsigned int t40 = cinn_pack_bf16(r0[t39] * v1, r0[t39 + 1LL] * v1);
    const unsigned int t41 = cinn_pack_bf16(r0[t39 + 2LL] * v1, r0[t39 + 3LL] * v1);
    const unsigned int t42 = cinn_pack_bf16(r0[t39 + 4LL] * v1, r0[t39 + 5LL] * v1);
    const unsigned int t43 = cinn_pack_bf16(r0[t39 + 6LL] * v1, r0[t39 + 7LL] * v1);
    const long long t44 = i0 * 4096LL + (i7 * 256LL + i6) * 8LL;
    cinn_store16(p1 + t44, make_uint4(t40, t41, t42, t43));
  }
}
