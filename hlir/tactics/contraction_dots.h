// Products on a CPU that sums a few of them in one instruction (ir/vector_nests.h): pairs of bf16 (`tensorize LOOP
// dot2_bf16`), fours of 8-bit integers (`tensorize LOOP dot4_i8`). The reduction is cut into such groups, and both
// operands are read a group at a time:
//   acc[i, j] += f32(x[i, k]) * f32(w[k, j])  ->  acc[i, j] += f32(x[i, 2 * q + e]) * f32(panel[q, j, e])
// A panel of the lanes' operand holds groups; where it is made, its elements change places in registers. The other
// operand is read where it lies, if a group's elements are next to each other there, else it is copied once, ahead of
// the tiles: for a matrix unit as its tiles, so that windows, in whose weights all places of a channel lie together,
// are products for each place (rows[place, step, i, 2 * q + e]). Of integers one operand is unsigned and the other
// signed: where both are the same, the rows' is copied as the other kind and what that adds is taken off again (the
// step `compensate`), by sums of each panel (`totals`).
#pragma once
#include <optional>
#include <string>

#include "hlir/tactics/contraction_plan.h"

namespace cinn_like::hlir {

// How `group` is to be summed: `flat` then speaks of groups, and steps were taken that make them. `copy_rows`: groups
// of the other operand are computed, or not next to each other. nullopt: there is no instruction for it, or the machine
// is not known to gain by it.
StatusOr<std::optional<DotProduct>> CutIntoDots(ir::Schedule& s, FlatContraction& flat, const Target& target,
                                                bool& copy_rows);
bool MayHaveDots(const ir::TeProgram& group, const Target& target);
// Whether that would be a matrix unit's.
bool MayHaveTiles(const ir::TeProgram& group, const Target& target);

}  // namespace cinn_like::hlir
