// What fusion and tactics ask of stages. Nothing here knows ops: only loops, access maps and values.
#pragma once
#include <optional>
#include <vector>

#include "ir/te.h"

namespace cinn_like::hlir {

// The value of an extent with every symbol at its hint, or at the geometric middle of its range where it has none; of
// iterators, their product; of a tensor, its bytes.
double TypicalSize(ir::Expr extent, const std::vector<ir::SymbolFact>& symbols);
double TypicalSize(const std::vector<ir::StageIter>& iters, const std::vector<ir::SymbolFact>& symbols);
double TypicalBytes(ir::Buffer b, const std::vector<ir::SymbolFact>& symbols);

// The value is one element of another tensor, moved or converted (or a constant or an index): nothing to compute, so it
// is substituted wherever it is read.
bool IsView(const ir::Stage& s);

// Threads of a GPU's block that sums up rows of so many accesses, and beside that their columns: as few as possible are
// beyond a row's end (one warp with three accesses each has no other to wait for), else more threads.
int64_t ThreadsOfSummedRow(int64_t accesses);

// Estimated scalar operations of one element; functions such as exp count 16.
int CostOf(ir::Expr e);
// The same of several values, what they share once. With a lane, a variable that vectors run along, of operations on
// what differs between lanes: the others are computed once for all, and outside of inner loops.
int CostOf(const std::vector<ir::Expr>& values, ir::Expr lane);

// From this cost on a value is kept rather than computed again by each reader.
constexpr int kCostly = 12;

// A sum of products of two tensors, each of which is used for many results: work grows faster than memory.
// lhs, rhs: the two loads, as read in the element (perhaps under a cast).
struct Contraction {
  ir::Expr lhs, rhs;
  std::vector<ir::StageIter> batch, m, n, k;  // iterators in both, in lhs only, in rhs only, reduced
};
std::optional<Contraction> FindContraction(const ir::Stage& s);
// The same where operands are computed of what is read: lhs, rhs are the factors as they are multiplied, casts
// included, such as f32(w[j, k]) * s[j]. Each reads something.
std::optional<Contraction> FindProduct(const ir::Stage& s);
// Of the elements that a factor is computed of, the one whose place depends on the most of the stage's iterators; null:
// it is computed of none.
ir::Expr MainLoad(const ir::Stage& s, ir::Expr factor);
// Whether a factor is more than an element under casts.
bool IsComputed(ir::Expr factor);

// d, where `e` speaks of `var` only as var / d, as groups of channels are read; 0 where it does not.
int64_t DivisorOf(ir::Expr e, ir::Expr var);

// ---- row spaces ----
// The loops that all stages of a group can share. Every iterator of every stage stands for one dimension of the space;
// parallel dimensions are those that no stage reduces. Each parallel dimension is an iterator of every stage, each
// reduction runs over all the others, and what one stage reads of another it reads at the same point:
//   softmax over [a, b, c] along b: dims a, c parallel, dim b reduced.
struct RowSpace {
  struct Dim {
    ir::Expr extent;
    bool reduced = false;
  };
  std::vector<Dim> dims;  // in the order of the widest stage
  // For each stage the dimension of each iterator (data iterators, then reduce iterators); -1: extent 1, no dimension.
  std::vector<std::vector<int>> dim_of;
  bool HasReduction() const;
};
// `sums`: a dimension that one stage reduces, another reduction may keep: sums of columns beside sums of rows.
std::optional<RowSpace> FindRowSpace(const std::vector<ir::Stage>& stages, bool sums = false);

// The digits as which a reduction into parts reads the dimension that it reduces: q * parts + p; or, where a second
// dimension, of `inner` values, is in the parts, too, the first as q * (parts / inner) + p / inner, the second as p %
// inner:
//   s[p, c] = sum(x[q * 64 + p, c]), q in 0..n / 64
//   s[p, c] = sum(x[q * 4 + p / 16, p % 16, c]), q in 0..n / 4
struct Parts {
  ir::StageIter part, element;   // p, q
  std::vector<ir::Expr> places;  // of the first dimension, of the second
  int64_t inner = 1;
};
std::optional<Parts> PartsOf(ir::Context& c, const ir::Stage& s);

// Parts of column sums beside stages that share the loops of rows of what is summed:
//   s[p, c] = sum(dy[q * 64 + p, c] * x[q * 64 + p, c]);  m[i] = sum(dy[i, k]);  y[i, j] = dy[i, j] - m[i]
struct ColumnSums {
  int64_t parts, inner;
  std::vector<size_t> sums;
  struct Rows {
    size_t stage;
    ir::Expr divided, inner;  // its iterators that are in the parts; `inner` null: only one is
  };
  std::vector<Rows> rows;  // the other stages
};
std::optional<ColumnSums> FindColumnSums(ir::Context& c, const std::vector<ir::Stage>& stages);

// The stages of a group with those that need no memory substituted into their readers. `outputs` stay. A value that is
// costly and read more than once stays too, if readers can find it at their own point; nullopt where recomputing it
// would multiply the work instead.
std::optional<std::vector<ir::Stage>> InlineGroup(ir::Context& c, std::vector<ir::Stage> stages,
                                                  const std::vector<ir::Buffer>& outputs,
                                                  const std::vector<ir::SymbolFact>& symbols);

}  // namespace cinn_like::hlir
