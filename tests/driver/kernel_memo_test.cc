#include "cinn_like/kernel_memo.h"

#include "cinn_like/driver.h"
#include "gtest/gtest.h"

namespace cinn_like {
namespace {

std::string Emit(std::string_view text, std::string_view kind, const std::string& target = "x86_64 -mcpu=skylake") {
  const auto graph = hlir::Parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto emitted = EmitGraph(*graph, *Target::Parse(target), {}, kind);
  EXPECT_TRUE(emitted.ok()) << emitted.status();
  return *emitted;
}

constexpr std::string_view kSoftmax = R"(
graph @f(%x: f32[n,100], %w: f32[100,40]) where n in 1..512 {
  %0 = softmax(%x) {axis=1} : f32[n,100]
  %1 = matmul(%0, %w) : f32[n,40]
  %2 = relu(%1) : f32[n,40]
  return %2
}
)";

TEST(KernelMemo, ASecondCompilationSaysTheSame) {
  for (const char* kind : {"schedule", "loops", "asm"}) {
    const std::string first = Emit(kSoftmax, kind);
    EXPECT_EQ(Emit(kSoftmax, kind), first);
  }
}

TEST(KernelMemo, WhatIsKnownOfSymbolsIsPartOfAKernel) {
  const std::string wide = Emit(kSoftmax, "loops");
  std::string text(kSoftmax);
  text.replace(text.find("1..512"), 6, "64..64");
  EXPECT_NE(Emit(text, "loops"), wide);
}

TEST(KernelMemo, HoldsTheLatest) {
  LoweredKernel kernel;
  kernel.func = *ir::ParseFunc("func @f(x: f32[1]) {\n  x[0] = 1.0\n}\n");
  for (int i = 0; i < 1000; ++i) KeepLoweredKernel(Cat("test ", i), kernel);
  EXPECT_EQ(FindLoweredKernel("test 0"), nullptr);
  ASSERT_NE(FindLoweredKernel("test 999"), nullptr);
  EXPECT_EQ(FindLoweredKernel("test 999")->func.name, "f");
}

}  // namespace
}  // namespace cinn_like
