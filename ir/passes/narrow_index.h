// Index arithmetic of kernels in 32 bits, where bounds prove that every index fits: a GPU computes those twice as fast.
//
//   y[blockIdx * 256 + threadIdx] with the loops' extents known   =>   the same in i32
//
// Loop variables become i32 with their extents; an index whose range is not known to fit keeps i64 (its variables are
// converted), as does data until its range is known: i32(max(min(i[k], 99), 0)) * 384. Scalar parameters stay i64 and
// are converted where they are used.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> NarrowIndex(Func f);

// Comparisons of ramps in 32 bits, where bounds prove that both sides fit: on CPUs masks are then as wide as most
// elements that they are of.
//
//   broadcast(2, 8) < ramp(i * 8, 1, 8)   =>   broadcast(2i32, 8) < ramp(i32(i * 8), 1i32, 8)
StatusOr<Func> NarrowLanes(Func f);
}  // namespace cinn_like::ir
