// Which stages can share their loops, and over which dimensions: what fusion asks of a group, and tactics of its rows.
#pragma once
#include <optional>
#include <vector>

#include "ir/te.h"

namespace cinn_like::hlir {

// The loops that all stages of a group can share. Every iterator of every stage stands for one dimension of the space;
// parallel dimensions are those that no stage reduces. Reductions of as many elements to single numbers, linked by what
// reads them, share the reduced one. Each parallel dimension is an iterator of every stage, each
// reduction runs over all the others, and what one stage reads of another it reads at the same point:
//   softmax over [a, b, c] along b: dims a, c parallel, dim b reduced.
struct RowSpace {
  struct Dim {
    ir::Expr extent;
    bool reduced = false;
    bool scanned = false;  // some stage is a scan along it; it counts as reduced
  };
  std::vector<Dim> dims;  // in the order of the widest stage
  // For each stage the dimension of each iterator (data iterators, then reduce iterators); -1: extent 1, no dimension.
  std::vector<std::vector<int>> dim_of;
  bool HasReduction() const;
  bool HasScan() const;
};
// `sums`: a dimension that one stage reduces, another reduction may keep: sums of columns beside sums of rows.
std::optional<RowSpace> FindRowSpace(const std::vector<ir::Stage>& stages, bool sums = false);
// The iterator of stage `k` for a dimension; null if it has none.
ir::Expr IterOf(const ir::TeProgram& p, const RowSpace& space, size_t k, int dim);

// Whether some of what moves between memory and stages that share such loops, element by element of all of them, ends
// in rows and some in columns, by their last indices; where nothing is reduced, in different dimensions. `outputs` of
// the stages leave them.
bool MovesAcross(const std::vector<ir::Stage>& stages, const std::vector<ir::Buffer>& outputs);

// The digits as which a reduction into parts reads the dimension that it reduces: q * parts + p; or, where a second
// dimension, of `inner` values, is in the parts, too, the first as q * (parts / inner) + p / inner, the second as p %
// inner:
//   s[p, c] = sum(x[q * 64 + p, c]), q in 0..n / 64
//   s[p, c] = sum(x[q * 4 + p / 16, p % 16, c]), q in 0..n / 4
// Or in chunks, of rows of any number of dimensions, the last of which may be shorter:
//   s[p, c] = sum(x[p * 64 + q, c]), q in 0..64
//   s[p, c] = sum(r < n * 49 ? x[r / 49, r % 49, c] : 0), r = min(p * 64 + q, n * 49 - 1), q in 0..64
struct Parts {
  ir::StageIter part, element;   // p, q
  std::vector<ir::Expr> places;  // of the first dimension, of the second, ...
  int64_t inner = 1;
};
// `chunks`: which of the two kinds to look for.
std::optional<Parts> PartsOf(ir::Context& c, const ir::Stage& s, bool chunks);
// The place in each dimension of row `r` of those that `extents` say.
std::vector<ir::Expr> DigitsOf(ir::Context& c, ir::Expr r, const std::vector<ir::Expr>& extents);

// Parts of column sums beside stages that share the loops of rows of what is summed:
//   s[p, c] = sum(dy[q * 64 + p, c] * x[q * 64 + p, c]);  m[i] = sum(dy[i, k]);  y[i, j] = dy[i, j] - m[i]
struct ColumnSums {
  int64_t parts, inner;
  std::vector<size_t> sums;
  struct Rows {
    size_t stage;
    std::vector<ir::Expr> digits;  // its iterators that are in the parts, in the order of the places
  };
  std::vector<Rows> rows;  // the other stages
};
std::optional<ColumnSums> FindColumnSums(ir::Context& c, const std::vector<ir::Stage>& stages, bool chunks);

// Threads of a GPU's block that sums up rows of so many accesses, and beside that their columns: as few as possible are
// beyond a row's end (one warp with three accesses each has no other to wait for), else more threads, at most `most`.
int64_t ThreadsOfSummedRow(int64_t accesses, int64_t most);

}  // namespace cinn_like::hlir
