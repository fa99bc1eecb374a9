#include "hlir/tactics/contraction_plan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/contraction_pairs.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactic.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr int64_t kMaxRows = 14;
constexpr int64_t kMaxPanelBytes = 512 * 1024;              // half of L2, on the thread's stack
constexpr int64_t kMostLanesAcross = 16, kLeastAcross = 4;  // of a matrix that changes places in registers
constexpr int64_t kEveryOther = 2;                          // elements: a vector is two loads
constexpr double kMostCopied = 1.5;                         // elements of a copy for each one of what it is made of
constexpr int64_t kSetBytes = 4096, kMostRowsOfSet = 8;  // rows so far apart share a set of L1, which has a few places
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
  if (!IsInt(rows)) return std::min<int64_t>(8, most);
  if (rows->int_value <= most) return rows->int_value;
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

// An iterator of the contraction, or a digit of one, which the step `unfold` makes: the upper ("_g") or the lower one
// ("_p"), of `extent`.
struct Digit {
  size_t dim;
  std::string part;
  Expr extent;
};

// Which digits are what. Either operand's own can be the lanes.
struct Sides {
  std::vector<Digit> batch, rows, lanes;
  bool swapped = false;    // the lanes are the left-hand side's
  bool one_sided = false;  // and the rows, too: the other operand has no iterators of its own
};

// The contraction of {contraction} or {contraction, epilogue}; the lanes are its right-hand side's. Of an iterator that
// both operands read, one of them as a quotient (groups of channels), the remainder is the other's own.
std::optional<Sides> FindSides(const TeProgram& group) {
  if (group.stages.empty() || group.stages.size() > 2) return std::nullopt;
  const Stage& acc = group.stages[0];
  const std::optional<Contraction> con = FindProduct(acc);
  if (!con || acc.outputs.size() != 1) return std::nullopt;
  const bool is_result =
      std::any_of(group.params.begin(), group.params.end(), [&](const Param& p) { return p.buffer == acc.outputs[0]; });
  if (is_result != (group.stages.size() == 1)) return std::nullopt;
  Sides r;
  for (size_t d = 0; d < acc.iters.size(); ++d) {
    const Expr var = acc.iters[d].var, extent = acc.iters[d].extent;
    const auto in = [&](const std::vector<StageIter>& side) {
      return std::any_of(side.begin(), side.end(), [&](const StageIter& i) { return i.var == var; });
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

// How far elements of `b` at `indices` are apart when `var` grows by one; null if it is not the same everywhere.
Expr Step(Analyzer& a, Buffer b, const std::vector<Expr>& indices, Expr var) {
  Context& c = a.context();
  const Expr offset = ElementOffset(c, b, indices);
  const Expr step = a.Simplify(c.Sub(Substitute(c, offset, {{var, c.Add(var, c.Int(1))}}), offset));
  return IsInt(step) ? step : nullptr;
}

bool IsStepOne(Analyzer& a, Expr load, Expr var) {
  const Expr step = Step(a, load->buffer, IndicesOf(load), var);
  return step != nullptr && IsInt(step, 1);
}

std::vector<Expr> PlacesOf(const Stage& s) { return s.at.empty() ? VarsOf(s.iters) : s.at; }

// Steps make what the group computes and where it writes it two stages over the same iterators; false if they can't.
StatusOr<bool> TakeApart(Schedule& s) {
  const std::vector<Stage> stages = s.stages()->stages;
  if (stages.size() == 1)
    s.Step("keep ", stages[0].outputs[0]->name, " -> acc");
  else if (!s.Try(Cat("align ", stages[1].name, " ", stages[0].name)))
    return false;
  RETURN_IF_ERROR(s.status());
  return true;
}

// With the facts and iterators of `out`, of which any may be one more.
Analyzer FactsOf(const TeProgram& p, const Stage& out) {
  Context& c = *p.context;
  Analyzer a(c);
  for (const SymbolFact& f : p.symbols) a.BindSymbol(f);
  for (const StageIter& i : out.iters) a.BindRange(i.var, c.Int(0), c.Max(c.Sub(i.extent, c.Int(1)), c.Int(1)));
  return a;
}

// The last digit that is not always 0, if its elements lie next to each other in the result.
std::optional<size_t> FindRun(Analyzer& a, const Stage& out, const std::vector<Digit>& digits) {
  if (digits.empty()) return std::nullopt;
  size_t last = digits.size() - 1;
  while (last > 0 && IsInt(digits[last].extent, 1)) --last;
  const Expr unit = Step(a, out.outputs[0], PlacesOf(out), out.iters[digits[last].dim].var);
  return unit != nullptr && IsInt(unit, 1) ? std::optional(last) : std::nullopt;
}

// How many of the `lanes` (dimensions of `out`, which a tile runs along) become part of the batch: all before those
// that lie in the result one after the other, if these fill a tile. Of every other element of `read`, which takes two
// loads, the lanes also are those that lie in that at one distance, if these fill half of a vector.
size_t CountBatched(const TeProgram& p, const std::vector<Digit>& lanes, Expr read, const PanelShape& tile) {
  const Stage &acc = p.stages[0], &out = p.stages[1];
  Analyzer a = FactsOf(p, out), of_acc = FactsOf(p, acc);
  Context& c = a.context();
  const std::vector<Expr> at = PlacesOf(out), from = IndicesOf(read);
  const auto step = [&](size_t d) { return Step(a, out.outputs[0], at, out.iters[lanes[d].dim].var); };
  const auto step_read = [&](size_t d) { return Step(of_acc, read->buffer, from, acc.iters[lanes[d].dim].var); };
  const std::optional<size_t> last = FindRun(a, out, lanes);
  if (!last) return 0;
  size_t first = *last;
  Expr run = lanes[first].extent;
  const Expr unit = step_read(first);
  const bool strided = unit != nullptr && IsInt(unit, kEveryOther);
  for (; first > 0; --first) {
    const Expr extent = lanes[first - 1].extent;
    if (!IsInt(extent, 1)) {
      if (step(first - 1) != run) break;
      if (strided && step_read(first - 1) != c.Mul(run, c.Int(kEveryOther))) break;
    }
    run = c.Mul(run, extent);
  }
  return IsInt(run) && run->int_value < (strided ? tile.lanes / 2 : tile.width()) ? 0 : first;
}

// Steps on stages make the group flat; nullopt if it is none that can be.
StatusOr<std::optional<FlatContraction>> Flatten(Schedule& s, const Sides& sides, const Target& target) {
  const Stage acc = s.stages()->stages[0], out = s.stages()->stages[1];
  std::vector<Digit> batch = sides.batch, lanes = sides.lanes;
  const auto con = FindProduct(acc);
  RET_CHECK(con.has_value(), acc.name);
  const size_t batched = CountBatched(*s.stages(), lanes, MainLoad(acc, {sides.swapped ? con->lhs : con->rhs}),
                                      ChoosePanel(-1, acc.outputs[0]->dtype, target));
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
  fold(out, "o");
  RETURN_IF_ERROR(s.status());
  FlatContraction f;
  f.group = *s.stages();
  const Stage& folded = f.group.stages[0];
  if (!FindProduct(folded)) return std::optional<FlatContraction>();  // digits that are always 0
  f.SetOperands(!sides.swapped);
  f.vb = folded.iters[0].var, f.vi = folded.iters[1].var, f.vj = folded.iters[2].var;
  f.b = folded.iters[0].extent, f.i = folded.iters[1].extent, f.j = folded.iters[2].extent;
  if (IsInt(f.b, 0) || IsInt(f.i, 0) || IsInt(f.j, 0)) return std::optional<FlatContraction>();
  return std::optional<FlatContraction>(std::move(f));
}

// The deepest one of at most `most` steps.
PanelDepth ChooseDepth(const std::vector<StageIter>& reduced, int64_t most) {
  PanelDepth r{.outer = reduced.size()};
  for (; r.outer > 0; --r.outer) {
    const Expr extent = reduced[r.outer - 1].extent;
    if (!IsInt(extent)) return r;
    if (r.steps * extent->int_value > most) break;
    r.steps *= extent->int_value;
  }
  if (r.outer == 0) return r;
  const int64_t extent = reduced[r.outer - 1].extent->int_value;
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

double PredictSeconds(const ContractionPlan& t, const Target& target) {
  constexpr double kLoopSeconds = 1.5e-6;  // of starting and ending a parallel loop
  // Of an element of a panel, by one core: read along the lanes; along the reduction; every other one; gathered, from
  // near, from beyond the caches of a core, and where each lane is in a page of its own.
  constexpr double kPackSeconds = 0.06e-9, kTransposeSeconds = 0.12e-9, kStridedSeconds = 0.2e-9,
                   kGatherSeconds = 0.4e-9, kGatherFarSeconds = 0.9e-9;
  constexpr double kGatherPagesSeconds = 1e-9, kFarBytes = 1 << 20, kPageBytes = 4096;
  constexpr double kGather = 12, kStrided = 2, kFarRows = 1.5,
                   kAnywhere = 1.2;  // how much slower tiles are that read lanes or rows far apart, or rows anywhere
  constexpr double kMasked = 4, kMaskedLanes = 2.1;  // or decide for each element whether to read it
  constexpr double kChains = 8;                      // of independent sums that keep a core's multipliers busy
  constexpr double kMovePairsSeconds = 0.6e-9;       // one by one
  const double op_seconds = 1e-9 / SpeedsOf(target).own_rows;
  // Of a result, from the registers to memory, by one core.
  constexpr double kResultSeconds = 0.1e-9, kScatterSeconds = 0.5e-9;
  const FlatContraction& f = t.flat;
  const Stage& acc = f.group.stages[0];
  auto size = [&](Expr e) { return TypicalSize(e, f.group.symbols); };
  const double depth = TypicalSize(acc.reduce_iters, f.group.symbols);
  const double cores = Cores(target), b = size(f.b);
  const auto width = static_cast<double>(t.tile.width());
  const double row_tiles = std::ceil(size(f.i) / static_cast<double>(t.rows));
  const double panels = std::ceil(size(f.j) / width);
  const double results = b * row_tiles * panels * static_cast<double>(t.rows) * width;
  const double row_blocks = t.row_block == 0 ? 1 : std::ceil(size(f.i) / static_cast<double>(t.row_block));
  const double tasks = b * panels * (t.pack ? row_blocks : row_tiles);
  const double balance = tasks > 0 ? std::ceil(tasks / cores) * cores / tasks : 1;
  const auto chains = static_cast<double>(t.rows * t.tile.vectors);
  const double busy = std::min({1.0, chains / kChains, chains / static_cast<double>(t.rows + t.tile.vectors)});
  constexpr double kOfIntegers = 2;  // a product and a sum are an instruction each
  const DType sum_type = acc.outputs[0]->dtype;
  double compute = 2 * results * depth * (BytesOf(sum_type) > 4 ? 2 : 1) * (IsFloat(sum_type) ? 1 : kOfIntegers) /
                   ((t.paired ? SpeedsOf(target).own_dot2 : SpeedsOf(target).own_product) * 1e9 * busy);
  const bool strided = t.lane_step != nullptr && IsInt(t.lane_step, kEveryOther);
  if (!t.pack && !t.paired)
    compute *= t.contiguous ? (!t.near ? kFarRows : t.aligned ? 1 : kAnywhere) : strided ? kStrided : kGather;
  if (!t.pack && !t.paired && f.of_lanes->has_mask) compute *= kMaskedLanes;
  if (t.is_masked) compute *= kMasked;
  // What is computed of elements, for each tile again.
  if (!t.pack) compute *= 1 + CostOf(f.lanes_value) / static_cast<double>(t.rows);
  if (!t.copy_rows) compute *= 1 + CostOf(f.rows_value) / static_cast<double>(t.tile.vectors);
  compute += results * (t.in_place ? kResultSeconds : kScatterSeconds);
  const double lane_bytes = t.lane_step == nullptr ? 0
                                                   : std::abs(static_cast<double>(t.lane_step->int_value)) *
                                                         BytesOf(f.of_lanes->buffer->dtype);
  const bool far = TypicalBytes(f.of_lanes->buffer, f.group.symbols) > kFarBytes;
  const bool moves_pairs = t.paired && t.paired->lanes == PairedProduct::Lanes::kOther;
  const double element_seconds = moves_pairs                ? kMovePairsSeconds
                                 : t.paired || t.contiguous ? kPackSeconds
                                 : t.has_lines              ? kTransposeSeconds + kPackSeconds
                                 : t.across                 ? kTransposeSeconds
                                 : strided                  ? kStridedSeconds
                                 : lane_bytes > kPageBytes  ? kGatherPagesSeconds
                                 : far                      ? kGatherFarSeconds
                                                            : kGatherSeconds;
  // Each step through the first-level cache is one more; that to pairs rounds, too.
  const double value_seconds =
      CostOf(f.lanes_value) * op_seconds + kPackSeconds * ((t.has_raw ? 1 : 0) + (t.has_lanes && t.has_raw ? 2 : 0));
  const double packing = t.pack ? b * panels * row_blocks * width * depth * (element_seconds + value_seconds) : 0;
  if (!t.across) compute += packing;
  if (t.copy_rows) {
    compute += b * size(f.i) * depth *
               (CostOf(f.rows_value) * op_seconds + (t.copies_runs ? kPackSeconds : kMovePairsSeconds));
  }
  if (t.depth.outer > 0) compute += results * depth / static_cast<double>(t.depth.steps) * kResultSeconds;
  const double memory = CostOfMatmuls(f.group).bytes / BytesPerSecond(target);
  // Whole matrices are waited for before any of it is multiplied.
  if (t.across) {
    const double read = TypicalBytes(f.of_lanes->buffer, f.group.symbols) / BytesPerSecond(target);
    const double wait = std::max(packing * balance / cores, read);
    return kLoopSeconds + wait + std::max(compute * balance / cores, memory - read);
  }
  return kLoopSeconds + std::max(compute * balance / cores, memory);
}

// Stages for what the tiles read: the panel, what comes before it, and the other operand's copy. Where no panel can be
// defined, there is none; false: the plan cannot do without.
bool DefineOperands(ContractionPlan& t) {
  const FlatContraction& f = t.flat;
  Context& c = *f.group.context;
  std::string pair, steps, of_pair;
  if (t.paired) pair = t.paired->pair, of_pair = ", " + pair;
  for (const StageIter& i : f.group.stages[0].reduce_iters) {
    if (i.var->name != pair) steps += ", " + i.var->name;
  }
  const std::string b = f.vb->name, i = ", " + f.vi->name, j = ", " + f.vj->name;
  // Reads what it stands for from then on.
  const auto define = [&](const std::string& name, const std::string& iters, Expr value) -> Expr {
    if (!PrintsWithin(value, kMostNodesOfStep) ||
        !t.schedule.Try(Cat("define ", name, "[", iters, "] = ", Print(value))))
      return nullptr;
    std::vector<Expr> at;
    for (const absl::string_view n : absl::StrSplit(iters, ", ")) at.push_back(c.Var(std::string(n)));
    const std::vector<Expr> shape(at.size(), c.Int(1));
    return c.Load(c.MakeBuffer({.name = name, .dtype = value->type.dtype, .shape = shape}), at);
  };
  if (t.pack) {
    Expr value = t.paired ? f.lanes_value->args[0] : f.lanes_value;
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
      const Expr raw = define("raw", Cat(b, steps, j, of_pair), f.of_lanes);
      if (raw == nullptr) return false;
      value = Rewriter(c, [&](Expr e) { return e == f.of_lanes ? raw : nullptr; })(value);
    }
    if (t.has_lanes) value = define("lanes", Cat(b, steps, of_pair, j), value);
    const bool is_defined = value != nullptr && define("panel", Cat(b, steps, j, of_pair), value) != nullptr;
    if (!is_defined && (t.has_raw || t.has_lanes)) return false;
    t.pack = is_defined;
  }
  if (!t.copy_rows) return true;
  const std::string order = t.copies_runs ? Cat(b, i, steps, of_pair) : Cat(b, steps, i, of_pair);
  return define("rows", order, t.paired ? f.rows_value->args[0] : f.rows_value) != nullptr;
}

StatusOr<std::optional<ContractionPlan>> MakePlan(Schedule s, const Sides& sides, const Target& target, bool pairs,
                                                  Point& point) {
  ASSIGN_OR_RETURN(std::optional<FlatContraction> flat, Flatten(s, sides, target));
  if (!flat) return std::optional<ContractionPlan>();
  ContractionPlan t{std::move(s), *std::move(flat)};
  if (pairs) {
    ASSIGN_OR_RETURN(t.paired, PairUp(t.schedule, t.flat, target, t.copy_rows));
    if (!t.paired) return std::optional<ContractionPlan>();
  }
  const FlatContraction& f = t.flat;
  Context& c = *f.group.context;
  const Stage acc = f.group.stages[0], out = f.group.stages[1];  // of what may yet become one of more columns
  const std::vector<StageIter>& reduced = acc.reduce_iters;
  Analyzer a(c);
  for (const SymbolFact& fact : f.group.symbols) a.BindSymbol(fact);
  const DType sum_type = acc.outputs[0]->dtype;
  t.tile = sides.one_sided ? ChooseWindow(f.j, sum_type, target)
                           : ChoosePanel(IsInt(f.j) ? f.j->int_value : -1, sum_type, target);

  // How the operand, and the results, lie in a tile of lanes.
  if (t.tile.lanes > 1) t.tile.vectors = point.Choose("vectors", UpTo(4), t.tile.vectors);
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
  for (size_t d = reduced.size(); d-- > 0 && !t.paired && !t.contiguous && !t.across;) {
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
  const Expr result_step = one ? c.Int(1) : Step(a, out.outputs[0], tiled(PlacesOf(out), out.iters[2].var), ji);
  t.in_place = result_step != nullptr && IsInt(result_step, 1);
  t.is_masked = f.of_rows->has_mask && !t.paired;

  // Loads of windows take as many registers again.
  const int64_t sums = CountAccumulators(target) * (sides.one_sided ? 4 : 7) / 7;
  int64_t most_rows = std::max<int64_t>(sums / t.tile.vectors, 1);
  const Expr apart = Step(a, f.of_rows->buffer, IndicesOf(f.of_rows), f.vi);
  if (apart != nullptr && apart->int_value != 0 &&
      apart->int_value * BytesOf(f.of_rows->buffer->dtype) % kSetBytes == 0)
    most_rows = std::min(most_rows, kMostRowsOfSet);
  t.rows = ChooseRows(f.i, most_rows, a);
  // Rows of a group end where the next group's begin, which no step sees of tiles that reach beyond.
  const bool in_groups = std::any_of(sides.rows.begin(), sides.rows.end(), [](const Digit& d) { return d.part != ""; });
  if (in_groups && IsInt(f.i)) {
    for (t.rows = std::min({most_rows, kMaxRows, f.i->int_value}); f.i->int_value % t.rows != 0;) --t.rows;
  }
  if (!in_groups) t.rows = point.Choose("rows", UpTo(std::min(most_rows, kMaxRows)), t.rows);
  const int64_t row_tiles = IsInt(f.i) ? (f.i->int_value + t.rows - 1) / t.rows : 16;
  // A panel of pairs is of bf16, any other of what is multiplied.
  const bool computed = t.paired ? f.lanes_value->args[0]->op != ExprOp::kLoad : IsComputed(f.lanes_value);
  const bool wants = t.paired ? t.paired->lanes != PairedProduct::Lanes::kPaired || computed
                              : point.ChooseBool("pack", !t.contiguous || computed || f.of_lanes->has_mask ||
                                                             ((!t.near || !t.aligned) && row_tiles >= 4));
  const int64_t panel_bytes =
      wants ? 1024 * point.Choose("panel_kib", {64, 128, 256, 512}, kMaxPanelBytes / 1024) : kMaxPanelBytes;
  const int64_t most_steps = panel_bytes / (t.tile.width() * (t.paired ? 2 : BytesOf(sum_type)));
  t.depth = ChooseDepth(reduced, most_steps);
  if (t.depth.outer > 0) t.depth = ChooseDepth(reduced, most_steps / 2);
  if (!t.paired) {
    // Rows that are converted or computed, if several panels read them and windows of them do not overlap much.
    const auto size = [&](Expr e) { return TypicalSize(e, f.group.symbols); };
    const double elements = size(f.b) * size(f.i) * TypicalSize(reduced, f.group.symbols);
    const double given = TypicalBytes(f.of_rows->buffer, f.group.symbols) / BytesOf(f.of_rows->type.dtype);
    const bool may = f.rows_value != f.of_rows && !f.of_rows->has_mask;
    const bool pays = size(f.j) > static_cast<double>(t.tile.width()) && elements <= kMostCopied * given;
    t.copy_rows = may && point.ChooseBool("copy_rows", pays);
  }
  t.copies_runs = t.copy_rows && !reduced.empty() && (!t.paired || t.paired->at + 2 == reduced.size()) &&
                  IsStepOne(a, f.of_rows, reduced.back().var);
  t.pack = wants && !(one && IsInt(f.b, 1)) && t.depth.steps >= (t.depth.outer > 0 ? kLeastSteps : 1);
  if (t.across && (!t.pack || t.depth.outer > *t.across + 1)) t.across = std::nullopt;
  if (t.across && f.of_lanes->has_mask && f.lanes_value != f.of_lanes) t.across = std::nullopt;
  t.has_lines = t.across && f.of_lanes->has_mask;
  // Whole tiles, which have no rest to ask about.
  if (t.has_lines && a.KnownDivisor(f.j) % t.tile.width() != 0) {
    const bool lhs_is_rows = FindProduct(acc)->lhs == f.rows_value;
    t.schedule.Step("round_up ", acc.name, " ", f.vj->name, " ", t.tile.width());
    RETURN_IF_ERROR(t.schedule.status());
    t.flat.group = *t.schedule.stages();
    if (!FindProduct(t.flat.group.stages[0])) return std::optional<ContractionPlan>();
    t.flat.SetOperands(lhs_is_rows);
  }
  t.has_raw = t.pack && !t.has_lines &&
              (t.paired ? computed && t.paired->lanes == PairedProduct::Lanes::kAlongPairs
                        : t.across && f.lanes_value != f.of_lanes);
  t.has_lanes = t.pack && t.paired &&
                (computed || (t.paired->lanes == PairedProduct::Lanes::kAlongLanes && f.of_lanes->has_mask));
  if (!DefineOperands(t)) return std::optional<ContractionPlan>();
  if (t.paired && ((wants && !t.pack) || t.depth.outer > t.paired->at + 1)) return std::optional<ContractionPlan>();
  if (!t.pack) t.depth = {}, t.across = std::nullopt, t.has_lines = t.has_raw = t.has_lanes = false;
  if (t.depth.outer > 0) {  // so many sums wait beside the panel
    const int64_t most = kMaxPanelBytes / 2 / (t.tile.width() * BytesOf(sum_type)) / t.rows;
    const int64_t blocks = IsInt(f.i) ? (row_tiles + most - 1) / most : 0;
    t.row_block = blocks == 1 ? 0 : (blocks == 0 ? most : (row_tiles + blocks - 1) / blocks) * t.rows;
  }
  t.seconds = PredictSeconds(t, target);
  // As many tasks as keep the cores busy; each packs its panels.
  for (int64_t tiles = row_tiles; t.pack && IsInt(f.i) && tiles > 1;) {
    tiles = (tiles + 1) / 2;
    if (t.row_block != 0 && tiles * t.rows >= t.row_block) continue;
    ContractionPlan more = t;
    more.row_block = tiles * t.rows;
    more.seconds = PredictSeconds(more, target);
    if (more.seconds >= t.seconds) break;
    t = std::move(more);
  }
  if (t.pack && IsInt(f.i)) {
    const int64_t predicted = t.row_block == 0 ? row_tiles : t.row_block / t.rows;
    const int64_t most = t.depth.outer > 0 ? predicted : row_tiles;  // for whose sums there is room
    std::vector<int64_t> options = {most};
    while (options.back() > 1) options.push_back((options.back() + 1) / 2);
    if (const int64_t tiles = point.Choose("row_tiles", options, predicted); tiles != predicted) {
      t.row_block = tiles == row_tiles ? 0 : tiles * t.rows;
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

// In pairs, where that is cheaper.
StatusOr<std::optional<ContractionPlan>> CheaperPlan(const Schedule& s, const Sides& sides, const Target& target,
                                                     Point& point) {
  Point of_pairs = point;
  ASSIGN_OR_RETURN(std::optional<ContractionPlan> plan, MakePlan(s, sides, target, false, point));
  if (!plan || sides.one_sided || !MayPairUp(plan->flat.group, target)) return plan;
  ASSIGN_OR_RETURN(std::optional<ContractionPlan> paired, MakePlan(s, sides, target, true, of_pairs));
  const bool predicted = paired && paired->seconds < plan->seconds;
  if (!point.ChooseBool("pairs", predicted) || !paired) return plan;
  point = std::move(of_pairs);
  point.ChooseBool("pairs", predicted);
  return paired;
}

// With the lanes that the results lie along; where there are none, or rows are read under a mask, with the cheaper.
StatusOr<std::optional<ContractionPlan>> ChoosePlan(const TeProgram& original, Sides sides, const Target& target,
                                                    Point& point) {
  ASSIGN_OR_RETURN(Schedule s, Schedule::Of(original));
  ASSIGN_OR_RETURN(const bool is_apart, TakeApart(s));
  if (!is_apart) return std::optional<ContractionPlan>();
  const bool has_choice = !sides.one_sided && !sides.rows.empty();
  if (has_choice) {
    const Stage& out = s.stages()->stages[1];
    Analyzer a = FactsOf(*s.stages(), out);
    if (!FindRun(a, out, sides.lanes) && FindRun(a, out, sides.rows)) sides = Swap(std::move(sides));
  }
  Point of_other = point;
  ASSIGN_OR_RETURN(std::optional<ContractionPlan> plan, CheaperPlan(s, sides, target, point));
  if (!plan || !has_choice) return plan;
  const bool asks = !plan->in_place || plan->is_masked || WastesLanes(*plan);
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

void FlatContraction::SetOperands(bool lhs_is_rows) {
  const Stage& acc = group.stages[0];
  const Contraction con = *FindProduct(acc);
  rows_value = lhs_is_rows ? con.lhs : con.rhs;
  lanes_value = lhs_is_rows ? con.rhs : con.lhs;
  of_rows = MainLoad(acc, {rows_value});
  of_lanes = MainLoad(acc, {lanes_value});
}

StatusOr<std::optional<ContractionPlan>> PlanContraction(const TeProgram& group, const Target& target, Point& point) {
  const std::optional<Sides> sides = FindSides(group);
  if (!sides || !HasRegisterTiles(group.stages[0].outputs[0]->dtype, target)) return std::optional<ContractionPlan>();
  return ChoosePlan(group, *sides, target, point);
}

}  // namespace cinn_like::hlir
