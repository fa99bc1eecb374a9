// Fused numerics: a value that was f32 a moment ago does not round to 16 bits on its way to the next operator. What a
// kernel stores to memory that others see is rounded, once. After legalize.
//
//   y[i] = bf16(f32(bf16(f32(a[i]) * f32(b[i]))) + 1.0)        ->  y[i] = bf16(f32(a[i]) * f32(b[i]) + 1.0)
//   alloc t: bf16[8] @local;  t[i] = bf16(e);  ... f32(t[i])   ->  alloc t: f32[8] @local;  t[i] = e;  ... t[i]
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> KeepWide(Func f);
}  // namespace cinn_like::ir
