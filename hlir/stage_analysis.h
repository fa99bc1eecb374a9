// What fusion and tactics ask of stages. Nothing here knows ops: only loops, access maps and values.
#pragma once
#include <optional>
#include <vector>

#include "ir/te.h"

namespace cinn_like::hlir {

// The offset of an element from the first, by the buffer's strides.
ir::Expr ElementOffset(ir::Context& c, ir::Buffer b, const std::vector<ir::Expr>& indices);

// The value of an extent with every symbol at its hint, or at the geometric middle of its range where it has none; of
// iterators, their product; of a tensor, its bytes.
double TypicalSize(ir::Expr extent, const std::vector<ir::SymbolFact>& symbols);
double TypicalSize(const std::vector<ir::StageIter>& iters, const std::vector<ir::SymbolFact>& symbols);
double TypicalBytes(ir::Buffer b, const std::vector<ir::SymbolFact>& symbols);

// The value is one element of another tensor, moved or converted (or a constant or an index): nothing to compute, so it
// is substituted wherever it is read.
bool IsView(const ir::Stage& s);

// Estimated scalar operations of one element; functions such as exp count 16.
int CostOf(ir::Expr e);

// From this cost on a value is kept rather than computed again by each reader.
constexpr int kCostly = 12;

// A sum of products of two tensors, each of which is used for many results: work grows faster than memory.
// lhs, rhs: the two loads, as read in the element (perhaps under a cast).
struct Contraction {
  ir::Expr lhs, rhs;
  std::vector<ir::StageIter> batch, m, n, k;  // iterators in both, in lhs only, in rhs only, reduced
};
std::optional<Contraction> FindContraction(const ir::Stage& s);

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
std::optional<RowSpace> FindRowSpace(const std::vector<ir::Stage>& stages);

// The stages of a group with those that need no memory substituted into their readers. `outputs` stay. A value that is
// costly and read more than once stays too, if readers can find it at their own point; nullopt where recomputing it
// would multiply the work instead.
std::optional<std::vector<ir::Stage>> InlineGroup(ir::Context& c, std::vector<ir::Stage> stages,
                                                  const std::vector<ir::Buffer>& outputs,
                                                  const std::vector<ir::SymbolFact>& symbols);

}  // namespace cinn_like::hlir
