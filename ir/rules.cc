#include "ir/rules.h"

#include <cctype>

#include "absl/container/inlined_vector.h"
#include "glog/logging.h"
#include "ir/stmt.h"

namespace cinn_like::ir {
namespace {

constexpr std::string_view kRules[] = {
    "(x / c0) / c1 => x / (c0 * c1) if 0 < c0 && 0 < c1",
    "(x / c0 + c1) / c2 => (x + c1 * c0) / (c0 * c2) if 0 < c0 && 0 < c2",
    "(x % c0) % c1 => x % c1 if 0 < c1 && c0 % c1 == 0",
    "x / y => 0 if 0 <= x && x < y",
    "x % y => x if 0 <= x && x < y",
    "x / x => 1 if 0 < x",
    "x % x => 0 if 0 < x",
    "tdiv(x, y) => 0 if 0 <= x && x < y",
    "tmod(x, y) => x if 0 <= x && x < y",
    "min(x, y) => x if x <= y",
    "min(x, y) => y if y <= x",
    "max(x, y) => x if y <= x",
    "max(x, y) => y if x <= y",
    "min(min(x, y), x) => min(x, y)",
    "min(min(x, y), y) => min(x, y)",
    "min(x, min(x, y)) => min(x, y)",
    "min(x, min(y, x)) => min(y, x)",
    "max(max(x, y), x) => max(x, y)",
    "max(max(x, y), y) => max(x, y)",
    "max(x, max(x, y)) => max(x, y)",
    "max(x, max(y, x)) => max(y, x)",
    "min(max(x, y), x) => x",
    "min(max(x, y), y) => y",
    "max(min(x, y), x) => x",
    "max(min(x, y), y) => y",
    "min(min(x, c0), c1) => min(x, min(c0, c1))",
    "max(max(x, c0), c1) => max(x, max(c0, c1))",
    "min(x * c0, y * c0) => min(x, y) * c0 if 0 < c0",
    "max(x * c0, y * c0) => max(x, y) * c0 if 0 < c0",
    "min(x + c0, y + c0) => min(x, y) + c0",
    "max(x + c0, y + c0) => max(x, y) + c0",
    "min(x * c0, c1) / c0 => min(x, c1 / c0) if 0 < c0",
    "max(x * c0, c1) / c0 => max(x, c1 / c0) if 0 < c0",
    "abs(x) => x if 0 <= x",
    "abs(x) => 0 - x if x <= 0",
    "not(x < y) => y <= x",
    "not(x <= y) => y < x",
    "not(x == y) => x != y",
    "not(x != y) => x == y",
};

using Binding = absl::InlinedVector<std::pair<Expr, Expr>, 8>;

bool IsConstName(const std::string& n) {
  return n.size() == 2 && n[0] == 'c' && std::isdigit(static_cast<unsigned char>(n[1]));
}

bool MatchPattern(Expr pattern, Expr e, Binding& b) {
  if (pattern->op == ExprOp::kVar) {
    if (IsConstName(pattern->name) && e->op != ExprOp::kInt) return false;
    for (auto& [p, bound] : b) {
      if (p == pattern) return bound == e;
    }
    b.emplace_back(pattern, e);
    return true;
  }
  if (pattern->op != e->op || pattern->args.size() != e->args.size()) return false;
  if (pattern->op == ExprOp::kInt) return pattern->int_value == e->int_value;
  for (size_t i = 0; i < pattern->args.size(); ++i) {
    if (!MatchPattern(pattern->args[i], e->args[i], b)) return false;
  }
  return true;
}

// Constants take the type of the integers of the matched expression. Null where they overflow.
Expr Instantiate(Context& c, Expr pattern, const Binding& b, DType t) {
  if (pattern->op == ExprOp::kInt) return c.Int(pattern->int_value, t);
  if (pattern->op == ExprOp::kVar) {
    for (auto& [p, bound] : b) {
      if (p == pattern) return bound;
    }
    return pattern;
  }
  std::vector<Expr> args;
  std::vector<int64_t> values;
  for (Expr a : pattern->args) {
    args.push_back(Instantiate(c, a, b, t));
    if (args.back() == nullptr) return nullptr;
    if (IsInt(args.back())) values.push_back(args.back()->int_value);
  }
  if (values.size() == args.size()) {
    if (Overflows(pattern->op, values)) return nullptr;
    const bool is_bool = RowOf(pattern->op)->result == OpRow::kBool;
    if (auto v = FoldInt(pattern->op, args[0]->type.dtype, values)) return c.Int(*v, is_bool ? DType::kBool : t);
  }
  return c.Make(pattern->op, std::move(args));
}

bool Holds(Context& c, Expr guard, const Binding& b, DType t, const std::function<bool(Expr)>& prove) {
  if (guard->op == ExprOp::kAnd) {
    return Holds(c, guard->args[0], b, t, prove) && Holds(c, guard->args[1], b, t, prove);
  }
  Expr g = Instantiate(c, guard, b, t);
  if (g == nullptr) return false;
  return IsInt(g) ? g->int_value != 0 : prove(g);
}

struct Builtin {
  Context context;
  std::vector<Rule> rules;
  std::array<std::vector<const Rule*>, 256> by_op;
};
const Builtin& Get() {
  static const Builtin* builtin = [] {
    auto* b = new Builtin();
    for (std::string_view text : kRules) {
      auto rule = ParseRule(b->context, text);
      CHECK(rule.ok()) << rule.status();
      b->rules.push_back(*std::move(rule));
    }
    for (const Rule& r : b->rules) b->by_op[static_cast<int>(r.lhs->op)].push_back(&r);
    return b;
  }();
  return *builtin;
}

}  // namespace

StatusOr<Rule> ParseRule(Context& c, std::string_view text) {
  Rule r;
  r.text = std::string(text);
  const size_t arrow = text.find("=>");
  if (arrow == text.npos) return InvalidArgument("rule '", text, "': expected '=>'");
  const size_t guard = text.find(" if ", arrow);
  auto parse = [&](std::string_view part) -> StatusOr<Expr> {
    auto e = ParseIndexExpr(c, part);
    if (!e.ok()) return Annotate(e.status(), Cat("rule '", text, "'"));
    return *e;
  };
  ASSIGN_OR_RETURN(r.lhs, parse(text.substr(0, arrow)));
  ASSIGN_OR_RETURN(r.rhs, parse(text.substr(arrow + 2, guard == text.npos ? guard : guard - arrow - 2)));
  if (guard != text.npos) {
    ASSIGN_OR_RETURN(r.guard, parse(text.substr(guard + 4)));
  }
  r.vars = VarsOf(r.lhs);
  for (Expr e : {r.lhs, r.rhs}) {
    Visit(e, [&](Expr x) {
      r.is_arithmetic |= x->op >= ExprOp::kAdd && x->op <= ExprOp::kMod && x->op != ExprOp::kNot;
      r.is_arithmetic |= x->op == ExprOp::kTruncDiv || x->op == ExprOp::kTruncMod || x->op == ExprOp::kAbs;
      r.is_order |= x->op == ExprOp::kLt || x->op == ExprOp::kLe || x->op == ExprOp::kMin || x->op == ExprOp::kMax;
      return true;
    });
  }
  for (Expr v : VarsOf(r.rhs)) {
    if (!Uses(r.lhs, v)) return InvalidArgument("rule '", text, "': ", v->name, " does not appear on the left");
  }
  return r;
}

const std::vector<Rule>& BuiltinRules() { return Get().rules; }
const std::vector<const Rule*>& RulesFor(ExprOp op) { return Get().by_op[static_cast<int>(op)]; }

Expr ApplyRule(Context& c, const Rule& rule, Expr e, const std::function<bool(Expr)>& prove) {
  Binding b;
  if (!MatchPattern(rule.lhs, e, b)) return nullptr;
  DType t = e->type.dtype;
  if (t == DType::kBool) {
    for (auto& [pattern, bound] : b) {
      if (bound->type.dtype != DType::kBool) t = bound->type.dtype;
    }
  }
  if (rule.guard != nullptr && !Holds(c, rule.guard, b, t, prove)) return nullptr;
  return Instantiate(c, rule.rhs, b, t);
}

}  // namespace cinn_like::ir
