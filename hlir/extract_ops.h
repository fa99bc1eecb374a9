// Some ops of a graph as a graph of their own, for another device or to look at what they cost alone.
//
//   %0 = matmul(%x, %w)                 graph @part(n: i64, %v0: f32[n,4]) ... {
//   %1 = relu(%0)      {%1 -> %1}  ->     %0 = relu(%v0) : f32[n,4]
//                                         return %0 }
#pragma once
#include <string>
#include <vector>

#include "hlir/graph.h"

namespace cinn_like::hlir {

// Its parameters are all symbols, then what it reads of the whole: parameters as they are there, and other values.
struct ExtractedOps {
  Graph graph;
  std::vector<ValueId> reads, results;  // of the whole
};
// `ops` in order, `results` of them or of what the whole is given. Each is its own origin.
StatusOr<ExtractedOps> ExtractOps(const Graph& whole, const std::vector<int>& ops, const std::vector<ValueId>& results,
                                  const std::string& name);

}  // namespace cinn_like::hlir
