#include "hlir/tactics/contraction_dots.h"

#include <algorithm>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactic.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

// Whether elements of `load` that follow each other in `var` are `step` apart.
bool IsStep(Analyzer& a, Expr load, Expr var, int64_t step) {
  return IsInt(StepAlong(a, ElementOffset(a.context(), load->buffer, IndicesOf(load)), var), step);
}

Analyzer FactsOf(const FlatContraction& f) {
  Context& c = *f.group.context;
  Analyzer a(c);
  const Stage& acc = f.group.stages[0];
  for (const SymbolFact& fact : f.group.symbols) a.BindSymbol(fact);
  for (const auto* list : {&acc.iters, &acc.reduce_iters}) {
    for (const StageIter& i : *list) a.BindRange(i.var, c.Int(0), i.extent);
  }
  return a;
}

// The same along the lanes of a tile of `width`.
bool IsStepOfLanes(Analyzer& a, const FlatContraction& f, int64_t width, int64_t step) {
  Context& c = a.context();
  const Expr tile = c.Var("tile"), lane = c.Var("lane");
  a.BindRange(tile, c.Int(0), c.CeilDiv(f.j, c.Int(width)));
  a.BindRange(lane, c.Int(0), c.Int(width - 1));  // one more is in the tile, too
  return IsStep(a, Substitute(c, f.of_lanes, {{f.vj, c.Add(c.Mul(tile, c.Int(width)), lane)}}), lane, step);
}

// The iterator to cut: a multiple of a group's `size`, if there is one, and along which the rows' operand lies.
std::optional<size_t> FindCut(Analyzer& a, const FlatContraction& f, int64_t size) {
  const std::vector<StageIter>& reduced = f.group.stages[0].reduce_iters;
  std::optional<size_t> best;
  double least = 0;
  for (size_t d = reduced.size(); d-- > 0;) {
    const Expr extent = reduced[d].extent;
    if (!IsInt(extent) || extent->int_value <= size) continue;
    const int64_t steps = extent->int_value, added = (size - steps % size) % size;
    const double price =
        static_cast<double>(added) / static_cast<double>(steps) + (IsStep(a, f.of_rows, reduced[d].var, 1) ? 0 : 0.01);
    if (best && price >= least) continue;
    best = d, least = price;
  }
  return best;
}

// Of vectors.
double RateOf(ForKind kind, const Target& target) {
  const SpeedRow& speeds = SpeedsOf(target);
  return kind == ForKind::kDot2 ? speeds.own_dot2 : speeds.own_dot4;
}

// Whether the processor has a matrix unit for it, which a target can name or leave out.
bool HasTiles(const Target& target, ForKind kind) {
  const std::string_view unit = kind == ForKind::kDot2 ? "amx-bf16" : "amx-int8";
  for (auto f = target.features.rbegin(); f != target.features.rend(); ++f) {
    const std::string_view name = std::string_view(*f).substr(1);
    if (name == unit) return f->front() == '+';
    if (name == "amx-tile" && f->front() == '-') return false;
  }
  if (target.device != &HostKind()) return false;
  const SpeedRow* row = FindSpeedRow(target.device->speed_class(target.RowName()));
  return row != nullptr && (kind == ForKind::kDot2 ? row->own_tile2 : row->own_tile4) > 0;
}

// The instruction for `group`, exact or not.
std::optional<ForKind> KindOf(const TeProgram& group, const Target& target) {
  const Stage& acc = group.stages[0];
  const std::optional<Contraction> con = FindProduct(acc);
  if (!con) return std::nullopt;
  const auto are = [&](const auto& is_narrow) {
    const auto is = [&](Expr e) { return e->op == ExprOp::kCast && is_narrow(e->args[0]->type.dtype); };
    return is(con->lhs) && is(con->rhs);
  };
  const DType sum = acc.outputs[0]->dtype;
  std::optional<ForKind> r;
  if (sum == DType::kF32 && !group.exact && are([](DType t) { return t == DType::kBF16; })) r = ForKind::kDot2;
  if (sum == DType::kI32 && are([](DType t) { return IsByte(t); })) r = ForKind::kDot4;
  return r && (RateOf(*r, target) > 0 || HasTiles(target, *r)) ? r : std::nullopt;
}

}  // namespace

bool MayHaveDots(const TeProgram& group, const Target& target) { return KindOf(group, target).has_value(); }

bool MayHaveTiles(const TeProgram& group, const Target& target) {
  const std::optional<ForKind> kind = KindOf(group, target);
  return kind && HasTiles(target, *kind);
}

StatusOr<std::optional<DotProduct>> CutIntoDots(Schedule& s, FlatContraction& f, const Target& target,
                                                bool& copy_rows) {
  const std::optional<DotProduct> none;
  const std::optional<ForKind> kind = KindOf(f.group, target);
  if (!kind || IsInt(f.j, 1)) return none;
  const int64_t size = DotSize(*kind);
  const Stage acc = f.group.stages[0];
  Analyzer before = FactsOf(f);
  std::optional<size_t> cut;
  const bool tiles = HasTiles(target, *kind) && !IsInt(f.i, 1) && (cut = FindCut(before, f, kTileGroups * size));
  if (!tiles) cut = RateOf(*kind, target) > 0 ? FindCut(before, f, size) : std::nullopt;
  if (!cut) return none;
  const StageIter& k = acc.reduce_iters[*cut];
  DotProduct r{
      .kind = *kind, .groups = Cat(k.var->name, "_q"), .member = Cat(k.var->name, "_e"), .at = *cut, .tiles = tiles};
  const bool lhs_is_rows = FindProduct(acc)->lhs == f.rows_value;
  // What lies along the lanes, or along nothing that a unit sums, is read whole, under a mask beyond the last column.
  const int64_t width = ChoosePanel(IsInt(f.j) ? f.j->int_value : -1, acc.outputs[0]->dtype, target).width();
  const bool is_along = IsStep(before, f.of_lanes, k.var, 1) && !f.of_lanes->has_mask;
  if ((IsStepOfLanes(before, f, width, 1) || (tiles && !is_along)) && before.KnownDivisor(f.j) % width != 0)
    s.Step("round_up ", acc.name, " ", f.vj->name, " ", width);
  // A tile's rows are all there, in what is copied for it.
  if (tiles && (!IsInt(f.i) || f.i->int_value > kTileRows) && before.KnownDivisor(f.i) % kTileRows != 0)
    s.Step("round_up ", acc.name, " ", f.vi->name, " ", kTileRows);
  const int64_t step = tiles ? kTileGroups * size : size;
  if (k.extent->int_value % step != 0) s.Step("round_up ", acc.name, " ", k.var->name, " ", step);
  if (tiles) {
    s.Step("unfold ", acc.name, " ", k.var->name, " ", kTileGroups, " ", size, " -> ", k.var->name, "_s ", r.groups,
           " ", r.member);
    ++r.at;
  } else {
    s.Step("unfold ", acc.name, " ", k.var->name, " ", size, " -> ", r.groups, " ", r.member);
  }
  r.compensated = !tiles && *kind == ForKind::kDot4 && f.rows_value->args[0]->type == f.lanes_value->args[0]->type;
  if (r.compensated) s.Step("compensate ", acc.name, lhs_is_rows ? " lhs" : " rhs", " -> totals");
  RETURN_IF_ERROR(s.status());
  f.group = *s.stages();
  // Behind copies of operands.
  const auto first =
      std::find_if(f.group.stages.begin(), f.group.stages.end(), [&](const Stage& x) { return x.name == acc.name; });
  f.group.stages.erase(f.group.stages.begin(), first);
  const Stage& cut_acc = f.group.stages[0];
  if (!FindProduct(cut_acc)) return none;
  f.SetOperands(lhs_is_rows);
  f.vb = cut_acc.iters[0].var, f.vi = cut_acc.iters[1].var, f.vj = cut_acc.iters[2].var;
  if (cut_acc.reduce_iters.size() <= r.at + 1 || cut_acc.reduce_iters[r.at + 1].var->name != r.member) return none;
  const Expr member = cut_acc.reduce_iters[r.at + 1].var, groups = cut_acc.reduce_iters[r.at].var;
  Analyzer a = FactsOf(f);
  const bool is_masked = f.of_lanes->has_mask;
  const bool together = IsStep(a, f.of_lanes, member, 1) && !is_masked;
  using Lanes = DotProduct::Lanes;
  r.lanes = together && IsStepOfLanes(a, f, width, size)      ? Lanes::kGrouped
            : together && IsStep(a, f.of_lanes, groups, size) ? Lanes::kAlongGroups
            : IsStepOfLanes(a, f, width, 1)                   ? Lanes::kAlongLanes
                                                              : Lanes::kOther;
  copy_rows = f.rows_value->args[0]->op != ExprOp::kLoad || f.of_rows->has_mask || !IsStep(a, f.of_rows, member, 1) ||
              (tiles && !IsStep(a, f.of_rows, groups, size));
  return std::optional(std::move(r));
}

}  // namespace cinn_like::hlir
