#include "ir/interpreter.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace cinn_like::ir {
namespace {

Func Parse(std::string_view text) {
  auto f = ParseFunc(text);
  EXPECT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE(Verify(*f).ok()) << Verify(*f);
  return *f;
}
HostArray Filled(DType t, std::vector<int64_t> shape, const std::function<double(int64_t)>& value) {
  HostArray a(t, std::move(shape));
  for (int64_t i = 0; i < a.NumElements(); ++i) a.Set(i, value(i));
  return a;
}
std::string RunError(std::string_view text) {
  HostArray x = Filled(DType::kF32, {64}, [](int64_t i) { return static_cast<double>(i); }), y(DType::kF32, {64});
  return Message(Interpret(Parse(text), {&x, &y}));
}

TEST(Interpreter, Reduction) {
  Func f = Parse(R"(func @rowsum(x: f32[n,5], y: f32[n]) where n in 1..64 {
  for i in 0..n {
    for k in 0..5 {
      block s(vi in 0..n = i, vk reduce 0..5 = k) init { y[vi] = 0.0 } {
        y[vi] = y[vi] + x[vi, vk]
      }
    }
  }
})");
  HostArray x = Filled(DType::kF32, {3, 5}, [](int64_t i) { return static_cast<double>(i); }), y(DType::kF32, {3});
  ASSERT_TRUE(Interpret(f, {&x, &y}).ok());
  EXPECT_EQ(y.Get(0), 10);
  EXPECT_EQ(y.Get(2), 60);
}

TEST(Interpreter, RoundsToEveryDType) {
  Func f = Parse(R"(func @f(x: bf16[1], h: f16[1], w: f32[1], b: u8[1], i: i32[1]) {
  x[0] = bf16(1.0) + bf16(0.00390625)
  h[0] = f16(2048.0) + f16(1.0)
  w[0] = 16777216.0 + 1.0
  b[0] = u8(200) + u8(100)
  i[0] = i32(-7) / i32(2)
})");
  HostArray x(DType::kBF16, {1}), h(DType::kF16, {1}), w(DType::kF32, {1}), b(DType::kU8, {1}), i(DType::kI32, {1});
  ASSERT_TRUE(Interpret(f, {&x, &h, &w, &b, &i}).ok());
  EXPECT_EQ(x.Get(0), 1.0);
  EXPECT_EQ(h.Get(0), 2048.0);
  EXPECT_EQ(w.Get(0), 16777216.0);
  EXPECT_EQ(b.GetInt(0), 44);
  EXPECT_EQ(i.GetInt(0), -4);
}

TEST(Interpreter, ThreadsMeetAtBarriersAndShuffles) {
  Func f = Parse(R"(func @reverse(x: f32[64], y: f32[64]) {
  for b in 0..1 @blockIdx.x {
    alloc s: f32[64] @shared
    for t in 0..64 @threadIdx.x {
      s[t] = x[t]
    }
    barrier
    for u in 0..64 @threadIdx.x {
      let v = s[63 - u]
      y[u] = v + shuffle_xor(v, 1)
    }
  }
})");
  HostArray x = Filled(DType::kF32, {64}, [](int64_t i) { return static_cast<double>(i * i); }), y(DType::kF32, {64});
  ASSERT_TRUE(Interpret(f, {&x, &y}).ok()) << Interpret(f, {&x, &y});
  EXPECT_EQ(y.Get(0), 63 * 63 + 62 * 62);
  EXPECT_EQ(y.Get(1), 63 * 63 + 62 * 62);
}

TEST(Interpreter, VectorsAndMasks) {
  Func f = Parse(R"(func @f(x: f32[64], y: f32[64]) {
  for i in 0..2 {
    y[ramp(i * 8, 1, 8); ramp(i * 8, 1, 8) < broadcast(11, 8)] = x[ramp(i * 8 + 2, 2, 8)] * broadcast(2.0, 8)
  }
  y[20] = lane_add(x[ramp(0, 1, 4)]) + lane_max(x[ramp(60, 1, 8); ramp(60, 1, 8) < broadcast(64, 8)])
})");
  HostArray x = Filled(DType::kF32, {64}, [](int64_t i) { return static_cast<double>(i); }), y(DType::kF32, {64});
  ASSERT_TRUE(Interpret(f, {&x, &y}).ok()) << Interpret(f, {&x, &y});
  EXPECT_EQ(y.Get(10), 2 * (8 + 2 + 4));
  EXPECT_EQ(y.written[11 * 4], 0);
  EXPECT_EQ(y.Get(20), 6 + 63);
}

TEST(Interpreter, CallsAndLaunches) {
  auto m = ParseModule(R"(func @main(x: f32[n], y: f32[n]) where n in 1..64 {
  alloc t: f32[n] @global
  call @twice(&x[0], &t[0], n)
  launch @add grid((n + 31) / 32, 1, 1) block(32, 1, 1) shared 0 (&t[0], &y[0], n)
}
func @twice(a: f32[m], b: f32[m], m: i64) {
  for i in 0..m {
    b[i] = a[i] * 2.0
  }
}
func @add kernel(p: f32[k], q: f32[k], k: i64) {
  for b in 0..(k + 31) / 32 @blockIdx.x {
    for t in 0..32 @threadIdx.x {
      if b * 32 + t < k {
        q[b * 32 + t] = p[b * 32 + t] + 1.0
      }
    }
  }
})");
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_TRUE(Verify(*m).ok()) << Verify(*m);
  HostArray x = Filled(DType::kF32, {40}, [](int64_t i) { return static_cast<double>(i); }), y(DType::kF32, {40});
  Status s = Interpret(*m, "main", {&x, &y});
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_EQ(y.Get(39), 79);
}

TEST(Interpreter, Errors) {
  EXPECT_EQ(RunError("func @f(x: f32[64], y: f32[64]) { y[0] = x[64] }"),
            "@f: index 64 of buffer x is outside 0..64 in dimension 0");
  EXPECT_EQ(RunError("func @f(x: f32[64], y: f32[64]) { x[0] = y[3] }"),
            "@f: buffer y is read before it is written, in y[3]");
  EXPECT_EQ(RunError("func @f(x: f32[64], y: f32[64]) { for i in 0..4 { y[3 / i] = x[i] } }"), "@f: no value: 3 / i");
  EXPECT_EQ(RunError("func @f(x: f32[64], y: f32[65]) { y[0] = x[0] }"),
            "@f: buffer y needs 260 bytes and its memory has 256");
  EXPECT_EQ(RunError(R"(func @f(x: f32[64], y: f32[64]) {
  for b in 0..1 @blockIdx.x {
    alloc s: f32[64] @shared
    for t in 0..64 @threadIdx.x {
      s[t] = x[t]
      y[t] = s[63 - t]
    }
  }
})"),
            "@f: threads use an element of s without a barrier between");
  EXPECT_EQ(RunError(R"(func @f(x: f32[64], y: f32[64]) {
  for b in 0..1 @blockIdx.x {
    alloc s: f32[64] @shared
    for t in 0..64 @threadIdx.x {
      s[t] = x[t]
      if 0 < t {
        y[t] = s[t - 1]
      }
    }
  }
})"),
            "@f: threads use an element of s without a barrier between");
  EXPECT_EQ(RunError(R"(func @f(x: f32[64], y: f32[64]) {
  for t in 0..64 @threadIdx.x {
    if t < 32 {
      barrier
    }
  }
})"),
            "@f: not every thread reaches a barrier");
}

// Blocks of a launch run at once; launches follow each other.
TEST(Interpreter, BlocksMayNotMeet) {
  EXPECT_EQ(RunError(R"(func @f(x: f32[64], y: f32[64]) {
  for b in 0..2 @blockIdx.x {
    for t in 0..32 @threadIdx.x {
      y[t] = x[b * 32 + t]
    }
  }
})"),
            "@f: threads use an element of y without a barrier between");
  Func f = Parse(R"(func @f(x: f32[64], y: f32[64]) {
  for b in 0..2 @blockIdx.x {
    for t in 0..32 @threadIdx.x {
      y[b * 32 + t] = x[b * 32 + t]
    }
  }
  for c in 0..2 @blockIdx.x {
    for u in 0..32 @threadIdx.x {
      x[c * 32 + u] = y[63 - (c * 32 + u)]
    }
  }
})");
  HostArray x = Filled(DType::kF32, {64}, [](int64_t i) { return static_cast<double>(i); }), y(DType::kF32, {64});
  ASSERT_TRUE(Interpret(f, {&x, &y}).ok()) << Interpret(f, {&x, &y});
  EXPECT_EQ(x.Get(0), 63);
}

TEST(Interpreter, ThreadsDiverge) {
  Func f = Parse(R"(func @f(x: f32[64], y: f32[64]) {
  for t in 0..64 @threadIdx.x {
    alloc a: f32[1] @local
    a[0] = 0.0
    for i in 0..t {
      if i % 2 == 0 {
        a[0] = a[0] + 1.0
      } else {
        a[0] = a[0] + x[i]
      }
    }
    y[t] = a[0]
  }
})");
  HostArray x = Filled(DType::kF32, {64}, [](int64_t) { return 100.0; }), y(DType::kF32, {64});
  ASSERT_TRUE(Interpret(f, {&x, &y}).ok()) << Interpret(f, {&x, &y});
  EXPECT_EQ(y.Get(0), 0);
  EXPECT_EQ(y.Get(5), 3 + 200);
  EXPECT_EQ(y.Get(63), 32 + 3100);
  EXPECT_EQ(RunError(R"(func @f(x: f32[64], y: f32[64]) {
  for t in 0..64 @threadIdx.x {
    if t < 40 {
      y[t] = shuffle_xor(x[t], 1)
    }
  }
})"),
            "@f: not every thread reaches a shuffle");
  EXPECT_EQ(RunError(R"(func @f(x: f32[64], y: f32[64]) {
  for t in 0..64 @threadIdx.x {
    alloc a: f32[t] @shared
    y[t] = x[t]
  }
})"),
            "@f: threads differ in t");
}

TEST(Interpreter, NansSpread) {
  Func f = Parse("func @f(x: f32[2], y: f32[2]) { y[0] = max(x[0], x[1]) y[1] = round(x[1]) }");
  HostArray x(DType::kF32, {2}), y(DType::kF32, {2});
  x.Set(0, std::numeric_limits<double>::quiet_NaN());
  x.Set(1, 2.5);
  ASSERT_TRUE(Interpret(f, {&x, &y}).ok());
  EXPECT_TRUE(std::isnan(y.Get(0)));
  EXPECT_EQ(y.Get(1), 2);
}

}  // namespace
}  // namespace cinn_like::ir
