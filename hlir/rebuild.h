// Makes a graph out of an old one, op by op: how every graph pass is written.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "hlir/op_builder.h"

namespace cinn_like::hlir {

// Replaces `op`, whose operands in the new graph are `operands`: gives its results there (of the same types), nullopt
// to keep the op, or invalid references to drop it.
using Emit = std::function<std::optional<std::vector<ValueRef>>(OpBuilder* b, const Op& op,
                                                                const std::vector<ValueRef>& operands)>;

// A graph with `from`'s name, registry, symbols and parameters, and the new value of each old parameter in `values`.
StatusOr<Graph> CopyInterface(const Graph& from, std::vector<ValueRef>* values);

StatusOr<Graph> Rebuild(const Graph& graph, const Emit& emit);

}  // namespace cinn_like::hlir
