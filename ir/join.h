// A step of a reduction as a rule that joins any two partial results: what lets threads, blocks or kernels reduce apart
// and join what they found.
//
//   values:    m[i] + x[i, r], max(n[i], y[r])
//   running:   m[i], n[i]
//   elements:  x[i, r], y[r]
//   Joined(a, b): a0 + b0, max(a1, b1)
#pragma once
#include <optional>
#include <vector>

#include "ir/stmt.h"

namespace cinn_like::ir {

// What a block's init or body stores: all of it is computed before any is stored.
struct Stores {
  std::vector<Buffer> buffers;
  std::vector<std::vector<Expr>> indices;
  std::vector<Expr> values;
  std::vector<Expr> Running(Context& c) const;  // what the stores replace, as loads
};
std::optional<Stores> StoresOf(Context& c, const Stmt& s);  // nullopt: it is no such sequence

// Lets for these values behind `out`, and their variables; constants stay what they are.
std::vector<Expr> Named(Context& c, NameSupply& names, std::vector<Stmt>& out, const std::vector<Expr>& values);

// A step of a scan: lets, then stores of what runs, then of results, which lie where `along` says.
//   let v = s[i] + x[i, k]; s[i] = v; y[i, k] = f32(v)
struct ScanStep {
  std::vector<Expr> vars;  // v
  Stores running;          // whose values are in terms of no lets
  std::vector<Store> results;
};
std::optional<ScanStep> ScanStepOf(Context& c, const Stmt& body, const absl::flat_hash_set<Expr>& along);

// nullopt where `values` are no joins of the `running` values (loads) with elements: each value is one associative
// operator, or two chosen by `select` are the pair that comes first (ComesFirst).
struct Join {
  std::vector<Expr> values, running, elements;
  std::vector<Expr> Joined(Context& c, const std::vector<Expr>& a, const std::vector<Expr>& b) const;
};
std::optional<Join> FindJoin(Context& c, const std::vector<Expr>& values, const std::vector<Expr>& running);

// Conditions without any one of which `element`, which a reduction joins, is `neutral`, which changes nothing: those
// under which it is read, if that is 0, also of any factor, if `of_factors`: 0 times infinity is not 0.
//   x[i, k; a && b] * f32(w[k; c]), 0  ->  a, b, c
std::vector<Expr> ConditionsOf(Expr element, Expr neutral, bool of_factors = true);
// The operands of a tree of &&.
std::vector<Expr> ConjunctsOf(Expr e);

// Whether the pair (x, place) comes before the best so far: the largest x (or smallest), NaN before any number, of
// equals the lower place. In whatever order pairs are joined, and how often, the same is the first.
Expr ComesFirst(Context& c, bool largest, Expr x, Expr place, Expr best, Expr best_place);
// Whether values[k] and the value behind it are chosen by that, and if so whether the largest is.
std::optional<bool> ChoosesFirst(Context& c, const Join& join, size_t k);

}  // namespace cinn_like::ir
