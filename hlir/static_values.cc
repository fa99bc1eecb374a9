#include "hlir/static_values.h"

#include <algorithm>

namespace cinn_like::hlir {
namespace {

bool IsConstant(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.IsConst(); });
}

}  // namespace

std::vector<StaticFact> FindStaticValues(const Graph& graph) {
  std::vector<StaticFact> facts(graph.num_values());
  for (const Param& p : graph.params()) {
    if (!p.is_symbol()) facts[p.value] = {p.role == ParamRole::kStatic, true};
  }
  for (const Op& op : graph.ops()) {
    StaticFact f{.is_static = true};
    for (ValueId v : op.operands) {
      f.is_static = f.is_static && facts[v].is_static;
      f.has_param = f.has_param || facts[v].has_param;
    }
    // A symbol may change between calls, and prepare does not know it.
    for (ValueId v : op.results) f.is_static = f.is_static && IsConstant(graph.TypeOf(v).dims);
    for (const auto& [name, value] : op.attrs.values()) {
      if (const Dim* d = std::get_if<Dim>(&value)) f.is_static = f.is_static && d->IsConst();
      if (const Dims* d = std::get_if<Dims>(&value)) f.is_static = f.is_static && IsConstant(*d);
    }
    for (ValueId v : op.results) facts[v] = f;
  }
  return facts;
}

}  // namespace cinn_like::hlir
