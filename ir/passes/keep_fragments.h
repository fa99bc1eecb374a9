#pragma once
#include "cinn_like/base/device_kind.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

// Shared memory that matrix units alone read, as their left operand (ir/mma.h), and that each warp's threads write for
// themselves in the order in which such a unit gives results, is the warp's own:
//   alloc p: bf16[128, 64] @shared      ->  alloc p: bf16[128, 64] @warp
// Its elements stay where they are computed, in registers, and nobody waits for them. On devices with matrix units.
StatusOr<Func> KeepFragments(Func f, const LaunchLimits& limits = {});

}  // namespace cinn_like::ir
