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

// keep o -> t:  o[i] = f(i); y[i] = g(o[i])  =>  t[i] = f(i); o[i] = t[i]; y[i] = g(t[i]). A result that later stages
// read becomes an allocation, which they read, and the stage copy_o.
StatusOr<TeProgram> Keep(TeProgram p, const std::string& result, const std::string& name);

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
