#include "runtime/device_api.h"

#include <optional>

#include "cinn_like/base/tensor.h"
#include "runtime/last_error.h"
#include "runtime/timeline.h"

namespace cinn_like {

StatusOr<std::unique_ptr<DeviceModule>> DeviceApi::Load(std::string_view) {
  return Unimplemented("this kind of device has no kernels to load");
}

Status DeviceApi::MakeTensorMap(void*, DType, const TensorMapSpec&, const CinnCallEnv& env) {
  return Unimplemented(Describe(env.device), ": this kind of device has no copy engine that kernels ask");
}

Status DeviceApi::Launch(void*, const LaunchShape&, void**, const CinnCallEnv& env) {
  return Unimplemented(Describe(env.device), ": this kind of device launches no kernels");
}

StatusOr<Target> ResolveTarget(const Target& target, const RuntimeDevice& device) {
  if (target.arch != "native") return target;
  const std::string what = Cat("target '", target.Print(), "' names no arch");
  StatusOr<DeviceApi*> api = device.api();
  if (!api.ok()) return Annotate(api.status(), what);
  ASSIGN_OR_RETURN(const int count, (*api)->Count());
  std::optional<Target> common;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Target detected, (*api)->Detect(i));
    if (common && common->arch != detected.arch) {
      return InvalidArgument(what, " and devices differ: ", common->arch, " and ", detected.arch);
    }
    common = std::move(detected);
  }
  if (!common) return InvalidArgument(what, " and there is no device");
  return target.ResolvedBy(*common);
}

}  // namespace cinn_like

extern "C" int32_t cinn_launch(const cinn_like::RuntimeDevice* device, void* kernel, int64_t gx, int64_t gy, int64_t gz,
                               int64_t bx, int64_t by, int64_t bz, int64_t shared_bytes, void** params,
                               const CinnCallEnv* env) {
  using namespace cinn_like;
  const TimelineSpan span("launch");
  if (gx == 0 || gy == 0 || gz == 0) return 0;
  const auto launch = [&]() -> Status {
    ASSIGN_OR_RETURN(DeviceApi * api, device->api());
    return api->Launch(kernel, {{gx, gy, gz}, {bx, by, bz}, shared_bytes}, params, *env);
  };
  const Status status = launch();
  if (status.ok()) [[likely]]
    return 0;
  return SetLastError(status);
}

extern "C" int32_t cinn_tensor_map(const cinn_like::RuntimeDevice* device, void* map, void* address, int64_t dtype,
                                   int64_t rank, const int64_t* numbers, const CinnCallEnv* env) {
  using namespace cinn_like;
  const auto make = [&]() -> Status {
    ASSIGN_OR_RETURN(DeviceApi * api, device->api());
    const auto list = [&](int64_t k) { return std::span(numbers + k * rank, static_cast<size_t>(rank)); };
    return api->MakeTensorMap(map, static_cast<DType>(dtype), {address, list(0), list(1), list(2)}, *env);
  };
  const Status status = make();
  if (status.ok()) [[likely]]
    return 0;
  return SetLastError(status);
}
