// What of a contraction is rows, lanes and batch of register tiles, and the steps on stages that make it so: windows in
// phases, digits, three iterators.
//   t[n, c, h, w] += x[n, r, h + p, w + q] * k[c, r, p, q]  ->  batch n, rows c (of k), lanes h and w (of x)
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hlir/tactics/contraction_plan.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

// An iterator of the contraction, or a digit of one, which the step `unfold` makes: the upper ("_g") or the lower one
// ("_p"), of `extent`.
struct Digit {
  size_t dim;
  std::string part;
  ir::Expr extent;
};

// Which digits are what. Either operand's own can be the lanes.
struct Sides {
  std::vector<Digit> batch, rows, lanes;
  bool swapped = false;                  // the lanes are the left-hand side's
  bool one_sided = false;                // and the rows, too: the other operand has no iterators of its own
  std::vector<std::string> digits = {};  // of phases: iterators of the contraction
  double part = 1;                       // of the steps in phases, those that change something
  size_t results = 1;                    // stages behind the contraction
};

// Whether the group is a contraction and pointwise stages.
bool IsContraction(const ir::TeProgram& group);

// Of the group's contraction; the lanes are its right-hand side's. Of an iterator that both operands read, one of them
// as a quotient (groups of channels), the remainder is the other's own.
std::optional<Sides> FindSides(const ir::TeProgram& group);

// Steps make what the group sums and what it writes stages over the same iterators; false if they can't.
StatusOr<bool> TakeApart(ir::Schedule& s);

// The last digit that is not always 0, if its elements lie next to each other in the result, or with those of a few
// phases between.
struct Run {
  size_t last;
  int64_t unit;
};
std::optional<Run> FindRun(ir::Analyzer& a, const ir::Stage& out, const std::vector<Digit>& digits);

// Of a one-sided contraction, whose windows are masked at the ends of an image: the stage `padded`, which has zeros
// there; false where the masks are others.
bool PadWindows(ir::Schedule& s, const Sides& sides);

// Rows of a phase lie every so many elements in what they are read from, and lines of the cache are read again by each
// phase. Where many tiles read them, they first become a stage, in which what a tile reads lies together: rows, or, for
// a matrix unit, what it sums of a row, the longest iterator of the reduction.
struct Copied {
  double elements = 0;
  std::vector<int> depths;  // of its loops: steps, digits, places; kRun: the last one, of a unit's
  static constexpr int kRun = 3;
};
Copied CopyPhases(ir::Schedule& s, const Sides& sides, const Target& target, bool of_unit);

// The first stage that writes a result of the group.
const ir::Stage& FirstResult(const ir::TeProgram& group);

// The contraction and the stages behind it, without copies of operands.
ir::TeProgram GroupOf(const ir::Schedule& s, size_t results);

// Steps on stages make the group flat; nullopt if it is none that can be.
StatusOr<std::optional<FlatContraction>> Flatten(ir::Schedule& s, const Sides& sides, const Target& target,
                                                 bool of_unit);

// How far elements of `b` at `indices` are apart when `var` grows by one; null if it is not the same everywhere.
ir::Expr Step(ir::Analyzer& a, ir::Buffer b, const std::vector<ir::Expr>& indices, ir::Expr var);
bool IsStepOne(ir::Analyzer& a, ir::Expr load, ir::Expr var);
std::vector<ir::Expr> PlacesOf(const ir::Stage& s);
// With the facts and iterators of `out`, of which any may be one more.
ir::Analyzer FactsOf(const ir::TeProgram& p, const ir::Stage& out);

constexpr int64_t kEveryOther = 2;   // elements: a vector is two loads
constexpr double kMostCopied = 1.5;  // elements of a copy for each one of what it is made of

}  // namespace cinn_like::hlir
