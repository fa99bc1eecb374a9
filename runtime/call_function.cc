#include "runtime/call_function.h"

#include <bit>
#include <deque>
#include <vector>

#include "runtime/function_registry.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

class Arguments {
 public:
  Arguments(const uint64_t* words, int64_t count, DLDevice device) : next_(words) {
    for (int64_t i = 0; i < count; ++i) values_.push_back(Take(device));
  }
  const std::vector<CinnValue>& values() const { return values_; }

 private:
  CinnValue Take(DLDevice device) {
    const uint64_t what = *next_++;
    const auto byte = [what](int k) { return static_cast<uint8_t>(what >> 8 * k); };
    CinnValue value{};
    value.tag = byte(0);
    if (value.tag != kCinnTensor) {
      value.i = static_cast<int64_t>(*next_++);
      return value;
    }
    DLTensor& t = tensors_.emplace_back();
    value.tensor = &t;
    t.data = std::bit_cast<void*>(*next_++);
    t.device = device;
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
  std::deque<DLTensor> tensors_;
  std::deque<std::vector<int64_t>> strides_;
};

Status CallFunction(const char* name, const uint64_t* words, int64_t count, DLDevice device) {
  ASSIGN_OR_RETURN(const auto function, FindFunction(name));
  return function->Call(Arguments(words, count, device).values()).status();
}

}  // namespace
}  // namespace cinn_like

extern "C" int32_t cinn_call_function(const char* name, const uint64_t* words, int64_t count, const CinnCallEnv* env) {
  return cinn_like::SetLastError(cinn_like::CallFunction(name, words, count, env->device));
}
