// Whether what a function touches is known to lie in its buffers, dimension by dimension, whoever calls it:
//
//   y[vi] = x[vi + 1; vi < n - 1]   ->  ""
//   y[vi] = x[vi + 1]               ->  "block b reads x[vi + 1], not known to be within 0..n"
//
// Asked of loops before they are scheduled, where iterators say most; steps touch nothing else. What is not known can
// be asked at run time (ir/passes/check_bounds.h).
#pragma once
#include <string>

#include "ir/stmt.h"

namespace cinn_like::ir {

// The first access that is not known to stay in its buffer; empty: all are. Masks and conditions of ifs count.
std::string FindUnknownAccess(const Func& f);

}  // namespace cinn_like::ir
