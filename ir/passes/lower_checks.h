// What expressions check becomes statements before those that evaluate them.
//
//   y[i] = x[checked("op 3, gather", j[i; m], 0, n)]
//     =>
//   if m && (j[i; m] < 0 || n <= j[i; m]) { call cinn_range_error("op 3, gather", j[i; m], 0, n) }
//   y[i] = x[j[i; m]]
//
// A parallel loop with such a call inside becomes serial: the text of an error belongs to the thread that fails, which
// is then the caller's. Kernels assert.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> LowerChecks(Func f);
}  // namespace cinn_like::ir
