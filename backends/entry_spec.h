// The argument check of an entry function, from its parameters and what is known of its symbols.
//
//   func @f(x: f32[n,4], y: f32[n] out) where n in 1..64 @entry  ->  f(x: f32[n,4]) -> f32[n], n in 1..64
#pragma once
#include "cinn_like/base/device_kind.h"
#include "cinn_like/base/status.h"
#include "ir/stmt.h"
#include "runtime/arg_spec.h"

namespace cinn_like {

// One entry per parameter, in order; one symbol per func.symbols, in order.
// `device` is the one that func.device names.
StatusOr<ArgSpec> MakeArgSpec(const ir::Func& func, const DeviceKind& device);

}  // namespace cinn_like
