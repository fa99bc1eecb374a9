#include "backends/mma_printer.h"

namespace cinn_like::backends {
namespace {
constexpr int64_t kMatrixRow = 8;  // elements
}  // namespace

// The unit takes 8x8 matrices: of 16 rows of the left operand by 16 k in the order (row, k) = (0, 0), (8, 0), (0, 8),
// (8, 8); of the right one's in the order (0, 0), (0, 8), (8, 0), (8, 8), which are two tiles. Lane l gives the address
// of row l % 8 of matrix l / 8; where memory is contiguous along rows, that "row" is a k, and matrices are transposed
// on their way.
Status MmaPrinter::Load(const ir::MmaNest& m, int id, std::string_view declare) {
  const std::string n = Cat(loads_++), lane = Cat("l", n);
  out_.Line("const int ", lane, " = ", d_.axes[4], " * 4 + ", d_.axes[3], ";");
  const std::string low = Cat("(", lane, " & 7) + (", lane, " >> 4) * 8"), first = Cat("(", lane, " & 15)"),
                    odd = Cat("(", lane, " >> 3 & 1) * 8"), high = Cat("(", lane, " >> 4) * 8");
  const bool left = m.lhs.k_step == 1, right = m.rhs.k_step == 1;
  RETURN_IF_ERROR(LoadOperand(m.lhs, Cat("a", id), m.m_tiles, left ? first : odd, left ? high : low, declare));
  return LoadOperand(m.rhs, Cat("b", id), m.n_tiles / 2, right ? low : high, right ? odd : first, declare);
}

Status MmaPrinter::LoadOperand(const ir::MmaNest::Operand& x, std::string_view name, int64_t tiles,
                               std::string_view row, std::string_view k, std::string_view declare) {
  const int64_t pitch = x.k_step == 1 ? x.row_step : x.k_step, bytes = BytesOf(x.buffer->dtype);
  if (pitch % kMatrixRow != 0 || analyzer_.KnownDivisor(x.base) % kMatrixRow != 0) {
    return Unimplemented("no ", d_.name, " text for a matrix in ", x.buffer->name,
                         " whose rows do not begin at 16 bytes");
  }
  const std::string address = Cat("at", loads_++);
  printer_.Begin({x.base});
  const std::string base = printer_.Print(x.base);
  out_.Line("const unsigned int ", address, " = cinn_shared_address(", printer_.NameOf(x.buffer), ") + ((", base,
            ") + (", row, ") * ", x.row_step, " + (", k, ") * ", x.k_step, ") * ", bytes, ";");
  for (int64_t i = 0; i < tiles; ++i) {
    out_.Line(declare, name, "_", i, " = cinn_ldmatrix", x.k_step == 1 ? "" : "_trans", "(", address, " + ",
              i * 16 * x.row_step * bytes, ");");
  }
  return absl::OkStatus();
}

Status MmaPrinter::Multiply(const ir::MmaNest& m, int id) {
  if (!ir::IsInt(m.acc_base)) return Unimplemented("no ", d_.name, " text for sums at ", ir::Print(m.acc_base));
  for (int64_t j = 0; j < m.n_tiles; ++j) {
    for (int64_t i = 0; i < m.m_tiles; ++i) {
      std::string sums;
      for (const int64_t at : {int64_t{0}, m.acc_l, m.acc_h, m.acc_h + m.acc_l}) {
        const int64_t index = m.acc_base->int_value + i * m.acc_i + j * m.acc_j + at;
        sums += Cat(printer_.NameOf(m.acc), "[", index, "], ");
      }
      const std::string right = Cat("b", id, "_", j / 2);
      out_.Line("cinn_mma_", Name(m.lhs.buffer->dtype), "(", sums, "a", id, "_", i, ", ", right,
                j % 2 == 0 ? ".x, " : ".z, ", right, j % 2 == 0 ? ".y);" : ".w);");
    }
  }
  return absl::OkStatus();
}

}  // namespace cinn_like::backends
