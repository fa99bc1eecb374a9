#include "hlir/extract_ops.h"

#include <map>
#include <set>

namespace cinn_like::hlir {

StatusOr<ExtractedOps> ExtractOps(const Graph& whole, const std::vector<int>& ops, const std::vector<ValueId>& results,
                                  const std::string& name) {
  ExtractedOps part{Graph(name, whole.registry()), {}, results};
  Graph& g = part.graph;
  std::set<std::string> names;
  for (const SymbolInfo& s : whole.symbols()) {
    RETURN_IF_ERROR(g.AddSymbol(s));
    RETURN_IF_ERROR(g.AddSymbolParam(s.name));
    names.insert(s.name);
  }
  for (const Param& p : whole.params()) names.insert(p.name);
  std::map<ValueId, ValueId> values;
  const auto read = [&](ValueId v) -> StatusOr<ValueId> {
    if (const auto known = values.find(v); known != values.end()) return known->second;
    const int index = whole.ParamIndexOf(v);
    std::string param = Cat("v", v);
    while (index < 0 && !names.insert(param).second) param += "_";
    const Param* p = index < 0 ? nullptr : &whole.params()[static_cast<size_t>(index)];
    ASSIGN_OR_RETURN(values[v], p != nullptr ? g.AddParam(p->name, whole.TypeOf(v), p->role, p->strides)
                                             : g.AddParam(param, whole.TypeOf(v)));
    part.reads.push_back(v);
    return values[v];
  };
  // Parameters come first.
  std::set<ValueId> made;
  for (int i : ops) made.insert(whole.ops()[i].results.begin(), whole.ops()[i].results.end());
  for (int i : ops) {
    for (ValueId v : whole.ops()[i].operands) {
      if (!made.contains(v)) RETURN_IF_ERROR(read(v).status());
    }
  }
  for (ValueId v : results) {
    if (!made.contains(v)) RETURN_IF_ERROR(read(v).status());
  }
  for (int i : ops) {
    const Op& op = whole.ops()[i];
    std::vector<ValueId> operands;
    for (ValueId v : op.operands) operands.push_back(values.at(v));
    const std::vector<ValueId>& copied = g.CopyOp(whole, op, std::move(operands));
    for (size_t k = 0; k < copied.size(); ++k) values[op.results[k]] = copied[k];
  }
  std::vector<ValueId> own;
  for (ValueId v : results) own.push_back(values.at(v));
  RETURN_IF_ERROR(g.SetResults(std::move(own)));
  return part;
}

}  // namespace cinn_like::hlir
