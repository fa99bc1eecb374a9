// Which values of a graph prepare can compute: those that are the same between calls.
#pragma once
#include <vector>

#include "hlir/graph.h"

namespace cinn_like::hlir {

struct StaticFact {
  bool is_static = false;  // depends on static parameters and constants alone, and on no symbol
  bool has_param = false;  // on at least one parameter
};

// By value.
std::vector<StaticFact> FindStaticValues(const Graph& graph);

}  // namespace cinn_like::hlir
