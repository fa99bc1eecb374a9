// What the tactics for row spaces share: the nests of a group with their loops known by dimension.
#pragma once
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hlir/row_space.h"
#include "hlir/stage_analysis.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// One nest: a stage's block and its loop for each dimension of the space that it has.
struct RowNest {
  std::string block;
  bool reduction = false;
  std::map<int, std::string> loops;
};

struct RowNests {
  ir::Schedule schedule;
  ir::TeProgram group;  // the schedule's stages
  RowSpace space;
  std::vector<RowNest> nests;
  // Parts of column sums beside rows: the stage, and its iterator over the parts. Where these are chunks, the space is
  // that of the rows alone, and the loops over chunks and over what is in one are no dimension.
  struct Sums {
    std::string stage;
    ir::Expr part;
    int64_t chunk = 0;  // rows; 0: parts take rows in turns
    std::string part_loop = "", element_loop = "";
  };
  std::optional<Sums> sums = std::nullopt;

  // The group as naive loops; nullopt if its stages share no row space. A pointwise stage that reads a contraction
  // through a rearrangement first moves to the contraction's own coordinates and writes rearranged.
  static StatusOr<std::optional<RowNests>> Create(const ir::TeProgram& group);

  // The same of a reduction over transposed windows, and what reads all of it, in phases; nullopt if there are none.
  static StatusOr<std::optional<RowNests>> CreateInPhases(const ir::TeProgram& group);

  // The same of rows beside parts of the sums of their columns, as FindColumnSums finds them: rows have digits, or are
  // one line where `chunks` says that parts are chunks of it, and what a part sums up is one stage.
  static StatusOr<std::optional<RowNests>> CreateWithSums(const ir::TeProgram& group, bool chunks);

  // `group`, `space` and `nests` anew, behind steps on stages that left a space of as many dimensions.
  Status ReadAgain();

  // Steps on stages, before any on loops.
  // A result that later stages read becomes a temporary and a stage that copies it: what one thread writes to memory,
  // others must not read in the same kernel. So does one of several that a reduction has, where another is a temporary.
  // Results of the size of rows stay unless `rows` says that these are kept too: each element's thread reads it back.
  // `sums`: so is every reduction, where several lie in one access that a thread adds to.
  Status KeepResults(bool rows, bool sums = false);
  // The same of every result that is reduced.
  Status KeepReduced();
  // Whether what is reduced are windows (of pools): what neighbouring results read overlaps, or lies so near that they
  // share accesses.
  bool ReadsWindows() const;
  // Reductions that choose pairs of a value and its place find the value first, then the place, where they can. Values
  // that take long to compute become a stage of their own if `costly` says so; else these pairs stay.
  Status SeparatePairs(bool costly);
  // Reductions that read the same element of an input run together, where they can; but not what chooses pairs.
  Status JoinReductions();
  // A load of an input, element by element of the whole space.
  struct Input {
    ir::Expr load;                                  // at SpaceVars
    std::vector<std::pair<size_t, ir::Expr>> read;  // by stages, as they spell it
  };
  std::vector<Input> FindInputs() const;
  std::vector<Input> FindInputsAlong(int dim) const;  // those that are contiguous along it
  // Results of pointwise stages that are, element by element of the whole space.
  std::vector<ir::Buffer> FindResultsAlong(int dim) const;
  ir::Expr SpaceVar(int dim) const;
  // Inputs become stages of their own, in front of all others, to be placed in registers or shared memory. Gives how
  // many.
  StatusOr<size_t> StageInputs(const std::vector<Input>& inputs);

  // A value of a stage becomes a stage of its own, just before it, over all dimensions that it has; false: it can't be.
  StatusOr<bool> Define(size_t stage, ir::Expr value, const std::string& name);
  // Where elements of a buffer over `dims` of a stage lie whose lines, of any number of dimensions each, are its last
  // dimensions: arguments of the step transform_layout.
  std::string LayoutOf(const std::string& buffer, const std::vector<int>& dims,
                       const std::vector<std::vector<int>>& lines) const;

  // exp as exp2, wherever that stands (the step exp2), of what is read and written in 16 bits: an instruction with an
  // error that rounding to 16 bits hides.
  Status TakePowersOf2();
  // A dimension begins before its first value in all stages, by a number of other dimensions (SpaceVar).
  Status Shift(int dim, ir::Expr by);

  int64_t ConstExtent(int dim) const;  // 0: symbolic
  // The most that a dimension's extent can be, and no more than a billion.
  int64_t LargestExtent(int dim) const;
  // What to expect of a dimension: symbols count as TypicalSize says.
  int64_t LikelyExtent(int dim) const;
  double LikelySize(const std::vector<int>& dims) const;  // of all of them
  // The dimension along which most of what is read and written is contiguous, later ones first; `of_rows`: it may be
  // one that is reduced.
  int VectorDim(bool of_rows = true) const;
  // What all dimensions move: results are contiguous along `out`, some perhaps along others, most of what is read along
  // `in`, another one. nullopt: nothing is, or too short a dimension for it to matter.
  struct Transposition {
    int in, out;
  };
  std::optional<Transposition> FindTransposition() const;
  // Elements between where accesses of `v` begin in memory and where a line along a dimension does, by the element's
  // `offset` and in terms of other dimensions (SpaceVar).
  ir::Expr StartOfLine(ir::Expr offset, int dim, int64_t v) const;
  // The same of all that is read and written element by element; null: they begin apart.
  ir::Expr StartOfLines(int dim, int64_t v) const;
  // Bytes of the widest element of the tensors that move along a dimension and along most others; of any, if none
  // moves.
  int WidestAlong(int dim) const;
  // Whether so many elements, of all these dimensions, are known to be a multiple of `n`.
  bool IsMultiple(const std::vector<int>& dims, int64_t n) const;
  // Dimensions d and d + 1 can be one loop: every access moves through both as through one.
  bool CanCoalesce(int d) const;
  // The dimensions around `dim` that can be one line with it.
  std::vector<int> LineAround(int dim) const;
  // The dimensions of a kind, in order.
  std::vector<int> Dims(bool reduced) const;
  // Allocations of the group's intermediates.
  std::vector<ir::Buffer> Temporaries() const;
  // Steps on every nest.
  // Loops in this order: the nest's own of `first`, then of `second`, ...
  void ReorderAll(const std::vector<std::vector<int>>& order);
  // Fuses the nest's loops of `dims` (those it has) and gives the name; empty if it has none.
  std::string FuseDims(RowNest& nest, const std::vector<int>& dims, const std::string& base);

 private:
  // `group`, `space` and `nests` anew from the schedule's stages; false if they share no row space.
  StatusOr<bool> Read();
  // Of what is reduced the dimension that memory goes along is the last one, whatever order the stages name them in:
  // the channels of a group's places in images whose channels come last. Not if they are a symbol: by it places would
  // be quotients.
  void OrderRows();
  // For each dimension the elements of what is read and written that are contiguous along it.
  std::vector<double> ContiguousAlong() const;
  Status ReadNests(size_t sum);  // `sum`: the stage of the sums over chunks, if there are any
  // Which dimensions the iterators of the sums over chunks are, by what they read that a row reads or computes too; -1:
  // none.
  std::vector<int> DimsOfSums(size_t sum) const;
  // Whether an expression at SpaceVars is another one for each element of the space; whether such an offset moves by
  // one along a dimension.
  bool IsWhole(ir::Expr e) const;
  bool IsAlong(ir::Expr offset, int dim) const;
  // A stage's iterators to those of the space.
  ir::VarMap SpaceVarsOf(size_t stage) const;
};

// One running value of a reduction decides about another: a value and its place, say.
bool ChoosesPairs(const ir::Stage& s);

// Loops of nests as one, where there are several.
void MergeLoops(ir::Schedule& s, const std::vector<std::string>& loops);
// Loops of one nest in the order of these lists, where they have any.
void ReorderLoops(ir::Schedule& s, std::initializer_list<std::vector<std::string>> loops);

// The pointwise last stage of {contraction, epilogue} in the contraction's coordinates. Other programs stay.
ir::TeProgram AlignEpilogue(ir::TeProgram group);

}  // namespace cinn_like::hlir
