// A mean, then a variance: the second sum needs the first one's result, so what both are of is read twice where it does
// not stay near. There both run in one go around a pivot (the step recenter):
//
//   s[] = sum(x[r]);  q[] = sum((x[r] - s[] / n)^2)
//     =>  p[] = median of some x[r];  a[], b[] = sum(x[r] - p[]), sum((x[r] - p[])^2);  s[] = a[] + n * p[];
//         q[] = b[] + d * (n * d - 2 * a[]), d = s[] / n - p[]
//
// Of sums that are split (hlir/split_reductions.h) each part has a pivot of its own.
#pragma once
#include <optional>

#include "cinn_like/base/target.h"
#include "ir/te.h"

namespace cinn_like::hlir {

// The sum beside the sum of squares of stage k, whose result that needs: its index.
std::optional<size_t> FindSumBeside(const ir::TeProgram& program, size_t k);

// The program with those pairs in one go for which it is predicted to pay on `target`. It rounds otherwise: not for
// exact numerics.
ir::TeProgram RecenterSums(ir::TeProgram program, const Target& target, ir::NameSupply& names);

}  // namespace cinn_like::hlir
