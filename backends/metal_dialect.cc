// Metal Shading Language 2.3 and on, without images. f16 and bf16 are kept as bits and computed with as f32; there is
// no f64. Functions of C are overloaded, and precise where the compiler is told so, by the pragma or by -fno-fast-math.
#include "backends/dialects.h"

namespace cinn_like::backends {
namespace {
using ir::ExprOp;

constexpr DTypeSet kF32 = SetOf(DType::kF32);
constexpr DTypeSet kHalves = SetOf(DType::kF16) | SetOf(DType::kBF16);

// What does not fit becomes the nearest integer of the type, NaN 0.
constexpr Helper kHelpers[] = {
    {"cinn_uint", 0, "typedef uint __attribute__((may_alias)) cinn_uint;\n"},
    {"cinn_i32_f32", 0,
     "$F int cinn_i32_f32(float a) {\n"
     "  const float end = 2147483648.0f;\n"
     "  return a != a ? 0 : a >= end ? 2147483647 : a < -end ? -2147483647 - 1 : (int)a;\n"
     "}\n"},
    {"cinn_i64_f32", 0,
     "$F long cinn_i64_f32(float a) {\n"
     "  const float end = 9223372036854775808.0f;\n"
     "  return a != a ? 0L : a >= end ? 9223372036854775807L : a < -end ? -9223372036854775807L - 1 : (long)a;\n"
     "}\n"},
    {"cinn_u16_f32", 0, "$F ushort cinn_u16_f32(float a) { return !(a > 0) ? 0 : a >= 65535 ? 65535 : (ushort)a; }\n"},
    {"cinn_u32_f32", 0,
     "$F uint cinn_u32_f32(float a) {\n"
     "  return !(a > 0) ? 0u : a >= 4294967296.0f ? 4294967295u : (uint)a;\n"
     "}\n"},
    {"cinn_u64_f32", 0,
     "$F ulong cinn_u64_f32(float a) {\n"
     "  return !(a > 0) ? 0UL : a >= 18446744073709551616.0f ? 18446744073709551615UL : (ulong)a;\n"
     "}\n"},
    {"cinn_bits_f32", 0, "$F uint cinn_bits_f32(float a) { return as_type<uint>(a); }\n"},
    {"cinn_f32_bits", 0, "$F float cinn_f32_bits(uint a) { return as_type<float>(a); }\n"},
    {"cinn_min_f32", 0, "$F float cinn_min_f32(float a, float b) { return a < b || a != a ? a : b; }\n"},
    {"cinn_max_f32", 0, "$F float cinn_max_f32(float a, float b) { return a > b || a != a ? a : b; }\n"},
    // The quotient of what exp is off by and what its logarithm is: the errors of u cancel.
    {"cinn_expm1_f32", 0,
     "$F float cinn_expm1_f32(float x) {\n"
     "  const float u = exp(x), v = u - 1.0f;\n"
     "  return u == 1.0f ? x : v == -1.0f || v == u ? v : v * (x / log(u));\n"
     "}\n"},
    {"cinn_log1p_f32", 0,
     "$F float cinn_log1p_f32(float x) {\n"
     "  const float u = 1.0f + x, v = u - 1.0f;\n"
     "  return u == 1.0f ? x : v == u ? log(u) : log(u) * (x / v);\n"
     "}\n"},
    // Near 0 a polynomial in x^2; else 1 - 2^p(|x|), where p fits log2(erfc).
    {"cinn_erf_f32", 0,
     "$F float cinn_erf_f32(float x) {\n"
     "  const float a = fabs(x), b = fmin(a, 4.0f), z = x * x;\n"
     "  float s = -0.000599940424f, q = 0.000282679161f;\n"
     "  s = fma(s, z, 0.00499483012f), q = fma(q, b, -0.00439044833f);\n"
     "  s = fma(s, z, -0.0267677195f), q = fma(q, b, 0.0320667177f);\n"
     "  s = fma(s, z, 0.112818457f), q = fma(q, b, -0.149941698f);\n"
     "  s = fma(s, z, -0.376124978f), q = fma(q, b, -0.919259548f);\n"
     "  s = fma(s, z, 0.128379151f), q = fma(q, b, -1.62689209f);\n"
     "  q = fma(q, b, -0.000282287132f);\n"
     "  return a >= 0.92f ? copysign(1.0f - exp2(q), x) : fma(s, x, x);\n"
     "}\n"},
    // Near 0 a polynomial; else 1 - 2 / (e^2|x| + 1).
    {"cinn_tanh_f32", 0,
     "$F float cinn_tanh_f32(float x) {\n"
     "  const float a = fabs(x), z = x * x;\n"
     "  float s = -0.00590586057f;\n"
     "  s = fma(s, z, 0.0208053775f);\n"
     "  s = fma(s, z, -0.0537866801f);\n"
     "  s = fma(s, z, 0.133319587f);\n"
     "  s = fma(s, z, -0.333332986f) * z;\n"
     "  const float r = 1.0f / (exp2(a * 2.88539004f) + 1.0f);\n"
     "  return a >= 0.6f ? copysign(fma(-2.0f, r, 1.0f), x) : fma(s, x, x);\n"
     "}\n"},
    {"cinn_f32_bf16", 0, "$F float cinn_f32_bf16(ushort a) { return as_type<float>((uint)a << 16); }\n"},
    {"cinn_bf16_f32", 0,
     "$F ushort cinn_bf16_f32(float a) {\n"
     "  const uint b = as_type<uint>(a);\n"
     "  return a != a ? 0x7fc0 : (ushort)((b + 0x7fff + ((b >> 16) & 1)) >> 16);\n"
     "}\n"},
    {"cinn_f32_f16", 0, "$F float cinn_f32_f16(ushort a) { return (float)as_type<half>(a); }\n"},
    {"cinn_f16_f32", 0, "$F ushort cinn_f16_f32(float a) { return as_type<ushort>((half)a); }\n"},
    {"cinn_pack_$t", kHalves,
     "$F uint cinn_pack_$t(float a, float b) { return (uint)cinn_$t_f32(a) | (uint)cinn_$t_f32(b) << 16; }\n"},
};

}  // namespace

const Dialect& MetalDialect() {
  static const Dialect* d = new Dialect{
      .name = "metal",
      .value_types = {"bool", "char", "short", "int", "long", "uchar", "ushort", "uint", "ulong", "ushort", "ushort",
                      "float", ""},
      .memory_types = {"uchar", "char", "short", "int", "long", "uchar", "ushort", "uint", "ulong", "ushort", "ushort",
                       "float", ""},
      .header = "#include <metal_stdlib>\nusing namespace metal;\n#pragma METAL fp math_mode(safe)\n",
      .spellings = {{ExprOp::kErf, kF32, "cinn_erf_f32($0)", kAtom},
                    {ExprOp::kTanh, kF32, "cinn_tanh_f32($0)", kAtom},
                    {ExprOp::kExpm1, kF32, "cinn_expm1_f32($0)", kAtom},
                    {ExprOp::kLog1p, kF32, "cinn_log1p_f32($0)", kAtom},
                    {ExprOp::kRsqrt, kF32, "rsqrt($0)", kAtom}},
      .helpers = {std::begin(kHelpers), std::end(kHelpers)},
      .helper = "static inline",
      .function = "",
      .kernel = "[[kernel, max_total_threads_per_threadgroup($N)]] void",
      .restricted = "",
      .shared = "alignas($A) threadgroup",
      .dynamic_shared = "",
      .axes = {"cinn_block.x", "cinn_block.y", "cinn_block.z", "cinn_thread.x", "cinn_thread.y", "cinn_thread.z"},
      .barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);",
      .cluster_kernel = "",
      .assertion = "",
      .bounds_error = "",
      .parallel = "",
      .unroll = "#pragma unroll",
      .unroll_by = "#pragma unroll $0",
      .prefetch = "",
      .keep = "#pragma unroll 1",
      .word_types = {"cinn_uint", "uint2", "uint4"},
      .word_makers = {"$0", "uint2($0, $1)", "uint4($0, $1, $2, $3)"},
      .stream_loads = {},
      .word_stores = {},
      .copies = {},
      .f32_suffix = "",
      .long_suffix = "L",
      .global_space = "device ",
      .shared_space = "threadgroup ",
      .scalar = "constant $T&",
      .param_end = " [[buffer($I)]]",
      .max_params = 31,
      .thread_params =
          "uint3 cinn_block [[threadgroup_position_in_grid]], "
          "uint3 cinn_thread [[thread_position_in_threadgroup]]",
  };
  return *d;
}

}  // namespace cinn_like::backends
