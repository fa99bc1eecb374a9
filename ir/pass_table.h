// The passes of ir by name, for tests, tools and the pipeline runner.
#pragma once
#include <string_view>
#include <vector>

#include "ir/stmt.h"

namespace cinn_like::ir {

struct PassRow {
  std::string_view name;
  StatusOr<Func> (*fn)(Func);
};
const std::vector<PassRow>& PassTable();
// Null if there is no such pass.
const PassRow* FindPass(std::string_view name);

}  // namespace cinn_like::ir
