// The text that a tactic writes is all that it does: replayed from the printed stages of the group, it gives the same
// function.
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "hlir/tactics/tactic.h"
#include "ir/schedule/schedule.h"
#include "tests/hlir/kernels.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

constexpr const char* kStageSteps[] = {"align", "keep",    "fold",    "unfold", "round_up",
                                       "shift", "rfactor", "rescale", "define", "inline_stage"};
// Steps that no other tactics write.
const std::set<std::string_view> kOnGpus = {"unfold", "round_up", "shift", "rfactor", "rescale", "inline_stage"};

StatusOr<std::string> Replay(const std::string& stages, const std::string& schedule) {
  ASSIGN_OR_RETURN(const ir::Func loops, ir::ParseFunc(stages));
  ASSIGN_OR_RETURN(const ir::Func replayed, ir::ApplySchedule(loops, schedule));
  return ir::Print(replayed);
}

class Replayed : public testing::TestWithParam<const char*> {};

TEST_P(Replayed, GivesTheSameFunction) {
  const Target target = *Target::Parse(GetParam());
  std::map<std::string_view, int> replayed;
  std::map<std::string, int> steps;
  int kernels = 0;
  ForEachKernel(target, [&](const std::string& name, const ir::TeProgram& group) {
    if (testing::Test::HasFailure() || !IsTried(kernels++)) return;
    const std::string stages = ir::Print(*ir::ToLoops(group));
    const StatusOr<ir::TeProgram> read = ir::ToStages(*ir::ParseFunc(stages));
    ASSERT_TRUE(read.ok()) << read.status() << stages;
    EXPECT_EQ(ir::Print(*ir::ToLoops(*read)), stages);
    for (const Tactic& tactic : BuiltInTactics()) {
      Point point;
      const StatusOr<std::vector<Proposal>> proposals = tactic.propose(group, target, Until::kSchedule, point);
      if (!proposals.ok()) continue;  // a tactic's error is for tests of tactics
      for (const Proposal& p : *proposals) {
        const StatusOr<std::string> again = Replay(stages, p.schedule);
        ASSERT_TRUE(again.ok()) << again.status() << name << "\n" << stages << p.schedule;
        EXPECT_EQ(*again, ir::Print(p.func)) << name << "\n" << stages << p.schedule;
        ++replayed[tactic.name];
        for (const char* intrinsic : {"mma_m16n8k16", "wgmma_m64k16"})
          steps[intrinsic] += absl::StrContains(p.schedule, Cat(" ", intrinsic, "\n"));
        for (const char* step : kStageSteps) steps[step] += absl::StrContains("\n" + p.schedule, Cat("\n", step, " "));
      }
    }
  });
  if (kRoundsDivisor > 1) return;
  // The suite has kernels for each step.
  for (const char* step : kStageSteps)
    EXPECT_TRUE(steps[step] > 0 || (!target.IsGpu() && kOnGpus.contains(step))) << step;
  for (const char* intrinsic : {"mma_m16n8k16", "wgmma_m64k16"})
    EXPECT_EQ(steps[intrinsic] > 0, target.IsGpu()) << intrinsic;
  EXPECT_GT(replayed[target.IsGpu() ? "rows_gpu" : "rows_cpu"], 400);
  EXPECT_GT(replayed[target.IsGpu() ? "matmul_gpu" : "matmul_cpu"], 30);
}

INSTANTIATE_TEST_SUITE_P(Targets, Replayed,
                         testing::Values("x86_64 -mcpu=skylake-avx512 -cores=4",
                                         "cuda -arch=sm_90a -shared-bytes=232448 -libs=cublas"),
                         [](const auto& info) { return std::string(info.index == 0 ? "Cpu" : "Gpu"); });

}  // namespace
}  // namespace cinn_like::hlir
