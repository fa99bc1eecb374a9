// Expands @unrolled loops of constant extent; others, and those that would make more than 16384 statements, become
// serial.
//
//   for i in 0..2 @unrolled { y[i] = x[i] }   =>   y[0] = x[0]; y[1] = x[1]
//
// A function keeps its meaning with or without it: emitters run it where registers are to be named one by one.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> Unroll(Func f);
}  // namespace cinn_like::ir
