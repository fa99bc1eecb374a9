// Which part of a dimension an index covers while some loops run and the others stand still.
#pragma once
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "ir/analyzer.h"

namespace cinn_like::ir {

// min .. min + extent.
struct Span {
  Expr min = nullptr;
  Expr extent = nullptr;
};

// The span of index `e` when each variable of `inner` runs over 0..its extent; nullopt where `e` is no sum of them,
// or one of these extents is out of memory or varies with another.
//   io * 8 + ii with ii in 0..8  ->  io * 8 .. + 8
std::optional<Span> SpanOf(Analyzer& a, Expr e, const absl::flat_hash_map<Expr, Expr>& inner);

// The same where `e` takes every value of the span:  io * 8 + ii does with ii in 0..8, io * 8 + ii * 2 does not.
std::optional<Span> DenseSpanOf(Analyzer& a, Expr e, const absl::flat_hash_map<Expr, Expr>& inner);

}  // namespace cinn_like::ir
