// What a graph's function takes and gives, as JSON, for whoever calls it from another language.
#pragma once
#include <string>

#include "hlir/graph.h"

namespace cinn_like {

// "name": ..., "params": [{"name", "dtype", "shape": ["n",256], "static": bool} or {"name", "symbol": true}],
// "results": [{"dtype", "shape"}], "symbols": [...]: the members of an object. `statics`: whether it takes those.
std::string InterfaceJson(const hlir::Graph& graph, bool statics);

}  // namespace cinn_like
