// Two kernels of a group whose sizes are symbolic, where that pays: one for sizes about as large as their hints, which
// is what calls are expected to have, and one for all others. The first knows bounds and divisors that the second does
// not: its rows lie in registers, its accesses are 16 bytes wide.
//
//   @g_k0 where n in 2..1000000 hint 128   ->   if n <= 128 && n % 4 == 0 { call @g_k0_near(...) } else { call
//   @g_k0(...) }
#pragma once
#include <optional>
#include <vector>

#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// What is known of the group's symbols where they are near their hints: no larger than the next power of two, and
// multiples of the powers of two, up to what 16 bytes hold, that their hints are multiples of. On hosts they are
// bounded alone: their loops are cut into whole vectors and a rest when they run.
std::vector<ir::SymbolFact> NearHints(const ir::TeProgram& group, const Target& target);

// The same with no more known than what makes the group about as fast; nullopt where that is predicted to gain little.
std::optional<std::vector<ir::SymbolFact>> NearHintsIfFaster(const ir::TeProgram& group, const Target& target);

// What holds of the symbols `near` that does not of those of `group`, which are in the same order, about `values`.
ir::Expr IsNear(ir::Context& c, const ir::TeProgram& group, const std::vector<ir::SymbolFact>& near,
                const std::vector<ir::Expr>& values);

}  // namespace cinn_like::hlir
