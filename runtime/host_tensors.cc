#include "runtime/host_tensors.h"

#include <algorithm>

#include "cinn_like/base/tensor.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

bool IsOnHost(const DLTensor& t) { return t.device.device_type == kDLCPU || t.device.device_type == kDLCUDAHost; }

Status CheckIsOnHost(const DLTensor& t) {
  return IsOnHost(t) ? absl::OkStatus() : InvalidArgument("expected a tensor of the host, got ", Describe(t));
}

// 0: there is nothing to copy, or a tensor so wrong that the function's own check of arguments refuses it.
int64_t BytesToCopy(const DLTensor& t) {
  if (t.data == nullptr || t.ndim < 0 || (t.ndim > 0 && t.shape == nullptr)) return 0;
  return std::max<int64_t>(SpanBytes(t), 0);
}

}  // namespace

Status KeptTensor::Take(const DevicePlace& place, const DLTensor& from) {
  RETURN_IF_ERROR(CheckIsOnHost(from));
  place_ = place;
  const int64_t bytes = BytesToCopy(from);
  tensor_ = from;
  tensor_.device = place.device;
  tensor_.data = nullptr;
  tensor_.byte_offset = 0;
  if (from.shape != nullptr) shape_.assign(from.shape, from.shape + from.ndim);
  if (from.strides != nullptr) strides_.assign(from.strides, from.strides + from.ndim);
  tensor_.shape = from.shape != nullptr ? shape_.data() : nullptr;
  tensor_.strides = from.strides != nullptr ? strides_.data() : nullptr;
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(tensor_.data, place.api->Alloc(place.device.device_id, bytes, nullptr));
  return place.Copy(tensor_.data, DataOf(from), bytes);
}

void KeptTensor::Clear() {
  if (tensor_.data != nullptr) place_.api->Free(place_.device.device_id, tensor_.data);
  tensor_.data = nullptr;
}

HostTensorsCall::~HostTensorsCall() {
  if (!is_done_) (void)place_.api->Synchronize(place_.device.device_id, nullptr);  // it may still read arguments
  for (void* block : blocks_) place_.api->FreeWorkspace(place_.device.device_id, block, nullptr);
}

Status HostTensorsCall::Add(const CinnValue& value, bool is_result, DLTensor* there) {
  CinnValue& v = values_.emplace_back(value);
  if (there != nullptr) {
    v.tag = kCinnTensor;
    v.tensor = there;
    return absl::OkStatus();
  }
  if (value.tag != kCinnTensor || value.tensor == nullptr) return absl::OkStatus();
  const DLTensor& host = *value.tensor;
  RETURN_IF_ERROR(CheckIsOnHost(host));
  DLTensor& t = tensors_.emplace_back(host);
  v.tensor = &t;
  t.device = place_.device;
  t.byte_offset = 0;
  t.data = nullptr;
  const int64_t bytes = BytesToCopy(host);
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(t.data, Allocate(bytes));
  if (is_result) results_.push_back({DataOf(host), t.data, bytes});
  // Between the elements of a result there may be others.
  if (is_result && bytes == NumBytes(host)) return absl::OkStatus();
  return place_.Copy(t.data, DataOf(host), bytes);
}

Status HostTensorsCall::Run(CinnFunctionPtr entry, void* self) {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = place_.device;
  env.context = this;
  if (caller_.alloc != nullptr) env.alloc = &AllocateResult;
  if (caller_.release != nullptr) {
    env.release = [](void* context, int32_t index) {
      const CinnCallEnv& caller = static_cast<HostTensorsCall*>(context)->caller_;
      caller.release(caller.context, index);
    };
  }
  const int32_t code = entry(self, values_.data(), static_cast<int32_t>(values_.size()), &env);
  RETURN_IF_ERROR(failure_);
  if (code != 0) return LastErrorStatus(code);
  for (const Result& r : results_) RETURN_IF_ERROR(place_.Copy(r.host, r.device, r.bytes));
  RETURN_IF_ERROR(place_.api->Synchronize(place_.device.device_id, nullptr));
  is_done_ = true;
  return absl::OkStatus();
}

StatusOr<void*> HostTensorsCall::Allocate(int64_t bytes) {
  ASSIGN_OR_RETURN(void* block, place_.api->AllocWorkspace(place_.device.device_id, bytes, nullptr));
  blocks_.push_back(block);
  return block;
}

// On the host by the caller, and on the device.
int32_t HostTensorsCall::AllocateResult(void* context, int32_t index, DLTensor* spec) {
  auto& call = *static_cast<HostTensorsCall*>(context);
  DLTensor host = *spec;
  host.device = {kDLCPU, 0};
  if (const int32_t code = call.caller_.alloc(call.caller_.context, index, &host); code != 0) return code;
  const int64_t bytes = NumBytes(*spec);
  const StatusOr<void*> block = call.Allocate(bytes);
  if (!block.ok()) return SetLastError(call.failure_ = block.status());
  spec->data = *block;
  if (bytes > 0) call.results_.push_back({DataOf(host), *block, bytes});
  return 0;
}

}  // namespace cinn_like
