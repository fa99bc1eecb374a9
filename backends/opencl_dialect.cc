// OpenCL C 1.2. f16 and bf16 are kept as bits and computed with as f32, so that no device needs cl_khr_fp16; f64 needs
// cl_khr_fp64. Functions of C are overloaded. Sub-groups are those of cl_intel_subgroups, which C 1.2 can have, of a
// size that a kernel asks for (cl_intel_required_subgroup_size). How a driver deals a block's threads out to them
// nobody says (Intel's for CPUs none of several rows to one), so a kernel with shuffles has its threads in one row, and
// numbers them by sub-groups: all of a block's but the last are full.
#include <map>
#include <mutex>

#include "backends/dialects.h"

namespace cinn_like::backends {
namespace {
using ir::ExprOp;

constexpr DTypeSet kF32 = SetOf(DType::kF32), kFloats = kF32 | SetOf(DType::kF64);
constexpr DTypeSet kHalves = SetOf(DType::kF16) | SetOf(DType::kBF16);
constexpr DTypeSet kShuffled =
    kFloats | SetOf(DType::kI32) | SetOf(DType::kU32) | SetOf(DType::kI64) | SetOf(DType::kU64);
constexpr DTypeSet kNarrow =
    kHalves | SetOf(DType::kBool) | SetOf(DType::kI8) | SetOf(DType::kI16) | SetOf(DType::kU8) | SetOf(DType::kU16);

// What does not fit becomes the nearest integer of the type, NaN 0.
constexpr Helper kHelpers[] = {
    {"cinn_uint", 0, "typedef uint __attribute__((may_alias)) cinn_uint;\n"},
    {"cinn_i32_$t", kFloats, "$F int cinn_i32_$t($T a) { return a != a ? 0 : convert_int_sat(a); }\n"},
    {"cinn_i64_$t", kFloats, "$F long cinn_i64_$t($T a) { return a != a ? 0 : convert_long_sat(a); }\n"},
    {"cinn_u16_$t", kFloats, "$F ushort cinn_u16_$t($T a) { return a != a ? 0 : convert_ushort_sat(a); }\n"},
    {"cinn_u32_$t", kFloats, "$F uint cinn_u32_$t($T a) { return a != a ? 0 : convert_uint_sat(a); }\n"},
    {"cinn_u64_$t", kFloats, "$F ulong cinn_u64_$t($T a) { return a != a ? 0 : convert_ulong_sat(a); }\n"},
    {"cinn_bits_f32", 0, "$F uint cinn_bits_f32(float a) { return as_uint(a); }\n"},
    {"cinn_f32_bits", 0, "$F float cinn_f32_bits(uint a) { return as_float(a); }\n"},
    {"cinn_bits_f64", 0, "$F ulong cinn_bits_f64(double a) { return as_ulong(a); }\n"},
    {"cinn_f64_bits", 0, "$F double cinn_f64_bits(ulong a) { return as_double(a); }\n"},
    {"cinn_min_f32", 0, "$F float cinn_min_f32(float a, float b) { return a < b || a != a ? a : b; }\n"},
    {"cinn_max_f32", 0, "$F float cinn_max_f32(float a, float b) { return a > b || a != a ? a : b; }\n"},
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
    {"cinn_f32_bf16", 0, "$F float cinn_f32_bf16(ushort a) { return as_float((uint)a << 16); }\n"},
    {"cinn_bf16_f32", 0,
     "$F ushort cinn_bf16_f32(float a) {\n"
     "  const uint b = as_uint(a);\n"
     "  return a != a ? 0x7fc0 : (ushort)((b + 0x7fff + ((b >> 16) & 1)) >> 16);\n"
     "}\n"},
    {"cinn_f32_f16", 0, "$F float cinn_f32_f16(ushort a) { return vload_half(0, (const half*)&a); }\n"},
    {"cinn_f16_f32", 0,
     "$F ushort cinn_f16_f32(float a) {\n"
     "  ushort r;\n"
     "  vstore_half_rte(a, 0, (half*)&r);\n"
     "  return r;\n"
     "}\n"},
    {"cinn_pack_$t", kHalves,
     "$F uint cinn_pack_$t(float a, float b) { return (uint)cinn_$t_f32(a) | (uint)cinn_$t_f32(b) << 16; }\n"},
    {"cinn_f32_odd", 0,
     "$F float cinn_f32_odd(double a) {\n"
     "  const float f = convert_float_rtz(a);\n"
     "  return a != a || (double)f == a ? f : as_float(as_uint(f) | 1u);\n"
     "}\n"},
    {"cinn_bf16_f64", 0, "$F ushort cinn_bf16_f64(double a) { return cinn_bf16_f32(cinn_f32_odd(a)); }\n"},
    {"cinn_f16_f64", 0, "$F ushort cinn_f16_f64(double a) { return cinn_f16_f32(cinn_f32_odd(a)); }\n"},
    // Its layout is that of RangeReport in runtime/opencl_module.h.
    {"cinn_report", 0,
     "typedef struct {\n"
     "  int taken, unused;\n"
     "  long value, lo, end;\n"
     "  char text[256];\n"
     "} CinnRangeReport;\n"},
    {"cinn_range_error", 0,
     "static void cinn_range_error(__global CinnRangeReport* r, __constant char* text, long value, long lo, long end) "
     "{\n"
     "  if (atomic_cmpxchg((volatile __global int*)&r->taken, 0, 1) != 0) return;\n"
     "  r->value = value;\n"
     "  r->lo = lo;\n"
     "  r->end = end;\n"
     "  for (int i = 0; i < 255 && text[i] != 0; ++i) r->text[i] = text[i];\n"
     "}\n"},
};

const Dialect& WithoutSubgroups() {
  static const Dialect* d = new Dialect{
      .name = "opencl",
      .value_types = {"bool", "char", "short", "int", "long", "uchar", "ushort", "uint", "ulong", "ushort", "ushort",
                      "float", "double"},
      .memory_types = {"uchar", "char", "short", "int", "long", "uchar", "ushort", "uint", "ulong", "ushort", "ushort",
                       "float", "double"},
      .header = "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n",
      .spellings = {{ExprOp::kErf, kF32, "cinn_erf_f32($0)", kAtom},
                    {ExprOp::kTanh, kF32, "cinn_tanh_f32($0)", kAtom},
                    {ExprOp::kRsqrt, kFloats, "rsqrt($0)", kAtom}},
      .helpers = {std::begin(kHelpers), std::end(kHelpers)},
      .helper = "static inline",
      .function = "",
      .kernel = "__kernel __attribute__((reqd_work_group_size($X, $Y, $Z))) void",
      .restricted = "restrict",
      .shared = "__local __attribute__((aligned($A)))",
      .dynamic_shared = "",
      .axes = {"get_group_id(0)", "get_group_id(1)", "get_group_id(2)", "get_local_id(0)", "get_local_id(1)",
               "get_local_id(2)"},
      .barrier = "barrier(CLK_LOCAL_MEM_FENCE);",
      .cluster_kernel = "",
      .assertion = "cinn_range_error(cinn_report, \"$0\", $1, $2, $3);",
      .bounds_error = "",
      .parallel = "",
      .unroll = "#pragma unroll",
      .unroll_by = "#pragma unroll $0",
      .prefetch = "prefetch($0, 1);",
      .keep = "#pragma unroll 1",
      .word_types = {"cinn_uint", "uint2", "uint4"},
      .word_makers = {"$0", "(uint2)($0, $1)", "(uint4)($0, $1, $2, $3)"},
      .stream_loads = {},
      .word_stores = {},
      .copies = {},
      .f32_suffix = "",
      .long_suffix = "L",
      .global_space = "__global ",
      .shared_space = "__local ",
      .offset_pointers = true,
      .report = "__global CinnRangeReport* cinn_report",
  };
  return *d;
}

Dialect WithSubgroups(int64_t size) {
  Dialect d = WithoutSubgroups();
  d.subgroup = size;
  d.header =
      "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n"
      "#ifdef cl_intel_subgroups\n#pragma OPENCL EXTENSION cl_intel_subgroups : enable\n#endif\n";
  d.spellings.push_back({ExprOp::kShuffleXor, kShuffled, "intel_sub_group_shuffle_xor($0, $1)", kAtom});
  d.spellings.push_back({ExprOp::kShuffleXor, kNarrow, "($T)intel_sub_group_shuffle_xor((int)$0, $1)", kUnary});
  d.shuffling_kernel = "__kernel __attribute__((reqd_work_group_size($N, 1, 1), intel_reqd_sub_group_size($W))) void";
  d.thread = "get_sub_group_id() * $W + get_sub_group_local_id()";
  return d;
}

}  // namespace

const Dialect& OpenClDialect(int64_t subgroup) {
  if (subgroup == 1) return WithoutSubgroups();
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<int64_t, Dialect>;
  const std::lock_guard lock(*mutex);
  const auto it = known->find(subgroup);
  return it != known->end() ? it->second : known->emplace(subgroup, WithSubgroups(subgroup)).first->second;
}

}  // namespace cinn_like::backends
