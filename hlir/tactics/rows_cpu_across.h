// Tiles of what lies across rows on a CPU.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hlir/tactics/row_nests.h"

namespace cinn_like::hlir {

// The reduced dimension along which an access of a stage, an element at `offset`, is contiguous where neighbouring
// rows, along `vector`, lie apart, and both sides are long enough to be turned; -1: none.
int DimAcross(const RowNests& r, size_t stage, ir::Expr offset, int vector);

struct TilesAcross {
  // What a stage is beside the one that computes: of what that one reads, lines as they lie in memory and the same
  // turned; of its result, turned back and written.
  enum class Part { kMain, kLines, kTurned, kTurnedBack, kWritten };
  struct Role {
    Part part;
    std::string main;  // the stage that computes
    int dim;           // along which lines lie
  };
  std::map<std::string, Role> stages;
  std::vector<std::string> buffers, layouts;  // tiles, and arguments of transform_layout
  const Role* RoleOf(const std::string& stage) const;
};
// Steps on stages, in front of any on loops: tiles for all that lies across rows whose lanes are along `vector`.
StatusOr<TilesAcross> StageAcross(RowNests& r, int vector);

// A nest's loops: tiles of `size` elements of lines by `vectors` of `lanes` rows.
struct TileLoops {
  std::string chunk;  // of rows
  std::string tile;   // of a line
};
// Steps on one nest of `role`, whose loop over rows is `line` and those of other reduced dimensions `others`.
TileLoops ScheduleTile(RowNests& r, RowNest& nest, const TilesAcross::Role& role, const std::string& line,
                       const std::vector<std::string>& others, int64_t vectors, int64_t lanes, int64_t size);

}  // namespace cinn_like::hlir
