#include "backends/device_compiler.h"

#include "backends/cuda_compiler.h"

namespace cinn_like {

StatusOr<std::unique_ptr<DeviceCompiler>> MakeDeviceCompiler(const Target& target, const CompileOptions& options,
                                                             ObjectCache* cache) {
  if (!target.HasKernels()) return std::unique_ptr<DeviceCompiler>();
  if (target.device == &CudaKind()) return MakeCudaCompiler(target, options, cache);
  return Unimplemented("no compiler for device target '", target.Print(), "'");
}

}  // namespace cinn_like
