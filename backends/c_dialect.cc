// C99: host functions, their vectors as short loops, which compilers make vectors of again. What starts with a
// lower-case cinn_ is a helper; the types that helpers of calls speak of are those of c_program.cc.
#include "backends/dialects.h"

namespace cinn_like::backends {
namespace {

constexpr DTypeSet kFloats = SetOf(DType::kF32) | SetOf(DType::kF64);

// Conversions of 16-bit floats by integer arithmetic. From f64 the value is first rounded to odd in f32, so that the
// second rounding is the only one.
constexpr Helper kCHelpers[] = {
    {"cinn_i32_$t", kFloats,
     "$F int cinn_i32_$t($T a) { return a >= -2147483648.0 && a < 2147483648.0 ? (int)a : -2147483647 - 1; }\n"},
    {"cinn_i64_$t", kFloats,
     "$F long long cinn_i64_$t($T a) {\n"
     "  const $T end = 9223372036854775808.0;\n"
     "  return a >= -end && a < end ? (long long)a : -9223372036854775807LL - 1;\n"
     "}\n"},
    {"cinn_u16_$t", kFloats, "$F unsigned short cinn_u16_$t($T a) { return (unsigned short)cinn_i32_$t(a); }\n"},
    {"cinn_u32_$t", kFloats, "$F unsigned int cinn_u32_$t($T a) { return (unsigned int)cinn_i64_$t(a); }\n"},
    {"cinn_u64_$t", kFloats,
     "$F unsigned long long cinn_u64_$t($T a) {\n"
     "  const $T half = 9223372036854775808.0;\n"
     "  return a >= half ? (unsigned long long)cinn_i64_$t(a - half) ^ 1ULL << 63 : (unsigned long "
     "long)cinn_i64_$t(a);\n"
     "}\n"},
    {"cinn_bits_f32", 0, "$F unsigned int cinn_bits_f32(float a) { unsigned int r; memcpy(&r, &a, 4); return r; }\n"},
    {"cinn_f32_bits", 0, "$F float cinn_f32_bits(unsigned int a) { float r; memcpy(&r, &a, 4); return r; }\n"},
    {"cinn_f64_bits", 0, "$F double cinn_f64_bits(unsigned long long a) { double r; memcpy(&r, &a, 8); return r; }\n"},
    {"cinn_min_f32", 0, "$F float cinn_min_f32(float a, float b) { return a < b || a != a ? a : b; }\n"},
    {"cinn_max_f32", 0, "$F float cinn_max_f32(float a, float b) { return a > b || a != a ? a : b; }\n"},
    {"cinn_f32_bf16", 0, "$F float cinn_f32_bf16(unsigned short a) { return cinn_f32_bits((unsigned int)a << 16); }\n"},
    {"cinn_bf16_f32", 0,
     "$F unsigned short cinn_bf16_f32(float a) {\n"
     "  const unsigned int b = cinn_bits_f32(a);\n"
     "  return a != a ? 0x7fc0 : (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);\n"
     "}\n"},
    {"cinn_f32_f16", 0,
     "$F float cinn_f32_f16(unsigned short a) {\n"
     "  const unsigned int m = a & 0x7fff, s = (unsigned int)(a & 0x8000) << 16;\n"
     "  if (m >= 0x7c00) return cinn_f32_bits(s | 0x7f800000 | (m & 0x3ff) << 13);\n"
     "  return cinn_f32_bits(s | cinn_bits_f32(cinn_f32_bits(m << 13) * 0x1p112f));\n"
     "}\n"},
    {"cinn_f16_f32", 0,
     "$F unsigned short cinn_f16_f32(float a) {\n"
     "  const unsigned int b = cinn_bits_f32(a), s = b >> 16 & 0x8000, m = b & 0x7fffffff;\n"
     "  if (m > 0x7f800000) return 0x7fff;\n"
     "  if (m >= 0x477ff000) return (unsigned short)(s | 0x7c00);\n"
     "  if (m < 0x38800000) return (unsigned short)(s | (cinn_bits_f32(cinn_f32_bits(m) + 0.5f) - 0x3f000000));\n"
     "  return (unsigned short)(s | (m - 0x38000000 + 0xfff + (m >> 13 & 1)) >> 13);\n"
     "}\n"},
    {"cinn_f32_odd", 0,
     "$F float cinn_f32_odd(double a) {\n"
     "  const float f = (float)a;\n"
     "  if (a != a || (double)f == a) return f;\n"
     "  unsigned int b = cinn_bits_f32(f);\n"
     "  if (fabs((double)f) > fabs(a)) --b;\n"
     "  return cinn_f32_bits(b | 1);\n"
     "}\n"},
    {"cinn_bf16_f64", 0, "$F unsigned short cinn_bf16_f64(double a) { return cinn_bf16_f32(cinn_f32_odd(a)); }\n"},
    {"cinn_f16_f64", 0, "$F unsigned short cinn_f16_f64(double a) { return cinn_f16_f32(cinn_f32_odd(a)); }\n"},
    {"cinn_parallel", 0,
     "#ifdef _OPENMP\n"
     "#define cinn_parallel _Pragma(\"omp parallel for\")\n"
     "#else\n"
     "#define cinn_parallel\n"
     "#endif\n"},
    // GCC's -O3 would take the loop apart, and then make less of its pieces than a vector.
    {"cinn_lanes", 0,
     "#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8\n"
     "#define cinn_lanes _Pragma(\"GCC unroll 1\")\n"
     "#else\n"
     "#define cinn_lanes\n"
     "#endif\n"},
    {"cinn_unroll", 0,
     "#define cinn_pragma(text) _Pragma(#text)\n"
     "#if defined(__clang__)\n"
     "#define cinn_unroll(n) cinn_pragma(unroll n)\n"
     "#elif defined(__GNUC__) && __GNUC__ >= 8\n"
     "#define cinn_unroll(n) cinn_pragma(GCC unroll n)\n"
     "#else\n"
     "#define cinn_unroll(n)\n"
     "#endif\n"},
    {"cinn_prefetch", 0,
     "#ifdef __GNUC__\n"
     "#define cinn_prefetch(p) __builtin_prefetch(p)\n"
     "#else\n"
     "#define cinn_prefetch(p) ((void)(p))\n"
     "#endif\n"},
    // Any of several failing threads' codes will do.
    {"cinn_set_status", 0,
     "$F void cinn_set_status(int32_t* status, int32_t code) {\n"
     "#ifdef _OPENMP\n"
     "#pragma omp atomic write\n"
     "#endif\n"
     "  *status = code;\n"
     "  (void)code;\n"
     "}\n"},
    {"cinn_malloc", 0,
     "$F void* cinn_malloc(size_t element, int64_t count) {\n"
     "  if (count < 0 || (uint64_t)count > (SIZE_MAX >> 1) / element) return 0;\n"
     "  return malloc(count == 0 ? 1 : element * (size_t)count);\n"
     "}\n"},
    {"cinn_word_f64", 0, "$F uint64_t cinn_word_f64(double a) { uint64_t r; memcpy(&r, &a, 8); return r; }\n"},
    {"cinn_call_function", 0,
     "int32_t cinn_call_function(const void* device, const char* name, const uint64_t* words, int64_t count,\n"
     "                           const void* env);\n"},
    // The rest is what entry functions do of a call (c_entry.h).
    {"cinn_fail", 0,
     "#ifndef CINN_ERROR\n"
     "#define CINN_ERROR(what, why) ((void)0)\n"
     "#endif\n"
     "$F int32_t cinn_fail(int32_t code, const char* what, const char* why) {\n"
     "  CINN_ERROR(what, why);\n"
     "  (void)what, (void)why;\n"
     "  return code;\n"
     "}\n"},
    {"cinn_floor_div", 0,
     "$F int64_t cinn_floor_div(int64_t a, int64_t b) {\n"
     "  if (b == 0 || (b == -1 && a == INT64_MIN)) return 0;\n"
     "  return a / b - (a % b != 0 && (a < 0) != (b < 0));\n"
     "}\n"},
    {"cinn_floor_mod", 0,
     "$F int64_t cinn_floor_mod(int64_t a, int64_t b) {\n"
     "  if (b == 0 || b == -1) return 0;\n"
     "  return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);\n"
     "}\n"},
    // `data` of a tensor; begin to end is what of the caller's memory it takes, null where it takes none.
    {"cinn_memory", 0, "typedef struct {\n  void* data;\n  const char *begin, *end;\n} cinn_memory;\n"},
    {"cinn_check_call", 0,
     "$F int32_t cinn_check_call(const char* what, const CinnValue* args, int32_t num_args, int32_t expected,\n"
     "                           const CinnCallEnv* env) {\n"
     "  if (num_args != expected || (args == 0 && expected != 0)) return cinn_fail(-3, what, \"number of "
     "arguments\");\n"
     "  if (env != 0 && (env->size < sizeof(CinnCallEnv) || env->device.device_type != 1))\n"
     "    return cinn_fail(-3, what, \"environment of the call\");\n"
     "  return 0;\n"
     "}\n"},
    {"cinn_symbol", 0,
     "$F int32_t cinn_symbol(const CinnValue* v, const char* what, int32_t dim, int64_t lo, int64_t hi, int64_t "
     "divisor,\n"
     "                       int64_t* n) {\n"
     "  if (dim < 0) {\n"
     "    if (v->tag != kCinnInt) return cinn_fail(-3, what, \"not an integer\");\n"
     "    *n = v->i;\n"
     "  } else {\n"
     "    if (v->tag != kCinnTensor || v->tensor == 0) return cinn_fail(-3, what, \"not a tensor\");\n"
     "    if (v->tensor->ndim <= dim || v->tensor->shape == 0) return cinn_fail(-3, what, \"rank\");\n"
     "    *n = v->tensor->shape[dim];\n"
     "  }\n"
     "  if (*n < lo || *n > hi || *n % divisor != 0) return cinn_fail(-3, what, \"size outside of its range\");\n"
     "  return 0;\n"
     "}\n"},
    {"cinn_place", 0,
     "$F int32_t cinn_place(const char* what, int32_t bits, int empty, const DLTensor* t, cinn_memory* m) {\n"
     "  static char nothing[16];\n"
     "  m->data = nothing;\n"
     "  m->begin = m->end = 0;\n"
     "  if (empty) return 0;\n"
     "  if (t->data == 0) return cinn_fail(-3, what, \"null data\");\n"
     "  m->data = (char*)t->data + t->byte_offset;\n"
     "  if ((uintptr_t)m->data % (uintptr_t)((bits + 7) / 8) != 0) return cinn_fail(-3, what, \"alignment\");\n"
     "  return 0;\n"
     "}\n"},
    // strides: null where they are those of a contiguous tensor.
    {"cinn_take", 0,
     "$F int32_t cinn_take(const CinnValue* v, const char* what, int32_t code, int32_t bits, int32_t ndim,\n"
     "                     const int64_t* shape, const int64_t* strides, cinn_memory* m) {\n"
     "  const DLTensor* t;\n"
     "  uint64_t compact = 1, last = 0;\n"
     "  int32_t d, status;\n"
     "  int empty = 0;\n"
     "  if (v->tag != kCinnTensor || v->tensor == 0) return cinn_fail(-3, what, \"not a tensor\");\n"
     "  t = v->tensor;\n"
     "  if (t->dtype.code != code || t->dtype.bits != bits || t->dtype.lanes != 1) return cinn_fail(-3, what, "
     "\"dtype\");\n"
     "  if (t->ndim != ndim || (ndim != 0 && t->shape == 0)) return cinn_fail(-3, what, \"rank\");\n"
     "  for (d = 0; d < ndim; ++d) {\n"
     "    if (t->shape[d] != shape[d] || shape[d] < 0) return cinn_fail(-3, what, \"shape\");\n"
     "    empty |= shape[d] == 0;\n"
     "  }\n"
     "  if (t->device.device_type != 1 && t->device.device_type != 3) return cinn_fail(-3, what, \"device\");\n"
     "  for (d = ndim - 1; d >= 0 && !empty; --d) {\n"
     "    const int64_t expected = strides != 0 ? strides[d] : (int64_t)compact;\n"
     "    const int64_t stride = t->strides != 0 ? t->strides[d] : (int64_t)compact;\n"
     "    if (shape[d] != 1 && stride != expected) return cinn_fail(-3, what, \"strides\");\n"
     "    last += ((uint64_t)shape[d] - 1) * (uint64_t)stride;\n"
     "    compact *= (uint64_t)shape[d];\n"
     "  }\n"
     "  status = cinn_place(what, bits, empty, t, m);\n"
     "  if (status != 0 || empty) return status;\n"
     "  m->begin = (const char*)m->data;\n"
     "  m->end = m->begin + (size_t)(last + 1) * (size_t)((bits + 7) / 8);\n"
     "  return 0;\n"
     "}\n"},
    // Contiguous strides, and the number of bytes, which is 0 where it does not fit.
    {"cinn_bytes", 0,
     "$F size_t cinn_bytes(int32_t bits, int32_t ndim, const int64_t* shape, int64_t* strides) {\n"
     "  size_t count = 1;\n"
     "  int32_t d;\n"
     "  for (d = ndim - 1; d >= 0; --d) {\n"
     "    const size_t n = shape[d] > 0 ? (size_t)shape[d] : 1;\n"
     "    if (strides != 0) strides[d] = (int64_t)count;\n"
     "    if (shape[d] < 0 || (uint64_t)shape[d] > SIZE_MAX || count > (SIZE_MAX >> 5) / n) return 0;\n"
     "    count *= n;\n"
     "  }\n"
     "  return count * (size_t)((bits + 7) / 8);\n"
     "}\n"},
    {"cinn_give", 0,
     "$F int32_t cinn_give(const CinnValue* v, const char* what, int32_t code, int32_t bits, int32_t ndim,\n"
     "                     const int64_t* shape, const int64_t* strides, const CinnCallEnv* env, int32_t index,\n"
     "                     cinn_memory* m) {\n"
     "  int64_t sizes[33], steps[33];\n"
     "  DLTensor t = {0};\n"
     "  int32_t d;\n"
     "  int empty = 0;\n"
     "  if (v->tag != kCinnNone) return cinn_take(v, what, code, bits, ndim, shape, strides, m);\n"
     "  if (env == 0 || env->alloc == 0) return cinn_fail(-3, what, \"None, and the call has no allocator\");\n"
     "  if (cinn_bytes(bits, ndim, shape, steps) == 0) return cinn_fail(-11, what, \"size\");\n"
     "  for (d = 0; d < ndim; ++d) {\n"
     "    sizes[d] = shape[d];\n"
     "    if (strides != 0) steps[d] = strides[d];\n"
     "    empty |= shape[d] == 0;\n"
     "  }\n"
     "  t.device = env->device;\n"
     "  t.ndim = ndim;\n"
     "  t.dtype.code = (uint8_t)code;\n"
     "  t.dtype.bits = (uint8_t)bits;\n"
     "  t.dtype.lanes = 1;\n"
     "  t.shape = sizes;\n"
     "  t.strides = steps;\n"
     "  if (env->alloc(env->context, index, &t) != 0) return cinn_fail(-8, what, \"allocator of the call\");\n"
     "  return cinn_place(what, bits, empty, &t, m);\n"
     "}\n"},
    // Results, which follow the inputs, overlap nothing.
    {"cinn_check_apart", 0,
     "$F int32_t cinn_check_apart(const char* what, const cinn_memory* m, int32_t inputs, int32_t count) {\n"
     "  int32_t i, k;\n"
     "  for (i = inputs; i < count; ++i) {\n"
     "    for (k = 0; k < i; ++k) {\n"
     "      if ((uintptr_t)m[i].begin < (uintptr_t)m[k].end && (uintptr_t)m[k].begin < (uintptr_t)m[i].end)\n"
     "        return cinn_fail(-3, what, \"a result overlaps another tensor\");\n"
     "    }\n"
     "  }\n"
     "  return 0;\n"
     "}\n"},
    {"cinn_alloc_workspace", 0,
     "$F void* cinn_alloc_workspace(const CinnCallEnv* env, size_t element, int64_t count) {\n"
     "  DLTensor t = {0};\n"
     "  int64_t bytes;\n"
     "  if (env == 0 || env->alloc == 0 || env->free == 0) return cinn_malloc(element, count);\n"
     "  if (count < 0 || (uint64_t)count > (SIZE_MAX >> 1) / element) return 0;\n"
     "  bytes = count == 0 ? 1 : (int64_t)element * count;\n"
     "  t.device = env->device;\n"
     "  t.ndim = 1;\n"
     "  t.dtype.code = 1;\n"
     "  t.dtype.bits = 8;\n"
     "  t.dtype.lanes = 1;\n"
     "  t.shape = &bytes;\n"
     "  return env->alloc(env->context, -1, &t) != 0 ? 0 : t.data;\n"
     "}\n"},
    {"cinn_free_workspace", 0,
     "$F void cinn_free_workspace(const CinnCallEnv* env, void* p) {\n"
     "  if (env == 0 || env->alloc == 0 || env->free == 0)\n"
     "    free(p);\n"
     "  else if (p != 0)\n"
     "    env->free(env->context, p);\n"
     "}\n"},
};

}  // namespace

const Dialect& CDialect() {
  static const Dialect* d = new Dialect{
      .name = "c",
      .value_types = {"bool", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
                      "uint16_t", "uint16_t", "float", "double"},
      .memory_types = {"uint8_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t",
                       "uint64_t", "uint16_t", "uint16_t", "float", "double"},
      .header =
          "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n",
      .spellings = {},
      .helpers = {std::begin(kCHelpers), std::end(kCHelpers)},
      .helper = "static inline",
      .function = "int32_t",
      .kernel = "",
      .restricted = "restrict",
      .shared = "",
      .dynamic_shared = "",
      .axes = {},
      .barrier = "",
      .cluster_kernel = "",
      .assertion = "",
      .bounds_error = "",
      .parallel = "cinn_parallel",
      .unroll = "",
      .unroll_by = "cinn_unroll($0)",
      .prefetch = "cinn_prefetch($0);",
      .keep = "",
      .word_types = {},
      .word_makers = {},
      .stream_loads = {},
      .word_stores = {},
      .copies = {},
      .lane_loop = "cinn_lanes",
  };
  return *d;
}

}  // namespace cinn_like::backends
