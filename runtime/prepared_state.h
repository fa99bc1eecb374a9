// What `self` points to: the tensors that `<fn>_prepare` computed from static arguments, one per slot, on one device.
// Written by one thread while no call runs, read-only during calls.
#pragma once
#include <dlpack/dlpack.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cinn_like/base/status.h"
#include "runtime/call.h"

namespace cinn_like {

class PreparedState {
 public:
  explicit PreparedState(int num_slots) : slots_(num_slots) {}
  ~PreparedState();
  PreparedState(const PreparedState&) = delete;
  PreparedState& operator=(const PreparedState&) = delete;

  // Runs `prepare` (whose result number k is slot k) with `env`, taking the results' memory from the device and a
  // workspace from where `env` says. On failure nothing is prepared.
  Status Prepare(CinnFunctionPtr prepare, const CinnValue* args, int32_t num_args, const CinnCallEnv& env);

  // For the generated code's argument check.
  int num_slots() const { return static_cast<int>(slots_.size()); }
  bool prepared() const { return prepared_; }
  DLDevice device() const { return device_; }
  void* data(int slot) const { return slots_[slot].data; }
  int64_t TotalBytes() const;

 private:
  struct Slot {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  static int32_t AllocSlot(void* context, int32_t index, DLTensor* spec);
  void Clear();

  std::vector<Slot> slots_;
  DLDevice device_{kDLCPU, 0};
  bool prepared_ = false;
};

}  // namespace cinn_like
