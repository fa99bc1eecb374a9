// What a device target adds to a host compiler: kernels -> source text -> code on devices.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "ir/stmt.h"

namespace cinn_like {

// Loaded kernels; freed with this.
class DeviceCode {
 public:
  virtual ~DeviceCode() = default;
  // What <name>_kernel_ptr_ holds: the handle for the launch call. NotFound names the kernel.
  virtual StatusOr<void*> Kernel(const std::string& name) = 0;
};

class DeviceCompiler {
 public:
  virtual ~DeviceCompiler() = default;
  // Source text of the module's kernels.
  virtual StatusOr<std::string> EmitSource(const ir::Module& module) = 0;
  // Compiles the kernels, from `source` where it is not empty, and loads them.
  virtual StatusOr<std::unique_ptr<DeviceCode>> Build(const ir::Module& module, std::string_view source) = 0;
};

// Null for targets that run on the host. Unimplemented where this build knows the device's name only.
StatusOr<std::unique_ptr<DeviceCompiler>> MakeDeviceCompiler(const Target& target, const CompileOptions& options);

}  // namespace cinn_like
