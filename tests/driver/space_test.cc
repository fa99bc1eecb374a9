// Whatever point of a tactic's space is taken, it computes the same.
#include "cinn_like/space.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "hlir/graph.h"

namespace cinn_like {
namespace {

struct Case {
  const char *name, *tactic, *parameters, *text;
};

const Case kCases[] = {
    {"Product", "matmul_cpu", "vectors rows pack swap",
     R"(graph @f(%x: f32[33,40], %w: f32[70,40], %b: f32[70]) {
  %0 = transpose(%w) {perm=[1,0]} : f32[40,70]
  %1 = matmul(%x, %0) : f32[33,70]
  %2 = add(%1, %b) : f32[33,70]
  return %2
}
)"},
    {"Pairs", "matmul_cpu", "vectors rows swap",
     R"(graph @f(%x: bf16[33,41], %w: bf16[70,41]) {
  %0 = transpose(%w) {perm=[1,0]} : bf16[41,70]
  %1 = matmul(%x, %0) : bf16[33,70]
  return %1
}
)"},
    {"Windows", "matmul_cpu", "vectors rows pack swap",
     R"(graph @f(%x: f32[3,8,9,7], %w: f32[12,8,3,3]) {
  %0 = conv2d(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1], groups=1} : f32[3,12,9,7]
  return %0
}
)"},
    {"Depthwise", "matmul_cpu", "vectors rows pack",
     R"(graph @f(%x: f32[2,8,12,12], %w: f32[8,1,3,3]) {
  %0 = conv2d(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1], groups=8} : f32[2,8,12,12]
  return %0
}
)"},
    {"Chain", "chain_cpu", "vectors features keys sums",
     R"(graph @f(%q: f32[3,50,16], %k: f32[3,16,90], %v: f32[3,90,24]) {
  %0 = matmul(%q, %k) : f32[3,50,90]
  %1 = softmax(%0) {axis=2} : f32[3,50,90]
  %2 = matmul(%1, %v) : f32[3,50,24]
  return %2
}
)"},
    {"Rows", "rows_cpu", "vector_dim lanes",
     R"(graph @f(%x: bf16[37,90]) {
  %0 = softmax(%x) {axis=1} : bf16[37,90]
  return %0
}
)"},
    {"Columns", "rows_cpu", "vector_dim lanes vectors tasks_of_chunks",
     R"(graph @f(%x: f32[n,150]) where n in 1..99 hint 37 {
  %0 = softmax(%x) {axis=0} : f32[n,150]
  return %0
}
)"},
    {"TransposedInRegisters", "rows_cpu", "tiles tile_in tile_out",
     R"(graph @f(%x: bf16[3,45,64], %y: bf16[3,64,45]) {
  %0 = transpose(%x) {perm=[0,2,1]} : bf16[3,64,45]
  %1 = add(%0, %y) : bf16[3,64,45]
  return %1
}
)"},
    {"Transposed", "rows_cpu", "tiles tile_in tile_out",
     R"(graph @f(%x: f32[3,45,70], %y: bf16[3,70,45]) {
  %0 = transpose(%x) {perm=[0,2,1]} : f32[3,70,45]
  %1 = cast(%y) {dtype=f32} : f32[3,70,45]
  %2 = add(%0, %1) : f32[3,70,45]
  return %2
}
)"},
};

class Space : public testing::TestWithParam<Case> {};

TEST_P(Space, ComputesTheSameEverywhere) {
  const StatusOr<hlir::Graph> graph = hlir::Parse(GetParam().text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const StatusOr<std::string> text =
      DescribeSpace(*graph, *Target::Parse("x86_64 -mcpu=native -num-threads=2"), {}, 10);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(absl::StrContains(*text, Cat("_k0: ", GetParam().tactic, " bids "))) << *text;
  for (absl::string_view name : absl::StrSplit(GetParam().parameters, ' '))
    EXPECT_TRUE(absl::StrContains(*text, Cat("\n  ", name, " of "))) << name << "\n" << *text;
  EXPECT_TRUE(absl::StrContains(*text, "(the choice)\n")) << *text;
  EXPECT_TRUE(absl::StrContains(*text, "; 0 were refused\n")) << *text;
}

INSTANTIATE_TEST_SUITE_P(All, Space, testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

TEST(SpaceOfOtherMachines, IsDescribedButNotMeasured) {
  const StatusOr<hlir::Graph> graph = hlir::Parse(R"(graph @f(%x: bf16[512,512], %w: bf16[512,512]) {
  %0 = matmul(%x, %w) : bf16[512,512]
  return %0
}
)");
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  const StatusOr<std::string> text = DescribeSpace(*graph, target, {}, 0);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(absl::StrContains(*text, "\n  tile of 0 1 2")) << *text;
}

}  // namespace
}  // namespace cinn_like
