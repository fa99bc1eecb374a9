// CUDA C++ as NVRTC takes it, without headers. Halves are kept as bits and computed with as f32.
#include <charconv>
#include <iterator>

#include "backends/dialects.h"
#include "runtime/waiting_kernels.h"

namespace cinn_like::backends {
namespace {
using ir::ExprOp;

constexpr DTypeSet kF32 = SetOf(DType::kF32), kF64 = SetOf(DType::kF64), kFloats = kF32 | kF64;
constexpr DTypeSet kHalves = SetOf(DType::kF16) | SetOf(DType::kBF16);
constexpr DTypeSet kShuffled =
    SetOf(DType::kI32) | SetOf(DType::kU32) | SetOf(DType::kI64) | SetOf(DType::kU64) | kFloats;
constexpr DTypeSet kNarrow =
    SetOf(DType::kBool) | SetOf(DType::kI8) | SetOf(DType::kI16) | SetOf(DType::kU8) | SetOf(DType::kU16) | kHalves;

constexpr std::array<std::string_view, kNumDTypes> kValueTypes = {"bool",
                                                                  "signed char",
                                                                  "short",
                                                                  "int",
                                                                  "long long",
                                                                  "unsigned char",
                                                                  "unsigned short",
                                                                  "unsigned int",
                                                                  "unsigned long long",
                                                                  "unsigned short",
                                                                  "unsigned short",
                                                                  "float",
                                                                  "double"};
constexpr std::array<std::string_view, kNumDTypes> kMemoryTypes = {"unsigned char",
                                                                   "signed char",
                                                                   "short",
                                                                   "int",
                                                                   "long long",
                                                                   "unsigned char",
                                                                   "unsigned short",
                                                                   "unsigned int",
                                                                   "unsigned long long",
                                                                   "unsigned short",
                                                                   "unsigned short",
                                                                   "float",
                                                                   "double"};

// What does not fit becomes what the device's conversions make of it, as in eager PyTorch: they saturate; NaN is 0 in
// 32 bits and the lowest integer in 64.
constexpr Helper kHelpers[] = {
    {"cinn_prefetch", 0,
     "$F void cinn_prefetch(const void* p) {\n"
     "#ifdef __CUDA_ARCH__\n"
     "  asm volatile(\"prefetch.global.L2 [%0];\" : : \"l\"(__cvta_generic_to_global(p)));\n"
     "#endif\n"
     "}\n"},
    {"cinn_i32_$t", kFloats, "$F int cinn_i32_$t($T a) { return (int)a; }\n"},
    {"cinn_i64_$t", kFloats, "$F long long cinn_i64_$t($T a) { return (long long)a; }\n"},
    {"cinn_u16_$t", kFloats, "$F unsigned short cinn_u16_$t($T a) { return (unsigned short)a; }\n"},
    {"cinn_u32_$t", kFloats, "$F unsigned int cinn_u32_$t($T a) { return (unsigned int)a; }\n"},
    {"cinn_u64_$t", kFloats, "$F unsigned long long cinn_u64_$t($T a) { return (unsigned long long)a; }\n"},
    {"cinn_min_f32", 0,
     "$F float cinn_min_f32(float a, float b) {\n"
     "#if __CUDA_ARCH__ >= 800\n"
     "  float r;\n"
     "  asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b));\n"
     "  return r;\n"
     "#else\n"
     "  return a < b || a != a ? a : b;\n"
     "#endif\n"
     "}\n"},
    {"cinn_max_f32", 0,
     "$F float cinn_max_f32(float a, float b) {\n"
     "#if __CUDA_ARCH__ >= 800\n"
     "  float r;\n"
     "  asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b));\n"
     "  return r;\n"
     "#else\n"
     "  return a > b || a != a ? a : b;\n"
     "#endif\n"
     "}\n"},
    {"cinn_exp2_f32", 0,
     "$F float cinn_exp2_f32(float a) {\n"
     "  float r;\n"
     "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(a));\n"
     "  return r;\n"
     "}\n"},
    {"cinn_rcp_f32", 0,
     "$F float cinn_rcp_f32(float a) {\n"
     "  float r;\n"
     "  asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(a));\n"
     "  return r;\n"
     "}\n"},
    // Takes one of two computed values: a ?: may become a branch around one of them, which loads don't move across.
    {"cinn_pick_f32", 0,
     "$F float cinn_pick_f32(float a, float limit, float at_least, float below) {\n"
     "  float r;\n"
     "  asm(\"{.reg .pred p; setp.ge.f32 p, %1, %2; selp.f32 %0, %3, %4, p;}\"\n"
     "      : \"=f\"(r) : \"f\"(a), \"f\"(limit), \"f\"(at_least), \"f\"(below));\n"
     "  return r;\n"
     "}\n"},
    // Near 0 a polynomial in x^2; else 1 - 2^p(|x|), where p fits log2(erfc).
    {"cinn_erf_f32", 0,
     "$F float cinn_erf_f32(float x) {\n"
     "  const float a = fabsf(x), b = fminf(a, 4.0f), z = x * x;\n"
     "  float s = -0.000599940424f, q = 0.000282679161f;\n"
     "  s = fmaf(s, z, 0.00499483012f), q = fmaf(q, b, -0.00439044833f);\n"
     "  s = fmaf(s, z, -0.0267677195f), q = fmaf(q, b, 0.0320667177f);\n"
     "  s = fmaf(s, z, 0.112818457f), q = fmaf(q, b, -0.149941698f);\n"
     "  s = fmaf(s, z, -0.376124978f), q = fmaf(q, b, -0.919259548f);\n"
     "  s = fmaf(s, z, 0.128379151f), q = fmaf(q, b, -1.62689209f);\n"
     "  q = fmaf(q, b, -0.000282287132f);\n"
     "  const float large = copysignf(1.0f - cinn_exp2_f32(q), x);\n"
     "  return cinn_pick_f32(a, 0.92f, large, fmaf(s, x, x));\n"
     "}\n"},
    // Near 0 a polynomial; else 1 - 2 / (e^2|x| + 1).
    {"cinn_tanh_f32", 0,
     "$F float cinn_tanh_f32(float x) {\n"
     "  const float a = fabsf(x), z = x * x;\n"
     "  float s = -0.00590586057f;\n"
     "  s = fmaf(s, z, 0.0208053775f);\n"
     "  s = fmaf(s, z, -0.0537866801f);\n"
     "  s = fmaf(s, z, 0.133319587f);\n"
     "  s = fmaf(s, z, -0.333332986f) * z;\n"
     "  const float r = cinn_rcp_f32(cinn_exp2_f32(a * 2.88539004f) + 1.0f);\n"
     "  return cinn_pick_f32(a, 0.6f, copysignf(fmaf(-2.0f, r, 1.0f), x), fmaf(s, x, x));\n"
     "}\n"},
    {"cinn_f32_bf16", 0,
     "$F float cinn_f32_bf16(unsigned short a) { return __uint_as_float((unsigned int)a << 16); }\n"},
    {"cinn_bf16_f32", 0,
     "$F unsigned short cinn_bf16_f32(float a) {\n"
     "#if __CUDA_ARCH__ >= 800\n"
     "  unsigned short r;\n"
     "  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(a));\n"
     "  return r;\n"
     "#else\n"
     "  const unsigned int b = __float_as_uint(a);\n"
     "  return a != a ? 0x7fff : (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);\n"
     "#endif\n"
     "}\n"},
    {"cinn_pack_bf16", 0,
     "$F unsigned int cinn_pack_bf16(float a, float b) {\n"
     "#if __CUDA_ARCH__ >= 800\n"
     "  unsigned int r;\n"
     "  asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(b), \"f\"(a));\n"
     "  return r;\n"
     "#else\n"
     "  return (unsigned int)cinn_bf16_f32(a) | (unsigned int)cinn_bf16_f32(b) << 16;\n"
     "#endif\n"
     "}\n"},
    {"cinn_f32_f16", 0,
     "$F float cinn_f32_f16(unsigned short a) {\n"
     "  float r;\n"
     "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(a));\n"
     "  return r;\n"
     "}\n"},
    {"cinn_f16_f32", 0,
     "$F unsigned short cinn_f16_f32(float a) {\n"
     "  unsigned short r;\n"
     "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(a));\n"
     "  return r;\n"
     "}\n"},
    {"cinn_pack_f16", 0,
     "$F unsigned int cinn_pack_f16(float a, float b) {\n"
     "#if __CUDA_ARCH__ >= 800\n"
     "  unsigned int r;\n"
     "  asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(b), \"f\"(a));\n"
     "  return r;\n"
     "#else\n"
     "  return (unsigned int)cinn_f16_f32(a) | (unsigned int)cinn_f16_f32(b) << 16;\n"
     "#endif\n"
     "}\n"},
    {"cinn_f32_odd", 0,
     "$F float cinn_f32_odd(double a) {\n"
     "  const float f = __double2float_rz(a);\n"
     "  return a != a || (double)f == a ? f : __uint_as_float(__float_as_uint(f) | 1u);\n"
     "}\n"},
    {"cinn_bf16_f64", 0, "$F unsigned short cinn_bf16_f64(double a) { return cinn_bf16_f32(cinn_f32_odd(a)); }\n"},
    {"cinn_f16_f64", 0, "$F unsigned short cinn_f16_f64(double a) { return cinn_f16_f32(cinn_f32_odd(a)); }\n"},
    {"cinn_wait_for_grids", 0,
     "$F void cinn_wait_for_grids() { asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"); }\n"},
    {"cinn_cluster_start", 0,
     "$F void cinn_cluster_start() { asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\"); }\n"},
    {"cinn_cluster_wait", 0,
     "$F void cinn_cluster_wait() { asm volatile(\"barrier.cluster.wait.acquire.aligned;\" ::: \"memory\"); }\n"},
    {"cinn_cluster_barrier", 0,
     "$F void cinn_cluster_barrier() {\n"
     "  asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: \"memory\");\n"
     "  asm volatile(\"barrier.cluster.wait.acquire.aligned;\" ::: \"memory\");\n"
     "}\n"},
    {"cinn_cluster_store", 0,
     "template <class T> $F void cinn_cluster_store(T* p, T v, int blocks) {\n"
     "  for (int i = 0; i < blocks; ++i) {\n"
     "    T* of_block;\n"
     "    asm(\"mapa.u64 %0, %1, %2;\" : \"=l\"(of_block) : \"l\"(p), \"r\"(i));\n"
     "    *of_block = v;\n"
     "  }\n"
     "}\n"},
    // Its layout is that of runtime/bounds_report.h.
    {"cinn_bounds_error", 0,
     "struct CinnBoundsReport {\n"
     "  int taken, block[3], thread[3], unused;\n"
     "  long long index, size;\n"
     "  char text[256];\n"
     "};\n"
     "extern \"C\" { __device__ CinnBoundsReport cinn_bounds_report; }\n"
     "static __device__ __noinline__ void cinn_bounds_error(const char* text, long long index, long long size) {\n"
     "  CinnBoundsReport& r = cinn_bounds_report;\n"
     "  if (atomicCAS(&r.taken, 0, 1) != 0) return;\n"
     "  r.block[0] = blockIdx.x; r.block[1] = blockIdx.y; r.block[2] = blockIdx.z;\n"
     "  r.thread[0] = threadIdx.x; r.thread[1] = threadIdx.y; r.thread[2] = threadIdx.z;\n"
     "  r.index = index;\n"
     "  r.size = size;\n"
     "  int i = 0;\n"
     "  for (; i < 255 && text[i] != 0; ++i) r.text[i] = text[i];\n"
     "  r.text[i] = 0;\n"
     "}\n"},
    {"cinn_load4", 0,
     "$F unsigned int cinn_load4(const void* p) {\n"
     "  unsigned int r;\n"
     "  asm(\"ld.global.nc.L1::no_allocate.u32 %0, [%1];\" : \"=r\"(r) : \"l\"(p));\n"
     "  return r;\n"
     "}\n"},
    {"cinn_load8", 0,
     "$F uint2 cinn_load8(const void* p) {\n"
     "  uint2 r;\n"
     "  asm(\"ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];\" : \"=r\"(r.x), \"=r\"(r.y) : \"l\"(p));\n"
     "  return r;\n"
     "}\n"},
    {"cinn_load16", 0,
     "$F uint4 cinn_load16(const void* p) {\n"
     "  uint4 r;\n"
     "  asm(\"ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\"\n"
     "      : \"=r\"(r.x), \"=r\"(r.y), \"=r\"(r.z), \"=r\"(r.w) : \"l\"(p));\n"
     "  return r;\n"
     "}\n"},
    // NVVM (CUDA 13.0) takes some assignments apart, word by word, and doesn't find together again what it took apart.
    {"cinn_store8", 0,
     "$F void cinn_store8(void* p, uint2 v) {\n"
     "  asm volatile(\"st.global.v2.u32 [%0], {%1, %2};\" ::\"l\"(p), \"r\"(v.x), \"r\"(v.y) : \"memory\");\n"
     "}\n"},
    {"cinn_store16", 0,
     "$F void cinn_store16(void* p, uint4 v) {\n"
     "  asm volatile(\"st.global.v4.u32 [%0], {%1, %2, %3, %4};\" ::\"l\"(p), \"r\"(v.x), \"r\"(v.y), \"r\"(v.z), "
     "\"r\"(v.w) : \"memory\");\n"
     "}\n"},
    {"cinn_shared_address", 0,
     "$F unsigned int cinn_shared_address(const void* p) {\n"
     "  unsigned int r;\n"
     "  asm(\"{.reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a;}\" : \"=r\"(r) : \"l\"(p));\n"
     "  return r;\n"
     "}\n"},
    {"cinn_copy4", 0,
     "$F void cinn_copy4(unsigned int to, const void* from, int bytes) {\n"
     "  asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4, %2;\"\n"
     "               : : \"r\"(to), \"l\"(from), \"r\"(bytes) : \"memory\");\n"
     "}\n"},
    {"cinn_copy8", 0,
     "$F void cinn_copy8(unsigned int to, const void* from, int bytes) {\n"
     "  asm volatile(\"cp.async.ca.shared.global [%0], [%1], 8, %2;\"\n"
     "               : : \"r\"(to), \"l\"(from), \"r\"(bytes) : \"memory\");\n"
     "}\n"},
    {"cinn_copy16", 0,
     "$F void cinn_copy16(unsigned int to, const void* from, int bytes) {\n"
     "  asm volatile(\"cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\"\n"
     "               : : \"r\"(to), \"l\"(from), \"r\"(bytes) : \"memory\");\n"
     "}\n"},
    // Four 8x8 matrices of 16-bit elements; thread l of a warp gives row l % 8 of matrix l / 8, and gets two neighbours
    // of each: of row l / 4, or of column l / 4 (trans).
    {"cinn_ldmatrix", 0,
     "$F uint4 cinn_ldmatrix(unsigned int p) {\n"
     "  uint4 r;\n"
     "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\"\n"
     "               : \"=r\"(r.x), \"=r\"(r.y), \"=r\"(r.z), \"=r\"(r.w) : \"r\"(p) : \"memory\");\n"
     "  return r;\n"
     "}\n"},
    {"cinn_ldmatrix_trans", 0,
     "$F uint4 cinn_ldmatrix_trans(unsigned int p) {\n"
     "  uint4 r;\n"
     "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\"\n"
     "               : \"=r\"(r.x), \"=r\"(r.y), \"=r\"(r.z), \"=r\"(r.w) : \"r\"(p) : \"memory\");\n"
     "  return r;\n"
     "}\n"},
    // Thread x of four gets word x of each, in two exchanges: with the next thread, and with the one after that.
    {"cinn_store_quad", 0,
     "$F void cinn_store_quad(void* p, int x, unsigned int a, unsigned int b, unsigned int c, unsigned int d) {\n"
     "  const bool odd = x & 1, high = x & 2;\n"
     "  const unsigned int of_quad = 15u << ((threadIdx.x + blockDim.x * threadIdx.y) & 28);\n"
     "  const unsigned int b0 = __shfl_xor_sync(of_quad, odd ? a : b, 1), d0 = __shfl_xor_sync(of_quad, odd ? c : d, "
     "1);\n"
     "  const unsigned int a1 = odd ? b0 : a, b1 = odd ? b : b0, c1 = odd ? d0 : c, d1 = odd ? d : d0;\n"
     "  const unsigned int c2 = __shfl_xor_sync(of_quad, high ? a1 : c1, 2);\n"
     "  const unsigned int d2 = __shfl_xor_sync(of_quad, high ? b1 : d1, 2);\n"
     "  *(uint4*)p = high ? make_uint4(c2, d2, c1, d1) : make_uint4(a1, b1, c2, d2);\n"
     "}\n"},
    // Where element i of panels with rows of N elements of 2 bytes lies: 1024 bytes hold 8 rows of 64, whose pieces of
    // 16 bytes the number of the row permutes.
    {"cinn_panel", 0,
     "template <int N> $F unsigned int cinn_panel(unsigned int i) {\n"
     "  const unsigned int row = i / N & 7, column = i % N;\n"
     "  return i / N / 8 * 8 * N + column / 64 * 512 + row * 64 + (column % 64 ^ row * 8);\n"
     "}\n"},
    // An operand in a panel, from byte p on: how far blocks of 64 columns and of 8 rows lie apart.
    {"cinn_operand", 0,
     "$F unsigned long long cinn_operand(unsigned int p, unsigned int blocks, unsigned int rows) {\n"
     "  return (unsigned long long)(rows >> 4) << 32 | (blocks >> 4) << 16 | (p & 0x3ffff) >> 4 | 1ULL << 62;\n"
     "}\n"},
    // What the host makes for the copy engine; how many copies a barrier of memory is to count, of several; asking for
    // a copy, which arrives at one; waiting for all of its copies the 1st, 3rd, ... time (0) or the others (1).
    {"cinn_map", 0, "struct __align__(64) cinn_map { unsigned long long words[16]; };\n"},
    {"cinn_init_arrivals", 0,
     "$F void cinn_init_arrivals(unsigned int arrivals, int barriers, int copies) {\n"
     "  for (int i = 0; i < barriers; ++i)\n"
     "    asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" : : \"r\"(arrivals + i * 8), \"r\"(copies) : "
     "\"memory\");\n"
     "  asm volatile(\"fence.mbarrier_init.release.cluster;\" : : : \"memory\");\n"
     "}\n"},
    {"cinn_expect", 0,
     "$F void cinn_expect(unsigned int arrival, int bytes) {\n"
     "  asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\"\n"
     "               : : \"r\"(arrival), \"r\"(bytes) : \"memory\");\n"
     "}\n"},
    {"cinn_tensor_copy", 0,
     "$F void cinn_tensor_copy(unsigned int to, unsigned int arrival, int bytes, const cinn_map& m, int a, int b) {\n"
     "  cinn_expect(arrival, bytes);\n"
     "  asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\"\n"
     "               \" [%0], [%1, {%3, %4}], [%2];\"\n"
     "               : : \"r\"(to), \"l\"(&m), \"r\"(arrival), \"r\"(a), \"r\"(b) : \"memory\");\n"
     "}\n"
     "$F void cinn_tensor_copy(unsigned int to, unsigned int arrival, int bytes, const cinn_map& m, int a, int b, int "
     "c) "
     "{\n"
     "  cinn_expect(arrival, bytes);\n"
     "  asm volatile(\"cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\"\n"
     "               \" [%0], [%1, {%3, %4, %5}], [%2];\"\n"
     "               : : \"r\"(to), \"l\"(&m), \"r\"(arrival), \"r\"(a), \"r\"(b), \"r\"(c) : \"memory\");\n"
     "}\n"
     "$F void cinn_tensor_copy(unsigned int to, unsigned int arrival, int bytes, const cinn_map& m, int a, int b, int "
     "c,\n"
     "                         int d) {\n"
     "  cinn_expect(arrival, bytes);\n"
     "  asm volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\"\n"
     "               \" [%0], [%1, {%3, %4, %5, %6}], [%2];\"\n"
     "               : : \"r\"(to), \"l\"(&m), \"r\"(arrival), \"r\"(a), \"r\"(b), \"r\"(c), \"r\"(d) : \"memory\");\n"
     "}\n"
     "$F void cinn_tensor_copy(unsigned int to, unsigned int arrival, int bytes, const cinn_map& m, int a, int b, int "
     "c,\n"
     "                         int d, int e) {\n"
     "  cinn_expect(arrival, bytes);\n"
     "  asm volatile(\"cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\"\n"
     "               \" [%0], [%1, {%3, %4, %5, %6, %7}], [%2];\"\n"
     "               : : \"r\"(to), \"l\"(&m), \"r\"(arrival), \"r\"(a), \"r\"(b), \"r\"(c), \"r\"(d), \"r\"(e)\n"
     "               : \"memory\");\n"
     "}\n"},
    {"cinn_await_copies", 0,
     "$F void cinn_await_copies(unsigned int arrival, int turn) {\n"
     "  asm volatile(\"{\\n.reg .pred done;\\n\"\n"
     "               \"again:\\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n@!done bra again;\\n}\"\n"
     "               : : \"r\"(arrival), \"r\"(turn) : \"memory\");\n"
     "}\n"},
    // 16x8 sums += 16x16 by 16x8; c and d are of row l / 4, e and f of row l / 4 + 8.
    {"cinn_mma_$t", kHalves,
     "$F void cinn_mma_$t(float& c, float& d, float& e, float& f, uint4 a, unsigned int b0, unsigned int b1) {\n"
     "  asm(\"mma.sync.aligned.m16n8k16.row.col.f32.$t.$t.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, \"\n"
     "      \"{%0, %1, %2, %3};\"\n"
     "      : \"+f\"(c), \"+f\"(d), \"+f\"(e), \"+f\"(f)\n"
     "      : \"r\"(a.x), \"r\"(a.y), \"r\"(a.z), \"r\"(a.w), \"r\"(b0), \"r\"(b1));\n"
     "}\n"},
    {"cinn_bits_f32", 0, "$F unsigned int cinn_bits_f32(float a) { return __float_as_uint(a); }\n"},
    {"cinn_f32_bits", 0, "$F float cinn_f32_bits(unsigned int a) { return __uint_as_float(a); }\n"},
    {"cinn_bits_f64", 0, "$F unsigned long long cinn_bits_f64(double a) { return __double_as_longlong(a); }\n"},
    {"cinn_f64_bits", 0, "$F double cinn_f64_bits(unsigned long long a) { return __longlong_as_double(a); }\n"},
};

}  // namespace

const Dialect& CudaDialect(std::string_view arch) {
  static const Dialect* waiting = [] {
    auto* r = new Dialect(CudaDialect());
    r->entry = kWaitingKernel;
    r->start = "cinn_wait_for_grids();";
    return r;
  }();
  static const Dialect* hopper = [] {
    auto* r = new Dialect(*waiting);
    r->has_wgmma = true;
    return r;
  }();
  if (arch == "sm_90a") return *hopper;
  constexpr std::string_view kSm = "sm_";
  int version = 0;  // "sm_120f": 120
  if (arch.starts_with(kSm)) std::from_chars(arch.data() + kSm.size(), arch.data() + arch.size(), version);
  return version >= 90 ? *waiting : CudaDialect();
}

const Dialect& CudaDialect() {
  static const Dialect* d = new Dialect{
      .name = "cuda",
      .value_types = kValueTypes,
      .memory_types = kMemoryTypes,
      .header = "",
      .spellings = {{ExprOp::kExp2, kF32, "cinn_exp2_f32($0)", kAtom},
                    {ExprOp::kErf, kF32, "cinn_erf_f32($0)", kAtom},
                    {ExprOp::kTanh, kF32, "cinn_tanh_f32($0)", kAtom},
                    {ExprOp::kRsqrt, kF32, "rsqrtf($0)", kAtom},
                    {ExprOp::kRsqrt, kF64, "rsqrt($0)", kAtom},
                    {ExprOp::kShuffleXor, kShuffled, "__shfl_xor_sync(0xffffffffu, $0, $1)", kAtom},
                    {ExprOp::kShuffleXor, kNarrow, "($T)__shfl_xor_sync(0xffffffffu, (int)$0, $1)", kUnary}},
      .helpers = {std::begin(kHelpers), std::end(kHelpers)},
      .helper = "static __device__ __forceinline__",
      .function = "",
      .kernel = "extern \"C\" __global__ void __launch_bounds__($N)",
      .restricted = "__restrict__",
      .shared = "__shared__ __align__($A)",
      .dynamic_shared = "extern __shared__ __align__($A) unsigned char cinn_shared[];",
      .axes = {"blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"},
      .barrier = "__syncthreads();",
      .cluster_kernel = "extern \"C\" __global__ void __cluster_dims__($C, 1, 1) __launch_bounds__($N)",
      .assertion = "__assertfail(\"$0\", \"cinn_like\", 0, __func__, 1);",
      .bounds_error = "{ cinn_bounds_error(\"$0\", $1, $2); return; }",
      .parallel = "",
      .unroll = "#pragma unroll",
      .unroll_by = "#pragma unroll $0",
      .prefetch = "cinn_prefetch($0);",
      .keep = "#pragma unroll 1",
      .word_types = {"unsigned int", "uint2", "uint4"},
      .word_makers = {"$0", "make_uint2($0, $1)", "make_uint4($0, $1, $2, $3)"},
      .stream_loads = {"cinn_load4($0)", "cinn_load8($0)", "cinn_load16($0)"},
      .word_stores = {"", "cinn_store8($0, $1);", "cinn_store16($0, $1);"},
      .copies = {"cinn_copy4(cinn_shared_address($0) + $1, $2, $3);",
                 "cinn_copy8(cinn_shared_address($0) + $1, $2, $3);",
                 "cinn_copy16(cinn_shared_address($0) + $1, $2, $3);"},
      .commit_copies = "asm volatile(\"cp.async.commit_group;\" : : : \"memory\");",
      .await_copies = "asm volatile(\"cp.async.wait_group $0;\" : : : \"memory\");",
      .store_quad = "cinn_store_quad($0, $1);",
      .has_mma = true,
  };
  return *d;
}

}  // namespace cinn_like::backends
