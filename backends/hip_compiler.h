// Kernels of a module -> one HIP C++ program -> a code object for one arch of AMD's GPUs. Equal kernels (but for names)
// are in it once. The compiler is clang (ROCm's, or Debian's clang-19 with lld-19), run as a process of its own; no
// GPU, and of ROCm at most the library of device functions ocml.bc is needed:
//
//   clang++ -x hip --offload-arch=gfx90a --cuda-device-only -nogpuinc -nogpulib ...
//
// Without ocml.bc there are exp, exp2, log, sqrt, rsqrt, tanh and erf of f32, sqrt of f64, roundings and fma of both;
// what else a kernel calls is an error that says so.
#pragma once
#include <memory>

#include "backends/device_compiler.h"

namespace cinn_like {

std::unique_ptr<DeviceCompiler> MakeHipCompiler(const Target& target, const CompileOptions& options,
                                                ObjectCache* cache);

}  // namespace cinn_like
