// The intermediates of an entry function share one arena: buffers whose uses do not overlap take the same place.
//
//   alloc a: f32[n, 64] @global                         alloc arena: u8[n * 256 + ...] @global align 256
//   alloc b: f32[n, 64] @global                   =>    call @k0(&x[0, 0], &arena[0])
//   call @k0(&x[0, 0], &a[0, 0])  ...                   ...
//
// A place grows to the largest buffer in it; buffers share one only where the larger size is provable, so sizes may be
// symbolic. Offsets are multiples of 256 bytes. A function without intermediates stays as it is.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> PlanMemory(Func f);
}  // namespace cinn_like::ir
