// Pointwise groups of which memory is contiguous along one dimension where they read and along another where they
// write: tiles, in a thread's registers or through shared memory.
#pragma once
#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/rows_gpu_plan.h"

namespace cinn_like::hlir {

// Steps of r.schedule.
Status TransposeOnGpu(RowNests& r, const RowsGpuPlan& plan, const Target& target, RowNests::Transposition t);

}  // namespace cinn_like::hlir
