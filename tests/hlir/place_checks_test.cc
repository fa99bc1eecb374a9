// Where indices are checked: in the kernel that reads them, in one of their own, or by a function behind all kernels.
#include "hlir/place_checks.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"

namespace cinn_like::hlir {
namespace {

constexpr char kParams[] =
    "%x: f32[50,16], %y: f32[50,0], %z: f32[0,4], %v: f32[n,5], %i: i64[n], %j: i64[3]) where n in 8..1000";

// "2 kernels, 1 checks": those that check, and "and a function" where one compares the lowest and highest numbers.
std::string Checks(const std::string& params, const std::string& ops, const std::string& target) {
  const StatusOr<Graph> graph = Parse(Cat("graph @f(", params, " {\n", ops, "}\n"));
  if (!graph.ok()) return graph.status().ToString();
  const PassContext context{.options = {}, .target = *Target::Parse(target), .name = "test"};
  const StatusOr<Graph> optimized = OptimizeGraph(*graph, context);
  if (!optimized.ok()) return optimized.status().ToString();
  const StatusOr<LoweredGraph> lowered = LowerGraph(*optimized, context);
  if (!lowered.ok()) return lowered.status().ToString();
  int checking = 0;
  for (const LoweredGraph::Kernel& k : lowered->kernels) {
    checking += absl::StrContains(k.text, "checked(\"op 0, check_index: index out of range\", ");
  }
  return Cat(lowered->kernels.size(), " kernels, ", checking, " checks", lowered->check ? " and a function" : "");
}

constexpr char kCheck[] = "  %0 = check_index(%i) {size=50} : i64[n]\n";

TEST(PlaceChecks, TheReaderOfAllElementsChecks) {
  const std::string gather = Cat(kCheck, "  %1 = gather(%x, %0) : f32[n,16]\n");
  struct Case {
    std::string ops, expected;
  };
  const Case cases[] = {
      {gather + "  return %1\n", "1 kernels, 1 checks"},
      {gather + "  %2 = exp(%1) : f32[n,16]\n  %3 = reduce_sum(%2) {axes=[1]} : f32[n]\n  return %3\n",
       "1 kernels, 1 checks"},
      {gather + "  %2 = softmax(%1) {axis=1} : f32[n,16]\n  return %2\n", "1 kernels, 1 checks"},
      {gather + "  %2 = transpose(%1) {perm=[1,0]} : f32[16,n]\n  return %2\n", "1 kernels, 1 checks"},
      {gather + "  %2 = reshape(%1) {shape=[n*16]} : f32[n*16]\n  return %2\n", "1 kernels, 1 checks"},
      {gather + "  %2 = broadcast_to(%1) {shape=[3,n,16]} : f32[3,n,16]\n  return %2\n", "1 kernels, 1 checks"},
      // Its own result, too.
      {gather + "  return %0, %1\n", "2 kernels, 2 checks"},
      // A part of what is read.
      {gather + "  %2 = slice(%1) {axis=0, begin=2, end=6} : f32[4,16]\n  return %2\n", "2 kernels, 1 checks"},
      {gather + "  %2 = pad(%1) {low=[-1,0], high=[0,0]} : f32[n-1,16]\n  return %2\n", "2 kernels, 1 checks"},
      // All of it, under masks; at some indices of another dimension.
      {gather + "  %2 = pad(%1) {low=[1,0], high=[0,3]} : f32[n+1,19]\n  return %2\n", "1 kernels, 1 checks"},
      {gather + "  %2 = concat(%1, %1) {axis=0} : f32[2*n,16]\n  return %2\n", "1 kernels, 1 checks"},
      {gather + "  %2 = concat(%v, %1) {axis=1} : f32[n,21]\n  return %2\n", "1 kernels, 1 checks"},
      {gather + "  %2 = slice(%1) {axis=1, begin=2, end=6} : f32[n,4]\n  return %2\n", "1 kernels, 1 checks"},
      {gather + "  %2 = gather(%1, %j) {axis=1} : f32[n,3]\n  return %2\n", "1 kernels, 1 checks"},
      {gather + "  %2 = gather(%1, %j) {axis=0} : f32[3,16]\n  return %2\n", "2 kernels, 1 checks"},
      // One reader of all is enough.
      {gather + "  %2 = slice(%1) {axis=0, begin=2, end=6} : f32[4,16]\n  %3 = exp(%1) : f32[n,16]\n  return %2, %3\n",
       "2 kernels, 2 checks"},
      // A product over nothing reads nothing.
      {Cat(kCheck, "  %1 = gather(%y, %0) : f32[n,0]\n  %2 = matmul(%1, %z) : f32[n,4]\n  return %2\n"),
       "2 kernels, 1 checks"},
  };
  for (const Case& c : cases) {
    for (const char* target : {"cuda -arch=sm_90a", "opencl -arch=generic"})
      EXPECT_EQ(Checks(kParams, c.ops, target), c.expected) << target << "\n" << c.ops;
  }
}

// Where there may be no reader of what is out of range: no columns.
TEST(PlaceChecks, SizesThatMayBeZero) {
  const std::string ops = Cat(kCheck, "  %1 = gather(%x, %0) : f32[n,m]\n  return %1\n");
  EXPECT_EQ(Checks("%x: f32[50,m], %i: i64[n]) where n in 0..9, m in 1..9", ops, "cuda -arch=sm_90a"),
            "1 kernels, 1 checks");
  EXPECT_EQ(Checks("%x: f32[50,m], %i: i64[n]) where n in 0..9, m in 0..9", ops, "cuda -arch=sm_90a"),
            "2 kernels, 1 checks");
}

// The lowest and the highest number are one kernel.
TEST(PlaceChecks, DevicesThatDoNotAssert) {
  const std::string ops = Cat(kCheck, "  %1 = gather(%x, %0) : f32[n,16]\n  return %1\n");
  for (const char* target : {"x86_64 -mcpu=skylake", "c", "hip -arch=gfx90a"})
    EXPECT_EQ(Checks(kParams, ops, target), "2 kernels, 0 checks and a function") << target;
}

TEST(PlaceChecks, WhatLoopsCountIsNotChecked) {
  const std::string ops =
      "  %0 = iota() {dtype=i64, shape=[n], axis=0} : i64[n]\n  %1 = check_index(%0) {size=1000} : i64[n]\n"
      "  %2 = add(%1, %i) : i64[n]\n  return %2\n";
  for (const char* target : {"x86_64 -mcpu=skylake", "cuda -arch=sm_90a"})
    EXPECT_EQ(Checks(kParams, ops, target), "1 kernels, 0 checks") << target;
}

}  // namespace
}  // namespace cinn_like::hlir
