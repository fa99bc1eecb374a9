// A graph as kernels and one entry function that calls them in order.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cinn_like/base/pass_pipeline.h"
#include "hlir/fusion.h"
#include "hlir/graph.h"

namespace cinn_like::hlir {

// entry: checks of what ops require of the sizes, allocations of the intermediates and a Call of @<name>_k<i> per
// group. Equal groups are one kernel. Of symbolic sizes there may be two, between which the entry decides: @..._near is
// for those about as large as their hints, and what calls count for (hlir/near_hints.h).
struct LoweredGraph {
  ir::Func entry;
  struct Kernel {
    std::string name;
    ir::TeProgram group;  // not scheduled yet; in a context of its own
    std::string text;     // as naive loops: all that its schedule and its code depend on, the target and options apart
    int calls = 0;        // 0: what another one's calls run where sizes are not near their hints
    std::vector<std::vector<int>> origins;  // of each call: ir::Stage::origin of the group's stages
    bool is_fused = false;                  // more than one stage of the graph's meaning is in it
  };
  std::vector<Kernel> kernels;
  // @<name>_check, which the entry calls last: fails where one of TeProgram::checks does.
  std::optional<ir::Func> check;
};

// `graph` has primitive ops only. With the option disable_fusion one kernel per stage.
StatusOr<LoweredGraph> LowerGraph(const Graph& graph, const PassContext& context);

}  // namespace cinn_like::hlir
