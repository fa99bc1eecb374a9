// Graph text as far as lowered loops: parsed, verified, printed and read again; optimized; its groups scheduled by a
// tactic, whose schedule does the same when it is replayed, and lowered.
#pragma once
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/lower.h"
#include "ir/schedule/schedule.h"
#include "tests/fuzz/fuzz.h"

namespace cinn_like::fuzz {

inline constexpr size_t kMostOps = 24;

inline Status CheckGraph(const hlir::Graph& g, std::string_view what) {
  RETURN_IF_ERROR(Bug(hlir::Verify(g), what));
  const std::string text = hlir::Print(g);
  const StatusOr<hlir::Graph> again = hlir::Parse(text);
  if (!again.ok()) return Internal(what, ": ", again.status().ToString(), "\n", text);
  if (hlir::Print(*again) != text)
    return Internal(what, " prints otherwise when read again:\n", text, hlir::Print(*again));
  return absl::OkStatus();
}

inline Status TryKernel(const ir::TeProgram& group, const PassContext& context) {
  ASSIGN_OR_RETURN(const ir::Func stages, ir::ToLoops(group));
  RETURN_IF_ERROR(CheckFunc(stages, "stages"));
  const StatusOr<hlir::Choice> choice = hlir::ChooseSchedule(group, context.target);
  RETURN_IF_ERROR(Bug(choice.status(), "tactics"));
  const hlir::Proposal& proposal = choice->proposal;
  RETURN_IF_ERROR(CheckFunc(proposal.func, Cat("what tactic ", proposal.tactic, " gives")));
  const StatusOr<ir::Func> replayed = ir::ApplySchedule(*ir::ParseFunc(ir::Print(stages)), proposal.schedule);
  RETURN_IF_ERROR(Bug(replayed.status(), Cat("the schedule of tactic ", proposal.tactic)));
  if (ir::Print(*replayed) != ir::Print(proposal.func)) {
    return Internal("the schedule of tactic ", proposal.tactic, " gives something else:\n", ir::Print(proposal.func),
                    ir::Print(*replayed));
  }
  ASSIGN_OR_RETURN(const ir::Func lowered, ir::LowerKernel(*replayed, context));
  return CheckFunc(lowered, "lowered");
}

inline Status TryGraph(std::string_view text) {
  ASSIGN_OR_RETURN(const hlir::Graph graph, hlir::Parse(text));
  RETURN_IF_ERROR(CheckGraph(graph, "a graph that was read"));
  if (graph.ops().size() > kMostOps) return absl::OkStatus();
  static const Target kTargets[] = {CpuTarget(), GpuTarget()};
  for (const Target& target : kTargets) {
    const PassContext context{.options = {}, .target = target, .name = "fuzz"};
    ASSIGN_OR_RETURN(const hlir::Graph optimized, hlir::OptimizeGraph(graph, context));
    RETURN_IF_ERROR(CheckGraph(optimized, "optimized"));
    ASSIGN_OR_RETURN(const hlir::LoweredGraph lowered, hlir::LowerGraph(optimized, context));
    RETURN_IF_ERROR(CheckFunc(lowered.entry, "the entry"));
    for (const auto& kernel : lowered.kernels) RETURN_IF_ERROR(TryKernel(kernel.group, context));
  }
  return absl::OkStatus();
}

}  // namespace cinn_like::fuzz
