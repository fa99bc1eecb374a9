// What the tactic for contractions on GPUs decides before it writes steps on loops (hlir/tactics/matmul_gpu.cc): which
// groups it takes, tiles by prices, and the stages that operands' panels are.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hlir/tactics/tactic.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

inline constexpr int64_t kTileLanes = 4;  // neighbouring columns of a thread

// What the names of the k-th product and of the k-th result end in.
inline std::string SuffixOf(size_t k) { return k == 0 ? "" : std::to_string(k + 1); }

struct MatmulTile {
  int64_t rows, columns;  // threads
  int64_t m, n;           // results a thread, of each contraction
  double efficiency;      // of the device's rate: products for each value that is read from shared memory
  int64_t depth = 16;     // of a panel, for each slice
  int64_t slices = 1;     // of the reduction, each by threads of its own
  bool mma = false;       // by the matrix units of warps of 8 rows of 4 threads
  bool wgmma = false;     // and those by the units of four warps
  int64_t M() const { return rows * m; }
  int64_t N() const { return columns * n; }
  int64_t Threads() const { return rows * columns * slices; }
};

// One operand, as its tile in shared memory is filled.
struct MatmulPanel {
  std::string name;
  ir::StageIter side;       // that it has beside batch and reduction
  ir::StageIter innermost;  // of the iterators that the side is made of, without those of one value; none: null
  size_t operand = 0;       // of the product
  bool along_side = true;   // neighbouring threads read along the side; else along the reduction
  int64_t vector = 1;       // elements of one read
  std::string block() const { return "b_" + name; }
};

// A contraction of the group: over the iterators of its sides, and over one each: batch, rows, columns, reduction.
struct MatmulProduct {
  ir::Stage unfolded, flat;
  ir::StageIter innermost_k;
  MatmulPanel left = {}, right = {};
  bool shares_left = false, shares_right = false;  // with the first one
};

struct MatmulGpuPlan {
  ir::Schedule schedule;  // with the steps on stages
  std::vector<MatmulProduct> products;
  std::vector<std::string> results;  // the stages that write
  std::vector<size_t> order;         // of the products' nests
  ir::Expr batch, rows;              // extents
  MatmulTile tile;
  int64_t stages;      // copies of a panel
  bool tensor_copies;  // a copy engine fills panels that are rectangles of their operands
  double seconds;

  // Each once.
  std::vector<MatmulPanel> Panels() const;
};

// nullopt: the group is another one, or no steps on stages make it one.
StatusOr<std::optional<MatmulGpuPlan>> PlanMatmulGpu(const ir::TeProgram& group, const Target& target, Point& point);

}  // namespace cinn_like::hlir
