// Quotients and remainders of integers: what Analyzer::Simplify makes of them, and of the digits that they are.
#include <algorithm>

#include "ir/analyzer.h"
#include "ir/divisors.h"

namespace cinn_like::ir {

// Whether `l` is a multiple of c, as x % m * k is as far from one as x * k where c divides m * k.
bool Analyzer::IsMultipleOf(Linear l, int64_t c, DType t) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto [atom, coef] : l.terms) {
      if (coef % c == 0 || atom->op != ExprOp::kMod || !IsInt(atom->args[1])) continue;
      const Linear of = LinearOf(atom->args[0]);
      if (!l.exact || coef * atom->args[1]->int_value % c != 0 || !CannotWrap(of, t)) continue;
      RemoveTerm(l, atom);
      l = AddScaled(std::move(l), of, coef);
      changed = true;
      break;
    }
  }
  return l.exact && l.constant % c == 0 &&
         std::all_of(l.terms.begin(), l.terms.end(), [&](const LinearTerm& x) { return x.coef % c == 0; });
}

// x / c * c + x % c -> x, whatever both are multiplied by, and x / c * c -> x where c divides x. A digit's x may be a
// quotient that is no quotient any more, (8 * y + z) / 8 = y + z / 8, where that of the digits before it is,
// (8 * y + z) / (8 * c), and the remainder's may be another number that leaves as much,
// x % 98 / 14 * 14 + x % 14 = x % 98.
Linear Analyzer::Recombine(Linear l, DType t) {
  auto find = [&](Expr atom) {
    return std::find_if(l.terms.begin(), l.terms.end(), [&](const LinearTerm& x) { return x.atom == atom; });
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (const LinearTerm& term : l.terms) {
      const auto [atom, coef] = term;
      if (atom->op == ExprOp::kDiv && IsInt(atom->args[1]) && atom->args[1]->int_value > 0 &&
          coef % atom->args[1]->int_value == 0 && KnownDivisor(atom->args[0]) % atom->args[1]->int_value == 0) {
        RemoveTerm(l, atom);
        l = AddScaled(std::move(l), LinearOf(atom->args[0]), coef / atom->args[1]->int_value);
        changed = true;
        break;
      }
      if (atom->op != ExprOp::kMod && atom->op != ExprOp::kMul) continue;
      // Of a product, x % c is any factor.
      std::vector<Expr> others = FactorsOf(atom);
      const auto mod = std::find_if(others.begin(), others.end(), [](Expr f) { return f->op == ExprOp::kMod; });
      if (mod == others.end()) continue;
      Expr x = (*mod)->args[0], divisor = (*mod)->args[1];
      others.erase(mod);
      const auto times_others = [&](const Linear& y) {
        return others.empty() ? y : Multiply(c_, y, {{{MakeAtom(c_, others), 1}}, 0}, t);
      };
      const Linear quotient = LinearOf(Opaque(ExprOp::kDiv, LinearOf(x), divisor, t));
      const Linear whole = Scale(times_others(Multiply(c_, quotient, LinearOf(divisor), t)), coef);
      Linear of = LinearOf(x);  // what the two are digits of
      const auto is_quotient = [&](const LinearTerm& y) {
        const auto& args = y.atom->args;
        if (y.atom->op != ExprOp::kDiv || !IsInt(divisor) || !IsInt(args[1]) || !whole.exact) return false;
        const int64_t c = divisor->int_value, b = args[1]->int_value;
        if (c <= 1 || b < c || b % c != 0 || y.coef != WrapInt(coef) * c) return false;
        Linear q = DivMod(LinearOf(args[0]), b / c, /*is_mod=*/false, t);
        if (b > c && FromLinear(c_, q, t) == x) return true;
        const Linear mine = LinearOf(x);
        if (!CannotWrap(mine, t) || !CannotWrap(q, t) || !IsMultipleOf(AddScaled(mine, q, -1), c, t)) return false;
        of = std::move(q);
        return true;
      };
      const bool is_there = whole.exact && !whole.IsConst() && whole.constant == 0 &&
                            std::all_of(whole.terms.begin(), whole.terms.end(), [&](const LinearTerm& w) {
                              const auto it = find(w.atom);
                              return it != l.terms.end() && it->coef == w.coef;
                            });
      std::vector<Expr> partners;
      if (is_there) {
        for (const LinearTerm& w : whole.terms) partners.push_back(w.atom);
      } else if (others.empty()) {
        const auto partner = std::find_if(l.terms.begin(), l.terms.end(), is_quotient);
        if (partner != l.terms.end()) partners.push_back(partner->atom);
      }
      if (partners.empty()) continue;
      const Expr done = atom;
      const WrapInt times = coef;
      RemoveTerm(l, done);
      for (Expr p : partners) RemoveTerm(l, p);
      l = AddScaled(std::move(l), times_others(of), times);
      changed = true;
      break;
    }
  }
  return l;
}

Expr Analyzer::Opaque(ExprOp op, const Linear& a, Expr b, DType t) {
  return Rules(c_.Make(op, {FromLinear(c_, a, t), b}));
}

bool Analyzer::DivideLinear(const Linear& a, Expr b, bool is_mod, DType t, Linear* out) {
  if (IsInt(b)) {
    if (b->int_value <= 0) return false;
    *out = DivMod(a, b->int_value, is_mod, t);
    return true;
  }
  const Linear lb = LinearOf(b);
  if (lb.terms.size() != 1 || lb.constant != 0 || lb.terms[0].coef < 0 || t != DType::kI64 || IsData(b) ||
      ConstBounds(b).lo <= 0)
    return false;
  const int64_t scale = lb.terms[0].coef;
  Expr divisor = lb.terms[0].atom;
  const std::vector<Expr> factors = FactorsOf(divisor);
  Linear quotient, rest;
  rest.constant = a.constant;
  for (const LinearTerm& x : a.terms) {
    std::vector<Expr> all = FactorsOf(x.atom);
    bool divides = x.coef % scale == 0;
    for (Expr f : factors) {
      auto it = std::find(all.begin(), all.end(), f);
      divides = divides && it != all.end();
      if (it != all.end()) all.erase(it);
    }
    if (!divides) {
      AddTerm(rest, x.atom, x.coef);
    } else if (all.empty()) {
      AddConstant(quotient, x.coef / scale);
    } else {
      AddTerm(quotient, MakeAtom(c_, all), x.coef / scale);
    }
  }
  if (ProveAtLeast(rest, 0) && ProveAtLeast(AddScaled(lb, rest, -1), 1)) {
    *out = is_mod ? rest : quotient;
    return true;
  }
  if (BoundsOf(rest).hi < 0 && ProveAtLeast(AddScaled(lb, rest, 1), 0)) {  // of the period before
    AddConstant(quotient, -1);
    *out = is_mod ? AddScaled(lb, rest, 1) : quotient;
    return true;
  }
  // x / (s * d) = (x / s) / d and x % (s * d) = (x / s % d) * s + x % s.
  Linear low;
  if (scale > 1) {
    if (is_mod) low = DivMod(rest, scale, /*is_mod=*/true, t);
    rest = DivMod(rest, scale, /*is_mod=*/false, t);
  }
  if (rest.IsConst() && rest.constant == 0) {
    *out = is_mod ? low : quotient;
    return true;
  }
  const Linear inner = LinearOf(Opaque(is_mod ? ExprOp::kMod : ExprOp::kDiv, rest, divisor, t));
  *out = is_mod ? AddScaled(low, inner, scale) : AddScaled(quotient, inner, 1);
  return true;
}

Linear Analyzer::DivMod(const Linear& a, int64_t b, bool is_mod, DType t) {
  if (b == 1) return is_mod ? Linear{} : a;
  // x % b = x - x / b * b, where x is then no term any more: (x - x % b) / b = x / b.
  for (const LinearTerm& m : a.terms) {
    if (m.atom->op != ExprOp::kMod || !IsInt(m.atom->args[1], b) || m.atom->type.dtype != t) continue;
    const auto count = [b](const Linear& l) {
      return std::count_if(l.terms.begin(), l.terms.end(), [b](const LinearTerm& x) { return x.coef % b != 0; });
    };
    const Linear x = LinearOf(m.atom->args[0]);
    Linear without = a;
    RemoveTerm(without, m.atom);
    without = AddScaled(std::move(without), x, m.coef);
    if (!without.exact || !CannotWrap(x, t) || count(without) + 1 > count(a)) continue;
    Linear r = DivMod(without, b, is_mod, t);
    return is_mod ? r : AddScaled(std::move(r), DivMod(x, b, /*is_mod=*/false, t), -m.coef);
  }
  // c * (x % m) % b = c * x % b where b divides c * m.
  for (const LinearTerm& m : a.terms) {
    if (!is_mod || m.atom->op != ExprOp::kMod || !IsInt(m.atom->args[1]) || m.atom->type.dtype != t) continue;
    constexpr int64_t kMost = 1 << 30;  // the product of two such remainders is a number
    const int64_t coef = FloorMod(m.coef, b), modulus = FloorMod(m.atom->args[1]->int_value, b);
    if (b > kMost || coef == 0 || coef * modulus % b != 0) continue;
    Linear without = a;
    RemoveTerm(without, m.atom);
    without = AddScaled(std::move(without), LinearOf(m.atom->args[0]), m.coef);
    if (without.exact && CannotWrap(without, t)) return DivMod(without, b, is_mod, t);
  }
  Linear quotient = Constant(FloorDiv(a.constant, b)), rest = Constant(FloorMod(a.constant, b));
  for (const LinearTerm& x : a.terms) {
    if (x.coef % b == 0) {
      AddTerm(quotient, x.atom, x.coef / b);
      continue;
    }
    const int64_t g = Gcd(x.coef, b);
    if (KnownDivisor(x.atom) % (b / g) == 0) {
      if (!is_mod) {
        Linear exact = LinearOf(Opaque(ExprOp::kDiv, {{{x.atom, 1}}, 0}, c_.Int(b / g, t), t));
        quotient = AddScaled(std::move(quotient), exact, x.coef / g);
      }
      continue;
    }
    AddTerm(rest, x.atom, x.coef);
  }
  auto whole = [&](int64_t k) {
    if (is_mod) {
      AddConstant(rest, -WrapInt(k) * b);
      return rest;
    }
    AddConstant(quotient, k);
    return quotient;
  };
  if (!CannotWrap(rest, t)) {
    Linear opaque = LinearOf(c_.Make(is_mod ? ExprOp::kMod : ExprOp::kDiv, {FromLinear(c_, a, t), c_.Int(b, t)}));
    return opaque;
  }
  if (rest.IsConst()) return whole(0);
  const Bounds bounds = BoundsOf(rest);
  if (bounds.IsKnown() && FloorDiv(bounds.lo, b) == FloorDiv(bounds.hi, b)) {
    return whole(FloorDiv(bounds.lo, b));
  }
  if (rest.terms.size() > 1 && ProveAtLeast(rest, 0) && ProveAtLeast(AddScaled(Constant(b - 1), rest, -1), 0))
    return whole(0);

  // rest = g * high + low with 0 <= low < g and g dividing b: the digits of a mixed-radix number.
  std::vector<int64_t> divisors;
  for (const LinearTerm& x : rest.terms) divisors.push_back(Gcd(x.coef, b));
  for (int64_t g : Candidates(divisors)) {
    Linear high, low;
    high.constant = FloorDiv(rest.constant, g);
    low.constant = FloorMod(rest.constant, g);
    for (const LinearTerm& x : rest.terms) {
      if (x.coef % g == 0) {
        AddTerm(high, x.atom, x.coef / g);
      } else {
        AddTerm(low, x.atom, x.coef);
      }
    }
    const Bounds r = BoundsOf(low);
    if (r.lo < 0 || r.hi >= g || !CannotWrap(high, t)) continue;
    Linear digit = DivMod(high, b / g, is_mod, t);
    return is_mod ? AddScaled(std::move(low), digit, g) : AddScaled(std::move(quotient), digit, 1);
  }
  const Linear inner = LinearOf(Opaque(is_mod ? ExprOp::kMod : ExprOp::kDiv, rest, c_.Int(b, t), t));
  return is_mod ? inner : AddScaled(std::move(quotient), inner, 1);
}

}  // namespace cinn_like::ir
