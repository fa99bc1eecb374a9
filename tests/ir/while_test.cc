// Loops that end when memory says so, prefetches and hints: as text, to the interpreter, and to what steps ask of a
// function.
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/pass_table.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::ir {
namespace {

constexpr std::string_view kSearch =
    R"(func @search(x: f32[n, 64], length: i64[n], y: f32[n], place: i64[n]) where n in 1..64 {
  for i in 0..n {
    block b(vi in 0..n = i) {
      y[vi] = 0.0
      for k in 0..min(max(length[vi], 0), 64) {
        y[vi] = y[vi] + x[vi, k]
      }
      place[vi] = 0
      while place[vi] < 63 && x[vi, min(place[vi], 63)] < y[vi] {
        place[vi] = place[vi] + 1
      }
    }
  }
}
)";

Func Parse(std::string_view text) {
  auto f = ParseFunc(text);
  EXPECT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE(Verify(*f).ok()) << Verify(*f);
  return *f;
}
std::string ErrorOf(std::string_view text) {
  auto f = ParseFunc(text);
  return Message(f.ok() ? Verify(*f) : f.status());
}
std::string Refusal(std::string_view text, std::string_view steps) {
  return Message(ApplySchedule(Parse(text), steps).status());
}
bool Has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// What @search makes of rows that rise from 0 to 63.
void ExpectFound(const Func& f) {
  HostArray x(DType::kF32, {6, 64}), length(DType::kI64, {6}), y(DType::kF32, {6}), place(DType::kI64, {6});
  for (int64_t i = 0; i < x.NumElements(); ++i) x.Set(i, static_cast<double>(i % 64));
  const int64_t lengths[] = {0, 1, 3, 5, 64, 1000};
  const double sums[] = {0, 0, 3, 10, 2016, 2016}, places[] = {0, 0, 3, 10, 63, 63};
  for (int64_t i = 0; i < 6; ++i) length.SetInt(i, lengths[i]);
  const Status s = Interpret(f, {&x, &length, &y, &place}, {{"n", 6}});
  ASSERT_TRUE(s.ok()) << s << Print(f);
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(y.Get(i), sums[i]) << i;
    EXPECT_EQ(place.GetInt(i), places[i]) << i;
  }
}

TEST(While, PrintsAsItIsRead) {
  for (const std::string& text :
       {std::string(kSearch), std::string(R"(func @f(x: f32[n, 8], i: i64[n]) where n in 1..64 {
  for j in 0..n @hint(unroll=4, vectorize=off) {
    prefetch x[min(max(i[j + 2], 0), n - 1), 0; j + 2 < n]
    while 1.0 < x[j, 0] {
      x[j, 0] = x[j, 0] * 0.5
      let v = x[j, 0]
      x[j, 1] = v
    }
  }
}
)")})
    EXPECT_EQ(Print(Parse(text)), text);
}

TEST(While, NamesOfStatementsAreNoWords) {
  const std::string text = R"(func @f(while: f32[4], prefetch: f32[4]) {
  while[0] = 1.0
  prefetch[1] = while[0]
}
)";
  EXPECT_EQ(Print(Parse(text)), text);
}

TEST(While, Errors) {
  EXPECT_TRUE(Has(ErrorOf("func @f(x: f32[4]) { while x[0] { x[0] = 1.0 } }"), "must be bool"));
  EXPECT_TRUE(Has(ErrorOf("func @f(x: f32[4]) { while x[0, 1] < 1.0 { x[0] = 1.0 } }"), "dimensions"));
  EXPECT_TRUE(Has(ErrorOf("func @f(x: f32[4]) { prefetch y[0] }"), "y"));
  EXPECT_TRUE(
      Has(ErrorOf("func @f(x: f32[4]) { for i in 0..4 @hint(speed=4) { x[i] = 1.0 } }"), "unknown hint 'speed'"));
  EXPECT_TRUE(Has(ErrorOf("func @f(x: f32[4]) { for i in 0..4 @hint(unroll=0) { x[i] = 1.0 } }"), "1 to 1024"));
  EXPECT_TRUE(Has(ErrorOf("func @f(x: f32[4]) { for i in 0..4 @parallel @hint(unroll=2) { x[i] = 1.0 } }"),
                  "hints are of serial loops"));
  // What a while declares ends with it.
  EXPECT_TRUE(Has(ErrorOf("func @f(x: f32[4]) { while x[0] < 1.0 { let v = 2.0 x[0] = v } x[1] = v }"), "v"));
}

TEST(While, ComputesAlsoInThreadsThatLeaveApart) {
  ExpectFound(Parse(kSearch));
  for (const char* steps :
       {"split i 4 -> io ii\nparallel io", "split i 4 -> io ii\nbind io blockIdx.x\nbind ii threadIdx.x"}) {
    auto f = ApplySchedule(Parse(kSearch), steps);
    ASSERT_TRUE(f.ok()) << f.status();
    ExpectFound(*f);
    for (const char* pass : {"lower_blocks", "simplify", "place_buffers", "unswitch", "flatten", "simplify",
                             "vectorize", "simplify", "check_bounds", "legalize"}) {
      f = FindPass(pass)->run(*std::move(f), {});
      ASSERT_TRUE(f.ok()) << pass << ": " << f.status();
      if (std::string_view(pass) == "check_bounds") continue;
      ExpectFound(*f);
    }
  }
}

TEST(While, EndsWithTheSteps) {
  HostArray x(DType::kF32, {1});
  x.Set(0, 1);
  const Status s =
      Interpret(Parse("func @f(x: f32[1]) { while 0.0 < x[0] { x[0] = 2.0 } }"), {&x}, {}, {.most_steps = 1000});
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted) << s;
}

TEST(While, PrefetchesAreWithinTheirBuffers) {
  HostArray x(DType::kF32, {8});
  const auto run = [&](std::string_view text) { return Message(Interpret(Parse(text), {&x})); };
  EXPECT_EQ(run("func @f(x: f32[8]) { for i in 0..8 { prefetch x[i + 2; i + 2 < 8] } }"), "");
  EXPECT_TRUE(Has(run("func @f(x: f32[8]) { for i in 0..8 { prefetch x[i + 2] } }"), "index 8 of buffer x is outside"));
}

TEST(While, StepsTakeItAsAWhole) {
  const std::string bare = R"(func @f(x: f32[n, 4], y: f32[n]) where n in 1..64 {
  for i in 0..n {
    while 1.0 < y[i] {
      for j in 0..4 {
        block b(vi in 0..n = i, vj reduce 0..4 = j) {
          y[vi] = y[vi] * x[vi, vj]
        }
      }
    }
  }
})";
  EXPECT_TRUE(Has(Refusal(bare, "unroll j"), "loop j stands in a loop while 1.0 < y[i]"));
  EXPECT_TRUE(Has(Refusal(bare, "stage x b -> c"), "block b stands in a loop while"));
  EXPECT_TRUE(Has(Refusal(bare, "parallel i"), "in loop i stands a loop while 1.0 < y[i] that is in no block"));
  EXPECT_TRUE(Has(Refusal(kSearch, "parallel k"), "loop k is a part of block b"));
  // What it writes and asks for, iterations share.
  EXPECT_TRUE(Has(Refusal(R"(func @f(x: f32[n], y: f32[1]) where n in 1..64 {
  for i in 0..n {
    block b(vi in 0..n = i) {
      while y[0] < x[vi] {
        y[0] = y[0] + 1.0
      }
    }
  }
})",
                          "parallel i"),
                  "carries a dependence"));
}

TEST(While, ExtentsOutOfMemory) {
  const std::string ragged = R"(func @f(x: f32[n, 8], length: i64[n], y: f32[n]) where n in 1..64 {
  for i in 0..n {
    for k in 0..min(max(length[i], 1), 8) {
      block b(vi in 0..n = i, vk reduce 0..8 = k) init { y[vi] = 0.0 } {
        y[vi] = y[vi] + x[vi, vk]
      }
    }
  }
})";
  EXPECT_EQ(Refusal(ragged, "split k 4 -> ko ki\nparallel i\nunroll ki"), "");
  // What is in no block would be asked beyond the end, too.
  EXPECT_TRUE(Has(Refusal(ragged, "split i 4 -> io ii"), "what stands in no block would run beyond it"));
  EXPECT_TRUE(Has(Refusal(ragged, "unroll k"), "is not constant"));
  EXPECT_TRUE(Has(Refusal(ragged, "vectorize k"), "is not constant"));
  EXPECT_TRUE(Has(Refusal(ragged, "fuse i k -> f"), "reads memory"));
  EXPECT_TRUE(Has(Refusal(ragged, "reorder k i"), "depends on i"));
  EXPECT_TRUE(Has(Refusal(ragged, "split_init b k -> s\npeel k back 1 -> tail"), "reads memory"));
  EXPECT_TRUE(Has(Refusal(ragged, "pipeline k 2"), "reads memory"));
  // An extent that the loop changes is asked once.
  const std::string shrinks = R"(func @f(x: f32[8], length: i64[1]) {
  for k in 0..min(max(length[0], 1), 8) {
    block b(vk in 0..8 = k) {
      length[0] = 2
      x[vk] = 1.0
    }
  }
})";
  EXPECT_TRUE(Has(Refusal(shrinks, "split k 4 -> ko ki"), "writes what its extent"));
  HostArray x(DType::kF32, {8}), length(DType::kI64, {1});
  length.SetInt(0, 5);
  ASSERT_TRUE(Interpret(Parse(shrinks), {&x, &length}).ok());
  EXPECT_EQ(x.Get(4), 1);
}

}  // namespace
}  // namespace cinn_like::ir
