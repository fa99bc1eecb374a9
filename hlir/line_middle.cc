#include "hlir/line_middle.h"

#include <algorithm>

#include "ir/analyzer.h"
#include "ir/linear.h"

namespace cinn_like::hlir {
namespace {

using ir::Expr;
using ir::ExprOp;

// The place where a >= b begins or ends to hold: the answer is another one from there on.
void AddChange(ir::Context& c, Expr a, Expr b, Expr var, bool is_equal, std::vector<ir::Linear>& changes) {
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

// x % period of what is at most one before or beyond it: x in its middle. Not the digits of a number.
bool Wraps(ir::Analyzer& a, Expr e) {
  ir::Context& c = a.context();
  if (e->op != ExprOp::kMod || e->type != ir::kIndexType) return false;
  Expr x = e->args[0], period = e->args[1];
  return a.CanProve(c.Le(c.Int(0), c.Add(x, period))) && a.CanProve(c.Lt(x, c.Mul(period, c.Int(2))));
}

// The places where what `e` asks is answered otherwise.
void AddChanges(ir::Analyzer& analyzer, Expr e, Expr var, std::vector<ir::Linear>& changes) {
  ir::Context& c = analyzer.context();
  if (e->args.empty() || e->args[0]->type != ir::kIndexType) return;
  Expr a = e->args[0], b = e->args.size() > 1 ? e->args[1] : nullptr;
  switch (e->op) {
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kLt:
      return AddChange(c, a, b, var, /*is_equal=*/false, changes);
    case ExprOp::kLe:
      return AddChange(c, b, a, var, /*is_equal=*/false, changes);
    case ExprOp::kEq:
    case ExprOp::kNe:
      return AddChange(c, a, b, var, /*is_equal=*/true, changes);
    case ExprOp::kAbs:
      return AddChange(c, a, c.Int(0), var, /*is_equal=*/false, changes);
    case ExprOp::kMod:
      if (!Wraps(analyzer, e)) return;
      AddChange(c, a, c.Int(0), var, /*is_equal=*/false, changes);
      return AddChange(c, a, b, var, /*is_equal=*/false, changes);
    default:
      return;
  }
}

}  // namespace

std::optional<LineMiddle> FindLineMiddle(ir::Context& c, const ir::Stage& s, const ir::StageIter& iter,
                                         const std::vector<ir::SymbolFact>& symbols) {
  constexpr int64_t kMostAround = 64, kManyParts = 3;
  // Asked of elements one by one: where an index bends, or where several parts join.
  int64_t parts = 0;
  bool bends = false;
  const auto analyzer_of = [&](int64_t front, int64_t back) {
    ir::Analyzer a(c);
    for (const ir::SymbolFact& f : symbols) a.BindSymbol(f);
    a.BindRange(iter.var, c.Int(front), a.Simplify(c.Sub(iter.extent, c.Int(front + back))));
    return a;
  };
  ir::Analyzer line = analyzer_of(0, 0);
  for (Expr value : s.values) {
    ir::Visit(value, [&](Expr e) {
      if (e->op != ExprOp::kLoad) return true;
      parts += e->has_mask && ir::Uses(ir::MaskOf(e), iter.var);
      for (Expr index : ir::IndicesOf(e)) {
        ir::Visit(index, [&](Expr i) {
          const bool can_bend = i->op == ExprOp::kMin || i->op == ExprOp::kMax || i->op == ExprOp::kAbs;
          bends |= ir::Uses(i, iter.var) && (can_bend || Wraps(line, i));
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
    ir::Analyzer a = analyzer_of(r.front, r.back);
    std::vector<ir::Linear> changes;
    for (Expr value : s.values) {
      ir::Visit(a.Simplify(value), [&](Expr e) {
        AddChanges(a, e, iter.var, changes);
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
