// What a condition that is the same for all lanes of a vector does not choose is not read: a vector is read before it
// is chosen or dropped, where single elements are read as they are chosen. What other values need as well is read
// anyway; registers and shared memory are near. For kernels, whose threads take branches together as most do.
//
//   for l in 0..4 @vectorized { y[l] = select(i < m, x[l], z[l]) }
//     =>
//   for l in 0..4 @vectorized { y[l] = select(i < m, x[l; i < m], z[l; m <= i]) }
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> ReadChosen(Func f);
}  // namespace cinn_like::ir
