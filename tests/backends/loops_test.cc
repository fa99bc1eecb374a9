// Statements of the lowered form, compiled and run on this machine.
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/parallel_for.h"
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

// The tail of a row by a mask: nothing outside is read or written.
TEST(Loops, MasksTails) {
  auto c = CompileForTest(R"(
func @scale(x: f32[1], y: f32[1], n: i64) {
  for i in 0..tdiv(n + 15, 16) {
    y[ramp(i * 16, 1, 16); ramp(i * 16, 1, 16) < broadcast(n, 16)] = x[ramp(i * 16, 1, 16); ramp(i * 16, 1, 16) < broadcast(n, 16)] * 2.0
  }
}
func @scalar(x: f32[1], y: f32[1], n: i64) {
  for i in 0..40 {
    y[i; i < n] = x[i; i < n - 2] + 1.0
  }
}
)");
  for (int64_t n = 0; n < 40; ++n) {
    // Exactly n elements on the heap: the address sanitizer and guard values see any access beyond.
    const auto x = RandomFloats(n, 3);
    std::vector<float> y(n + 16, 7);
    ASSERT_EQ(CallInternal(*c, "scale", x.data(), y.data(), n), 0);
    for (int64_t i = 0; i < n + 16; ++i) ASSERT_EQ(y[i], i < n ? x[i] * 2 : 7);
    ASSERT_EQ(CallInternal(*c, "scalar", x.data(), y.data(), n), 0);
    for (int64_t i = 0; i < n + 16; ++i) ASSERT_EQ(y[i], i >= n ? 7 : i < n - 2 ? x[i] + 1 : 1);
  }
}

TEST(Loops, GathersAndScatters) {
  auto c = CompileForTest(R"(
func @transpose(x: f32[256], y: f32[256]) {
  for i in 0..16 {
    y[ramp(i * 16, 1, 16)] = x[ramp(i, 16, 16)]
  }
}
func @scatter(x: i8[256], y: i8[256]) {
  for i in 0..16 {
    y[ramp(i, 16, 16)] = x[ramp(i * 16, 1, 16)]
  }
}
func @take(x: bf16[100], at: i32[16], y: bf16[16]) {
  y[ramp(0, 1, 16)] = x[i64(at[ramp(0, 1, 16)]); at[ramp(0, 1, 16)] < broadcast(i32(100), 16)]
}
func @reverse(x: i16[16], y: i16[16], step: i64) {
  y[ramp(15, 0 - step, 16)] = x[ramp(0, step, 16)]
}
)");
  const auto x = RandomFloats(256, 4);
  std::vector<float> y(256);
  ASSERT_EQ(CallInternal(*c, "transpose", x.data(), y.data()), 0);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(y[i], x[i % 16 * 16 + i / 16]);
  std::vector<int8_t> a(256), b(256);
  std::iota(a.begin(), a.end(), 0);
  ASSERT_EQ(CallInternal(*c, "scatter", a.data(), b.data()), 0);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(b[i % 16 * 16 + i / 16], a[i]);
  std::vector<uint16_t> bits(100), taken(16, 7);
  std::iota(bits.begin(), bits.end(), 1000);
  std::vector<int32_t> at = {5, 99, 100, 0, 7, 1 << 30, 3, 3, 3, 98, 50, 51, 52, 53, 54, 200};
  ASSERT_EQ(CallInternal(*c, "take", bits.data(), at.data(), taken.data()), 0);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(taken[i], at[i] < 100 ? bits[at[i]] : 0);
  std::vector<int16_t> u(16), v(16);
  std::iota(u.begin(), u.end(), 0);
  ASSERT_EQ(CallInternal(*c, "reverse", u.data(), v.data(), int64_t{1}), 0);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(v[i], 15 - i);
}

TEST(Loops, RunsInParallel) {
  auto c = CompileForTest(R"(
func @outer(x: f32[1], y: f32[1], n: i64, m: i64) {
  let scale = f32(m)
  for i in 0..n @parallel {
    alloc sum: f32[1] @local
    sum[0] = 0.0
    for j in 0..m {
      sum[0] = sum[0] + x[i * m + j]
    }
    for j in 0..m @parallel {
      y[i * m + j] = x[i * m + j] - sum[0] / scale
    }
  }
}
)");
  SetNumThreads(4);
  for (int64_t n : {0, 1, 7, 300}) {
    const int64_t m = 500;
    const auto x = RandomFloats(n * m, 5);
    std::vector<float> y(n * m);
    ASSERT_EQ(CallInternal(*c, "outer", x.data(), y.data(), n, m), 0);
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < m; ++j) sum += x[i * m + j];
      for (int64_t j = 0; j < m; ++j) ASSERT_NEAR(y[i * m + j], x[i * m + j] - sum / static_cast<float>(m), 1e-5);
    }
  }
  SetNumThreads(0);
}

TEST(Loops, BranchesUnrollsAndLets) {
  auto c = CompileForTest(R"(
func @f(x: i32[1], y: i64[1], n: i64) {
  for i in 0..n {
    let v = i64(x[i])
    if v % 2 == 0 {
      y[i] = v / 2
    } else {
      if v < 0 {
        y[i] = -v
      } else {
        y[i] = v * 3 + 1
      }
    }
    alloc t: i64[4] @local
    for k in 0..4 @unrolled {
      t[k] = v * k
    }
    for k in 1..2 @unrolled {
      y[i] = y[i] + t[k + 1]
    }
  }
}
)");
  if (c == nullptr) return;
}

TEST(Loops, CallsPassErrorsOn) {
  auto c = CompileForTest(R"(
func @copy(x: f32[1], y: f32[1], n: i64) {
  for i in 0..n {
    y[i] = x[i]
  }
}
func @twice(x: f32[1], y: f32[1], n: i64) {
  alloc t: f32[n] @global
  call @copy(&x[0], &t[0], n)
  call @copy(&t[0], &y[0], n)
}
func @bad(x: f32[1], n: i64) {
  alloc t: u8[n] @global
  call cinn_cublaslt_matmul(0)
}
)");
  const auto x = RandomFloats(100, 6);
  std::vector<float> y(100);
  ASSERT_EQ(CallInternal(*c, "twice", x.data(), y.data(), int64_t{100}), 0);
  EXPECT_EQ(x, y);
}

}  // namespace
}  // namespace cinn_like
