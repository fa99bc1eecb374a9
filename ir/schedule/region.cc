#include "ir/schedule/region.h"

#include <algorithm>

#include "ir/linear.h"

namespace cinn_like::ir {

std::optional<Span> SpanOf(Analyzer& a, Expr e, const absl::flat_hash_map<Expr, Expr>& inner) {
  Context& c = a.context();
  Linear min, size;
  size.constant = 1;
  for (const LinearTerm& t : ToLinear(c, e).terms) {
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
    Expr reach = c.Mul(scale, c.Sub(inner.at(moving[0]), c.Int(1)));
    size = AddScaled(size, ToLinear(c, reach), t.coef);
  }
  min.constant = ToLinear(c, e).constant;
  return Span{a.Simplify(FromLinear(c, min, DType::kI64)), a.Simplify(FromLinear(c, size, DType::kI64))};
}

}  // namespace cinn_like::ir
