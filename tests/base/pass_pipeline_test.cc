#include "cinn_like/base/pass_pipeline.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace cinn_like {
namespace {

StatusOr<int> Add(int v, const PassContext&) { return v + 1; }
StatusOr<int> Keep(int v, const PassContext&) { return v; }
StatusOr<int> Negate(int v, const PassContext&) { return -v; }
StatusOr<int> Fail(int, const PassContext&) { return InvalidArgument("no"); }
Status Verify(const int& v) { return v < 0 ? InvalidArgument("negative") : absl::OkStatus(); }
std::string Print(const int& v) { return Cat("value ", v); }
Status CheckText(std::string_view text) {
  return text.starts_with("value ") ? absl::OkStatus() : InvalidArgument("does not parse");
}

const PipelineHooks<int> kHooks = {"int", Verify, Print, CheckText};

StatusOr<int> RunPasses(std::vector<Pass<int>> passes, const PassContext& context = {}) {
  return RunPipeline<int>(5, passes, kHooks, context);
}

TEST(PassPipeline, RunsInOrderAndTimes) {
  StageTimes times;
  PassContext context;
  context.times = &times;
  EXPECT_EQ(*RunPasses({{"add", Add}, {"keep", Keep}, {"add", Add}}, context), 7);
  const auto stages = times.Get();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].first, "int.add");
  EXPECT_EQ(stages[1].first, "int.keep");
  EXPECT_GE(stages[0].second, 0);
}

TEST(PassPipeline, DisabledPassesAreSkippedUnlessRequired) {
  PassContext context;
  context.options.disable_passes = "keep,add";
  EXPECT_EQ(*RunPasses({{"add", Add}, {"adder", Add}}, context), 6);
  EXPECT_EQ(Message(RunPasses({{"add", Add, true}}, context).status()), "pass 'add' is required and can't be disabled");
}

TEST(PassPipeline, ErrorsNameThePass) {
  const Status failed = RunPasses({{"add", Add}, {"fail", Fail}}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(failed), "pass 'fail': no");
  const Status broken = RunPasses({{"negate", Negate}, {"add", Add}}).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Message(broken), "after pass 'negate': negative\nvalue -5");
}

TEST(PassPipeline, DumpsWhatChanged) {
  char folder[] = "/tmp/pass_pipeline_test.XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  PassContext context;
  context.name = "fn";
  context.options.dump_ir = true;
  context.options.dump_dir = Cat(folder, "/made/by/us");
  ASSERT_TRUE(RunPasses({{"keep", Keep}, {"add", Add}}, context).ok());
  std::vector<std::string> names, texts;
  for (const auto& entry : std::filesystem::directory_iterator(context.options.dump_dir)) names.push_back(entry.path());
  std::sort(names.begin(), names.end());
  for (std::string& name : names) {
    std::stringstream text;
    text << std::ifstream(name).rdbuf();
    texts.push_back(text.str());
    name = name.substr(name.find("/fn.") + 8);
  }
  EXPECT_EQ(names, (std::vector<std::string>{".int.input", ".int.add"}));
  EXPECT_EQ(texts, (std::vector<std::string>{"value 5", "value 6"}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cinn_like
