#include "ir/vector_nests.h"

#include <algorithm>
#include <cmath>

#include "ir/linear.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMostLanes = 64;
constexpr int64_t kTileRows = 16;                                         // and columns, of 4 bytes
constexpr int64_t kMostRows = 16, kMostColumns = 64, kMostUnitBytes = 8;  // of a transposition
constexpr int64_t kMostVectorBytes = 64;

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

// acc[to] = acc[to] + wide(factor) [* wide(factor)], of narrow elements.
struct SumOfProducts {
  Buffer acc = nullptr;
  Expr to = nullptr;
  std::vector<Expr> factors = {};  // loads
};
StatusOr<SumOfProducts> MatchSum(Analyzer& a, const For& loop, ForKind kind, const Stmt& body) {
  const auto refuse = [&](const auto&... why) { return Refuse(kind, loop, why...); };
  const bool is_float = kind == ForKind::kDot2;
  const DType wide = is_float ? DType::kF32 : DType::kI32;
  const Store* s = As<Store>(body);
  if (s == nullptr || s->mask != nullptr || s->buffer->dtype != wide)
    return refuse("expected one store of ", Name(wide), ", without a mask");
  const Expr load = a.context().Load(s->buffer, s->indices);
  if (s->value->op != ExprOp::kAdd || (s->value->args[0] != load && s->value->args[1] != load))
    return refuse("expected what is stored to be added to");
  const Expr product = s->value->args[s->value->args[0] == load ? 1 : 0];
  if (is_float && product->op != ExprOp::kMul) return refuse("expected a product to be added");
  SumOfProducts r{s->buffer, OffsetOf(a, s->buffer, s->indices)};
  const auto is_narrow = [&](DType t) { return is_float ? t == DType::kBF16 : IsByte(t); };
  for (Expr e : product->op == ExprOp::kMul ? product->args : std::vector{product}) {
    const Expr from = e->op == ExprOp::kCast ? e->args[0] : e;
    if (from->op != ExprOp::kLoad || from->has_mask || !is_narrow(from->type.dtype) || e->type.dtype != wide) {
      return refuse("expected ", Name(wide), " of an element of ", is_float ? "bf16" : "i8 or u8",
                    ", without a mask, got ", Print(e));
    }
    r.factors.push_back(from);
  }
  return r;
}

}  // namespace

StatusOr<DotNest> MatchDot(Analyzer& a, const For& loop, ForKind kind) {
  Context& c = a.context();
  const auto refuse = [&](const auto&... why) { return Refuse(kind, loop, why...); };
  const int64_t size = DotSize(kind);
  ASSIGN_OR_RETURN(const Nest nest, NestOf(a, kind, loop));
  if (nest.loops.size() != 2 || !IsInt(nest.loops[1]->extent, size) || loop.extent->int_value < 2 ||
      loop.extent->int_value > kMostLanes)
    return refuse("expected a loop of 2 to ", kMostLanes, " lanes around one of ", size, " steps");
  const Expr lane = loop.var, step = nest.loops[1]->var;
  ASSIGN_OR_RETURN(const SumOfProducts sum, MatchSum(a, loop, kind, nest.body));
  if (!IsStep(c, sum.to, lane, 1) || !IsStep(c, sum.to, step, 0))
    return refuse("expected one sum for each lane, in a row");
  DotNest r{.lanes = static_cast<int>(loop.extent->int_value), .size = static_cast<int>(size), .acc = sum.acc};
  r.acc_base = First(c, First(c, sum.to, lane), step);
  for (size_t k = 0; k < sum.factors.size(); ++k) {
    const Expr from = sum.factors[k], offset = OffsetOf(a, from->buffer, IndicesOf(from));
    const std::optional<int64_t> apart = StepOf(c, offset, lane);
    if (!IsStep(c, offset, step, 1) || !apart || (*apart != 0 && *apart != size)) {
      return refuse("expected ", size, " neighbours, of their own for each lane in a row or the same for all, got ",
                    Print(from));
    }
    DotNest::Operand& operand = k == 0 ? r.lhs : r.rhs;
    operand.buffer = from->buffer;
    operand.base = First(c, First(c, offset, lane), step);
    operand.is_for_all = *apart == 0;
  }
  return r;
}

bool IsOfTiles(const For& loop) {
  const For* inner = As<For>(loop.body);
  return inner != nullptr && As<For>(inner->body) != nullptr;
}

StatusOr<TileNest> MatchTiles(Analyzer& a, const For& loop, ForKind kind) {
  Context& c = a.context();
  const auto refuse = [&](const auto&... why) { return Refuse(kind, loop, why...); };
  const int64_t size = DotSize(kind);
  ASSIGN_OR_RETURN(const Nest nest, NestOf(a, kind, loop));
  const std::vector<const For*>& loops = nest.loops;
  if (loops.size() != 5 || !IsInt(loops[4]->extent, size) || loops[1]->extent->int_value > 2 * kTileRows ||
      loops[2]->extent->int_value > 2 * kTileRows || loops[3]->extent->int_value > kTileRows) {
    return refuse("expected steps of at most ", 2 * kTileRows, " rows, ", 2 * kTileRows, " columns and ", kTileRows,
                  " groups of ", size);
  }
  const Expr step = loop.var, row = loops[1]->var, column = loops[2]->var, group = loops[3]->var,
             member = loops[4]->var;
  ASSIGN_OR_RETURN(const SumOfProducts sum, MatchSum(a, loop, kind, nest.body));
  if (sum.factors.size() != 2) return refuse("expected products to be added");
  const auto number = [](Expr e) { return static_cast<int>(e->int_value); };
  TileNest r{.step = step,
             .extent = loop.extent,
             .rows = number(loops[1]->extent),
             .columns = number(loops[2]->extent),
             .groups = number(loops[3]->extent),
             .size = static_cast<int>(size)};
  // Steps of `offset` along all five, in this order; -1: any, which is the distance of rows.
  const auto matches = [&](Expr offset, std::initializer_list<int64_t> steps, TileNest::Matrix& m) {
    size_t k = 0;
    m.base = offset;
    for (const Expr var : {row, column, group, member}) {
      const int64_t expected = steps.begin()[k++];
      const std::optional<int64_t> found = StepOf(c, offset, var);
      if (!found || (expected >= 0 && *found != expected)) return false;
      if (expected < 0) m.stride = *found;
      m.base = First(c, m.base, var);
    }
    return StepOf(c, offset, step).has_value();
  };
  r.acc.buffer = sum.acc;
  if (!matches(sum.to, {-1, 1, 0, 0}, r.acc) || Uses(r.acc.base, step))
    return refuse("expected sums of a row next to each other, the same ones at each step");
  for (const bool swapped : {false, true}) {
    const Expr x = sum.factors[swapped ? 1 : 0], w = sum.factors[swapped ? 0 : 1];
    r.lhs.buffer = x->buffer, r.rhs.buffer = w->buffer;
    if (matches(OffsetOf(a, x->buffer, IndicesOf(x)), {-1, 0, size, 1}, r.lhs) &&
        matches(OffsetOf(a, w->buffer, IndicesOf(w)), {0, size, -1, 1}, r.rhs))
      return r;
  }
  return refuse("expected one operand's groups in rows, and the other's in columns, got ", Print(sum.factors[0]),
                " and ", Print(sum.factors[1]));
}

bool StartsFromZero(Analyzer& a, const Stmt& init, const TileNest& nest) {
  const auto* rows = As<For>(init);
  const auto* store = rows != nullptr ? As<Store>(rows->body) : nullptr;
  if (store == nullptr || store->buffer != nest.acc.buffer || store->mask != nullptr) return false;
  int64_t elements = 1;
  for (Expr e : store->buffer->shape) elements *= IsInt(e) ? e->int_value : 0;
  const int64_t lanes = store->value->type.lanes;
  const Expr zero = store->value->op == ExprOp::kBroadcast ? store->value->args[0] : store->value;
  const Expr at = store->indices.size() == 1 ? store->indices[0] : nullptr;
  if (at == nullptr || at->op != ExprOp::kRamp || !IsInt(at->args[1], 1) || !IsInt(rows->extent)) return false;
  const bool is_zero =
      (zero->op == ExprOp::kFloat && zero->float_value == 0 && !std::signbit(zero->float_value)) || IsInt(zero, 0);
  return is_zero && StepOf(a.context(), at->args[0], rows->var) == lanes &&
         IsInt(a.Simplify(First(a.context(), at->args[0], rows->var)), 0) &&
         rows->extent->int_value * lanes == elements && nest.rows * nest.columns == elements &&
         nest.acc.stride == nest.columns && IsInt(a.Simplify(nest.acc.base), 0);
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
  // A distance that is a symbol may be shorter than a run: where runs are written one after the other, the last to
  // write an element is the same.
  const Expr next = Substitute(c, r.dst_offset, {{r.column, c.Add(r.column, c.Int(1, r.column->type.dtype))}});
  const bool is_even = columns == nest.loops[0] && !Uses(a.Simplify(c.Sub(next, r.dst_offset)), r.column);
  if (apart ? *apart < rows->extent->int_value * r.unit : !is_even)
    return refuse("expected runs of ", r.dst->name, " to lie apart, by the same distance");
  r.is_dense = apart == rows->extent->int_value * r.unit;
  const int64_t column_extent = columns->extent->int_value, row_extent = rows->extent->int_value;
  r.is_run = r.unit == 1 && column_extent > 1 && column_extent <= kMostColumns && row_extent > 1 &&
             IsPowerOf2(row_extent) && row_extent * BytesOf(r.dst->dtype) <= kMostVectorBytes &&
             IsStep(c, r.src_offset, r.row, column_extent);
  if (!r.is_run && (!IsPowerOf2(column_extent) || !IsPowerOf2(row_extent) || !IsPowerOf2(r.unit) || column_extent < 2 ||
                    row_extent < 2 || column_extent > kMostColumns || row_extent > kMostRows ||
                    r.unit * BytesOf(r.dst->dtype) > kMostUnitBytes)) {
    return refuse("expected powers of 2, or columns of rows without a gap, 2 to ", kMostColumns, " columns, 2 to ",
                  kMostRows, " rows and at most ", kMostUnitBytes, " bytes an element, got ", column_extent, ", ",
                  row_extent, " and ", r.unit * BytesOf(r.dst->dtype));
  }
  r.columns = static_cast<int>(column_extent), r.rows = static_cast<int>(row_extent);
  return r;
}

}  // namespace cinn_like::ir
