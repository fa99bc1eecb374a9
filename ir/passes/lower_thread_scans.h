// A scan over a thread-bound loop: each thread goes along its own elements, threads exchange what these come to, by
// shuffles where a warp has several of a scan's and through shared memory else, and what is before a thread is joined
// to what it has come to.
//
//   for o in 0..8 { for t in 0..256 @threadIdx.x { for v in 0..4 @vectorized {
//     block b(i = p, r reduce = o*1024 + t*4 + v) init {s[i] = 0.0} {let w = s[i] + x[i, r]; s[i] = w; y[i, r] = w}
//   } } }
//     =>
//   s[p] = 0.0
//   for o in 0..8 { for t in 0..256 @threadIdx.x {
//     for v in 0..4 @vectorized { e[v] = x[p, o*1024 + t*4 + v] }
//     for v in 0..4 { part[0] = part[0] + e[v];  e[v] = part[0] }
//     before[0] = what is before this thread;  part[0] = what all threads have come to   (shuffle_xor, shared memory)
//     for v in 0..4 @vectorized { y[p, o*1024 + t*4 + v] = s[p] + before[0] + e[v] }
//     s[p] = s[p] + part[0]
//   } }
//
// The thread loop, over any axis of a block and any number of threads, holds just that block and loops of constant
// extents that carry the scan; what runs is local, a copy for each thread. Shuffles need powers of two: of 64 scans
// along threadIdx.y, side by side along threadIdx.x, a warp has one thread each, of 8 it has four each. Elements that a
// predicate leaves out change nothing. A join's parts may be grouped (ir/join.h): sums round otherwise than one after
// the other. Barriers come from insert_barriers. Runs before lower_thread_reductions.
#pragma once
#include "cinn_like/base/device_kind.h"
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> LowerThreadScans(Func f, const LaunchLimits& limits = {});
}  // namespace cinn_like::ir
