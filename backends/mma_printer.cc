#include "backends/mma_printer.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_replace.h"
#include "ir/linear.h"

namespace cinn_like::backends {
namespace {
constexpr int64_t kMatrixRow = 8;  // elements
constexpr int64_t kWarp = 32;      // threads

using ir::Expr;

const ir::For* LoopOf(Expr var, const std::vector<const ir::For*>& around) {
  const auto it = std::find_if(around.begin(), around.end(), [&](const ir::For* n) { return n->var == var; });
  return it == around.end() ? nullptr : *it;
}

}  // namespace

// The unit takes 8x8 matrices: of 16 rows of the left operand by 16 k in the order (row, k) = (0, 0), (8, 0), (0, 8),
// (8, 8); of the right one's in the order (0, 0), (0, 8), (8, 0), (8, 8), which are two tiles. Lane l gives the address
// of row l % 8 of matrix l / 8; where memory is contiguous along rows, that "row" is a k, and matrices are transposed
// on their way.
Status MmaPrinter::Load(const ir::MmaNest& m, int id, std::string_view declare,
                        const std::vector<const ir::For*>& around) {
  const std::string n = Cat(loads_++), lane = Cat("l", n);
  out_.Line("const int ", lane, " = ", d_.axes[4], " * 4 + ", d_.axes[3], ";");
  const std::string low = Cat("(", lane, " & 7) + (", lane, " >> 4) * 8"), first = Cat("(", lane, " & 15)"),
                    odd = Cat("(", lane, " >> 3 & 1) * 8"), high = Cat("(", lane, " >> 4) * 8");
  const bool left = m.lhs.k_step == 1, right = m.rhs.k_step == 1;
  if (m.lhs.buffer->scope == ir::Scope::kWarp)
    RETURN_IF_ERROR(LoadPart(m.lhs, Cat("a", id), m.m_tiles, declare, around));
  else
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

// A warp's own memory in fragments: a thread has, of each 8 rows, two of each 8 columns; these pairs lie in the order
// of rows, then of columns. A left operand of 16 rows and columns is the pairs of (rows, columns) (0, 0), (8, 0), (0,
// 8), (8, 8).
void MmaPrinter::FindParts(const ir::Stmt& s) {
  std::vector<const ir::For*> around;
  std::function<void(const ir::Stmt&)> walk = [&](const ir::Stmt& x) {
    const auto* n = ir::As<ir::For>(x);
    if (n != nullptr && (n->kind == ir::ForKind::kMma || n->kind == ir::ForKind::kWgmma)) {
      const StatusOr<ir::MmaNest> m = ir::MatchMma(c_, *n, around, n->kind);
      if (m.ok() && m->lhs.buffer->scope == ir::Scope::kWarp) row_steps_[m->lhs.buffer] = m->lhs.row_step;
      return;
    }
    if (n != nullptr) around.push_back(n);
    ir::ForEachChild(x, [](Expr) {}, walk);
    if (n != nullptr) around.pop_back();
  };
  walk(s);
}

StatusOr<int64_t> MmaPrinter::PartOf(ir::Buffer b) const {
  if (!row_steps_.contains(b) || !ir::IsInt(b->shape[0]))
    return Unimplemented("no ", d_.name, " text for memory ", b->name, " of a warp, which no matrix unit reads");
  return b->shape[0]->int_value / kWarp;
}

StatusOr<Expr> MmaPrinter::IndexInPart(ir::Buffer b, Expr index, const std::vector<const ir::For*>& around) const {
  const auto it = row_steps_.find(b);
  const auto unknown = [&] {
    return Unimplemented("no ", d_.name, " text for memory ", b->name, " of a warp at ", ir::Print(index));
  };
  if (it == row_steps_.end()) return unknown();
  if (index->op == ir::ExprOp::kRamp) {
    ASSIGN_OR_RETURN(const Expr first, IndexInPart(b, index->args[0], around));
    return c_.WithArgs(index, {first, index->args[1]});
  }
  const int64_t step = it->second;
  const auto in_part = [&](int64_t n) {
    return n / step / kMatrixRow * (step / 4) + n % step / kMatrixRow * 2 + n % kMatrixRow % 2;
  };
  ir::Linear l = ir::ToLinear(c_, index), r;
  for (const ir::LinearTerm& t : l.terms) {
    // What only threads' numbers are in is the same in all their parts.
    bool is_threads = true;
    ir::Visit(t.atom, [&](Expr e) {
      const ir::For* n = e->op == ir::ExprOp::kVar ? LoopOf(e, around) : nullptr;
      return is_threads &= e->op != ir::ExprOp::kVar || (n != nullptr && ir::IsThreadAxis(n->kind));
    });
    if (is_threads) continue;
    if (LoopOf(t.atom, around) == nullptr) return unknown();
    ir::AddTerm(r, t.atom, in_part(t.coef.value));
  }
  ir::AddConstant(r, in_part(l.constant.value));
  return ir::FromLinear(c_, r, index->type.dtype);
}

Status MmaPrinter::LoadPart(const ir::MmaNest::Operand& x, std::string_view name, int64_t tiles,
                            std::string_view declare, const std::vector<const ir::For*>& around) {
  ASSIGN_OR_RETURN(const Expr base, IndexInPart(x.buffer, x.base, around));
  printer_.Begin({base});
  const std::string first = printer_.Print(base);
  const int64_t half = x.row_step / 4;
  for (int64_t i = 0; i < tiles; ++i) {
    std::string text(d_.word_makers[2]);
    const int64_t pairs[] = {0, half, 2, half + 2};
    for (size_t k = 0; k < 4; ++k) {
      absl::StrReplaceAll({{Cat("$", k), Cat("*(const ", d_.word_types[0], "*)(", printer_.NameOf(x.buffer), " + ",
                                             first, " + ", i * 2 * half + pairs[k], ")")}},
                          &text);
    }
    out_.Line(declare, name, "_", i, " = ", text, ";");
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
