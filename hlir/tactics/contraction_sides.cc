#include "hlir/tactics/contraction_sides.h"

#include <algorithm>
#include <utility>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/tactic.h"
#include "ir/join.h"
#include "ir/schedule/stage_parts.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

bool IsContraction(const TeProgram& group) {
  if (group.stages.empty() || !FindProduct(group.stages[0])) return false;
  for (const Stage& s : group.stages) {
    const bool is_sum = &s == &group.stages[0];
    if (s.outputs.size() != 1 || s.IsPointwise() == is_sum) return false;
  }
  return true;
}

namespace {

// Whether an operand speaks of `var` only where it decides about all that a tile of others reads.
bool OnlyDecides(Context& c, const Stage& s, const Contraction& con, Expr var) {
  const auto is_alone = [&](Expr e) {
    return std::none_of(s.iters.begin(), s.iters.end(),
                        [&](const StageIter& i) { return i.var != var && Uses(e, i.var); });
  };
  bool speaks = false;
  for (Expr factor : {con.lhs, con.rhs}) {
    const std::vector<Expr> conditions = ConditionsOf(factor, c.Const(0, factor->type.dtype));
    const Expr rest = Rewriter(c, [&](Expr e) -> Expr {
      const bool decides = std::find(conditions.begin(), conditions.end(), e) != conditions.end() && is_alone(e);
      return decides ? c.Bool(true) : nullptr;
    })(factor);
    speaks |= Uses(rest, var);
  }
  return !speaks;
}

}  // namespace

std::optional<Sides> FindSides(const TeProgram& group) {
  const Stage& acc = group.stages[0];
  const std::optional<Contraction> con = FindProduct(acc);
  if (!con) return std::nullopt;
  Sides r;
  r.results = group.stages.size() - 1;
  for (size_t d = 0; d < acc.iters.size(); ++d) {
    const Expr var = acc.iters[d].var, extent = acc.iters[d].extent;
    const auto in = [&](const std::vector<StageIter>& side) {
      return std::any_of(side.begin(), side.end(), [&](const StageIter& i) { return i.var == var; }) &&
             !OnlyDecides(*group.context, acc, *con, var);
    };
    if (in(con->m)) {
      r.rows.push_back({d, "", extent});
    } else if (in(con->n)) {
      r.lanes.push_back({d, "", extent});
    } else {
      const int64_t lhs = DivisorOf(con->lhs, var), rhs = DivisorOf(con->rhs, var), divisor = std::max(lhs, rhs);
      const bool splits = divisor > 1 && IsInt(extent) && extent->int_value % divisor == 0;
      r.batch.push_back({d, splits ? "_g" : "", extent});
      if (splits) (lhs == divisor ? r.lanes : r.rows).push_back({d, "_p", group.context->Int(divisor)});
    }
  }
  if (!r.lanes.empty()) return r;
  // Rows and lanes of one operand, of which the other weighs windows (of each channel by itself). No two rows of a tile
  // read one panel, but it is in registers.
  r.one_sided = r.swapped = true;
  const std::vector<Digit> own = std::exchange(r.rows, {});
  for (size_t k = own.size(); k-- > 0;) {
    const bool is_one = IsInt(own[k].extent, 1);
    (is_one || !r.rows.empty() ? r.batch : r.lanes.empty() ? r.lanes : r.rows).push_back(own[k]);
  }
  return r.rows.empty() ? std::nullopt : std::optional(std::move(r));
}

Expr Step(Analyzer& a, Buffer b, const std::vector<Expr>& indices, Expr var) {
  const Expr step = StepAlong(a, ElementOffset(a.context(), b, indices), var);
  return IsInt(step) ? step : nullptr;
}

bool IsStepOne(Analyzer& a, Expr load, Expr var) {
  const Expr step = Step(a, load->buffer, IndicesOf(load), var);
  return step != nullptr && IsInt(step, 1);
}

std::vector<Expr> PlacesOf(const Stage& s) { return s.at.empty() ? VarsOf(s.iters) : s.at; }

StatusOr<bool> TakeApart(Schedule& s) {
  const std::vector<Stage> stages = s.stages()->stages;
  if (IsParam(*s.stages(), stages[0].outputs[0])) s.Step("keep ", stages[0].outputs[0]->name, " -> acc");
  RETURN_IF_ERROR(s.status());
  for (size_t k = 1; k < stages.size(); ++k) {
    const std::vector<Buffer> inputs = InputsOf(stages[k]);
    const auto read = std::find_if(stages.begin(), stages.begin() + static_cast<ptrdiff_t>(k),
                                   [&](const Stage& x) { return Contains(inputs, x.outputs[0]); });
    if (read == stages.begin() + static_cast<ptrdiff_t>(k) || !s.Try(Cat("align ", stages[k].name, " ", read->name)))
      return false;
  }
  return AreAlike(*s.stages());
}

Analyzer FactsOf(const TeProgram& p, const Stage& out) {
  Context& c = *p.context;
  Analyzer a(c);
  for (const SymbolFact& f : p.symbols) a.BindSymbol(f);
  for (const StageIter& i : out.iters) a.BindRange(i.var, c.Int(0), c.Max(c.Sub(i.extent, c.Int(1)), c.Int(1)));
  return a;
}

std::optional<Run> FindRun(Analyzer& a, const Stage& out, const std::vector<Digit>& digits) {
  constexpr int64_t kMostPhases = 8;
  if (digits.empty()) return std::nullopt;
  size_t last = digits.size() - 1;
  while (last > 0 && IsInt(digits[last].extent, 1)) --last;
  const Expr unit = Step(a, out.outputs[0], PlacesOf(out), out.iters[digits[last].dim].var);
  if (unit == nullptr || unit->int_value < 1 || unit->int_value > kMostPhases) return std::nullopt;
  return Run{last, unit->int_value};
}

namespace {

// How many of the `lanes` (dimensions of `out`, which a tile runs along) become part of the batch: all before those
// that lie in the result one after the other, or, of a phase, in `read`, if these fill a tile. Of every other element
// of `read`, which takes two loads, the lanes also are those that lie in that at one distance, if these fill half of a
// vector; so do those of a phase, where they fill a matrix unit's tiles: 16-bit results that lie otherwise are written
// one by one.
size_t CountBatched(const TeProgram& p, const std::vector<Digit>& lanes, Expr read, const Target& target,
                    bool of_unit) {
  constexpr double kLeastFilled = 0.75;
  const Stage &acc = p.stages[0], &out = FirstResult(p);
  const PanelShape tile = ChoosePanel(-1, acc.outputs[0]->dtype, target);
  Analyzer a = FactsOf(p, out), of_acc = FactsOf(p, acc);
  Context& c = a.context();
  const std::vector<Expr> at = PlacesOf(out), from = IndicesOf(read);
  const auto step = [&](size_t d) { return Step(a, out.outputs[0], at, out.iters[lanes[d].dim].var); };
  const auto step_read = [&](size_t d) { return Step(of_acc, read->buffer, from, acc.iters[lanes[d].dim].var); };
  const std::optional<Run> found = FindRun(a, out, lanes);
  if (!found) return 0;
  size_t first = found->last;
  Expr run = lanes[first].extent;
  const Expr unit = step_read(first);
  const bool strided = unit != nullptr && IsInt(unit, kEveryOther), of_phase = found->unit > 1;
  if (of_phase && unit == nullptr) return 0;
  for (; first > 0; --first) {
    const Expr extent = lanes[first - 1].extent;
    if (!IsInt(extent, 1)) {
      if (!of_phase && step(first - 1) != run) break;
      if (of_phase && of_unit && step(first - 1) != c.Mul(run, c.Int(found->unit))) break;
      if ((of_phase || strided) && step_read(first - 1) != c.Mul(run, unit)) break;
    }
    run = c.Mul(run, extent);
  }
  if (!IsInt(run)) return first;
  if (of_phase && of_unit) {
    const int64_t width = ChoosePanel(run->int_value, acc.outputs[0]->dtype, target).width();
    const int64_t columns = (run->int_value + width - 1) / width * width;
    return kLeastFilled * static_cast<double>(columns) > static_cast<double>(run->int_value) ? 0 : first;
  }
  return run->int_value < (strided ? tile.lanes / 2 : tile.width()) ? 0 : first;
}

}  // namespace

const Stage& FirstResult(const TeProgram& group) {
  return *std::find_if(group.stages.begin(), group.stages.end(),
                       [&](const Stage& s) { return IsParam(group, s.outputs[0]); });
}

TeProgram GroupOf(const Schedule& s, size_t results) {
  TeProgram r = *s.stages();
  r.stages.erase(r.stages.begin(), r.stages.end() - static_cast<ptrdiff_t>(1 + results));
  return r;
}

StatusOr<std::optional<FlatContraction>> Flatten(Schedule& s, const Sides& sides, const Target& target, bool of_unit) {
  const TeProgram group = GroupOf(s, sides.results);
  const Stage acc = group.stages[0];
  std::vector<Digit> batch = sides.batch, lanes = sides.lanes;
  const auto con = FindProduct(acc);
  RET_CHECK(con.has_value(), acc.name);
  const size_t batched =
      CountBatched(group, lanes, MainLoad(acc, {sides.swapped ? con->lhs : con->rhs}), target, of_unit);
  batch.insert(batch.end(), lanes.begin(), lanes.begin() + static_cast<ptrdiff_t>(batched));
  lanes.erase(lanes.begin(), lanes.begin() + static_cast<ptrdiff_t>(batched));
  std::stable_sort(batch.begin(), batch.end(), [](const Digit& x, const Digit& y) { return x.dim < y.dim; });
  const auto fold = [&](const Stage& stage, const std::string& base) {
    const auto bracket = [&](const std::string& name, const std::vector<Digit>& digits) {
      std::string list;
      for (const Digit& d : digits) list += Cat(list.empty() ? "" : ", ", stage.iters[d.dim].var->name, d.part);
      return Cat(" ", base, name, "[", list, "]");
    };
    for (const auto* list : {&sides.rows, &sides.lanes}) {
      for (const Digit& d : *list) {
        const std::string& name = stage.iters[d.dim].var->name;
        if (d.part == "_p")
          s.Step("unfold ", stage.name, " ", name, " ", d.extent->int_value, " -> ", name, "_g ", name, "_p");
      }
    }
    s.Step("fold ", stage.name, " ->", bracket("b", batch), bracket("i", sides.rows), bracket("j", lanes));
  };
  fold(acc, "v");
  for (size_t k = 0; k < sides.results; ++k) fold(group.stages[1 + k], k == 0 ? "o" : Cat("o", k + 1));
  RETURN_IF_ERROR(s.status());
  FlatContraction f;
  f.group = GroupOf(s, sides.results);
  f.results = sides.results;
  const Stage& folded = f.group.stages[0];
  if (!FindProduct(folded)) return std::optional<FlatContraction>();  // digits that are always 0
  f.SetOperands(!sides.swapped);
  f.vb = folded.iters[0].var, f.vi = folded.iters[1].var, f.vj = folded.iters[2].var;
  f.b = folded.iters[0].extent, f.i = folded.iters[1].extent, f.j = folded.iters[2].extent;
  if (IsInt(f.b, 0) || IsInt(f.i, 0) || IsInt(f.j, 0)) return std::optional<FlatContraction>();
  return std::optional<FlatContraction>(std::move(f));
}

bool PadWindows(Schedule& s, const Sides& sides) {
  const Stage& acc = s.stages()->stages[0];
  const auto con = FindProduct(acc);
  if (!con) return false;
  const Expr load = MainLoad(acc, {sides.swapped ? con->lhs : con->rhs});
  return load != nullptr && load->has_mask && s.Try(Cat("pad_input ", acc.name, " ", load->buffer->name, " -> padded"));
}

Copied CopyPhases(Schedule& s, const Sides& sides, const Target& target, bool of_unit) {
  constexpr double kLeastReads = 4, kMostCopiedOfUnit = 2;
  const TeProgram& p = *s.stages();
  const Stage& acc = p.stages[0];
  const auto con = FindProduct(acc);
  Expr value = !con ? nullptr : sides.swapped ? con->rhs : con->lhs;
  if (of_unit && value != nullptr && value->op == ExprOp::kCast) value = value->args[0];
  if (value == nullptr || value->op != ExprOp::kLoad || (value->has_mask && !of_unit)) return {};
  const std::vector<StageIter>& reduced = acc.reduce_iters;
  const auto longest = std::max_element(reduced.begin(), reduced.end(), [&](const StageIter& x, const StageIter& y) {
    return TypicalSize(x.extent, p.symbols) < TypicalSize(y.extent, p.symbols);
  });
  std::string phases, places, steps;
  std::vector<int> of_phases, of_places, of_steps;
  double elements = 1, reads = 1;
  bool has_phases = false;
  for (const StageIter& i : AllIters(acc)) {
    const bool is_place =
        std::any_of(acc.iters.begin(), acc.iters.end(), [&](const StageIter& x) { return x.var == i.var; });
    const double size = TypicalSize(i.extent, p.symbols);
    if (!Uses(value, i.var)) {
      reads *= is_place ? size : 1;
      continue;
    }
    elements *= size;
    if (of_unit && i.var == longest->var) continue;
    const bool is_digit = std::count(sides.digits.begin(), sides.digits.end(), i.var->name) > 0;
    const bool is_phase = is_place && is_digit;
    // Where tiles have their rows, a phase may be one of their digits.
    const bool is_row = of_unit && std::any_of(sides.rows.begin(), sides.rows.end(),
                                               [&](const Digit& d) { return acc.iters[d.dim].var == i.var; });
    (is_phase && !is_row ? phases : is_place ? places : steps) += Cat(i.var->name, ", ");
    has_phases |= is_phase;
    if (IsInt(i.extent, 1)) continue;
    (is_phase && !is_row ? of_phases : is_place ? of_places : of_steps).push_back(is_digit ? 1 : is_place ? 2 : 0);
  }
  const auto width = static_cast<double>(ChoosePanel(-1, acc.outputs[0]->dtype, target).width());
  const double given = TypicalBytes(value->buffer, p.symbols) / BytesOf(value->buffer->dtype);
  if (!has_phases || elements > (of_unit ? kMostCopiedOfUnit : kMostCopied) * given || reads < kLeastReads * width ||
      !PrintsWithin(value, kMostNodesOfStep))
    return {};
  std::string list = phases + steps + places;
  if (of_unit)
    list += longest->var->name;
  else
    list.resize(list.size() - 2);
  if (!s.Try(Cat("define rows[", list, "] = ", Print(value)))) return {};
  Copied r{elements, of_phases};
  r.depths.insert(r.depths.end(), of_steps.begin(), of_steps.end());
  r.depths.insert(r.depths.end(), of_places.begin(), of_places.end());
  if (of_unit) r.depths.push_back(Copied::kRun);
  return r;
}

}  // namespace cinn_like::hlir
