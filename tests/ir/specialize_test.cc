// What stands under opposite conditions, as specialize leaves it, to later steps.
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/passes/split_host_device.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::ir {
namespace {

constexpr std::string_view kScale = R"(func @scale(x: f32[n] strides [s], y: f32[n]) where n in 1..4096, s in 1..4 {
  for i in 0..n {
    block b(vi in 0..n = i) {
      y[vi] = x[vi] * 2.0
    }
  }
})";
constexpr std::string_view kTwo = R"(func @two(x: f32[n, 8], y: f32[n, 8]) where n in 1..64 {
  alloc t: f32[n, 8] @global
  for i in 0..n {
    for j in 0..8 {
      block b_t(vi in 0..n = i, vj in 0..8 = j) {
        t[vi, vj] = x[vi, vj] + 1.0
      }
    }
    for k in 0..8 {
      block b_y(wi in 0..n = i, wk in 0..8 = k) {
        y[wi, wk] = t[wi, wk] * 2.0
      }
    }
  }
})";

StatusOr<Func> After(std::string_view text, std::string_view steps) {
  ASSIGN_OR_RETURN(Func f, ParseFunc(text));
  return ApplySchedule(std::move(f), steps);
}
std::string Refusal(std::string_view text, std::string_view steps) { return Message(After(text, steps).status()); }
bool Has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

TEST(Specialize, Conditions) {
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i n < 5000 -> a"), "n < 5000 always holds"));
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i n == 0 -> a"), "n == 0 never holds"));
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i n + 1 -> a"), "the condition n + 1 is i64"));
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i n % (s - 1) == 0 -> a"), "divides by s - 1, which may not be above 0"));
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i i < 4 -> a"), "unknown variable 'i'"));
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i m < 4 -> a"), "unknown variable 'm'"));
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i n << s == 8 -> a"), "no arithmetic"));
  EXPECT_TRUE(Has(Refusal(kScale, "specialize k n < 4 -> a"), "no loop 'k'"));
  EXPECT_EQ(Refusal(kScale, "specialize b i < 4 -> a"), "");  // a block, of the loop around it
  // Again, of a part: what is known there decides.
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i n == 64 -> a\nspecialize i_a n < 65 -> b"), "always holds"));
  EXPECT_TRUE(Has(Refusal(kScale, "specialize i 64 <= n -> a\nspecialize i n < 64 -> b"), "always holds"));
}

// Each branch has facts of its own: no predicate where a tile is whole.
TEST(Specialize, StepsKnowTheCondition) {
  const auto f = After(kScale, "specialize i n % 8 == 0 -> a\nsplit i_a 8 -> io ii\nsplit i 8 -> jo ji");
  ASSERT_TRUE(f.ok()) << f.status();
  const std::string text = Print(*f);
  EXPECT_TRUE(Has(text, "block b_a(vi_a in 0..n = io * 8 + ii) {")) << text;
  EXPECT_TRUE(Has(text, "block b(vi in 0..n = jo * 8 + ji) if jo * 8 + ji < n {")) << text;
}

// A stride of 1, as in Halide: lanes then read what is side by side.
TEST(Specialize, Strides) {
  const auto f = After(kScale, "specialize i s == 1 && n % 8 == 0 -> a\nsplit i_a 8 -> io ii\nvectorize ii");
  ASSERT_TRUE(f.ok()) << f.status();
  const auto lowered = LowerKernel(*f, {.options = {}, .target = *Target::Parse("cpu"), .name = "test"});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_TRUE(Has(Print(*lowered), "x[ramp(io * 8, 1, 8)]")) << Print(*lowered);
}

// Kernels of their own, which the host chooses from.
TEST(Specialize, KernelsOfADevice) {
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  const auto f = After(kScale,
                       "specialize i n == 1024 -> a\nsplit i_a 256 -> bo bi\nbind bo blockIdx.x\nbind bi threadIdx.x\n"
                       "split i 64 -> co ci\nbind co blockIdx.x\nbind ci threadIdx.x");
  ASSERT_TRUE(f.ok()) << f.status();
  auto lowered = LowerKernel(*f, {.options = {}, .target = target, .name = "test"});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const auto split = SplitHostDevice({lowered->context, {*lowered}}, target.device->limits);
  ASSERT_TRUE(split.ok()) << split.status();
  const std::string host = Print(split->funcs[0]);
  EXPECT_TRUE(Has(host, "if n == 1024 {")) << host;
  EXPECT_TRUE(Has(host, "grid(4, 1, 1) block(256, 1, 1)")) << host;
  EXPECT_TRUE(Has(host, "grid(tdiv(n + 63, 64), 1, 1) block(64, 1, 1)")) << host;
}

// Memory that both nests have: each may keep it to itself, as nobody runs both.
TEST(Specialize, MemoryOfABranch) {
  const char* steps = "scope t local\nspecialize i n % 2 == 0 -> a\nparallel i\nparallel i_a";
  const auto f = After(kTwo, steps);
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE(Has(Print(*f), "alloc t_1: f32[n, 8] @local")) << Print(*f);
  // Also where it is global: what one iteration reads, it has written.
  EXPECT_EQ(Refusal(kTwo, "specialize i n % 2 == 0 -> a\nparallel i\nparallel i_a"), "");
  EXPECT_EQ(Refusal(kTwo, "specialize i n % 2 == 0 -> a\nscope t local"), "");
}

// What a padded block reads beyond its end stays masked.
TEST(Specialize, PaddedBlocks) {
  const auto f = After(kTwo, "scope t local\nsplit j 3 -> jo ji\npad b_t\nspecialize jo n < 9 -> a");
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE(Has(Print(*f), "x[vi_a, vj_a; vj_a < 8]")) << Print(*f);
}

// A hint is no use of memory: what lives in a loop does not depend on it.
TEST(Prefetch, IsNoUse) {
  const auto f = After(kTwo, "prefetch x i 1\nscope t local");
  ASSERT_TRUE(f.ok()) << f.status();
  const auto lowered = LowerKernel(*f, {.options = {}, .target = *Target::Parse("cpu"), .name = "test"});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_TRUE(Has(Print(*lowered), "prefetch x[")) << Print(*lowered);
}

// A block leaves no condition, and enters none that its readers are not under.
TEST(Specialize, WhatStepsMayNotMove) {
  constexpr std::string_view apart = R"(func @two(x: f32[n], y: f32[n]) where n in 1..64 {
  alloc t: f32[n] @global
  for i in 0..n {
    block b_t(vi in 0..n = i) {
      t[vi] = x[vi] + 1.0
    }
  }
  for k in 0..n {
    block b_y(wk in 0..n = k) {
      y[wk] = t[wk] * 2.0
    }
  }
})";
  EXPECT_TRUE(Has(Refusal(apart, "specialize k n < 9 -> a\nreverse_compute_at b_y i"), "stands in another branch"));
  EXPECT_TRUE(Has(Refusal(apart, "specialize i n < 9 -> a\nreverse_compute_at b_y i"), "stands under the condition"));
  EXPECT_TRUE(Has(Refusal(apart, "specialize i n < 9 -> a\ncompute_at b_t k"), "would leave the condition n < 9"));
  EXPECT_FALSE(Refusal(apart, "specialize k n < 9 -> a\ncompute_at b_t k").empty());
  EXPECT_FALSE(Refusal(apart, "specialize k n < 9 -> a\nreverse_inline b_y").empty());
  EXPECT_FALSE(Refusal(apart, "specialize i n < 9 -> a\ninline b_t").empty());
}

TEST(Prefetch, Refusals) {
  EXPECT_TRUE(Has(Refusal(kTwo, "prefetch t i 1\nscope t local"), "earlier iteration"));
  EXPECT_TRUE(Has(Refusal(kTwo, "scope t local\nprefetch t i 1"), "local memory, which no cache holds"));
  EXPECT_TRUE(Has(Refusal(kTwo, "prefetch y i 1"), "does not read it"));
  EXPECT_TRUE(Has(Refusal(kTwo, "prefetch x i 0"), "expected a distance of 1 to"));
  EXPECT_TRUE(Has(Refusal(kTwo, "unroll j\nprefetch x j 1"), "already unrolled"));
  EXPECT_TRUE(Has(Refusal(kTwo, "parallel i\nannotate i unroll=2"), "already parallel"));
}

}  // namespace
}  // namespace cinn_like::ir
