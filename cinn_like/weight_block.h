// The weights that go into an exported library: what `prepare` made of static arguments, and those of them that the
// entry reads itself.
#pragma once
#include <span>
#include <string>

#include "hlir/graph.h"
#include "ir/stmt.h"
#include "runtime/call.h"
#include "runtime/library_weights.h"
#include "runtime/prepared_state.h"

namespace cinn_like {

struct WeightBlock {
  std::string bytes;
  LibraryWeights description;
};

// InvalidArgument where `weights` are not one tensor of the host for each static parameter of `graph`, of its type.
Status CheckWeights(const hlir::Graph& graph, std::span<const CinnValue> weights);

// For the graph's `entry`, `prepared` of those weights, or null: whoever loads them has them prepared.
WeightBlock MakeWeightBlock(const hlir::Graph& graph, const ir::Func& entry, const PreparedState* prepared,
                            std::span<const CinnValue> weights);

}  // namespace cinn_like
