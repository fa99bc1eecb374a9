#include "runtime/prepared_state.h"

#include "cinn_like/base/tensor.h"
#include "runtime/device_api.h"
#include "runtime/last_error.h"
#include "runtime/timeline.h"
#include "runtime/workspace.h"

namespace cinn_like {
namespace {
struct AllocContext {
  PreparedState* state;
  const CinnCallEnv* caller;
};
}  // namespace

PreparedState::~PreparedState() { Clear(); }

void PreparedState::Clear() {
  prepared_ = false;
  const StatusOr<DeviceApi*> api = DeviceApi::Get(device_.device_type);
  for (Slot& slot : slots_) {
    if (slot.data != nullptr && api.ok()) (*api)->Free(device_.device_id, slot.data);
    slot = {};
  }
}

int64_t PreparedState::TotalBytes() const {
  int64_t total = 0;
  for (const Slot& slot : slots_) total += slot.bytes;
  return total;
}

int32_t PreparedState::AllocSlot(void* context, int32_t index, DLTensor* spec) {
  PreparedState& state = *static_cast<AllocContext*>(context)->state;
  const auto allocate = [&]() -> Status {
    RET_CHECK(index < state.num_slots(), "slot ", index, " of ", state.num_slots());
    const int64_t bytes = NumBytes(*spec);
    Slot& slot = state.slots_[index];
    if (slot.data == nullptr || slot.bytes != bytes) {
      ASSIGN_OR_RETURN(DeviceApi * api, DeviceApi::Get(spec->device.device_type));
      ASSIGN_OR_RETURN(void* data, api->Alloc(spec->device.device_id, bytes));
      if (slot.data != nullptr) api->Free(spec->device.device_id, slot.data);
      slot = {data, bytes};
    }
    spec->data = slot.data;
    return absl::OkStatus();
  };
  if (index >= 0) return SetLastError(allocate());
  spec->data = cinn_alloc_workspace(static_cast<AllocContext*>(context)->caller, spec->shape[0]);
  return spec->data == nullptr ? -1 : 0;
}

Status PreparedState::Prepare(CinnFunctionPtr prepare, const CinnValue* args, int32_t num_args,
                              const CinnCallEnv& env) {
  const TimelineSpan span("prepare");
  if (env.device.device_type != device_.device_type || env.device.device_id != device_.device_id) Clear();
  device_ = env.device;
  prepared_ = false;
  AllocContext context{this, &env};
  CinnCallEnv own = env;
  own.context = &context;
  own.alloc = &AllocSlot;
  own.free = [](void* c, void* data) { cinn_free_workspace(static_cast<AllocContext*>(c)->caller, data); };
  own.release = nullptr;
  std::vector<CinnValue> values(args, args + num_args);
  values.resize(values.size() + slots_.size(), CinnValue{});  // the slots: results to be allocated
  const int32_t code = prepare(nullptr, values.data(), static_cast<int32_t>(values.size()), &own);
  if (code != 0) {
    Clear();
    return LastErrorStatus(code);
  }
  prepared_ = true;
  return absl::OkStatus();
}

}  // namespace cinn_like
