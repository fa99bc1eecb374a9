// Puts a block barrier wherever threads would read shared memory that other threads may still write, or write what
// others may still read: between statements, and at the end of a serial loop whose next iteration would.
//
//   s[t] = x[t];  y[t] = s[255 - t]   =>   s[t] = x[t];  barrier;  y[t] = s[255 - t]
//
// A barrier that some threads, or a shuffle that some of a warp would not reach (in a loop over fewer threads than the
// block has, or under a condition that differs between them) is an error. Thread loops are transparent: every thread of
// the block passes through them. Runs after lower_blocks.
#pragma once
#include "cinn_like/base/device_kind.h"
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> InsertBarriers(Func f, const LaunchLimits& limits = {});
}  // namespace cinn_like::ir
