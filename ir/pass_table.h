// The passes of ir by name, for pipelines (ir/lower.cc), tests and tools.
#pragma once
#include <string_view>
#include <vector>

#include "cinn_like/base/pass_pipeline.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

const std::vector<Pass<Func>>& PassTable();
// A pass of a device (DeviceKind::passes): in each list that has a pass `after` it runs behind the last of that name.
struct HookedPass {
  std::string_view after;
  Pass<Func> pass;
};

// Null if there is no such pass.
const Pass<Func>* FindPass(std::string_view name);

}  // namespace cinn_like::ir
