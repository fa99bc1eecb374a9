// Software pipelining of loops of kind pipelinedN: the statements of the body that fill shared memory (and nothing
// else) run N - 1 iterations ahead, into one of N copies of that memory, so that they wait for memory while earlier
// iterations compute. What they move may be copied asynchronously (ir/stmt.h, Barrier). After place_buffers.
//
//   for k in 0..K @pipelined2 { alloc s; fill(s, k); use(s, k) }  ->
//     alloc s[2]; begin copies; fill(s[0], 0); commit copies
//     for k in 0..K {
//       await copies 0; barrier
//       begin copies; if k + 1 < K { fill(s[(k + 1) % 2], k + 1) }; commit copies
//       use(s[k % 2], k)
//     }
//
// A nest of kind wgmma_m64k16 reads its operands until the next iteration's has begun: then statements run N - 2
// iterations ahead (N > 2), and no copy is filled before the barrier behind the iteration after its own.
//
// Copies and uses of an iteration touch no memory of each other: a backend may mix them. The shared memory must be
// allocated in the loop, and nothing but statements of its own may fill it. A loop that is filled ahead already, and
// begins with `await copies`, stays.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> LowerPipeline(Func f);
}  // namespace cinn_like::ir
