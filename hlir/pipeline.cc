#include "hlir/pipeline.h"

#include <algorithm>

#include "hlir/lower_te.h"
#include "hlir/propagate_layouts.h"

namespace cinn_like::hlir {
namespace {

constexpr Pass<Graph> kDecompose = {"decompose", Decompose, true}, kFoldConstants = {"fold_constants", FoldConstants},
                      kSimplify = {"simplify", Simplify}, kGatherViews = {"gather_views", GatherViews},
                      kPackWeights = {"pack_weights", PackWeights}, kCse = {"cse", EliminateCommonSubexpressions},
                      kDce = {"dce", EliminateDeadCode};

constexpr Pass<Graph> kPasses[] = {kDecompose, kFoldConstants, kSimplify, kGatherViews, kPackWeights, kCse, kDce};

// Casts between composites meet only after they are decomposed, and views only after they were moved.
constexpr Pass<Graph> kOptimize[] = {kDce,      kDecompose,     kFoldConstants, kSimplify, kGatherViews,
                                     kSimplify, kFoldConstants, kPackWeights,   kCse,      kDce};

Status CheckText(std::string_view text, const OpRegistry& registry) {
  ASSIGN_OR_RETURN(const Graph again, Parse(text, registry));
  RET_CHECK(Print(again) == text, "printed form is no fixed point:\n", text);
  return absl::OkStatus();
}

StatusOr<Graph> Run(Graph graph, std::span<const Pass<Graph>> passes, const PassContext& context) {
  // The text of a caller's ops can be parsed with the caller's registry only.
  const bool built_in = &graph.registry() == &OpRegistry::BuiltIn();
  // Every pass in debug builds, the end result always.
#ifdef NDEBUG
  constexpr bool kEachPass = false;
#else
  constexpr bool kEachPass = true;
#endif
  const PipelineHooks<Graph> hooks = {
      .stage = "graph",
      .verify = kEachPass ? Verify : nullptr,
      .print = Print,
      .check_text = built_in ? +[](std::string_view text) { return CheckText(text, OpRegistry::BuiltIn()); } : nullptr,
  };
  ASSIGN_OR_RETURN(graph, RunPipeline<Graph>(std::move(graph), passes, hooks, context));
  if (Status s = Verify(graph); !kEachPass && !s.ok()) {
    return Internal("after graph passes: ", Message(s), "\n", Print(graph));
  }
  return graph;
}

StatusOr<std::string> PrintSplit(const Graph& graph) {
  ASSIGN_OR_RETURN(const StaticSplit split, SplitStatic(graph));
  RETURN_IF_ERROR(Verify(split.main));
  if (split.prepare) RETURN_IF_ERROR(Verify(*split.prepare));
  return (split.prepare ? Print(*split.prepare) : "") + Print(split.main);
}

StatusOr<std::string> PrintLoops(const Graph& graph, bool layouts) {
  ASSIGN_OR_RETURN(ir::TeProgram program, LowerToTe(graph));
  if (layouts) program = PropagateLayouts(std::move(program));
  ASSIGN_OR_RETURN(const ir::Func loops, ir::ToLoops(program));
  return ir::Print(loops);
}

std::string_view Trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

}  // namespace

std::span<const Pass<Graph>> GraphPasses() { return kPasses; }

std::string GraphPassList() {
  std::string names = "optimize";
  for (const Pass<Graph>& p : kPasses) names += Cat(", ", p.name);
  return names + " or, at the end, split_static, loops, propagate_layouts";
}

StatusOr<Graph> OptimizeGraph(Graph graph, const PassContext& context) {
  return Run(std::move(graph), kOptimize, context);
}

StatusOr<std::string> RunOnGraphText(std::string_view passes, std::string_view text, const PassContext& context) {
  ASSIGN_OR_RETURN(Graph graph, Parse(text));
  while (!passes.empty()) {
    const size_t bar = passes.find('|');
    const std::string_view name = Trim(passes.substr(0, bar));
    passes.remove_prefix(bar == passes.npos ? passes.size() : bar + 1);
    const bool last = passes.empty();
    if (last && name == "split_static") return PrintSplit(graph);
    if (last && (name == "loops" || name == "propagate_layouts")) return PrintLoops(graph, name != "loops");
    if (name == "optimize") {
      ASSIGN_OR_RETURN(graph, OptimizeGraph(std::move(graph), context));
      continue;
    }
    const auto* pass =
        std::find_if(std::begin(kPasses), std::end(kPasses), [&](const auto& p) { return p.name == name; });
    if (pass == std::end(kPasses)) {
      return InvalidArgument("unknown graph pass '", name, "', expected one of ", GraphPassList());
    }
    ASSIGN_OR_RETURN(graph, Run(std::move(graph), {pass, 1}, context));
  }
  return Print(graph);
}

}  // namespace cinn_like::hlir
