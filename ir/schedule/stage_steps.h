// Steps on stages, the first half of a schedule: each takes a program and gives one that computes the same, or says why
// it can't, naming the stage. Stages, buffers and iterators are named; names after `->` and left of `=` are new. Table
// and text: ir/schedule/schedule.h; the text form of a program is its naive loops (ToLoops).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/te.h"

namespace cinn_like::ir {

// align y x:  y[i, j] = f(x[j, i])  =>  y[j_o, i_o] = f(x[i_o, j_o]) for i_o, j_o of x. A pointwise stage that reads
// all of another one, rearranged, runs over that one's iterators instead and writes where it did.
StatusOr<TeProgram> Align(TeProgram p, const std::string& stage, const std::string& to);

// keep o -> t:  o[i] = f(i); y[i] = g(o[i])  =>  t[i] = f(i); o[i] = t[i]; y[i] = g(t[i]). A result becomes an
// allocation, which later stages read, and the stage copy_o.
StatusOr<TeProgram> Keep(TeProgram p, const std::string& result, const std::string& name);

// fold t -> a[i, k] b[j]:  t[i, j, k] = x[i, j, k]; y[j] = t[0, j, 2]  =>  t[a, b] = x[a / K, b, a % K]; y[j] = t[2,
// j]. A stage runs over new data iterators, in this order, each of which stands for those in its brackets, as digits.
// a[i/4] b[i%4]: an iterator whose extent a number divides may itself be taken apart into digits. An allocation that it
// writes at its iterators takes their shape. Iterators of extent 1 may be left out and are then 0; of a reduction's all
// are, as long as it keeps one.
struct Folded {
  std::string name;
  std::vector<std::string> iters;
};
StatusOr<TeProgram> Fold(TeProgram p, const std::string& stage, const std::vector<Folded>& to);

// define t[i, j] = x[j, i] before s:  y[i, j] = f(x[j, i])  =>  t[i, j] = x[j, i] in front of stage s;  y[i, j] =
// f(t[i, j]). A value that a stage computes becomes a stage of its own, over those of its iterators that stand in
// brackets. Where t is there already and computes this value, the stage reads it; else it is new and stands before
// stage `before` (by default: before its reader). Iterators of extent 1 that are not in brackets count as 0.
struct Definition {
  std::string name;
  std::vector<std::string> iters;  // of one stage
  std::string value;               // an expression over its iterators
  std::optional<std::string> before;
};
StatusOr<TeProgram> Define(TeProgram p, const Definition& d);

}  // namespace cinn_like::ir
