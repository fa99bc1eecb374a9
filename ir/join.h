// A step of a reduction as a rule that joins any two partial results: what lets threads, blocks or kernels reduce apart
// and join what they found.
//
//   values:    select(x[i, r] > best[i], x[i, r], best[i]), select(x[i, r] > best[i], r, at[i])
//   running:   best[i], at[i]
//   elements:  x[i, r], r
//   Joined(a, b): select(b0 > a0, b0, a0), select(b0 > a0, b1, a1)
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

// nullopt where `values` are no joins of the `running` values (loads) with elements: each value is one associative
// operator, or chooses by `select` between the running value and the element. A reduction's steps may run in any order
// (te.h), so a choice is taken to be a good join wherever elements and running values are all that it reads.
struct Join {
  std::vector<Expr> values, running, elements;
  std::vector<Expr> Joined(Context& c, const std::vector<Expr>& a, const std::vector<Expr>& b) const;
};
std::optional<Join> FindJoin(Context& c, const std::vector<Expr>& values, const std::vector<Expr>& running);

// Whether the pair (x, place) comes before the best so far: the largest x (or smallest), NaN before any number, of
// equals the lower place.
Expr ComesFirst(Context& c, bool largest, Expr x, Expr place, Expr best, Expr best_place);

}  // namespace cinn_like::ir
