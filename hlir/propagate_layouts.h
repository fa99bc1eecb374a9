// Values between stages lie in memory as the images do that they are computed from: where the caller's lie with their
// channels last, so do results of convolutions, of pools and of what is computed of them element by element, as
// frameworks have it.
//   conv[n, o, h, w] = sum(x[n, r, h + y, w + z] * k[o, r, y, z]), x with strides [h*w*c, 1, w*c, c]
//   ->  conv[n, h, w, o] = ..., and readers read conv[n, h, w, o]
// A layout is an index map: a stage runs over its iterators in another order, the loads of its results are permuted,
// and no stage is added. What the caller hands over and gets stays as it is. Runs before fusion, for devices with
// kernels; on CPUs the order of images was measured to make no difference (docs/performance.md).
#pragma once
#include "ir/te.h"

namespace cinn_like::hlir {

ir::TeProgram PropagateLayouts(ir::TeProgram program);

}  // namespace cinn_like::hlir
