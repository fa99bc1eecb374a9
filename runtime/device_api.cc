#include "runtime/device_api.h"

#include <optional>

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

StatusOr<Target> ResolveTarget(const Target& target) {
  if (target.arch != "native") return target;
  const std::string what = Cat("target '", target.Print(), "' names no arch");
  StatusOr<DeviceApi*> api = DeviceApi::Get(kDLCUDA);
  if (!api.ok()) return Annotate(api.status(), what);
  ASSIGN_OR_RETURN(const int count, (*api)->Count());
  std::optional<Target> common;
  for (int device = 0; device < count; ++device) {
    ASSIGN_OR_RETURN(Target detected, (*api)->Detect(device));
    if (common && common->arch != detected.arch) {
      return InvalidArgument(what, " and devices differ: ", common->arch, " and ", detected.arch);
    }
    common = std::move(detected);
  }
  if (!common) return InvalidArgument(what, " and there is no device");
  return target.ResolvedBy(*common);
}

}  // namespace cinn_like
