#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "cinn_like/driver.h"

namespace cinn_like {
namespace {
namespace fs = std::filesystem;

// exp(w) is prepared: entries must keep slots, too.
constexpr char kGraph[] = R"(graph @g(%x: f32[n,16], %w: f32[16,8] static) where n in 1..64 {
  %0 = exp(%w) : f32[16,8]
  %1 = matmul(%x, %0) : f32[n,8]
  %2 = relu(%1) : f32[n,8]
  return %2
}
)";

CinnCallEnv HostEnv() {
  CinnCallEnv env = {};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  return env;
}

struct Matrix {
  Matrix(int64_t rows, int64_t columns) : shape{rows, columns}, data(static_cast<size_t>(rows * columns)) {}
  CinnValue Value() {
    tensor = {data.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    CinnValue v = {};
    v.tag = kCinnTensor;
    v.tensor = &tensor;
    return v;
  }
  int64_t shape[2];
  std::vector<float> data;
  DLTensor tensor;
};

class DriverCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "driver_cache_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    options_.cache_dir = folder_;
    std::normal_distribution<float> normal;
    for (float& v : x_.data) v = normal(random_);
    for (float& v : w_.data) v = normal(random_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<CompiledFunction> Compile(const std::string& text = kGraph, const std::string& target = "cpu") {
    const auto graph = hlir::Parse(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    auto f = CompileGraph(*graph, *Target::Parse(target), options_);
    EXPECT_TRUE(f.ok()) << f.status();
    return f.ok() ? *std::move(f) : nullptr;
  }
  bool IsHit(const std::string& text = kGraph, const std::string& target = "cpu") {
    return Compile(text, target)->report().cache_hit;
  }

  std::vector<float> Call(CompiledFunction& f) {
    Matrix y(kRows, 8);
    const CinnCallEnv env = HostEnv();
    const CinnValue args[] = {x_.Value(), w_.Value(), y.Value()};
    const Status s = f.Prepare({args + 1, 1}, env);
    EXPECT_TRUE(s.ok()) << s;
    EXPECT_EQ(f.entry()(f.self(), args, 3, &env), 0);
    return y.data;
  }
  void ExpectRight(const std::vector<float>& y) {
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < 8; ++j) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < 16; ++k) {
          const double term = x_.data[i * 16 + k] * std::exp(static_cast<double>(w_.data[k * 8 + j]));
          sum += term;
          size += std::abs(term);
        }
        EXPECT_NEAR(y[i * 8 + j], std::max(sum, 0.0), 1e-5 * size + 1e-6);
      }
    }
  }
  std::vector<fs::path> Entries(const std::string& prefix) {
    std::vector<fs::path> r;
    for (const auto& e : fs::directory_iterator(folder_)) {
      if (e.path().filename().string().rfind(prefix, 0) == 0) r.push_back(e.path());
    }
    return r;
  }

  static constexpr int64_t kRows = 7;
  fs::path folder_;
  CompileOptions options_;
  std::mt19937 random_{std::random_device{}()};
  Matrix x_{kRows, 16}, w_{16, 8};
};

TEST_F(DriverCacheTest, SecondCompilationIsAHit) {
  const auto first = Compile(), second = Compile();
  EXPECT_FALSE(first->report().cache_hit);
  ASSERT_TRUE(second->report().cache_hit);
  const std::vector<float> y = Call(*first);
  ExpectRight(y);
  EXPECT_EQ(Call(*second), y);
  EXPECT_EQ(second->report().ops, first->report().ops);
  EXPECT_EQ(second->report().kernels, first->report().kernels);
  EXPECT_EQ(second->report().unique_kernels, first->report().unique_kernels);
  EXPECT_EQ(second->report().tactics, first->report().tactics);
  ASSERT_EQ(second->report().seconds.size(), 1u) << "a hit runs no stage but the cache";
  EXPECT_EQ(second->report().seconds[0].first, "cache");
  for (const char* kind : {"graph", "schedule", "loops", "llvm"}) {
    const auto a = first->Source(kind), b = second->Source(kind);
    ASSERT_TRUE(a.ok() && b.ok()) << kind << a.status() << b.status();
    EXPECT_EQ(*a, *b) << kind;
  }
  EXPECT_TRUE(second->ExportObject(folder_ / "out.o").ok());
}

TEST_F(DriverCacheTest, WhatChangesCodeIsAMiss) {
  EXPECT_FALSE(IsHit());
  EXPECT_TRUE(IsHit());
  EXPECT_FALSE(IsHit(kGraph, "x86_64 -mcpu=x86-64-v2"));
  std::string other = kGraph;
  other.replace(other.find("1..64"), 5, "1..65");
  EXPECT_FALSE(IsHit(other));
  other = kGraph;
  other.erase(other.find(" static"), 7);
  EXPECT_FALSE(IsHit(other));
  options_.numerics = "exact";
  EXPECT_FALSE(IsHit());
  options_.numerics = "fused";
  options_.disable_passes = "cse";
  EXPECT_FALSE(IsHit());
  options_.disable_passes = "";
  EXPECT_TRUE(IsHit());
}

TEST_F(DriverCacheTest, DisabledCacheAndDumpsCompile) {
  EXPECT_FALSE(IsHit());
  options_.disable_cache = true;
  EXPECT_FALSE(IsHit());
  options_.disable_cache = false;
  options_.dump_ir = true;
  options_.dump_dir = folder_ / "dumps";
  EXPECT_FALSE(IsHit());
  EXPECT_FALSE(fs::is_empty(folder_ / "dumps"));
}

TEST_F(DriverCacheTest, CorruptEntryIsCompiledAgain) {
  const std::vector<float> y = Call(*Compile());
  for (int round = 0; round < 8; ++round) {
    const auto entries = Entries("graph-");
    ASSERT_EQ(entries.size(), 1u);
    if (round == 0) {
      fs::resize_file(entries[0], random_() % fs::file_size(entries[0]));
    } else {
      std::fstream file(entries[0], std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(random_() % fs::file_size(entries[0]));
      file.seekg(at);
      const char old = static_cast<char>(file.get());
      file.seekp(at);
      file.put(static_cast<char>(old ^ (1 << random_() % 8)));
    }
    const auto again = Compile();
    EXPECT_FALSE(again->report().cache_hit);
    EXPECT_EQ(Call(*again), y);
    EXPECT_TRUE(IsHit());
  }
}

TEST_F(DriverCacheTest, TwoProcessesAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int round = 0; round < 4; ++round) {
        ExpectRight(Call(*Compile()));
        for (const fs::path& entry : Entries("graph-")) unlink(entry.c_str());
      }
      ExpectRight(Call(*Compile()));
      _exit(HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ExpectRight(Call(*Compile()));
}

TEST_F(DriverCacheTest, UnknownPassIsRefusedWithTheKnownOnes) {
  options_.disable_passes = "cse,constant_folding";
  const auto f = CompileGraph(*hlir::Parse(kGraph), *Target::Parse("cpu"), options_);
  ASSERT_FALSE(f.ok());
  EXPECT_NE(Message(f.status()).find("'constant_folding'"), std::string::npos) << f.status();
  EXPECT_NE(Message(f.status()).find("fold_constants"), std::string::npos) << f.status();
}

}  // namespace
}  // namespace cinn_like
