// How rows lie in memory, and what they have in common: schedules of groups.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "hlir/tactics/tactic.h"
#include "ir/lower.h"
#include "tests/hlir/group.h"

namespace cinn_like::hlir {
namespace {

// What runs, with nothing refused.
Proposal ChosenFor(const std::string& graph, const Target& target) {
  const auto group = GroupOf(graph, target);
  EXPECT_TRUE(group.ok()) << group.status();
  if (!group.ok()) return {};
  StatusOr<Choice> choice = ChooseSchedule(*group, target);
  EXPECT_TRUE(choice.ok()) << choice.status();
  if (!choice.ok()) return {};
  EXPECT_TRUE(choice->refused.empty()) << choice->refused[0];
  return std::move(choice->proposal);
}

// What rows have in common is read once for a block of them, where lanes gather it: places that are computed, by
// symbolic sizes too, and places from memory; not what each row has of its own. It has a price in that proportion.
TEST(RowsCpu, BlocksOfRowsShareWhatTheirLinesGather) {
  const Target target = *Target::Parse("x86_64 -mcpu=znver4 -num-threads=2");
  const std::string groups =
      "graph @g(%x: f32[n,64,C,10], %m: f32[n,C]) where n in 1..64 hint 16S {\n"
      "  %0 = reshape(%m) {shape=[n,1,C,1]} : f32[n,1,C,1]\n  %1 = mul(%x, %0) : f32[n,64,C,10]\n"
      "  %2 = reshape(%1) {shape=[n,64,C*10]} : f32[n,64,C*10]\n  return %2\n}\n";
  const std::string table =
      "graph @g(%x: f32[n,300], %i: i64[300], %w: f32[W]) where n in 1..4096 {\n"
      "  %0 = gather(%w, %i) {axis=A} : f32[R]\n  %1 = mul(%x, %0) : f32[n,300]\n  return %1\n}\n";
  std::vector<double> seconds;
  for (const auto& [graph, shares] :
       {std::pair(absl::StrReplaceAll(groups, {{"C*10", "320"}, {"C", "32"}, {"16S", "16"}}), true),
        {absl::StrReplaceAll(groups, {{"C", "c"}, {"16S", "16, c in 1..64 hint 32"}}), true},
        {absl::StrReplaceAll(table, {{"[W]", "[99]"}, {"=A", "=0"}, {"[R]", "[300]"}}), true},
        {absl::StrReplaceAll(table, {{"[W]", "[n,99]"}, {"=A", "=1"}, {"[R]", "[n,300]"}}), false}}) {
    const Proposal p = ChosenFor(graph, target);
    EXPECT_EQ(absl::StrContains(p.schedule, "32 -> b bi\n"), shares) << p.schedule;
    const StatusOr<ir::Func> lowered = ir::LowerKernel(p.func, {.options = {}, .target = target, .name = "test"});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(absl::StrContains(ir::Print(*lowered), "let lanes"), shares) << ir::Print(*lowered);
    seconds.push_back(p.seconds);
  }
  EXPECT_LT(seconds[2], seconds[3] / 2);
}

// So do sums of single elements, which start in the block of rows that reads them.
TEST(RowsCpu, BlocksOfRowsStartSumsOfOne) {
  const Target target = *Target::Parse("x86_64 -mcpu=skylake-avx512 -num-threads=2");
  const auto group = GroupOf(
      "graph @g(%dy: f32[2,2,3,2], %w: f32[2,3,1,2]) {\n"
      "  %0 = conv_input_grad(%dy, %w) {input_shape=[2,6,3,7], stride=[1,3], padding=[0,0], dilation=[1,2], groups=2}"
      " : f32[2,6,3,7]\n  %1 = exp(%0) : f32[2,6,3,7]\n  return %1\n}\n",
      target);
  ASSERT_TRUE(group.ok()) << group.status();
  for (const Bid& bid : CollectBids(*group, target).bids) {
    Point point;
    EXPECT_TRUE(bid.tactic->propose(*group, target, Until::kSchedule, point).ok()) << bid.tactic->name;
  }
}

// Memory goes along the last dimension of a row, in whatever order what is reduced is named.
TEST(RowsGpu, RowsGoAsMemoryDoes) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4800");
  const Proposal p = ChosenFor(
      "graph @f(%x: f32[64,256,96]) {\n  %0 = transpose(%x) {perm=[0,2,1]} : f32[64,96,256]\n"
      "  %1 = reshape(%0) {shape=[64,4,24,256]} : f32[64,4,24,256]\n"
      "  %2 = reduce_max(%1) {axes=[2,3], keepdims=true} : f32[64,4,1,1]\n  %3 = sub(%1, %2) : f32[64,4,24,256]\n"
      "  %4 = reshape(%3) {shape=[64,96,256]} : f32[64,96,256]\n"
      "  %5 = transpose(%4) {perm=[0,2,1]} : f32[64,256,96]\n  return %5\n}\n",
      target);
  EXPECT_TRUE(absl::StrContains(p.schedule, " 4 -> ")) << p.schedule;
}

// A value, then its place, whether or not registers hold the rows.
TEST(RowsGpu, PairsAreSeparated) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4800");
  for (const char* shape : {"512,300000", "512,n", "n,3000"}) {
    for (const int axis : {0, 1}) {
      const std::string rows = axis == 1 ? std::string(shape).substr(0, std::string(shape).find(','))
                                         : std::string(shape).substr(std::string(shape).find(',') + 1);
      const Proposal p = ChosenFor(Cat("graph @f(%x: f32[", shape, "])",
                                       absl::StrContains(shape, "n") ? " where n in 2..10000000 hint 4096" : "",
                                       " {\n  %0 = argmax(%x) {axis=", axis, "} : i64[", rows, "]\n  return %0\n}\n"),
                                   target);
      EXPECT_TRUE(absl::StrContains(p.schedule, "separate t0 -> place")) << p.schedule;
    }
  }
}

int CountOf(std::string_view part, std::string_view text) {
  int r = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++r;
  return r;
}

// Results in several orders are one kernel, whatever they read of one another and wherever rows begin: what is read
// across has a tile, and what is written in one order and read in another is one.
TEST(RowsGpu, ResultsOfSeveralOrdersShareTiles) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4800");
  constexpr char kGraph[] =
      "graph @g(%x: T[A,B], %y: T[B,A]) {\n  %0 = transpose(%x) {perm=[1,0]} : T[B,A]\n"
      "  %1 = transpose(%y) {perm=[1,0]} : T[A,B]\n  %2 = exp(%x) : T[A,B]\n"
      "  %3 = transpose(%2) {perm=[1,0]} : T[B,A]\n  %4 = tanh(%0) : T[B,A]\n  %5 = add(%x, %1) : T[A,B]\n"
      "  %6 = add(%y, %0) : T[B,A]\n  %7 = mul(%3, %y) : T[B,A]\n  return RESULTS\n}\n";
  for (const auto& [a, b] : {std::pair("256", "512"), {"255", "131"}, {"260", "130"}, {"40", "70"}}) {
    for (const char* type : {"f32", "bf16", "f64"}) {
      for (const auto& [results, tiles] :
           {std::pair("%2, %4", 1), {"%2, %3", 2}, {"%5, %6", 2}, {"%2, %7", 2}, {"%2, %3, %7", 2}}) {
        const std::string text =
            absl::StrReplaceAll(kGraph, {{"T[", Cat(type, "[")}, {"A", a}, {"B", b}, {"RESULTS", results}});
        const Proposal p = ChosenFor(text, target);
        EXPECT_EQ(p.tactic, "rows_gpu") << text;
        EXPECT_EQ(CountOf("\nscope ", p.schedule), tiles) << text << p.schedule;
        // A block's memory holds two tiles of f32 elements only where it has more than this.
        const Proposal little = ChosenFor(text, *Target::Parse(Cat(target.Print(), " -shared-bytes=32768")));
        EXPECT_LE(CountOf(" shared\n", little.schedule), type == std::string("bf16") || tiles == 1 ? tiles : 0)
            << text << little.schedule;
      }
    }
  }
  const auto pair_of = [&](const char* type, const char* a, const char* b) {
    return ChosenFor(absl::StrReplaceAll(kGraph, {{"T[", Cat(type, "[")}, {"A", a}, {"B", b}, {"RESULTS", "%2, %4"}}),
                     target)
        .schedule;
  };
  // What lies as %x does goes as %x is read.
  EXPECT_EQ(CountOf("split v 16 4 -> bi t", pair_of("f32", "256", "512")), 2);
  // Where not all accesses are of 16 bytes, a warp goes along rows; where one way all are, tiles lie in registers.
  for (const auto& [type, a, b, shared] : {std::tuple("f32", "255", "131", 1),
                                           {"bf16", "260", "132", 1},
                                           {"bf16", "256", "132", 0},
                                           {"bf16", "256", "512", 0}}) {
    EXPECT_EQ(CountOf(" shared\n", pair_of(type, a, b)), shared) << type << a;
    EXPECT_EQ(CountOf("split v 2 32 -> ", pair_of(type, a, b)), 3 * shared) << type << a;
  }
}

}  // namespace
}  // namespace cinn_like::hlir
