#include "ir/schedule/region.h"

#include <algorithm>

#include "ir/linear.h"

namespace cinn_like::ir {

std::optional<Span> SpanOf(Analyzer& a, Expr e, const absl::flat_hash_map<Expr, Expr>& inner) {
  Context& c = a.context();
  Linear min, size = Constant(1);
  const Linear whole = ToLinear(c, e);
  if (!whole.exact) return std::nullopt;
  for (const LinearTerm& t : whole.terms) {
    std::vector<Expr> moving;
    for (Expr v : VarsOf(t.atom)) {
      if (inner.contains(v)) moving.push_back(v);
    }
    if (moving.empty()) {
      AddTerm(min, t.atom, t.coef);
      continue;
    }
    if (moving.size() > 1) return std::nullopt;
    // coef * (v * rest): rest is what the variable is multiplied by, if the atom is such a product at all.
    std::vector<Expr> rest = FactorsOf(t.atom);
    auto it = std::find(rest.begin(), rest.end(), moving[0]);
    if (it == rest.end()) return std::nullopt;
    rest.erase(it);
    Expr scale = rest.empty() ? c.Int(1) : MakeAtom(c, rest);
    if (Uses(scale, moving[0])) return std::nullopt;
    if (t.coef < 0 || !a.CanProve(c.Le(c.Int(0), scale))) return std::nullopt;
    // How far it runs must be known where the others stand still, too.
    const Expr extent = inner.at(moving[0]);
    const std::vector<Expr> of_extent = VarsOf(extent);
    if (extent->reads || std::any_of(of_extent.begin(), of_extent.end(), [&](Expr v) { return inner.contains(v); }))
      return std::nullopt;
    Expr reach = c.Mul(scale, c.Sub(extent, c.Int(1)));
    size = AddScaled(size, ToLinear(c, reach), t.coef);
  }
  min.constant = whole.constant;
  return Span{a.Simplify(FromLinear(c, min, DType::kI64)), a.Simplify(FromLinear(c, size, DType::kI64))};
}

std::optional<Span> DenseSpanOf(Analyzer& a, Expr e, const absl::flat_hash_map<Expr, Expr>& inner) {
  Context& c = a.context();
  // Terms from the smallest step: each step is at most as long as what those before it reach.
  std::vector<LinearTerm> terms;
  for (const LinearTerm& t : ToLinear(c, e).terms) {
    const std::vector<Expr> vars = VarsOf(t.atom);
    if (std::any_of(vars.begin(), vars.end(), [&](Expr v) { return inner.contains(v); })) terms.push_back(t);
  }
  Expr reach = c.Int(1);
  while (!terms.empty()) {
    bool found = false;
    for (size_t k = 0; k < terms.size() && !found; ++k) {
      std::vector<Expr> rest = FactorsOf(terms[k].atom);
      const auto var = std::find_if(rest.begin(), rest.end(), [&](Expr v) { return inner.contains(v); });
      if (var == rest.end()) return std::nullopt;
      const Expr extent = inner.at(*var);
      rest.erase(var);
      Expr step = c.Int(terms[k].coef);
      for (Expr f : rest) step = c.Mul(step, f);
      if (!a.CanProve(c.Le(step, reach))) continue;
      reach = a.Simplify(c.Add(reach, c.Mul(step, c.Sub(extent, c.Int(1)))));
      terms.erase(terms.begin() + static_cast<ptrdiff_t>(k));
      found = true;
    }
    if (!found) return std::nullopt;
  }
  return SpanOf(a, e, inner);
}

}  // namespace cinn_like::ir
