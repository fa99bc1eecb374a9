// @vectorized loops of constant extent become vector expressions.
//
//   for v in 0..8 @vectorized { y[i * 8 + v] = x[i * 8 + v] * a }   =>   y[ramp(i * 8, 1, 8)] = x[ramp(i * 8, 1, 8)] *
//   broadcast(a, 8) if j * 8 + v < n {...}  around                                  =>   masks of loads and stores for
//   k in 0..n { for v @vectorized { s[0] = s[0] + x[k * 8 + v] } }
//     =>  lanes[ramp(0, 1, 8)] = 0; for k { lanes = lanes + x[ramp(k * 8, 1, 8)] }; s[0] = s[0] + lane_add(lanes)
//
// Lanes must not depend on each other but through such a reduction. What cannot be vectorized stays a serial loop.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> Vectorize(Func f);
}  // namespace cinn_like::ir
