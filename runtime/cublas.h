// Matrix products by cuBLASLt, opened at run time (the copy that the process has loaded, if any). Row-major:
//
//   d[m,n] = epilogue(op(a)[m,k] * op(b)[k,n] + bias[n])      batched with a stride per operand
//
// a and b have one dtype: f32, f64, f16 or bf16; bias and d have it too, or f32. Products accumulate in f32 (f64 in
// f64), and f32 operands are not rounded to TF32 unless the spec allows it. kGelu is the tanh approximation: cuBLASLt
// has no other.
#pragma once
#include <cstdint>

#include "cinn_like/base/matmul_spec.h"
#include "cinn_like/base/status.h"
#include "runtime/call.h"

namespace cinn_like {}  // namespace cinn_like

// Enqueues the product on env->stream. Leading dimensions and batch strides in elements; `bias` is null unless the spec
// has one. Algorithms come from cuBLASLt's heuristics, once per spec, sizes, alignment and device.
extern "C" int32_t cinn_cublaslt_matmul(int64_t spec, const void* a, const void* b, const void* bias, void* d,
                                        int64_t m, int64_t n, int64_t k, int64_t batch, int64_t lda, int64_t ldb,
                                        int64_t ldd, int64_t stride_a, int64_t stride_b, int64_t stride_d,
                                        const CinnCallEnv* env);
