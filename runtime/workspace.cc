#include "runtime/workspace.h"

#include "cinn_like/base/tensor.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

// Else from the device's pool.
bool IsCallers(const RuntimeDevice& device, const CinnCallEnv& env) {
  return env.alloc != nullptr && env.free != nullptr && device.address == nullptr;
}

StatusOr<void*> AllocWorkspace(const RuntimeDevice& device, const CinnCallEnv& env, int64_t bytes) {
  if (bytes < 0) return InvalidArgument("workspace of ", bytes, " bytes");
  if (!IsCallers(device, env)) {
    ASSIGN_OR_RETURN(DeviceApi * api, device.api());
    return api->AllocWorkspace(env.device.device_id, bytes, env.stream);
  }
  int64_t stride = 1;
  DLTensor t{};
  t.device = env.device;
  t.dtype = {kDLUInt, 8, 1};
  t.ndim = 1;
  t.shape = &bytes;
  t.strides = &stride;
  if (const int32_t code = env.alloc(env.context, -1, &t); code != 0 || (t.data == nullptr && bytes != 0)) {
    return absl::ResourceExhaustedError(
        Cat("workspace of ", bytes, " bytes on ", Describe(env.device), ": the caller's allocator failed with ", code));
  }
  return DataOf(t);
}

}  // namespace
}  // namespace cinn_like

extern "C" void* cinn_alloc_workspace(const cinn_like::RuntimeDevice* device, const CinnCallEnv* env, int64_t bytes) {
  const cinn_like::StatusOr<void*> data = cinn_like::AllocWorkspace(*device, *env, bytes);
  if (data.ok()) return *data;
  cinn_like::SetLastError(data.status());
  return nullptr;
}

extern "C" void cinn_free_workspace(const cinn_like::RuntimeDevice* device, const CinnCallEnv* env, void* data) {
  if (data == nullptr) return;
  if (cinn_like::IsCallers(*device, *env)) return env->free(env->context, data);
  const auto api = device->api();
  if (api.ok()) (*api)->FreeWorkspace(env->device.device_id, data, env->stream);
}
