#include "hlir/tactics/matmul_gpu_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cinn_like/base/costs.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/gpu_tiles.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"
#include "ir/mma.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Iters = std::vector<StageIter>;

constexpr int64_t kMinDepth = 4;            // of a reduction that shared memory is worth it for
constexpr int64_t kRegisters = 65536;       // of an SM
constexpr int64_t kAccumulatorBytes = 256;  // of a thread

constexpr MatmulTile kTiles[] = {{16, 16, 8, 8, 0.6},  {8, 16, 8, 8, 0.6},  {8, 8, 8, 8, 0.55},  {16, 16, 4, 8, 0.5},
                                 {8, 16, 4, 8, 0.5},   {16, 16, 4, 4, 0.4}, {8, 16, 4, 4, 0.4},  {8, 8, 4, 4, 0.35},
                                 {4, 32, 4, 4, 0.4},   {8, 16, 2, 4, 0.25}, {4, 32, 2, 4, 0.25}, {8, 8, 2, 4, 0.25},
                                 {16, 16, 1, 4, 0.15}, {8, 16, 1, 4, 0.15}, {4, 32, 1, 4, 0.15}, {8, 8, 1, 4, 0.15},
                                 {4, 4, 4, 4, 0.25},   {4, 8, 2, 4, 0.2},   {4, 4, 2, 4, 0.15}};
// By matrix units, warps of 64x64, 64x32 or 32x64, 32x32, and of few rows 16x64 and 16x32 results.
constexpr MatmulTile kMmaTiles[] = {{16, 16, 8, 16, 1, 64, 1, true},   {32, 8, 8, 16, 0.95, 64, 1, true},
                                    {16, 8, 8, 16, 0.85, 64, 1, true}, {16, 8, 8, 8, 0.65, 64, 1, true},
                                    {16, 8, 4, 16, 0.65, 64, 1, true}, {16, 8, 4, 8, 0.55, 64, 1, true},
                                    {8, 16, 4, 8, 0.45, 64, 1, true},  {8, 8, 4, 8, 0.4, 64, 1, true},
                                    {8, 4, 2, 16, 0.3, 64, 1, true},   {8, 4, 2, 8, 0.2, 64, 1, true}};
// By those of four warps, of 64 rows and twice as many columns as there are sums in a thread.
constexpr MatmulTile kWgmmaTiles[] = {{64, 4, 2, 64, 1, 64, 1, true, true},
                                      {64, 4, 2, 32, 0.6, 64, 1, true, true},
                                      {32, 4, 2, 32, 0.5, 64, 1, true, true},
                                      {32, 4, 2, 16, 0.35, 64, 1, true, true}};
constexpr int64_t kMostMmaDepth = 64;  // of a panel
constexpr int64_t kMostStages = 3;     // of a pipeline
constexpr int64_t kMostWgmmaStages = 4;
constexpr int64_t kMmaRegisters = 96;  // of a thread, beside its sums

Expr SizeOf(Context& c, const Iters& iters) {
  Expr e = c.Int(1);
  for (const StageIter& i : iters) e = c.Mul(e, i.extent);
  return e;
}

class Planner {
 public:
  Planner(const TeProgram& group, const Target& target) : group_(group), c_(*group.context), a_(c_), target_(target) {
    for (const SymbolFact& s : group_.symbols) a_.BindSymbol(s);
  }

  StatusOr<std::optional<MatmulGpuPlan>> Run(Point& point) {
    if (!IsCandidate()) return std::optional<MatmulGpuPlan>();
    ASSIGN_OR_RETURN(Schedule s, Schedule::Of(group_));
    ASSIGN_OR_RETURN(const bool is_flat, Flatten(s));
    if (!is_flat) return std::optional<MatmulGpuPlan>();
    const double seconds = ChooseTile(point);
    for (MatmulProduct& p : products_) {
      p.left = AsRead(p, p.left, tile_.M(), tile_.depth);
      p.right = AsRead(p, p.right, tile_.N(), tile_.depth);
    }
    const std::vector<size_t> order = OrderOf(s.stages()->stages);
    if (!StageTiles(s)) return std::optional<MatmulGpuPlan>();
    RETURN_IF_ERROR(s.status());
    const bool tensor_copies = tile_.wgmma && target_.Limits().tensor_copies && point.ChooseBool("tensor_copies", true);
    return std::optional<MatmulGpuPlan>(
        {std::move(s), products_, results_, order, extent_b_, extent_m_, tile_, Stages(tile_), tensor_copies, seconds});
  }

 private:
  // Contractions that read nothing of the group, and pointwise stages that read them.
  bool IsCandidate() const {
    bool found = false, pays = false;
    for (const Stage& s : group_.stages) {
      if (s.outputs.size() != 1) return false;
      const std::optional<Contraction> con = FindProduct(s);
      if (!con) {
        if (!s.IsPointwise()) return false;
        continue;
      }
      const std::vector<Buffer> inputs = InputsOf(s);
      const bool reads = std::any_of(group_.stages.begin(), group_.stages.end(),
                                     [&](const Stage& x) { return &x != &s && Contains(inputs, x.outputs[0]); });
      if (reads) return false;
      pays = (!found || pays) && (!Groups(s).empty() || Pays(*con));
      found = true;
    }
    return found && pays;
  }

  // Of the group that is scheduled, in its order.
  static std::vector<std::string> NamesOf(const std::vector<Stage>& stages, bool contractions) {
    std::vector<std::string> r;
    for (const Stage& s : stages) {
      if (FindProduct(s).has_value() == contractions) r.push_back(s.name);
    }
    return r;
  }
  // Two rows and columns at least, and some steps of a reduction.
  bool Pays(const Contraction& con) const {
    const auto below = [&](const Iters& iters, int64_t least) {
      const Expr size = SizeOf(c_, iters);
      return IsInt(size) && size->int_value < least;
    };
    const Expr batch = SizeOf(c_, con.batch);
    return !IsInt(batch, 0) && !below(con.k, kMinDepth) && !below(con.m, 2) && !below(con.n, 2);
  }

  static Expr ProductOf(const Stage& acc) {
    const Expr sum = acc.values[0];
    const bool first = sum->args[0]->op == ExprOp::kLoad && sum->args[0]->buffer == acc.outputs[0];
    return sum->args[first ? 1 : 0];
  }

  // Data iterators of which an operand takes only the upper digits, and how many values the lower one has.
  static std::vector<std::pair<size_t, int64_t>> Groups(const Stage& acc) {
    std::vector<std::pair<size_t, int64_t>> r;
    for (size_t d = 0; d < acc.iters.size(); ++d) {
      if (const int64_t size = GroupSize(ProductOf(acc), acc.iters[d]); size != 0) r.emplace_back(d, size);
    }
    return r;
  }

  // d where some operand reads `i` only as i / d; 0 if there is none.
  static int64_t GroupSize(Expr product, const StageIter& i) {
    if (!IsInt(i.extent)) return 0;
    for (Expr operand : product->args) {
      int64_t d = 0;
      Visit(operand, [&](Expr e) {
        if (e->op == ExprOp::kDiv && e->args[0] == i.var && IsInt(e->args[1])) d = e->args[1]->int_value;
        return true;
      });
      if (d > 1 && i.extent->int_value % d == 0 && i.extent->int_value > d) return d;
    }
    return 0;
  }

  // Makes each contraction acc[vb, vi, vj] = sum over vk, and what is written of them over ob, oi, oj. False if that
  // can't be.
  StatusOr<bool> Flatten(Schedule& s) {
    const std::vector<std::string> names = NamesOf(group_.stages, true);
    for (const Param& p : group_.params) {
      const auto writes = [&](const Stage& x) { return x.outputs[0] == p.buffer && FindProduct(x).has_value(); };
      if (p.buffer == nullptr || std::none_of(group_.stages.begin(), group_.stages.end(), writes)) continue;
      s.Step("keep ", p.buffer->name, " -> ", s.Fresh("acc"));
    }
    RETURN_IF_ERROR(s.status());
    const std::vector<std::string> results = NamesOf(s.stages()->stages, false);
    for (const std::string& result : results) {
      const Stage& out = StageNamed(s.stages()->stages, result);
      std::string read;
      for (const std::string& name : names) {
        if (read.empty() && Contains(InputsOf(out), StageNamed(s.stages()->stages, name).outputs[0])) read = name;
      }
      if (read.empty() || !s.Try(Cat("align ", result, " ", read))) return false;
    }
    RETURN_IF_ERROR(s.status());
    // The iterators of all are the same, in order, and stay so.
    const std::vector<std::pair<size_t, int64_t>> groups = Groups(StageNamed(s.stages()->stages, names[0]));
    for (const std::string& name : names) {
      if (Groups(StageNamed(s.stages()->stages, name)) != groups) return false;
    }
    for (size_t k = groups.size(); k-- > 0;) {
      const auto [d, size] = groups[k];
      for (const auto* list : {&names, &results}) {
        for (const std::string& stage : *list) {
          const std::string i = StageNamed(s.stages()->stages, stage).iters[d].var->name;
          s.Step("unfold ", stage, " ", i, " ", size, " -> ", i, "_g ", i, "_p");
          RETURN_IF_ERROR(s.status());
        }
      }
    }
    if (!AreAlike(*s.stages())) return false;

    // Results are contiguous along n.
    const Stage acc = StageNamed(s.stages()->stages, names[0]), out = StageNamed(s.stages()->stages, results[0]);
    const std::optional<Contraction> con = FindProduct(acc);
    if (!con || !Pays(*con)) return false;
    const std::vector<Expr> at = out.at.empty() ? VarsOf(out.iters) : out.at;
    size_t last = at.size() - 1;
    while (last > 0 && IsInt(out.outputs[0]->shape[last], 1)) --last;
    const auto moves = [&](const Iters& side) {
      for (size_t d = 0; d < acc.iters.size(); ++d) {
        if (Holds(side, acc.iters[d].var) && Uses(at[last], out.iters[d].var)) return true;
      }
      return false;
    };
    const bool swaps = moves(con->m) && !moves(con->n);
    const Iters &first_m = swaps ? con->n : con->m, &first_n = swaps ? con->m : con->n;
    // By the first contraction's iterators.
    const auto bracket = [&](const std::string& name, const Iters& side, const Iters& own) {
      std::string list;
      for (size_t d = 0; d < own.size(); ++d) {
        if (Holds(side, acc.iters[d].var) && !IsInt(acc.iters[d].extent, 1))
          list += Cat(list.empty() ? "" : ", ", own[d].var->name);
      }
      return Cat(" ", name, "[", list, "]");
    };
    const auto fold = [&](const Stage& stage, const std::string& base) {
      return Cat("fold ", stage.name, " ->", bracket(base + "b", con->batch, stage.iters),
                 bracket(base + "i", first_m, stage.iters), bracket(base + "j", first_n, stage.iters));
    };
    for (size_t k = 0; k < names.size(); ++k) {
      const Stage stage = StageNamed(s.stages()->stages, names[k]);
      const std::optional<Contraction> own = FindProduct(stage);
      if (!own) return false;
      const auto like = [&](const Iters& side, const Iters& of_first) {
        for (size_t d = 0; d < acc.iters.size(); ++d) {
          if (!IsInt(acc.iters[d].extent, 1) && Holds(side, stage.iters[d].var) != Holds(of_first, acc.iters[d].var))
            return false;
        }
        return true;
      };
      const bool swapped = !like(own->m, first_m);
      const Iters &m = swapped ? own->n : own->m, &n = swapped ? own->m : own->n;
      if (!like(own->batch, con->batch) || !like(m, first_m) || !like(n, first_n)) return false;
      std::string steps;
      for (const StageIter& i : stage.reduce_iters) {
        if (!IsInt(i.extent, 1)) steps += Cat(steps.empty() ? "" : ", ", i.var->name);
      }
      const std::string base = "v" + SuffixOf(k);
      s.Step(fold(stage, base), " ", base, "k[", steps, "]");
      RETURN_IF_ERROR(s.status());
      products_.push_back({stage, StageNamed(s.stages()->stages, names[k]), Innermost(own->k)});
      MatmulProduct& p = products_.back();
      for (const Stage* x : {&p.unfolded, &p.flat}) {
        for (const Iters& list : {x->iters, x->reduce_iters}) {
          for (const StageIter& i : list) a_.BindRange(i.var, c_.Int(0), i.extent);
        }
      }
      std::vector<Expr> extents;
      for (size_t d = 0; d < 3; ++d) extents.push_back(a_.Simplify(p.flat.iters[d].extent));
      extents.push_back(a_.Simplify(p.flat.reduce_iters[0].extent));
      if (k == 0) extent_b_ = extents[0], extent_m_ = extents[1], extent_n_ = extents[2], extent_k_ = extents[3];
      if (extents != std::vector<Expr>{extent_b_, extent_m_, extent_n_, extent_k_}) return false;
      p.left = {"lhs" + SuffixOf(k), {p.flat.iters[1].var, extent_m_}, Innermost(m), swapped ? 1u : 0u};
      p.right = {"rhs" + SuffixOf(k), {p.flat.iters[2].var, extent_n_}, Innermost(n), swapped ? 0u : 1u};
      p.shares_left = Shares(p, p.left, products_[0].left);
      p.shares_right = Shares(p, p.right, products_[0].right);
    }
    for (size_t k = 0; k < results.size(); ++k)
      s.Run(fold(StageNamed(s.stages()->stages, results[k]), "o" + SuffixOf(k)));
    RETURN_IF_ERROR(s.status());
    results_ = results;
    return true;
  }

  static bool Holds(const Iters& side, Expr var) {
    return std::any_of(side.begin(), side.end(), [&](const StageIter& i) { return i.var == var; });
  }
  static StageIter Innermost(const Iters& side) {
    const auto i = std::find_if(side.rbegin(), side.rend(), [](const StageIter& i) { return !IsInt(i.extent, 1); });
    return i == side.rend() ? StageIter{} : *i;
  }

  // Whether an operand is what the first contraction has on that side.
  bool Shares(const MatmulProduct& p, const MatmulPanel& panel, const MatmulPanel& first_panel) const {
    const MatmulProduct& first = products_[0];
    VarMap map;
    for (size_t d = 0; d < 3; ++d) map[p.flat.iters[d].var] = first.flat.iters[d].var;
    map[p.flat.reduce_iters[0].var] = first.flat.reduce_iters[0].var;
    return &p != &first && Substitute(c_, ProductOf(p.flat)->args[panel.operand], map) ==
                               ProductOf(first.flat)->args[first_panel.operand];
  }

  // Steps of the reduction that a panel holds: a divisor if there is a good one, more of them in small tiles.
  int64_t DepthFor(const MatmulTile& t) {
    const int64_t divisor = a_.KnownDivisor(extent_k_);
    if (t.wgmma) return kMostMmaDepth;
    if (t.mma) {
      int64_t depth = kMmaDepth;
      while (depth < kMostMmaDepth && (!IsInt(extent_k_) || depth < divisor)) depth *= 2;
      return depth;
    }
    if (IsInt(extent_k_) && divisor < 16) return divisor;
    if (divisor % 32 == 0 && t.M() + t.N() <= 96) return 32;
    return divisor % 16 != 0 && divisor % 8 == 0 ? 8 : 16;
  }

  double TilesOf(const MatmulTile& t) const {
    const auto tiles = [&](Expr e, int64_t tile) {
      return std::ceil(TypicalSize(e, group_.symbols) / static_cast<double>(tile));
    };
    return TypicalSize(extent_b_, group_.symbols) * tiles(extent_m_, t.M()) * tiles(extent_n_, t.N());
  }

  // The cheapest tile; its predicted time.
  double ChooseTile(Point& point) {
    const bool has_mma = HasMma();
    std::vector<std::pair<double, MatmulTile>> bids;
    const auto bid = [&](const MatmulTile& t) {
      if (Fits(t)) bids.emplace_back(SecondsOf(t), t);
    };
    const bool alone = products_.size() == 1;
    for (const MatmulTile& all : kTiles) {
      for (MatmulTile t : Shared(all)) {
        t.depth = DepthFor(t);
        for (t.slices = 1; t.slices <= (alone ? 16 : 1); t.slices *= 2) bid(t);
      }
    }
    for (const MatmulTile& all : kMmaTiles) {
      for (MatmulTile t : Shared(all)) {
        t.depth = DepthFor(t);
        // Where there are tiles for all SMs, slices would compute what other tiles' warps do.
        const int64_t most = alone && TilesOf(t) < 2 * Cores(target_) ? 16 : 1;
        for (t.slices = 1; has_mma && t.slices <= most; t.slices *= 2) bid(t);
      }
    }
    const bool has_wgmma = has_mma && SpeedsOf(target_).own_wgmma != 0 && target_.arch == "sm_90a";
    for (const MatmulTile& all : kWgmmaTiles) {
      for (const MatmulTile& t : Shared(all)) {
        if (has_wgmma && IsFetchedAhead(t) && HasWholeLines(t)) bid(t);
      }
    }
    if (bids.empty()) bids.emplace_back(1e30, *std::rbegin(kTiles));
    const auto best =
        std::min_element(bids.begin(), bids.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<int64_t> places(bids.size());
    std::iota(places.begin(), places.end(), 0);
    const auto& [seconds, tile] = bids[static_cast<size_t>(point.Choose("tile", places, best - bids.begin()))];
    tile_ = tile;
    return seconds;
  }

  // A tile's columns, and what it reaches, for each of several contractions: as many as there is room for, and of these
  // the power of two, which divides sizes.
  std::vector<MatmulTile> Shared(const MatmulTile& all) const {
    const auto count = static_cast<int64_t>(products_.size());
    const int64_t least = 4;  // an even number of tiles of matrix units, or a thread's neighbours
    if (count == 1) return {all};
    std::vector<MatmulTile> r;
    int64_t power = least;
    while (2 * power * count <= all.n) power *= 2;
    for (const int64_t n : {power, all.n / count / least * least}) {
      if (n < least || n * count > all.n || (!r.empty() && r[0].n == n)) continue;
      r.push_back(all);
      r.back().n = n;
    }
    return r;
  }

  // Both operands are 16-bit floats of one type, summed in f32 by a device with instructions for that.
  bool HasMma() const {
    if (group_.exact || !target_.device->limits.mma || SpeedsOf(target_).own_mma == 0 || Width() != 4) return false;
    return std::all_of(products_.begin(), products_.end(), [](const MatmulProduct& p) {
      const Expr product = ProductOf(p.flat);
      if (product->op != ExprOp::kMul || p.flat.outputs[0]->dtype != DType::kF32) return false;
      std::vector<DType> types;
      for (Expr e : product->args) {
        if (e->op != ExprOp::kCast || !IsHalf(e->args[0]->type.dtype)) return false;
        types.push_back(e->args[0]->type.dtype);
      }
      return types[0] == types[1];
    });
  }

  // The value of an operand that its tile in shared memory holds.
  Expr Held(Expr operand) const { return tile_.mma ? operand->args[0] : operand; }
  int64_t HeldBytes(const MatmulTile& t) const { return t.mma ? 2 : Width(); }

  // Of matrix units: operands that are copied into their panels as they lie in memory.
  bool AreCopied() const {
    return std::all_of(products_.begin(), products_.end(), [](const MatmulProduct& p) {
      const std::vector<Expr>& operands = ProductOf(p.flat)->args;
      return std::all_of(operands.begin(), operands.end(), [](Expr e) { return e->args[0]->op == ExprOp::kLoad; });
    });
  }

  // Copies of a panel. What is computed on its way is not waited for in groups: the next one is made beside the
  // products of this one.
  int64_t Stages(const MatmulTile& t) const {
    if (!t.mma) return 1;
    const int64_t depth = t.depth * t.slices;
    const int64_t steps = IsInt(extent_k_) ? (extent_k_->int_value + depth - 1) / depth : kMostStages;
    if (t.wgmma && steps > 1) return std::clamp<int64_t>(steps + 1, kMostWgmmaStages - 1, kMostWgmmaStages);
    return std::clamp<int64_t>(steps, 1, AreCopied() ? kMostStages : 2);
  }
  int64_t SharedBytes(const MatmulTile& t) const {
    const int64_t gap = t.mma && !t.wgmma ? kRowOffset : 0;
    const int64_t panels = Stages(t) * t.slices * SidesOf(t) * (t.depth + gap) * HeldBytes(t);
    return panels + (t.slices > 1 ? t.slices * t.M() * t.N() * Width() : 0);
  }

  // Rows and columns of all panels.
  int64_t SidesOf(const MatmulTile& t) const {
    int64_t r = 0;
    for (const MatmulProduct& p : products_) r += (p.shares_left ? 0 : t.M()) + (p.shares_right ? 0 : t.N());
    return r;
  }
  // Of all contractions, in a tile.
  int64_t ResultsOf(const MatmulTile& t) const { return static_cast<int64_t>(products_.size()) * t.M() * t.N(); }
  int64_t BytesOfThread(const MatmulTile& t) const {
    return static_cast<int64_t>(products_.size()) * t.m * t.n * Width();
  }

  // The widest of the sums.
  int64_t Width() const {
    int64_t r = 0;
    for (const MatmulProduct& p : products_) r = std::max<int64_t>(r, BytesOf(p.flat.outputs[0]->dtype));
    return r;
  }
  int64_t RegistersOf(const MatmulTile& t) const {
    return t.Threads() * (BytesOfThread(t) / 4 + (t.mma ? kMmaRegisters : 40));
  }

  bool Fits(const MatmulTile& t) const {
    const LaunchLimits& limits = target_.device->limits;
    const int64_t most = t.mma ? std::max(limits.shared_bytes, target_.shared_bytes) : limits.shared_bytes;
    return BytesOfThread(t) <= (t.mma ? 2 : 1) * kAccumulatorBytes && t.Threads() <= limits.threads &&
           RegistersOf(t) <= kRegisters && SharedBytes(t) <= most;
  }

  double SecondsOf(const MatmulTile& t) {
    if (t.mma) return SecondsOfMma(t);
    const double width = static_cast<double>(Width()), k = TypicalSize(extent_k_, group_.symbols);
    const double cores = static_cast<double>(std::max<int64_t>(target_.cores, 1));
    const double in_turn = std::ceil(TilesOf(t) / cores);  // of one SM
    const GpuCosts& gpu = GpuCostsOf(target_);
    const double busy = std::min(1.0, in_turn * static_cast<double>(t.Threads()) / gpu.busy_threads);
    const double flops = in_turn * 2 * static_cast<double>(ResultsOf(t)) * k * (width > 4 ? 2 : 1);
    const double compute = flops * cores / (PeakFlops(target_) * t.efficiency * busy);
    const double moving = in_turn * static_cast<double>(SidesOf(t)) * width * k / gpu.tile_bytes_per_second;
    const double narrow = in_turn * NarrowBytes(t, k) / gpu.tile_bytes_per_second;
    // Each panel is waited for, by as many blocks at once as registers hold.
    const double together = static_cast<double>(kRegisters / RegistersOf(t));
    const double panels = std::ceil(k / static_cast<double>(t.depth * t.slices)) + (t.slices > 1 ? 1 : 0);
    return gpu.kernel_seconds + std::ceil(in_turn / together) * panels * gpu.panel_seconds + narrow +
           std::max({compute, moving, CostOfMatmuls(group_).bytes / BytesPerSecond(target_)});
  }

  // What accesses of less than 16 bytes to operands and results take more than whole ones would, as bytes of a tile.
  double NarrowBytes(const MatmulTile& t, double k) {
    const double width = static_cast<double>(Width());
    const auto more = [&](double elements, int64_t at_once) {
      return elements * std::max(static_cast<double>(kAccessBytes) / static_cast<double>(at_once) - width, 0.0);
    };
    const int64_t of_result = std::gcd(kAccessBytes / Width(), std::gcd(a_.KnownDivisor(extent_n_), t.N()));
    double bytes = more(static_cast<double>(t.M() * t.N()) * static_cast<double>(results_.size()), of_result);
    for (const MatmulProduct& p : products_) {
      const auto side = [&](const MatmulPanel& panel, int64_t length) {
        return more(static_cast<double>(length) * k, AsRead(p, panel, length, t.depth).vector);
      };
      bytes += (p.shares_left ? 0 : side(p.left, t.M())) + (p.shares_right ? 0 : side(p.right, t.N()));
    }
    return bytes;
  }

  // Copies of less than 4 bytes can't be asked for ahead, nor what is computed.
  bool IsFetchedAhead(const MatmulTile& t) {
    return Stages(t) > 1 && AreCopied() && std::all_of(products_.begin(), products_.end(), [&](const MatmulProduct& p) {
             return AsRead(p, p.left, t.M(), t.depth).vector > 1 && AsRead(p, p.right, t.N(), t.depth).vector > 1;
           });
  }

  // Panels of units of four warps have lines of so many elements, along whichever side neighbours lie.
  bool HasWholeLines(const MatmulTile& t) {
    const auto is_whole = [&](const MatmulProduct& p, const MatmulPanel& panel, int64_t side) {
      return (AsRead(p, panel, side, t.depth).along_side ? side : t.depth) % kPanelLine == 0;
    };
    return std::all_of(products_.begin(), products_.end(), [&](const MatmulProduct& p) {
      return is_whole(p, p.left, t.M()) && is_whole(p, p.right, t.N());
    });
  }

  // While some blocks compute, others of an SM wait for their first panel or write their results.
  double SecondsOfMma(const MatmulTile& t) {
    const auto results = static_cast<double>(ResultsOf(t)),
               stored = static_cast<double>(t.M() * t.N()) * static_cast<double>(results_.size());
    const double steps = std::ceil(TypicalSize(extent_k_, group_.symbols) / static_cast<double>(t.depth * t.slices));
    const double in_turn = std::ceil(TilesOf(t) / static_cast<double>(std::max<int64_t>(target_.cores, 1)));
    const SpeedRow& speeds = SpeedsOf(target_);
    const GpuCosts& gpu = GpuCostsOf(target_);
    const double busy = std::min(1.0, in_turn * static_cast<double>(t.Threads()) / gpu.mma_busy_threads);
    const double rate = t.wgmma ? speeds.own_wgmma : speeds.own_mma;
    const double depth = steps * static_cast<double>(t.depth * t.slices);
    const double compute = in_turn * 2 * results * depth / (rate * 1e9 * t.efficiency * busy);
    const double moving = in_turn * static_cast<double>(SidesOf(t) * HeldBytes(t)) * depth /
                          (t.wgmma ? gpu.wgmma_bytes_per_second : gpu.tile_bytes_per_second);
    const auto together = static_cast<double>(
        std::max<int64_t>(std::min(kRegisters / RegistersOf(t), target_.shared_bytes / SharedBytes(t)), 1));
    const double waits = IsFetchedAhead(t) ? gpu.panel_seconds + steps * gpu.step_seconds : steps * gpu.panel_seconds;
    // Two neighbours are written at a time, where there always are two. Slices meet in shared memory.
    const double result_seconds =
        gpu.mma_result_seconds * (a_.KnownDivisor(extent_n_) % 2 == 0 ? 1 : gpu.mma_single_results);
    const double written = in_turn * stored * (t.slices > 1 ? 2 : 1) * result_seconds,
                 memory = CostOfMatmuls(group_).bytes / (gpu.mma_part_of_copies * BytesPerSecond(target_));
    const double longest = std::max({compute, moving, written, memory});
    return gpu.kernel_seconds + std::ceil(in_turn / together) * (waits + stored * result_seconds) + longest +
           gpu.mma_exposed * (compute + moving + written + memory - longest);
  }

  // The panel with how a tile of so many values of its side and of the reduction is read from memory.
  MatmulPanel AsRead(const MatmulProduct& p, MatmulPanel panel, int64_t side, int64_t depth) {
    const auto load_of = [&](const Stage& acc) { return MainLoad(acc, {ProductOf(acc)->args[panel.operand]}); };
    const Expr load = load_of(p.flat), own = load_of(p.unfolded), mask = MaskOf(load);
    const Expr offset = ElementOffset(c_, load->buffer, IndicesOf(load)),
               own_offset = ElementOffset(c_, own->buffer, IndicesOf(own));
    // How far neighbours lie together along an axis.
    const auto run = [&](const StageIter& i, const StageIter& innermost) {
      if (IsContiguous(a_, offset, i.var)) return i.extent;
      return innermost.var != nullptr && IsContiguous(a_, own_offset, innermost.var) ? innermost.extent : c_.Int(1);
    };
    const StageIter k{p.flat.reduce_iters[0].var, extent_k_};
    const Expr along_x = run(panel.side, panel.innermost), along_k = run(k, p.innermost_k);
    panel.along_side = TypicalSize(along_x, group_.symbols) >= std::min(TypicalSize(along_k, group_.symbols), 32.0);
    const Expr line = panel.along_side ? along_x : along_k, var = panel.along_side ? panel.side.var : k.var;
    const int64_t divisor = std::gcd(a_.KnownDivisor(line), panel.along_side ? side : depth);
    // Elements of integers take more room in the panel.
    const int64_t most = kAccessBytes / std::max<int64_t>(BytesOf(load->buffer->dtype), HasMma() ? 2 : Width());
    panel.vector = mask != nullptr && Uses(mask, var) ? 1 : std::gcd(most, divisor);
    return panel;
  }

  // Extents without remainders, operands as stages of their own with zeros beyond the bounds, slices of the reduction.
  bool StageTiles(Schedule& s) {
    const auto round_up = [&](const MatmulProduct& p, const StageIter& i, int64_t to) {
      if (a_.KnownDivisor(i.extent) % to != 0) s.Step("round_up ", p.flat.name, " ", i.var->name, " ", to);
    };
    for (const MatmulProduct& p : products_) {
      round_up(p, p.flat.iters[1], tile_.M());
      round_up(p, p.flat.iters[2], tile_.N());
      round_up(p, p.flat.reduce_iters[0], tile_.depth * tile_.slices);
    }
    for (MatmulProduct& p : products_) {
      for (const bool right : {false, true}) {
        if (!s.status().ok()) return true;  // which is found behind it
        MatmulPanel& panel = right ? p.right : p.left;
        const Stage& stage = StageNamed(s.stages()->stages, p.flat.name);
        const Expr value = Held(ProductOf(stage)->args[panel.operand]);
        if (!PrintsWithin(value, kMostNodesOfStep)) return false;
        const bool shares = right ? p.shares_right : p.shares_left;
        if (shares) panel.name = right ? products_[0].right.name : products_[0].left.name;
        // In the order in which memory is read, where what is computed from the tile can have either.
        const bool along_k = tile_.mma && !panel.along_side;
        const std::string b = stage.iters[0].var->name, side = panel.side.var->name,
                          k = stage.reduce_iters[0].var->name;
        s.Step("define ", panel.name, "[", b, ", ", along_k ? side : k, ", ", along_k ? k : side, "] = ", Print(value));
      }
    }
    if (tile_.slices == 1) return true;
    const std::string& acc = products_[0].flat.name;
    // Slices take turns in a panel.
    s.Step("unfold ", acc, " vk ", tile_.slices, " ", tile_.depth, " -> vo vz vd")
        .Step("rfactor ", acc, " vz -> slices");
    // Through a panel goes a loop of its own.
    const bool one = IsInt(extent_k_) && extent_k_->int_value <= tile_.slices * tile_.depth;
    s.Step("fold slices -> sz[slices_0] sb[slices_1] si[slices_2] sj[slices_3] ", one ? "sk[vo, vd]" : "so[vo] sd[vd]");
    s.Run("define parts[vz, vb, vi, vj] = slices[vz, vb, vi, vj]");
    return true;
  }

  // Contractions in the order of what first reads them, which is that of their nests.
  std::vector<size_t> OrderOf(const std::vector<Stage>& stages) const {
    std::vector<std::pair<size_t, size_t>> places;
    for (size_t k = 0; k < products_.size(); ++k) {
      const Buffer sums = StageNamed(stages, products_[k].flat.name).outputs[0];
      size_t reader = 0;
      while (reader < results_.size() && !Contains(InputsOf(StageNamed(stages, results_[reader])), sums)) ++reader;
      places.emplace_back(reader, k);
    }
    std::sort(places.begin(), places.end());
    std::vector<size_t> r;
    for (const auto& [place, k] : places) r.push_back(k);
    return r;
  }

  const TeProgram& group_;
  Context& c_;
  Analyzer a_;
  const Target& target_;
  std::vector<MatmulProduct> products_;
  std::vector<std::string> results_;
  Expr extent_b_ = nullptr, extent_m_ = nullptr, extent_n_ = nullptr, extent_k_ = nullptr;
  MatmulTile tile_ = kTiles[0];
};

}  // namespace

std::vector<MatmulPanel> MatmulGpuPlan::Panels() const {
  std::vector<MatmulPanel> r;
  for (const MatmulProduct& p : products) {
    if (!p.shares_left) r.push_back(p.left);
    if (!p.shares_right) r.push_back(p.right);
  }
  return r;
}

StatusOr<std::optional<MatmulGpuPlan>> PlanMatmulGpu(const TeProgram& group, const Target& target, Point& point) {
  return Planner(group, target).Run(point);
}

}  // namespace cinn_like::hlir
