#include "runtime/prepared_state.h"

#include <algorithm>

#include "cinn_like/base/tensor.h"
#include "runtime/last_error.h"
#include "runtime/timeline.h"
#include "runtime/workspace.h"

namespace cinn_like {
namespace {
// A type's members are private to it.
template <class Slot>
struct AllocContext {
  std::vector<Slot>* slots;
  const CinnCallEnv* caller;
  const RuntimeDevice* kind;
};
}  // namespace

PreparedState::~PreparedState() { Clear(); }

// Kernels in flight may read the memory.
void PreparedState::Free(DLDevice device, std::vector<Slot>& slots) const {
  const StatusOr<DeviceApi*> api = kind_.api();
  const bool any = std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return s.data != nullptr; });
  if (!any || !api.ok()) return;
  (void)(*api)->SynchronizeDevice(device.device_id);
  for (Slot& slot : slots) {
    if (slot.data != nullptr) (*api)->Free(device.device_id, slot.data);
    slot = {};
  }
}

void PreparedState::Clear() {
  prepared_ = false;
  if (is_owner_) Free(device_, slots_);
  is_owner_ = true;
  const StatusOr<DeviceApi*> api = kind_.api();
  if (event_ != nullptr && api.ok()) (*api)->DestroyEvent(device_.device_id, event_);
  event_ = nullptr;
}

Status PreparedState::AwaitEvent(void* stream) const {
  ASSIGN_OR_RETURN(DeviceApi * api, kind_.api());
  if (api->IsDone(device_.device_id, event_)) {
    done_.store(true, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  return api->WaitForEvent(device_.device_id, stream, event_);
}

int64_t PreparedState::TotalBytes() const {
  int64_t total = 0;
  for (const Slot& slot : slots_) total += slot.bytes;
  return total;
}

void PreparedState::Borrow(const std::vector<void*>& slots) {
  Clear();
  slots_.clear();
  for (void* data : slots) slots_.push_back({data, 0});
  device_ = {kDLCPU, 0};
  is_owner_ = false;
  prepared_ = true;
}

int32_t PreparedState::AllocSlot(void* context, int32_t index, DLTensor* spec) {
  const auto& call = *static_cast<AllocContext<Slot>*>(context);
  const auto allocate = [&]() -> Status {
    RET_CHECK(static_cast<size_t>(index) < call.slots->size(), "slot ", index, " of ", call.slots->size());
    const int64_t bytes = NumBytes(*spec);
    ASSIGN_OR_RETURN(DeviceApi * api, call.kind->api());
    ASSIGN_OR_RETURN(spec->data, api->Alloc(spec->device.device_id, bytes, call.caller->stream));
    (*call.slots)[static_cast<size_t>(index)] = {spec->data, bytes};
    return absl::OkStatus();
  };
  if (index >= 0) return SetLastError(allocate());
  spec->data = cinn_alloc_workspace(call.kind, call.caller, spec->shape[0]);
  return spec->data == nullptr ? -1 : 0;
}

Status PreparedState::Prepare(CinnFunctionPtr prepare, const CinnValue* args, int32_t num_args,
                              const CinnCallEnv& env) {
  const TimelineSpan span("prepare");
  std::vector<Slot> fresh(slots_.size());
  AllocContext<Slot> context{&fresh, &env, &kind_};
  CinnCallEnv own = env;
  own.context = &context;
  own.alloc = &AllocSlot;
  own.free = [](void* c, void* data) {
    const auto& call = *static_cast<AllocContext<Slot>*>(c);
    cinn_free_workspace(call.kind, call.caller, data);
  };
  own.release = nullptr;
  std::vector<CinnValue> values(args, args + num_args);
  values.resize(values.size() + slots_.size(), CinnValue{});  // the slots: results to be allocated
  const int32_t code = prepare(nullptr, values.data(), static_cast<int32_t>(values.size()), &own);
  Status status = code == 0 ? absl::OkStatus() : LastErrorStatus(code);
  void* event = nullptr;
  if (status.ok()) {
    const auto record = [&]() -> Status {
      ASSIGN_OR_RETURN(DeviceApi * api, kind_.api());
      ASSIGN_OR_RETURN(event, api->RecordEvent(env.device.device_id, env.stream));
      return absl::OkStatus();
    };
    status = record();
  }
  Clear();
  if (!status.ok()) {
    Free(env.device, fresh);
    return status;
  }
  slots_ = std::move(fresh);
  device_ = env.device;
  stream_ = env.stream;
  event_ = event;
  done_.store(false, std::memory_order_relaxed);
  prepared_ = true;
  return absl::OkStatus();
}

}  // namespace cinn_like
