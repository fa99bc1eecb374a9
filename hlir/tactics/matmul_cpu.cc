// Contractions on a CPU: register tiles of rows x lanes. Each thread takes tiles; a tile's accumulators stay in vector
// registers over the whole reduction, whose operands are one row element broadcast and one run of lanes. Either operand
// can be the lanes': the one along which the results lie, unless the other is cheaper. What is read under a mask (the
// padding of a convolution), whose lanes are not contiguous (its strides, a transposed matrix) or whose rows lie far
// apart is first packed into a panel (hlir/panels.h) that all row tiles share: the operand's expression over a tile of
// lanes. The epilogue runs over the finished tile while it is in L1.
//   C[i, j] += A[i, k] * B[k, j]:   tile rows 4..14, two vectors wide (measured: docs/performance.md)
//   y[o, p] += w[o, k] * x[window of p at k; inside]:   rows o, lanes p, panel[k, p] for 32 places p at a time
#include <algorithm>

#include "hlir/panels.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr int64_t kMaxRows = 14;
constexpr int64_t kMaxPanelBytes = 512 * 1024;  // half of L2, on the thread's stack

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

// The group as acc[b, i, j] = sum over k, out written from acc at (b, i, j): rows i, of which one element at a time is
// broadcast, by lanes j.
struct Flat {
  TeProgram group;
  Expr b, i, j;            // extents
  Expr of_rows, of_lanes;  // the operands' loads, in terms of vb, vi, vj and the reduction's iterators
  Expr vb, vi, vj;
};

// An iterator of the contraction, or a part of one: "vi", "vi/4" or "vi%4".
struct Digit {
  size_t dim;
  std::string part;
  Expr extent;
};

// Which digits are what. Either operand's own can be the lanes.
struct Sides {
  std::vector<Digit> batch, rows, lanes;
  bool swapped = false;  // the lanes are the left-hand side's
};

// d, where the operand speaks of `var` only as var / d; 0 where it does not.
int64_t DivisorOf(Expr operand, Expr var) {
  int64_t divisor = 0;
  bool only = true;
  Visit(operand, [&](Expr e) {
    const bool divides = e->op == ExprOp::kDiv && e->args[0] == var && IsInt(e->args[1]);
    if (e == var || (divides && divisor != 0 && divisor != e->args[1]->int_value)) only = false;
    if (divides) divisor = e->args[1]->int_value;
    return !divides;
  });
  return only ? divisor : 0;
}

// The contraction of {contraction} or {contraction, epilogue}; the lanes are its right-hand side's. Of an iterator that
// both operands read, one of them as a quotient (groups of channels), the remainder is the other's own.
std::optional<Sides> FindSides(const TeProgram& group) {
  if (group.stages.empty() || group.stages.size() > 2) return std::nullopt;
  const Stage& acc = group.stages[0];
  const std::optional<Contraction> con = FindContraction(acc);
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
      r.batch.push_back({d, splits ? Cat("/", divisor) : "", extent});
      if (splits) (lhs == divisor ? r.lanes : r.rows).push_back({d, Cat("%", divisor), group.context->Int(divisor)});
    }
  }
  return r.lanes.empty() ? std::nullopt : std::optional(std::move(r));
}

// How far elements of `b` at `indices` are apart when `var` grows by one; null if it is not the same everywhere.
Expr Step(Analyzer& a, Buffer b, const std::vector<Expr>& indices, Expr var) {
  Context& c = a.context();
  const Expr offset = ElementOffset(c, b, indices);
  const Expr step = a.Simplify(c.Sub(Substitute(c, offset, {{var, c.Add(var, c.Int(1))}}), offset));
  return IsInt(step) ? step : nullptr;
}

std::vector<Expr> PlacesOf(const Stage& s) { return s.at.empty() ? VarsOf(s.iters) : s.at; }

// How many of the `lanes` (dimensions of `out`, which a tile runs along) become part of the batch: all before those
// that lie in the result one after the other, if these fill a tile.
size_t CountBatched(Analyzer& a, const Stage& out, const std::vector<Digit>& lanes, int64_t width) {
  const std::vector<Expr> at = PlacesOf(out);
  const auto step = [&](size_t d) { return Step(a, out.outputs[0], at, out.iters[lanes[d].dim].var); };
  size_t first = lanes.size() - 1;
  while (first > 0 && IsInt(lanes[first].extent, 1)) --first;
  const Expr unit = step(first);
  if (unit == nullptr || !IsInt(unit, 1)) return 0;
  Expr run = lanes[first].extent;
  for (; first > 0; --first) {
    const Expr extent = lanes[first - 1].extent;
    if (!IsInt(extent, 1) && step(first - 1) != run) break;
    run = a.context().Mul(run, extent);
  }
  return IsInt(run) && run->int_value < width ? 0 : first;
}

// Steps on stages make the group flat; nullopt if it is none that can be.
StatusOr<std::optional<Flat>> Flatten(Schedule& s, const Sides& sides, const Target& target) {
  const std::vector<Stage> stages = s.stages()->stages;
  const Stage& acc = stages[0];
  if (stages.size() == 1)
    s.Step("keep ", acc.outputs[0]->name, " -> acc");
  else if (!s.Try(Cat("align ", stages[1].name, " ", acc.name)))
    return std::optional<Flat>();
  RETURN_IF_ERROR(s.status());
  // The other stage's iterators are the contraction's, in order.
  const Stage out = s.stages()->stages[1];
  std::vector<Digit> batch = sides.batch, lanes = sides.lanes;
  {
    Context& c = *s.stages()->context;
    Analyzer a(c);
    for (const SymbolFact& f : s.stages()->symbols) a.BindSymbol(f);
    for (const StageIter& i : out.iters) a.BindRange(i.var, c.Int(0), c.Max(c.Sub(i.extent, c.Int(1)), c.Int(1)));
    const size_t batched = CountBatched(a, out, lanes, ChoosePanel(-1, acc.outputs[0]->dtype, target).width());
    batch.insert(batch.end(), lanes.begin(), lanes.begin() + static_cast<ptrdiff_t>(batched));
    lanes.erase(lanes.begin(), lanes.begin() + static_cast<ptrdiff_t>(batched));
    std::stable_sort(batch.begin(), batch.end(), [](const Digit& x, const Digit& y) { return x.dim < y.dim; });
  }
  const auto fold = [&](const Stage& stage, const std::string& base) {
    const auto bracket = [&](const std::string& name, const std::vector<Digit>& digits) {
      std::string list;
      for (const Digit& d : digits) list += Cat(list.empty() ? "" : ", ", stage.iters[d.dim].var->name, d.part);
      return Cat(" ", base, name, "[", list, "]");
    };
    s.Step("fold ", stage.name, " ->", bracket("b", batch), bracket("i", sides.rows), bracket("j", lanes));
  };
  fold(acc, "v");
  fold(out, "o");
  RETURN_IF_ERROR(s.status());
  Flat f;
  f.group = *s.stages();
  const Stage& folded = f.group.stages[0];
  const auto flat = FindContraction(folded);
  if (!flat) return std::optional<Flat>();  // digits that are always 0
  f.of_rows = sides.swapped ? flat->rhs : flat->lhs;
  f.of_lanes = sides.swapped ? flat->lhs : flat->rhs;
  f.vb = folded.iters[0].var, f.vi = folded.iters[1].var, f.vj = folded.iters[2].var;
  f.b = folded.iters[0].extent, f.i = folded.iters[1].extent, f.j = folded.iters[2].extent;
  if (IsInt(f.b, 0) || IsInt(f.i, 0) || IsInt(f.j, 0)) return std::optional<Flat>();
  return std::optional<Flat>(std::move(f));
}

// A product as it is to be computed: steps on stages are done, those on loops follow.
struct Plan {
  Schedule schedule;
  Flat flat;
  PanelShape tile = {};
  int64_t rows = 1;         // of a tile
  bool pack = false;        // the lanes' operand, a panel at a time
  bool contiguous = false;  // its lanes, in memory
  bool near = false;        // its rows
  bool in_place = false;    // results lie along the lanes
  bool is_masked = false;   // elements that are broadcast are read under a condition
  Expr lane_step = nullptr;
  double seconds = 0;
};

double PredictSeconds(const Plan& t, const Target& target) {
  constexpr double kLoopSeconds = 1.5e-6;  // of starting and ending a parallel loop
  // Of an element of a panel, by one core: read along the lanes; gathered, from near, from beyond the caches of a core,
  // and where each lane is in a page of its own.
  constexpr double kPackSeconds = 0.1e-9, kGatherSeconds = 0.4e-9, kGatherFarSeconds = 0.8e-9;
  constexpr double kGatherPagesSeconds = 1e-9, kFarBytes = 1 << 20, kPageBytes = 4096;
  constexpr double kGather = 8, kFarRows = 1.5;  // how much slower tiles are that read lanes or rows far apart
  constexpr double kMasked = 4;                  // or decide for each element whether to read it
  constexpr double kChains = 8;                  // of independent sums that keep a core's multipliers busy
  // Of a result, from the registers to memory, by one core.
  constexpr double kResultSeconds = 0.1e-9, kScatterSeconds = 3e-9;
  const Flat& f = t.flat;
  const Stage& acc = f.group.stages[0];
  auto size = [&](Expr e) { return TypicalSize(e, f.group.symbols); };
  const double depth = TypicalSize(acc.reduce_iters, f.group.symbols);
  const double cores = Cores(target), b = size(f.b);
  const auto width = static_cast<double>(t.tile.width());
  const double row_tiles = std::ceil(size(f.i) / static_cast<double>(t.rows));
  const double panels = std::ceil(size(f.j) / width);
  const double results = b * row_tiles * panels * static_cast<double>(t.rows) * width;
  const double tasks = b * panels * (t.pack ? 1 : row_tiles);
  const double balance = tasks > 0 ? std::ceil(tasks / cores) * cores / tasks : 1;
  const auto chains = static_cast<double>(t.rows * t.tile.vectors);
  const double busy = std::min({1.0, chains / kChains, chains / static_cast<double>(t.rows + t.tile.vectors)});
  const bool wide = BytesOf(acc.outputs[0]->dtype) > 4;
  double compute = 2 * results * depth * (wide ? 2 : 1) / (SpeedsOf(target).own_product * 1e9 * busy);
  if (!t.pack) compute *= t.contiguous ? (t.near ? 1 : kFarRows) : kGather;
  if (t.is_masked) compute *= kMasked;
  compute += results * (t.in_place ? kResultSeconds : kScatterSeconds);
  const double lane_bytes =
      t.lane_step == nullptr
          ? 0
          : std::abs(static_cast<double>(t.lane_step->int_value)) * BytesOf(f.of_lanes->buffer->dtype);
  const bool far = TypicalBytes(f.of_lanes->buffer, f.group.symbols) > kFarBytes;
  const double element_seconds = t.contiguous              ? kPackSeconds
                                 : lane_bytes > kPageBytes ? kGatherPagesSeconds
                                 : far                     ? kGatherFarSeconds
                                                           : kGatherSeconds;
  if (t.pack) compute += b * panels * width * depth * element_seconds;
  return kLoopSeconds + std::max(compute * balance / cores, CostOfMatmuls(f.group).bytes / BytesPerSecond(target));
}

StatusOr<std::optional<Plan>> MakePlan(const TeProgram& original, const Sides& sides, const Target& target) {
  ASSIGN_OR_RETURN(Schedule s, Schedule::Of(original));
  ASSIGN_OR_RETURN(std::optional<Flat> flat, Flatten(s, sides, target));
  if (!flat) return std::optional<Plan>();
  Plan t{std::move(s), *std::move(flat)};
  const Flat& f = t.flat;
  Context& c = *f.group.context;
  const Stage &acc = f.group.stages[0], &out = f.group.stages[1];
  const std::vector<StageIter>& reduced = acc.reduce_iters;
  Analyzer a(c);
  for (const SymbolFact& fact : f.group.symbols) a.BindSymbol(fact);
  t.tile = ChoosePanel(IsInt(f.j) ? f.j->int_value : -1, acc.outputs[0]->dtype, target);
  t.rows = ChooseRows(f.i, CountAccumulators(target) / t.tile.vectors, a);

  // How the operand, and the results, lie in a tile of lanes.
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
  t.near = one || (row_step != nullptr && row_step->int_value <= 8 * t.tile.width());
  const Expr result_step = one ? c.Int(1) : Step(a, out.outputs[0], tiled(PlacesOf(out), out.iters[2].var), ji);
  t.in_place = result_step != nullptr && IsInt(result_step, 1);
  t.is_masked = f.of_rows->has_mask;

  int64_t row_bytes = BytesOf(from->dtype);  // of the reduction, for one lane; 0: symbolic
  for (const StageIter& i : reduced) row_bytes *= IsInt(i.extent) ? i.extent->int_value : 0;
  const int64_t row_tiles = IsInt(f.i) ? (f.i->int_value + t.rows - 1) / t.rows : 16;
  const bool wants = !t.contiguous || f.of_lanes->has_mask || (!t.near && row_tiles >= 4);
  PanelShape shape = t.tile;
  if (row_bytes * shape.width() > kMaxPanelBytes) shape.vectors = 1;
  std::string iters = f.vb->name;
  for (const StageIter& i : reduced) iters += ", " + i.var->name;
  t.pack = wants && row_bytes > 0 && row_bytes * shape.width() <= kMaxPanelBytes &&
           PrintsWithin(f.of_lanes, kMostNodesOfStep) &&
           t.schedule.Try(Cat("define panel[", iters, ", ", f.vj->name, "] = ", Print(f.of_lanes)));
  if (t.pack) t.tile = shape;
  t.rows = ChooseRows(f.i, CountAccumulators(target) / t.tile.vectors, a);
  t.seconds = PredictSeconds(t, target);
  return std::optional<Plan>(std::move(t));
}

// With the lanes that the results lie along, unless the others are cheaper.
StatusOr<std::optional<Plan>> ChoosePlan(const TeProgram& original, Sides sides, const Target& target) {
  ASSIGN_OR_RETURN(std::optional<Plan> plan, MakePlan(original, sides, target));
  if (!plan || sides.rows.empty() || (plan->in_place && !plan->is_masked)) return plan;
  std::swap(sides.rows, sides.lanes);
  sides.swapped = true;
  ASSIGN_OR_RETURN(std::optional<Plan> swapped, MakePlan(original, sides, target));
  return swapped && swapped->seconds < plan->seconds ? std::move(swapped) : std::move(plan);
}

}  // namespace

StatusOr<std::vector<Proposal>> ProposeMatmulCpu(const TeProgram& original, const Target& target) {
  const std::optional<Sides> sides = FindSides(original);
  if (!sides || !HasRegisterTiles(original.stages[0].outputs[0]->dtype, target)) return std::vector<Proposal>();
  ASSIGN_OR_RETURN(std::optional<Plan> plan, ChoosePlan(original, *sides, target));
  if (!plan) return std::vector<Proposal>();
  Schedule& s = plan->schedule;
  const Flat* flat = &plan->flat;
  const TeProgram& group = flat->group;
  const Stage& acc = group.stages[0];
  const std::string sums = acc.outputs[0]->name, sum_block = "b_" + acc.name;
  const std::vector<StageIter> reduced = acc.reduce_iters;
  const int64_t lanes = plan->tile.lanes, width = plan->tile.width(), tile_rows = plan->rows;
  const bool pack = plan->pack;

  const std::string out = "b_" + group.stages.back().name;
  // The output's loops, where the extent is not 1.
  std::vector<std::string> names = s.LoopsAround(out);
  size_t next = 0;
  auto take = [&](Expr extent) { return IsInt(extent, 1) ? std::string() : names[next++]; };
  const std::string lb = take(flat->b), li = take(flat->i), lj = take(flat->j);
  std::vector<std::string> shared, inside;  // loops over panels, then over row tiles
  std::string rows, columns;
  if (!lb.empty()) shared.push_back(lb);
  if (!lj.empty()) {
    s.Step("split ", lj, " ", width, " -> jo ji");
    shared.push_back("jo");
    columns = "ji";
  }
  if (!li.empty()) {
    s.Step("split ", li, " ", tile_rows, " -> io ii");
    inside.push_back("io");
    rows = "ii";
  }
  std::string order = "reorder";
  for (const auto* list : {&shared, &inside}) {
    for (const std::string& l : *list) order += " " + l;
  }
  s.Run(order + (rows.empty() ? "" : " " + rows) + (columns.empty() ? "" : " " + columns));
  if (!pack) {
    shared.insert(shared.end(), inside.begin(), inside.end());
    inside.clear();
  }
  std::string fuse = "fuse";
  for (const std::string& l : shared) fuse += " " + l;
  s.Run(fuse + " -> p").Run("parallel p");
  const std::string at = inside.empty() ? "p" : inside.back();

  // A thread has a tile and a panel of its own.
  s.Step("stage ", sums, " ", out, " -> tile").Step("scope ", sums, " local").Run("scope tile local");
  s.Step("compute_at tile_copy ", at).Step("compute_at ", sum_block, " ", at);
  if (pack) s.Run("scope panel local align 64").Run("compute_at b_panel p");
  // The loops that compute_at made, inside `at`.
  auto inner = [&](const std::string& block) {
    std::vector<std::string> v = s.LoopsAround(block);
    auto it = std::find(v.begin(), v.end(), block == "b_panel" ? "p" : at);
    return std::vector<std::string>(it == v.end() ? it : it + 1, v.end());
  };
  auto lane_loops = [&](const std::string& loop, const std::string& base, std::vector<std::string>& to) {
    if (lanes == 1) return to.push_back(loop);
    const std::string vector = s.Fresh(base + "v"), lane = s.Fresh(base + "l");
    s.Step("split ", loop, " ", lanes, " -> ", vector, " ", lane).Step("vectorize ", lane);
    to.push_back(vector);
  };
  // First what others read: they compute beyond bounds only what they find there.
  if (pack) {
    const std::vector<std::string> v = inner("b_panel");
    if (!v.empty() && !columns.empty() && width > 1) {
      std::vector<std::string> vectors;
      lane_loops(v.back(), "p", vectors);
      // What a lane asks about its place it asks once: loops that the condition depends on are outside.
      if (flat->of_lanes->has_mask || !plan->contiguous) {
        std::string outer = "reorder " + vectors[0], rest;
        size_t k = 0;
        for (const StageIter& i : reduced) {
          if (IsInt(i.extent, 1)) continue;
          const bool decides = flat->of_lanes->has_mask && Uses(MaskOf(flat->of_lanes), i.var);
          (decides ? outer : rest) += " " + v[k++];
        }
        s.Run(outer + rest + (lanes == 1 ? "" : " " + s.LoopsAround("b_panel").back()));
      }
    }
    s.Run("pad b_panel");
  }
  {
    std::vector<std::string> v = inner(sum_block);
    size_t k = 0;
    std::vector<std::string> tile_loops;
    if (!rows.empty() && tile_rows > 1) tile_loops.push_back(v[k++]);
    const std::string lane_loop = !columns.empty() && width > 1 ? v[k++] : "";
    std::string step = "reorder";
    for (size_t i = k; i < v.size(); ++i) step += " " + v[i];
    for (size_t i = 0; i < k; ++i) step += " " + v[i];
    s.Run(step);
    if (!lane_loop.empty()) lane_loops(lane_loop, "a", tile_loops);
    for (const std::string& l : tile_loops) s.Step("unroll ", l);
    s.Step("pad ", sum_block);
    if (k < v.size()) {
      s.Step("split_init ", sum_block, " ", v[k], " -> b_init");
      // A few steps of the innermost reduction loop at a time.
      const Expr last = reduced.back().extent;
      if (IsInt(last) && last->int_value % 4 == 0 && last->int_value > 4)
        s.Step("split ", v.back(), " 4 -> ko ki").Run("unroll ki");
    }
  }
  {
    std::vector<std::string> v = inner("tile_copy"), tile_loops;
    size_t k = 0;
    if (!rows.empty() && tile_rows > 1) tile_loops.push_back(v[k++]);
    if (k < v.size()) lane_loops(v[k], "t", tile_loops);
    for (const std::string& l : tile_loops) s.Step("unroll ", l);
    s.Run("pad tile_copy");
  }
  if (!columns.empty() && width > 1) {
    std::vector<std::string> unused;
    lane_loops(columns, "o", unused);
  }
  RETURN_IF_ERROR(s.status());
  return std::vector<Proposal>{{"matmul_cpu", s.func(), s.text(), plan->seconds}};
}

}  // namespace cinn_like::hlir
