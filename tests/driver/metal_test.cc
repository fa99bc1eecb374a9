// Graphs for Metal, which leave as source text.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "cinn_like/driver.h"

namespace cinn_like {
namespace {

constexpr char kMlp[] = R"(
graph @mlp(%x: f32[n,500], %w: f32[500,500] static, %b: f32[500] static) where n in 1..4096 hint 1000 {
  %0 = matmul(%x, %w) : f32[n,500]
  %1 = add(%0, %b) : f32[n,500]
  %2 = gelu(%1) : f32[n,500]
  %3 = softmax(%2) {axis=1} : f32[n,500]
  return %3
}
)";

StatusOr<std::string> Emit(std::string_view graph, std::string_view kind, const std::string& numerics = "fused") {
  ASSIGN_OR_RETURN(const hlir::Graph g, hlir::Parse(graph));
  CompileOptions options;
  options.numerics = numerics;
  return EmitGraph(g, *Target::Parse("metal"), options, kind);
}

TEST(Metal, GraphsBecomeSource) {
  const StatusOr<std::string> source = Emit(kMlp, "metal");
  ASSERT_TRUE(source.ok()) << source.status();
  for (const char* part : {"#include <metal_stdlib>", "// mlp_k0_kernel", "// mlp_k1_kernel", "threadgroup_barrier",
                           "cinn_thread [[thread_position_in_threadgroup]]"}) {
    EXPECT_TRUE(absl::StrContains(*source, part)) << part << " in:\n" << *source;
  }
  EXPECT_FALSE(absl::StrContains(*source, "contract(off)"));
  EXPECT_TRUE(absl::StrContains(*Emit(kMlp, "metal", "exact"), "#pragma METAL fp contract(off)\n"));
}

TEST(Metal, WhatIsRefused) {
  EXPECT_EQ(Message(CompileGraph(*hlir::Parse(kMlp), *Target::Parse("metal"), {}).status()),
            "target 'metal': its functions leave as source text (EmitGraph, cinn_compile) and don't run here");
  EXPECT_EQ(Message(Emit(kMlp, "llvm").status()),
            "no source of kind 'llvm'; there are graph, stages, schedule, loops, metal");
  EXPECT_EQ(Message(Emit("graph @g(%x: f64[4]) {\n  %0 = exp(%x) : f64[4]\n  return %0\n}\n", "metal").status()),
            "op 'exp': f64[4]: the metal device has no f64");
}

}  // namespace
}  // namespace cinn_like
