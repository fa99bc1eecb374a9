// Under --cinn_check_bounds: every access of lowered code that is not known to stay in its buffer is asked first, and
// the function fails instead of touching other memory.
//
//   y[i] = x[j + 1; j < 7] * 2.0
//     =>
//   if j < 7 { if 8 <= j + 1 { call cinn_bounds_error("@f loads x[j + 1] outside of it", j + 1, 8) } }
//   y[i] = x[j + 1; j < 7] * 2.0
//
// Masked accesses are asked under their mask, vectors at their ends. A parallel loop with questions inside becomes
// serial: the text of an error belongs to the thread that fails, which is then the caller's. On a device without
// host code the first thread to fail leaves a report (Dialect::bounds_error) and its kernel.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> CheckBounds(Func f);
}  // namespace cinn_like::ir
