// Finding, naming and renumbering parts of a program of stages: what steps on stages are built from.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/analyzer.h"
#include "ir/join.h"
#include "ir/te.h"

namespace cinn_like::ir {

StatusOr<size_t> FindStage(const TeProgram& p, const std::string& name);
std::vector<StageIter> AllIters(const Stage& s);  // data iterators, then reduced ones
// Every buffer and iterator of the program as a parameter: what an expression in a step may speak of.
Func NamesOf(const TeProgram& p);
// OK if nothing in the program has one of these names.
Status CheckNew(const TeProgram& p, const std::vector<std::string>& names);
void BindFacts(Analyzer& a, const TeProgram& p, const std::vector<StageIter>& iters);

// A load of what is at the places that `move` makes of its own, simplified.
Expr MoveLoad(Analyzer& a, Rewriter& move, Expr load);

// Whether a stage writes allocations at its iterators, whose shape is then the stage's own affair.
bool WritesAllocations(const TeProgram& p, const Stage& s);

// InvalidArgument of a scan: its iterators and their order are its meaning.
Status CheckNoScan(const Stage& s);

// Other iterators for a stage.
struct NewIters {
  std::vector<StageIter> iters, reduce_iters;
  VarMap of;  // what each old one is in terms of them, where it is none of them
  // Where the element at these values of the old data iterators is, in terms of the new ones.
  std::function<std::vector<Expr>(const std::vector<Expr>&)> indices;
};
// The stage runs over them, in this order. Allocations that it writes at its iterators take their shape, and readers
// read there; else it writes where it did. InvalidArgument of a reduction into a result.
StatusOr<TeProgram> Reiterate(TeProgram p, size_t stage, const NewIters& to);

// How a stage joins what it reduces, whose parts can then be joined in any order and start as it does: with what
// changes nothing, or what may be joined as often as there are parts.
StatusOr<Join> JoinOf(Context& c, const Stage& s);

}  // namespace cinn_like::ir
