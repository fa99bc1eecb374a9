// Lines whose ends are computed otherwise than their middle: borders that are reflected, repeated or wrapped around,
// and parts that are joined. In the middle, what the ends ask of each element is known:
//   y[i] = x[min(max(i - 1, 0), 55)] over i in 0..58   ->   of 1..57, y[i] = x[i - 1]
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/te.h"

namespace cinn_like::hlir {

struct LineMiddle {
  int64_t front = 0, back = 0;  // elements before and after it
};

// Of the line along `iter`; nullopt where nothing is asked that costs more than a mask, or where the answers change in
// other places than near its ends.
std::optional<LineMiddle> FindLineMiddle(ir::Context& c, const ir::Stage& s, const ir::StageIter& iter,
                                         const std::vector<ir::SymbolFact>& symbols);

}  // namespace cinn_like::hlir
