#include "ir/index_map.h"

#include <algorithm>

#include "ir/linear.h"

namespace cinn_like::ir {

namespace {

// A dimension that holds one digit of an iterator: var / weight % radix.
struct Digit {
  size_t dim;
  Expr weight;
};

// Iterators of which each dimension holds one digit go from `digits` to `value`; false if some digits don't fit
// together.
bool JoinDigits(Analyzer& a, const absl::flat_hash_map<Expr, Expr>& extent,
                const absl::flat_hash_map<Expr, std::vector<Digit>>& digits, const std::vector<Expr>& shape,
                const std::vector<Expr>& at, absl::flat_hash_map<Expr, Expr>& value) {
  Context& c = a.context();
  for (const auto& [var, parts] : digits) {
    Expr weight = c.Int(1), sum = c.Int(0);
    for (size_t used = 0; used < parts.size(); ++used) {
      const auto next = std::find_if(parts.begin(), parts.end(), [&](const Digit& d) { return d.weight == weight; });
      if (next == parts.end() || IsInt(shape[next->dim], 0)) return false;
      sum = c.Add(c.Mul(at[next->dim], weight), sum);
      weight = a.Simplify(c.Mul(weight, shape[next->dim]));
    }
    if (!a.CanProve(c.Eq(weight, extent.at(var)))) return false;
    value[var] = a.Simplify(sum);
  }
  return true;
}

}  // namespace

std::optional<std::vector<Expr>> InvertIndexMap(Analyzer& a, const std::vector<StageIter>& iters,
                                                const std::vector<Expr>& map, const std::vector<Expr>& shape,
                                                const std::vector<Expr>& at) {
  Context& c = a.context();
  absl::flat_hash_map<Expr, Expr> value;
  absl::flat_hash_map<Expr, Expr> extent;
  for (const StageIter& i : iters) extent[i.var] = i.extent;
  absl::flat_hash_map<Expr, std::vector<Digit>> cut;
  std::vector<bool> is_digit(map.size(), false);
  for (size_t d = 0; d < map.size(); ++d) {
    Expr e = map[d];
    // The highest digit needs no remainder; of the others it is the dimension's own extent.
    if (e->op == ExprOp::kMod && a.CanProve(c.Eq(e->args[1], shape[d]))) e = e->args[0];
    const bool divides = e->op == ExprOp::kDiv;
    const Expr var = divides ? e->args[0] : e;
    if (e == map[d] && !divides) continue;
    if (!extent.contains(var)) continue;
    cut[var].push_back({d, divides ? a.Simplify(e->args[1]) : c.Int(1)});
    is_digit[d] = true;
  }
  if (!JoinDigits(a, extent, cut, shape, at, value)) return std::nullopt;
  for (size_t d = 0; d < map.size(); ++d) {
    if (is_digit[d]) continue;
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
