// The text that a tactic writes is all that it does: replayed from the printed stages of the group, it gives the same
// function.
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "hlir/tactics/tactic.h"
#include "ir/schedule/schedule.h"
#include "tests/hlir/kernels.h"

namespace cinn_like::hlir {
namespace {

// Tactics that still rewrite the group before they write steps. The list only shrinks.
const std::set<std::string_view> kRewriteBefore = {"matmul_gpu"};

StatusOr<std::string> Replay(const std::string& stages, const std::string& schedule) {
  ASSIGN_OR_RETURN(const ir::Func loops, ir::ParseFunc(stages));
  ASSIGN_OR_RETURN(const ir::Func replayed, ir::ApplySchedule(loops, schedule));
  return ir::Print(replayed);
}

class Replayed : public testing::TestWithParam<const char*> {};

TEST_P(Replayed, GivesTheSameFunction) {
  const Target target = *Target::Parse(GetParam());
  std::map<std::string_view, int> replayed, refused;
  std::map<std::string, int> steps;
  ForEachKernel(target, [&](const std::string& name, const ir::TeProgram& group) {
    if (testing::Test::HasFailure()) return;
    const std::string stages = ir::Print(*ir::ToLoops(group));
    const StatusOr<ir::TeProgram> read = ir::ToStages(*ir::ParseFunc(stages));
    ASSERT_TRUE(read.ok()) << read.status() << stages;
    EXPECT_EQ(ir::Print(*ir::ToLoops(*read)), stages);
    for (const Tactic& tactic : BuiltInTactics()) {
      const StatusOr<std::vector<Proposal>> proposals = tactic.propose(group, target);
      if (!proposals.ok()) continue;  // a tactic's error is for tests of tactics
      for (const Proposal& p : *proposals) {
        const StatusOr<std::string> again = Replay(stages, p.schedule);
        const bool same = again.ok() && *again == ir::Print(p.func);
        ++(same ? replayed : refused)[tactic.name];
        for (const char* step : {"align ", "keep ", "fold ", "define "})
          steps[step] += absl::StrContains(p.schedule, step);
        if (kRewriteBefore.contains(tactic.name)) continue;
        ASSERT_TRUE(again.ok()) << again.status() << name << "\n" << stages << p.schedule;
        EXPECT_EQ(*again, ir::Print(p.func)) << name << "\n" << stages << p.schedule;
      }
    }
  });
  for (std::string_view name : kRewriteBefore) {
    EXPECT_TRUE(replayed[name] == 0 || refused[name] > 0) << name << " replays: it goes from the list";
  }
  // The suite has kernels for each step.
  EXPECT_GT(steps["align "], 0);
  EXPECT_GT(steps["keep "], 0);
  EXPECT_GT(steps["define "], 0);
  EXPECT_EQ(steps["fold "] > 0, !target.IsGpu());
  EXPECT_GT(replayed[target.IsGpu() ? "rows_gpu" : "rows_cpu"], 400);
}

INSTANTIATE_TEST_SUITE_P(Targets, Replayed,
                         testing::Values("x86_64 -mcpu=skylake-avx512 -cores=4",
                                         "cuda -arch=sm_90a -shared-bytes=232448 -libs=cublas"),
                         [](const auto& info) { return std::string(info.index == 0 ? "Cpu" : "Gpu"); });

}  // namespace
}  // namespace cinn_like::hlir
