#include "hlir/tactics/contraction_pairs.h"

#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactic.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

// Whether elements of `load` that follow each other in `var` are `step` apart.
bool IsStep(Analyzer& a, Expr load, Expr var, int64_t step) {
  Context& c = a.context();
  const Expr offset = ElementOffset(c, load->buffer, IndicesOf(load));
  return IsInt(a.Simplify(c.Sub(Substitute(c, offset, {{var, c.Add(var, c.Int(1))}}), offset)), step);
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

// The iterator to cut: of an even extent, if there is one, and along which the rows' operand lies.
std::optional<size_t> FindCut(Analyzer& a, const FlatContraction& f) {
  const std::vector<StageIter>& reduced = f.group.stages[0].reduce_iters;
  std::optional<size_t> best;
  double least = 0;
  for (size_t d = reduced.size(); d-- > 0;) {
    const Expr extent = reduced[d].extent;
    if (!IsInt(extent) || extent->int_value < 3) continue;
    const auto steps = static_cast<double>(extent->int_value);
    const double added = extent->int_value % 2 == 0 ? 0 : 1 / steps;
    const double price = added + (IsStep(a, f.of_rows, reduced[d].var, 1) ? 0 : 0.01);
    if (best && price >= least) continue;
    best = d, least = price;
  }
  return best;
}

}  // namespace

bool MayPairUp(const TeProgram& group, const Target& target) {
  const Stage& acc = group.stages[0];
  if (group.exact || SpeedsOf(target).own_dot2 == 0 || acc.outputs[0]->dtype != DType::kF32) return false;
  const std::optional<Contraction> con = FindProduct(acc);
  const auto is_wide = [](Expr e) { return e->op == ExprOp::kCast && e->args[0]->type.dtype == DType::kBF16; };
  return con && is_wide(con->lhs) && is_wide(con->rhs);
}

StatusOr<std::optional<PairedProduct>> PairUp(Schedule& s, FlatContraction& f, const Target& target, bool& copy_rows) {
  const std::optional<PairedProduct> none;
  if (!MayPairUp(f.group, target) || IsInt(f.j, 1)) return none;
  const Stage acc = f.group.stages[0];
  Analyzer before = FactsOf(f);
  const std::optional<size_t> cut = FindCut(before, f);
  if (!cut) return none;
  const StageIter& k = acc.reduce_iters[*cut];
  PairedProduct r{.pairs = Cat(k.var->name, "_q"), .pair = Cat(k.var->name, "_e"), .at = *cut};
  const bool lhs_is_rows = FindProduct(acc)->lhs == f.rows_value;
  // What lies along the lanes is read whole, under a mask beyond the last column.
  const int64_t width = ChoosePanel(IsInt(f.j) ? f.j->int_value : -1, DType::kF32, target).width();
  if (IsStepOfLanes(before, f, width, 1) && before.KnownDivisor(f.j) % width != 0)
    s.Step("round_up ", acc.name, " ", f.vj->name, " ", width);
  if (k.extent->int_value % 2 != 0) s.Step("round_up ", acc.name, " ", k.var->name, " 2");
  s.Step("unfold ", acc.name, " ", k.var->name, " 2 -> ", r.pairs, " ", r.pair);
  RETURN_IF_ERROR(s.status());
  f.group = *s.stages();
  const Stage& cut_acc = f.group.stages[0];
  if (!FindProduct(cut_acc)) return none;
  f.SetOperands(lhs_is_rows);
  f.vb = cut_acc.iters[0].var, f.vi = cut_acc.iters[1].var, f.vj = cut_acc.iters[2].var;
  if (cut_acc.reduce_iters.size() <= r.at + 1 || cut_acc.reduce_iters[r.at + 1].var->name != r.pair) return none;
  const Expr pair = cut_acc.reduce_iters[r.at + 1].var, pairs = cut_acc.reduce_iters[r.at].var;
  Analyzer a = FactsOf(f);
  const bool is_masked = f.of_lanes->has_mask;
  const bool together = IsStep(a, f.of_lanes, pair, 1) && !is_masked;
  using Lanes = PairedProduct::Lanes;
  r.lanes = together && IsStepOfLanes(a, f, width, 2)     ? Lanes::kPaired
            : together && IsStep(a, f.of_lanes, pairs, 2) ? Lanes::kAlongPairs
            : IsStepOfLanes(a, f, width, 1)               ? Lanes::kAlongLanes
                                                          : Lanes::kOther;
  copy_rows = f.rows_value->args[0]->op != ExprOp::kLoad || f.of_rows->has_mask || !IsStep(a, f.of_rows, pair, 1);
  return std::optional(std::move(r));
}

}  // namespace cinn_like::hlir
