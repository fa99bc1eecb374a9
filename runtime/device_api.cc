#include "runtime/device_api.h"

#include "cinn_like/base/tensor.h"

namespace cinn_like {
namespace {
struct Kind {
  DLDeviceType type;
  StatusOr<DeviceApi*> (*get)();
};
constexpr Kind kKinds[] = {{kDLCPU, GetHostDevice}, {kDLCUDA, GetCudaDevice}};
}  // namespace

StatusOr<DeviceApi*> DeviceApi::Get(DLDeviceType type) {
  std::string known;
  for (const Kind& kind : kKinds) {
    if (kind.type == type) return kind.get();
    known += Cat(known.empty() ? "" : ", ", Describe(DLDevice{kind.type, 0}));
  }
  return InvalidArgument("no device of the kind of ", Describe(DLDevice{type, 0}), "; known: ", known);
}

StatusOr<Target> DetectTarget(DLDevice device) {
  ASSIGN_OR_RETURN(DeviceApi * api, DeviceApi::Get(device.device_type));
  return api->Detect(device.device_id);
}

StatusOr<Target> ResolveTarget(const Target& target, DLDevice device) {
  if (target.arch != "native") return target;
  ASSIGN_OR_RETURN(const Target detected, DetectTarget(device));
  return target.ResolvedBy(detected);
}

}  // namespace cinn_like
