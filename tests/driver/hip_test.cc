// Graphs for AMD's GPUs: code objects where clang, its linker and ROCm's device library are, as Debian packages them;
// no GPU is needed, and none of AMD's has run any of it. tests/backends/hip_source_test.cc has operators one by one.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "cinn_like/driver.h"

namespace cinn_like {
namespace {

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

StatusOr<std::string> Emit(std::string_view graph, std::string_view target, std::string_view kind) {
  ASSIGN_OR_RETURN(const hlir::Graph g, hlir::Parse(graph));
  ASSIGN_OR_RETURN(const Target t, Target::Parse(target));
  return EmitGraph(g, t, Options(), kind);
}

constexpr char kMlp[] = R"(
graph @mlp(%x: f32[n,500], %w: f32[500,500] static, %b: f32[500] static) where n in 1..4096 hint 1000 {
  %0 = matmul(%x, %w) : f32[n,500]
  %1 = add(%0, %b) : f32[n,500]
  %2 = gelu(%1) : f32[n,500]
  %3 = softmax(%2) {axis=1} : f32[n,500]
  return %3
}
)";

constexpr char kAttention[] = R"(
graph @attention(%q: bf16[8,256,64], %k: bf16[8,64,256], %v: bf16[8,256,64]) {
  %0 = matmul(%q, %k) : bf16[8,256,256]
  %1 = softmax(%0) {axis=2} : bf16[8,256,256]
  %2 = matmul(%1, %v) : bf16[8,256,64]
  return %2
}
)";

constexpr char kChecked[] = R"(
graph @g(%x: f32[5,4], %i: i64[3]) {
  %0 = check_index(%i) {size=5} : i64[3]
  %1 = gather(%x, %0) : f32[3,4]
  return %1
}
)";

TEST(Hip, GraphsBecomeCodeObjects) {
  for (const char* arch : {"gfx90a", "gfx942"}) {
    for (const char* graph : {kMlp, kAttention}) {
      const std::string target = Cat("hip -arch=", arch);
      const StatusOr<std::string> source = Emit(graph, target, "hip");
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_TRUE(absl::StrContains(*source, "__shfl_xor")) << *source;
      EXPECT_FALSE(absl::StrContains(*source, "asm")) << "what is CUDA's alone:\n" << *source;
      const StatusOr<std::string> code = Emit(graph, target, "hsaco");
      if (!code.ok()) {
        ASSERT_TRUE(absl::IsNotFound(code.status()) || absl::IsFailedPrecondition(code.status())) << code.status();
        GTEST_SKIP() << code.status();
      }
      EXPECT_TRUE(code->starts_with("\177ELF"));
      EXPECT_TRUE(absl::StrContains(*code, Cat("amdgcn-amd-amdhsa--", arch)));
    }
  }
}

TEST(Hip, WhatIsRefused) {
  const Status checked = Emit(kChecked, "hip -arch=gfx90a", "hip").status();
  EXPECT_TRUE(absl::StrContains(Message(checked), "no hip text for the call of cinn_range_error")) << checked;
  EXPECT_EQ(Message(Target::Parse("hip -arch=gfx1100").status()),
            "target: option -arch: unknown arch 'gfx1100'; known: native, gfx90a, gfx942");
  EXPECT_EQ(
      Message(Emit(kMlp, "hip -arch=gfx90a", "ptx").status()),
      "no source of kind 'ptx'; there are graph, stages, schedule, loops, llvm, asm, object, hip, hsaco, gcn, kernels");
}

}  // namespace
}  // namespace cinn_like
