// @vectorized loops of constant extent become vector expressions.
//
//   for v in 0..8 @vectorized { y[i * 8 + v] = x[i * 8 + v] * a }   =>   y[ramp(i * 8, 1, 8)] = x[ramp(i * 8, 1, 8)] *
//   broadcast(a, 8) if j * 8 + v < n {...}  around                                  =>   masks of loads and stores for
//   k in 0..n { for v @vectorized { s[0] = s[0] + x[k * 8 + v] } }
//     =>  lanes[ramp(0, 1, 8)] = 0; for k { lanes = lanes + x[ramp(k * 8, 1, 8)] }; s[0] = s[0] + lane_add(lanes)
//   for v in 0..8 @vectorized { let t = s[0] + x[v]; s[0] = t; y[v] = t }, a step of a scan
//     =>  let a = x[ramp(0, 1, 8)]; let b = select(ramp(0, 1, 8) >= 1, lane_shift(a, 1) + a, a); ...; y[..] = s[0] + d
//
// Lanes must not depend on each other but through such a reduction or scan. What cannot be vectorized stays a serial
// loop.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> Vectorize(Func f);
}  // namespace cinn_like::ir
