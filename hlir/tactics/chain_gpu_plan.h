// How chain_gpu computes a chain of reductions between two contractions: the tiles, what a block keeps in its memory,
// and what that is predicted to take.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cinn_like/base/target.h"
#include "hlir/tactics/chain_roles.h"
#include "hlir/tactics/gpu_tiles.h"
#include "hlir/tactics/point.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// An operand of a contraction in memory of the block, or in registers; a stage of its own.
struct ChainPanel {
  std::string name;
  int64_t vector = 1;  // elements of one read
};

// What a block computes at a time.
struct ChainTiles {
  bool wgmma = false;  // by the matrix units of four warps, not by a warp's own
  int64_t warps = 1;   // or fours of them
  int64_t keys = 0;

  int64_t RowsEach() const { return wgmma ? 64 : 32; }  // of a warp, or of four
  int64_t Rows() const { return warps * RowsEach(); }
  // Threads of these along y.
  int64_t ThreadRows() const { return wgmma ? 4 * kWarpRows : kWarpRows; }
  // What sides of the products are a whole number of. Panels for units of four warps have rows of 128 bytes.
  int64_t Unit() const { return wgmma ? 64 : kMmaDepth; }
};

// Steps on stages are done, those on loops follow.
struct ChainGpuPlan {
  static constexpr int64_t kStages = 2;  // of the pipeline

  ir::Schedule schedule;
  Chain chain;
  ChainPanel lhs, rhs, weights, values;  // operands of the first contraction and of the second one
  ChainTiles tiles;
  int64_t features = 0;        // a whole number of the matrix units' tiles
  bool tensor_copies = false;  // a copy engine fills the keys' panels that are rectangles of their operands
  double seconds = 0;

  bool IsPanel(const std::string& name) const {
    return name == lhs.name || name == rhs.name || name == values.name || name == weights.name;
  }
};

// nullopt: the group is no such chain, or not for such a kernel.
StatusOr<std::optional<ChainGpuPlan>> PlanChainGpu(const ir::TeProgram& group, const Target& target, Point& point);

}  // namespace cinn_like::hlir
