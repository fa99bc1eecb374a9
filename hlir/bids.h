// Who computes what: our kernels' predicted times against those of the framework that handed the graph over
// (cinn_like/base/speeds.h). What we would lose, borders included, goes back to it.
#pragma once
#include <string>
#include <vector>

#include "hlir/lower_graph.h"

namespace cinn_like::hlir {

// An op of the graph that goes back to the framework: its index there, and both predictions, or why our kernel of it
// can't be compiled, in one line.
struct LostOp {
  int op = 0;
  double own_seconds = 0, framework_seconds = 0;
  std::string failure;
};

// Whether the kernel computes a part of an op for which frameworks have a kernel.
bool IsContested(const Graph& source, const LoweredGraph::Kernel& kernel);

// The graph's ops that calls of a kernel compute which can't be compiled, as `failure` says; none where a call computes
// no op of the graph, which no framework could do in its place.
std::vector<LostOp> OpsOf(const LoweredGraph::Kernel& kernel, const std::string& failure);

// `kernels` are of `graph` after passes, `source` is the graph before them, to whose ops stages refer; `seconds`
// predicts one call of each kernel. The time of one that is not contested decides only where it is not what its tactic
// promised: 0 means that it is. Nothing is lost where the target names no framework.
std::vector<LostOp> FindLostOps(const Graph& source, const std::vector<LoweredGraph::Kernel>& kernels,
                                const std::vector<double>& seconds, const Target& target);

}  // namespace cinn_like::hlir
