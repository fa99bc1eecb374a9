// Calls of a function for a device by whoever has tensors of the host: arguments are copied there, results back.
#pragma once
#include <dlpack/dlpack.h>

#include <deque>
#include <vector>

#include "cinn_like/base/status.h"
#include "runtime/call.h"
#include "runtime/device_api.h"

namespace cinn_like {

// A device, as calls on its default stream see it.
struct DevicePlace {
  DeviceApi* api;
  DLDevice device;

  Status Copy(void* to, const void* from, int64_t bytes) const {
    return api->Copy(device.device_id, to, from, bytes, nullptr);
  }
};

// A copy of a tensor on a device, as it was when it was made.
class KeptTensor {
 public:
  KeptTensor() = default;
  ~KeptTensor() { Clear(); }
  KeptTensor(const KeptTensor&) = delete;
  KeptTensor& operator=(const KeptTensor&) = delete;

  // Once. InvalidArgument where `from` is not of the host.
  Status Take(const DevicePlace& place, const DLTensor& from);
  // No work on the device reads it any more.
  void Clear();
  DLTensor& tensor() { return tensor_; }  // its memory is null after Clear

 private:
  DevicePlace place_{};
  DLTensor tensor_{};
  std::vector<int64_t> shape_, strides_;
};

// One call on its way to the device. Its memory there is of the device's pool.
class HostTensorsCall {
 public:
  HostTensorsCall(const DevicePlace& place, const CinnCallEnv& caller) : place_(place), caller_(caller) {}
  ~HostTensorsCall();
  HostTensorsCall(const HostTensorsCall&) = delete;
  HostTensorsCall& operator=(const HostTensorsCall&) = delete;

  // An argument or result, in order. `there`: what stands for it on the device already, or null. A result comes back
  // after Run.
  Status Add(const CinnValue& value, bool is_result, DLTensor* there);
  // Returns when results are there.
  Status Run(CinnFunctionPtr entry, void* self);

 private:
  struct Result {
    void *host, *device;
    int64_t bytes;
  };

  StatusOr<void*> Allocate(int64_t bytes);
  static int32_t AllocateResult(void* context, int32_t index, DLTensor* spec);

  const DevicePlace place_;
  const CinnCallEnv& caller_;
  std::vector<CinnValue> values_;
  std::deque<DLTensor> tensors_;  // that values_ point to
  std::vector<void*> blocks_;
  std::vector<Result> results_;
  Status failure_;
  bool is_done_ = false;
};

}  // namespace cinn_like
