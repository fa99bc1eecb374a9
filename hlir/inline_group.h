// A group's stages as one kernel computes them: what needs no memory where it is read, results where their loops are.
#pragma once
#include <optional>
#include <vector>

#include "ir/te.h"

namespace cinn_like::hlir {

// The stages of a group with those that need no memory substituted into their readers. `outputs` stay. A value that is
// costly and read more than once stays too, if readers can find it at their own point; nullopt where recomputing it
// would multiply the work instead.
std::optional<std::vector<ir::Stage>> InlineGroup(ir::Context& c, std::vector<ir::Stage> stages,
                                                  const std::vector<ir::Buffer>& outputs,
                                                  const std::vector<ir::SymbolFact>& symbols);

}  // namespace cinn_like::hlir
