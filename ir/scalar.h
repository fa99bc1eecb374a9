// Single values of any dtype: how they lie in memory, arithmetic and conversion of floats. The interpreter's, and exact
// but for transcendental functions (those of the C library in double, rounded to the dtype). Integers: FoldInt.
#pragma once
#include <optional>

#include "ir/expr.h"

namespace cinn_like::ir {

// An integer or boolean in i, a float in f.
struct Lane {
  int64_t i = 0;
  double f = 0;
};

Lane LoadLane(DType t, const uint8_t* p);
void StoreLane(DType t, uint8_t* p, Lane v);
// Truncates to integers; what does not fit becomes what x86 makes of it (docs/numerics.md).
Lane Convert(DType from, DType to, Lane v);
// Nullopt for an operator without a float result.
std::optional<double> FoldFloat(ExprOp op, DType t, double x, double y, double z);

}  // namespace cinn_like::ir
