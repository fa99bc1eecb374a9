#include "hlir/tactics/contraction_plan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "cinn_like/base/costs.h"
#include "cinn_like/base/powers_of_two.h"
#include "hlir/phases.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/contraction_dots.h"
#include "hlir/tactics/contraction_sides.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactic.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr int64_t kMaxRows = 14;
constexpr int64_t kLeastTileSteps = 128;  // of a part that is worth bringing sums from memory and back
constexpr int64_t kMostTurned = 64;       // places that change places with a unit's runs in registers
constexpr int64_t kMostLanesAcross = 16, kLeastAcross = 4;  // of a matrix that changes places in registers
constexpr int64_t kMostUnrolled = 112;                      // instructions of a tile's steps
constexpr int64_t kLeastRowTiles = 32;                      // of a block of rows whose number is not known
constexpr int64_t kLeastSteps = 64;  // of a panel that is a part of the reduction: sums go to memory and back

// Vector registers for accumulators: of 32, or of 16 where vectors are shorter than 64 bytes.
int64_t CountAccumulators(const Target& target) { return target.vector_bytes >= 64 ? 28 : 12; }

// Rows of a register tile: a divisor of `rows` if there is a good one, else little waste.
int64_t ChooseRows(Expr rows, int64_t accumulators, Analyzer& a) {
  const int64_t most = std::min(kMaxRows, accumulators);
  const int64_t divisor = IsInt(rows) ? rows->int_value : a.KnownDivisor(rows);
  for (int64_t r = most; r >= 6; --r) {
    if (divisor % r == 0) return r;
  }
  if (const int64_t bound = a.ConstBounds(rows).hi; bound <= most) return bound;
  if (!IsInt(rows)) return std::min<int64_t>(8, most);
  int64_t best = most, least = INT64_MAX;
  for (int64_t r = most; r >= 6; --r) {
    const int64_t padded = (rows->int_value + r - 1) / r * r;
    if (padded < least) {
      least = padded;
      best = r;
    }
  }
  return best;
}

// The deepest one of at most `most` steps of the reduction, in `order`.
PanelDepth ChooseDepth(const std::vector<StageIter>& reduced, const std::vector<size_t>& order, int64_t most) {
  PanelDepth r{.outer = reduced.size()};
  for (; r.outer > 0; --r.outer) {
    const Expr extent = reduced[order[r.outer - 1]].extent;
    if (!IsInt(extent)) {  // parts of it, of which the last is short
      r.factor = PowerOfTwoBelow(most / r.steps);
      r.steps *= r.factor;
      return r;
    }
    if (r.steps * extent->int_value > most) break;
    r.steps *= extent->int_value;
  }
  if (r.outer == 0) return r;
  const int64_t extent = reduced[order[r.outer - 1]].extent->int_value;
  for (int64_t f = most / r.steps; f > 1; --f) {
    if (extent % f != 0) continue;
    r.factor = f;
    r.steps *= f;
    break;
  }
  return r;
}

// Tiles of an operand whose elements only one tile reads: as wide as its rows, up to 4 vectors, with the least beyond.
PanelShape ChooseWindow(Expr columns, DType acc, const Target& target) {
  PanelShape r = ChoosePanel(-1, acc, target);
  if (!IsInt(columns)) return r;
  const int64_t wide = (columns->int_value + r.lanes - 1) / r.lanes;
  int64_t least = INT64_MAX;
  for (int64_t v = std::min<int64_t>(wide, 4); v > 0; --v) {
    const int64_t padded = (wide + v - 1) / v * v;
    if (padded >= least) continue;
    least = padded;
    r.vectors = v;
  }
  return r;
}

// Of few rows, whose lanes are read from memory once: as many vectors as have their sums in registers, so that memory
// is read in long runs, and as leave tiles for all cores.
int64_t VectorsOfFewRows(int64_t rows, int64_t columns, int64_t lanes, const Target& target) {
  constexpr int64_t kMostVectors = 24;
  constexpr double kTilesOfCore = 2;
  const int64_t wide = (columns + lanes - 1) / lanes;
  const auto shared = static_cast<int64_t>(static_cast<double>(wide) / (kTilesOfCore * Cores(target)));
  const int64_t most = std::min({kMostVectors, CountAccumulators(target) / rows, shared});
  if (most < 1) return 1;
  const int64_t tiles = (wide + most - 1) / most;
  return (wide + tiles - 1) / tiles;
}

// Stages for what the tiles read: the panel, what comes before it, and the other operand's copy. Where no panel can be
// defined, there is none; false: the plan cannot do without.
bool DefineOperands(ContractionPlan& t) {
  const FlatContraction& f = t.flat;
  Context& c = *f.group.context;
  std::string member, steps, outer, of_member;
  if (t.dots) member = t.dots->member, of_member = ", " + member;
  for (const size_t d : t.order) {
    const std::string& name = f.group.stages[0].reduce_iters[d].var->name;
    if (name == member) continue;
    steps += ", " + name;
    if (t.in_tiles && name != t.dots->groups) outer += name + ", ";
  }
  const std::string b = f.vb->name, i = ", " + f.vi->name, j = ", " + f.vj->name;
  // What totals read is what tiles do, by other names.
  VarMap of_totals;
  if (t.dots && t.dots->compensated) {
    const Stage &acc = f.group.stages[0], &totals = f.group.stages[1];
    of_totals = {{f.vb, totals.iters[0].var}, {f.vj, totals.iters.back().var}};
    for (size_t d = 0; d < acc.reduce_iters.size(); ++d)
      of_totals[acc.reduce_iters[d].var] = totals.reduce_iters[d].var;
  }
  // Reads what it stands for from then on.
  const auto define = [&](const std::string& name, const std::string& iters, Expr value) -> Expr {
    std::vector<Expr> at;
    for (const absl::string_view n : absl::StrSplit(iters, ", ")) at.push_back(c.Var(std::string(n)));
    const auto step = [&](const std::string& names, Expr v) {
      return t.schedule.Try(Cat("define ", name, "[", names, "] = ", Print(v)));
    };
    if (!PrintsWithin(value, kMostNodesOfStep) || !step(iters, value)) return nullptr;
    if (!of_totals.empty() && name != "rows") {
      std::string own;
      for (Expr v : at) own += Cat(own.empty() ? "" : ", ", of_totals.at(v)->name);
      if (!step(own, Substitute(c, value, of_totals))) return nullptr;
    }
    const std::vector<Expr> shape(at.size(), c.Int(1));
    return c.Load(c.MakeBuffer({.name = name, .dtype = value->type.dtype, .shape = shape}), at);
  };
  if (t.pack) {
    Expr value = t.dots ? f.lanes_value->args[0] : f.lanes_value;
    if (t.has_lines) {
      const std::string along = f.group.stages[0].reduce_iters[*t.across].var->name;
      std::string others;
      for (const StageIter& r : f.group.stages[0].reduce_iters) {
        if (r.var->name != along) others += ", " + r.var->name;
      }
      value = define("lines", Cat(b, others, j, ", ", along), value);
      if (value == nullptr) return false;
    }
    if (t.has_raw) {
      const Expr raw = define("raw", Cat(b, steps, j, of_member), f.of_lanes);
      if (raw == nullptr) return false;
      value = Rewriter(c, [&](Expr e) { return e == f.of_lanes ? raw : nullptr; })(value);
    }
    if (t.has_lanes) value = define("lanes", Cat(b, steps, of_member, j), value);
    const bool is_defined = value != nullptr && define("panel", Cat(b, steps, j, of_member), value) != nullptr;
    if (!is_defined && (t.has_raw || t.has_lanes)) return false;
    t.pack = is_defined;
    const bool ends_at_symbol =
        t.depth.factor > 0 && !IsInt(f.group.stages[0].reduce_iters[t.order[t.depth.outer - 1]].extent);
    if (is_defined && ends_at_symbol)
      t.panel_lanes = StageNamed(t.schedule.stages()->stages, "panel").iters.back().var->name;
  }
  if (!t.copy_rows) return true;
  const std::string order = t.in_tiles                      ? Cat(outer, f.vi->name, ", ", t.dots->groups, of_member)
                            : t.copies_runs || t.turns_rows ? Cat(f.vi->name, steps, of_member)
                                                            : Cat(steps.substr(2), i, of_member);
  return define("rows", Cat(t.in_batch ? b + ", " : "", order), t.dots ? f.rows_value->args[0] : f.rows_value) !=
         nullptr;
}

// As it is; windows of the padded copy of an image; by an instruction that sums groups.
enum class Way : uint8_t { kPlain, kPadded, kDots };

StatusOr<std::optional<ContractionPlan>> MakePlan(Schedule s, const Sides& sides, const Target& target, Way way,
                                                  Point& point) {
  const bool dots = way == Way::kDots, padded = way == Way::kPadded;
  const bool of_unit = dots && MayHaveTiles(*s.stages(), target);
  const Copied copied = dots && !of_unit ? Copied() : CopyPhases(s, sides, target, of_unit);
  if (padded && !PadWindows(s, sides)) return std::optional<ContractionPlan>();
  ASSIGN_OR_RETURN(std::optional<FlatContraction> flat, Flatten(s, sides, target, of_unit));
  if (!flat) return std::optional<ContractionPlan>();
  ContractionPlan t{std::move(s), *std::move(flat)};
  t.copied_elements = copied.elements;
  t.copied = copied.depths;
  t.padded = padded;
  t.part = sides.part;
  t.in_phases = !sides.digits.empty();
  if (dots) {
    ASSIGN_OR_RETURN(t.dots, CutIntoDots(t.schedule, t.flat, target, t.copy_rows));
    if (!t.dots) return std::optional<ContractionPlan>();
  }
  const FlatContraction& f = t.flat;
  Context& c = *f.group.context;
  const Stage acc = f.group.stages[0];  // of what may yet become one of more columns
  const std::vector<StageIter>& reduced = acc.reduce_iters;
  const bool tiles = t.dots && t.dots->tiles;
  // A unit's steps and what it sums in each are inside, whatever else is a part of the reduction (a window's places).
  const auto is_of_unit = [&](size_t d) { return tiles && d + 1 >= t.dots->at && d <= t.dots->at + 1; };
  for (const bool of_unit : {false, true}) {
    for (size_t d = 0; d < reduced.size(); ++d) {
      if (is_of_unit(d) == of_unit) t.order.push_back(d);
    }
  }
  Analyzer a(c);
  for (const SymbolFact& fact : f.group.symbols) a.BindSymbol(fact);
  const DType sum_type = acc.outputs[0]->dtype;
  t.tile = sides.one_sided ? ChooseWindow(f.j, sum_type, target)
                           : ChoosePanel(IsInt(f.j) ? f.j->int_value : -1, sum_type, target);

  // How the operand, and the results, lie in a tile of lanes.
  if (tiles) t.tile.vectors = std::min<int64_t>(t.tile.vectors, 2);
  const int64_t rows_bound = a.ConstBounds(f.i).hi;
  const bool runs_far = !t.dots && !reduced.empty() && IsInt(f.j) && IsStepOne(a, f.of_lanes, f.vj) &&
                        Step(a, f.of_lanes->buffer, IndicesOf(f.of_lanes), reduced.back().var) != nullptr;
  if (runs_far)
    t.tile.vectors = std::max(t.tile.vectors, VectorsOfFewRows(rows_bound, f.j->int_value, t.tile.lanes, target));
  if (t.tile.lanes > 1)
    t.tile.vectors = point.Choose("vectors", UpTo(tiles ? 2 : std::max<int64_t>(t.tile.vectors, 4)), t.tile.vectors);
  const Expr jo = c.Var("jo"), ji = c.Var("ji"), width = c.Int(t.tile.width());
  a.BindRange(jo, c.Int(0), c.CeilDiv(f.j, width));
  a.BindRange(ji, c.Int(0), c.Int(std::max<int64_t>(t.tile.width() - 1, 1)));
  for (const StageIter& i : reduced) a.BindRange(i.var, c.Int(0), c.Max(c.Sub(i.extent, c.Int(1)), c.Int(1)));
  const auto tiled = [&](const std::vector<Expr>& indices, Expr j) {
    std::vector<Expr> r;
    for (Expr e : indices) r.push_back(Substitute(c, e, {{j, c.Add(c.Mul(jo, width), ji)}}));
    return r;
  };
  const Buffer from = f.of_lanes->buffer;
  const std::vector<Expr> read = tiled(IndicesOf(f.of_lanes), f.vj);
  const bool one = IsInt(f.j, 1);
  t.lane_step = one ? c.Int(1) : Step(a, from, read, ji);
  const Expr row_step = reduced.empty() ? nullptr : Step(a, from, read, reduced.back().var);
  t.contiguous = t.lane_step != nullptr && IsInt(t.lane_step, 1);
  for (size_t d = reduced.size(); d-- > 0 && !t.dots && !t.contiguous && !t.across;) {
    const Expr step = Step(a, from, read, reduced[d].var);
    const bool whole = t.tile.lanes > 1 && t.tile.lanes <= kMostLanesAcross;
    if (f.of_lanes->has_mask && Uses(MaskOf(f.of_lanes), reduced[d].var)) continue;
    if (whole && step != nullptr && IsInt(step, 1) && a.KnownDivisor(reduced[d].extent) % kLeastAcross == 0)
      t.across = d;
  }
  // Rows that begin anywhere cross lines of the cache at every load.
  t.aligned = one || std::all_of(reduced.begin(), reduced.end(), [&](const StageIter& i) {
                const Expr step = Step(a, from, read, i.var);
                return IsInt(i.extent, 1) || (step != nullptr && step->int_value % t.tile.lanes == 0);
              });
  t.near = one || (row_step != nullptr && row_step->int_value <= 8 * t.tile.width());
  for (size_t k = 0; k < f.results; ++k) {
    const Stage& out = f.result(k);
    if (!IsParam(f.group, out.outputs[0])) continue;
    const Expr step = one ? c.Int(1) : Step(a, out.outputs[0], tiled(PlacesOf(out), out.iters[2].var), ji);
    ++(step != nullptr && IsInt(step, 1) ? t.placed : t.scattered);
    t.near_results = t.near_results && step != nullptr && std::abs(step->int_value) <= kMostNear;
  }
  // What all of a tile asks of its place in the reduction and of the batch is asked once for it.
  const auto asks_here = [&](Expr e) { return Uses(e, f.vi) || Uses(e, f.vj); };
  const auto is_masked = [&](Expr load) {
    const std::vector<Expr> conditions = load->has_mask ? ConjunctsOf(MaskOf(load)) : std::vector<Expr>();
    return std::any_of(conditions.begin(), conditions.end(), asks_here);
  };
  t.is_masked = is_masked(f.of_rows) && !t.dots;
  t.masks_lanes = is_masked(f.of_lanes);

  const CpuCosts& cpu = CpuCostsOf(target);
  // Loads of windows take as many registers again.
  const int64_t sums = CountAccumulators(target) * (sides.one_sided ? 4 : 7) / 7;
  int64_t most_rows = std::max<int64_t>(sums / t.tile.vectors, 1);
  const std::vector<Expr> row_indices = IndicesOf(f.of_rows);
  const Expr row_at = ElementOffset(c, f.of_rows->buffer, row_indices);
  const auto at_row = [&](int64_t i) { return Substitute(c, row_at, {{f.vi, c.Int(i)}}); };
  t.row_step = a.Simplify(c.Sub(at_row(1), at_row(0)));
  for (const StageIter& i : reduced) {
    if (!IsInt(i.extent, 1)) t.depth_step = Step(a, f.of_rows->buffer, row_indices, i.var);
  }
  const Expr apart = Step(a, f.of_rows->buffer, row_indices, f.vi);
  if (apart != nullptr && apart->int_value != 0 &&
      apart->int_value * BytesOf(f.of_rows->buffer->dtype) % cpu.set_bytes == 0)
    most_rows = std::min(most_rows, cpu.set_rows);
  t.rows = ChooseRows(f.i, most_rows, a);
  // Rows of a group end where the next group's begin, which no step sees of tiles that reach beyond.
  const bool in_groups = std::any_of(sides.rows.begin(), sides.rows.end(), [](const Digit& d) { return d.part != ""; });
  if (in_groups && IsInt(f.i)) {
    for (t.rows = std::min({most_rows, kMaxRows, f.i->int_value}); f.i->int_value % t.rows != 0;) --t.rows;
  }
  if (tiles) t.rows = IsInt(f.i) ? std::min(f.i->int_value, kTileRows) : kTileRows;
  if (!in_groups && !tiles) t.rows = point.Choose("rows", UpTo(std::min(most_rows, kMaxRows)), t.rows);
  constexpr int64_t kUnknownTiles = 16;
  const int64_t bound_tiles = (rows_bound - 1) / t.rows + 1;
  const int64_t row_tiles = IsInt(f.i) ? bound_tiles : std::min(bound_tiles, kUnknownTiles);
  // A panel of groups is of what is read, any other of what is multiplied.
  const bool computed = t.dots ? f.lanes_value->args[0]->op != ExprOp::kLoad : IsComputed(f.lanes_value);
  const bool wants = t.dots ? t.dots->lanes != DotProduct::Lanes::kGrouped || computed
                            : !t.padded && point.ChooseBool("pack", !t.contiguous || computed || t.masks_lanes ||
                                                                        ((!t.near || !t.aligned) && row_tiles >= 4));
  const int64_t panel_bytes = wants ? 1024 * point.Choose("panel_kib", {32, 64, 128, 256, 512},
                                                          (tiles ? cpu.tile_panel_bytes : cpu.panel_bytes) / 1024)
                                    : cpu.panel_bytes;
  const int64_t step_bytes =
      t.tile.width() * (t.dots ? BytesOf(f.lanes_value->args[0]->type.dtype) : BytesOf(sum_type));
  t.depth = ChooseDepth(reduced, t.order, panel_bytes / step_bytes);
  if (t.depth.outer > 0) t.depth = ChooseDepth(reduced, t.order, panel_bytes / step_bytes / 2);
  // Of the reduction, a unit's panel holds all where rows leave a rest of a tile or steps no good part.
  const bool whole = IsInt(f.i) && f.i->int_value % t.rows == 0;
  if (tiles && t.depth.outer > 0 && (!whole || t.depth.steps < kLeastTileSteps))
    t.depth = ChooseDepth(reduced, t.order, cpu.panel_bytes / step_bytes);
  if (!t.dots) {
    // Rows that are converted or computed, if several panels read them and windows of them do not overlap much.
    const auto size = [&](Expr e) { return TypicalSize(e, f.group.symbols); };
    const double elements = size(f.b) * size(f.i) * TypicalSize(reduced, f.group.symbols);
    const double given = TypicalBytes(f.of_rows->buffer, f.group.symbols) / BytesOf(f.of_rows->type.dtype);
    // And rows that each step of the reduction reads elsewhere, if waiting for them takes longer.
    const double far_seconds = t.copied.empty() ? SecondsOfFarRows(t, target) : 0;
    const bool may = (f.rows_value != f.of_rows || far_seconds > 0) && !t.is_masked;
    const bool pays = size(f.j) > static_cast<double>(t.tile.width()) &&
                      (f.rows_value != f.of_rows || far_seconds > elements * SecondsOfTurnedRow(t, target));
    t.copy_rows = may && point.ChooseBool("copy_rows", pays && elements <= kMostCopied * given);
    t.turns_rows = t.copy_rows && far_seconds > 0;
  }
  t.in_batch = !tiles || Uses(f.rows_value, f.vb);
  t.copies_runs = t.copy_rows && !reduced.empty() && (!t.dots || t.dots->at + 2 == reduced.size()) &&
                  IsStepOne(a, f.of_rows, reduced.back().var);
  t.in_tiles = tiles && t.copy_rows && !t.copies_runs;
  if (t.in_tiles) {
    // A window's places, if these are neighbours, change places with what a unit sums.
    int64_t places = 1;
    for (size_t k = t.order.size() - 3; k-- > 0 && places > 0;) {
      const Expr step = Step(a, f.of_rows->buffer, IndicesOf(f.of_rows), reduced[t.order[k]].var);
      places = step != nullptr && IsInt(step, places) ? places * reduced[t.order[k]].extent->int_value : 0;
    }
    const bool moves =
        f.rows_value->args[0] == f.of_rows && !f.of_rows->has_mask && places > 1 && places <= kMostTurned;
    t.run_step = Step(a, f.of_rows->buffer, IndicesOf(f.of_rows), reduced[t.dots->at + 1].var);
    if (t.run_step != nullptr && IsInt(t.run_step, 1)) t.runs = ContractionPlan::Runs::kAlong;
    if (t.run_step != nullptr && IsInt(t.run_step, places) && moves) t.runs = ContractionPlan::Runs::kTurned;
  }
  t.pack = wants && !(one && IsInt(f.b, 1)) && t.depth.steps >= (t.depth.outer > 0 ? kLeastSteps : 1);
  if (t.across && (!t.pack || t.depth.outer > *t.across + 1)) t.across = std::nullopt;
  if (t.across && f.of_lanes->has_mask && f.lanes_value != f.of_lanes) t.across = std::nullopt;
  t.has_lines = t.across && f.of_lanes->has_mask;
  // Whole tiles, which have no rest to ask about.
  if (t.has_lines && a.KnownDivisor(f.j) % t.tile.width() != 0) {
    const bool lhs_is_rows = FindProduct(acc)->lhs == f.rows_value;
    t.schedule.Step("round_up ", acc.name, " ", f.vj->name, " ", t.tile.width());
    RETURN_IF_ERROR(t.schedule.status());
    t.flat.group = GroupOf(t.schedule, f.results);
    if (!FindProduct(t.flat.group.stages[0])) return std::optional<ContractionPlan>();
    t.flat.SetOperands(lhs_is_rows);
  }
  t.has_raw =
      t.pack && !t.has_lines &&
      (t.dots ? computed && t.dots->lanes == DotProduct::Lanes::kAlongGroups : t.across && f.lanes_value != f.of_lanes);
  t.has_lanes = t.pack && t.dots &&
                (computed || (t.dots->lanes == DotProduct::Lanes::kAlongLanes && f.of_lanes->has_mask) ||
                 (tiles && t.dots->lanes == DotProduct::Lanes::kOther));
  // Steps are inside of a panel, and a copy has them next to each other.
  const bool has_steps = tiles && t.IsInPanel(t.dots->at - 1);
  // A unit's sums lie in memory as the results do, rows at a distance that is known.
  const bool in_rows = IsInt(f.j);
  if (tiles && ((in_groups && !whole) || !has_steps || !in_rows || (t.depth.outer > 0 && !whole)))
    return std::optional<ContractionPlan>();
  if (!DefineOperands(t)) return std::optional<ContractionPlan>();
  if (t.dots && ((wants && !t.pack) || t.depth.outer > t.PlaceOf(t.dots->at) + 1))
    return std::optional<ContractionPlan>();
  if (!t.pack) t.depth = {}, t.across = std::nullopt, t.has_lines = t.has_raw = t.has_lanes = false;
  // Blocks of a unit's tiles leave no rest, whose rows would be others than the next ones.
  const auto fits = [&](int64_t n) { return !tiles || row_tiles % n == 0; };
  const auto fewer_tiles = [&](int64_t n) {
    if (!tiles) return (n + 1) / 2;
    do --n;
    while (!fits(n));
    return n;
  };
  if (t.depth.outer > 0) {  // so many sums wait beside the panel
    const int64_t most = cpu.panel_bytes / 2 / (t.tile.width() * BytesOf(sum_type)) / t.rows;
    const int64_t blocks = IsInt(f.i) ? (row_tiles + most - 1) / most : 0;
    const auto likely = static_cast<int64_t>(TypicalSize(f.i, f.group.symbols)) / t.rows + 1;
    int64_t n =
        blocks == 0 ? std::clamp(likely, std::min(kLeastRowTiles, most), most) : (row_tiles + blocks - 1) / blocks;
    while (blocks > 1 && !fits(n)) --n;
    t.row_block = blocks == 1 ? 0 : n * t.rows;
  }
  if (t.padded && IsInt(f.i)) {  // so many rows of the image wait beside their sums
    const double bytes = TypicalBytes(f.of_lanes->buffer, f.group.symbols) / TypicalSize(f.b, f.group.symbols);
    const auto blocks = static_cast<int64_t>(std::ceil(bytes / static_cast<double>(cpu.panel_bytes)));
    const int64_t n = (row_tiles + blocks - 1) / blocks;
    t.row_block = n < row_tiles ? n * t.rows : 0;
  }
  for (Expr factor : {t.copy_rows ? nullptr : f.rows_value, t.pack ? nullptr : f.lanes_value}) {
    if (factor == nullptr) continue;
    const std::vector<Expr> conditions = ConditionsOf(factor, c.Const(0, factor->type.dtype));
    for (Expr e : conditions) {
      if (asks_here(e)) continue;
      t.is_guarded = true;
      for (const StageIter& i : reduced) {
        if (Uses(e, i.var)) t.guarding.insert(i.var);
      }
    }
  }
  if (sides.one_sided && !t.dots && !t.pack && !t.masks_lanes) {
    // The next row of results reads at the next tap what this row does: inside of all, such a tap takes no further
    // loads.
    std::vector<size_t> taps;
    for (size_t d = 0; d < reduced.size(); ++d) {
      if (!IsInt(reduced[d].extent) || IsInt(reduced[d].extent, 1) || t.guarding.contains(reduced[d].var)) continue;
      const bool slides = Step(a, f.of_lanes->buffer, IndicesOf(f.of_lanes), reduced[d].var) ==
                          Step(a, f.of_lanes->buffer, IndicesOf(f.of_lanes), f.vi);
      taps.insert(slides ? taps.end() : taps.begin(), d);
    }
    int64_t steps = t.rows * t.tile.vectors;
    std::vector<int64_t> options = {0};
    for (size_t k = taps.size(); k-- > 0;) {
      steps *= reduced[taps[k]].extent->int_value;
      if (steps > kMostUnrolled) break;
      options.push_back(options.back() + 1);
    }
    t.taps.assign(taps.end() - point.Choose("taps_unrolled", options, options.back()), taps.end());
  }
  t.seconds = PredictSeconds(t, target);
  // As many tasks as keep the cores busy, of rows that stay near; each packs its panels.
  ContractionPlan fewer = t;
  for (int64_t n = row_tiles; t.pack && IsInt(f.i) && n > 1;) {
    n = fewer_tiles(n);
    if (t.row_block != 0 && n * t.rows >= t.row_block) continue;
    fewer.row_block = n * t.rows;
    fewer.seconds = PredictSeconds(fewer, target);
    if (fewer.seconds < t.seconds) t.row_block = fewer.row_block, t.seconds = fewer.seconds;
  }
  if (t.pack && IsInt(f.i)) {
    const int64_t predicted = t.row_block == 0 ? row_tiles : t.row_block / t.rows;
    const int64_t most = t.depth.outer > 0 ? predicted : row_tiles;  // for whose sums there is room
    std::vector<int64_t> options = {most};
    while (options.back() > 1) options.push_back(fewer_tiles(options.back()));
    if (const int64_t n = point.Choose("row_tiles", options, predicted); n != predicted) {
      t.row_block = n == row_tiles ? 0 : n * t.rows;
      t.seconds = PredictSeconds(t, target);
    }
  }
  return std::optional<ContractionPlan>(std::move(t));
}

// Tiles reach far beyond the last column.
bool WastesLanes(const ContractionPlan& t) {
  constexpr double kMost = 1.1;
  const double columns = TypicalSize(t.flat.j, t.flat.group.symbols), width = static_cast<double>(t.tile.width());
  return std::ceil(columns / width) * width > kMost * columns;
}

Sides Swap(Sides sides) {
  std::swap(sides.rows, sides.lanes);
  sides.swapped = !sides.swapped;
  return sides;
}

// By an instruction that sums groups, or windows from padded images, where that is cheaper.
StatusOr<std::optional<ContractionPlan>> CheaperPlan(const Schedule& s, const Sides& sides, const Target& target,
                                                     Point& point) {
  Point of_other = point;
  ASSIGN_OR_RETURN(std::optional<ContractionPlan> plan, MakePlan(s, sides, target, Way::kPlain, point));
  const bool has_images =
      std::any_of(sides.batch.begin(), sides.batch.end(), [](const Digit& d) { return !IsInt(d.extent, 1); });
  const bool may_pad = plan && sides.one_sided && has_images && plan->masks_lanes;
  if (!may_pad && (!plan || sides.one_sided || !MayHaveDots(plan->flat.group, target))) return plan;
  ASSIGN_OR_RETURN(std::optional<ContractionPlan> other,
                   MakePlan(s, sides, target, may_pad ? Way::kPadded : Way::kDots, of_other));
  if (may_pad && !other) return plan;
  // Where masks are no registers of their own, which those of vectors of 64 bytes are, loads under one are dear.
  const bool predicted = other && ((may_pad && target.vector_bytes < 64) || other->seconds < plan->seconds);
  const std::string_view name = may_pad ? "pad_input" : "dots";
  if (!point.ChooseBool(name, predicted) || !other) return plan;
  point = std::move(of_other);
  point.ChooseBool(name, predicted);
  return other;
}

// With the lanes that the results lie along; where there are none, or rows are read under a mask or from far away, with
// the cheaper.
StatusOr<std::optional<ContractionPlan>> ChoosePlan(const TeProgram& original, const Target& target, Point& point,
                                                    bool cuts) {
  ASSIGN_OR_RETURN(Schedule s, Schedule::Of(original));
  ASSIGN_OR_RETURN(const bool is_apart, TakeApart(s));
  if (!is_apart) return std::optional<ContractionPlan>();
  std::vector<std::string> digits;
  double part = 1;
  {
    const Stage acc = s.stages()->stages[0];
    const std::vector<Phase> phases = FindPhases(*s.stages()->context, acc);
    if (cuts && !phases.empty() && point.ChooseBool("phases", true)) {
      std::vector<std::string> names;
      for (const Stage& x : s.stages()->stages) names.push_back(x.name);
      ASSIGN_OR_RETURN(digits, SplitPhases(s, phases, names));
      const Stage& cut = s.stages()->stages[0];
      const auto steps = [&](const Stage& x) {
        return TypicalSize(x.iters, original.symbols) * TypicalSize(x.reduce_iters, original.symbols);
      };
      part = std::min(1.0, steps(acc) * DensityOf(*s.stages()->context, acc) / steps(cut));
    }
  }
  std::optional<Sides> found = FindSides(*s.stages());
  if (!found) return std::optional<ContractionPlan>();
  Sides sides = *std::move(found);
  sides.digits = std::move(digits);
  sides.part = part;
  const bool has_choice = !sides.one_sided && !sides.rows.empty();
  if (has_choice) {
    const Stage& out = FirstResult(*s.stages());
    Analyzer a = FactsOf(*s.stages(), out);
    const std::optional<Run> lanes = FindRun(a, out, sides.lanes), rows = FindRun(a, out, sides.rows);
    if (rows && (!lanes || rows->unit < lanes->unit)) sides = Swap(std::move(sides));
  }
  Point of_other = point;
  ASSIGN_OR_RETURN(std::optional<ContractionPlan> plan, CheaperPlan(s, sides, target, point));
  if (!plan || !has_choice) return plan;
  const bool asks = plan->scattered > 0 || plan->is_masked || WastesLanes(*plan) || SecondsOfFarRows(*plan, target) > 0;
  std::optional<ContractionPlan> other;
  if (asks) {
    ASSIGN_OR_RETURN(other, CheaperPlan(s, Swap(sides), target, of_other));
  }
  const bool predicted = other && other->seconds < plan->seconds;
  if (!point.ChooseBool("swap", predicted)) return plan;
  if (!asks) {
    ASSIGN_OR_RETURN(other, CheaperPlan(s, Swap(sides), target, of_other));
  }
  if (!other) return plan;
  point = std::move(of_other);
  point.ChooseBool("swap", predicted);
  return other;
}

}  // namespace

size_t ContractionPlan::PlaceOf(size_t d) const {
  return static_cast<size_t>(std::find(order.begin(), order.end(), d) - order.begin());
}

void FlatContraction::SetOperands(bool lhs_is_rows) {
  const Stage& acc = group.stages[0];
  const Contraction con = *FindProduct(acc);
  rows_value = lhs_is_rows ? con.lhs : con.rhs;
  lanes_value = lhs_is_rows ? con.rhs : con.lhs;
  of_rows = MainLoad(acc, {rows_value});
  of_lanes = MainLoad(acc, {lanes_value});
}

StatusOr<std::optional<ContractionPlan>> PlanContraction(const TeProgram& group, const Target& target, Point& point,
                                                         bool cuts) {
  if (!IsContraction(group) || !HasRegisterTiles(group.stages[0].outputs[0]->dtype, target))
    return std::optional<ContractionPlan>();
  return ChoosePlan(group, target, point, cuts);
}

}  // namespace cinn_like::hlir
