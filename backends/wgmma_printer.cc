#include "backends/wgmma_printer.h"

#include "ir/linear.h"

namespace cinn_like::backends {
namespace {

using ir::Expr;
using PanelOperand = ir::MmaNest::Operand;

constexpr int64_t kLine = 64;          // elements that lie together
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
      const int64_t pitch = PitchOf(*x);
      if (pitch % kLine != 0)
        return Unimplemented("no ", d_.name, " text for a panel in ", x->buffer->name, " whose rows have ", pitch,
                             " elements, which is no multiple of ", kLine);
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
  ir::Linear within = ir::ToLinear(*f_.context, x.base);
  for (size_t i = within.terms.size(); i-- > 0;) {
    if (within.terms[i].coef % group == 0) ir::RemoveTerm(within, within.terms[i].atom);
  }
  within.constant = FloorMod(within.constant, group);
  const Expr first = ir::FromLinear(*f_.context, within, x.base->type.dtype);
  ir::Analyzer a(f_);
  ir::VisitStmts(f_.body, [&](const ir::Stmt& s) {
    const auto* n = ir::As<ir::For>(s);
    if (n != nullptr) a.BindRange(n->var, f_.context->Int(0, n->var->type.dtype), n->extent);
    return true;
  });
  const ir::Analyzer::Bounds bounds = a.ConstBounds(first);
  const int64_t step = x.k_step == 1 ? kDepth : kLine;
  if (a.KnownDivisor(first) % step != 0 || bounds.lo < 0 || bounds.hi >= pitch) {
    return Unimplemented("no ", d_.name, " text for a panel in ", x.buffer->name, " that begins at ", ir::Print(x.base),
                         ", not at a multiple of 8 rows and ", step, " elements");
  }
  printer_.Begin({x.base});
  const std::string base = printer_.Print(x.base);
  const std::string r = Cat(name, operands_++);
  out_.Line("const unsigned long long ", r, " = cinn_operand(cinn_shared_address(", printer_.NameOf(x.buffer),
            ") + cinn_panel<", pitch, ">(", base, ") * 2, ", kBlockBytes, ", ", pitch / kLine * kBlockBytes, ");");
  return r;
}

Status WgmmaPrinter::Multiply(const std::vector<ir::MmaNest>& nests) {
  struct Product {
    std::string a, b;
    const ir::MmaNest* m;
    int64_t tile;
  };
  std::vector<Product> products;
  for (const ir::MmaNest& m : nests) {
    if (!ir::IsInt(m.acc_base)) return Unimplemented("no ", d_.name, " text for sums at ", ir::Print(m.acc_base));
    ASSIGN_OR_RETURN(const std::string b, Operand(m.rhs, "b"));
    for (int64_t i = 0; i < m.m_tiles; ++i) {
      PanelOperand lhs = m.lhs;
      lhs.base = f_.context->Add(lhs.base, f_.context->Int(i * 64 * lhs.row_step, lhs.base->type.dtype));
      ASSIGN_OR_RETURN(const std::string a, Operand(lhs, "a"));
      products.push_back({a, b, &m, i});
    }
  }
  out_.Line("asm volatile(\"wgmma.fence.sync.aligned;\" : : : \"memory\");");
  for (const Product& p : products) {
    const ir::MmaNest& m = *p.m;
    std::string sums, places;
    int64_t count = 0;
    for (int64_t j = 0; j < m.n_tiles; ++j) {
      for (const int64_t at : {int64_t{0}, m.acc_l, m.acc_h, m.acc_h + m.acc_l}) {
        const int64_t index = m.acc_base->int_value + p.tile * m.acc_i + j * m.acc_j + at;
        sums += Cat(count == 0 ? "" : ", ", "\"+f\"(", printer_.NameOf(m.acc), "[", index, "])");
        places += Cat(count == 0 ? "" : ", ", "%", count);
        ++count;
      }
    }
    const std::string_view type = Name(m.lhs.buffer->dtype);
    out_.Line("asm volatile(\"wgmma.mma_async.sync.aligned.m64n", m.n_tiles * 8, "k16.f32.", type, ".", type, " {",
              places, "}, %", count, ", %", count + 1, ", 1, 1, 1, ", m.lhs.k_step == 1 ? 0 : 1, ", ",
              m.rhs.k_step == 1 ? 0 : 1, ";\"");
    out_.Line("             : ", sums, " : \"l\"(", p.a, "), \"l\"(", p.b, "));");
  }
  out_.Line("asm volatile(\"wgmma.commit_group.sync.aligned;\" : : : \"memory\");");
  return absl::OkStatus();
}

void WgmmaPrinter::Await(int groups) {
  out_.Line("asm volatile(\"wgmma.wait_group.sync.aligned ", groups, ";\" : : : \"memory\");");
}

}  // namespace cinn_like::backends
