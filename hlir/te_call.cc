#include "hlir/te_call.h"

#include <cmath>

#include "hlir/ops/widen.h"

namespace cinn_like::hlir {

using ir::Expr;
using ir::ExprOp;

Expr Widened(ir::Context& c, Expr e) { return IsHalf(e->type.dtype) ? c.Cast(DType::kF32, e) : e; }

Expr Converted(ir::Context& c, DType t, Expr e) {
  if (e->type.dtype == t) return e;
  if (t == DType::kBool) {
    const Expr wide = Widened(c, e);
    return c.Make(ExprOp::kNe, {wide, c.Const(0, wide->type.dtype)});
  }
  return c.Cast(t, e);
}

Expr ToConst(const TeCall& call, const Attr& number, DType t) {
  ir::Context& c = call.c;
  const double* real = std::get_if<double>(&number);
  if (real) {
    if (IsFloat(t)) return c.Float(*real, t);
    if (t == DType::kBool) return c.Bool(*real != 0);
    // Out of range and NaN have no integer; 2^63 is the first double above.
    const bool fits = *real > -9.3e18 && *real < 9.223372036854775807e18;
    return c.Int(ir::WrapTo(t, fits ? static_cast<int64_t>(std::max(*real, -9223372036854775808.0)) : 0), t);
  }
  const Dim& dim = std::get<Dim>(number);
  const auto value = dim.AsConst();
  if (!value) return Converted(c, t, call.ToExpr(dim));
  if (IsFloat(t)) return c.Float(static_cast<double>(*value), t);
  return t == DType::kBool ? c.Bool(*value != 0) : c.Int(ir::WrapTo(t, *value), t);
}

Expr ToExpr(ir::Context& c, const SymbolVars& symbol, const Dim& d) {
  return d.Fold<Expr>([&](int64_t v) { return c.Int(v); }, symbol,
                      [&](char op, const Expr& a, const Expr& b) -> Expr {
                        if (op == '*') return c.Mul(a, b);
                        if (op == '/') return c.Div(a, b);
                        if (op == '%') return c.Mod(a, b);
                        const bool negative = ir::IsInt(b) && b->int_value < 0;
                        return negative ? c.Sub(a, c.Int(-WrapInt(b->int_value))) : c.Add(a, b);
                      });
}

std::vector<Expr> ToExprs(ir::Context& c, const SymbolVars& symbol, const Dims& dims) {
  std::vector<Expr> exprs;
  for (const Dim& d : dims) exprs.push_back(ToExpr(c, symbol, d));
  return exprs;
}

Expr TeCall::At(size_t k, std::vector<Expr> indices, Expr mask) const {
  return te.At(operands[k], std::move(indices), mask);
}

Expr TeCall::AtBroadcast(size_t k, ir::Indices indices) const {
  const Dims &from = operand_types[k].dims, &to = result_types[0].dims;
  const size_t skipped = to.size() - from.size();
  std::vector<Expr> at;
  for (size_t i = 0; i < from.size(); ++i) {
    at.push_back(from[i] == Dim(1) ? c.Int(0) : indices[skipped + i]);
  }
  return At(k, std::move(at));
}

ir::Buffer TeCall::Compute(const std::function<Expr(ir::Indices)>& value) const {
  const TensorType& type = result_types[0];
  return te.Compute(name, type.dtype, ToExprs(type.dims),
                    [&](ir::Indices i) { return Converted(c, type.dtype, value(i)); });
}

ir::Buffer TeCall::Stored(size_t k, ir::Buffer wide) const {
  const TensorType& type = result_types[k];
  if (wide->dtype == type.dtype) return wide;
  return te.Compute(name, type.dtype, ToExprs(type.dims),
                    [&](ir::Indices i) { return Converted(c, type.dtype, te.At(wide, i)); });
}

ir::Buffer TeCall::Reduce(ir::Combiner combiner, const Dims& extents,
                          const std::function<Expr(ir::Indices, ir::Indices)>& element,
                          std::optional<DType> accumulator) const {
  const DType wide = accumulator.value_or(WideOf(result_types[0].dtype));
  const Expr neutral = ir::Identity(c, combiner, wide);
  if (ProductOf(extents) == Dim(0)) return Compute([&](ir::Indices) { return neutral; });
  // A stage initialises its result at the first reduction step, so there must be one: an extent that may be 0 takes at
  // least one step, of the neutral element.
  std::vector<Expr> steps;
  std::vector<bool> may_be_empty;
  for (const Dim& d : extents) {
    may_be_empty.push_back(RangeOf(d, symbols).lo < 1);
    steps.push_back(may_be_empty.back() ? c.Max(ToExpr(d), c.Int(1)) : ToExpr(d));
  }
  return Stored(
      0, te.Reduce(name, combiner, wide, ToExprs(result_types[0].dims), steps, [&](ir::Indices i, ir::Indices r) {
        const Expr value = Widened(c, element(i, r));
        Expr inside = c.Bool(true);
        for (size_t k = 0; k < extents.size(); ++k) {
          if (may_be_empty[k]) inside = c.And(inside, c.Lt(r[k], ToExpr(extents[k])));
        }
        if (ir::IsTrue(inside)) return value;
        const Expr masked = ir::Rewriter(c, [&](Expr e) -> Expr {
          if (e->op != ExprOp::kLoad) return nullptr;
          const Expr own = ir::MaskOf(e);
          return c.Load(e->buffer, ir::IndicesOf(e), own ? c.And(inside, own) : inside);
        })(value);
        return c.Make(ExprOp::kSelect, {inside, masked, neutral});
      }));
}

Expr TeCall::InRange(Expr e, const Dim& extent) const { return c.And(c.Le(c.Int(0), e), c.Lt(e, ToExpr(extent))); }

}  // namespace cinn_like::hlir
