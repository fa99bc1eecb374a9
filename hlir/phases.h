// Windows that move by more than one place at a time, seen from the other side: of the taps of a transposed window only
// those count whose distance to a place is a multiple of the stride, the others are masked. Places and taps in digits
// modulo the stride leave, for each place's digit, one of the taps' (step `solve`), and no such mask:
//   y[i] += x[(i + 1 - r) / 2; (i + 1 - r) % 2 == 0] * w[r] over r in 0..4
//     =>  y[g * 2 + p] += x[g + (p + 1) / 2 - q] * w[q * 2 + (p + 1) % 2] over q in 0..2
// Found by masks alone. What a tactic schedules are then dense windows, one for each digit (a phase).
#pragma once
#include <string>
#include <vector>

#include "ir/schedule/schedule.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// Iterators of a stage that reduces, and their digits: `place` is a data iterator's number, `tap` a reduced one's, -1
// where all of the mask is about the place. A tap is in as many digits as are needed for one to be left; 1: none.
struct Phase {
  int place = 0, tap = -1;
  int64_t places = 1, taps = 1;
};
std::vector<Phase> FindPhases(ir::Context& c, const ir::Stage& s);
// The part of a stage's steps that its phases leave.
double DensityOf(ir::Context& c, const ir::Stage& s);

// Steps that cut `stages`, a reduction into an allocation and stages over the same data iterators, into the phases of
// the first. Gives the names of its digits.
StatusOr<std::vector<std::string>> SplitPhases(ir::Schedule& s, const std::vector<Phase>& phases,
                                               const std::vector<std::string>& stages);

}  // namespace cinn_like::hlir
