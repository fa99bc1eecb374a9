// What fusion and tactics ask of stages. Nothing here knows ops: only loops, access maps and values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/analyzer.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// Of the stages the one with the name, which is there.
const ir::Stage& StageNamed(const std::vector<ir::Stage>& stages, const std::string& name);
// Whether the caller knows the buffer.
bool IsParam(const ir::TeProgram& p, ir::Buffer b);

// Whether all stages go through the same elements and read each other's at their own.
bool AreAlike(const ir::TeProgram& p);

// What the stage's values read, its own results too.
std::vector<ir::Expr> LoadsOf(const ir::Stage& s);

// The value of an extent with every symbol at its hint, or at the geometric middle of its range where it has none, and
// at least 1; of iterators, their product; of a tensor, its bytes.
double TypicalSize(ir::Expr extent, const std::vector<ir::SymbolFact>& symbols);
double TypicalSize(const std::vector<ir::StageIter>& iters, const std::vector<ir::SymbolFact>& symbols);
double TypicalBytes(ir::Buffer b, const std::vector<ir::SymbolFact>& symbols);
// Bytes of a tensor that a stage, or a group's stages, read: of rows that are gathered from a table no more than those
// rows, and never more than all of it.
double BytesRead(const ir::Stage& s, ir::Buffer b, const std::vector<ir::SymbolFact>& symbols);
double BytesRead(const ir::TeProgram& group, ir::Buffer b);
// What a group reads of its inputs and writes of its results, in bytes: the least that goes through memory.
double BytesMoved(const ir::TeProgram& group);

// The value is one element of another tensor, moved or converted (or a constant or an index): nothing to compute, so it
// is substituted wherever it is read.
bool IsView(const ir::Stage& s);

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
// Of the elements that values of the stage are computed of, but for its own, the one whose place depends on the most of
// its iterators; null: there is none.
ir::Expr MainLoad(const ir::Stage& s, const std::vector<ir::Expr>& values);
// Whether a factor is more than an element under casts.
bool IsComputed(ir::Expr factor);

// How far the element at `offset` for the next value of `var` lies from it.
ir::Expr StepAlong(ir::Analyzer& a, ir::Expr offset, ir::Expr var);
// Whether it lies next to it.
bool IsContiguous(ir::Analyzer& a, ir::Expr offset, ir::Expr var);

// Whether a value in memory says from where on elements of a reduction change nothing (rows of a tensor that are summed
// up to a length of each), or that none do: loops over them stop there.
bool EndsInMemory(ir::Context& c, const ir::Stage& s);

// d, where `e` speaks of `var` only as var / d, as groups of channels are read; 0 where it does not.
int64_t DivisorOf(ir::Expr e, ir::Expr var);

// Whether a scan has elements of other sums between its own: it goes along columns, and not along rows.
bool ScansColumns(const ir::Stage& s);
// Whether the first stage is a scan, and each other one computes an element from one of its results there, which no
// other reads and which is none of `outputs`: what the scan's loop can do as well.
bool IsScanWithReaders(const std::vector<ir::Stage>& stages, const std::vector<ir::Buffer>& outputs);

}  // namespace cinn_like::hlir
