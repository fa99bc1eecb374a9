// What of a program's stages is computed and kept, before fusion groups them: views are substituted into their readers,
// and so is what is cheaper to compute again than to keep; roundings and layouts stay with the product that they are
// of; contractions get operands that the target's library reads, large reductions to few results become two, a mean and
// a variance of what stays nowhere run in one go.
#pragma once
#include <vector>

#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

ir::TeProgram RewriteStages(ir::TeProgram program, const Target& target);

// Whether `kept` is a contraction of `program` and one pointwise stage that reads each of its elements once and writes
// `outputs`; what the target's library computes takes only what the library does on its way out.
bool IsEpilogue(const ir::TeProgram& program, const Target& target, const std::vector<ir::Stage>& kept,
                const std::vector<ir::Buffer>& outputs);

}  // namespace cinn_like::hlir
