// Asks once whether all steps of a loop of constant extent are inside, where each step asks whether it is: what is read
// then does not wait for answers, and vectors need no masks. The outermost loop that can ask does. Only where the end
// is a symbol; loops of constant ends are cut without a rest where possible.
//
//   for u in 0..8 @unrolled { if k * 8 + u < n { s[0] = s[0] + x[k * 8 + u] } }
//     =>
//   if k * 8 + 7 < n { for u in 0..8 @unrolled { s[0] = s[0] + x[k * 8 + u] } } else { (as it was) }
// In host code a loop of which the first steps are inside and the last are not is two loops, so that sums go on in
// registers from step to step, and serial loops of the last ones stop at the end:
//   for p in 0..(n + 63) / 64 { for k in 0..64 { if p * 64 + k < n { S } } }
//     =>
//   for p in 0..n / 64 { for k in 0..64 { S } }
//   for p in 0..(n + 63) / 64 - n / 64 { for k in 0..n - (n / 64 + p) * 64 { S } }
// Before that, what a condition says of no loop around it is asked before those loops, and a serial loop that does
// nothing beyond an end that is no symbol stops there:
//   for k in 0..64 { if t * 64 + k < 577 { S } }  ->  for k in 0..min(64, 577 - t * 64) { S }
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> Unswitch(Func f);
}  // namespace cinn_like::ir
