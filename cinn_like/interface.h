// What a call of a compiled function takes and gives, also as JSON for whoever calls it from another language.
#pragma once
#include <string>
#include <vector>

#include "cinn_like/base/dtype.h"
#include "hlir/graph.h"

namespace cinn_like {

struct CallSignature {
  struct Value {
    std::string name;  // of a graph's result: none
    bool is_symbol = false;
    DType dtype = DType::kI64;
    std::vector<std::string> shape = {};  // "n * 2", "256"
    bool is_static = false;
  };
  std::string name;
  std::vector<Value> params, results;
  std::vector<std::string> symbols;
};

CallSignature SignatureOf(const hlir::Graph& graph);

// "@scale(x: f32[n], m) -> f32[n]": for people.
std::string Describe(const CallSignature& signature);

// "name": ..., "params": [{"name", "dtype", "shape": ["n",256], "static": bool} or {"name", "symbol": true}],
// "results": [{"dtype", "shape"}], "symbols": [...]: the members of an object. `statics`: whether it takes those.
std::string InterfaceJson(const CallSignature& signature, bool statics);

}  // namespace cinn_like
