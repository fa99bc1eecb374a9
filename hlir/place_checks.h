// Where the range checks of a program are made.
//
// Kernels of a device that can say that an index is out of range (DeviceKind::kernels_assert) check what they read:
//   idx[i] = given[i]  ->  idx[i] = checked("op 0, check_index: index out of range", given[i], 0, n)
// as long as every element is read so by what some result needs, through slices, masks and other indices if need be.
// Else such a stage of its own is computed beside the rest (TeProgram::kept), whose result nobody reads.
//
// For other devices the lowest and the highest number are computed, and a function of the program compares them
// (TeProgram::checks).
#pragma once
#include <string>

#include "absl/container/flat_hash_set.h"
#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// Those with a text of `apart` are made beside the rest.
ir::TeProgram PlaceChecks(ir::TeProgram program, const Target& target, const absl::flat_hash_set<std::string>& apart);

// The texts of what the stages check.
absl::flat_hash_set<std::string> ChecksOf(const ir::TeProgram& program);

// Internal where what the stages of a kernel check is not checked by the lowered kernel.
Status CheckIsLowered(const ir::TeProgram& group, const ir::Module& kernel);

}  // namespace cinn_like::hlir
