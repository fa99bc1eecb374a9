// What generated host code calls for `call "name"(x, n) -> (y)`: the function that is registered by that name at the
// time (runtime/function_registry.h), with the inputs and then the outputs.
#pragma once
#include <cstdint>

#include "runtime/call.h"

namespace cinn_like {

// An argument is a word that says what it is, then its value: the bits of an i64 or an f64 (0 or 1 of a bool); or an
// address, the shape and, where kStrided says so, the strides.
struct ArgumentWord {
  static constexpr uint64_t kStrided = uint64_t{1} << 32;

  static constexpr uint64_t Scalar(int32_t tag) { return static_cast<uint64_t>(tag); }
  static constexpr uint64_t Tensor(int dlpack_code, int bits, size_t rank, bool strided) {
    return kCinnTensor | static_cast<uint64_t>(dlpack_code) << 8 | static_cast<uint64_t>(bits) << 16 |
           static_cast<uint64_t>(rank) << 24 | (strided ? kStrided : 0);
  }
};
constexpr size_t kMostRank = 255;

}  // namespace cinn_like

// `words` describe `count` arguments.
extern "C" int32_t cinn_call_function(const char* name, const uint64_t* words, int64_t count, const CinnCallEnv* env);
