// Statements of the lowered form, compiled and run on this machine.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "ir/interpreter.h"
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

// Kinds that are of other devices, or that lanes can't have, are loops.
TEST(Loops, KindsThatTheHostHasNot) {
  auto c = CompileForTest(R"(
func @f(x: f32[6, 4], y: f32[6, 4]) {
  for i in 0..6 @pipelined3 {
    for j in 0..2 @vectorized {
      for k in 0..2 @vectorized {
        y[i, j * 2 + k] = x[i, j * 2 + k] + 1.0
      }
    }
  }
}
)");
  const auto x = RandomFloats(24, 1);
  std::vector<float> y(24);
  EXPECT_EQ(CallInternal(*c, "f", x.data(), y.data()), 0);
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(y[i], x[i] + 1);
}

// Lanes that are near each other, in every order, with and without masks; memory before and behind is another's.
TEST(Loops, LanesNearEachOther) {
  struct Case {
    const char* index;  // of lane l of 16, in terms of the ramp of lanes; what is read begins at `i * 16`
    int64_t (*at)(int64_t);
  };
  const Case cases[] = {
      {"ramp(i * 16 + 15, -1, 16)", [](int64_t l) { return 15 - l; }},
      {"ramp(i * 16, 2, 16)", [](int64_t l) { return 2 * l; }},
      {"ramp(i * 16, 3, 16)", [](int64_t l) { return 3 * l; }},
      {"ramp(i * 16 + 45, -3, 16)", [](int64_t l) { return 45 - 3 * l; }},
      {"ramp(i * 16, 7, 16)", [](int64_t l) { return 7 * l; }},
      {"broadcast(i * 16, 16) + tdiv(ramp(0, 1, 16), broadcast(2, 16))", [](int64_t l) { return l / 2; }},
      {"broadcast(i * 16, 16) + tdiv(ramp(1, 1, 16), broadcast(3, 16))", [](int64_t l) { return (l + 1) / 3; }},
      {"broadcast(i * 16, 16) + tdiv(ramp(0, 3, 16), broadcast(2, 16))", [](int64_t l) { return l * 3 / 2; }},
      {"broadcast(i * 16, 16) + tmod(ramp(5, 1, 16), broadcast(8, 16))", [](int64_t l) { return (l + 5) % 8; }},
      {"broadcast(i * 16, 16) + tmod(ramp(0, 5, 16), broadcast(16, 16))", [](int64_t l) { return l * 5 % 16; }},
      {"broadcast(i * 16, 16) + min(max(ramp(-3, 1, 16), broadcast(0, 16)), broadcast(9, 16))",
       [](int64_t l) { return std::min<int64_t>(std::max<int64_t>(l - 3, 0), 9); }},
      {"broadcast(i * 16 + 20, 16) - tdiv(ramp(0, 1, 16), broadcast(16, 16))", [](int64_t) { return int64_t{20}; }},
  };
  constexpr int64_t kRuns = 5;
  for (const Case& k : cases) {
    std::set<int64_t> places;
    for (int64_t l = 0; l < 16; ++l) places.insert(k.at(l));
    const bool scatters = places.size() == 16;
    std::string text = "func @read(x: f32[1], y: f32[1], wanted: i32[1]) {\n  for i in 0..5 {\n";
    text += Cat("    y[ramp(i * 32, 1, 16)] = x[", k.index, "]\n");
    text += Cat("    y[ramp(i * 32 + 16, 1, 16)] = x[", k.index,
                "; broadcast(0, 16) < i64(wanted[ramp(0, 1, 16)])]\n  }\n}\n");
    text += "func @write(x: f32[1], y: f32[1], wanted: i32[1]) {\n  for i in 0..1 {\n";
    text += Cat("    y[", k.index, "; broadcast(0, 16) < i64(wanted[ramp(0, 1, 16)])] = x[ramp(0, 1, 16)]\n  }\n}\n");
    const auto c = CompileForTest(text);
    const int64_t last = *places.rbegin();
    std::mt19937 rng(7);
    for (int round = 0; round < 8; ++round) {
      std::vector<int32_t> wanted(16);
      for (int32_t& w : wanted) w = round == 0 ? 1 : static_cast<int32_t>(rng() % 2);
      // As much as is read and no more, so that the address sanitizer and guard values see any access beyond.
      const auto x = RandomFloats(static_cast<size_t>((kRuns - 1) * 16 + last + 1), 3);
      std::vector<float> y(kRuns * 32, 7);
      ASSERT_EQ(CallInternal(*c, "read", x.data(), y.data(), wanted.data()), 0);
      for (int64_t i = 0; i < kRuns; ++i) {
        for (int64_t l = 0; l < 16; ++l) {
          EXPECT_EQ(y[i * 32 + l], x[i * 16 + k.at(l)]) << k.index << " lane " << l;
          EXPECT_EQ(y[i * 32 + 16 + l], wanted[l] > 0 ? x[i * 16 + k.at(l)] : 0) << k.index << " masked lane " << l;
        }
      }
      if (!scatters) continue;
      std::vector<float> z(last + 1, 7), expected = z;
      ASSERT_EQ(CallInternal(*c, "write", x.data(), z.data(), wanted.data()), 0);
      for (int64_t l = 0; l < 16; ++l) {
        if (wanted[l] > 0) expected[k.at(l)] = x[l];
      }
      EXPECT_EQ(z, expected) << k.index;
    }
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

// What is accumulated under a mask on the stack is stored whole (so that it stays in registers): lanes that are off
// keep what was there, and elements behind the buffer's end are nobody's.
TEST(Loops, AccumulatesUnderMasksOnTheStack) {
  std::mt19937 rng(5);
  for (int round = 0; round < 40; ++round) {
    const int lanes = std::vector{2, 4, 8, 16}[rng() % 4], size = 2 + static_cast<int>(rng() % 40);
    const int vectors = (size + lanes - 1) / lanes, rows = 1 + static_cast<int>(rng() % 5);
    std::string start, add, end;
    for (int v = 0; v < vectors; ++v) {
      const std::string at = Cat("ramp(", v * lanes, ", 1, ", lanes, ")");
      const std::string in = Cat(at, "; ", at, " < broadcast(", size, ", ", lanes, ")");
      const std::string first = Cat("ramp(k * ", size, " + ", v * lanes, ", 1, ", lanes, ")");
      // Some lanes take part in some rows.
      const std::string some = Cat(at, "; ", at, " < broadcast(", size, ", ", lanes, ") && ", at, " % broadcast(",
                                   1 + rng() % 3, ", ", lanes, ") == broadcast(k % 2, ", lanes, ")");
      const std::string& where = rng() % 2 == 0 ? in : some;
      start += Cat("  t[", in, "] = broadcast(1.0, ", lanes, ")\n");
      add += Cat("    t[", where, "] = t[", where, "] + x[", first, where.substr(where.find(';')), "]\n");
      end += Cat("  y[", in, "] = t[", in, "]\n");
    }
    const std::string text = Cat("func @f(x: f32[", rows * size, "], y: f32[", size, "]) {\n  alloc t: f32[", size,
                                 "] @local\n", start, "  for k in 0..", rows, " {\n", add, "  }\n", end, "}\n");
    const auto module = ir::ParseModule(text);
    ASSERT_TRUE(module.ok()) << module.status() << text;
    ir::HostArray x(DType::kF32, {rows * size}), y(DType::kF32, {size}), expected = y;
    for (int i = 0; i < rows * size; ++i) x.Set(i, static_cast<int>(rng() % 17) - 8);
    ASSERT_TRUE(ir::Interpret(*module, "f", {&x, &expected}).ok()) << text;
    ASSERT_EQ(CallInternal(*CompileForTest(*module), "f", x.bytes.data(), y.bytes.data()), 0);
    EXPECT_EQ(y.bytes, expected.bytes) << text;
  }
  const auto llvm = EmitHostModule(*ir::ParseModule(R"(
func @f(x: f32[700], y: f32[7]) {
  alloc t: f32[7] @local
  t[ramp(0, 1, 8); ramp(0, 1, 8) < broadcast(7, 8)] = broadcast(0.0, 8)
  for k in 0..100 {
    t[ramp(0, 1, 8); ramp(0, 1, 8) < broadcast(7, 8)] = t[ramp(0, 1, 8); ramp(0, 1, 8) < broadcast(7, 8)] + x[ramp(k * 7, 1, 8); ramp(0, 1, 8) < broadcast(7, 8)]
  }
  y[ramp(0, 1, 8); ramp(0, 1, 8) < broadcast(7, 8)] = t[ramp(0, 1, 8); ramp(0, 1, 8) < broadcast(7, 8)]
}
)"),
                                   *Target::Parse("cpu"), {}, HostText::kLlvm);
  ASSERT_TRUE(llvm.ok()) << llvm.status();
  EXPECT_EQ(llvm->find("alloca"), std::string::npos) << *llvm;
}

// NaN in any lane is the largest and the smallest.
TEST(Loops, ExtremesOfLanes) {
  for (const int lanes : {2, 3, 8, 16, 24, 64}) {
    auto c = CompileForTest(Cat("func @f(x: f32[", lanes, "], y: f32[2]) {\n  y[0] = lane_max(x[ramp(0, 1, ", lanes,
                                ")])\n  y[1] = lane_min(x[ramp(0, 1, ", lanes, ")])\n}\n"));
    std::vector<float> x = RandomFloats(static_cast<size_t>(lanes), 6), y(2);
    ASSERT_EQ(CallInternal(*c, "f", x.data(), y.data()), 0);
    EXPECT_EQ(y[0], *std::max_element(x.begin(), x.end()));
    EXPECT_EQ(y[1], *std::min_element(x.begin(), x.end()));
    for (int i = 0; i < lanes; ++i) {
      std::vector<float> with = x;
      with[static_cast<size_t>(i)] = NAN;
      ASSERT_EQ(CallInternal(*c, "f", with.data(), y.data()), 0);
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1])) << lanes << " " << i;
    }
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

TEST(Loops, EveryOtherElementEndsWithTheLastLane) {
  const auto c = CompileForTest(R"(
func @all(x: f32[31], y: f32[16]) {
  y[ramp(0, 1, 16)] = x[ramp(0, 2, 16)]
}

func @first(x: f32[31], y: f32[16], n: i64) {
  y[ramp(0, 1, 16)] = x[ramp(0, 2, 16); ramp(0, 1, 16) < broadcast(n, 16)]
}

func @store_all(x: f32[31], y: f32[16]) {
  x[ramp(0, 2, 16)] = y[ramp(0, 1, 16)]
}

func @store_first(x: f32[31], y: f32[16], n: i64) {
  x[ramp(0, 2, 16); ramp(0, 1, 16) < broadcast(n, 16)] = y[ramp(0, 1, 16)]
}
)");
  // What follows the last element that is read can't be read.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* memory =
      static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory + page, page, PROT_NONE), 0);
  auto* end = reinterpret_cast<float*>(memory + page);
  for (int i = 1; i < 40; ++i) end[-i] = static_cast<float>(i);
  for (int n = 0; n <= 16; ++n) {
    const int elements = n == 0 ? 0 : 2 * n - 1;
    std::vector<float> y(16, -1);
    CallInternal(*c, "first", end - elements, y.data(), int64_t{n});
    for (int i = 0; i < 16; ++i) EXPECT_EQ(y[i], i < n ? static_cast<float>(elements - 2 * i) : 0) << n << " " << i;
  }
  std::vector<float> y(16, -1);
  CallInternal(*c, "all", end - 31, y.data());
  for (int i = 0; i < 16; ++i) EXPECT_EQ(y[i], static_cast<float>(31 - 2 * i)) << i;
  // What lies between stays.
  std::iota(y.begin(), y.end(), 100.0f);
  for (int n = 0; n <= 17; ++n) {
    const int lanes = std::min(n, 16), elements = lanes == 0 ? 0 : 2 * lanes - 1;
    for (int i = 1; i < 40; ++i) end[-i] = static_cast<float>(i);
    if (n == 17)
      CallInternal(*c, "store_all", end - elements, y.data());
    else
      CallInternal(*c, "store_first", end - elements, y.data(), int64_t{n});
    for (int i = 1; i < 40; ++i) {
      const bool is_stored = i <= elements && (elements - i) % 2 == 0;
      EXPECT_EQ(end[-i], is_stored ? 100.0f + static_cast<float>((elements - i) / 2) : static_cast<float>(i)) << n;
    }
  }
  munmap(memory, 2 * page);
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
    for k in 0..m @parallel {
      y[i * m + k] = x[i * m + k] - sum[0] / scale
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
    if tmod(v, 2) == 0 {
      y[i] = tdiv(v, 2)
    } else {
      if v < 0 {
        y[i] = neg(v)
      } else {
        y[i] = v * 3 + 1
      }
    }
    alloc t: i64[4] @local
    for k in 0..4 @unrolled {
      t[k] = v * k
    }
    for l in 0..2 @unrolled {
      y[i] = y[i] + t[l + 2]
    }
  }
}
)");
  std::vector<int32_t> x(101);
  std::iota(x.begin(), x.end(), -50);
  std::vector<int64_t> y(101);
  ASSERT_EQ(CallInternal(*c, "f", x.data(), y.data(), int64_t{101}), 0);
  for (int i = 0; i <= 100; ++i) {
    const int64_t v = x[i];
    EXPECT_EQ(y[i], (v % 2 == 0 ? v / 2 : v < 0 ? -v : v * 3 + 1) + v * 2 + v * 3);
  }
}

// Stores through one name don't change what was loaded before in the same statement, and are seen by the next one.
TEST(Loops, LoadsSeeEarlierStores) {
  auto c = CompileForTest(R"(
func @fibonacci(x: i64[1], n: i64) {
  for i in 0..n {
    x[i + 2] = x[i] + x[i + 1]
    x[i] = x[i + 2] - x[i + 1]
  }
}
)");
  std::vector<int64_t> x(32, 1);
  ASSERT_EQ(CallInternal(*c, "fibonacci", x.data(), int64_t{30}), 0);
  EXPECT_EQ(x[31], 2178309);
}

std::atomic<int> live_workspaces = 0;  // a parallel loop asks for some
CinnCallEnv CountingEnv() {
  CinnCallEnv env = HostEnv();
  env.alloc = [](void*, int32_t index, DLTensor* spec) -> int32_t {
    if (index != -1) return -3;
    ++live_workspaces;
    spec->data = std::malloc(static_cast<size_t>(spec->shape[0]));
    return 0;
  };
  env.free = [](void*, void* data) {
    --live_workspaces;
    std::free(data);
  };
  return env;
}

int32_t FailAt(int64_t value, int64_t bad, const CinnCallEnv*) { return value == bad ? -9 : 0; }

constexpr char kCalls[] = R"(
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
func @failing(x: f32[1], n: i64) {
  alloc t: u8[n] @global
  for i in 0..n @parallel {
    alloc u: u8[16] @global
    call test_fail_at(i, 77)
  }
  x[0] = 1.0
}
func @reversed(x: f32[1], y: f32[1], n: i64) {
  for i in 0..n @parallel {
    alloc t: f32[n] @global
    for j in 0..n {
      t[j] = x[n - 1 - j]
    }
    y[i] = t[i]
  }
}
)";

TEST(Loops, CallsPassFailuresOnAndGiveMemoryBack) {
  auto compiler = Compiler::Create(*Target::Parse("cpu"));
  ASSERT_TRUE(compiler.ok());
  ASSERT_TRUE((*compiler)->symbols().Add("test_fail_at", reinterpret_cast<void*>(&FailAt)).ok());
  const Status s = (*compiler)->Build(*ir::ParseModule(kCalls));
  ASSERT_TRUE(s.ok()) << s;
  const auto x = RandomFloats(100, 6);
  std::vector<float> y(100);
  const CinnCallEnv env = CountingEnv();
  auto* twice =
      reinterpret_cast<int32_t (*)(const float*, float*, int64_t, const CinnCallEnv*)>((*compiler)->Lookup("twice"));
  ASSERT_EQ(twice(x.data(), y.data(), 100, &env), 0);
  EXPECT_EQ(x, y);
  auto* failing = reinterpret_cast<int32_t (*)(float*, int64_t, const CinnCallEnv*)>((*compiler)->Lookup("failing"));
  y[0] = 5;
  EXPECT_EQ(failing(y.data(), 100, &env), -9);
  EXPECT_EQ(y[0], 5);
  EXPECT_EQ(failing(y.data(), 77, &env), 0);
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(live_workspaces, 0);
  // Memory of an iteration is all that may fail.
  auto* reversed =
      reinterpret_cast<int32_t (*)(const float*, float*, int64_t, const CinnCallEnv*)>((*compiler)->Lookup("reversed"));
  ASSERT_EQ(reversed(x.data(), y.data(), 100, &env), 0);
  EXPECT_TRUE(std::equal(x.rbegin(), x.rend(), y.begin()));
  EXPECT_EQ(live_workspaces, 0);
  CinnCallEnv none = env;
  none.alloc = [](void*, int32_t, DLTensor*) -> int32_t { return -8; };
  EXPECT_EQ(reversed(x.data(), y.data(), 100, &none), -static_cast<int32_t>(absl::StatusCode::kResourceExhausted));
}

TEST(Loops, ContractsUnlessExact) {
  const std::string text = R"(
func @f(x: f32[1], y: f32[1], n: i64) {
  for i in 0..n {
    y[i] = x[i] * x[i + 1] + x[i + 2]
  }
}
)";
  CompileOptions exact;
  exact.numerics = "exact";
  const auto fused_code = CompileForTest(text), exact_code = CompileForTest(text, "cpu", exact);
  const auto x = RandomFloats(1002, 8);
  std::vector<float> fused(1000), rounded(1000);
  ASSERT_EQ(CallInternal(*fused_code, "f", x.data(), fused.data(), int64_t{1000}), 0);
  ASSERT_EQ(CallInternal(*exact_code, "f", x.data(), rounded.data(), int64_t{1000}), 0);
  for (int i = 0; i < 1000; ++i) {
    const volatile float product = x[i] * x[i + 1];
    ASSERT_EQ(rounded[i], product + x[i + 2]);
    ASSERT_TRUE(fused[i] == std::fmaf(x[i], x[i + 1], x[i + 2]) || fused[i] == rounded[i]);
  }
}

// The host side of a kernel launch, as LLVM has it: device tests run it.
TEST(Loops, LaunchesThroughKernelVariables) {
  const auto text = EmitHostModule(*ir::ParseModule(R"(
func @f(x: f32[1], n: i64) {
  launch @k grid(tdiv(n + 255, 256), 1, 1) block(256, 1, 1) shared 0 (&x[0], n)
}
)"),
                                   *Target::Parse("cpu"), {}, HostText::kLlvm);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find("@k_kernel_ptr_ = external global ptr"), std::string::npos) << *text;
  EXPECT_NE(text->find("call i32 @cinn_launch(ptr @cinn_device_x86_64, ptr"), std::string::npos) << *text;
}

// Registers go to the loop that runs longest, so LLVM must know which that is.
TEST(Loops, KnownExtentsAreWeights) {
  const auto text = EmitHostModule(*ir::ParseModule(R"(
func @sums(x: f32[96], y: f32[1], n: i64) {
  for j in 0..n {
    for k in 0..96 {
      y[j] = y[j] + x[k]
    }
  }
}
)"),
                                   *Target::Parse("cpu"), {}, HostText::kLlvm);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find("!{!\"branch_weights\", i32 95, i32 1}"), std::string::npos) << *text;
}

// A condition for all lanes decides which address is read: one that no page backs costs also where no lane is read.
TEST(Loops, LoadsOfNoLaneStayInTheBuffer) {
  const std::string kernel = R"(
func @far(x: f32[16], y: f32[16], n: i64) {
  y[ramp(0, 1, 16)] = x[ramp(n, 1, 16); n < 1]
}
)";
  auto c = CompileForTest(kernel);
  const auto x = RandomFloats(16, 3);
  for (const int64_t n : {int64_t{0}, int64_t{1} << 40}) {
    std::vector<float> y(16, 7);
    ASSERT_EQ(CallInternal(*c, "far", x.data(), y.data(), n), 0);
    EXPECT_EQ(y, n == 0 ? x : std::vector<float>(16));
  }
  const auto text = EmitHostModule(*ir::ParseModule(kernel), *Target::Parse("cpu"), {}, HostText::kLlvm);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find("select i1"), std::string::npos) << *text;
}

TEST(Loops, UnknownSymbolIsAnError) {
  auto compiler = Compiler::Create(*Target::Parse("cpu"));
  ASSERT_TRUE(compiler.ok());
  const Status s = (*compiler)->Build(*ir::ParseModule(kCalls));
  EXPECT_NE(Message(s).find("test_fail_at"), std::string::npos) << s;
}

}  // namespace
}  // namespace cinn_like
