// How chain_gpu computes a chain of reductions between two contractions: the tiles, what a block keeps in its memory,
// and what that is predicted to take.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cinn_like/base/target.h"
#include "hlir/tactics/chain_roles.h"
#include "hlir/tactics/point.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// An operand of a contraction in memory of the block, or in registers; a stage of its own.
struct ChainPanel {
  std::string name;
  int64_t vector = 1;  // elements of one read
};

// Steps on stages are done, those on loops follow.
struct ChainGpuPlan {
  static constexpr int64_t kRows = 32;   // of a warp
  static constexpr int64_t kStages = 2;  // of the pipeline

  ir::Schedule schedule;
  Chain chain;
  ChainPanel lhs, rhs, weights, values;  // operands of the first contraction and of the second one
  int64_t warps = 1, keys_tile = 0;      // of a block: warps, keys of a tile
  int64_t features = 0;                  // a whole number of the matrix units' tiles
  double seconds = 0;

  int64_t rows() const { return warps * kRows; }  // of a block
  bool IsPanel(const std::string& name) const {
    return name == lhs.name || name == rhs.name || name == values.name || name == weights.name;
  }
};

// nullopt: the group is no such chain, or not for such a kernel.
StatusOr<std::optional<ChainGpuPlan>> PlanChainGpu(const ir::TeProgram& group, const Target& target, Point& point);

}  // namespace cinn_like::hlir
