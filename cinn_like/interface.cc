#include "cinn_like/interface.h"

#include "cinn_like/base/json.h"
#include "cinn_like/base/status.h"

namespace cinn_like {
namespace {

std::string TypeJson(const hlir::TensorType& type) {
  std::string shape;
  for (const auto& d : type.dims) {
    const std::string text = d.ToString();
    shape += (shape.empty() ? "" : ",") + (d.IsConst() ? text : JsonString(text));
  }
  return Cat("\"dtype\":", JsonString(Name(type.dtype)), ",\"shape\":[", shape, "]");
}

}  // namespace

std::string InterfaceJson(const hlir::Graph& graph, bool statics) {
  std::string params, results, symbols;
  const auto add = [](std::string& to, const std::string& item) { to += (to.empty() ? "" : ",") + item; };
  for (const hlir::Param& p : graph.params()) {
    const bool is_static = p.role == hlir::ParamRole::kStatic;
    if (is_static && !statics) continue;
    if (p.is_symbol()) {
      add(params, Cat("{\"name\":", JsonString(p.name), ",\"symbol\":true}"));
    } else {
      add(params, Cat("{\"name\":", JsonString(p.name), ",", TypeJson(graph.TypeOf(p.value)),
                      ",\"static\":", is_static ? "true" : "false", "}"));
    }
  }
  for (const hlir::ValueId v : graph.results()) add(results, Cat("{", TypeJson(graph.TypeOf(v)), "}"));
  for (const hlir::SymbolInfo& s : graph.symbols()) add(symbols, JsonString(s.name));
  return Cat("\"name\":", JsonString(graph.name()), ",\"params\":[", params, "],\"results\":[", results,
             "],\"symbols\":[", symbols, "]");
}

}  // namespace cinn_like
