#include "ir/join.h"

#include <algorithm>

namespace cinn_like::ir {
namespace {

bool IsAssociative(ExprOp op) {
  switch (op) {
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kBitAnd:
    case ExprOp::kBitOr:
    case ExprOp::kBitXor:
      return true;
    default:
      return false;
  }
}

// The operand of `value` that is not `running`; null if `value` is no such join.
Expr ElementOf(Expr value, Expr running) {
  size_t first = 0;
  if (value->op == ExprOp::kSelect)
    first = 1;
  else if (!IsAssociative(value->op))
    return nullptr;
  if (value->args[first] == running) return value->args[first + 1];
  if (value->args[first + 1] == running) return value->args[first];
  return nullptr;
}

}  // namespace

std::vector<Expr> Stores::Running(Context& c) const {
  std::vector<Expr> r;
  for (size_t k = 0; k < buffers.size(); ++k) r.push_back(c.Load(buffers[k], indices[k]));
  return r;
}

std::vector<Expr> Named(Context& c, NameSupply& names, std::vector<Stmt>& out, const std::vector<Expr>& values) {
  std::vector<Expr> r;
  for (Expr v : values) {
    if (IsConst(v)) {
      r.push_back(v);
      continue;
    }
    r.push_back(c.Var(names.Fresh("v"), v->type));
    out.push_back(MakeStmt(Let{r.back(), v}));
  }
  return r;
}

std::optional<Stores> StoresOf(Context& c, const Stmt& s) {
  Stores r;
  VarMap lets;
  const Seq* seq = As<Seq>(s);
  for (const Stmt& x : seq == nullptr ? std::vector<Stmt>{s} : seq->stmts) {
    const Let* let = As<Let>(x);
    const Store* store = As<Store>(x);
    const bool stored = !r.buffers.empty();
    if (let != nullptr && !stored) {
      lets[let->var] = Substitute(c, let->value, lets);
    } else if (store != nullptr && store->mask == nullptr &&
               (!stored || IsConst(store->value) || lets.contains(store->value))) {
      r.buffers.push_back(store->buffer);
      r.indices.push_back(store->indices);
      r.values.push_back(Substitute(c, store->value, lets));
    } else {
      return std::nullopt;
    }
  }
  return r;
}

std::optional<ScanStep> ScanStepOf(Context& c, const Stmt& body, const absl::flat_hash_set<Expr>& along) {
  ScanStep r;
  VarMap lets;
  const Seq* seq = As<Seq>(body);
  for (const Stmt& x : seq == nullptr ? std::vector<Stmt>{body} : seq->stmts) {
    const Let* let = As<Let>(x);
    const Store* store = As<Store>(x);
    if (let != nullptr && r.vars.empty()) {
      lets[let->var] = Substitute(c, let->value, lets);
      continue;
    }
    if (store == nullptr || store->mask != nullptr) return std::nullopt;
    if (std::any_of(store->indices.begin(), store->indices.end(), [&](Expr e) { return Uses(e, along); })) {
      r.results.push_back(*store);
      continue;
    }
    const auto value = lets.find(store->value);
    if (value == lets.end() || !r.results.empty()) return std::nullopt;
    r.vars.push_back(store->value);
    r.running.buffers.push_back(store->buffer);
    r.running.indices.push_back(store->indices);
    r.running.values.push_back(value->second);
  }
  if (r.vars.empty() || r.results.empty()) return std::nullopt;
  // A result is made of what runs, and of what nothing here stores.
  const std::vector<Buffer> stored = BuffersWritten(body);
  for (Store& s : r.results) {
    VarMap others = lets;
    for (Expr v : r.vars) others.erase(v);
    s.value = Substitute(c, s.value, others);
    bool reads = false;
    for (Expr e : r.running.values) {
      VisitLoads(e, [&](Expr x) { reads |= x->buffer == s.buffer; });
    }
    VisitLoads(s.value, [&](Expr x) { reads |= std::find(stored.begin(), stored.end(), x->buffer) != stored.end(); });
    if (reads) return std::nullopt;
  }
  return r;
}

std::vector<Expr> Join::Joined(Context& c, const std::vector<Expr>& a, const std::vector<Expr>& b) const {
  std::vector<Expr> r;
  for (size_t k = 0; k < values.size(); ++k) {
    // What another reduction beside this one takes may be the same element.
    std::vector<size_t> own = {k};
    for (size_t j = 0; j < running.size(); ++j) {
      bool reads = false;
      Visit(values[k], [&](Expr e) { return !(reads |= e == running[j]); });
      if (reads && j != k) own.push_back(j);
    }
    r.push_back(Rewriter(c, [&](Expr e) -> Expr {
      for (size_t j : own) {
        if (e == running[j]) return a[j];
        if (e == elements[j]) return b[j];
      }
      return nullptr;
    })(values[k]));
  }
  return r;
}

std::optional<Join> FindJoin(Context& c, const std::vector<Expr>& values, const std::vector<Expr>& running) {
  Join r{values, running, {}};
  std::vector<Expr> a, b;
  absl::flat_hash_set<Expr> sides;
  for (size_t k = 0; k < values.size(); ++k) {
    r.elements.push_back(ElementOf(values[k], running[k]));
    if (r.elements[k] == nullptr) return std::nullopt;
    a.push_back(c.Var(Cat("join_a", k), values[k]->type));
    b.push_back(c.Var(Cat("join_b", k), values[k]->type));
    sides.insert({a[k], b[k]});
  }
  bool found = true;
  for (size_t k = 0; k < values.size(); ++k) {
    if (values[k]->op == ExprOp::kSelect && !ChoosesFirst(c, r, k) && (k == 0 || !ChoosesFirst(c, r, k - 1)))
      return std::nullopt;
  }
  for (Expr e : r.elements) {
    Visit(e, [&](Expr x) {
      found &= std::find(running.begin(), running.end(), x) == running.end();
      return found;
    });
  }
  for (Expr e : r.Joined(c, a, b)) {
    Visit(e, [&](Expr x) {
      found &= x->op != ExprOp::kLoad && (x->op != ExprOp::kVar || sides.contains(x));
      return found;
    });
  }
  if (!found) return std::nullopt;
  return r;
}

std::vector<Expr> ConjunctsOf(Expr e) {
  if (e->op != ExprOp::kAnd) return {e};
  std::vector<Expr> r = ConjunctsOf(e->args[0]);
  for (Expr x : ConjunctsOf(e->args[1])) r.push_back(x);
  return r;
}

static bool IsZero(Expr e) { return IsInt(e, 0) || (e->op == ExprOp::kFloat && e->float_value == 0); }

std::vector<Expr> ConditionsOf(Expr element, Expr neutral, bool of_factors) {
  std::vector<Expr> r;
  const bool is_zero = IsZero(neutral);
  const std::function<void(Expr)> add = [&](Expr e) {
    std::vector<Expr> found;
    if (e->op == ExprOp::kSelect && (e->args[2] == neutral || (is_zero && IsZero(e->args[2])))) {
      found = ConjunctsOf(e->args[0]);
      add(e->args[1]);
    } else if (is_zero && e->op == ExprOp::kLoad && e->has_mask) {
      found = ConjunctsOf(MaskOf(e));
    } else if (is_zero && (e->op == ExprOp::kCast || (of_factors && e->op == ExprOp::kMul))) {
      for (Expr x : e->args) add(x);
    }
    for (Expr x : found) {
      if (std::find(r.begin(), r.end(), x) == r.end()) r.push_back(x);
    }
  };
  add(element);
  return r;
}

std::optional<bool> ChoosesFirst(Context& c, const Join& join, size_t k) {
  const auto& [values, running, elements] = join;
  if (k + 1 >= values.size() || IsFloat(values[k + 1]->type.dtype)) return std::nullopt;
  for (const bool largest : {true, false}) {
    const Expr first = ComesFirst(c, largest, elements[k], elements[k + 1], running[k], running[k + 1]);
    if (values[k] == c.Make(ExprOp::kSelect, {first, elements[k], running[k]}) &&
        values[k + 1] == c.Make(ExprOp::kSelect, {first, elements[k + 1], running[k + 1]}))
      return largest;
  }
  return std::nullopt;
}

Expr ComesFirst(Context& c, bool largest, Expr x, Expr place, Expr best, Expr best_place) {
  const Expr lower = c.Lt(place, best_place);
  const Expr better = largest ? c.Make(ExprOp::kLt, {best, x}) : c.Make(ExprOp::kLt, {x, best});
  const Expr first = c.Or(better, c.And(c.Make(ExprOp::kEq, {x, best}), lower));
  if (!IsFloat(x->type.dtype)) return first;
  const Expr nan = c.Make(ExprOp::kIsNan, {x}), best_nan = c.Make(ExprOp::kIsNan, {best});
  return c.Make(ExprOp::kSelect, {nan, c.Or(c.Not(best_nan), lower), first});
}

}  // namespace cinn_like::ir
