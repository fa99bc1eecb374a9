// Compiling and calling from many threads at once: the same graph, different graphs, with and without the disk cache.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include "cinn_like/driver.h"
#include "runtime/timeline.h"

namespace cinn_like {
namespace {
namespace fs = std::filesystem;

constexpr int kThreads = 4;
constexpr int64_t kRows = 37, kColumns = 24;

void InThreads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
}

// softmax(x * factor) over rows; equal factors give equal graphs.
StatusOr<std::unique_ptr<CompiledFunction>> Compile(int factor, const CompileOptions& options) {
  const std::string t = "f32[n,24]";
  ASSIGN_OR_RETURN(const hlir::Graph graph,
                   hlir::Parse(Cat("graph @g(%x: ", t, ") where n in 1..64 {\n  %0 = full() {value=", factor,
                                   ", dtype=f32, shape=[]} : f32[]\n  %1 = mul(%x, %0) : ", t,
                                   "\n  %2 = softmax(%1) {axis=1} : ", t, "\n  return %2\n}\n")));
  return CompileGraph(graph, *Target::Parse("x86_64 -mcpu=native -num-threads=2"), options);
}

// One matrix in, one out; the entry's answer.
int Call(const CompiledFunction& f, std::vector<float>& x, std::vector<float>& y, int64_t rows, int64_t columns) {
  int64_t shape[] = {rows, columns};
  DLTensor tensors[] = {{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0},
                        {y.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0}};
  CinnValue args[2] = {};
  for (int i = 0; i < 2; ++i) {
    args[i].tag = kCinnTensor;
    args[i].tensor = &tensors[i];
  }
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  return f.entry()(f.self(), args, 2, &env);
}

void ExpectRight(const CompiledFunction& f, int factor, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(kRows * kColumns), y(x.size());
  for (float& v : x) v = normal(random);
  ASSERT_EQ(Call(f, x, y, kRows, kColumns), 0);
  for (int64_t i = 0; i < kRows; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < kColumns; ++k) sum += std::exp(factor * double{x[i * kColumns + k]});
    for (int64_t k = 0; k < kColumns; ++k) {
      const double expected = std::exp(factor * double{x[i * kColumns + k]}) / sum;
      ASSERT_NEAR(y[i * kColumns + k], expected, 1e-5 * expected + 1e-7) << "row " << i << ", factor " << factor;
    }
  }
}

TEST(DriverThreads, CompileDifferentGraphs) {
  CompileOptions options;
  options.disable_cache = true;
  InThreads([&](int t) {
    const auto f = Compile(1 + t, options);
    ASSERT_TRUE(f.ok()) << f.status();
    for (unsigned seed = 0; seed < 3; ++seed) ExpectRight(**f, 1 + t, seed);
  });
}

TEST(DriverThreads, CallOneFunction) {
  CompileOptions options;
  options.disable_cache = true;
  const auto f = Compile(2, options);
  ASSERT_TRUE(f.ok()) << f.status();
  InThreads([&](int t) {
    for (unsigned i = 0; i < 20; ++i) ExpectRight(**f, 2, 100u * static_cast<unsigned>(t) + i);
  });
}

// Pieces of parallel loops that a call runs; a serial loop has none.
size_t PiecesOf(const CompiledFunction& f, int64_t rows = 512, int64_t columns = 512) {
  std::vector<float> x(static_cast<size_t>(rows * columns), 1), y(x.size());
  Timeline::Start();
  EXPECT_EQ(Call(f, x, y, rows, columns), 0);
  Timeline::Stop();
  const std::string json = Timeline::ToJson();
  size_t pieces = 0;
  for (size_t at = 0; (at = json.find("parallel piece", at)) != json.npos; ++at) ++pieces;
  return pieces;
}

// What is compiled later, with other threads, changes nothing.
TEST(DriverThreads, AFunctionsNumberOfThreadsIsItsOwn) {
  CompileOptions options;
  options.disable_cache = true;
  const hlir::Graph graph =
      *hlir::Parse("graph @g(%x: f32[512,512]) {\n  %0 = exp(%x) : f32[512,512]\n  return %0\n}\n");
  const auto compile = [&](int threads, int by_option) {
    options.num_threads = by_option;
    return *CompileGraph(graph, *Target::Parse(Cat("x86_64 -mcpu=native -num-threads=", threads)), options);
  };
  const auto one = compile(1, 0);
  EXPECT_EQ(PiecesOf(*one), 0u);
  const auto two = compile(2, 0);
  EXPECT_GE(PiecesOf(*two), 2u);
  EXPECT_EQ(PiecesOf(*one), 0u);
  const auto by_option = compile(0, 1);
  EXPECT_EQ(PiecesOf(*by_option), 0u);
  EXPECT_GE(PiecesOf(*two), 2u);
}

// Waking a thread takes longer than what a region of a few microseconds computes.
TEST(DriverThreads, SmallRegionsAreSerial) {
  CompileOptions options;
  options.disable_cache = true;
  for (const auto& [columns, parallel] : {std::pair<int64_t, bool>{49, false}, {12544, true}}) {
    const std::string t = Cat("f32[512,", columns, "]");
    const hlir::Graph graph = *hlir::Parse(
        Cat("graph @g(%x: ", t, ") {\n  %0 = relu(%x) : ", t, "\n  %1 = add(%0, %x) : ", t, "\n  return %1\n}\n"));
    const auto f = *CompileGraph(graph, *Target::Parse("x86_64 -mcpu=native -num-threads=2"), options);
    EXPECT_EQ(PiecesOf(*f, 512, columns) > 0, parallel) << columns;
  }
}

TEST(DriverThreads, ShareTheDiskCache) {
  std::string folder = fs::temp_directory_path() / "driver_threads_test_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  CompileOptions options;
  options.cache_dir = folder;
  InThreads([&](int t) {
    for (int i = 0; i < 4; ++i) {
      const int factor = 1 + (t + i) % 2;
      const auto f = Compile(factor, options);
      ASSERT_TRUE(f.ok()) << f.status();
      ExpectRight(**f, factor, static_cast<unsigned>(i));
    }
  });
  const auto f = Compile(1, options);
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE((*f)->report().cache_hit);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace cinn_like
