// A compiled function called the way tvm-ffi calls (CinnPackedFunctionPtr), by tvm-ffi itself or by anybody. Values are
// tvm-ffi's own (runtime/call.h), its tensor objects too. Arguments may end with tensors for the results; else tvm-ffi
// makes these, by its caller's allocator, where its library is in the process.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "cinn_like/base/status.h"
#include "runtime/call.h"

namespace cinn_like {

struct PackedTarget {
  CinnFunctionPtr entry;
  void* self;
  const std::string& name;
  const std::string& signature;  // for errors
  size_t params, results;
};

// Tensors' device is that of the first which is not on the host, and the stream is tvm-ffi's current one there.
Status CallPacked(const PackedTarget& target, std::span<const CinnValue> args, CinnValue* result);

// What a packed function returns: 0, or -1 after both we and tvm-ffi, where there is one, were told what is wrong.
int32_t ReportPacked(const Status& status);

}  // namespace cinn_like
