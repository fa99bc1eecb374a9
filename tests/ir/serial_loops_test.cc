// What a schedule asks for and lowering can't do is named, whichever pass leaves it out.
#include "ir/serial_loops.h"

#include "gtest/gtest.h"
#include "ir/lower.h"

namespace cinn_like::ir {
namespace {

using Lines = std::vector<std::string>;

Lines SerialLoopsOf(const char* text, const char* target = "x86_64 -mcpu=skylake-avx512") {
  const auto m = ParseModule(text);
  EXPECT_TRUE(m.ok()) << m.status();
  const auto lowered = LowerModule(*m, {{}, *Target::Parse(target), "test"});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  return FindSerialLoops(*m, *lowered);
}

TEST(SerialLoops, WhatIsDoneIsNotNamed) {
  EXPECT_EQ(SerialLoopsOf(R"(
func @f(x: f32[64], y: f32[64], s: f32[1]) {
  for i in 0..4 @parallel { for v in 0..16 @vectorized { y[i * 16 + v] = x[i * 16 + v] * 2.0 } }
  for u in 0..4 @unrolled { y[u] = x[u] }
  for k in 0..4 { for l in 0..16 @vectorized { s[0] = s[0] + x[k * 16 + l] } }
  for one in 0..1 @vectorized { y[one] = x[one] }
}
)"),
            Lines());
}

TEST(SerialLoops, NamesLoopsOfEachFunction) {
  EXPECT_EQ(SerialLoopsOf(R"(
func @f(x: f32[64], y: f32[64], n: i64) where n in 1..64 {
  for v in 0..n @vectorized { y[v] = x[v] }
  for u in 0..n @unrolled { y[u] = x[u] }
  for w in 0..8 @vectorized { for k in 0..n { y[w] = y[w] * x[k] } }
}
func @g(x: f32[64], y: f32[64]) {
  for v in 0..16 @vectorized { y[v] = x[v] }
}
)"),
            (Lines{"@f: loop v is not vectorized but serial", "@f: loop u is not unrolled but serial"}));
}

TEST(SerialLoops, InKernels) {
  EXPECT_EQ(SerialLoopsOf(R"(
func @f(x: f32[8, 64], y: f32[8, 64], n: i64) where n in 1..64 {
  for b in 0..8 @blockIdx.x { for w in 0..n @vectorized { y[b, w] = x[b, w] } }
}
)",
                          "cuda -arch=sm_90a"),
            Lines{"@f: loop w is not vectorized but serial"});
}

}  // namespace
}  // namespace cinn_like::ir
