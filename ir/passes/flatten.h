// Buffers get one dimension: indices and strides become one i64 index in elements.
//
//   A: f32[n, 4];  A[i, j] = B[j, i]   =>   A: f32[n * 4];  A[i * 4 + j] = B[j * m + i]
//
// Parameters keep their name and alignment. Vector indices stay vectors.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> Flatten(Func f);
}  // namespace cinn_like::ir
