// Every outermost nest of loops bound to device axes becomes a kernel, and a launch of it in its place:
//
//   func @f(x: f32[n], y: f32[n]) {                 func @f(...) { launch @f_kernel grid((n + 255) / 256, 1, 1)
//     for b in 0..(n + 255) / 256 @blockIdx.x {         block(256, 1, 1) shared 0 (&x[0], &y[0], n) }
//       for t in 0..256 @threadIdx.x { ... }    =>  func @f_kernel kernel (x: f32[n], y: f32[n], n: i64) {
//     } }                                             for b ... @blockIdx.x { for t ... @threadIdx.x { ... } } }
//
// Kernels are named <fn>_kernel, <fn>_kernel_1, ... in order. Loops on one axis get the largest of their extents, and a
// guard where theirs is smaller. Thread extents are constants; block extents are computed on the host. What touches
// tensors outside of such a nest, or cannot be launched, is an error naming the function. `limits` are the device's.
#pragma once
#include "cinn_like/base/device_kind.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

StatusOr<Module> SplitHostDevice(Module m, const LaunchLimits& limits = {});

// The bytes of shared memory that a kernel must be launched with: 0 while its arrays fit in what every device gives a
// kernel (48 KB), else their sum. Each array starts at a multiple of 16.
int64_t DynamicSharedBytes(const Stmt& kernel_body);
inline constexpr int64_t kSharedAlignment = 16;
int64_t SharedBytesOf(Buffer b);  // of one array, with its padding; the size must be constant

}  // namespace cinn_like::ir
