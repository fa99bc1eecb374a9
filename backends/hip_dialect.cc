// HIP C++ as ROCm's compilers take it; backends/hip_compiler.cc has what of hip/hip_runtime.h it uses, for those that
// have no ROCm. Halves are kept as bits and computed with as f32. Shuffles are among 32 threads, halves of a wave
// of 64.
#include "backends/dialects.h"

namespace cinn_like::backends {
namespace {
using ir::ExprOp;

constexpr DTypeSet kF32 = SetOf(DType::kF32), kFloats = kF32 | SetOf(DType::kF64);
constexpr DTypeSet kHalves = SetOf(DType::kF16) | SetOf(DType::kBF16);
constexpr DTypeSet kShuffled =
    SetOf(DType::kI32) | SetOf(DType::kU32) | SetOf(DType::kI64) | SetOf(DType::kU64) | kFloats;
constexpr DTypeSet kNarrow =
    SetOf(DType::kBool) | SetOf(DType::kI8) | SetOf(DType::kI16) | SetOf(DType::kU8) | SetOf(DType::kU16) | kHalves;

// What does not fit becomes the nearest integer of the type, NaN 0.
constexpr Helper kHelpers[] = {
    {"cinn_i32_$t", kFloats,
     "$F int cinn_i32_$t($T a) {\n"
     "  const $T end = 2147483648.0;\n"
     "  return a != a ? 0 : a >= end ? 2147483647 : a < -end ? -2147483647 - 1 : (int)a;\n"
     "}\n"},
    {"cinn_i64_$t", kFloats,
     "$F long long cinn_i64_$t($T a) {\n"
     "  const $T end = 9223372036854775808.0;\n"
     "  return a != a ? 0 : a >= end ? 9223372036854775807LL : a < -end ? -9223372036854775807LL - 1 : (long long)a;\n"
     "}\n"},
    {"cinn_u16_$t", kFloats,
     "$F unsigned short cinn_u16_$t($T a) { return !(a > 0) ? 0 : a >= 65535 ? 65535 : (unsigned short)a; }\n"},
    {"cinn_u32_$t", kFloats,
     "$F unsigned int cinn_u32_$t($T a) {\n"
     "  const $T end = 4294967296.0;\n"
     "  return !(a > 0) ? 0 : a >= end ? 4294967295u : (unsigned int)a;\n"
     "}\n"},
    {"cinn_u64_$t", kFloats,
     "$F unsigned long long cinn_u64_$t($T a) {\n"
     "  const $T end = 18446744073709551616.0;\n"
     "  return !(a > 0) ? 0 : a >= end ? 18446744073709551615ULL : (unsigned long long)a;\n"
     "}\n"},
    {"cinn_min_f32", 0, "$F float cinn_min_f32(float a, float b) { return a < b || a != a ? a : b; }\n"},
    {"cinn_max_f32", 0, "$F float cinn_max_f32(float a, float b) { return a > b || a != a ? a : b; }\n"},
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
     "  return a >= 0.92f ? copysignf(1.0f - exp2f(q), x) : fmaf(s, x, x);\n"
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
     "  const float r = 1.0f / (exp2f(a * 2.88539004f) + 1.0f);\n"
     "  return a >= 0.6f ? copysignf(fmaf(-2.0f, r, 1.0f), x) : fmaf(s, x, x);\n"
     "}\n"},
    {"cinn_bits_f32", 0, "$F unsigned int cinn_bits_f32(float a) { return __builtin_bit_cast(unsigned int, a); }\n"},
    {"cinn_f32_bits", 0, "$F float cinn_f32_bits(unsigned int a) { return __builtin_bit_cast(float, a); }\n"},
    {"cinn_f32_bf16", 0, "$F float cinn_f32_bf16(unsigned short a) { return cinn_f32_bits((unsigned int)a << 16); }\n"},
    {"cinn_bf16_f32", 0,
     "$F unsigned short cinn_bf16_f32(float a) {\n"
     "  const unsigned int b = cinn_bits_f32(a);\n"
     "  return a != a ? 0x7fc0 : (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);\n"
     "}\n"},
    {"cinn_f32_f16", 0, "$F float cinn_f32_f16(unsigned short a) { return __builtin_bit_cast(_Float16, a); }\n"},
    {"cinn_f16_f32", 0,
     "$F unsigned short cinn_f16_f32(float a) { return __builtin_bit_cast(unsigned short, (_Float16)a); }\n"},
    {"cinn_pack_$t", kHalves,
     "$F unsigned int cinn_pack_$t(float a, float b) {\n"
     "  return (unsigned int)cinn_$t_f32(a) | (unsigned int)cinn_$t_f32(b) << 16;\n"
     "}\n"},
    // Cut off, and odd where that was inexact, so that rounding once more is rounding once.
    {"cinn_f32_odd", 0,
     "$F float cinn_f32_odd(double a) {\n"
     "  const float f = (float)a;\n"
     "  if (a != a || (double)f == a) return f;\n"
     "  const unsigned int b = cinn_bits_f32(f);\n"
     "  return cinn_f32_bits((fabs((double)f) > fabs(a) ? b - 1 : b) | 1u);\n"
     "}\n"},
    {"cinn_bf16_f64", 0, "$F unsigned short cinn_bf16_f64(double a) { return cinn_bf16_f32(cinn_f32_odd(a)); }\n"},
    {"cinn_f16_f64", 0, "$F unsigned short cinn_f16_f64(double a) { return cinn_f16_f32(cinn_f32_odd(a)); }\n"},
};

}  // namespace

const Dialect& HipDialect() {
  static const Dialect* d = [] {
    auto* r = new Dialect(CudaDialect());
    r->name = "hip";
    r->prefetch = "";
    r->header = "#include <hip/hip_runtime.h>\n";
    r->spellings = {{ExprOp::kErf, kF32, "cinn_erf_f32($0)", kAtom},
                    {ExprOp::kTanh, kF32, "cinn_tanh_f32($0)", kAtom},
                    {ExprOp::kShuffleXor, kShuffled, "__shfl_xor($0, $1, 32)", kAtom},
                    {ExprOp::kShuffleXor, kNarrow, "($T)__shfl_xor((int)$0, $1, 32)", kUnary}};
    r->helpers = {std::begin(kHelpers), std::end(kHelpers)};
    r->shared = "__shared__ __attribute__((aligned($A)))";
    r->dynamic_shared = "extern __shared__ __attribute__((aligned($A))) unsigned char cinn_shared[];";
    r->cluster_kernel = "";
    r->assertion = "";
    r->bounds_error = "";
    for (auto* of_ptx : {&r->stream_loads, &r->word_stores, &r->copies})
      std::fill(std::begin(*of_ptx), std::end(*of_ptx), "");
    r->commit_copies = r->await_copies = r->store_quad = "";
    r->has_mma = false;
    return r;
  }();
  return *d;
}

}  // namespace cinn_like::backends
