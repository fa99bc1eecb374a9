#include "hlir/near_hints.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "cinn_like/base/powers_of_two.h"
#include "hlir/tactics/tactic.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: expressions are all there is here

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr size_t kMostNear = 2;  // kernels beside the one for all sizes
constexpr double kGain = 1.1;    // another kernel costs its compilation
constexpr double kSame = 1.1;    // a promise less serves more sizes

// `fact` with a bound and a divisor besides.
SymbolFact Narrowed(SymbolFact fact, int64_t most, int64_t divisor) {
  fact.divisor = std::lcm(fact.divisor, divisor);
  fact.hi = std::min(fact.hi, most) / fact.divisor * fact.divisor;
  fact.lo = (fact.lo + fact.divisor - 1) / fact.divisor * fact.divisor;
  return fact;
}

bool IsBounded(const SymbolFact& all, const SymbolFact& near) { return near.hi < all.hi / near.divisor * near.divisor; }

// `near` of the symbols of `group` with no more known than what makes the group about as fast; nullopt where that is
// predicted to gain little.
std::optional<std::vector<SymbolFact>> IfFaster(const TeProgram& group, std::vector<SymbolFact> facts,
                                                const Target& target) {
  TeProgram near = group;
  near.symbols = std::move(facts);
  const auto is_near = [&](size_t i) {
    return near.symbols[i].hi < group.symbols[i].hi || near.symbols[i].divisor > group.symbols[i].divisor;
  };
  bool any = false;
  for (size_t i = 0; i < near.symbols.size(); ++i) any |= is_near(i);
  if (!any) return std::nullopt;
  const auto seconds = [&](const TeProgram& g) { return CollectBids(g, target).seconds(); };
  const double least = seconds(near);
  if (least * kGain > seconds(group)) return std::nullopt;
  // What is about as fast without a promise goes without it.
  for (size_t i = 0; i < near.symbols.size(); ++i) {
    if (!is_near(i)) continue;
    const SymbolFact& all = group.symbols[i];
    const int64_t most = PowerOfTwoAbove(all.hint), divisor = near.symbols[i].divisor;
    for (const SymbolFact& f : {all, Narrowed(all, all.hi, divisor), Narrowed(all, most, 1)}) {
      const SymbolFact kept = std::exchange(near.symbols[i], f);
      if (seconds(near) <= kSame * least) break;
      near.symbols[i] = kept;
    }
  }
  return near.symbols;
}

}  // namespace

std::vector<SymbolFact> NearHints(const TeProgram& group, const Target& target) {
  int64_t elements = 1;  // of the narrowest, in 16 bytes
  for (const Param& p : group.params) {
    if (target.HasKernels() && p.buffer != nullptr && p.buffer->dtype != DType::kBool)
      elements = std::max(elements, kAccessBytes / BytesOf(p.buffer->dtype));
  }
  std::vector<SymbolFact> near = group.symbols;
  for (SymbolFact& f : near) {
    if (f.hint >= std::max<int64_t>(f.lo, 1) && f.hint <= f.hi)
      f = Narrowed(f, PowerOfTwoAbove(f.hint), std::gcd(f.hint, elements));
  }
  return near;
}

KernelForms FormsOf(const TeProgram& group, const Target& target) {
  KernelForms r{{}, group.symbols};
  TeProgram all = group;
  for (size_t form = 0; form < kMostNear; ++form) {
    std::vector<SymbolFact> near = NearHints(all, target);
    for (size_t i = 0; form > 0 && i < near.size(); ++i) {
      // Farther from the hint nothing is known of divisors, and what is not bounded near it need not be.
      const SymbolFact& f = all.symbols[i];
      near[i] = IsBounded(f, r.near[0][i]) ? Narrowed(f, PowerOfTwoAbove(f.hint), 1) : f;
    }
    std::optional<std::vector<SymbolFact>> faster = IfFaster(all, std::move(near), target);
    if (!faster) break;
    bool is_bounded = false;
    for (size_t i = 0; i < faster->size(); ++i) {
      SymbolFact& f = all.symbols[i];
      if (!IsBounded(f, (*faster)[i])) continue;
      is_bounded = true;
      f.hint = f.hint > f.hi / kFartherBy ? f.hi : f.hint * kFartherBy;
    }
    r.near.push_back(*std::move(faster));
    if (!is_bounded) break;
  }
  r.all = all.symbols;
  return r;
}

Expr IsNear(Context& c, const TeProgram& group, const std::vector<SymbolFact>& near, const std::vector<Expr>& values) {
  Expr r = c.Bool(true);
  for (size_t i = 0; i < near.size(); ++i) {
    const SymbolFact &all = group.symbols[i], &f = near[i];
    if (IsBounded(all, f)) r = c.And(r, c.Le(values[i], c.Int(f.hi)));
    if (f.divisor != all.divisor) r = c.And(r, c.Eq(c.Mod(values[i], c.Int(f.divisor)), c.Int(0)));
  }
  return r;
}

}  // namespace cinn_like::hlir
