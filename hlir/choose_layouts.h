// In which order the dimensions of a value lie that goes from kernel to kernel: as given, or with the channels last
// where contractions of windows, and what lies between them, are predicted to take less time so.
//   t[n, c, h, w] = relu(conv(x, w))   ->   t[n, h, w, c] = relu(conv(x, w)), and readers read t[n, h, w, c]
// A layout is an index map: the stage that computes the value runs over other iterators, the accesses of its readers
// are permuted with it, and no stage is added. What the caller hands over and gets stays as it is. Groups are formed
// before: what stays inside of a kernel needs no layout, and prices are those of the kernels. On GPUs nothing changes.
#pragma once
#include <functional>
#include <span>

#include "cinn_like/base/pass_pipeline.h"
#include "hlir/fusion.h"

namespace cinn_like::hlir {

// `seconds`: what a kernel is predicted to take.
StatusOr<FusionPlan> ChooseLayouts(FusionPlan plan, const std::function<double(const ir::TeProgram&)>& seconds);

// What runs between fusion and the kernels.
std::span<const Pass<FusionPlan>> FusionPasses();

}  // namespace cinn_like::hlir
