// Where two touches of memory meet: Dependences::Meet.
#include <algorithm>
#include <utility>

#include "ir/join.h"
#include "ir/linear.h"
#include "ir/schedule/dependence.h"

namespace cinn_like::ir {

namespace {

using VarSet = absl::flat_hash_set<Expr>;

// x / k, where the simplifier has taken a division into x: (a * 64 + b / 2) / 5 -> (a * 128 + b) / 10.
Expr Quotient(Analyzer& a, Expr x, Expr k) {
  Context& c = a.context();
  Linear sum = ToLinear(c, x);
  for (const LinearTerm& t : sum.terms) {
    if (t.coef != 1 || t.atom->op != ExprOp::kDiv || !sum.exact) continue;
    const Expr inner = t.atom->args[0], divisor = t.atom->args[1];
    RemoveTerm(sum, t.atom);
    const Expr rest = FromLinear(c, sum, DType::kI64);
    return a.Simplify(c.Div(c.Add(c.Mul(rest, divisor), inner), c.Mul(k, divisor)));
  }
  return a.Simplify(c.Div(x, k));
}

// Whether both never hold, as one says the opposite of what the other one does: branches of one `if`.
bool Exclude(Context& c, Expr a, Expr b, const VarMap& rename) {
  const auto denials = [](Expr e) {
    std::vector<Expr> r = ConjunctsOf(e);
    std::erase_if(r, [](Expr x) { return x->op != ExprOp::kNot; });
    return r;
  };
  if (denials(a).empty() && denials(b).empty()) return false;
  b = Substitute(c, b, rename);
  const auto denied = [](const std::vector<Expr>& denials, const std::vector<Expr>& said) {
    return std::any_of(denials.begin(), denials.end(), [&](Expr e) {
      const std::vector<Expr> parts = ConjunctsOf(e->args[0]);
      return std::all_of(parts.begin(), parts.end(),
                         [&](Expr x) { return std::find(said.begin(), said.end(), x) != said.end(); });
    });
  };
  return denied(denials(a), ConjunctsOf(b)) || denied(denials(b), ConjunctsOf(a));
}

}  // namespace

std::optional<VarMap> Dependences::Meet(const Access& a, const Access& b, const VarMap& rename) {
  VarMap known, primes = rename;
  if (a.condition != nullptr && b.condition != nullptr && Exclude(c_, a.condition, b.condition, rename))
    return std::nullopt;
  if (a.is_whole || b.is_whole || a.at.size() != b.at.size()) return known;
  // What stands for a's variable on b's side: its own prime where only a has the loop.
  for (const For* n : a.loops) {
    const auto fixed = std::find_if(b.loops.begin(), b.loops.end(), [&](const For* m) { return m->var == n->var; });
    if (!primes.contains(n->var) && fixed == b.loops.end()) primes[n->var] = Prime(n->var);
  }
  VarSet free;
  for (const auto& [var, prime] : primes) free.insert(var);

  struct Equal {
    Expr x, y;  // of a, of b
  };
  std::vector<Equal> open;
  const std::vector<Expr>&at = IndicesOf(a), &theirs = IndicesOf(b);
  for (size_t d = 0; d < at.size(); ++d) open.push_back({at[d], Substitute(c_, theirs[d], rename)});
  VarSet same, joined;  // divisions and remainders that agree, and what they are digits of
  auto is_same = [&](Expr e) {
    for (const LinearTerm& t : ToLinear(c_, e).terms) {
      if (same.contains(t.atom)) continue;
      for (Expr v : VarsOf(t.atom)) {
        if (!free.contains(v)) continue;
        auto it = known.find(primes.at(v));
        if (it == known.end() || it->second != v) return false;
      }
    }
    return true;
  };
  // What is computed of nothing but values that agree agrees too.
  const std::function<bool(Expr)> agrees = [&](Expr e) {
    if (same.contains(e) || !Uses(e, free)) return true;
    return e->op != ExprOp::kVar && e->op != ExprOp::kLoad && std::all_of(e->args.begin(), e->args.end(), agrees);
  };
  bool changed = true, all_joined = false;
  for (int round = 0; changed && round < 9; ++round) {
    changed = false;
    bool settled = true;
    for (size_t k = 0; k < open.size(); ++k) {
      const Expr y = known.empty() ? open[k].y : a_.Simplify(Substitute(c_, open[k].y, known));
      Linear d = AddScaled(ToLinear(c_, open[k].x), ToLinear(c_, y), -1);
      for (bool found = d.exact; found && !d.terms.empty();) {
        found = false;
        for (const LinearTerm& t : d.terms) {
          if (!Uses(t.atom, free)) continue;
          const Expr other = Substitute(c_, t.atom, primes);
          const auto match =
              std::find_if(d.terms.begin(), d.terms.end(), [&](const LinearTerm& u) { return u.atom == other; });
          if (match == d.terms.end() || match->coef != -t.coef) continue;
          if (agrees(t.atom)) {
            const Expr atom = t.atom;
            RemoveTerm(d, atom);
            RemoveTerm(d, other);
            found = true;
            break;
          }
          // coef * scale * (x - x') + rest = 0, where |rest| < |coef| * scale: x = x' and rest = 0.
          std::vector<Expr> moving, scale;
          for (Expr e : FactorsOf(t.atom)) (Uses(e, free) ? moving : scale).push_back(e);
          if (moving.size() != 1) continue;
          Linear rest = d;
          RemoveTerm(rest, t.atom);
          RemoveTerm(rest, other);
          const WrapInt coef = t.coef < 0 ? -t.coef : t.coef;
          const Expr x = moving[0];
          int64_t distance = 0;
          if (rest.IsConst() && scale.empty() && rest.constant % coef == 0 && x->op == ExprOp::kVar) {
            distance = rest.constant / t.coef;  // x' = x + distance
            rest = Linear();
          } else {
            Expr step = c_.Int(coef);
            for (Expr e : scale) step = c_.Mul(step, e);
            const Expr r = FromLinear(c_, rest, DType::kI64);
            if (!a_.CanProve(c_.Lt(r, step)) || !a_.CanProve(c_.Lt(c_.Sub(c_.Int(0), step), r))) continue;
          }
          if (x->op == ExprOp::kVar) {
            known[primes.at(x)] = c_.Add(x, c_.Int(distance));
            changed = true;
          } else if ((x->op == ExprOp::kDiv || x->op == ExprOp::kMod) && same.insert(x).second) {
            changed = true;
          }
          d = std::move(rest);
          found = true;
          break;
        }
      }
      if (!d.exact) {
        settled = false;
        continue;
      }
      if (d.IsConst() ? d.constant != 0
                      : a_.CanProve(c_.Lt(FromLinear(c_, d, DType::kI64), c_.Int(0))) ||
                            a_.CanProve(c_.Lt(c_.Int(0), FromLinear(c_, d, DType::kI64)))) {
        return std::nullopt;
      }
      settled = settled && d.IsConst();
    }
    // Digits of one index in neighbouring dimensions: where these agree, so does what they make together. That says
    // nothing new where variables alone have settled each dimension.
    const auto join = [&](size_t first, size_t last) {
      const auto number = [&](const std::vector<Expr>& at, const VarMap& map) {
        Expr e = at[first];
        for (size_t d = first + 1; d <= last; ++d) e = c_.Add(c_.Mul(e, a.buffer->shape[d]), at[d]);
        return a_.Simplify(map.empty() ? e : Substitute(c_, e, map));
      };
      open.push_back({number(at, {}), number(theirs, rename)});
      changed = true;
    };
    const bool joins = a.buffer != nullptr && !(settled && same.empty());
    for (size_t d = 1; joins && round == 0 && d < at.size(); ++d) join(d - 1, d);
    // e / k and e % k agree: so does e, which may be a digit itself.
    std::vector<Equal> whole;
    for (Expr m : same) {
      const Expr other =
          m->op == ExprOp::kMod ? Quotient(a_, m->args[0], m->args[1]) : a_.Simplify(c_.Mod(m->args[0], m->args[1]));
      if (!is_same(other)) continue;
      if (!joined.insert(m->args[0]).second) continue;
      whole.push_back({m->args[0], Substitute(c_, m->args[0], primes)});
      changed = true;
    }
    for (const Equal& e : whole) {
      if (e.x->op == ExprOp::kDiv || e.x->op == ExprOp::kMod) same.insert(e.x);
    }
    open.insert(open.end(), whole.begin(), whole.end());
    // More dimensions than two take longer: once, where nothing else is left to find out.
    if (changed || !joins || std::exchange(all_joined, true)) continue;
    for (size_t first = 0; first + 2 < at.size(); ++first) {
      for (size_t last = first + 2; last < at.size(); ++last) join(first, last);
    }
  }
  return known;
}

}  // namespace cinn_like::ir
