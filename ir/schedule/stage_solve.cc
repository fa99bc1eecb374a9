#include <algorithm>
#include <numeric>

#include "ir/join.h"
#include "ir/linear.h"
#include "ir/schedule/stage_parts.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::ir {
namespace {

// `digit * coef + rest` is a multiple of `modulus` where `condition` holds.
struct Congruence {
  Expr condition;
  int64_t coef, modulus;
  Linear rest;
};

// The first of `conditions` that is one for `digit`, alone in a term of the sum.
std::optional<Congruence> FindCongruence(Context& c, const std::vector<Expr>& conditions, Expr digit) {
  for (Expr condition : conditions) {
    if (condition->op != ExprOp::kEq || !IsInt(condition->args[1], 0)) continue;
    const Expr e = condition->args[0];
    if (e->op != ExprOp::kMod || e->type != kIndexType || !IsInt(e->args[1]) || e->args[1]->int_value < 2) continue;
    Congruence r{condition, 0, e->args[1]->int_value, ToLinear(c, e->args[0])};
    bool alone = r.rest.exact;
    for (const LinearTerm& t : r.rest.terms) {
      if (t.atom == digit)
        r.coef = t.coef;
      else
        alone = alone && !Uses(t.atom, digit);
    }
    if (r.coef == 0 || !alone) continue;
    RemoveTerm(r.rest, digit);
    return r;
  }
  return std::nullopt;
}

// x with a * x = 1 modulo m, of numbers without a common factor.
int64_t InverseOf(int64_t a, int64_t m) {
  for (int64_t x = 1; x < m; ++x) {
    if (a % m * x % m == 1 % m) return x;
  }
  return 0;
}

}  // namespace

StatusOr<TeProgram> Solve(TeProgram p, const std::string& stage, const std::string& iterator) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  const auto digit = std::find_if(s.reduce_iters.begin(), s.reduce_iters.end(),
                                  [&](const StageIter& i) { return i.var->name == iterator; });
  if (digit == s.reduce_iters.end()) return InvalidArgument("stage ", stage, " does not reduce over ", iterator);
  if (s.reduce_iters.size() == 1)
    return InvalidArgument("stage ", stage, " reduces over nothing but ", iterator,
                           ", of which one value would be left");
  const std::optional<Join> join = FindJoin(c, s.values, RunningOf(c, s));
  if (!join) return InvalidArgument("stage ", stage, " does not join elements by an operator that takes any order");
  // A condition of every element.
  std::optional<Congruence> found;
  for (size_t k = 0; k < join->elements.size(); ++k) {
    const Expr neutral = NeutralOf(c, s.values[k]->op, s.outputs[k]->dtype);
    const auto own =
        neutral == nullptr ? std::nullopt : FindCongruence(c, ConditionsOf(join->elements[k], neutral), digit->var);
    if (!own || (found && found->condition != own->condition))
      return InvalidArgument("no condition of the form (... + ", iterator, " * A) % B == 0 says at which ", iterator,
                             " an element of stage ", stage, " changes something");
    found = own;
  }
  const int64_t modulus = found->modulus, coef = FloorMod(found->coef, modulus);
  const int64_t common = std::gcd(coef, modulus), values = modulus / common;
  if (!IsInt(digit->extent, values)) {
    return InvalidArgument(Print(found->condition), " has a value of ", iterator, " for each ", values,
                           " of them, and stage ", stage, " reduces over ", Print(digit->extent));
  }
  // The one value, and what else must hold for it to be one.
  Linear rest = Constant(FloorMod(found->rest.constant, modulus));
  for (const LinearTerm& t : found->rest.terms) AddTerm(rest, t.atom, FloorMod(t.coef, modulus));
  const Expr others = FromLinear(c, rest, DType::kI64);
  const int64_t factor = values == 1 ? 0 : FloorMod(-InverseOf(coef / common, values), values);
  const Expr value = c.Mod(c.Mul(common == 1 ? others : c.Div(others, c.Int(common)), c.Int(factor)), c.Int(values));
  const Expr stays = common == 1 ? c.Bool(true) : c.Eq(c.Mod(others, c.Int(common)), c.Int(0));

  const Expr var = digit->var;
  s.reduce_iters.erase(digit);
  Analyzer a(c);
  BindFacts(a, p, AllIters(s));
  const Expr settled = a.Simplify(value);
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if (e == found->condition) return stays;
    if (e == var) return settled;
    if (e->op != ExprOp::kLoad) return nullptr;
    std::vector<Expr> indices;
    for (Expr i : IndicesOf(e)) indices.push_back(a.Simplify((*self)(i)));
    const Expr mask = MaskOf(e) == nullptr ? nullptr : a.Simplify((*self)(MaskOf(e)));
    return c.Load(e->buffer, std::move(indices), mask == nullptr || IsTrue(mask) ? nullptr : mask);
  });
  self = &rewrite;
  std::vector<Expr> elements;
  for (Expr e : join->elements) elements.push_back(rewrite(e));
  s.values = join->Joined(c, join->running, elements);
  return p;
}

}  // namespace cinn_like::ir
