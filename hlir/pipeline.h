// The graph passes by name and in the compiler's order.
#pragma once
#include <span>
#include <string>

#include "hlir/passes/passes.h"

namespace cinn_like::hlir {

// Every pass, once. To add one: a row here, a file in hlir/passes, a golden file in tests/golden/hlir.
std::span<const Pass<Graph>> GraphPasses();

// From what a frontend gives to primitives that are worth lowering: the compiler's sequence of passes.
StatusOr<Graph> OptimizeGraph(Graph graph, const PassContext& context);

// Runs "cse | dce" on a graph's text and prints the result: golden tests and cinn_opt. Beside the passes: `optimize`,
// and, at the end only, `split_static` (prints the prepare graph and the main graph) and `loops` (prints loop text).
StatusOr<std::string> RunOnGraphText(std::string_view passes, std::string_view text, const PassContext& context);

// What `passes` may name, for messages and help texts.
std::string GraphPassList();

}  // namespace cinn_like::hlir
