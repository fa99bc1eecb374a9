// What `self` points to: the tensors that `<fn>_prepare` computed from static arguments, one per slot, on one device.
// Written by one thread while no call runs, read-only during calls. Calls on other streams than the one that prepared
// wait for it there; preparing again takes new memory, since kernels of earlier calls may still read the old.
#pragma once
#include <dlpack/dlpack.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cinn_like/base/status.h"
#include "runtime/call.h"
#include "runtime/device_api.h"

namespace cinn_like {

class PreparedState {
 public:
  // `device` is the kind that `prepare` was compiled for.
  PreparedState(int num_slots, const RuntimeDevice& device) : kind_(device), slots_(num_slots) {}
  ~PreparedState();
  PreparedState(const PreparedState&) = delete;
  PreparedState& operator=(const PreparedState&) = delete;

  // Runs `prepare` (whose result number k is slot k) with `env`, taking the results' memory from the device and a
  // workspace from where `env` says. On failure nothing is prepared. What was prepared before is freed when the device
  // has finished all work that was enqueued.
  Status Prepare(CinnFunctionPtr prepare, const CinnValue* args, int32_t num_args, const CinnCallEnv& env);

  // In place of Prepare: what it would have computed, on the host, in memory of another owner, one address a slot.
  void Borrow(const std::vector<void*>& slots);

  // For the generated code's argument check.
  int num_slots() const { return static_cast<int>(slots_.size()); }
  bool prepared() const { return prepared_; }
  DLDevice device() const { return device_; }
  void* data(int slot) const { return slots_[slot].data; }
  int64_t bytes(int slot) const { return slots_[slot].bytes; }
  int64_t TotalBytes() const;
  // What is enqueued on `stream` from here on sees what was prepared.
  Status Await(void* stream) const {
    if (event_ == nullptr || stream == stream_ || done_.load(std::memory_order_relaxed)) return absl::OkStatus();
    return AwaitEvent(stream);
  }

 private:
  struct Slot {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  static int32_t AllocSlot(void* context, int32_t index, DLTensor* spec);
  void Free(DLDevice device, std::vector<Slot>& slots) const;
  Status AwaitEvent(void* stream) const;
  void Clear();

  const RuntimeDevice& kind_;
  std::vector<Slot> slots_;
  void* stream_ = nullptr;  // that prepared
  void* event_ = nullptr;   // there, afterwards; null: done when it returned
  mutable std::atomic<bool> done_{false};
  DLDevice device_{kDLCPU, 0};
  bool prepared_ = false;
  bool is_owner_ = true;  // of the slots' memory
};

}  // namespace cinn_like
