#include "backends/device_compiler.h"

namespace cinn_like {

StatusOr<std::unique_ptr<DeviceCompiler>> MakeDeviceCompiler(const Target& target, const CompileOptions&) {
  if (!target.IsGpu()) return std::unique_ptr<DeviceCompiler>();
  return Unimplemented("no compiler for device target '", target.Print(), "'");
}

}  // namespace cinn_like
