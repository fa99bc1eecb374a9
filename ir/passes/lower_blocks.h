// Removes blocks, after the last schedule primitive: iterators become their bindings, predicates conditions, and the
// init of a reduction runs before its reduction loops.
//
//   for i in 0..n { for k in 0..8 { block s(v in 0..n = i, r reduce 0..8 = k) init { y[v] = 0.0 } { y[v] = y[v] + x[v,
//   r] } } }
//     =>
//   for i in 0..n { y[i] = 0.0;  for k in 0..8 { y[i] = y[i] + x[i, k] } }
//
// The init moves out of every reduction loop that it can (data loops inside are copied for it); where another statement
// of a loop touches the output, or the loop is not sequential, it stays under `if k == 0`.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> LowerBlocks(Func f);
}  // namespace cinn_like::ir
