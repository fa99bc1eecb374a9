#include "hlir/rebuild.h"

namespace cinn_like::hlir {

StatusOr<Graph> CopyInterface(const Graph& from, std::vector<ValueRef>* values) {
  Graph to(from.name(), from.registry());
  values->assign(from.num_values(), ValueRef());
  for (const SymbolInfo& s : from.symbols()) RETURN_IF_ERROR(to.AddSymbol(s));
  for (const Param& p : from.params()) {
    if (p.is_symbol()) {
      RETURN_IF_ERROR(to.AddSymbolParam(p.name));
      continue;
    }
    ASSIGN_OR_RETURN((*values)[p.value].id, to.AddParam(p.name, from.TypeOf(p.value), p.role, p.strides));
  }
  return to;
}

StatusOr<Graph> Rebuild(const Graph& graph, const Emit& emit) {
  std::vector<ValueRef> values;
  ASSIGN_OR_RETURN(Graph result, CopyInterface(graph, &values));
  OpBuilder b(&result);
  for (const Op& op : graph.ops()) {
    result.SetOrigin(op.origin, op.device);
    std::vector<ValueRef> operands;
    for (ValueId v : op.operands) operands.push_back(values[v]);
    std::optional<std::vector<ValueRef>> results = emit(&b, op, operands);
    if (!results) {
      std::vector<ValueId> ids;
      for (size_t i = 0; i < operands.size(); ++i) {
        const ValueId id = operands[i].id;
        if (id >= 0 && result.TypeOf(id) == graph.TypeOf(op.operands[i])) ids.push_back(id);
      }
      if (ids.size() == operands.size() && b.status().ok()) {
        const std::vector<ValueId>& copied = result.CopyOp(graph, op, std::move(ids));
        for (size_t i = 0; i < copied.size(); ++i) values[op.results[i]] = {copied[i]};
        continue;
      }
      results = b.Call(op.def->name, operands, op.attrs, op.results.size());
    }
    if (!b.status().ok()) return Annotate(b.status(), Cat("while rewriting op '", op.def->name, "'"));
    RET_CHECK(results->size() == op.results.size(), op.def->name);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueRef v = (*results)[i];
      const TensorType& type = graph.TypeOf(op.results[i]);
      RET_CHECK(v.id < 0 || (b.DTypeOf(v) == type.dtype && ProvablyEqual(b.DimsOf(v), type.dims, graph.symbols())),
                op.def->name, " of type ", type.ToString(), " rewritten as ", b.TypeOf(v).ToString());
      values[op.results[i]] = v;
    }
  }
  result.SetOrigin(-1);
  std::vector<ValueId> results;
  for (ValueId v : graph.results()) results.push_back(values[v].id);
  RETURN_IF_ERROR(result.SetResults(std::move(results)));
  return result;
}

}  // namespace cinn_like::hlir
