#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef cl_intel_subgroups
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#endif

__kernel __attribute__((reqd_work_group_size(128, 1, 1), intel_reqd_sub_group_size(16))) void rows(__global const float* restrict p0, long o0, __global float* restrict p1, long o1, long n0) {
  p0 = (__global const float*)((__global const uchar*)p0 + o0);
  p1 = (__global float*)((__global uchar*)p1 + o1);
  __local __attribute__((aligned(16))) float s0[16];
  const long i0 = get_group_id(0);
  float r0[1];
  const long i1 = (get_sub_group_id() * 16 + get_sub_group_local_id()) / 64;
  const long i2 = (get_sub_group_id() * 16 + get_sub_group_local_id()) / 32 % 2;
  const long i3 = (get_sub_group_id() * 16 + get_sub_group_local_id()) % 32;
  r0[0L] = p0[i0 * 128L + i1 * 64L + i2 * 32L + i3];
  const float t0 = r0[0L];
  const float t1 = intel_sub_group_shuffle_xor(t0, 8);
  r0[0L] = t0 + t1;
  const float t2 = r0[0L];
  const float t3 = intel_sub_group_shuffle_xor(t2, 4);
  r0[0L] = t2 + t3;
  const float t4 = r0[0L];
  const float t5 = intel_sub_group_shuffle_xor(t4, 2);
  r0[0L] = t4 + t5;
  const float t6 = r0[0L];
  const float t7 = intel_sub_group_shuffle_xor(t6, 1);
  r0[0L] = t6 + t7;
  if (i3 % 16L == 0L) {
    s0[i1 * 4L + i2 * 2L + i3 / 16L] = r0[0L];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const long i4 = (get_sub_group_id() * 16 + get_sub_group_local_id()) / 64;
  const long i5 = (get_sub_group_id() * 16 + get_sub_group_local_id()) / 32 % 2;
  const long i6 = (get_sub_group_id() * 16 + get_sub_group_local_id()) % 32;
  if (i6 == 0L) {
    const long t8 = i4 * 4L + i5 * 2L;
    p1[i0 * 4L + i4 * 2L + i5] = s0[t8] + s0[t8 + 1L];
  }
}

__kernel __attribute__((reqd_work_group_size(8, 1, 1), intel_reqd_sub_group_size(16))) void bytes(__global const char* restrict p0, long o0, __global char* restrict p1, long o1, long n0) {
  p0 = (__global const char*)((__global const uchar*)p0 + o0);
  p1 = (__global char*)((__global uchar*)p1 + o1);
  const long i0 = get_sub_group_id() * 16 + get_sub_group_local_id();
  const char t0 = (char)intel_sub_group_shuffle_xor((int)p0[i0], 4);
  p1[i0] = t0;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void alone(__global const float* restrict p0, long o0, __global float* restrict p1, long o1, long n0) {
  p0 = (__global const float*)((__global const uchar*)p0 + o0);
  p1 = (__global float*)((__global uchar*)p1 + o1);
  const long i0 = get_local_id(0);
  p1[i0] = p0[i0];
}
