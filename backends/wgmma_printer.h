// Products by the matrix units of four warps (ir/mma.h, wgmma_m64k16) as CUDA text. Operands are read from shared
// memory as panels: rows of N elements, N a multiple of 64, lie where the helper cinn_panel<N> says, in which order no
// program can tell; the left one can be in registers (Scope::kWarp). The units read and add later than the text says,
// until Await.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/expr_printer.h"
#include "backends/mma_printer.h"
#include "ir/mma.h"

namespace cinn_like::backends {

class WgmmaPrinter {
 public:
  WgmmaPrinter(const Dialect& dialect, const ir::Func& f, ExprPrinter& printer, MmaPrinter& parts, TextBuilder& out)
      : d_(dialect), f_(f), printer_(printer), parts_(parts), out_(out) {}

  // Tells the printer which memory of the function is panels. First of all.
  Status FindPanels();
  bool HasPanels() const { return has_panels_; }
  // The products of all nests, which stand in loops `around`, as one group. `from_zero`: their sums start there, of
  // which StartsFromZero is true.
  Status Multiply(const std::vector<ir::MmaNest>& nests, const std::vector<const ir::For*>& around,
                  bool from_zero = false);
  // The nests add to all elements of one thread's sums, which `zeros` are.
  static bool StartsFromZero(const std::vector<ir::Stmt>& zeros, const std::vector<ir::MmaNest>& nests);
  // Waits for all but the last `groups`; `sums`, if it is not null, is what those add to.
  void Await(int groups, ir::Buffer sums);

 private:
  Status FindIn(const ir::Stmt& s);
  // Prints the descriptor of an operand, a name that begins with `name`, if there is none yet; its text.
  StatusOr<std::string> Operand(const ir::MmaNest::Operand& x, std::string_view name);

  const Dialect& d_;
  const ir::Func& f_;
  ExprPrinter& printer_;
  MmaPrinter& parts_;
  TextBuilder& out_;
  std::vector<const ir::For*> around_;
  bool has_panels_ = false;
  absl::flat_hash_map<std::pair<ir::Buffer, ir::Expr>, std::string> operands_;  // descriptors, by their first element
  int operand_count_ = 0;
};

}  // namespace cinn_like::backends
