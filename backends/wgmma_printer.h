// Products by the matrix units of four warps (ir/mma.h, wgmma_m64k16) as CUDA text. Both operands are read from shared
// memory as panels: rows of N elements, N a multiple of 64, lie where the helper cinn_panel<N> says, in which order no
// program can tell. The units read and add later than the text says, until Await.
#pragma once
#include <string>
#include <vector>

#include "backends/expr_printer.h"
#include "ir/mma.h"

namespace cinn_like::backends {

class WgmmaPrinter {
 public:
  WgmmaPrinter(const Dialect& dialect, const ir::Func& f, ExprPrinter& printer, TextBuilder& out)
      : d_(dialect), f_(f), printer_(printer), out_(out) {}

  // Tells the printer which memory of the function is panels. First of all.
  Status FindPanels();
  bool HasPanels() const { return has_panels_; }
  // The products of all nests as one group.
  Status Multiply(const std::vector<ir::MmaNest>& nests);
  // Waits for all but the last `groups`.
  void Await(int groups);

 private:
  Status FindIn(const ir::Stmt& s);
  // Prints the descriptor of an operand; its name, which begins with `name`.
  StatusOr<std::string> Operand(const ir::MmaNest::Operand& x, std::string_view name);

  const Dialect& d_;
  const ir::Func& f_;
  ExprPrinter& printer_;
  TextBuilder& out_;
  std::vector<const ir::For*> around_;
  bool has_panels_ = false;
  int operands_ = 0;
};

}  // namespace cinn_like::backends
