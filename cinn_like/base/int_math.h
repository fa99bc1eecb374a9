// Arithmetic of int64 that is defined for every operand: what overflows wraps, a quotient by 0 is 0.
#pragma once
#include <cstdint>

namespace cinn_like {

inline int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
// Rounds down: the remainder has the sign of b.
inline int64_t FloorDiv(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return WrapMul(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
inline int64_t FloorMod(int64_t a, int64_t b) { return WrapAdd(a, WrapMul(-1, WrapMul(FloorDiv(a, b), b))); }
inline int64_t CeilDiv(int64_t a, int64_t b) { return WrapMul(-1, FloorDiv(WrapMul(-1, a), b)); }

}  // namespace cinn_like
