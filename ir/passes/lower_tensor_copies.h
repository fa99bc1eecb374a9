// Nests of kind tensor_copy, which one thread asks a copy engine for, as calls (ir/tensor_copy.h), with a barrier of
// memory for each copy of what a pipelined loop fills. After lower_pipeline and insert_barriers.
//
//   begin copies; for r in 0..64 @tensor_copy { ... s[0, r, c] = x[r, c] }; commit copies
//   for k in 0..K @pipelined3 { await copies 0; barrier; begin copies; ... s[(k + 1) % 3, r, c] ... }
//   ->  alloc arrivals: u64[3] @shared; call cinn_init_arrivals(&arrivals[0], 3, 1); barrier
//       begin copies; call cinn_tensor_copy(&s[0, 0, 0], &arrivals[0], ...) computes { ... }; commit copies
//       for k in 0..K @pipelined3 {
//         await copies 0; call cinn_await_copies(&arrivals[k % 3], k / 3 % 2); barrier
//         begin copies; call cinn_tensor_copy(&s[(k + 1) % 3, 0, 0], &arrivals[(k + 1) % 3], ...) ... }
//
// A nest outside of such a loop is refused: nobody would wait for it. On devices without a copy engine
// (LaunchLimits::tensor_copies) nests stay, and are loops.
#pragma once
#include "cinn_like/base/device_kind.h"
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> LowerTensorCopies(Func f, const LaunchLimits& limits = {});
}  // namespace cinn_like::ir
