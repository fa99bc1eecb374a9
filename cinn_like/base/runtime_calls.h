// The functions that generated host code may call by symbol: one row of runtime_calls.def each.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace cinn_like {

enum class CallType : uint8_t { kVoid, kI32, kI64, kPtr };

struct RuntimeCall {
  std::string_view name;
  std::string_view signature;  // "i32(i64,ptr,ptr)"
  std::string_view effects;
  int64_t workspace_bytes;
  CallType result;
  std::span<const CallType> params;
};

// The row of `name`; null for functions that are not in the table (those of Compiler::symbols).
const RuntimeCall* FindRuntimeCall(std::string_view name);

}  // namespace cinn_like
