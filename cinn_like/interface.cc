#include "cinn_like/interface.h"

#include "cinn_like/base/json.h"
#include "cinn_like/base/status.h"

namespace cinn_like {
namespace {

std::string TypeJson(const CallSignature::Value& type) {
  std::string shape;
  for (const std::string& d : type.shape) {
    const bool is_number = d.find_first_not_of("0123456789") == d.npos;
    shape += (shape.empty() ? "" : ",") + (is_number ? d : JsonString(d));
  }
  return Cat("\"dtype\":", JsonString(Name(type.dtype)), ",\"shape\":[", shape, "]");
}

}  // namespace

CallSignature SignatureOf(const hlir::Graph& graph) {
  const auto value = [&](hlir::ValueId v) {
    CallSignature::Value r{.name = {}, .dtype = graph.TypeOf(v).dtype};
    for (const hlir::Dim& d : graph.TypeOf(v).dims) r.shape.push_back(d.ToString());
    return r;
  };
  CallSignature s;
  s.name = graph.name();
  for (const hlir::Param& p : graph.params()) {
    CallSignature::Value& v = s.params.emplace_back();
    if (p.is_symbol()) {
      v.is_symbol = true;
    } else {
      v = value(p.value);
      v.is_static = p.role == hlir::ParamRole::kStatic;
    }
    v.name = p.name;
  }
  for (const hlir::ValueId v : graph.results()) s.results.push_back(value(v));
  for (const hlir::SymbolInfo& symbol : graph.symbols()) s.symbols.push_back(symbol.name);
  return s;
}

std::string Describe(const CallSignature& signature) {
  const auto type = [](const CallSignature::Value& v) {
    std::string shape;
    for (const std::string& d : v.shape) shape += Cat(shape.empty() ? "" : ",", d);
    return Cat(Name(v.dtype), "[", shape, "]");
  };
  std::string params, results;
  for (const CallSignature::Value& p : signature.params)
    params += Cat(params.empty() ? "" : ", ", p.name, p.is_symbol ? "" : Cat(": ", type(p)));
  for (const CallSignature::Value& r : signature.results) results += Cat(results.empty() ? "" : ", ", type(r));
  return Cat("@", signature.name, "(", params, ") -> ", results);
}

std::string InterfaceJson(const CallSignature& signature, bool statics) {
  std::string params, results, symbols;
  const auto add = [](std::string& to, const std::string& item) { to += (to.empty() ? "" : ",") + item; };
  for (const CallSignature::Value& p : signature.params) {
    if (p.is_static && !statics) continue;
    if (p.is_symbol) {
      add(params, Cat("{\"name\":", JsonString(p.name), ",\"symbol\":true}"));
    } else {
      add(params,
          Cat("{\"name\":", JsonString(p.name), ",", TypeJson(p), ",\"static\":", p.is_static ? "true" : "false", "}"));
    }
  }
  for (const CallSignature::Value& v : signature.results) add(results, Cat("{", TypeJson(v), "}"));
  for (const std::string& name : signature.symbols) add(symbols, JsonString(name));
  return Cat("\"name\":", JsonString(signature.name), ",\"params\":[", params, "],\"results\":[", results,
             "],\"symbols\":[", symbols, "]");
}

}  // namespace cinn_like
