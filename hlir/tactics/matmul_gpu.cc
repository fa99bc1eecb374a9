// Contractions on a GPU: a block computes a tile of results, each thread a few rows and columns of it in registers.
// Both operands pass through shared memory, a few steps of the reduction at a time, read through their own access maps:
// transposed, batched, grouped and windowed (convolutions) alike, and computed on the way (weights of integers,
// scaled). The epilogue runs over the finished registers. Of 16-bit operands, warps take the products by their matrix
// units (ir/mma.h), and panels are fetched some steps ahead. Where there are few results, the reduction is cut into
// slices. Several contractions of equal extents (a gate and what it opens; queries, keys and values) are computed in
// one pass, tile beside tile: operands that they share are fetched once, and an epilogue sees all of their results.
//   out[b, i, j] = f(sum over k of lhs[b, i, k] * rhs[b, j, k], ...):   j is the side along which results are
//   contiguous
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/gpu_tiles.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Iters = std::vector<StageIter>;

constexpr int64_t kLanes = 4;                  // neighbouring columns of a thread
constexpr int64_t kMinDepth = 4;               // of a reduction that shared memory is worth it for
constexpr int64_t kUnroll = 8;                 // steps of the reduction
constexpr int64_t kRegisters = 65536;          // of an SM
constexpr int64_t kAccumulatorBytes = 256;     // of a thread
constexpr double kSmBytesPerSecond = 40e9;     // from L2
constexpr double kPanelBytesPerSecond = 75e9;  // the same, where matrix units read from there
constexpr double kPanelSeconds = 0.6e-6;       // from memory to shared memory, with two barriers
constexpr double kBusyThreads = 256;           // keep an SM's lanes busy

struct Tile {
  int64_t rows, columns;  // threads
  int64_t m, n;           // results a thread, of each contraction
  double efficiency;      // of the device's rate: products for each value that is read from shared memory
  int64_t depth = 16;     // of a panel, for each slice
  int64_t slices = 1;     // of the reduction, each by threads of its own
  bool mma = false;       // by the matrix units of warps of 8 rows of 4 threads
  bool wgmma = false;     // and those by the units of four warps
  int64_t M() const { return rows * m; }
  int64_t N() const { return columns * n; }
  int64_t Threads() const { return rows * columns * slices; }
};
constexpr Tile kTiles[] = {{16, 16, 8, 8, 0.6},  {8, 16, 8, 8, 0.6},  {8, 8, 8, 8, 0.55},  {16, 16, 4, 8, 0.5},
                           {8, 16, 4, 8, 0.5},   {16, 16, 4, 4, 0.4}, {8, 16, 4, 4, 0.4},  {8, 8, 4, 4, 0.35},
                           {4, 32, 4, 4, 0.4},   {8, 16, 2, 4, 0.25}, {4, 32, 2, 4, 0.25}, {8, 8, 2, 4, 0.25},
                           {16, 16, 1, 4, 0.15}, {8, 16, 1, 4, 0.15}, {4, 32, 1, 4, 0.15}, {8, 8, 1, 4, 0.15},
                           {4, 4, 4, 4, 0.25},   {4, 8, 2, 4, 0.2},   {4, 4, 2, 4, 0.15}};
// By matrix units, warps of 64x64, 64x32 or 32x64, 32x32, and of few rows 16x64 and 16x32 results.
constexpr Tile kMmaTiles[] = {{16, 16, 8, 16, 1, 64, 1, true},   {32, 8, 8, 16, 0.95, 64, 1, true},
                              {16, 8, 8, 16, 0.85, 64, 1, true}, {16, 8, 8, 8, 0.65, 64, 1, true},
                              {16, 8, 4, 16, 0.65, 64, 1, true}, {16, 8, 4, 8, 0.55, 64, 1, true},
                              {8, 16, 4, 8, 0.45, 64, 1, true},  {8, 8, 4, 8, 0.4, 64, 1, true},
                              {8, 4, 2, 16, 0.3, 64, 1, true},   {8, 4, 2, 8, 0.2, 64, 1, true}};
// By those of four warps, of 64 rows and twice as many columns as there are sums in a thread.
constexpr Tile kWgmmaTiles[] = {{64, 4, 2, 64, 1, 64, 1, true, true},
                                {64, 4, 2, 32, 0.6, 64, 1, true, true},
                                {32, 4, 2, 32, 0.5, 64, 1, true, true},
                                {32, 4, 2, 16, 0.35, 64, 1, true, true}};
constexpr int64_t kGroupRows = 16;     // tiles below each other that run at once, and share what they read of rhs
constexpr int64_t kMostMmaDepth = 64;  // of a panel
constexpr int64_t kMostStages = 3;     // of a pipeline
constexpr int64_t kMostWgmmaStages = 4;
constexpr int64_t kMmaRegisters = 96;       // of a thread, beside its sums
constexpr double kMmaBusyThreads = 128;     // keep an SM's matrix units busy
constexpr double kStepSeconds = 0.05e-6;    // of a panel that was asked for in time, with a barrier
constexpr double kResultSeconds = 0.12e-9;  // of an SM, two neighbours at a time
constexpr double kOfCopies = 0.9;           // of the rate of copies, what panels come from memory at
constexpr double kExposed = 0.06;           // of what takes less time than the longest part, beside it

Expr SizeOf(Context& c, const Iters& iters) {
  Expr e = c.Int(1);
  for (const StageIter& i : iters) e = c.Mul(e, i.extent);
  return e;
}

// The next value of `var` lies next to it.
bool IsContiguous(Analyzer& a, Expr offset, Expr var) {
  Context& c = a.context();
  return IsInt(a.Simplify(c.Sub(Substitute(c, offset, {{var, c.Add(var, c.Int(1))}}), offset)), 1);
}

// One operand, as its tile in shared memory is filled.
struct Panel {
  std::string name;
  StageIter side;          // that it has beside batch and reduction
  StageIter innermost;     // of the iterators that the side is made of, without those of one value; none: null
  size_t operand = 0;      // of the product
  bool along_side = true;  // neighbouring threads read along the side; else along the reduction
  int64_t vector = 1;      // elements of one read
  std::string block() const { return "b_" + name; }
};

// A contraction of the group: over the iterators of its sides, and over one each: batch, rows, columns, reduction.
struct Product {
  Stage unfolded, flat;
  StageIter innermost_k;
  Panel left = {}, right = {};
  bool shares_left = false, shares_right = false;  // with the first one
};

class MatmulGpu {
 public:
  MatmulGpu(const TeProgram& group, const Target& target) : group_(group), c_(*group.context), a_(c_), target_(target) {
    for (const SymbolFact& s : group_.symbols) a_.BindSymbol(s);
  }

  StatusOr<std::vector<Proposal>> Run(Until until, Point& point) {
    if (!IsCandidate()) return std::vector<Proposal>();
    ASSIGN_OR_RETURN(Schedule s, Schedule::Of(group_));
    ASSIGN_OR_RETURN(const bool is_flat, Flatten(s));
    if (!is_flat) return std::vector<Proposal>();
    const double seconds = ChooseTile(point);
    for (Product& p : products_) {
      p.left = AsRead(p, p.left, tile_.M(), tile_.depth);
      p.right = AsRead(p, p.right, tile_.N(), tile_.depth);
    }
    if (!StageTiles(s)) return std::vector<Proposal>();
    if (until == Until::kPrice) return std::vector<Proposal>{{"matmul_gpu", {}, "", seconds}};
    RETURN_IF_ERROR(WriteSchedule(s));
    return std::vector<Proposal>{{"matmul_gpu", s.func(), s.text(), seconds}};
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
  // Of the k-th contraction's names, and of the k-th result's.
  static std::string Suffix(size_t k) { return k == 0 ? "" : std::to_string(k + 1); }

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
    if (!AreAlike(s.stages()->stages, names, results)) return false;

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
      const std::string base = "v" + Suffix(k);
      s.Step(fold(stage, base), " ", base, "k[", steps, "]");
      RETURN_IF_ERROR(s.status());
      products_.push_back({stage, StageNamed(s.stages()->stages, names[k]), Innermost(own->k)});
      Product& p = products_.back();
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
      p.left = {"lhs" + Suffix(k), {p.flat.iters[1].var, extent_m_}, Innermost(m), swapped ? 1u : 0u};
      p.right = {"rhs" + Suffix(k), {p.flat.iters[2].var, extent_n_}, Innermost(n), swapped ? 0u : 1u};
      p.shares_left = Shares(p, p.left, products_[0].left);
      p.shares_right = Shares(p, p.right, products_[0].right);
    }
    for (size_t k = 0; k < results.size(); ++k)
      s.Run(fold(StageNamed(s.stages()->stages, results[k]), "o" + Suffix(k)));
    RETURN_IF_ERROR(s.status());
    results_ = results;
    order_ = OrderOf(s.stages()->stages);
    return true;
  }

  static bool Holds(const Iters& side, Expr var) {
    return std::any_of(side.begin(), side.end(), [&](const StageIter& i) { return i.var == var; });
  }
  static StageIter Innermost(const Iters& side) {
    const auto i = std::find_if(side.rbegin(), side.rend(), [](const StageIter& i) { return !IsInt(i.extent, 1); });
    return i == side.rend() ? StageIter{} : *i;
  }

  // All go through the same elements, and read each other's at their own.
  bool AreAlike(const std::vector<Stage>& stages, const std::vector<std::string>& names,
                const std::vector<std::string>& results) const {
    const Stage& first = StageNamed(stages, names[0]);
    for (const auto* list : {&names, &results}) {
      for (const std::string& name : *list) {
        const Stage& s = StageNamed(stages, name);
        if (s.iters.size() != first.iters.size()) return false;
        for (size_t d = 0; d < s.iters.size(); ++d) {
          if (s.iters[d].extent != first.iters[d].extent) return false;
        }
        bool here = true;
        for (Expr value : s.values) {
          VisitLoads(value, [&](Expr load) {
            const auto writer = std::find_if(stages.begin(), stages.end(),
                                             [&](const Stage& x) { return x.outputs[0] == load->buffer; });
            if (writer == stages.end()) return;
            const std::vector<Expr> own = writer->at.empty() ? VarsOf(writer->iters) : writer->at;
            VarMap map;
            for (size_t d = 0; d < s.iters.size() && d < writer->iters.size(); ++d)
              map[writer->iters[d].var] = s.iters[d].var;
            const std::vector<Expr> at = IndicesOf(load);
            here = here && MaskOf(load) == nullptr && at.size() == own.size();
            for (size_t d = 0; here && d < at.size(); ++d) here = at[d] == Substitute(c_, own[d], map);
          });
        }
        if (!here) return false;
      }
    }
    return true;
  }

  // Whether an operand is what the first contraction has on that side.
  bool Shares(const Product& p, const Panel& panel, const Panel& first_panel) const {
    const Product& first = products_[0];
    VarMap map;
    for (size_t d = 0; d < 3; ++d) map[p.flat.iters[d].var] = first.flat.iters[d].var;
    map[p.flat.reduce_iters[0].var] = first.flat.reduce_iters[0].var;
    return &p != &first && Substitute(c_, ProductOf(p.flat)->args[panel.operand], map) ==
                               ProductOf(first.flat)->args[first_panel.operand];
  }

  // Steps of the reduction that a panel holds: a divisor if there is a good one, more of them in small tiles.
  int64_t DepthFor(const Tile& t) {
    const int64_t divisor = IsInt(extent_k_) ? extent_k_->int_value : a_.KnownDivisor(extent_k_);
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

  double TilesOf(const Tile& t) const {
    const auto tiles = [&](Expr e, int64_t tile) {
      return std::ceil(TypicalSize(e, group_.symbols) / static_cast<double>(tile));
    };
    return TypicalSize(extent_b_, group_.symbols) * tiles(extent_m_, t.M()) * tiles(extent_n_, t.N());
  }

  // The cheapest tile; its predicted time.
  double ChooseTile(Point& point) {
    const bool has_mma = HasMma();
    std::vector<std::pair<double, Tile>> bids;
    const auto bid = [&](const Tile& t) {
      if (Fits(t)) bids.emplace_back(SecondsOf(t), t);
    };
    const bool alone = products_.size() == 1;
    for (const Tile& all : kTiles) {
      for (Tile t : Shared(all)) {
        t.depth = DepthFor(t);
        for (t.slices = 1; t.slices <= (alone ? 16 : 1); t.slices *= 2) bid(t);
      }
    }
    for (const Tile& all : kMmaTiles) {
      for (Tile t : Shared(all)) {
        t.depth = DepthFor(t);
        // Where there are tiles for all SMs, slices would compute what other tiles' warps do.
        const int64_t most = alone && TilesOf(t) < 2 * Cores(target_) ? 16 : 1;
        for (t.slices = 1; has_mma && t.slices <= most; t.slices *= 2) bid(t);
      }
    }
    const bool has_wgmma = has_mma && SpeedsOf(target_).own_wgmma != 0 && target_.arch == "sm_90a";
    for (const Tile& all : kWgmmaTiles) {
      for (const Tile& t : Shared(all)) {
        if (has_wgmma && IsFetchedAhead(t)) bid(t);
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
  std::vector<Tile> Shared(const Tile& all) const {
    const auto count = static_cast<int64_t>(products_.size());
    const int64_t least = 4;  // an even number of tiles of matrix units, or a thread's neighbours
    if (count == 1) return {all};
    std::vector<Tile> r;
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
    return std::all_of(products_.begin(), products_.end(), [](const Product& p) {
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
  int64_t HeldBytes(const Tile& t) const { return t.mma ? 2 : Width(); }

  // Of matrix units: operands that are copied into their panels as they lie in memory.
  bool AreCopied() const {
    return std::all_of(products_.begin(), products_.end(), [](const Product& p) {
      const std::vector<Expr>& operands = ProductOf(p.flat)->args;
      return std::all_of(operands.begin(), operands.end(), [](Expr e) { return e->args[0]->op == ExprOp::kLoad; });
    });
  }

  // Copies of a panel. What is computed on its way is not waited for in groups: the next one is made beside the
  // products of this one.
  int64_t Stages(const Tile& t) const {
    if (!t.mma) return 1;
    const int64_t depth = t.depth * t.slices;
    const int64_t steps = IsInt(extent_k_) ? (extent_k_->int_value + depth - 1) / depth : kMostStages;
    if (t.wgmma && steps > 1) return std::clamp<int64_t>(steps + 1, kMostWgmmaStages - 1, kMostWgmmaStages);
    return std::clamp<int64_t>(steps, 1, AreCopied() ? kMostStages : 2);
  }
  int64_t SharedBytes(const Tile& t) const {
    const int64_t gap = t.mma && !t.wgmma ? kRowOffset : 0;
    const int64_t panels = Stages(t) * t.slices * SidesOf(t) * (t.depth + gap) * HeldBytes(t);
    return panels + (t.slices > 1 ? t.slices * t.M() * t.N() * Width() : 0);
  }

  // Rows and columns of all panels.
  int64_t SidesOf(const Tile& t) const {
    int64_t r = 0;
    for (const Product& p : products_) r += (p.shares_left ? 0 : t.M()) + (p.shares_right ? 0 : t.N());
    return r;
  }
  // Of all contractions, in a tile.
  int64_t ResultsOf(const Tile& t) const { return static_cast<int64_t>(products_.size()) * t.M() * t.N(); }
  int64_t BytesOfThread(const Tile& t) const { return static_cast<int64_t>(products_.size()) * t.m * t.n * Width(); }

  // The widest of the sums.
  int64_t Width() const {
    int64_t r = 0;
    for (const Product& p : products_) r = std::max<int64_t>(r, BytesOf(p.flat.outputs[0]->dtype));
    return r;
  }
  int64_t RegistersOf(const Tile& t) const {
    return t.Threads() * (BytesOfThread(t) / 4 + (t.mma ? kMmaRegisters : 40));
  }

  bool Fits(const Tile& t) const {
    const LaunchLimits& limits = target_.device->limits;
    const int64_t most = t.mma ? std::max(limits.shared_bytes, target_.shared_bytes) : limits.shared_bytes;
    return BytesOfThread(t) <= (t.mma ? 2 : 1) * kAccumulatorBytes && t.Threads() <= limits.threads &&
           RegistersOf(t) <= kRegisters && SharedBytes(t) <= most;
  }

  double SecondsOf(const Tile& t) {
    if (t.mma) return SecondsOfMma(t);
    const double width = static_cast<double>(Width()), k = TypicalSize(extent_k_, group_.symbols);
    const double cores = static_cast<double>(std::max<int64_t>(target_.cores, 1));
    const double in_turn = std::ceil(TilesOf(t) / cores);  // of one SM
    const double busy = std::min(1.0, in_turn * static_cast<double>(t.Threads()) / kBusyThreads);
    const double flops = in_turn * 2 * static_cast<double>(ResultsOf(t)) * k * (width > 4 ? 2 : 1);
    const double compute = flops * cores / (PeakFlops(target_) * t.efficiency * busy);
    const double moving = in_turn * static_cast<double>(SidesOf(t)) * width * k / kSmBytesPerSecond;
    // Each panel is waited for, by as many blocks at once as registers hold.
    const double together = static_cast<double>(kRegisters / RegistersOf(t));
    const double panels = std::ceil(k / static_cast<double>(t.depth * t.slices)) + (t.slices > 1 ? 1 : 0);
    return kKernelSeconds + std::ceil(in_turn / together) * panels * kPanelSeconds +
           std::max({compute, moving, CostOfMatmuls(group_).bytes / BytesPerSecond(target_)});
  }

  // Copies of less than 4 bytes can't be asked for ahead, nor what is computed.
  bool IsFetchedAhead(const Tile& t) {
    return Stages(t) > 1 && AreCopied() && std::all_of(products_.begin(), products_.end(), [&](const Product& p) {
             return AsRead(p, p.left, t.M(), t.depth).vector > 1 && AsRead(p, p.right, t.N(), t.depth).vector > 1;
           });
  }

  // While some blocks compute, others of an SM wait for their first panel or write their results.
  double SecondsOfMma(const Tile& t) {
    const auto results = static_cast<double>(ResultsOf(t)),
               stored = static_cast<double>(t.M() * t.N()) * static_cast<double>(results_.size());
    const double steps = std::ceil(TypicalSize(extent_k_, group_.symbols) / static_cast<double>(t.depth * t.slices));
    const double in_turn = std::ceil(TilesOf(t) / static_cast<double>(std::max<int64_t>(target_.cores, 1)));
    const double busy = std::min(1.0, in_turn * static_cast<double>(t.Threads()) / kMmaBusyThreads);
    const double rate = t.wgmma ? SpeedsOf(target_).own_wgmma : SpeedsOf(target_).own_mma;
    const double depth = steps * static_cast<double>(t.depth * t.slices);
    const double compute = in_turn * 2 * results * depth / (rate * 1e9 * t.efficiency * busy);
    const double moving = in_turn * static_cast<double>(SidesOf(t) * HeldBytes(t)) * depth /
                          (t.wgmma ? kPanelBytesPerSecond : kSmBytesPerSecond);
    const auto together = static_cast<double>(
        std::max<int64_t>(std::min(kRegisters / RegistersOf(t), target_.shared_bytes / SharedBytes(t)), 1));
    const double waits = IsFetchedAhead(t) ? kPanelSeconds + steps * kStepSeconds : steps * kPanelSeconds;
    // Slices meet in shared memory.
    const double written = in_turn * stored * (t.slices > 1 ? 2 : 1) * kResultSeconds,
                 memory = CostOfMatmuls(group_).bytes / (kOfCopies * BytesPerSecond(target_));
    const double longest = std::max({compute, moving, written, memory});
    return kKernelSeconds + std::ceil(in_turn / together) * (waits + stored * kResultSeconds) + longest +
           kExposed * (compute + moving + written + memory - longest);
  }

  // The panel with how a tile of so many values of its side and of the reduction is read from memory.
  Panel AsRead(const Product& p, Panel panel, int64_t side, int64_t depth) {
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
    const bool masked = mask != nullptr && Uses(mask, var);
    const int64_t divisor = IsInt(line) ? line->int_value : a_.KnownDivisor(line);
    const int64_t length = panel.along_side ? side : depth;
    // Elements of integers take more room in the panel.
    panel.vector = kAccessBytes / std::max<int64_t>(BytesOf(load->buffer->dtype), HasMma() ? 2 : Width());
    while (panel.vector > 1 && (masked || divisor % panel.vector != 0 || length % panel.vector != 0)) panel.vector /= 2;
    return panel;
  }

  // Extents without remainders, operands as stages of their own with zeros beyond the bounds, slices of the reduction.
  bool StageTiles(Schedule& s) {
    const auto round_up = [&](const Product& p, const StageIter& i, int64_t to) {
      if (a_.KnownDivisor(i.extent) % to != 0) s.Step("round_up ", p.flat.name, " ", i.var->name, " ", to);
    };
    for (const Product& p : products_) {
      round_up(p, p.flat.iters[1], tile_.M());
      round_up(p, p.flat.iters[2], tile_.N());
      round_up(p, p.flat.reduce_iters[0], tile_.depth * tile_.slices);
    }
    for (Product& p : products_) {
      for (const bool right : {false, true}) {
        if (!s.status().ok()) return true;  // which WriteSchedule finds
        Panel& panel = right ? p.right : p.left;
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

  // Each once.
  std::vector<Panel> Panels() const {
    std::vector<Panel> r;
    for (const Product& p : products_) {
      if (!p.shares_left) r.push_back(p.left);
      if (!p.shares_right) r.push_back(p.right);
    }
    return r;
  }

  // A loop over tiles of what is written, of all results.
  void TileResults(Schedule& s) {
    std::vector<std::string> merged;
    for (size_t k = 0; k < results_.size(); ++k) {
      const std::string sfx = Suffix(k);
      const auto name = [&](const char* loop) { return loop + sfx; };
      std::vector<std::string> names = s.LoopsAround("b_" + results_[k]);
      if (!s.status().ok()) return;
      size_t next = 0;
      const std::string lb = IsInt(extent_b_, 1) ? "" : names[next++];
      const std::string li = names[next++], lj = names[next++], batch = lb.empty() ? "" : lb + " ";
      s.Step("split ", li, " ", tile_.M(), " -> ", name("io"), " ", name("ii"))
          .Step("split ", lj, " ", tile_.N(), " -> ", name("jo"), " ", name("ji"));
      s.Step("reorder ", batch, name("io"), " ", name("jo"), " ", name("ii"), " ", name("ji"));
      std::string order = Cat(name("io"), " ", name("jo"));
      if (const int64_t group = GroupRows(); group > 1) {
        order = Cat(name("ig"), " ", name("jo"), " ", name("ir"));
        s.Step("split ", name("io"), " ", group, " -> ", name("ig"), " ", name("ir"));
        s.Step("reorder ", batch, order, " ", name("ii"), " ", name("ji"));
      }
      s.Step("fuse ", batch, order, " -> ", name("p"));
      merged.push_back(name("p"));
    }
    if (merged.size() > 1) s.Step("merge ", absl::StrJoin(merged, " "));
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

  Status WriteSchedule(Schedule& s) {
    RETURN_IF_ERROR(s.status());
    const bool sliced = tile_.slices > 1;
    TileResults(s);
    RETURN_IF_ERROR(s.status());
    // A block has tiles of its own.
    const auto scope = [&](const std::string& buffer, const char* where) {
      s.Step("scope ", buffer, " ", where, " align ", kAccessBytes);
    };
    const std::vector<Panel> panels = Panels();
    const auto buffer_of = [](const Product& p) { return p.flat.outputs[0]->name; };
    for (const Product& p : products_) scope(sliced ? "slices" : buffer_of(p), "local");
    for (const Panel& p : panels) scope(p.name, "shared");
    if (tile_.mma && !tile_.wgmma) {
      for (const Panel& p : panels) s.Step("storage_align ", p.name, " ", kRowFactor, " ", kRowOffset);
    }
    const std::string sum = "b_" + products_[0].flat.name;
    if (sliced) {
      scope("parts", "shared"), scope(buffer_of(products_[0]), "local");
      s.Step("compute_at ", sum, " p").Run("compute_at b_parts p");
    }
    for (size_t k = 0; k < products_.size(); ++k) {
      Nest& nest = nests_.emplace_back();
      const std::string sfx = Suffix(k);
      nest.block = sliced ? "b_slices" : "b_" + products_[k].flat.name;
      s.Step("compute_at ", nest.block, " p");
      RETURN_IF_ERROR(s.status());
      const std::vector<std::string> acc = s.LoopsAround(nest.block);  // p, slices, rows, columns, reduction
      const size_t first = sliced ? 2 : 1;
      const bool cut = acc.size() == first + 4;
      RET_CHECK(acc.size() == first + 3 || (sliced && cut), s.text());
      if (sliced) nest.slice = acc[1];
      nest.rows = acc[first], nest.columns = acc[first + 1];
      nest.panels = acc[first + 2], nest.steps = acc.back();
      if (!cut) {
        nest.panels = "ko" + sfx, nest.steps = "ki" + sfx;
        s.Step("split ", acc.back(), " ", tile_.depth, " -> ", nest.panels, " ", nest.steps);
      }
      s.Step("reorder ", nest.panels, " ", nest.steps, " ", sliced ? acc[1] + " " : "", nest.rows, " ", nest.columns);
      nest.start = "b_init" + sfx;
    }
    panels_ = nests_[order_[0]].panels;
    std::string loops;
    for (const size_t k : order_) loops += " " + nests_[k].panels;
    if (products_.size() > 1) s.Step("merge", loops);
    for (const Panel& p : panels) s.Step("compute_at ", p.block(), " ", panels_);
    s.Run("bind p blockIdx.x");  // not before: what is moved into a loop of blocks takes longer to prove
    RETURN_IF_ERROR(s.status());
    for (const Panel& p : panels) RETURN_IF_ERROR(Fill(s, p));
    if (tile_.mma) return WriteMma(s);
    for (size_t k = 0; k < nests_.size(); ++k) {
      const Nest& n = nests_[k];
      std::string steps = n.steps, inner = n.steps;
      if (tile_.depth > kUnroll && tile_.depth % kUnroll == 0) {
        inner = "kl" + Suffix(k);
        steps = Cat("kj", Suffix(k), " ", inner);
        s.Step("split ", n.steps, " ", kUnroll, " -> ", steps);
      }
      BindTile(s, "a" + Suffix(k), n.slice, n.rows, n.columns, steps);
      s.Step("unroll ", inner);
      s.Step("split_init ", n.block, " ", panels_, " -> ", n.start);
    }
    if (sliced) {
      const std::vector<std::string> parts = s.LoopsAround("b_parts"), total = s.LoopsAround(sum);
      RET_CHECK(parts.size() == 4 && total.size() == 4, s.text());
      BindTile(s, "s", parts[1], parts[2], parts[3], "");
      // One slice's threads finish.
      s.Step("split ", total[1], " 1 -> tp tq");
      BindTile(s, "t", "tq", "tp", total[2], total[3]);
      s.Step("unroll ", total[3]).Step("split_init ", sum, " ", total[3], " -> b_start");
    }
    for (size_t k = 0; k < results_.size(); ++k) {
      const std::string sfx = Suffix(k);
      if (sliced) s.Step("split ii", sfx, " 1 -> op", sfx, " oq", sfx);
      BindTile(s, "o" + sfx, sliced ? "oq" + sfx : "", (sliced ? "op" : "ii") + sfx, "ji" + sfx, "");
    }
    return s.status();
  }

  // Tiles below each other that run at once; 1: it makes no difference, or there is no such number.
  int64_t GroupRows() {
    if (!tile_.wgmma || !IsInt(extent_m_)) return 1;
    const int64_t tiles = (extent_m_->int_value + tile_.M() - 1) / tile_.M();
    int64_t group = kGroupRows;
    while (tiles % group != 0) --group;
    return group;
  }

  // Threads of a tile along y: a warp's, or those of four.
  int64_t ThreadRows() const { return tile_.wgmma ? 4 * kWarpRows : kWarpRows; }

  // Of a warp's 32 rows a thread has every eighth, and of 8 columns two neighbours: what its matrix unit gives it. Each
  // of four warps has 16 of 64 rows.
  void BindWarps(Schedule& s, const std::string& base, const std::string& rows, const std::string& columns) {
    if (tile_.wgmma) {
      s.Step("split ", rows, " ", tile_.m / 2, " 4 2 ", kWarpRows, " -> ", base, "_v ", base, "_i ", base, "_q ", base,
             "_h ", base, "_g");
    } else {
      s.Step("split ", rows, " ", tile_.m / 2, " 2 ", kWarpRows, " -> ", base, "_v ", base, "_i ", base, "_h ", base,
             "_y");
    }
    s.Step("split ", columns, " ", tile_.n / 2, " ", kWarpColumns, " 2 -> ", base, "_w ", base, "_j ", base, "_x ",
           base, "_l");
  }

  // Of results that slices leave in shared memory all warps of the block take a part: of `rows` and `columns`, and of
  // what runs for each of them.
  void BindParts(Schedule& s, const std::string& base, const std::string& rows, const std::string& columns,
                 const std::string& inner) {
    const int64_t warps = tile_.Threads() / (kWarpRows * kWarpColumns);
    const int64_t by_columns = std::min(warps, tile_.N() / (2 * kWarpColumns));
    const int64_t by_rows = std::min(warps / by_columns, tile_.M() / kWarpRows);
    const auto name = [&](const char* loop) { return Cat(" ", base, loop); };
    s.Step("split ", rows, " ", tile_.M() / kWarpRows / by_rows, " ", kWarpRows, " ->", name("_v"), name("_h"),
           name("_y"));
    s.Step("split ", columns, " ", tile_.N() / (2 * kWarpColumns) / by_columns, " ", kWarpColumns, " 2 ->", name("_w"),
           name("_j"), name("_x"), name("_l"));
    s.Step("reorder", name("_v"), name("_w"), name("_y"), name("_x"), name("_h"), name("_j"), name("_l"),
           inner.empty() ? "" : " ", inner);
    s.Step("fuse", name("_v"), name("_w"), " ->", name("_z"));
    for (const char* axis : {"z", "y", "x"}) s.Step("bind ", base, "_", axis, " threadIdx.", axis);
    s.Step("unroll", name("_h")).Step("unroll", name("_j")).Step("vectorize", name("_l"));
  }

  Status WriteMma(Schedule& s) {
    const auto bind = [&](const std::string& base, const std::string& slice) {
      s.Step("fuse ", slice, slice.empty() ? "" : " ", base, "_v ", base, "_w -> ", base, "_z");
      if (tile_.wgmma) s.Step("fuse ", base, "_q ", base, "_g -> ", base, "_y");
      s.Step("bind ", base, "_z threadIdx.z")
          .Step("bind ", base, "_y threadIdx.y")
          .Step("bind ", base, "_x threadIdx.x");
    };
    const bool splits = tile_.depth > kMmaDepth;
    const auto loops = [](const std::string& base, std::initializer_list<const char*> names) {
      std::string r;
      for (const char* name : names) r += Cat(r.empty() ? "" : " ", base, "_", name);
      return r;
    };
    const auto threads = [&](const std::string& base) {
      return tile_.wgmma ? loops(base, {"v", "w", "q", "g", "x"}) : loops(base, {"v", "w", "y", "x"});
    };
    for (size_t k = 0; k < nests_.size(); ++k) {
      const Nest& n = nests_[k];
      const std::string sfx = Suffix(k), a = "a" + sfx;
      BindWarps(s, a, n.rows, n.columns);
      if (splits) s.Step("split ", n.steps, " ", kMmaDepth, " -> kk", sfx, " ke", sfx);
      s.Step("reorder ", n.slice, n.slice.empty() ? "" : " ", threads(a), " ", splits ? Cat("kk", sfx, " ") : "",
             loops(a, {"i", "j", "h", "l"}), " ", splits ? "ke" + sfx : n.steps);
      bind(a, n.slice);
      s.Step("split_init ", n.block, " ", panels_, " -> ", n.start);
      s.Step("tensorize ", a, tile_.m == 2 ? "_j " : "_i ", tile_.wgmma ? "wgmma_m64k16" : "mma_m16n8k16");
      if (splits) s.Step("unroll kk", sfx);
    }
    // In the same threads, so that they go through a panel's copies together.
    for (const char* axis : {"z", "y", "x"}) {
      std::string same;
      for (const size_t k : order_) same += Cat(" a", Suffix(k), "_", axis);
      if (nests_.size() > 1) s.Step("merge", same);
    }
    if (Stages(tile_) > 1) s.Step("pipeline ", panels_, " ", Stages(tile_));
    if (!nests_[0].slice.empty()) {
      const std::string sum = "b_" + products_[0].flat.name;
      const std::vector<std::string> parts = s.LoopsAround("b_parts"), total = s.LoopsAround(sum);
      RET_CHECK(parts.size() == 4 && total.size() == 4, s.text());
      BindWarps(s, "s", parts[2], parts[3]);
      s.Step("reorder ", parts[1], " s_v s_w s_y s_x s_i s_h s_j s_l");
      bind("s", parts[1]);
      s.Run("unroll s_i").Run("unroll s_h").Run("unroll s_j").Run("vectorize s_l");
      BindParts(s, "t", total[1], total[2], total[3]);
      s.Step("unroll ", total[3]).Step("split_init ", sum, " ", total[3], " -> b_start");
      for (size_t k = 0; k < results_.size(); ++k)
        BindParts(s, "o" + Suffix(k), "ii" + Suffix(k), "ji" + Suffix(k), "");
      return s.status();
    }
    for (size_t k = 0; k < results_.size(); ++k) {
      const std::string o = "o" + Suffix(k);
      BindWarps(s, o, "ii" + Suffix(k), "ji" + Suffix(k));
      s.Step("reorder ", threads(o), " ", loops(o, {"i", "h", "j", "l"}));
      bind(o, "");
      s.Step("unroll ", o, "_i").Step("unroll ", o, "_h").Step("unroll ", o, "_j").Step("vectorize ", o, "_l");
    }
    return s.status();
  }

  // Rows and columns of a tile by threads: a thread's columns lie in fours, the fours a row of threads apart. `steps`
  // run around what a thread does.
  void BindTile(Schedule& s, const std::string& base, const std::string& slice, const std::string& rows,
                const std::string& columns, const std::string& steps) {
    const std::string v = base + "_v", e = base + "_e", y = base + "_y", x = base + "_x", r = base + "_r";
    s.Step("split ", rows, " ", tile_.m, " -> ", y, " ", r);
    s.Step("split ", columns, " ", tile_.columns, " ", kLanes, " -> ", v, " ", x, " ", e);
    s.Step("reorder ", slice, slice.empty() ? "" : " ", y, " ", x, " ", steps, steps.empty() ? "" : " ", r, " ", v, " ",
           e);
    if (!slice.empty()) s.Step("bind ", slice, " threadIdx.z");
    s.Step("bind ", y, " threadIdx.y").Step("bind ", x, " threadIdx.x");
    s.Step("unroll ", r).Step("unroll ", v).Step("vectorize ", e);
  }

  // All threads of the block fetch a panel, each several accesses.
  Status Fill(Schedule& s, const Panel& panel) {
    std::vector<std::string> around = s.LoopsAround(panel.block());  // p, panels, steps, side
    around.erase(around.begin(), std::find(around.begin(), around.end(), panels_) + 1);
    RET_CHECK(!around.empty() && around.size() <= 2, s.text());
    if (around.size() == 2 && !panel.along_side && !tile_.mma) {
      s.Step("reorder ", around[1], " ", around[0]);
      std::swap(around[0], around[1]);
    }
    std::vector<std::pair<char, int64_t>> axes = {{'y', tile_.rows}, {'x', tile_.columns}};
    if (tile_.mma)
      axes = {{'z', tile_.Threads() / (ThreadRows() * kWarpColumns)}, {'y', ThreadRows()}, {'x', kWarpColumns}};
    if (tile_.slices > 1 && !tile_.mma) axes.insert(axes.begin(), {'z', tile_.slices});
    FillByThreads(s, panel.name, std::move(around), panel.vector, axes);
    return s.status();
  }

  const TeProgram& group_;
  Context& c_;
  Analyzer a_;
  const Target& target_;
  std::vector<Product> products_;
  std::vector<std::string> results_;  // the stages that write
  std::vector<size_t> order_;         // of the products' nests
  Expr extent_b_ = nullptr, extent_m_ = nullptr, extent_n_ = nullptr, extent_k_ = nullptr;
  Tile tile_ = kTiles[0];
  // Of a contraction: the loops of a tile and of the reduction, from panel to panel and through one.
  struct Nest {
    std::string block, start, slice, rows, columns, panels, steps;
  };
  std::vector<Nest> nests_;
  std::string panels_;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeMatmulGpu(const TeProgram& group, const Target& target, Until until,
                                                 Point& point) {
  if (!target.IsGpu()) return std::vector<Proposal>();
  return MatmulGpu(group, target).Run(until, point);
}

}  // namespace cinn_like::hlir
