// What tactics predict times from.
#pragma once
#include "cinn_like/base/speeds.h"
#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

struct MatmulCost {
  double flops = 0;  // of all contractions of the group
  double bytes = 0;  // of its parameters, each once
};
// Symbols count as TypicalSize says.
MatmulCost CostOfMatmuls(const ir::TeProgram& group);

constexpr double kKernelSeconds = 2e-6;  // of one that does nothing

// f32 operations a second of the whole device.
double PeakFlops(const Target& target);
double BytesPerSecond(const Target& target);
// Cores or SMs that work on one function.
double Cores(const Target& target);
// The row of base/speeds.h for the machine, whoever the framework is.
const SpeedRow& SpeedsOf(const Target& target);
// Of products whose every operand comes from a cache, for each one again.
double SecondsWithoutReuse(double flops, const Target& target);

}  // namespace cinn_like::hlir
