// Vectors whose lanes lie apart in memory, an access for each of them, are read once before a loop that does not move
// them. Of host code, after vectorization: LLVM moves no gather across stores.
//
//   for s in 0..32 { y[ramp(s * 320, 1, 16)] = x[ramp(s * 320, 1, 16)] * w[tdiv(ramp(0, 1, 16), broadcast(10, 16))] }
//     =>
//   let lanes = w[tdiv(ramp(0, 1, 16), broadcast(10, 16))]
//   for s in 0..32 { y[ramp(s * 320, 1, 16)] = x[ramp(s * 320, 1, 16)] * lanes }
//
// What the loop reads under a condition that it moves, or writes, stays in it, and so does everything of a loop that
// may run not at all. One that all iterations answer alike, as at the end of lines, is asked before.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> HoistGathers(Func f);
}  // namespace cinn_like::ir
