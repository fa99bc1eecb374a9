// A graph's head as people read it: name, parameters, symbols, and what it gives.
#pragma once
#include <string>

#include "hlir/graph.h"

namespace cinn_like::hlir {

// "@mlp(%x: f32[n,256], %w: f32[256,512] static) where n in 1..4096 -> f32[n,512]"; without `statics`:
// "@mlp(%x: f32[n,256]) where n in 1..4096 -> f32[n,512]".
std::string Signature(const Graph& graph, bool statics);

}  // namespace cinn_like::hlir
