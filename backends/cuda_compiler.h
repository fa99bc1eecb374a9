// Kernels of a module -> CUDA C++ -> machine code for one arch. Equal kernels (but for names) compile once; the others
// are spread over a few programs that compile in parallel: by NVRTC, by nvcc (the flag cinn_cuda_compiler) or by a
// function of the caller's (SourceHooks::compile). A caller's source is one program. No GPU is needed.
//
//   @a_kernel, @b_kernel (equal), @c_kernel  ->  images {a and c}, a -> 0/k3f..., b -> 0/k3f..., c -> 0/k81...
#pragma once
#include <memory>

#include "backends/device_compiler.h"

namespace cinn_like {

std::unique_ptr<DeviceCompiler> MakeCudaCompiler(const Target& target, const CompileOptions& options,
                                                 ObjectCache* cache);

}  // namespace cinn_like
