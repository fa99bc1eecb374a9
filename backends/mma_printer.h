// Products by matrix units (ir/mma.h) as C-family text: a warp's fragments of both operands, loaded from shared memory
// by the helper cinn_ldmatrix, then cinn_mma of each pair of them, which adds to a thread's sums in registers.
#pragma once
#include <string>

#include "backends/expr_printer.h"
#include "ir/mma.h"

namespace cinn_like::backends {

class MmaPrinter {
 public:
  MmaPrinter(const Dialect& dialect, const ir::Func& f, ExprPrinter& printer, TextBuilder& out)
      : d_(dialect), printer_(printer), out_(out), analyzer_(f) {}

  // A number for names of one nest's fragments.
  int NewFragments() { return fragments_++; }
  // Loads fragments number `id`: `declare` starts each line, "const uint4 ", or "" where they are declared already.
  Status Load(const ir::MmaNest& m, int id, std::string_view declare);
  Status Multiply(const ir::MmaNest& m, int id);

 private:
  Status LoadOperand(const ir::MmaNest::Operand& x, std::string_view name, int64_t tiles, std::string_view row,
                     std::string_view k, std::string_view declare);

  const Dialect& d_;
  ExprPrinter& printer_;
  TextBuilder& out_;
  ir::Analyzer analyzer_;
  int fragments_ = 0, loads_ = 0;
};

}  // namespace cinn_like::backends
