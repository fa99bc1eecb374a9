// What a graph's text becomes for a target: its kernels, or the stages of the first one.
#pragma once
#include <string>
#include <utility>

#include "hlir/graph.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"

namespace cinn_like::hlir {

inline StatusOr<LoweredGraph> Lower(const std::string& text, const Target& target) {
  ASSIGN_OR_RETURN(const Graph graph, Parse(text));
  const PassContext context{.options = {}, .target = target, .name = "test"};
  ASSIGN_OR_RETURN(const Graph optimized, OptimizeGraph(graph, context));
  return LowerGraph(optimized, context);
}

inline StatusOr<ir::TeProgram> GroupOf(const std::string& text, const Target& target) {
  ASSIGN_OR_RETURN(LoweredGraph lowered, Lower(text, target));
  return std::move(lowered.kernels.at(0).group);
}

}  // namespace cinn_like::hlir
