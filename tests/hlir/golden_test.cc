// Runs tests/golden/hlir/*.txt: "// RUN: pass | pass", a graph, "----", what must come out.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hlir/pipeline.h"
#include "tests/golden_file.h"

namespace cinn_like::hlir {
namespace {

constexpr std::string_view kRun = "// RUN: ", kRule = "----\n";

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/hlir")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Golden, Files) {
  const std::vector<std::filesystem::path> files = Files();
  EXPECT_GE(files.size(), 10u);
  for (const std::filesystem::path& path : files) {
    const std::string text = ReadFile(path);
    const size_t line = text.find('\n'), rule = text.find(kRule);
    ASSERT_TRUE(text.starts_with(kRun) && line != text.npos && rule != text.npos) << path;
    const StatusOr<std::string> got =
        RunOnGraphText(text.substr(kRun.size(), line - kRun.size()), text.substr(0, rule), {});
    const std::string printed = got.ok() ? *got : "error: " + Message(got.status()) + "\n";
    ExpectGolden(path, text.substr(0, rule + kRule.size()) + printed);
  }
}

// Every pass has a golden file.
TEST(Golden, EveryPassIsCovered) {
  std::string runs;
  for (const std::filesystem::path& path : Files()) {
    std::string line;
    std::ifstream file(path);
    std::getline(file, line);
    runs += line + "\n";
  }
  for (const Pass<Graph>& pass : GraphPasses()) EXPECT_NE(runs.find(pass.name), std::string::npos) << pass.name;
}

TEST(Golden, UnknownPass) {
  const Status s = RunOnGraphText("cse | css", "graph @f(%x: f32[1]) { return %x }", {}).status();
  EXPECT_EQ(Message(s),
            "unknown graph pass 'css', expected one of optimize, decompose, fold_constants, simplify, "
            "gather_views, pack_weights, cse, dce or, at the end, split_static, loops, propagate_layouts");
}

}  // namespace
}  // namespace cinn_like::hlir
