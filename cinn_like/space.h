// The space of a tactic's parameters around what it predicts to be the fastest: how good predictions are, measured.
#pragma once
#include <string>

#include "backends/device.h"
#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "hlir/graph.h"

namespace cinn_like {

// For each kernel of the graph: who bids what, and of the cheapest the parameters with the values that they can have
// and those that it predicts to be the fastest. With `points` > 0 so many others, drawn at random, each built and run
// by itself on this machine with random inputs of typical sizes: microseconds of a call, the median of rounds in turns,
// and as predicted. What can't be built, or computes something else, is counted and named. An error where the target is
// not this machine's.
StatusOr<std::string> DescribeSpace(const hlir::Graph& graph, const Target& target, const CompileOptions& options,
                                    int points, const Devices& devices = Devices::BuiltIn());

}  // namespace cinn_like
