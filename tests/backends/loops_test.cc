// Statements of the lowered form, compiled and run on this machine.
#include <random>
#include <vector>

#include "tests/backends/jit_test_util.h"

namespace cinn_like {
namespace {

std::vector<float> RandomFloats(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> d(-2, 2);
  std::vector<float> v(n);
  for (float& x : v) x = d(rng);
  return v;
}

TEST(Loops, AddsWithSymbolicExtent) {
  auto c = CompileForTest(R"(
func @add(x: f32[1], y: f32[1], z: f32[1], n: i64) {
  for i in 0..n {
    z[i] = x[i] + y[i]
  }
}
)");
  for (int64_t n : {0, 1, 1000}) {
    const auto x = RandomFloats(1000, 1), y = RandomFloats(1000, 2);
    std::vector<float> z(1001, 7);
    EXPECT_EQ(CallInternal(*c, "add", x.data(), y.data(), z.data(), n), 0);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(z[i], x[i] + y[i]);
    EXPECT_EQ(z[n], 7);
  }
}

}  // namespace
}  // namespace cinn_like
