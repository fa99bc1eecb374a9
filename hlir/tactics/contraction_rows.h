// The rows' operand of a contraction on a CPU, copied as it is multiplied: what the stage "rows" is, as loops.
#pragma once
#include "hlir/tactics/contraction_plan.h"

namespace cinn_like::hlir {

// Steps of plan.schedule that have the rows, where the plan copies them, lie there once before the tiles.
void CopyRows(ContractionPlan& plan);

}  // namespace cinn_like::hlir
