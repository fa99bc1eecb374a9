// A graph of primitive ops as one program of tensor expressions: parameters, then a stage or two per op.
#pragma once
#include "hlir/graph.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// Every op must have a `lower` (run the pass `decompose` first). Results that are parameters, or that are returned
// twice, become copies, so that each result is the output of a stage of its own.
StatusOr<ir::TeProgram> LowerToTe(const Graph& graph);

}  // namespace cinn_like::hlir
