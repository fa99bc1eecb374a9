#include "hlir/phases.h"

#include <algorithm>
#include <numeric>

#include "ir/join.h"
#include "ir/linear.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

// The number of the iterator `var`; -1: it is none of them.
int NumberOf(const std::vector<StageIter>& iters, Expr var) {
  const auto it = std::find_if(iters.begin(), iters.end(), [&](const StageIter& i) { return i.var == var; });
  return it == iters.end() ? -1 : static_cast<int>(it - iters.begin());
}

// (place * a + tap * b + c) % modulus == 0
std::optional<Phase> PhaseOf(Context& c, const Stage& s, Expr condition) {
  if (condition->op != ExprOp::kEq || !IsInt(condition->args[1], 0)) return std::nullopt;
  const Expr e = condition->args[0];
  if (e->op != ExprOp::kMod || e->type != kIndexType || !IsInt(e->args[1]) || e->args[1]->int_value < 2)
    return std::nullopt;
  const int64_t modulus = e->args[1]->int_value;
  const Linear sum = ToLinear(c, e->args[0]);
  Phase r{-1};
  for (const LinearTerm& t : sum.terms) {
    const int place = NumberOf(s.iters, t.atom), tap = NumberOf(s.reduce_iters, t.atom);
    if (IsInt((place >= 0 ? s.iters[place] : tap >= 0 ? s.reduce_iters[tap] : StageIter{t.atom, t.atom}).extent, 1))
      continue;
    const int64_t digits = modulus / std::gcd(static_cast<int64_t>(t.coef), modulus);
    if (place >= 0 && r.place < 0)
      r.place = place, r.places = digits;
    else if (tap >= 0 && r.tap < 0)
      r.tap = tap, r.taps = digits;
    else
      return std::nullopt;
  }
  if (!sum.exact || r.place < 0 || r.places == 1) return std::nullopt;
  if (r.taps == 1) r.tap = -1;
  return r;
}

}  // namespace

std::vector<Phase> FindPhases(Context& c, const Stage& s) {
  std::vector<Phase> r;
  if (!s.IsReduction() || s.values.size() != 1) return r;
  const Expr neutral = NeutralOf(c, s.values[0]->op, s.outputs[0]->dtype);
  if (neutral == nullptr) return r;
  for (Expr side : s.values[0]->args) {
    if (side->op == ExprOp::kLoad && side->buffer == s.outputs[0]) continue;
    for (Expr condition : ConditionsOf(side, neutral)) {
      const std::optional<Phase> phase = PhaseOf(c, s, condition);
      const auto meets = [&](const Phase& x) { return x.place == phase->place || (x.tap >= 0 && x.tap == phase->tap); };
      if (phase && std::none_of(r.begin(), r.end(), meets)) r.push_back(*phase);
    }
  }
  return r;
}

double DensityOf(Context& c, const Stage& s) {
  double r = 1;
  for (const Phase& p : FindPhases(c, s)) r /= static_cast<double>(std::max(p.places, p.taps));
  return r;
}

StatusOr<std::vector<std::string>> SplitPhases(Schedule& s, const std::vector<Phase>& phases,
                                               const std::vector<std::string>& stages) {
  std::vector<std::string> names;
  // Names of before the first step.
  const std::vector<Stage> before = s.stages()->stages;
  const auto cut = [&](const std::string& stage, const std::string& iterator, int64_t digits) {
    s.Step("round_up ", stage, " ", iterator, " ", digits);
    s.Step("unfold ", stage, " ", iterator, " ", digits, " -> ", iterator, "_g ", iterator, "_p");
    if (stage == stages[0]) names.insert(names.end(), {iterator + "_g", iterator + "_p"});
  };
  for (const Phase& p : phases) {
    for (const Stage& stage : before) {
      if (std::find(stages.begin(), stages.end(), stage.name) == stages.end()) continue;
      cut(stage.name, stage.iters[p.place].var->name, p.places);
      if (stage.name != stages[0] || p.tap < 0) continue;
      const std::string& tap = stage.reduce_iters[p.tap].var->name;
      cut(stage.name, tap, p.taps);
      s.Try(Cat("solve ", stage.name, " ", tap, "_p"));  // no tap may meet any place
    }
  }
  RETURN_IF_ERROR(s.status());
  return names;
}

}  // namespace cinn_like::hlir
