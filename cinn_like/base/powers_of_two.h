// Powers of two beside a size.
#pragma once
#include <bit>
#include <cstdint>

namespace cinn_like {

// The largest one up to `n`, the smallest one from `n` on. n >= 1.
constexpr int64_t PowerOfTwoBelow(int64_t n) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n))); }
constexpr int64_t PowerOfTwoAbove(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

}  // namespace cinn_like
