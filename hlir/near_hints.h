// Several kernels of a group whose sizes are symbolic, where that pays: one for sizes about as large as their hints,
// which is what calls are expected to have, one for sizes a few times as large, and one for all others. The first ones
// know bounds, and divisors, that the last does not: their rows lie in registers, their accesses are 16 bytes wide,
// their tiles are of few rows.
//
//   @g_k0 where n in 2..1000000 hint 128   ->   if n <= 128 && n % 4 == 0 { call @g_k0_near(...) }
//                                               else if n <= 1024 { call @g_k0_near2(...) } else { call @g_k0(...) }
#pragma once
#include <vector>

#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// What is known of the group's symbols where they are near their hints: no larger than the next power of two, and
// multiples of the powers of two, up to what 16 bytes hold, that their hints are multiples of. On hosts they are
// bounded alone: their loops are cut into whole vectors and a rest when they run.
std::vector<ir::SymbolFact> NearHints(const ir::TeProgram& group, const Target& target);

// What is known of the group's symbols in each of its kernels.
struct KernelForms {
  // The nearest first, none where that is predicted to gain little. No more is known than what makes it about as fast.
  std::vector<std::vector<ir::SymbolFact>> near;
  std::vector<ir::SymbolFact> all;  // their hints are beyond the bounds of `near`
};
KernelForms FormsOf(const ir::TeProgram& group, const Target& target);

// What holds of the symbols `near` that does not of those of `group`, which are in the same order, about `values`.
ir::Expr IsNear(ir::Context& c, const ir::TeProgram& group, const std::vector<ir::SymbolFact>& near,
                const std::vector<ir::Expr>& values);

}  // namespace cinn_like::hlir
