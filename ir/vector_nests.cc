#include "ir/vector_nests.h"

#include <algorithm>

#include "ir/linear.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMostLanes = 64;
constexpr int64_t kMostRows = 16, kMostColumns = 64, kMostUnitBytes = 8;  // of a transposition

struct Nest {
  std::vector<const For*> loops;
  Stmt body;
};

template <class... Args>
Status Refuse(ForKind kind, const For& loop, const Args&... why) {
  return InvalidArgument(Name(kind), " ", loop.var->name, ": ", why...);
}

StatusOr<Nest> NestOf(Analyzer& a, ForKind kind, const For& loop) {
  Context& c = a.context();
  Nest r;
  for (const For* n = &loop; n != nullptr; n = As<For>(r.body)) {
    if (!IsInt(n->extent) || (n != &loop && n->kind != ForKind::kSerial))
      return Refuse(kind, loop, "expected loops of constant extents inside, got ", n->var->name);
    a.BindRange(n->var, c.Int(0, n->var->type.dtype), n->extent);
    r.loops.push_back(n);
    r.body = n->body;
  }
  if (const Block* b = As<Block>(r.body)) {
    if (b->init != nullptr || (b->predicate != nullptr && !IsInt(b->predicate, 1)))
      return Refuse(kind, loop, "block ", b->name, " has a start or a condition");
    r.body = Substitute(c, b->body, Bindings(*b));
  }
  return r;
}

// Digits of an index may be an element's place again.
Expr OffsetOf(Analyzer& a, Buffer b, const std::vector<Expr>& indices) {
  return a.Simplify(ElementOffset(a.context(), b, indices));
}

// How far apart elements are that follow each other in `var`; nullopt: not the same everywhere.
std::optional<int64_t> StepOf(Context& c, Expr offset, Expr var) {
  const Linear l = ToLinear(c, offset);
  if (!l.exact) return std::nullopt;
  int64_t step = 0;
  for (const LinearTerm& t : l.terms) {
    if (t.atom == var)
      step = t.coef;
    else if (Uses(t.atom, var))
      return std::nullopt;
  }
  return step;
}

bool IsStep(Context& c, Expr offset, Expr var, int64_t step) { return StepOf(c, offset, var) == step; }

bool IsPowerOf2(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

Expr First(Context& c, Expr offset, Expr var) { return Substitute(c, offset, {{var, c.Int(0, var->type.dtype)}}); }

}  // namespace

StatusOr<Dot2Nest> MatchDot2(Analyzer& a, const For& loop) {
  Context& c = a.context();
  const auto refuse = [&](const auto&... why) { return Refuse(ForKind::kDot2, loop, why...); };
  ASSIGN_OR_RETURN(const Nest nest, NestOf(a, ForKind::kDot2, loop));
  if (nest.loops.size() != 2 || !IsInt(nest.loops[1]->extent, 2) || loop.extent->int_value < 2 ||
      loop.extent->int_value > kMostLanes)
    return refuse("expected a loop of 2 to ", kMostLanes, " lanes around one of 2 steps");
  const Expr lane = loop.var, step = nest.loops[1]->var;
  const Store* s = As<Store>(nest.body);
  if (s == nullptr || s->mask != nullptr || s->buffer->dtype != DType::kF32)
    return refuse("expected one store of f32, without a mask");
  const Expr load = c.Load(s->buffer, s->indices);
  if (s->value->op != ExprOp::kAdd || (s->value->args[0] != load && s->value->args[1] != load))
    return refuse("expected what is stored to be added to");
  const Expr product = s->value->args[s->value->args[0] == load ? 1 : 0];
  if (product->op != ExprOp::kMul) return refuse("expected a product to be added");
  Dot2Nest r{.lanes = static_cast<int>(loop.extent->int_value), .acc = s->buffer};
  const Expr to = OffsetOf(a, s->buffer, s->indices);
  if (!IsStep(c, to, lane, 1) || !IsStep(c, to, step, 0)) return refuse("expected one sum for each lane, in a row");
  r.acc_base = First(c, First(c, to, lane), step);
  for (size_t k : {0, 1}) {
    const Expr e = product->args[k], from = e->op == ExprOp::kCast ? e->args[0] : e;
    if (from->op != ExprOp::kLoad || from->has_mask || from->type.dtype != DType::kBF16 || e->type.dtype != DType::kF32)
      return refuse("expected f32 of an element of bf16, without a mask, got ", Print(e));
    const Expr offset = OffsetOf(a, from->buffer, IndicesOf(from));
    const std::optional<int64_t> apart = StepOf(c, offset, lane);
    if (!IsStep(c, offset, step, 1) || !apart || (*apart != 0 && *apart != 2))
      return refuse("expected pairs of neighbours, one for each lane in a row or one for all, got ", Print(from));
    Dot2Nest::Operand& operand = k == 0 ? r.lhs : r.rhs;
    operand.buffer = from->buffer;
    operand.base = First(c, First(c, offset, lane), step);
    operand.is_for_all = *apart == 0;
  }
  return r;
}

StatusOr<TransposeNest> MatchTranspose(Analyzer& a, const For& loop) {
  Context& c = a.context();
  const auto refuse = [&](const auto&... why) { return Refuse(ForKind::kTranspose, loop, why...); };
  ASSIGN_OR_RETURN(const Nest nest, NestOf(a, ForKind::kTranspose, loop));
  if (nest.loops.size() != 2 && nest.loops.size() != 3) return refuse("expected a nest of 2 or 3 loops");
  const Store* s = As<Store>(nest.body);
  if (s == nullptr || s->mask != nullptr || s->value->op != ExprOp::kLoad || s->value->has_mask ||
      s->value->type.dtype != s->buffer->dtype || s->value->buffer == s->buffer || s->buffer->dtype == DType::kBool)
    return refuse("expected one store of an element of other memory, without a mask");
  TransposeNest r{.dst = s->buffer, .src = s->value->buffer};
  r.dst_offset = OffsetOf(a, s->buffer, s->indices);
  r.src_offset = OffsetOf(a, r.src, IndicesOf(s->value));
  if (nest.loops.size() == 3) {
    const For& unit = *nest.loops[2];
    if (!IsStep(c, r.dst_offset, unit.var, 1) || !IsStep(c, r.src_offset, unit.var, 1))
      return refuse("expected elements of ", unit.var->name, " next to each other on both sides");
    r.unit = static_cast<int>(std::min<int64_t>(unit.extent->int_value, 1 << 20));
    r.dst_offset = First(c, r.dst_offset, unit.var), r.src_offset = First(c, r.src_offset, unit.var);
  }
  const For* columns = nest.loops[0];
  const For* rows = nest.loops[1];
  if (!IsStep(c, r.src_offset, columns->var, r.unit)) std::swap(columns, rows);
  r.column = columns->var, r.row = rows->var;
  if (!IsStep(c, r.src_offset, r.column, r.unit) || !IsStep(c, r.dst_offset, r.row, r.unit))
    return refuse("expected one loop along neighbours of ", r.src->name, " and the other along those of ", r.dst->name);
  const std::optional<int64_t> apart = StepOf(c, r.dst_offset, r.column);
  if (!apart || *apart < rows->extent->int_value * r.unit)
    return refuse("expected runs of ", r.dst->name, " to lie apart, by the same distance");
  const int64_t column_extent = columns->extent->int_value, row_extent = rows->extent->int_value;
  if (!IsPowerOf2(column_extent) || !IsPowerOf2(row_extent) || !IsPowerOf2(r.unit) || column_extent < 2 ||
      row_extent < 2 || column_extent > kMostColumns || row_extent > kMostRows ||
      r.unit * BytesOf(r.dst->dtype) > kMostUnitBytes) {
    return refuse("expected powers of 2, 2 to ", kMostColumns, " columns, 2 to ", kMostRows, " rows and at most ",
                  kMostUnitBytes, " bytes an element, got ", column_extent, ", ", row_extent, " and ",
                  r.unit * BytesOf(r.dst->dtype));
  }
  r.columns = static_cast<int>(column_extent), r.rows = static_cast<int>(row_extent);
  return r;
}

}  // namespace cinn_like::ir
