#include "hlir/graph.h"

namespace cinn_like::hlir {

Status Verify(const Graph& graph) {
  const std::string where = Cat("graph '", graph.name(), "'");
  // Every symbol has a value at run time: it is a plain dimension or a parameter.
  std::set<std::string> bound;
  std::vector<bool> defined(graph.num_values(), false);
  for (const Param& p : graph.params()) {
    if (p.is_symbol()) {
      bound.insert(p.name);
      continue;
    }
    defined[p.value] = true;
    for (const Dim& d : graph.TypeOf(p.value).dims) {
      if (const auto symbol = d.AsSymbol()) bound.insert(*symbol);
    }
  }
  for (const SymbolInfo& s : graph.symbols()) {
    if (!bound.count(s.name)) {
      return InvalidArgument(where, ": symbol '", s.name, "' is no parameter's dimension; pass it as a parameter '",
                             s.name, ": i64'");
    }
  }
  for (const Op& op : graph.ops()) {
    std::vector<TensorType> operands;
    for (ValueId v : op.operands) {
      RET_CHECK(defined[v], where, ": op '", op.def->name, "' uses value ", v, " before its definition");
      operands.push_back(graph.TypeOf(v));
    }
    StatusOr<std::vector<TensorType>> types = op.def->infer({operands, op.attrs, graph.symbols()});
    RETURN_IF_ERROR(Annotate(types.status(), Cat(where, ": op '", op.def->name, "'")));
    RET_CHECK(types->size() == op.results.size(), op.def->name);
    for (size_t i = 0; i < op.results.size(); ++i) {
      RET_CHECK((*types)[i] == graph.TypeOf(op.results[i]), where, ": op '", op.def->name, "' has type ",
                graph.TypeOf(op.results[i]).ToString(), ", inferred ", (*types)[i].ToString());
      defined[op.results[i]] = true;
    }
  }
  if (graph.results().empty()) return InvalidArgument(where, ": expected at least one result");
  for (ValueId v : graph.results()) RET_CHECK(defined[v], where);
  return absl::OkStatus();
}

}  // namespace cinn_like::hlir
