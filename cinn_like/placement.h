// Which of several targets computes an op of a graph: where the whole is predicted to take the least time. The price of
// an op on a target is what the cheapest tactics bid for it there, and values that cross between devices are copied,
// which has a price, too (DeviceKind::copy_seconds). What a target can't compute goes to another. An op that names a
// device
// (`on dpu` in a graph's text) is computed there.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backends/device.h"
#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "hlir/graph.h"

namespace cinn_like {

struct Placement {
  std::vector<size_t> target_of_op;  // indices of `targets`
  double seconds = 0;                // predicted for the whole
  std::vector<std::string> refused;  // "dpu: op 'add': f64[n]: the dpu device has no f64", one an op
};

// The first target is the host's: parameters and results are there. InvalidArgument where a target leaves ops to a
// framework, or an op can be computed on none, with what each says.
StatusOr<Placement> PlaceOps(const hlir::Graph& graph, std::span<const Target> targets, const CompileOptions& options,
                             const Devices& devices = Devices::BuiltIn());

}  // namespace cinn_like
