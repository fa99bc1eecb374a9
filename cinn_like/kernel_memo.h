// Kernels that this process has lowered for a host: a model's layers are many regions with the same kernels in them.
//
//   text of the group as naive loops, target, options  ->  the lowered function, and what its tactic said
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace cinn_like {

struct LoweredKernel {
  ir::Func func;  // in a context that nothing else adds to: to be cloned
  std::string tactic, schedule;
  double seconds = 0;  // predicted
  std::vector<std::string> refused;
};

// Safe from many threads. Holds the latest kernels only.
std::shared_ptr<const LoweredKernel> FindLoweredKernel(const std::string& key);
void KeepLoweredKernel(const std::string& key, LoweredKernel kernel);

}  // namespace cinn_like
