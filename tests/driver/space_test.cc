// Whatever point of a tactic's space is taken, it computes the same.
#include "cinn_like/space.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "hlir/graph.h"
#include "tests/rounds.h"

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
    {"Scaled", "matmul_cpu", "vectors rows pack swap",
     R"(graph @f(%x: f32[33,48], %w: i8[70,48], %s: f32[70,1]) {
  %0 = cast(%w) {dtype=f32} : f32[70,48]
  %1 = mul(%0, %s) : f32[70,48]
  %2 = transpose(%1) {perm=[1,0]} : f32[48,70]
  %3 = matmul(%x, %2) : f32[33,70]
  return %3
}
)"},
    {"ScaledPairs", "matmul_cpu", "vectors rows swap",
     R"(graph @f(%x: bf16[n,48], %w: i8[70,48], %s: bf16[70,1]) where n in 2..99 hint 33 {
  %0 = cast(%w) {dtype=bf16} : bf16[70,48]
  %1 = mul(%0, %s) : bf16[70,48]
  %2 = transpose(%1) {perm=[1,0]} : bf16[48,70]
  %3 = matmul(%x, %2) : bf16[n,70]
  return %3
}
)"},
    {"ScaledGroups", "matmul_cpu", "vectors rows pack swap",
     R"(graph @f(%x: bf16[33,45], %w: u8[70,45], %s: bf16[70,3,1], %z: u8[70,3,1]) {
  %0 = reshape(%w) {shape=[70,3,15]} : u8[70,3,15]
  %1 = cast(%0) {dtype=bf16} : bf16[70,3,15]
  %2 = cast(%z) {dtype=bf16} : bf16[70,3,1]
  %3 = sub(%1, %2) : bf16[70,3,15]
  %4 = mul(%3, %s) : bf16[70,3,15]
  %5 = reshape(%4) {shape=[70,45]} : bf16[70,45]
  %6 = transpose(%5) {perm=[1,0]} : bf16[45,70]
  %7 = matmul(%x, %6) : bf16[33,70]
  return %7
}
)"},
    {"ComputedRows", "matmul_cpu", "vectors rows copy_rows swap",
     R"(graph @f(%x: f32[33,40], %m: f32[33,40], %w: f32[40,70]) {
  %0 = mul(%x, %m) : f32[33,40]
  %1 = matmul(%0, %w) : f32[33,70]
  return %1
}
)"},
    {"Halves", "matmul_cpu", "vectors rows pack copy_rows swap",
     R"(graph @f(%x: f16[33,41], %w: f16[41,70]) {
  %0 = matmul(%x, %w) : f16[33,70]
  return %0
}
)"},
    {"Fours", "matmul_cpu", "vectors rows swap dots",
     R"(graph @f(%x: i8[33,44], %w: i8[44,70]) {
  %0 = matmul(%x, %w) {wide=true} : i32[33,70]
  return %0
}
)"},
    {"ComputedFours", "matmul_cpu", "vectors rows swap dots",
     R"(graph @f(%x: u8[n,48], %w: u8[70,48], %m: u8[70,48], %b: i32[70]) where n in 2..99 hint 33 {
  %0 = maximum(%w, %m) : u8[70,48]
  %1 = transpose(%0) {perm=[1,0]} : u8[48,70]
  %2 = matmul(%x, %1) {wide=true} : i32[n,70]
  %3 = add(%2, %b) : i32[n,70]
  return %3
}
)"},
    {"Integers", "matmul_cpu", "vectors rows swap",
     R"(graph @f(%x: i8[33,41], %w: i8[70,41]) {
  %0 = cast(%x) {dtype=i32} : i32[33,41]
  %1 = cast(%w) {dtype=i32} : i32[70,41]
  %2 = transpose(%1) {perm=[1,0]} : i32[41,70]
  %3 = matmul(%0, %2) : i32[33,70]
  return %3
}
)"},
    {"LongIntegers", "matmul_cpu", "vectors rows pack swap",
     R"(graph @f(%x: i64[30,41], %w: i64[41,60]) {
  %0 = matmul(%x, %w) : i64[30,60]
  return %0
}
)"},
    {"Windows", "matmul_cpu", "vectors rows pack swap",
     R"(graph @f(%x: f32[3,8,9,7], %w: f32[12,8,3,3]) {
  %0 = conv(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1], groups=1} : f32[3,12,9,7]
  return %0
}
)"},
    {"WindowsOfChannels", "matmul_cpu", "vectors rows pack swap",
     R"(graph @f(%x: f32[3,9,7,8], %w: f32[12,8,3,3]) {
  %0 = transpose(%x) {perm=[0,3,1,2]} : f32[3,8,9,7]
  %1 = conv(%0, %w) {stride=[1,1], padding=[1,1], dilation=[1,1], groups=1} : f32[3,12,9,7]
  %2 = transpose(%1) {perm=[0,2,3,1]} : f32[3,9,7,12]
  return %2
}
)"},
    {"Depthwise", "matmul_cpu", "vectors rows pack pad_input",
     R"(graph @f(%x: f32[2,8,12,12], %w: f32[8,1,3,3]) {
  %0 = conv(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1], groups=8} : f32[2,8,12,12]
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
    {"Across", "rows_cpu", "vector_dim lanes vectors tasks_of_chunks",
     R"(graph @f(%x: bf16[2,48,5,7]) {
  %0 = transpose(%x) {perm=[0,2,3,1]} : bf16[2,5,7,48]
  %1 = softmax(%0) {axis=3} : bf16[2,5,7,48]
  return %1
}
)"},
    {"AcrossOfAnySize", "rows_cpu", "vector_dim lanes vectors tasks_of_chunks",
     R"(graph @f(%x: f32[n,m,21]) where n in 1..9 hint 2, m in 1..99 hint 37 {
  %0 = transpose(%x) {perm=[0,2,1]} : f32[n,21,m]
  %1 = softmax(%0) {axis=2} : f32[n,21,m]
  return %1
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
  const std::string tactic = Cat("_k0: ", GetParam().tactic, " bids ");
  // Which points there are depends on the machine.
  const StatusOr<std::string> space =
      DescribeSpace(*graph, *Target::Parse("x86_64 -mcpu=sapphirerapids -num-threads=2"), {}, 0);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_TRUE(absl::StrContains(*space, tactic)) << *space;
  for (absl::string_view name : absl::StrSplit(GetParam().parameters, ' '))
    EXPECT_TRUE(absl::StrContains(*space, Cat("\n  ", name, " of "))) << name << "\n" << *space;

  const StatusOr<std::string> text =
      DescribeSpace(*graph, *Target::Parse("x86_64 -mcpu=native -num-threads=2"), {}, kRoundsDivisor > 1 ? 3 : 10);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(absl::StrContains(*text, tactic)) << *text;
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
