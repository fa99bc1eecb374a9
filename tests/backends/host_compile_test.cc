#include "backends/host_compile.h"

#include "gtest/gtest.h"
#include "ir/lower.h"

namespace cinn_like {
namespace {

ir::Module Lowered(std::string_view text) {
  auto module = ir::ParseModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  auto lowered = ir::LowerModule(*module, {{}, *Target::Parse("cpu"), "f"});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  return *lowered;
}

constexpr std::string_view kRows = R"(
func @rows(x: f32[64,32], y: f32[64]) {
  for i in 0..64 @parallel {
    y[i] = 0.0
    for j in 0..32 {
      y[i] = y[i] + exp(x[i, j])
    }
  }
}
)";
constexpr std::string_view kIntegers = R"(
func @integers(x: i64[100], y: i32[100], n: i64) {
  for i in 0..n {
    y[i] = i32(x[i] / 7)
  }
}
)";

std::vector<std::string> Objects(std::string_view text) {
  CompileOptions options;
  options.compile_threads = 1;
  const auto objects = CompileHostModule(Lowered(text), *Target::Parse("cpu -num-threads=2"), options, nullptr);
  EXPECT_TRUE(objects.ok()) << objects.status();
  return objects->objects;
}

// What LLVM keeps from one module to the next is in no object: the cache may hold either.
TEST(HostCompile, AMachineThatWasUsedMakesTheSameBytes) {
  const std::vector<std::string> rows = Objects(kRows), integers = Objects(kIntegers);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Objects(kRows), rows);
    EXPECT_EQ(Objects(kIntegers), integers);
  }
}

}  // namespace
}  // namespace cinn_like
