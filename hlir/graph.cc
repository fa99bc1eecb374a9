#include "hlir/graph.h"

#include <algorithm>
#include <limits>

namespace cinn_like::hlir {
namespace {

Status CheckType(const TensorType& type, const SymbolTable& symbols) {
  double bytes = BytesOf(type.dtype);
  for (const Dim& d : type.dims) {
    const DimRange range = RangeOf(d, symbols);
    if (range.hi < 0) return InvalidArgument("dimension ", d.ToString(), " of ", type.ToString(), " is negative");
    bytes *= std::max<double>(1.0, static_cast<double>(range.lo));
  }
  if (bytes > kMaxBytes) return InvalidArgument("tensor ", type.ToString(), " is too large");
  return absl::OkStatus();
}

}  // namespace

int Graph::ParamIndexOf(ValueId v) const {
  for (size_t i = 0; i < params_.size(); ++i) {
    if (params_[i].value == v) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> Graph::CountUses() const {
  std::vector<int> uses(values_.size(), 0);
  for (const Op& op : ops_) {
    for (ValueId v : op.operands) ++uses[v];
  }
  for (ValueId v : results_) ++uses[v];
  return uses;
}

ValueId Graph::AddValue(TensorType type, int op) {
  values_.push_back({std::move(type), op});
  return static_cast<ValueId>(values_.size() - 1);
}

Status Graph::CheckSymbols(const Dims& dims) const {
  std::set<std::string> used;
  for (const Dim& d : dims) d.CollectSymbols(&used);
  for (const std::string& s : used) {
    if (!Find(symbols_, s)) return InvalidArgument("unknown symbol '", s, "', expected one declared after 'where'");
  }
  return absl::OkStatus();
}

Status Graph::TakeName(const std::string& name) {
  const bool identifier =
      !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  if (!identifier) return InvalidArgument("parameter '", name, "': expected an identifier as its name");
  if (!names_.insert(name).second) return InvalidArgument("parameter '", name, "' is declared twice");
  return absl::OkStatus();
}

Status Graph::AddSymbol(SymbolInfo symbol) {
  if (Find(symbols_, symbol.name)) return InvalidArgument("symbol '", symbol.name, "' is declared twice");
  if (symbol.lo < 0 || symbol.hi < symbol.lo) {
    return InvalidArgument("symbol '", symbol.name, "': expected a range 0 <= first <= last, got ", symbol.lo, "..",
                           symbol.hi);
  }
  if (symbol.divisor < 1) {
    return InvalidArgument("symbol '", symbol.name, "': expected a positive divisor, got ", symbol.divisor);
  }
  if (symbol.hint != 0 && (symbol.hint < symbol.lo || symbol.hint > symbol.hi)) {
    return InvalidArgument("symbol '", symbol.name, "': expected a hint in ", symbol.lo, "..", symbol.hi, ", got ",
                           symbol.hint);
  }
  symbols_.push_back(std::move(symbol));
  return absl::OkStatus();
}

StatusOr<ValueId> Graph::AddParam(std::string name, TensorType type, ParamRole role, std::optional<Dims> strides) {
  const std::string where = Cat("parameter '", name, "'");
  RETURN_IF_ERROR(Annotate(CheckSymbols(type.dims), where));
  RETURN_IF_ERROR(Annotate(CheckType(type, symbols_), where));
  if (strides) {
    RETURN_IF_ERROR(Annotate(CheckSymbols(*strides), where));
    if (strides->size() != type.dims.size()) {
      return InvalidArgument(where, ": expected ", type.rank(), " strides, got ", strides->size());
    }
  }
  RETURN_IF_ERROR(TakeName(name));
  const ValueId value = AddValue(std::move(type), -1);
  params_.push_back({std::move(name), value, role, std::move(strides)});
  return value;
}

Status Graph::AddSymbolParam(std::string name) {
  RETURN_IF_ERROR(Annotate(CheckSymbols({Dim::Symbol(name)}), Cat("parameter '", name, "'")));
  RETURN_IF_ERROR(TakeName(name));
  Param param;
  param.name = std::move(name);
  params_.push_back(std::move(param));
  return absl::OkStatus();
}

StatusOr<std::vector<ValueId>> Graph::AddOp(std::string_view op_name, std::vector<ValueId> operands,
                                            const Attrs& attrs) {
  const OpDef* def = registry_->Find(op_name);
  if (!def) return InvalidArgument("unknown op '", op_name, "'");
  const std::string where = Cat("op '", op_name, "'");
  const size_t arity = def->operands.size();
  if (def->variadic() ? operands.size() < arity : operands.size() != arity) {
    return InvalidArgument(where, ": expected ", def->variadic() ? "at least " : "", arity,
                           arity == 1 ? " operand" : " operands", ", got ", operands.size());
  }
  StatusOr<Attrs> complete = CompleteAttrs(*def, attrs);
  RETURN_IF_ERROR(Annotate(complete.status(), where));
  for (const auto& [name, value] : complete->values()) {
    const Dims dims = std::holds_alternative<Dims>(value)  ? std::get<Dims>(value)
                      : std::holds_alternative<Dim>(value) ? Dims{std::get<Dim>(value)}
                                                           : Dims{};
    RETURN_IF_ERROR(Annotate(CheckSymbols(dims), Cat(where, ": attribute '", name, "'")));
  }
  std::vector<TensorType> types;
  for (ValueId v : operands) {
    RET_CHECK(v >= 0 && v < num_values(), where);
    types.push_back(TypeOf(v));
  }
  StatusOr<std::vector<TensorType>> inferred = def->infer({types, *complete, symbols_});
  RETURN_IF_ERROR(Annotate(inferred.status(), where));
  Op op{def,    std::move(operands), *std::move(complete), {}, origin_ >= 0 ? origin_ : static_cast<int>(ops_.size()),
        device_};
  for (TensorType& t : *inferred) {
    RETURN_IF_ERROR(Annotate(CheckType(t, symbols_), Cat(where, ": result")));
    op.results.push_back(AddValue(std::move(t), static_cast<int>(ops_.size())));
  }
  ops_.push_back(std::move(op));
  return ops_.back().results;
}

const std::vector<ValueId>& Graph::CopyOp(const Graph& from, const Op& op, std::vector<ValueId> operands) {
  const int index = static_cast<int>(ops_.size());
  Op copy{op.def, std::move(operands), op.attrs, {}, origin_ >= 0 ? origin_ : index, op.device};
  for (ValueId v : op.results) copy.results.push_back(AddValue(from.TypeOf(v), index));
  ops_.push_back(std::move(copy));
  return ops_.back().results;
}

Status Graph::SetResults(std::vector<ValueId> results) {
  for (ValueId v : results) RET_CHECK(v >= 0 && v < num_values());
  results_ = std::move(results);
  return absl::OkStatus();
}

bool operator==(const Graph& a, const Graph& b) {
  if (a.name_ != b.name_ || a.symbols_ != b.symbols_ || a.params_.size() != b.params_.size() ||
      a.ops_.size() != b.ops_.size() || a.results_.size() != b.results_.size()) {
    return false;
  }
  std::vector<ValueId> to_b(a.values_.size(), -1);
  auto same = [&](const std::vector<ValueId>& x, const std::vector<ValueId>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](ValueId u, ValueId v) { return to_b[u] == v; });
  };
  for (size_t i = 0; i < a.params_.size(); ++i) {
    const Param &p = a.params_[i], &q = b.params_[i];
    if (p.name != q.name || p.role != q.role || p.strides != q.strides || p.is_symbol() != q.is_symbol()) return false;
    if (p.is_symbol()) continue;
    if (!(a.TypeOf(p.value) == b.TypeOf(q.value))) return false;
    to_b[p.value] = q.value;
  }
  for (size_t i = 0; i < a.ops_.size(); ++i) {
    const Op &p = a.ops_[i], &q = b.ops_[i];
    if (p.def != q.def || p.device != q.device || !(p.attrs == q.attrs) || !same(p.operands, q.operands) ||
        p.results.size() != q.results.size()) {
      return false;
    }
    for (size_t r = 0; r < p.results.size(); ++r) {
      if (!(a.TypeOf(p.results[r]) == b.TypeOf(q.results[r]))) return false;
      to_b[p.results[r]] = q.results[r];
    }
  }
  return same(a.results_, b.results_);
}

}  // namespace cinn_like::hlir
