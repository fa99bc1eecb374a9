// Digits of a number by sizes that are no constants, which an index puts together again, are not taken apart: of
// kernels, before narrow_index. Digits by constants are the simplifier's.
//
//   x[tdiv(tdiv(i, w), h) * (c * h * w) + tmod(tdiv(i, w), h) * w + tmod(i, w)]   with 1 <= w, 1 <= h
//     =>
//   x[tdiv(i, h * w) * (c * h * w) - tdiv(i, h * w) * (h * w) + i]
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> JoinDigits(Func f);
}  // namespace cinn_like::ir
