// Quotients and remainders by sizes that are no constants, a hundred instructions each on a GPU, are computed once:
// before the loops that do not move them, and before conditions of which several compute one. Of kernels, after
// everything else; only of integers that memory has no part in, and by what is known to be 1 or more.
//
//   for k in 0..m { if k < n { y[tdiv(b, n) * m + k] = x[tmod(b, n) * m + k] } }
//     =>
//   let q = tdiv(b, n)
//   let r = b - q * n
//   for k in 0..m { if k < n { y[q * m + k] = x[r * m + k] } }
//
// What may run seldom in an iteration of a loop stays there: a condition in a loop is passed where all ways through the
// iteration compute the quotient. Nests that run as instructions, calls and the iterations of pipelined loops, which
// emitters read as a whole, stay as they are, and so do kernels of matrix units, whose sums take all registers.
#pragma once
#include "ir/stmt.h"

namespace cinn_like::ir {
StatusOr<Func> HoistQuotients(Func f);
}  // namespace cinn_like::ir
