#include "hlir/line_middle.h"

#include <algorithm>

#include "ir/analyzer.h"
#include "ir/linear.h"

namespace cinn_like::hlir {
namespace {

using ir::Expr;
using ir::ExprOp;

// The places where an answer changes: it is another one from there on.
void AddChanges(ir::Context& c, Expr e, Expr var, std::vector<ir::Linear>& changes) {
  Expr a = nullptr, b = nullptr;
  const bool is_equal = e->op == ExprOp::kEq || e->op == ExprOp::kNe;
  if (e->op == ExprOp::kMin || e->op == ExprOp::kMax || e->op == ExprOp::kLt || is_equal)
    a = e->args[0], b = e->args[1];
  else if (e->op == ExprOp::kLe)
    a = e->args[1], b = e->args[0];
  else if (e->op == ExprOp::kAbs)
    a = e->args[0], b = c.Const(0, a->type.dtype);
  if (a == nullptr || a->type != ir::kIndexType) return;
  // a - b >= 0, as var >= first or var < first
  ir::Linear d = ir::AddScaled(ir::ToLinear(c, a), ir::ToLinear(c, b), -1);
  const auto term =
      std::find_if(d.terms.begin(), d.terms.end(), [&](const ir::LinearTerm& t) { return t.atom == var; });
  if (!d.exact || term == d.terms.end() || (term->coef != 1 && term->coef != -1)) return;
  const bool rises = term->coef == 1;
  ir::RemoveTerm(d, var);
  if (std::any_of(d.terms.begin(), d.terms.end(), [&](const ir::LinearTerm& t) { return ir::Uses(t.atom, var); }))
    return;
  ir::Linear first = rises ? ir::Scale(d, -1) : d;
  if (!rises && !is_equal) ir::AddConstant(first, 1);
  changes.push_back(first);
  if (!is_equal) return;
  ir::AddConstant(first, 1);
  changes.push_back(first);
}

}  // namespace

std::optional<LineMiddle> FindLineMiddle(ir::Context& c, const ir::Stage& s, const ir::StageIter& iter,
                                         const std::vector<ir::SymbolFact>& symbols) {
  constexpr int64_t kMostAround = 64, kManyParts = 3;
  // Asked of elements one by one: where an index bends, or where several parts join.
  int64_t parts = 0;
  bool bends = false;
  for (Expr value : s.values) {
    ir::Visit(value, [&](Expr e) {
      if (e->op != ExprOp::kLoad) return true;
      parts += e->has_mask && ir::Uses(ir::MaskOf(e), iter.var);
      for (Expr index : ir::IndicesOf(e)) {
        ir::Visit(index, [&](Expr i) {
          bends |= (i->op == ExprOp::kMin || i->op == ExprOp::kMax || i->op == ExprOp::kAbs) && ir::Uses(i, iter.var);
          return true;
        });
      }
      return true;
    });
  }
  if (!bends && parts < kManyParts) return std::nullopt;

  LineMiddle r;
  const int64_t length = ir::IsInt(iter.extent) ? iter.extent->int_value : -1;
  for (int step = 0; step < 2 * kManyParts + 2; ++step) {
    ir::Analyzer a(c);
    for (const ir::SymbolFact& f : symbols) a.BindSymbol(f);
    a.BindRange(iter.var, c.Int(r.front), a.Simplify(c.Sub(iter.extent, c.Int(r.front + r.back))));
    std::vector<ir::Linear> changes;
    for (Expr value : s.values) {
      ir::Visit(a.Simplify(value), [&](Expr e) {
        AddChanges(c, e, iter.var, changes);
        return true;
      });
    }
    // The nearest to an end.
    LineMiddle next = r;
    int64_t least = kMostAround + 1;
    for (const ir::Linear& change : changes) {
      const int64_t front = change.IsConst() ? int64_t{change.constant} : -1;
      const Expr rest = a.Simplify(c.Sub(iter.extent, ir::FromLinear(c, change, DType::kI64)));
      const int64_t back = ir::IsInt(rest) ? rest->int_value : -1;
      if (front > r.front && front < least && (length < 0 || front + r.back < length)) {
        least = front;
        next = {front, r.back};
      }
      if (back > r.back && back < least && (length < 0 || back + r.front < length)) {
        least = back;
        next = {r.front, back};
      }
    }
    if (least > kMostAround) break;
    r = next;
  }
  if (r.front + r.back == 0 || (length >= 0 && r.front + r.back >= length / 2)) return std::nullopt;
  return r;
}

}  // namespace cinn_like::hlir
