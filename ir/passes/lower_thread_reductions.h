// A reduction over a thread-bound loop becomes partial results, warp shuffles and, across warps, shared memory.
//
//   for t in 0..256 @threadIdx.x { for k in 0..4 { block s(i = p, r reduce = k*256+t) init {s[i] = 0.0} {s[i] = s[i] +
//   x[i, r]} } }
//     =>
//   for t in 0..256 @threadIdx.x {
//     alloc part: f32[1] @local;  part[0] = 0.0
//     for k in 0..4 { block s(..) { part[0] = part[0] + x[i, r] } }
//     part[0] = part[0] + shuffle_xor(part[0], 16) ...  alloc red: f32[1, 8] @shared ...
//     s[p] = part[0]
//   }
//
// Every thread has the result where s is local; one thread writes it otherwise. The thread loop must hold just that
// block and all of the reduction's loops; along threadIdx.x its extent is a power of two. Where data loops of constant
// extents stand inside of it, a thread has as many parts, and threads exchange them together.
// A loop over clusterIdx.x right around it reduces with it: the warps of all the cluster's blocks exchange what they
// found. Several values (argmax) are joined by the block's own rule (ir/join.h). Barriers come from insert_barriers.
// Runs before lower_blocks.
#pragma once
#include "cinn_like/base/device_kind.h"
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> LowerThreadReductions(Func f, const LaunchLimits& limits = {});
}  // namespace cinn_like::ir
