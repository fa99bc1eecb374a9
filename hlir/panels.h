// Panels: the layout in which the CPU's contraction tactic reads a right-hand side fastest. Columns are cut into runs
// of a register tile's width, and the rows of a run lie behind each other:
//   b: [K, N]  ->  panels: [N / W, K, W]
// The pass pack_weights lays weights out so, ahead of calls; of other operands the tactic packs a panel at a time.
#pragma once
#include <cstdint>

#include "cinn_like/base/dtype.h"
#include "cinn_like/base/target.h"

namespace cinn_like::hlir {

struct PanelShape {
  int64_t lanes = 1, vectors = 1;  // of a vector, of a row of a panel
  int64_t width() const { return lanes * vectors; }
};

// Whether contractions that accumulate in `acc` are made of register tiles on `target`.
bool HasRegisterTiles(DType acc, const Target& target);

// The panels of `columns` columns; -1: not known when compiling.
PanelShape ChoosePanel(int64_t columns, DType acc, const Target& target);

}  // namespace cinn_like::hlir
