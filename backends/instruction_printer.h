// Instructions of a device (ir/intrinsic.h) as C-family text: the row's own, with what it says of its operands.
//
//   "dpu_mm8($c, $c.0, $a, $a.0, $b, $b.0);"  ->  dpu_mm8(r0 + (i3 * 8), 16, s0 + (0), 32, s1 + (i3 * 8), 16);
#pragma once
#include <vector>

#include "backends/expr_printer.h"
#include "ir/stmt.h"

namespace cinn_like::backends {

// The nest of `around.back()` as an instruction of the dialect. False, and nothing is printed, where it is none of
// these: loops that it can't be after all, or for another device.
bool PrintInstruction(const Dialect& d, const ir::Func& f, const std::vector<const ir::For*>& around,
                      ExprPrinter& printer, TextBuilder& out);

}  // namespace cinn_like::backends
