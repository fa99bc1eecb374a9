// What a kernel stores to global or shared memory outside of a loop over one of its thread axes is stored by one thread
// along it instead of by all, and to global memory outside of one of its block axes by one block (private memory is
// still written by each thread, shared memory by each block).
//
//   for b in 0..n @blockIdx.x { for t in 0..256 @threadIdx.x {...}  y[b] = s[0] }
//     =>   ...  for one in 0..1 @threadIdx.x { y[b] = s[0] }
//
// What no loop over blockIdx is around gets one of a single block: all of a function whose temporaries are private,
// else each statement, as a kernel of its own.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> GuardStores(Func f);
}  // namespace cinn_like::ir
