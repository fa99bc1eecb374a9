// Matrix products by cuBLASLt, opened at run time (the copy that the process has loaded, if any). Row-major:
//
//   d[m,n] = epilogue(op(a)[m,k] * op(b)[k,n] + bias[n])      batched with a stride per operand
//
// a, b, bias and d have one dtype: f32, f16 or bf16; products accumulate in f32, and f32 operands are not rounded to
// TF32 unless the spec allows it. kGelu is the tanh approximation: cuBLASLt has no other.
#pragma once
#include <cstdint>

#include "cinn_like/base/dtype.h"
#include "cinn_like/base/status.h"
#include "runtime/call.h"

namespace cinn_like {

enum class MatmulEpilogue : uint8_t { kNone, kRelu, kGelu };

// What is known when compiling; travels as one integer.
struct MatmulSpec {
  DType dtype = DType::kF32;
  bool transpose_a = false;  // a is stored [k,m]
  bool transpose_b = false;  // b is stored [n,k]
  bool bias = false;
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  bool allow_tf32 = false;

  int64_t Encode() const;
  static StatusOr<MatmulSpec> Decode(int64_t bits);
};

}  // namespace cinn_like

// Enqueues the product on env->stream. Leading dimensions and batch strides in elements; `bias` is null unless the spec
// has one. Algorithms come from cuBLASLt's heuristics, once per spec, sizes, alignment and device.
extern "C" int32_t cinn_cublaslt_matmul(int64_t spec, const void* a, const void* b, const void* bias, void* d,
                                        int64_t m, int64_t n, int64_t k, int64_t batch, int64_t lda, int64_t ldb,
                                        int64_t ldd, int64_t stride_a, int64_t stride_b, int64_t stride_d,
                                        const CinnCallEnv* env);
