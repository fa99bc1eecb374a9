// A product of sizes that the matrix units are not fed from (a vocabulary of 50257 words) is computed by the target's
// library at a part of its speed. Where copies cost less, it reads operands whose rows are padded with zeros to 16
// bytes, and its result is padded, too; readers never look there:
//
//   y[i, j] += h[i, k] * w[j, k], j in 0..50257
//   ->  w_pad[j, k] = w[j, k; j < 50257], j in 0..50264;  y_pad[i, j] += h[i, k] * w_pad[j, k], j in 0..50264
//
// Products that read the same tensor share its copy. A rounding that alone reads the sums is padded with them.
#pragma once
#include <vector>

#include "cinn_like/base/target.h"
#include "ir/stmt.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// The program's stages, with the products for which it pays on `target` padded.
std::vector<ir::Stage> PadProducts(const ir::TeProgram& program, const Target& target, ir::NameSupply& names);

}  // namespace cinn_like::hlir
