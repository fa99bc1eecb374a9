// What a device target adds to a host compiler: kernels -> source text -> code for devices.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "backends/object_cache.h"
#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "ir/stmt.h"
#include "runtime/kernel_images.h"

namespace cinn_like {

class DeviceCompiler {
 public:
  virtual ~DeviceCompiler() = default;
  // Source text of the module's kernels, for people: equal kernels once.
  virtual StatusOr<std::string> EmitSource(const ir::Module& module) = 0;
  // Compiles the kernels, from `source` where it is not empty: it must define each under its name. Needs no device.
  virtual StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view source) = 0;
};

// Null for targets that run on the host. Unimplemented where this build knows the device's name only. `cache` may be
// null.
StatusOr<std::unique_ptr<DeviceCompiler>> MakeDeviceCompiler(const Target& target, const CompileOptions& options,
                                                             ObjectCache* cache);

}  // namespace cinn_like
