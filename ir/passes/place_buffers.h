// Allocations move to the innermost sequence that holds all of their uses and shrink to what is live there.
//
//   alloc e: f32[n, 4096] @local
//   for p in 0..n @blockIdx.x {
//     for t in 0..256 @threadIdx.x { for k in 0..2 { for v in 0..8 { e[p, k*2048 + t*8 + v] = ... } } }
//     for u in 0..256 @threadIdx.x { ... e[p, k*2048 + u*8 + v] ... }
//   }   =>   for p ... { alloc e: f32[1, 16] @local;  ... e[0, k*8 + v] = ... }
//
// What the surrounding loops fix falls away in each dimension. A local buffer also loses the digit that says which
// thread: all uses must have the same one, else threads would exchange data through private memory, which is an error
// naming the buffer. On a CPU, what has no constant size then, or no room on the stack, becomes global. Runs after
// lower_blocks, on allocations of scope local and shared.
#pragma once
#include <cstdint>

#include "ir/stmt.h"

namespace cinn_like::ir {
// Of all local memory of a CPU's function together: it runs on whatever stack the caller has, inside of other
// functions.
inline constexpr int64_t kMaxStackBytes = int64_t{1} << 20;

StatusOr<Func> PlaceBuffers(Func f);
}  // namespace cinn_like::ir
