// Common subexpressions and dead code.
#include <map>

#include "hlir/passes/passes.h"
#include "hlir/rebuild.h"

namespace cinn_like::hlir {

StatusOr<Graph> EliminateCommonSubexpressions(Graph graph, const PassContext&) {
  std::map<std::string, std::vector<ValueRef>> known;
  return Rebuild(graph, [&](OpBuilder* b, const Op& op, const std::vector<ValueRef>& operands) {
    std::string key = Cat(op.def->name, " ", op.device);
    for (ValueRef v : operands) key += Cat(" ", v.id);
    for (const auto& [name, value] : op.attrs.values()) key += Cat(" ", name, "=", ToString(value));
    const auto it = known.find(key);
    if (it != known.end()) return std::optional(it->second);
    std::vector<ValueRef> results = b->Call(op.def->name, operands, op.attrs, op.results.size());
    known.emplace(std::move(key), results);
    return std::optional(std::move(results));
  });
}

StatusOr<Graph> EliminateDeadCode(Graph graph, const PassContext&) {
  std::vector<bool> live(graph.num_values(), false);
  for (ValueId v : graph.results()) live[v] = true;
  auto is_live = [&](const Op& op) {
    for (ValueId v : op.results) {
      if (live[v]) return true;
    }
    return false;
  };
  for (size_t i = graph.ops().size(); i-- > 0;) {
    const Op& op = graph.ops()[i];
    if (!is_live(op)) continue;
    for (ValueId v : op.operands) live[v] = true;
  }
  return Rebuild(graph,
                 [&](OpBuilder*, const Op& op, const std::vector<ValueRef>&) -> std::optional<std::vector<ValueRef>> {
                   if (is_live(op)) return std::nullopt;
                   return std::vector<ValueRef>(op.results.size());
                 });
}

}  // namespace cinn_like::hlir
