// The program of one kernel, out of that of a graph.
#pragma once
#include <vector>

#include "cinn_like/base/status.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// Stages of a program, as indices, of which `outputs` leave, as a program of their own, in its own context, with names
// that depend on their structure alone, so that equal groups have equal text: inputs a0, a1, ..., results o0, ..., then
// symbols as scalars. Stages that need no memory are substituted. `args` are the program's buffers behind the
// parameters, in order (null: a symbol), and `symbols` the program's variables behind the scalar parameters.
struct ExtractedGroup {
  ir::TeProgram program;
  std::vector<ir::Buffer> args;
  std::vector<ir::Expr> symbols;
};
StatusOr<ExtractedGroup> ExtractGroup(const ir::TeProgram& program, const std::vector<int>& stages,
                                      const std::vector<ir::Buffer>& outputs);

}  // namespace cinn_like::hlir
