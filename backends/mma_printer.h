// Products by matrix units (ir/mma.h) as C-family text: a warp's fragments of both operands, loaded from shared memory
// by the helper cinn_ldmatrix, then cinn_mma of each pair of them, which adds to a thread's sums in registers.
#pragma once
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/expr_printer.h"
#include "ir/mma.h"

namespace cinn_like::backends {

class MmaPrinter {
 public:
  MmaPrinter(const Dialect& dialect, const ir::Func& f, ExprPrinter& printer, TextBuilder& out)
      : c_(*f.context), d_(dialect), printer_(printer), out_(out), analyzer_(f) {
    FindParts(f.body);
  }

  // Of memory that is a warp's own, a thread's part lies in the order of its fragments. How many elements that are, and
  // where the element at `index` of all is, one of the thread's in loops `around`.
  StatusOr<int64_t> PartOf(ir::Buffer b) const;
  StatusOr<ir::Expr> IndexInPart(ir::Buffer b, ir::Expr index, const std::vector<const ir::For*>& around) const;

  // A number for names of one nest's fragments.
  int NewFragments() { return fragments_++; }
  // Loads fragments number `id`: `declare` starts each line, "const uint4 ", or "" where they are declared already.
  Status Load(const ir::MmaNest& m, int id, std::string_view declare, const std::vector<const ir::For*>& around);
  Status Multiply(const ir::MmaNest& m, int id);

  // A left operand that is the warp's own, as `name`_0 and so on.
  Status LoadPart(const ir::MmaNest::Operand& x, std::string_view name, int64_t tiles, std::string_view declare,
                  const std::vector<const ir::For*>& around);

 private:
  void FindParts(const ir::Stmt& s);
  Status LoadOperand(const ir::MmaNest::Operand& x, std::string_view name, int64_t tiles, std::string_view row,
                     std::string_view k, std::string_view declare);

  ir::Context& c_;
  const Dialect& d_;
  ExprPrinter& printer_;
  TextBuilder& out_;
  ir::Analyzer analyzer_;
  absl::flat_hash_map<ir::Buffer, int64_t> row_steps_;  // of memory that is a warp's own
  int fragments_ = 0, loads_ = 0;
};

}  // namespace cinn_like::backends
