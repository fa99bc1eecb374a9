// What tactics predict times from.
#pragma once
#include <optional>

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

// f32 operations a second of the whole device.
double PeakFlops(const Target& target);
double BytesPerSecond(const Target& target);
// Cores or SMs that work on one function.
double Cores(const Target& target);
// The row of base/speeds.h for the machine, whoever the framework is.
const SpeedRow& SpeedsOf(const Target& target);
// Whether the caller lets the operands of a product of f32 be rounded to TF32.
bool AllowsTf32(const ir::Stage& s, const Target& target);
// Operations a second that the machine's tuned kernels (the framework's, a library's) reach on the product `s`, whose
// sums end in `result`, of operands `of` (by default the narrowest that it reads): less where the rows of a tensor
// don't start at 16 bytes and matrix units are fed from them.
double ProductRate(const ir::Stage& s, ir::Buffer result, const std::vector<ir::SymbolFact>& symbols,
                   const SpeedRow& row, const Target& target, std::optional<DType> of = {});
constexpr int kRowBytes = 16;  // of which rows are multiples that matrix units are fed from
// The largest power of two, up to kRowBytes, of which the rows of all that `s` reads, and of `result`, are multiples,
// in bytes.
int RowAlignment(const ir::Stage& s, ir::Buffer result, const std::vector<ir::SymbolFact>& symbols);
// The narrowest element type of all that `s` reads and of `result`: what tuned kernels are made for.
DType NarrowestType(const ir::Stage& s, ir::Buffer result);
// The part of its rate that a product on matrix units has left with rows of that alignment.
double PartAtAlignment(const SpeedRow& row, int alignment);
// Of products whose every operand comes from a cache, for each one again.
double SecondsWithoutReuse(double flops, const Target& target);
// What loops over rows take for the group's products beside reading each parameter once: to multiply, and to read
// operands again, for each result that needs them, from a GPU's caches.
double SecondsOfRowProducts(const ir::TeProgram& group, const Target& target);

}  // namespace cinn_like::hlir
