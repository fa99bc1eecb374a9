#include "cinn_like/base/int_math.h"

#include <limits>

#include "gtest/gtest.h"

namespace cinn_like {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kNumbers[] = {kLeast, kLeast + 1, -(int64_t{1} << 62), -7, -1, 0, 1, 6, int64_t{1} << 62, kMost};

// As in 128 bits, cut to 64.
TEST(IntMath, Wraps) {
  for (int64_t a : kNumbers) {
    for (int64_t b : kNumbers) {
      const __int128 x = a, y = b;
      EXPECT_EQ((WrapInt(a) + b).value, static_cast<int64_t>(x + y));
      EXPECT_EQ((WrapInt(a) - b).value, static_cast<int64_t>(x - y));
      EXPECT_EQ((a * WrapInt(b)).value, static_cast<int64_t>(x * y));
      EXPECT_EQ((-WrapInt(a)).value, static_cast<int64_t>(-x));
      if (b == 0) {
        EXPECT_EQ(FloorDiv(a, b), 0);
        continue;
      }
      EXPECT_EQ((WrapInt(a) / b).value, static_cast<int64_t>(x / y));
      EXPECT_EQ((WrapInt(a) % b).value, static_cast<int64_t>(x % y));
      const __int128 floor = x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
      EXPECT_EQ(FloorDiv(a, b), static_cast<int64_t>(floor));
      EXPECT_EQ(FloorMod(a, b), static_cast<int64_t>(x - floor * y));
    }
  }
}

TEST(IntMath, Gcd) {
  for (int64_t a : kNumbers) {
    for (int64_t b : kNumbers) {
      const int64_t g = Gcd(a, b);
      EXPECT_EQ(g == 0, a == 0 && b == 0);
      EXPECT_GE(g, 0);
      EXPECT_TRUE(g == 0 || (a % g == 0 && b % g == 0)) << a << " " << b;
    }
  }
  EXPECT_EQ(Gcd(-12, 18), 6);
  EXPECT_EQ(Gcd(kLeast, kLeast), int64_t{1} << 62);
}

}  // namespace
}  // namespace cinn_like
