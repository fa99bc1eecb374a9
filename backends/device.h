// Devices: what there is to compile for. A device is one registration, whose parts say what each room needs to know of
// it: names, numbers and limits (base/device_kind.h), memory and launches (runtime/device_api.h), and the compiler of
// its kernels. docs/how_to_add.md adds one.
//
//   Devices devices = Devices::BuiltIn();                              // x86_64, cuda, opencl, hip, metal and c
//   RETURN_IF_ERROR(devices.Add({&kind, &runtime, make_compiler}));
//   ASSIGN_OR_RETURN(Target target, devices.ParseTarget("dpu -arch=dpu2"));
//   ASSIGN_OR_RETURN(auto f, CompileGraph(graph, target, options, devices));
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/device_compiler.h"
#include "cinn_like/base/device_kind.h"
#include "cinn_like/base/target.h"
#include "runtime/device_api.h"

namespace cinn_like {

// The parts are the caller's and outlive all targets and code for the device.
struct Device {
  const DeviceKind* kind = nullptr;
  const RuntimeDevice* runtime = nullptr;
  // A compiler of the kernels of one target; the cache may be null. Null: all functions are host functions.
  std::function<std::unique_ptr<DeviceCompiler>(const Target&, const CompileOptions&, ObjectCache*)> make_compiler =
      nullptr;
  SourceHooks hooks = {};  // of who compiles
};

// What make_compiler gives, with the device's hooks in place. Null for a device without kernels.
StatusOr<std::unique_ptr<DeviceCompiler>> MakeDeviceCompiler(const Device& device, const Target& target,
                                                             const CompileOptions& options, ObjectCache* cache);

// InvalidArgument for one whose functions leave as source text.
Status CheckRunsHere(const Device& device);

// A set of devices. A value: compilations are given one and keep none.
class Devices {
 public:
  static const Devices& BuiltIn();

  // InvalidArgument where a part is missing or contradicts another; AlreadyExists where a name (which an alias is, too)
  // or DLPack type is taken.
  Status Add(Device device);
  // What is compiled for the device of that name goes through `hooks` from now on, in place of those before.
  // InvalidArgument where it has no source text, or no compiler that can be replaced.
  Status SetHooks(std::string_view name, SourceHooks hooks);
  // InvalidArgument lists the names there are.
  StatusOr<Device> Find(std::string_view name) const;
  // The device that `target` names.
  StatusOr<Device> Of(const Target& target) const;
  // Target::Parse with these devices' kinds.
  StatusOr<Target> ParseTarget(std::string_view text) const;
  // Of "cpu; opencl", one or several.
  StatusOr<std::vector<Target>> ParseTargets(std::string_view text) const;

 private:
  std::vector<Device> devices_;
};

}  // namespace cinn_like
