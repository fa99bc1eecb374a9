// A function by what it computes: names of the function, its variables, buffers and blocks are replaced, so that
// kernels that differ in names alone have one text, one object and one cache entry.
//
//   func @softmax_3(x: f32[n], y: f32[n]) {...}  ->  func @f(v0: f32[v1], v2: f32[v1]) {...}
#pragma once
#include "ir/stmt.h"

namespace cinn_like {

// In a Context of its own, so another thread may compile it.
ir::Func CanonicalFunc(const ir::Func& func);

// `func` with the callees of its calls replaced; a name that the map lacks stays.
using CalleeNames = absl::flat_hash_map<std::string, std::string>;
ir::Func RenameCallees(ir::Func func, const CalleeNames& names);

}  // namespace cinn_like
