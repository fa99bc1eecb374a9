// Composites compute in at least f32: decompositions widen 16-bit operands and cast their result back.
#pragma once
#include "hlir/op_builder.h"

namespace cinn_like::hlir {

inline DType WideOf(DType t) { return IsHalf(t) ? DType::kF32 : t; }
inline ValueRef Widen(OpBuilder* b, ValueRef x) { return b->Cast(x, WideOf(b->DTypeOf(x))); }

}  // namespace cinn_like::hlir
