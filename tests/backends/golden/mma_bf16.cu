static __device__ __forceinline__ uint2 cinn_load8(const void* p) {
  uint2 r;
  asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(r.x), "=r"(r.y) : "l"(p));
  return r;
}
static __device__ __forceinline__ void cinn_store8(void* p, uint2 v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
static __device__ __forceinline__ unsigned int cinn_shared_address(const void* p) {
  unsigned int r;
  asm("{.reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a;}" : "=r"(r) : "l"(p));
  return r;
}
static __device__ __forceinline__ uint4 cinn_ldmatrix(unsigned int p) {
  uint4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(p) : "memory");
  return r;
}
static __device__ __forceinline__ uint4 cinn_ldmatrix_trans(unsigned int p) {
  uint4 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(p) : "memory");
  return r;
}
static __device__ __forceinline__ void cinn_mma_bf16(float& c, float& d, float& e, float& f, uint4 a, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c), "+f"(d), "+f"(e), "+f"(f)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
static __device__ __forceinline__ unsigned int cinn_bits_f32(float a) { return __float_as_uint(a); }

extern "C" __global__ void __launch_bounds__(32) product_kernel(const unsigned short* __restrict__ p0, const unsigned short* __restrict__ p1, float* __restrict__ p2) {
  const int i0 = blockIdx.x;
  __shared__ __align__(16) unsigned short s0[512];
  const int i1 = threadIdx.y;
  const int i2 = threadIdx.x;
  for (int i3 = 0; i3 < 4; ++i3) {
    const int t0 = i3 * 128 + i1 * 16 + i2 * 4;
    const uint2 t1 = cinn_load8(p0 + t0);
    const unsigned int t2 = (unsigned int)(unsigned short)(unsigned short)t1.x | (unsigned int)(unsigned short)(unsigned short)(t1.x >> 16) << 16;
    const unsigned int t3 = (unsigned int)(unsigned short)(unsigned short)t1.y | (unsigned int)(unsigned short)(unsigned short)(t1.y >> 16) << 16;
    *(uint2*)(s0 + t0) = make_uint2(t2, t3);
  }
  __shared__ __align__(16) unsigned short s1[256];
  const int i4 = threadIdx.y;
  const int i5 = threadIdx.x;
  for (int i6 = 0; i6 < 2; ++i6) {
    const int t4 = i6 * 128 + i4 * 16 + i5 * 4;
    const uint2 t5 = cinn_load8(p1 + t4);
    const unsigned int t6 = (unsigned int)(unsigned short)(unsigned short)t5.x | (unsigned int)(unsigned short)(unsigned short)(t5.x >> 16) << 16;
    const unsigned int t7 = (unsigned int)(unsigned short)(unsigned short)t5.y | (unsigned int)(unsigned short)(unsigned short)(t5.y >> 16) << 16;
    *(uint2*)(s1 + t4) = make_uint2(t6, t7);
  }
  float r0[16];
  const int i7 = threadIdx.y;
  const int i8 = threadIdx.x;
#pragma unroll
  for (int i9 = 0; i9 < 2; ++i9) {
#pragma unroll
    for (int i10 = 0; i10 < 2; ++i10) {
#pragma unroll
      for (int i11 = 0; i11 < 2; ++i11) {
#pragma unroll
        for (int i12 = 0; i12 < 2; ++i12) {
          r0[i9 * 8 + i11 * 4 + i10 * 2 + i12] = 0.0f;
        }
      }
    }
  }
  __syncthreads();
  const int i13 = threadIdx.y;
  const int i14 = threadIdx.x;
  const int l0 = threadIdx.y * 4 + threadIdx.x;
  const unsigned int at1 = cinn_shared_address(s0) + ((0) + ((l0 & 15)) * 16 + ((l0 >> 4) * 8) * 1) * 2;
  const uint4 a0_0 = cinn_ldmatrix(at1 + 0);
  const uint4 a0_1 = cinn_ldmatrix(at1 + 512);
  const unsigned int at2 = cinn_shared_address(s1) + ((0) + ((l0 >> 4) * 8) * 1 + ((l0 & 15)) * 16) * 2;
  const uint4 b0_0 = cinn_ldmatrix_trans(at2 + 0);
  cinn_mma_bf16(r0[0], r0[1], r0[4], r0[5], a0_0, b0_0.x, b0_0.y);
  cinn_mma_bf16(r0[8], r0[9], r0[12], r0[13], a0_1, b0_0.x, b0_0.y);
  cinn_mma_bf16(r0[2], r0[3], r0[6], r0[7], a0_0, b0_0.z, b0_0.w);
  cinn_mma_bf16(r0[10], r0[11], r0[14], r0[15], a0_1, b0_0.z, b0_0.w);
  const int i15 = threadIdx.y;
  const int i16 = threadIdx.x;
#pragma unroll
  for (int i17 = 0; i17 < 2; ++i17) {
#pragma unroll
    for (int i18 = 0; i18 < 2; ++i18) {
#pragma unroll
      for (int i19 = 0; i19 < 2; ++i19) {
        const int t8 = i17 * 8 + i18 * 4 + i19 * 2;
        const unsigned int t9 = cinn_bits_f32(r0[t8]);
        const unsigned int t10 = cinn_bits_f32(r0[t8 + 1]);
        const int t11 = i17 * 256 + i18 * 128 + i15 * 16 + i19 * 8 + i16 * 2;
        cinn_store8(p2 + t11, make_uint2(t9, t10));
      }
    }
  }
}
