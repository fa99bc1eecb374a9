// A contraction that the target's matrix library would compute if its operands lay otherwise (attention heads inside of
// rows, the windows of a convolution) reads copies of them:
//
//   s[b, h, i, j] += q[b, i, h, d] * k[b, j, h, d]
//   ->  s_lhs[b, h, i, d] = q[b, i, h, d];  s_rhs[b, h, j, d] = k[b, j, h, d];  s[b, h, i, j] += s_lhs[...] *
//   s_rhs[...]
//
// Only as many operands are copied as needed, and only where that is predicted to be faster than no library.
#pragma once
#include <vector>

#include "cinn_like/base/target.h"
#include "ir/stmt.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// The copies, then what reads them in place of the last stage of `contraction`, which is its only one; nothing if it
// stays.
std::vector<ir::Stage> PackOperands(const ir::TeProgram& contraction, const Target& target, ir::NameSupply& names);

}  // namespace cinn_like::hlir
