#include "backends/wgmma_printer.h"

#include <algorithm>
#include <set>

#include "ir/linear.h"

namespace cinn_like::backends {
namespace {

using ir::Expr;
using ir::kPanelLine;
using PanelOperand = ir::MmaNest::Operand;

constexpr int64_t kBlockBytes = 1024;  // of 8 lines
constexpr int64_t kDepth = 16;

// Elements of a row of the panel: rows are those of the operand, or its k.
int64_t PitchOf(const PanelOperand& x) { return x.k_step == 1 ? x.row_step : x.k_step; }

}  // namespace

Status WgmmaPrinter::FindPanels() { return d_.has_wgmma && f_.body != nullptr ? FindIn(f_.body) : absl::OkStatus(); }

Status WgmmaPrinter::FindIn(const ir::Stmt& s) {
  const auto* loop = ir::As<ir::For>(s);
  if (loop != nullptr && loop->kind == ir::ForKind::kWgmma) {
    ASSIGN_OR_RETURN(const ir::MmaNest m, ir::MatchMma(*f_.context, *loop, around_, loop->kind));
    for (const PanelOperand* x : {&m.lhs, &m.rhs}) {
      if (x->buffer->scope == ir::Scope::kWarp) continue;
      const int64_t pitch = PitchOf(*x);
      if (pitch % kPanelLine != 0)
        return Unimplemented("no ", d_.name, " text for a panel in ", x->buffer->name, " whose rows have ", pitch,
                             " elements, which is no multiple of ", kPanelLine);
      if (!printer_.NotePanel(x->buffer, pitch))
        return Unimplemented("no ", d_.name, " text for ", x->buffer->name, " as panels of two widths");
      has_panels_ = true;
    }
    return absl::OkStatus();
  }
  if (loop != nullptr) around_.push_back(loop);
  Status status;
  ir::ForEachChild(s, [&](const ir::Stmt& x) { status.Update(FindIn(x)); });
  if (loop != nullptr) around_.pop_back();
  return status;
}

StatusOr<std::string> WgmmaPrinter::Operand(const PanelOperand& x, std::string_view name) {
  const int64_t pitch = PitchOf(x), group = 8 * pitch;
  // What is not whole groups of 8 rows: the first element within a row.
  ir::Linear within = ir::ToLinear(*f_.context, x.base), groups = within;
  for (size_t i = within.terms.size(); i-- > 0;) {
    if (within.terms[i].coef % group == 0) ir::RemoveTerm(within, within.terms[i].atom);
  }
  const int64_t constant = within.constant;
  within.constant = FloorMod(constant, group);
  const Expr first = ir::FromLinear(*f_.context, within, x.base->type.dtype);
  ir::Analyzer a(f_);
  ir::VisitStmts(f_.body, [&](const ir::Stmt& s) {
    const auto* n = ir::As<ir::For>(s);
    if (n != nullptr) a.BindRange(n->var, f_.context->Int(0, n->var->type.dtype), n->extent);
    return true;
  });
  const ir::Analyzer::Bounds bounds = a.ConstBounds(first);
  const int64_t step = x.k_step == 1 ? kDepth : kPanelLine;
  if (a.KnownDivisor(first) % step != 0 || bounds.lo < 0 || bounds.hi >= pitch) {
    return Unimplemented("no ", d_.name, " text for a panel in ", x.buffer->name, " that begins at ", ir::Print(x.base),
                         ", not at a multiple of 8 rows and ", step, " elements");
  }
  // Constants are added to a descriptor, in 16 bytes: steps along k share one.
  int64_t bytes = 0;
  if (ir::IsInt(first)) {
    bytes = (constant - first->int_value) * 2 + first->int_value / kPanelLine * kBlockBytes +
            first->int_value % kPanelLine * 2;
    groups.constant = 0;
  }
  const Expr base = ir::FromLinear(*f_.context, groups, x.base->type.dtype);
  std::string& made = operands_[{x.buffer, base}];
  if (made.empty()) {
    printer_.Begin({base});
    const std::string at = printer_.Print(base);
    made = Cat(name, operand_count_++);
    out_.Line("const unsigned long long ", made, " = cinn_operand(cinn_shared_address(", printer_.NameOf(x.buffer),
              ") + cinn_panel<", pitch, ">(", at, ") * 2, ", kBlockBytes, ", ", pitch / kPanelLine * kBlockBytes, ");");
  }
  return bytes == 0 ? made : Cat(made, " + ", bytes / 16);
}

bool WgmmaPrinter::StartsFromZero(const std::vector<ir::Stmt>& zeros, const std::vector<ir::MmaNest>& nests) {
  const ir::Buffer sums = nests[0].acc;
  std::set<int64_t> cleared, added;
  for (const ir::Stmt& s : zeros) {
    const auto* store = ir::As<ir::Store>(s);
    if (store == nullptr || store->buffer != sums || store->mask != nullptr || !ir::IsInt(store->indices[0]) ||
        store->value->op != ir::ExprOp::kFloat || store->value->float_value != 0)
      return false;
    cleared.insert(store->indices[0]->int_value);
  }
  for (const ir::MmaNest& m : nests) {
    if (m.acc != sums || !ir::IsInt(m.acc_base)) return false;
    for (int64_t i = 0; i < m.m_tiles; ++i) {
      for (int64_t j = 0; j < m.n_tiles; ++j) {
        for (const int64_t at : {int64_t{0}, m.acc_l, m.acc_h, m.acc_h + m.acc_l})
          added.insert(m.acc_base->int_value + i * m.acc_i + j * m.acc_j + at);
      }
    }
  }
  return cleared == added && static_cast<int64_t>(added.size()) == sums->shape[0]->int_value;
}

Status WgmmaPrinter::Multiply(const std::vector<ir::MmaNest>& nests, const std::vector<const ir::For*>& around,
                              bool from_zero) {
  struct Product {
    std::string a, b;  // a: a descriptor, or four words in registers
    const ir::MmaNest* m;
    int64_t tile;
  };
  std::vector<Product> products;
  operands_.clear();
  for (const ir::MmaNest& m : nests) {
    if (!ir::IsInt(m.acc_base)) return Unimplemented("no ", d_.name, " text for sums at ", ir::Print(m.acc_base));
    ASSIGN_OR_RETURN(const std::string b, Operand(m.rhs, "b"));
    if (m.lhs.buffer->scope == ir::Scope::kWarp) {
      const std::string a = Cat("w", operand_count_++);
      RETURN_IF_ERROR(parts_.LoadPart(m.lhs, a, m.m_tiles, "const uint4 ", around));
      for (int64_t i = 0; i < m.m_tiles; ++i) products.push_back({Cat(a, "_", i), b, &m, i});
      continue;
    }
    for (int64_t i = 0; i < m.m_tiles; ++i) {
      PanelOperand lhs = m.lhs;
      lhs.base = f_.context->Add(lhs.base, f_.context->Int(i * 64 * lhs.row_step, lhs.base->type.dtype));
      ASSIGN_OR_RETURN(const std::string a, Operand(lhs, "a"));
      products.push_back({a, b, &m, i});
    }
  }
  out_.Line("asm volatile(\"wgmma.fence.sync.aligned;\" : : : \"memory\");");
  std::set<int64_t> begun;  // sums, by their first
  for (const Product& p : products) {
    const ir::MmaNest& m = *p.m;
    std::string sums, places;
    int64_t count = 0;
    const bool adds = !begun.insert(m.acc_base->int_value + p.tile * m.acc_i).second || !from_zero;
    for (int64_t j = 0; j < m.n_tiles; ++j) {
      for (const int64_t at : {int64_t{0}, m.acc_l, m.acc_h, m.acc_h + m.acc_l}) {
        const int64_t index = m.acc_base->int_value + p.tile * m.acc_i + j * m.acc_j + at;
        sums += Cat(count == 0 ? "" : ", ", adds ? "\"+f\"(" : "\"=f\"(", printer_.NameOf(m.acc), "[", index, "])");
        places += Cat(count == 0 ? "" : ", ", "%", count);
        ++count;
      }
    }
    const std::string_view type = Name(m.lhs.buffer->dtype);
    const bool in_registers = m.lhs.buffer->scope == ir::Scope::kWarp;
    const std::string a = in_registers ? Cat("{%", count, ", %", count + 1, ", %", count + 2, ", %", count + 3, "}")
                                       : Cat("%", count),
                      order_of_a = in_registers        ? ""
                                   : m.lhs.k_step == 1 ? "0, "
                                                       : "1, ",
                      words = in_registers ? Cat("\"r\"(", p.a, ".x), \"r\"(", p.a, ".y), \"r\"(", p.a, ".z), \"r\"(",
                                                 p.a, ".w)")
                                           : Cat("\"l\"(", p.a, ")");
    out_.Line("asm volatile(\"wgmma.mma_async.sync.aligned.m64n", m.n_tiles * 8, "k16.f32.", type, ".", type, " {",
              places, "}, ", a, ", %", count + (in_registers ? 4 : 1), ", ", adds ? 1 : 0, ", 1, 1, ", order_of_a,
              m.rhs.k_step == 1 ? 0 : 1, ";\"");
    out_.Line("             : ", sums, " : ", words, ", \"l\"(", p.b, "));");
  }
  out_.Line("asm volatile(\"wgmma.commit_group.sync.aligned;\" : : : \"memory\");");
  return absl::OkStatus();
}

void WgmmaPrinter::Await(int groups, ir::Buffer sums) {
  // They change here: what is computed from them must not go ahead.
  std::string changed;
  for (int64_t i = 0; sums != nullptr && i < sums->shape[0]->int_value; ++i)
    changed += Cat(i == 0 ? "" : ", ", "\"+f\"(", printer_.NameOf(sums), "[", i, "])");
  out_.Line("asm volatile(\"wgmma.wait_group.sync.aligned ", groups, ";\" : ", changed, " : : \"memory\");");
}

}  // namespace cinn_like::backends
