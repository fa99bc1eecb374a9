#include "runtime/call_function.h"

#include <bit>
#include <deque>
#include <utility>
#include <vector>

#include "cinn_like/base/tensor.h"
#include "runtime/function_registry.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

class Arguments {
 public:
  struct Tensor {
    DLTensor dl{};
    bool is_output = false;
  };

  Arguments(const uint64_t* words, int64_t count) : next_(words) {
    for (int64_t i = 0; i < count; ++i) values_.push_back(Take());
  }
  const std::vector<CinnValue>& values() const { return values_; }
  std::deque<Tensor>& tensors() { return tensors_; }

 private:
  CinnValue Take() {
    const uint64_t what = *next_++;
    const auto byte = [what](int k) { return static_cast<uint8_t>(what >> 8 * k); };
    CinnValue value{};
    value.tag = byte(0);
    if (value.tag != kCinnTensor) {
      value.i = static_cast<int64_t>(*next_++);
      return value;
    }
    Tensor& tensor = tensors_.emplace_back();
    tensor.is_output = (what & ArgumentWord::kOutput) != 0;
    DLTensor& t = tensor.dl;
    value.tensor = &t;
    t.data = std::bit_cast<void*>(*next_++);
    t.device = {kDLCPU, 0};
    t.ndim = byte(3);
    t.dtype = {byte(1), byte(2), 1};
    t.shape = Numbers(t.ndim);
    if ((what & ArgumentWord::kStrided) != 0) {
      t.strides = Numbers(t.ndim);
      return value;
    }
    std::vector<int64_t>& strides = strides_.emplace_back(t.ndim, 1);
    for (int32_t d = t.ndim - 1; d-- > 0;) strides[d] = strides[d + 1] * t.shape[d + 1];
    t.strides = strides.data();
    return value;
  }

  int64_t* Numbers(int32_t count) {
    auto* numbers = reinterpret_cast<int64_t*>(const_cast<uint64_t*>(next_));
    next_ += count;
    return numbers;
  }

  const uint64_t* next_;
  std::vector<CinnValue> values_;
  std::deque<Tensor> tensors_;
  std::deque<std::vector<int64_t>> strides_;
};

// Copies on the host of a device's tensors.
class Copies {
 public:
  Copies(DeviceApi& api, DeviceApi& host, const CinnCallEnv& env) : api_(api), host_(host), env_(env) {}
  ~Copies() {
    if (!is_done_) (void)Synchronize();
    for (const Copy& c : copies_) host_.FreeWorkspace(0, c.host, nullptr);
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  Status Take(Arguments::Tensor& t) {
    const int64_t bytes = SpanBytes(t.dl);
    if (bytes < 0) return InvalidArgument("expected sizes and strides from 0 up, got ", Describe(t.dl));
    ASSIGN_OR_RETURN(void* const host, host_.AllocWorkspace(0, bytes, nullptr));
    copies_.push_back({t.dl.data, host, t.is_output ? bytes : 0});
    void* const from = std::exchange(t.dl.data, host);
    // Between the elements of an output there may be others.
    const bool is_written = t.is_output && bytes == NumBytes(t.dl);
    return bytes == 0 || is_written ? absl::OkStatus() : CopyTo(host, from, bytes);
  }
  Status GiveBack() {
    for (const Copy& c : copies_) {
      if (c.bytes_back > 0) RETURN_IF_ERROR(CopyTo(c.device, c.host, c.bytes_back));
    }
    RETURN_IF_ERROR(Synchronize());
    is_done_ = true;
    return absl::OkStatus();
  }
  Status Synchronize() { return api_.Synchronize(env_.device.device_id, env_.stream); }

 private:
  struct Copy {
    void *device, *host;
    int64_t bytes_back;
  };

  Status CopyTo(void* to, const void* from, int64_t bytes) {
    return api_.Copy(env_.device.device_id, to, from, bytes, env_.stream);
  }

  DeviceApi &api_, &host_;
  const CinnCallEnv& env_;
  std::vector<Copy> copies_;
  bool is_done_ = false;
};

Status CallFunction(const RuntimeDevice* device, const char* name, const uint64_t* words, int64_t count,
                    const CinnCallEnv* env) {
  ASSIGN_OR_RETURN(const auto function, FindFunction(name));
  Arguments arguments(words, count);
  if (device == nullptr || device->type == kDLCPU) return function->Call(arguments.values()).status();
  ASSIGN_OR_RETURN(DeviceApi* const api, device->api());
  ASSIGN_OR_RETURN(DeviceApi* const host, GetHostDevice());
  Copies copies(*api, *host, *env);
  for (Arguments::Tensor& t : arguments.tensors())
    RETURN_IF_ERROR(Annotate(copies.Take(t), Cat("function '", name, "'")));
  RETURN_IF_ERROR(copies.Synchronize());
  RETURN_IF_ERROR(function->Call(arguments.values()).status());
  return copies.GiveBack();
}

}  // namespace
}  // namespace cinn_like

extern "C" int32_t cinn_call_function(const cinn_like::RuntimeDevice* device, const char* name, const uint64_t* words,
                                      int64_t count, const CinnCallEnv* env) {
  return cinn_like::SetLastError(cinn_like::CallFunction(device, name, words, count, env));
}
