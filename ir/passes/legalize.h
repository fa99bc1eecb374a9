// Leaves the operators that backends have: integer / and % become tdiv and tmod, with a correction only where operands
// may be negative, and arithmetic on 16-bit floats goes through f32.
//
//   (i + 7) / 8        ->  tdiv(i + 7, 8)                               with 0 <= i
//   j / 8              ->  tdiv(j, 8) - i64(tmod(j, 8) < 0)
//   y: bf16;  a + b    ->  bf16(f32(a) + f32(b))
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> Legalize(Func f);
}  // namespace cinn_like::ir
