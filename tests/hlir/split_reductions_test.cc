#include "hlir/split_reductions.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "cinn_like/driver.h"
#include "ir/host_array.h"
#include "tests/column_sums.h"

namespace cinn_like::hlir {
namespace {

std::string Colours(int64_t width, int64_t columns, std::string_view dtype = "u8") {
  return Cat("graph @f(%x: ", dtype, "[n,40,", width, ",", columns,
             "]) where n in 1..64 hint 16 {\n  %0 = cast(%x) {dtype=f32} : f32[n,40,", width, ",", columns,
             "]\n  %1 = reduce_sum(%0) {axes=[1,2]} : f32[n,", columns, "]\n  return %1\n}\n");
}

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

// What is summed up by the first kernel.
std::string Summed(const std::string& text, const std::string& target) {
  const StatusOr<Graph> graph = Parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const StatusOr<std::string> stages = EmitGraph(*graph, *Target::Parse(target), Options(), "stages");
  EXPECT_TRUE(stages.ok()) << stages.status();
  const size_t begin = stages->find("o0: ") + 4;
  return stages->substr(begin, stages->find(']', begin) + 1 - begin);
}

// Columns that fill no vector get neighbours, so many that vectors are as full as can be, without a rest.
TEST(SplitReductions, ColumnsGetNeighbours) {
  const std::string wide = "x86_64 -mcpu=x86-64-v4 -num-threads=1", narrow = "x86_64 -mcpu=x86-64-v3 -num-threads=1";
  EXPECT_EQ(Summed(Colours(160, 3), wide), "f32[n0, 16, 3]");
  EXPECT_EQ(Summed(Colours(160, 3), narrow), "f32[n0, 8, 3]");
  EXPECT_EQ(Summed(Colours(160, 4), wide), "f32[n0, 16, 4]");
  EXPECT_EQ(Summed(Colours(165, 3), wide), "f32[n0, 15, 3]");
  EXPECT_EQ(Summed(Colours(163, 3), wide), "f32[n0, 3]");    // a prime
  EXPECT_EQ(Summed(Colours(160, 16), wide), "f32[n0, 16]");  // they fill one
  EXPECT_EQ(Summed(Colours(4, 3), wide), "f32[n0, 3]");      // not worth a kernel
}

// Lines that go on in the next result, and are short, are columns: the channels of a group where channels come last.
TEST(SplitReductions, ShortLinesAreColumns) {
  const auto groups = [](int64_t images, std::string_view size, int64_t channels, std::string_view dtype) {
    const std::string view = Cat("[", images, ",32,", channels, ",", size, ",", size, "]");
    return Cat("graph @f(%x: ", dtype, "[", images, ",", size, ",", size, ",", 32 * channels, "]",
               size == "n" ? ") where n in 16..128 hint 64" : ")", " {\n  %0 = cast(%x) {dtype=f32} : f32[", images,
               ",", size, ",", size, ",", 32 * channels, "]\n  %1 = transpose(%0) {perm=[0,3,1,2]} : f32[", images, ",",
               32 * channels, ",", size, ",", size, "]\n  %2 = reshape(%1) {shape=", view, "} : f32", view,
               "\n  %3 = reduce_sum(%2) {axes=[2,3,4]} : f32[", images, ",32]\n  return %3\n}\n");
  };
  for (const char* target :
       {"cuda -arch=sm_90a -sm-count=132 -bandwidth=4800", "x86_64 -mcpu=x86-64-v4 -num-threads=2"}) {
    EXPECT_EQ(Summed(groups(16, "64", 10, "f32"), target), "f32[16, 32, 10]") << target;
    EXPECT_TRUE(absl::EndsWith(Summed(groups(16, "n", 4, "bf16"), target), ", 32, 4]")) << target;
    EXPECT_EQ(Summed(groups(16, "64", 128, "f32"), target), "f32[16, 32]") << target;  // long enough
    EXPECT_EQ(Summed(groups(1, "4", 4, "f32"), target), "f32[1, 32]") << target;       // not worth a kernel
  }
}

// Neighbouring columns of several dimensions are one line: a few blocks' work, of which there are parts.
TEST(SplitReductions, ColumnsOfSeveralDimensionsAreOneLine) {
  const auto columns = [](const std::string& kept) {
    return Cat("graph @f(%x: f32[2,65536,", kept, "]) {\n  %0 = reduce_sum(%x) {axes=[1]} : f32[2,", kept,
               "]\n  return %0\n}\n");
  };
  for (const std::string kept : {"256", "64,4", "4,16,4"}) {
    const std::string summed = Summed(columns(kept), "cuda -arch=sm_90a -sm-count=132 -bandwidth=4800");
    EXPECT_EQ(std::count(summed.begin(), summed.end(), ','), 2 + std::count(kept.begin(), kept.end(), ',')) << summed;
  }
}

// What the same rows need again stays whole: a softmax along columns is one kernel, few columns are a cluster's. Sums
// that only the caller needs are parts of a kernel that goes through the rows.
TEST(SplitReductions, SumsThatRowsNeedAgainStayWhole) {
  const auto kernels = [](const StatusOr<Graph>& graph) {
    EXPECT_TRUE(graph.ok()) << graph.status();
    const StatusOr<std::string> stages =
        EmitGraph(*graph, *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=3350"), Options(), "stages");
    EXPECT_TRUE(stages.ok()) << stages.status();
    size_t n = 0;
    for (size_t at = stages->find("func @"); at != std::string::npos; at = stages->find("func @", at + 1)) ++n;
    return n;
  };
  const auto softmax = [](int64_t rows, int64_t columns) {
    return Parse(Cat("graph @f(%x: f32[", rows, ",", columns, "]) {\n  %0 = softmax(%x) {axis=0} : f32[", rows, ",",
                     columns, "]\n  return %0\n}\n"));
  };
  for (const int64_t columns : {128, 1024, 4096, 8192, 16384}) EXPECT_EQ(kernels(softmax(4096, columns)), 1) << columns;
  EXPECT_GT(kernels(softmax(65536, 128)), 1);  // more than the registers of a cluster hold, for few blocks
  EXPECT_EQ(kernels(ColumnSumsGraph(kBias, "16384", "4096", "f32")), 2);
}

// Parts get names that no symbol has, whatever the caller calls his sizes.
TEST(SplitReductions, SymbolsKeepTheirNames) {
  const std::vector<std::string> names = {"p", "q", "i0", "r2", "n", "at"};
  for (size_t k = 0; k + 2 < names.size(); ++k) {
    const std::string &rows = names[k], &columns = names[k + 1], &images = names[k + 2];
    const StatusOr<Graph> graph = Parse(
        Cat("graph @f(%x: f32[", images, ",", rows, ",", columns, ",64]) where ", images, " in 2..1000000 hint 8, ",
            rows, " in 2..1000000 hint 56, ", columns,
            " in 2..1000000 hint 56 {\n  %0 = reduce_sum(%x) {axes=[1,2]} : f32[", images, ",64]\n  return %0\n}\n"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const char* target : {"cuda -arch=sm_90a -sm-count=132 -bandwidth=3350", "x86_64 -num-threads=2"}) {
      const StatusOr<std::string> schedule = EmitGraph(*graph, *Target::Parse(target), Options(), "schedule");
      EXPECT_TRUE(schedule.ok()) << schedule.status() << rows;
    }
  }
}

TEST(SplitReductions, SumsAreTheSame) {
  for (const auto& [width, columns] : {std::pair<int64_t, int64_t>{160, 3}, {165, 5}, {96, 2}, {130, 7}}) {
    const StatusOr<Graph> graph = Parse(Colours(width, columns, "f32"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto f = CompileGraph(*graph, *Target::Parse("cpu -num-threads=1"), Options());
    ASSERT_TRUE(f.ok()) << f.status();
    constexpr int64_t kImages = 5;
    ir::HostArray x(DType::kF32, {kImages, 40, width, columns}), y(DType::kF32, {kImages, columns});
    std::mt19937 random(1);
    std::vector<double> expected(static_cast<size_t>(kImages * columns));
    for (int64_t i = 0; i < x.NumElements(); ++i) {
      x.Set(i, static_cast<double>(random() % 1000) / 1000);
      expected[static_cast<size_t>(i / (40 * width * columns) * columns + i % columns)] += x.Get(i);
    }
    std::vector<DLTensor> tensors;
    std::vector<CinnValue> args(2);
    for (ir::HostArray* a : {&x, &y}) {
      tensors.push_back({a->bytes.data(),
                         {kDLCPU, 0},
                         static_cast<int32_t>(a->shape.size()),
                         {kDLFloat, 32, 1},
                         a->shape.data(),
                         nullptr,
                         0});
    }
    for (size_t i = 0; i < 2; ++i) args[i] = {kCinnTensor, 0, {.tensor = &tensors[i]}};
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {kDLCPU, 0};
    ASSERT_EQ((*f)->entry()((*f)->self(), args.data(), 2, &env), 0);
    for (int64_t i = 0; i < y.NumElements(); ++i)
      EXPECT_NEAR(y.Get(i), expected[static_cast<size_t>(i)], 1e-4 * expected[static_cast<size_t>(i)]) << i;
  }
}

}  // namespace
}  // namespace cinn_like::hlir
