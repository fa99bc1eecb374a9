#include "hlir/passes/passes.h"
#include "hlir/rebuild.h"

namespace cinn_like::hlir {

StatusOr<Graph> Decompose(Graph graph, const PassContext&) {
  // A composite of composites takes a round per level; more levels than any op has mean that one rewrites into itself.
  constexpr int kMaxRounds = 16;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool found = false;
    ASSIGN_OR_RETURN(graph, Rebuild(graph,
                                    [&](OpBuilder* b, const Op& op,
                                        const std::vector<ValueRef>& operands) -> std::optional<std::vector<ValueRef>> {
                                      if (!op.def->decompose) return std::nullopt;
                                      found = true;
                                      return op.def->decompose(b, operands, op.attrs);
                                    }));
    if (!found) return graph;
  }
  return Internal("an op decomposes into itself:\n", Print(graph));
}

}  // namespace cinn_like::hlir
