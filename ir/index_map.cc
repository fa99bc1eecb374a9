#include "ir/index_map.h"

#include <algorithm>

#include "ir/analyzer.h"
#include "ir/linear.h"

namespace cinn_like::ir {

std::optional<std::vector<Expr>> InvertIndexMap(Context& c, const std::vector<StageIter>& iters,
                                                const std::vector<Expr>& map, const std::vector<Expr>& shape,
                                                const std::vector<Expr>& at) {
  absl::flat_hash_map<Expr, Expr> value;
  absl::flat_hash_map<Expr, Expr> extent;
  for (const StageIter& i : iters) extent[i.var] = i.extent;
  Analyzer a(c);
  for (size_t d = 0; d < map.size(); ++d) {
    const Linear l = ToLinear(c, a.Simplify(map[d]));
    if (l.constant != 0 || !l.exact) return std::nullopt;
    // Each term is weight * iterator.
    std::vector<std::pair<Expr, Expr>> digits;  // iterator, weight
    for (const LinearTerm& t : l.terms) {
      std::vector<Expr> factors = FactorsOf(t.atom);
      auto it = std::find_if(factors.begin(), factors.end(), [&](Expr e) { return extent.contains(e); });
      if (it == factors.end()) return std::nullopt;
      const Expr var = *it;
      factors.erase(it);
      for (Expr e : factors) {
        for (Expr v : VarsOf(e)) {
          if (extent.contains(v)) return std::nullopt;
        }
      }
      const Expr rest = factors.empty() ? c.Int(1) : MakeAtom(c, factors);
      digits.emplace_back(var, a.Simplify(c.Mul(rest, c.Int(t.coef))));
    }
    Expr weight = c.Int(1);
    size_t used = 0;
    while (used < digits.size()) {
      auto it = std::find_if(digits.begin(), digits.end(),
                             [&](const auto& x) { return x.first != nullptr && x.second == weight; });
      if (it == digits.end() || value.contains(it->first)) return std::nullopt;
      const Expr next = a.Simplify(c.Mul(weight, extent[it->first]));
      const Expr above = c.Div(at[d], weight);
      ++used;
      value[it->first] = used == digits.size() ? above : c.Mod(above, extent[it->first]);
      it->first = nullptr;
      weight = next;
    }
    if (!a.CanProve(c.Eq(weight, shape[d]))) return std::nullopt;
  }
  std::vector<Expr> r;
  for (const StageIter& i : iters) {
    auto it = value.find(i.var);
    if (it != value.end())
      r.push_back(it->second);
    else if (IsInt(i.extent, 1))
      r.push_back(c.Int(0));
    else
      return std::nullopt;
  }
  return r;
}

}  // namespace cinn_like::ir
