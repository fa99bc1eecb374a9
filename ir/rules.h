// The rewrite rules of the simplifier, as text:  (x / c0) / c1 => x / (c0 * c1) if 0 < c0 && 0 < c1
// c0..c9 match integer constants, other names match anything; the guard must be proved. Rules that sums do not cover:
// the simplifier itself brings + - * into a canonical form and divides sums (see ir/linear.h).
#pragma once
#include <array>
#include <functional>
#include <vector>

#include "ir/expr.h"

namespace cinn_like::ir {

struct Rule {
  std::string text;
  Expr lhs = nullptr, rhs = nullptr;
  Expr guard = nullptr;  // null: always
  std::vector<Expr> vars;
  bool is_arithmetic = false;  // holds for numbers that do not wrap
  bool is_order = false;       // holds for numbers that are ordered: no NaN

  bool HoldsFor(DType t) const { return is_arithmetic ? t == DType::kI64 : !is_order || !IsFloat(t); }
};

StatusOr<Rule> ParseRule(Context& c, std::string_view text);
// The built-in rules, parsed once per process; read-only.
const std::vector<Rule>& BuiltinRules();
// The built-in rules whose left side is this operator.
const std::vector<const Rule*>& RulesFor(ExprOp op);

// Rewrites `e` by one rule at its root; null if it does not match. `prove` answers for the parts of the guard that are
// not constant.
Expr ApplyRule(Context& c, const Rule& rule, Expr e, const std::function<bool(Expr)>& prove);

}  // namespace cinn_like::ir
