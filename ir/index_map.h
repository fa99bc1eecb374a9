// Maps of mixed-radix form from iterators to a tensor's indices, and their inverses.
#pragma once
#include <optional>
#include <vector>

#include "ir/analyzer.h"
#include "ir/te.h"

namespace cinn_like::ir {

// For each dimension k of a tensor that is read at index exprs `map` (in terms of `iters`), if the map is a bijection
// of mixed-radix form, e.g. (b * S + s, h * 32 + d): the values of `iters` at a given element `at`: b = at0 / S, s =
// at0 % S, h = at1 / 32, d = at1 % 32; or the other way, (r / S, r % S): r = at0 * S + at1. nullopt: not of that form.
// `a` has the facts of symbols.
std::optional<std::vector<Expr>> InvertIndexMap(Analyzer& a, const std::vector<StageIter>& iters,
                                                const std::vector<Expr>& map, const std::vector<Expr>& shape,
                                                const std::vector<Expr>& at);

}  // namespace cinn_like::ir
