#include "ir/schedule/chain_elements.h"

#include <algorithm>
#include <cmath>

namespace cinn_like::ir {
namespace {

bool IsPositive(Expr e) { return e->op == ExprOp::kFloat && e->float_value > 0; }
bool IsZero(Expr e) { return e->op == ExprOp::kFloat && e->float_value == 0; }

std::string Text(Expr e) {
  constexpr int kMostNodes = 100;
  return PrintsWithin(e, kMostNodes) ? Print(e) : "...";
}

// What has to be at least 0 for `cond` to be `wanted`: some of it, where it is not only such sums.
void AddNeeds(Context& c, Expr cond, bool wanted, std::vector<Linear>& needs) {
  if (cond->op == ExprOp::kNot) return AddNeeds(c, cond->args[0], !wanted, needs);
  if (cond->op == (wanted ? ExprOp::kAnd : ExprOp::kOr)) {
    for (Expr e : cond->args) AddNeeds(c, e, wanted, needs);
    return;
  }
  const bool is_less = cond->op == ExprOp::kLt;
  if ((!is_less && cond->op != ExprOp::kLe) || cond->args[0]->type != kIndexType) return;
  Linear d = AddScaled(ToLinear(c, cond->args[wanted ? 1 : 0]), ToLinear(c, cond->args[wanted ? 0 : 1]), -1);
  if (is_less == wanted) AddConstant(d, -1);
  if (d.exact) needs.push_back(d);
}

bool IsNothing(Expr e) { return e->op == ExprOp::kFloat && e->float_value == -INFINITY; }

}  // namespace

bool DropConditions(Context& c, Expr& element, Expr& x) {
  std::vector<Expr> of_x, found;
  Expr compared = x;
  for (; compared->op == ExprOp::kSelect && IsNothing(compared->args[2]); compared = compared->args[1])
    of_x.push_back(compared->args[0]);
  const auto has = [](const std::vector<Expr>& conditions, Expr e) {
    return std::find(conditions.begin(), conditions.end(), e) != conditions.end();
  };
  // Others stay: they may ask for the maximum.
  const std::function<Expr(Expr)> without = [&](Expr e) -> Expr {
    if (e->op != ExprOp::kSelect || !IsZero(e->args[2])) return e;
    const Expr rest = without(e->args[1]);
    if (!has(of_x, e->args[0])) return c.Select(e->args[0], rest, e->args[2]);
    found.push_back(e->args[0]);
    return rest;
  };
  const Expr summed = without(element);
  if (of_x.empty() || !std::all_of(of_x.begin(), of_x.end(), [&](Expr e) { return has(found, e); })) return false;
  element = summed, x = compared;
  return true;
}

bool Vanishes(Analyzer& a, Expr e) {
  switch (e->op) {
    case ExprOp::kFloat:
      return e->float_value == 0;
    case ExprOp::kMul:
      return Vanishes(a, e->args[0]) || Vanishes(a, e->args[1]);
    case ExprOp::kCast:
      return Vanishes(a, e->args[0]);
    case ExprOp::kSelect:
      return (a.CanProve(a.context().Not(e->args[0])) || Vanishes(a, e->args[1])) && Vanishes(a, e->args[2]);
    default:
      return false;
  }
}

Expr Widened(Context& c, Expr e) {
  Rewriter rewrite(c, [&](Expr x) -> Expr {
    if (x->op != ExprOp::kCast || x->args[0]->op != ExprOp::kCast) return nullptr;
    const Expr narrow = x->args[0], wide = narrow->args[0];
    const bool rounds = x->type == wide->type && IsFloat(x->type.dtype) && IsFloat(narrow->type.dtype) &&
                        BytesOf(narrow->type.dtype) < BytesOf(x->type.dtype);
    return rounds ? Widened(c, wide) : nullptr;
  });
  return rewrite(e);
}

bool Reads(Expr e, Buffer b) {
  bool found = false;
  VisitLoads(e, [&](Expr x) { found |= x->buffer == b; });
  return found;
}

StatusOr<Expr> Repair::Of(Expr e) {
  if (!Reads(e, m_->buffer)) return Expr(nullptr);
  switch (e->op) {
    case ExprOp::kExp:
    case ExprOp::kExp2: {
      ASSIGN_OR_RETURN(const Expr exponent, Exponent(e->args[0]));
      return c_.Make(e->op, {exponent});
    }
    case ExprOp::kMul: {
      ASSIGN_OR_RETURN(const Expr a, Of(e->args[0]));
      ASSIGN_OR_RETURN(const Expr b, Of(e->args[1]));
      return a == nullptr ? b : b == nullptr ? a : c_.Mul(a, b);
    }
    case ExprOp::kDiv:
      if (Reads(e->args[1], m_->buffer)) return Unknown(e);
      return Of(e->args[0]);
    case ExprOp::kNeg:
      return Of(e->args[0]);
    case ExprOp::kCast:
      if (!IsFloat(e->type.dtype) || !IsFloat(e->args[0]->type.dtype)) return Unknown(e);
      return Of(e->args[0]);
    case ExprOp::kAdd:
    case ExprOp::kSub:
      return OfBoth(e, e->args[0], e->args[1]);
    case ExprOp::kSelect:
      if (Reads(e->args[0], m_->buffer)) return Unknown(e);
      if (Reads(e->args[1], m_->buffer) && a_.CanProve(e->args[0])) return Of(e->args[1]);
      selects_ = true;
      return OfBoth(e, e->args[1], e->args[2]);
    default:
      return Unknown(e);
  }
}

// Terms, or alternatives, have one factor in common; 0 has any.
StatusOr<Expr> Repair::OfBoth(Expr e, Expr a, Expr b) {
  ASSIGN_OR_RETURN(const Expr of_a, Of(a));
  ASSIGN_OR_RETURN(const Expr of_b, Of(b));
  if (of_a == of_b || (of_b == nullptr && IsZero(b))) return of_a;
  if (of_a == nullptr && IsZero(a)) return of_b;
  return Unknown(e);
}

// By how much less x - m is at another m.
Expr Repair::Moved(Expr was, Expr is) {
  return c_.Select(c_.Eq(was, is), c_.Const(0, was->type.dtype), c_.Make(ExprOp::kSub, {was, is}));
}

// As logsumexp has it: infinities are its result.
Expr Repair::FiniteOr0(Expr m) {
  const Expr is_infinite = c_.Eq(c_.Make(ExprOp::kAbs, {m}), c_.Const(INFINITY, m->type.dtype));
  return c_.Select(is_infinite, c_.Const(0, m->type.dtype), m);
}

// c * (x - m) with what moves for x - m.
StatusOr<Expr> Repair::Exponent(Expr e) {
  if (e->op == ExprOp::kSub && e->args[1] == m_ && e->args[0] == x_) return Moved(was_, is_);
  if (e->op == ExprOp::kSub && e->args[0] == x_ && e->args[1]->op == ExprOp::kMax) {
    for (size_t k = 0; k < 2; ++k) {
      const Expr bound = e->args[1]->args[k] == m_ ? given_(e->args[1]->args[1 - k]) : nullptr;
      if (bound != nullptr) return Moved(c_.Make(ExprOp::kMax, {was_, bound}), c_.Make(ExprOp::kMax, {is_, bound}));
    }
  }
  if (e->op == ExprOp::kSub && e->args[0] == x_ && e->args[1] == FiniteOr0(m_))
    return Moved(FiniteOr0(was_), FiniteOr0(is_));
  const bool scales = e->op == ExprOp::kMul || e->op == ExprOp::kDiv;
  for (size_t k = 0; scales && k < 2; ++k) {
    if (!IsPositive(e->args[1 - k]) || (k == 1 && e->op == ExprOp::kDiv)) continue;
    ASSIGN_OR_RETURN(const Expr inner, Exponent(e->args[k]));
    std::vector<Expr> args = e->args;
    args[k] = inner;
    return c_.WithArgs(e, args);
  }
  return InvalidArgument("the exponent ", Text(e), " is not ", Text(x_), ", of which ", m_->buffer->name,
                         " is the largest, less ", Text(m_), ", times a positive number");
}

Status Repair::Unknown(Expr e) const {
  return InvalidArgument("there is no factor for ", Text(e), " at another ", m_->buffer->name);
}

void AddNeedsOf(Context& c, Expr e, std::vector<Linear>& needs) {
  switch (e->op) {
    case ExprOp::kSelect:
      for (size_t k : {1, 2}) {
        if (!IsNothing(e->args[3 - k])) continue;
        AddNeeds(c, e->args[0], k == 1, needs);
        return AddNeedsOf(c, e->args[k], needs);
      }
      return;
    case ExprOp::kAdd:
      for (Expr x : e->args) AddNeedsOf(c, x, needs);
      return;
    case ExprOp::kCast:
      return AddNeedsOf(c, e->args[0], needs);
    default:
      return;
  }
}

}  // namespace cinn_like::ir
