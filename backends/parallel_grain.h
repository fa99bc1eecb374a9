// How many iterations of a parallel loop one thread takes at a time, so that a piece is worth its start.
//
//   for i in 0..n @parallel { for j in 0..m { y[i * m + j] = exp(x[i * m + j]) } }  ->  max(16000 tdiv (24 * m), 1)
//
// The expression uses variables that are visible at the loop, no loop variable of its body.
#pragma once
#include "ir/stmt.h"

namespace cinn_like {

ir::Expr ParallelGrain(ir::Context& c, const ir::For& loop);

}  // namespace cinn_like
