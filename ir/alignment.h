// What kernels take a framework's tensor to be aligned to. An entry for a GPU copies inputs that are not; code for a
// CPU relies on no more than the element's size. Kernels' parameters say so (hlir/fusion.cc), entries check (backends).
#pragma once

namespace cinn_like::ir {
inline constexpr int kTensorAlignment = 16;  // bytes
}  // namespace cinn_like::ir
