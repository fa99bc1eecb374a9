// Steps that take factors out of reductions and exponents.
#include <algorithm>
#include <cmath>

#include "ir/join.h"
#include "ir/schedule/stage_parts.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::ir {

namespace {

// `e` as a product of something and a positive constant; 0 and infinities are such a product with any, then `factor` is
// 0.
struct Scaled {
  Expr rest;
  double factor = 1;
};
Scaled ScaledOf(Context& c, Expr e) {
  const auto constant = [](Expr x) {
    return x->op == ExprOp::kFloat && x->float_value > 0 && !std::isinf(x->float_value);
  };
  if (e->op == ExprOp::kFloat && (e->float_value == 0 || std::isinf(e->float_value))) return {e, 0};
  if (e->op == ExprOp::kMul) {
    for (size_t k = 0; k < 2; ++k) {
      if (constant(e->args[k])) return {e->args[1 - k], e->args[k]->float_value};
    }
  }
  if (e->op == ExprOp::kDiv && constant(e->args[1])) return {e->args[0], 1 / e->args[1]->float_value};
  if (e->op == ExprOp::kCast && IsFloat(e->type.dtype) && IsFloat(e->args[0]->type.dtype)) {
    const Scaled r = ScaledOf(c, e->args[0]);
    return {r.rest == e->args[0] ? e : c.Cast(e->type.dtype, r.rest), r.factor};
  }
  const bool selects = e->op == ExprOp::kSelect;
  if (!selects && e->op != ExprOp::kSub) return {e, 1};
  std::vector<Expr> args = e->args;
  const Scaled a = ScaledOf(c, args[selects]), b = ScaledOf(c, args[selects + 1]);
  const double factor = a.factor == 0 ? b.factor : a.factor;
  if (factor == 1 || (b.factor != factor && b.factor != 0)) return {e, 1};
  args[selects] = a.rest, args[selects + 1] = b.rest;
  return {c.WithArgs(e, args), factor};
}

}  // namespace

StatusOr<TeProgram> Factor(TeProgram p, const std::string& stage) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  const bool extreme = s.IsReduction() && s.values.size() == 1 && IsFloat(s.outputs[0]->dtype) &&
                       (s.values[0]->op == ExprOp::kMax || s.values[0]->op == ExprOp::kMin);
  if (!extreme) return InvalidArgument("stage ", stage, " is no maximum or minimum of floats");
  const Buffer result = s.outputs[0];
  if (std::any_of(p.params.begin(), p.params.end(), [&](const Param& q) { return q.buffer == result; }))
    return InvalidArgument("stage ", stage, " computes the result ", result->name);
  ASSIGN_OR_RETURN(const Join join, JoinOf(c, s));
  const Scaled element = ScaledOf(c, join.elements[0]), start = ScaledOf(c, s.inits[0]);
  if (element.factor == 0 || element.factor == 1 || start.factor != 0)
    return InvalidArgument("the elements of stage ", stage, " have no positive constant factor in common");
  s.values = join.Joined(c, join.running, {element.rest});
  const Expr factor = c.Const(element.factor, result->dtype);
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if (e->op == ExprOp::kLoad && e->buffer == result) return c.Mul(e, factor);
    if (e->op != ExprOp::kSub) return nullptr;
    std::vector<Expr> args;
    for (Expr x : e->args) args.push_back((*self)(x));
    const Expr difference = c.WithArgs(e, args);
    const Scaled r = args == e->args ? Scaled{difference} : ScaledOf(c, difference);
    return r.factor == element.factor ? c.Mul(r.rest, factor) : difference;
  });
  self = &rewrite;
  for (Stage& reader : p.stages) {
    if (&reader == &s) continue;
    for (auto* values : {&reader.values, &reader.inits}) {
      for (Expr& v : *values) v = rewrite(v);
    }
  }
  return p;
}

StatusOr<TeProgram> Exp2(TeProgram p, const std::string& stage) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  bool found = false;
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if (e->op != ExprOp::kExp || e->type.dtype != DType::kF32) return nullptr;
    found = true;
    constexpr double kLog2E = 1.4426950408889634;
    const Expr x = (*self)(e->args[0]);
    const bool scaled = x->op == ExprOp::kMul && x->args[1]->op == ExprOp::kFloat;
    const double factor = scaled ? x->args[1]->float_value : 1;
    return c.Make(ExprOp::kExp2, {c.Mul(scaled ? x->args[0] : x, c.Const(factor * kLog2E, DType::kF32))});
  });
  self = &rewrite;
  for (Expr& v : p.stages[at].values) v = rewrite(v);
  if (!found) return InvalidArgument("stage ", stage, " has no exp of f32");
  return p;
}

StatusOr<TeProgram> Hoist(TeProgram p, const std::string& stage, const std::string& name) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  ASSIGN_OR_RETURN(const Join join, JoinOf(c, s));
  if (s.values.size() != 1 || s.values[0]->op != ExprOp::kAdd || !IsFloat(s.outputs[0]->dtype))
    return InvalidArgument("stage ", stage, " is no sum of floats");
  Analyzer a(c);
  BindFacts(a, p, s.iters);
  for (const StageIter& i : s.reduce_iters) {
    // Of nothing at all the sum is 0, whatever its factors are.
    if (!a.CanProve(c.Lt(c.Int(0), i.extent)))
      return InvalidArgument("stage ", stage, " may sum over nothing: ", i.var->name, " in 0..", Print(i.extent));
  }
  const auto is_common = [&](Expr e) {
    return e->reads && std::none_of(s.reduce_iters.begin(), s.reduce_iters.end(),
                                    [&](const StageIter& i) { return Uses(e, i.var); });
  };
  std::vector<std::pair<ExprOp, Expr>> common;  // select: a condition without which all elements are 0
  bool some = false;                            // some elements are 0 whatever the factors are
  const DType type = s.outputs[0]->dtype;
  const auto is_zero = [](Expr e) { return e->op == ExprOp::kFloat && e->float_value == 0; };
  // What is left of `e`; null: nothing.
  std::function<Expr(Expr)> rest_of = [&](Expr e) -> Expr {
    if (is_common(e)) {
      common.push_back({ExprOp::kMul, c.Cast(type, e)});
      return nullptr;
    }
    if (e->op == ExprOp::kCast && IsFloat(e->type.dtype) && IsFloat(e->args[0]->type.dtype)) {
      const Expr inner = rest_of(e->args[0]);
      return inner == nullptr ? nullptr : c.Cast(e->type.dtype, inner);
    }
    if (e->op == ExprOp::kMul) {
      const Expr x = rest_of(e->args[0]), y = rest_of(e->args[1]);
      return x == nullptr ? y : y == nullptr ? x : c.Mul(x, y);
    }
    if (e->op == ExprOp::kDiv && is_common(e->args[1])) {
      common.push_back({ExprOp::kDiv, c.Cast(type, e->args[1])});
      const Expr x = rest_of(e->args[0]);
      return x == nullptr ? c.Const(1, e->type.dtype) : x;
    }
    for (size_t zero : {1, 2}) {
      if (e->op != ExprOp::kSelect || !is_zero(e->args[zero])) continue;
      const Expr chosen = zero == 1 ? c.Not(e->args[0]) : e->args[0];
      if (is_common(e->args[0])) {
        common.push_back({ExprOp::kSelect, chosen});
        return rest_of(e->args[3 - zero]);
      }
      const size_t before = common.size();
      const Expr x = rest_of(e->args[3 - zero]);
      if (common.size() == before) return e;
      some = true;
      return c.Select(chosen, x == nullptr ? c.Const(1, e->type.dtype) : x, c.Const(0, e->type.dtype));
    }
    return e;
  };
  Expr rest = rest_of(join.elements[0]);
  if (common.empty()) return InvalidArgument("the elements that stage ", stage, " sums have no factor in common");
  if (rest == nullptr) rest = c.Const(1, type);

  Stage sum;
  sum.name = name;
  sum.origin = s.origin;
  std::vector<std::string> taken = {name};
  VarMap own;
  std::vector<Expr> shape;
  for (const StageIter& i : s.iters) {
    taken.push_back(Cat(name, "_", sum.iters.size()));
    sum.iters.push_back({c.Var(taken.back()), i.extent});
    own[i.var] = sum.iters.back().var;
    shape.push_back(i.extent);
  }
  RETURN_IF_ERROR(CheckNew(p, taken));
  sum.reduce_iters = s.reduce_iters;
  sum.outputs = {c.MakeBuffer({.name = name, .dtype = type, .shape = std::move(shape)})};
  sum.inits = s.inits;
  sum.values = join.Joined(c, RunningOf(c, sum), {Substitute(c, rest, own)});
  const Expr whole = c.Load(sum.outputs[0], VarsOf(s.iters)), zero = c.Const(0, type);
  Expr value = whole;
  for (const auto& [op, factor] : common) {
    if (op != ExprOp::kSelect) value = c.Make(op, {value, factor});
  }
  // Of nothing but such elements the sum is 0 at infinite factors, too.
  if (some) value = c.Select(c.Eq(whole, zero), zero, value);
  for (const auto& [op, factor] : common) {
    if (op == ExprOp::kSelect) value = c.Select(factor, value, zero);
  }
  s.values = {value};
  s.inits.clear();
  s.reduce_iters.clear();
  p.stages.insert(p.stages.begin() + static_cast<ptrdiff_t>(at), std::move(sum));
  return p;
}

}  // namespace cinn_like::ir
