// Products of bf16 on a CPU that sums pairs of them in one instruction (`tensorize LOOP dot2_bf16`, ir/vector_nests.h):
// the reduction is cut into pairs, and both operands are read a pair at a time:
//   acc[i, j] += f32(x[i, k]) * f32(w[k, j])  ->  acc[i, j] += f32(x[i, 2 * q + e]) * f32(panel[q, j, e])
// A panel of the lanes' operand holds pairs; where it is made, its elements change places in registers. The other
// operand is read where it lies, if pairs are next to each other there, else it is copied once, ahead of the tiles.
#pragma once
#include <optional>
#include <string>

#include "hlir/tactics/contraction_plan.h"

namespace cinn_like::hlir {

// How `group` is to be summed: `flat` then speaks of pairs, and steps were taken that make them. `copy_rows`: pairs of
// the other operand are computed, or not next to each other. nullopt: it is no
// product of bf16 in f32, or the machine is not known to gain by it.
StatusOr<std::optional<PairedProduct>> PairUp(ir::Schedule& s, FlatContraction& flat, const Target& target,
                                              bool& copy_rows);
bool MayPairUp(const ir::TeProgram& group, const Target& target);

}  // namespace cinn_like::hlir
