// Contractions on a CPU: register tiles of rows x lanes. Each thread takes tiles; a tile's accumulators stay in vector
// registers over the whole reduction, whose operands are one row element broadcast and one run of lanes. A right-hand
// side whose lanes are not contiguous, or whose rows lie far apart, is first packed into a panel (hlir/panels.h) that
// all of its row tiles share. The epilogue runs over the finished tile while it is in L1.
//   C[i, j] += A[i, k] * B[k, j]:   tile rows 4..14, two vectors wide (measured: docs/performance.md)
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
constexpr int64_t kAccumulators = 28;           // of 32 vector registers
constexpr int64_t kMaxPanelBytes = 512 * 1024;  // half of L2, on the thread's stack

// Rows of a register tile: a divisor of `rows` if there is a good one, else little waste.
int64_t ChooseRows(Expr rows, int64_t vectors, Analyzer& a) {
  const int64_t most = std::min(kMaxRows, kAccumulators / vectors);
  const int64_t divisor = IsInt(rows) ? rows->int_value : a.KnownDivisor(rows);
  for (int64_t r = most; r >= 6; --r) {
    if (divisor % r == 0) return r;
  }
  if (!IsInt(rows)) return 8;
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

// The group as acc[b, i, j] = sum over k, out written from acc at (b, i, j).
struct Flat {
  TeProgram group;
  Expr b, i, j;   // extents
  Expr lhs, rhs;  // loads, in terms of vb, vi, vj and the reduction's iterators
  Expr vb, vi, vj;
};

// The contraction of {contraction} or {contraction, epilogue}.
std::optional<Contraction> FindProduct(const TeProgram& group) {
  if (group.stages.empty() || group.stages.size() > 2) return std::nullopt;
  const Stage& acc = group.stages[0];
  std::optional<Contraction> con = FindContraction(acc);
  if (!con || con->n.empty() || acc.outputs.size() != 1) return std::nullopt;
  if (con->lhs->has_mask || con->rhs->has_mask || con->lhs->buffer == con->rhs->buffer) return std::nullopt;
  const bool is_result =
      std::any_of(group.params.begin(), group.params.end(), [&](const Param& p) { return p.buffer == acc.outputs[0]; });
  if (is_result != (group.stages.size() == 1)) return std::nullopt;
  return con;
}

// Steps on stages make the group flat; nullopt if it is none that can be.
StatusOr<std::optional<Flat>> Flatten(Schedule& s, const Contraction& con) {
  const std::vector<Stage> stages = s.stages()->stages;
  const Stage& acc = stages[0];
  if (stages.size() == 1)
    s.Step("keep ", acc.outputs[0]->name, " -> acc");
  else if (!s.Try(Cat("align ", stages[1].name, " ", acc.name)))
    return std::optional<Flat>();
  RETURN_IF_ERROR(s.status());
  // The other stage's iterators are the contraction's, in order.
  const Stage out = s.stages()->stages[1];
  const auto fold = [&](const Stage& stage, const std::string& base) {
    const auto bracket = [&](const std::string& name, const std::vector<StageIter>& side) {
      std::string list;
      for (size_t d = 0; d < acc.iters.size(); ++d) {
        const bool in =
            std::any_of(side.begin(), side.end(), [&](const StageIter& i) { return i.var == acc.iters[d].var; });
        if (in) list += Cat(list.empty() ? "" : ", ", stage.iters[d].var->name);
      }
      return Cat(" ", base, name, "[", list, "]");
    };
    s.Step("fold ", stage.name, " ->", bracket("b", con.batch), bracket("i", con.m), bracket("j", con.n));
  };
  fold(acc, "v");
  fold(out, "o");
  RETURN_IF_ERROR(s.status());
  Flat f;
  f.group = *s.stages();
  const Stage& folded = f.group.stages[0];
  const auto flat = FindContraction(folded);
  if (!flat) return std::optional<Flat>();  // digits that are always 0
  f.lhs = flat->lhs;
  f.rhs = flat->rhs;
  f.vb = folded.iters[0].var, f.vi = folded.iters[1].var, f.vj = folded.iters[2].var;
  f.b = folded.iters[0].extent, f.i = folded.iters[1].extent, f.j = folded.iters[2].extent;
  return std::optional<Flat>(std::move(f));
}

// The element distance of a load when `var` grows by one; null if it is not the same everywhere.
Expr Step(Analyzer& a, Expr load, Expr var) {
  Context& c = a.context();
  const Expr offset = ElementOffset(c, load->buffer, load->args);
  Expr step = a.Simplify(c.Sub(Substitute(c, offset, {{var, c.Add(var, c.Int(1))}}), offset));
  return IsInt(step) ? step : nullptr;
}

// What the tiles of one product look like to the cost model.
struct Tiling {
  int64_t rows, width, vectors;
  bool packed, contiguous, near;
};

double PredictSeconds(const Flat& f, const Tiling& t, double depth, const Target& target) {
  constexpr double kLoopSeconds = 1.5e-6;  // of starting and ending a parallel loop
  // Of an element, by one core; the last where each row of what is transposed begins in a page of its own.
  constexpr double kPackSeconds = 0.25e-9, kTransposeSeconds = 0.5e-9, kTransposePagesSeconds = 1e-9;
  constexpr double kPageBytes = 4096;
  constexpr double kGather = 8, kFarRows = 1.5;  // how much slower tiles are that read lanes or rows far apart
  constexpr double kChains = 8;                  // of independent sums that keep a core's multipliers busy
  auto size = [&](Expr e) { return TypicalSize(e, f.group.symbols); };
  const double cores = Cores(target), b = size(f.b);
  const double row_tiles = std::ceil(size(f.i) / static_cast<double>(t.rows));
  const double panels = std::ceil(size(f.j) / static_cast<double>(t.width));
  constexpr double kResultSeconds = 1e-9;  // of a result, from the registers to memory, by one core
  const double flops = 2 * b * row_tiles * panels * static_cast<double>(t.rows * t.width) * depth;
  const double tasks = b * panels * (t.packed ? 1 : row_tiles);
  const double balance = tasks > 0 ? std::ceil(tasks / cores) * cores / tasks : 1;
  const auto chains = static_cast<double>(t.rows * t.vectors);
  const double busy = std::min({1.0, chains / kChains, chains / static_cast<double>(t.rows + t.vectors)});
  const bool wide = BytesOf(f.group.stages[0].outputs[0]->dtype) > 4;
  double compute = flops * balance * (wide ? 2 : 1) / (SpeedsOf(target).own_product * 1e9 * cores * busy);
  if (!t.packed) compute *= t.contiguous ? (t.near ? 1 : kFarRows) : kGather;
  const double row_bytes = depth * BytesOf(f.rhs->buffer->dtype);
  const double element_seconds = t.contiguous             ? kPackSeconds
                                 : row_bytes > kPageBytes ? kTransposePagesSeconds
                                                          : kTransposeSeconds;
  const double packed = t.packed ? b * panels * static_cast<double>(t.width) * depth : 0;
  const double packing = packed * element_seconds * balance / cores;
  compute += flops / (2 * depth) * kResultSeconds * balance / cores;
  return kLoopSeconds + packing + std::max(compute, CostOfMatmuls(f.group).bytes / BytesPerSecond(target));
}

}  // namespace

StatusOr<std::vector<Proposal>> ProposeMatmulCpu(const TeProgram& original, const Target& target, Until until) {
  const std::optional<Contraction> con = FindProduct(original);
  if (!con) return std::vector<Proposal>();
  const DType acc_type = original.stages[0].outputs[0]->dtype;
  if (!HasRegisterTiles(acc_type, target)) return std::vector<Proposal>();
  ASSIGN_OR_RETURN(Schedule s, Schedule::Of(original));
  ASSIGN_OR_RETURN(const std::optional<Flat> flat, Flatten(s, *con));
  if (!flat || IsInt(flat->b, 0) || IsInt(flat->i, 0) || IsInt(flat->j, 0)) return std::vector<Proposal>();
  const TeProgram& group = flat->group;
  Context& c = *group.context;
  const Stage& acc = group.stages[0];
  const std::string sums = acc.outputs[0]->name, sum_block = "b_" + acc.name;
  const std::vector<StageIter> reduced = acc.reduce_iters;
  int64_t depth = 1;  // of the reduction; 0: symbolic
  for (const StageIter& i : reduced) depth *= IsInt(i.extent) ? i.extent->int_value : 0;

  Analyzer a(c);
  for (const SymbolFact& s : group.symbols) a.BindSymbol(s);
  const PanelShape tile = ChoosePanel(IsInt(flat->j) ? flat->j->int_value : -1, acc_type, target);
  const int64_t lanes = tile.lanes, width = tile.width(), tile_rows = ChooseRows(flat->i, tile.vectors, a);

  // How the right-hand side lies in a tile of lanes.
  const Expr jo = c.Var("jo"), ji = c.Var("ji");
  a.BindRange(jo, c.Int(0), c.CeilDiv(flat->j, c.Int(width)));
  a.BindRange(ji, c.Int(0), c.Int(std::max<int64_t>(width - 1, 1)));
  for (const StageIter& i : reduced) a.BindRange(i.var, c.Int(0), c.Max(c.Sub(i.extent, c.Int(1)), c.Int(1)));
  const Expr tiled = Substitute(c, flat->rhs, {{flat->vj, c.Add(c.Mul(jo, c.Int(width)), ji)}});
  const Expr lane_step = width > 1 ? Step(a, tiled, ji) : c.Int(1);
  const Expr row_step = reduced.empty() ? nullptr : Step(a, tiled, reduced.back().var);
  const bool contiguous = lane_step != nullptr && IsInt(lane_step, 1);
  const bool near = row_step != nullptr && IsInt(row_step) && row_step->int_value <= 8 * width;
  const int64_t row_tiles = IsInt(flat->i) ? (flat->i->int_value + tile_rows - 1) / tile_rows : 16;
  const bool fits = depth > 0 && depth * width * BytesOf(flat->rhs->buffer->dtype) <= kMaxPanelBytes;
  std::string panel_iters = flat->vb->name;
  for (const StageIter& i : reduced) panel_iters += ", " + i.var->name;
  const bool pack = fits && (!contiguous || (!near && row_tiles >= 4)) && PrintsWithin(flat->rhs, kMostNodesOfStep) &&
                    s.Try(Cat("define panel[", panel_iters, ", ", flat->vj->name, "] = ", Print(flat->rhs)));

  const double steps = TypicalSize(reduced, group.symbols);
  const double seconds =
      PredictSeconds(*flat, {tile_rows, width, tile.vectors, pack, contiguous, near || width == 1}, steps, target);

  if (until == Until::kPrice) return std::vector<Proposal>{{"matmul_cpu", {}, "", seconds}};

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
    std::vector<std::string> unused;
    if (!v.empty() && !columns.empty() && width > 1) lane_loops(v.back(), "p", unused);
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
  return std::vector<Proposal>{{"matmul_cpu", s.func(), s.text(), seconds}};
}

}  // namespace cinn_like::hlir
