// Simplifies every expression with what the symbols, loops and conditions around it say, and drops what never runs.
//
//   for i in 0..n { for j in 0..1 { if i < n { y[i + j] = x[i * 1] } } }   =>   for i in 0..n { y[i] = x[i] }
//
// Loops of extent 1 go (but for thread and block axes, which shape the launch), and those of extent 0; so do lets of
// constants and variables.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> Simplify(Func f);
}  // namespace cinn_like::ir
