#include <map>

#include "cinn_like/base/lexer.h"
#include "hlir/graph.h"
#include "hlir/signature.h"

namespace cinn_like::hlir {
namespace {

class GraphParser {
 public:
  GraphParser(std::string_view text, const OpRegistry& registry) : lexer_(text), graph_("", registry) {}

  StatusOr<Graph> Run() {
    RETURN_IF_ERROR(lexer_.Expect("graph"));
    RETURN_IF_ERROR(lexer_.Expect("@"));
    ASSIGN_OR_RETURN(std::string name, lexer_.Ident("the graph's name"));
    graph_.set_name(std::move(name));
    RETURN_IF_ERROR(ParseParams());
    RETURN_IF_ERROR(lexer_.Expect("{"));
    while (!lexer_.Is("return")) RETURN_IF_ERROR(ParseOp());
    const Token at = lexer_.Take();
    std::vector<ValueId> results;
    if (!lexer_.Is("}")) {
      do {
        ASSIGN_OR_RETURN(const ValueId v, ParseUse());
        results.push_back(v);
      } while (lexer_.Eat(","));
    }
    RETURN_IF_ERROR(lexer_.Expect("}"));
    if (!lexer_.AtEnd()) return lexer_.Error("expected nothing after the graph");
    RETURN_IF_ERROR(graph_.SetResults(std::move(results)));
    RETURN_IF_ERROR(At(at, Verify(graph_)));
    return std::move(graph_);
  }

 private:
  struct PendingParam {
    Token at;
    std::string name;
    bool is_symbol = false;
    TensorType type;
    ParamRole role = ParamRole::kInput;
    std::optional<Dims> strides;
  };

  static Status At(const Token& at, const Status& s) {
    return Annotate(s, Cat("line ", at.line, ", column ", at.column));
  }

  StatusOr<std::string> ParseValueName() {
    RETURN_IF_ERROR(lexer_.Expect("%"));
    if (lexer_.Peek().kind != TokenKind::kIdent && lexer_.Peek().kind != TokenKind::kInt) {
      return lexer_.Error("expected a value's name");
    }
    return lexer_.Take().text;
  }

  StatusOr<ValueId> ParseUse() {
    const Token at = lexer_.Peek();
    ASSIGN_OR_RETURN(const std::string name, ParseValueName());
    const auto it = values_.find(name);
    if (it == values_.end()) return At(at, InvalidArgument("unknown value '%", name, "'"));
    return it->second;
  }

  StatusOr<Dims> ParseDims() {
    RETURN_IF_ERROR(lexer_.Expect("["));
    Dims dims;
    if (lexer_.Eat("]")) return dims;
    do {
      ASSIGN_OR_RETURN(Dim d, ParseDim(&lexer_));
      dims.push_back(std::move(d));
    } while (lexer_.Eat(","));
    RETURN_IF_ERROR(lexer_.Expect("]"));
    return dims;
  }

  StatusOr<TensorType> ParseType() {
    const std::optional<DType> dtype = ParseDType(lexer_.Peek().text);
    if (lexer_.Peek().kind != TokenKind::kIdent || !dtype) {
      return lexer_.Error(Cat("expected a dtype (", AllDTypeNames(), ")"));
    }
    lexer_.Take();
    ASSIGN_OR_RETURN(Dims dims, ParseDims());
    return TensorType{*dtype, std::move(dims)};
  }

  Status ParseParams() {
    RETURN_IF_ERROR(lexer_.Expect("("));
    std::vector<PendingParam> pending;
    while (!lexer_.Is(")")) {
      if (!pending.empty()) RETURN_IF_ERROR(lexer_.Expect(","));
      PendingParam p;
      p.at = lexer_.Peek();
      p.is_symbol = !lexer_.Eat("%");
      ASSIGN_OR_RETURN(p.name, lexer_.Ident("a parameter's name"));
      RETURN_IF_ERROR(lexer_.Expect(":"));
      if (p.is_symbol) {
        RETURN_IF_ERROR(lexer_.Expect("i64"));
      } else {
        ASSIGN_OR_RETURN(p.type, ParseType());
        if (lexer_.Eat("strides")) {
          ASSIGN_OR_RETURN(p.strides, ParseDims());
        }
        if (lexer_.Eat("static")) p.role = ParamRole::kStatic;
        if (lexer_.Eat("prepared")) p.role = ParamRole::kPrepared;
      }
      pending.push_back(std::move(p));
    }
    RETURN_IF_ERROR(lexer_.Expect(")"));
    if (lexer_.Eat("where")) {
      do {
        const Token at = lexer_.Peek();
        SymbolInfo s;
        ASSIGN_OR_RETURN(s.name, lexer_.Ident("a symbol"));
        RETURN_IF_ERROR(lexer_.Expect("in"));
        ASSIGN_OR_RETURN(s.lo, lexer_.Int("the first value of a range"));
        RETURN_IF_ERROR(lexer_.Expect(".."));
        ASSIGN_OR_RETURN(s.hi, lexer_.Int("the last value of a range"));
        if (lexer_.Eat("multiple")) {
          ASSIGN_OR_RETURN(s.divisor, lexer_.Int("a divisor"));
        }
        if (lexer_.Eat("hint")) {
          ASSIGN_OR_RETURN(s.hint, lexer_.Int("a hint"));
        }
        RETURN_IF_ERROR(At(at, graph_.AddSymbol(std::move(s))));
      } while (lexer_.Eat(","));
    }
    for (PendingParam& p : pending) {
      if (p.is_symbol) {
        RETURN_IF_ERROR(At(p.at, graph_.AddSymbolParam(p.name)));
        continue;
      }
      StatusOr<ValueId> v = graph_.AddParam(p.name, std::move(p.type), p.role, std::move(p.strides));
      RETURN_IF_ERROR(At(p.at, v.status()));
      values_[p.name] = *v;
    }
    return absl::OkStatus();
  }

  StatusOr<Attrs> ParseAttrs(const OpDef& def) {
    Attrs::Values attrs;
    if (!lexer_.Eat("{")) return Attrs();
    do {
      const Token at = lexer_.Peek();
      ASSIGN_OR_RETURN(const std::string name, lexer_.Ident("an attribute's name"));
      const AttrSpec* spec = def.FindAttr(name);
      if (!spec) {
        return At(at, Annotate(CompleteAttrs(def, {{name, true}}).status(), Cat("op '", def.name, "'")));
      }
      if (attrs.contains(name))
        return At(at, InvalidArgument("op '", def.name, "': attribute '", name, "' is given twice"));
      RETURN_IF_ERROR(lexer_.Expect("="));
      StatusOr<Attr> value = ParseAttr(*spec, &lexer_);
      if (!value.ok()) return InvalidArgument(Message(value.status()), " (op '", def.name, "')");
      attrs.emplace(name, *std::move(value));
    } while (lexer_.Eat(","));
    RETURN_IF_ERROR(lexer_.Expect("}"));
    return Attrs(std::move(attrs));
  }

  Status ParseOp() {
    std::vector<std::string> names;
    std::vector<Token> name_tokens;
    do {
      name_tokens.push_back(lexer_.Peek());
      ASSIGN_OR_RETURN(std::string name, ParseValueName());
      names.push_back(std::move(name));
    } while (lexer_.Eat(","));
    RETURN_IF_ERROR(lexer_.Expect("="));
    const Token at = lexer_.Peek();
    ASSIGN_OR_RETURN(const std::string op_name, lexer_.Ident("an op's name"));
    const OpDef* def = graph_.registry().Find(op_name);
    if (!def) return At(at, InvalidArgument("unknown op '", op_name, "'"));
    RETURN_IF_ERROR(lexer_.Expect("("));
    std::vector<ValueId> operands;
    if (!lexer_.Is(")")) {
      do {
        ASSIGN_OR_RETURN(const ValueId v, ParseUse());
        operands.push_back(v);
      } while (lexer_.Eat(","));
    }
    RETURN_IF_ERROR(lexer_.Expect(")"));
    ASSIGN_OR_RETURN(const Attrs attrs, ParseAttrs(*def));
    std::string device;
    if (lexer_.Eat("on")) {
      ASSIGN_OR_RETURN(device, lexer_.Ident("a device's name"));
    }
    RETURN_IF_ERROR(lexer_.Expect(":"));
    std::vector<TensorType> written;
    do {
      ASSIGN_OR_RETURN(TensorType t, ParseType());
      written.push_back(std::move(t));
    } while (lexer_.Eat(","));

    graph_.SetOrigin(-1, std::move(device));
    const StatusOr<std::vector<ValueId>> results = graph_.AddOp(op_name, std::move(operands), attrs);
    RETURN_IF_ERROR(At(at, results.status()));
    if (names.size() != results->size() || written.size() != results->size()) {
      return At(at, InvalidArgument("op '", op_name, "' has ", results->size(), " results, got ", names.size(),
                                    " names and ", written.size(), " types"));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      const TensorType& inferred = graph_.TypeOf((*results)[i]);
      if (!(inferred == written[i])) {
        return At(at, InvalidArgument("op '", op_name, "': type written for '%", names[i], "': expected ",
                                      inferred.ToString(), ", got ", written[i].ToString()));
      }
      if (!values_.emplace(names[i], (*results)[i]).second) {
        return At(name_tokens[i], InvalidArgument("value '%", names[i], "' is defined twice"));
      }
    }
    return absl::OkStatus();
  }

  Lexer lexer_;
  Graph graph_;
  std::map<std::string, ValueId> values_;
};

std::string PrintAttrs(const Op& op) {
  std::string s;
  for (const AttrSpec& spec : op.def->attrs) {
    const Attr& value = *op.attrs.Find(spec.name);
    if (spec.default_value) {
      const StatusOr<Attr> default_value = CoerceAttr(spec, *spec.default_value);
      if (default_value.ok() && ToString(*default_value) == ToString(value)) continue;
    }
    s += Cat(s.empty() ? " {" : ", ", spec.name, "=", ToString(value));
  }
  return s.empty() ? s : s + "}";
}

std::string PrintHead(const Graph& graph, bool statics) {
  std::string params;
  for (const Param& p : graph.params()) {
    if (p.role == ParamRole::kStatic && !statics) continue;
    if (!params.empty()) params += ", ";
    if (p.is_symbol()) {
      params += p.name + ": i64";
      continue;
    }
    params += Cat("%", p.name, ": ", graph.TypeOf(p.value).ToString());
    if (p.strides) params += " strides " + ToString(*p.strides);
    if (p.role == ParamRole::kStatic) params += " static";
    if (p.role == ParamRole::kPrepared) params += " prepared";
  }
  std::string s = Cat("@", graph.name(), "(", params, ")");
  for (size_t i = 0; i < graph.symbols().size(); ++i) {
    const SymbolInfo& symbol = graph.symbols()[i];
    s += Cat(i ? ", " : " where ", symbol.name, " in ", symbol.lo, "..", symbol.hi);
    if (symbol.divisor != 1) s += Cat(" multiple ", symbol.divisor);
    if (symbol.hint != 0) s += Cat(" hint ", symbol.hint);
  }
  return s;
}

}  // namespace

std::string Signature(const Graph& graph, bool statics) {
  std::string types;
  for (const ValueId v : graph.results()) types += Cat(types.empty() ? "" : ", ", graph.TypeOf(v).ToString());
  return Cat(PrintHead(graph, statics), " -> ", types);
}

StatusOr<Graph> Parse(std::string_view text, const OpRegistry& registry) { return GraphParser(text, registry).Run(); }

std::string Print(const Graph& graph) {
  std::vector<std::string> names(graph.num_values());
  for (const Param& p : graph.params()) {
    if (!p.is_symbol()) names[p.value] = "%" + p.name;
  }
  std::string s = Cat("graph ", PrintHead(graph, true), " {\n");
  auto list = [&](const std::vector<ValueId>& values) {
    std::string joined;
    for (ValueId v : values) joined += (joined.empty() ? "" : ", ") + names[v];
    return joined;
  };
  int next = 0;
  for (const Op& op : graph.ops()) {
    std::string types;
    for (ValueId v : op.results) {
      names[v] = Cat("%", next++);
      types += Cat(types.empty() ? "" : ", ", graph.TypeOf(v).ToString());
    }
    s += Cat("  ", list(op.results), " = ", op.def->name, "(", list(op.operands), ")", PrintAttrs(op),
             op.device.empty() ? "" : " on ", op.device, " : ", types, "\n");
  }
  return s + "  return" + (graph.results().empty() ? "" : " " + list(graph.results())) + "\n}\n";
}

}  // namespace cinn_like::hlir
