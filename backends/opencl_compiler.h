// Kernels of a module -> one program of OpenCL C, as runtime/opencl_module.h takes it. Equal kernels (but for names)
// are in it once. The driver of each device compiles it when it is loaded, so no device is needed here.
#pragma once
#include <memory>

#include "backends/device_compiler.h"

namespace cinn_like {

std::unique_ptr<DeviceCompiler> MakeOpenClCompiler(const Target& target, const CompileOptions& options,
                                                   ObjectCache* cache);

}  // namespace cinn_like
