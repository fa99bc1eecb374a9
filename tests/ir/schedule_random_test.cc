// Random programs x random schedule steps, a few on stages and then those on loops: what is accepted computes the same,
// by the interpreter, before and after: for a CPU, and for a GPU through all of its lowering, where the interpreter
// looks for threads that meet in memory without a barrier between (which orders of threads would give another result is
// then all the same). CINN_TEST_ROUNDS says how many programs (tools/nightly.sh tries more than the suite does),
// CINN_TEST_FIRST_ROUND with which of them to begin.
#include <cstdlib>
#include <map>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "ir/pass_table.h"
#include "ir/passes/split_host_device.h"
#include "tests/ir/random_programs.h"
#include "tests/rounds.h"

namespace cinn_like::ir {
namespace {

// Iterations of a parallel loop are blocks of threads to the interpreter, which then sees them meet in memory.
Func WithBlocks(const Func& f) {
  int parallel = 0;
  VisitStmts(f.body, [&](const Stmt& s) {
    parallel += As<For>(s) != nullptr && As<For>(s)->kind == ForKind::kParallel;
    return true;
  });
  if (parallel != 1) return f;
  return *ParseFunc(absl::StrReplaceAll(Print(f), {{"@parallel", "@blockIdx.x"}}));
}

// What to run: lowered some way, and all of it.
StatusOr<std::vector<Module>> LoweredForCpu(Func f) {
  std::vector<Module> r;
  for (const char* name : {"lower_blocks", "simplify", "place_buffers", "unroll", "flatten", "simplify", "vectorize"}) {
    ASSIGN_OR_RETURN(f, FindPass(name)->run(std::move(f), {}));
    const Func shown = WithBlocks(f);
    if (std::string_view(name) == "place_buffers" || std::string_view(name) == "vectorize")
      r.push_back({shown.context, {shown}});
  }
  return r;
}
StatusOr<std::vector<Module>> LoweredForGpu(const Func& f) {
  static const Target target = *Target::Parse("cuda -arch=sm_90a");
  ASSIGN_OR_RETURN(Func lowered, LowerKernel(f, {.options = {}, .target = target, .name = "test"}));
  Module m{f.context, {lowered}};
  RETURN_IF_ERROR(SplitHostDevice(m).status());  // runs as it stands before
  return std::vector<Module>{std::move(m)};
}

// How much of a kind there was.
struct Counts {
  std::map<std::string, int> accepted;  // by step
  int refused = 0, not_lowered = 0;
};

void TryRound(int round, bool on_gpu, Counts& counts) {
  const LaunchLimits limits = Target::Parse("cuda -arch=sm_90a")->device->limits;
  Programs p(static_cast<unsigned>(round), on_gpu ? &limits : nullptr);
  const auto program = MakeProgram(p, round);
  ASSERT_TRUE(program.ok()) << "round " << round << ": " << program.status();
  Func now = program->func;
  std::string steps;
  p.Begin(now);
  for (int k = 0; k < 28; ++k) {
    const std::string step = p.Step(now, k);
    auto next = ApplySchedule(now, step);
    if (!next.ok()) {
      ++counts.refused;
      p.Refused();
      EXPECT_EQ(next.status().code(), absl::StatusCode::kInvalidArgument) << step << "\n" << next.status();
      continue;
    }
    ++counts.accepted[step.substr(0, step.find(' '))];
    now = *std::move(next);
    steps += step + "\n";
    ASSERT_TRUE(Verify(now).ok()) << "round " << round << ": " << Verify(now) << "\n" << steps << Print(now);
  }
  const std::string shown =
      Cat("round ", round, " n=", program->n, ":\n", program->text, "after\n", steps, "becomes\n", Print(now));
  for (const std::string& text : {Print(program->func), Print(now)})
    EXPECT_TRUE(CheckText(text).ok()) << CheckText(text) << shown;
  const auto lowered = on_gpu ? LoweredForGpu(now) : LoweredForCpu(now);
  if (on_gpu && !lowered.ok()) {
    // What threads can't do together is known when all steps are there.
    ++counts.not_lowered;
    EXPECT_TRUE(absl::IsInvalidArgument(lowered.status()) || absl::IsUnimplemented(lowered.status()))
        << lowered.status() << "\n"
        << shown;
    return;
  }
  ASSERT_TRUE(lowered.ok()) << lowered.status() << "\n" << shown;
  for (const Module& module : *lowered) {
    const auto got = Computed(*program, module);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << shown << "\n" << Print(module);
    EXPECT_TRUE(CheckText(Print(module)).ok()) << CheckText(Print(module)) << shown << "\n" << Print(module);
    for (size_t i = 0; i < got->size(); ++i)
      ASSERT_TRUE(IsSame((*got)[i], program->want[i], program->exactly)) << shown << "\n" << Print(module);
  }
}

class ScheduleRandom : public testing::TestWithParam<bool> {};

TEST_P(ScheduleRandom, AcceptedStepsComputeTheSame) {
  auto from_env = [](const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : otherwise;
  };
  const int rounds = from_env("CINN_TEST_ROUNDS", Rounds(300)), first = from_env("CINN_TEST_FIRST_ROUND", 0);
  Counts counts;
  for (int round = first; round < first + rounds && !HasFatalFailure(); ++round) TryRound(round, GetParam(), counts);
  // The prover is of use, and so are most schedules.
  int accepted = 0;
  for (const auto& [step, count] : counts.accepted) {
    accepted += count;
    RecordProperty(step, count);
  }
  if (rounds > 20) {
    EXPECT_GT(accepted, 4 * rounds);
  }
  if (rounds > 100) {  // 0.44 on a GPU: fewer rounds say little
    EXPECT_LT(counts.not_lowered, rounds / 2);
  }
  RecordProperty("accepted", accepted);
  RecordProperty("refused", counts.refused);
  RecordProperty("not_lowered", counts.not_lowered);
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleRandom, testing::Bool(),
                         [](const auto& info) { return info.param ? "Gpu" : "Cpu"; });

}  // namespace
}  // namespace cinn_like::ir
