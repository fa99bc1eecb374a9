// The graph passes. Each makes a new graph with the same parameters, results and meaning; hlir/pipeline.h lists them.
#pragma once
#include "cinn_like/base/pass_pipeline.h"
#include "hlir/graph.h"

namespace cinn_like::hlir {

// Rewrites composites until only primitives (ops with a `lower`) are left.
//   %0 = relu(%x)   ->   %0 = full() {value=0, ...}   %1 = maximum(%x, %0)
StatusOr<Graph> Decompose(Graph graph, const PassContext& context);

// Computes ops on `full` tensors.
//   add(full 1, full 2) -> full 3      reshape(full 1) -> full 1 of the other shape
StatusOr<Graph> FoldConstants(Graph graph, const PassContext& context);

// Uses the first of equal ops for all.
StatusOr<Graph> EliminateCommonSubexpressions(Graph graph, const PassContext& context);

// Drops ops that no result needs.
StatusOr<Graph> EliminateDeadCode(Graph graph, const PassContext& context);

// Algebra that keeps every bit (and, with fused numerics, what only changes the sign of a zero or drops a rounding):
//   x * 1 -> x      cast(cast(x: f16, f32), f16) -> x      transpose(transpose(x)) -> transpose(x)      pow(x, 2) -> x
//   * x
StatusOr<Graph> Simplify(Graph graph, const PassContext& context);

// Moves reshapes and transposes in front of pointwise ops where they meet another view there, so that views merge.
//   transpose(exp(transpose(x))) -> exp(transpose(transpose(x)))
StatusOr<Graph> GatherViews(Graph graph, const PassContext& context);

// Weights that contractions read are laid out in panels (hlir/panels.h), once: what is packed is a `copy`, which the
// static split prepares as it stands; the op reads it through views, so no op and no tactic has to know the layout.
//   matmul(%x, %w)   ->   %p = copy(transpose(reshape(%w)))   matmul(%x, reshape(transpose(%p)))
// CPU only; which operand and which axes follow from the op's access maps.
StatusOr<Graph> PackWeights(Graph graph, const PassContext& context);

// What depends on static parameters alone is computed once, by `prepare` (named <name>_prepare): its parameters are the
// static ones, its results become the parameters `prepared0`, ... of `main`, in order, behind main's own, which all
// stay.
struct StaticSplit {
  std::optional<Graph> prepare;  // none: nothing is worth it
  Graph main;
};
// Worth it is work (views alone are not), and a value no larger than what it is made of. A `copy` is always prepared as
// it stands, and views of it are taken in `main`.
StatusOr<StaticSplit> SplitStatic(const Graph& graph);

}  // namespace cinn_like::hlir
