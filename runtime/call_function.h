// What generated host code calls for `call "name"(x, n) -> (y)`: the function that is registered by that name at the
// time (runtime/function_registry.h), with the inputs and then the outputs, tensors of the host: of what lies on
// another device it has copies, of which outputs are copied back.
#pragma once
#include <cstdint>

#include "runtime/device_api.h"

namespace cinn_like {

// An argument is a word that says what it is, then its value: the bits of an i64 or an f64 (0 or 1 of a bool); or an
// address, the shape and, where kStrided says so, the strides.
struct ArgumentWord {
  static constexpr uint64_t kStrided = uint64_t{1} << 32, kOutput = uint64_t{1} << 33;

  static constexpr uint64_t Scalar(int32_t tag) { return static_cast<uint64_t>(tag); }
  static constexpr uint64_t Tensor(int dlpack_code, int bits, size_t rank, bool strided, bool output) {
    return kCinnTensor | static_cast<uint64_t>(dlpack_code) << 8 | static_cast<uint64_t>(bits) << 16 |
           static_cast<uint64_t>(rank) << 24 | (strided ? kStrided : 0) | (output ? kOutput : 0);
  }
};
constexpr size_t kMostRank = 255;

}  // namespace cinn_like

// `words` describe `count` arguments in memory of `device`, which is that of `env`; null, both: of the host.
extern "C" int32_t cinn_call_function(const cinn_like::RuntimeDevice* device, const char* name, const uint64_t* words,
                                      int64_t count, const CinnCallEnv* env);
