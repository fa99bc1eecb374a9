// Contractions on a GPU: a block computes a tile of results, each thread a few rows and columns of it in registers.
// Both operands pass through shared memory, a few steps of the reduction at a time, read through their own access maps:
// transposed, batched, grouped and windowed (convolutions) alike. The epilogue runs over the finished registers.
//   out[b, i, j] = f(sum over k of lhs[b, i, k] * rhs[b, j, k]):   j is the side along which results are contiguous
#include <algorithm>
#include <cmath>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Iters = std::vector<StageIter>;

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kLanes = 4;                // neighbouring columns of a thread
constexpr int64_t kMinDepth = 4;             // of a reduction that shared memory is worth it for
constexpr int64_t kUnroll = 8;               // steps of the reduction
constexpr int64_t kMaxThreads = 1024;        // of a block
constexpr int64_t kRegisters = 65536;        // of an SM
constexpr int64_t kAccumulatorBytes = 256;   // of a thread
constexpr int64_t kSharedBytes = 48 * 1024;  // of a block
constexpr double kSmBytesPerSecond = 40e9;   // from L2
constexpr double kPanelSeconds = 0.6e-6;     // from memory to shared memory, with two barriers
constexpr double kBusyThreads = 256;         // keep an SM's lanes busy

struct Tile {
  int64_t rows, columns;  // threads
  int64_t m, n;           // results a thread
  double efficiency;      // of the device's rate: products for each value that is read from shared memory
  int64_t depth = 16;     // of a panel, for each slice
  int64_t slices = 1;     // of the reduction, each by threads of its own
  int64_t M() const { return rows * m; }
  int64_t N() const { return columns * n; }
  int64_t Threads() const { return rows * columns * slices; }
};
constexpr Tile kTiles[] = {{16, 16, 8, 8, 0.6},  {8, 16, 8, 8, 0.6},  {8, 8, 8, 8, 0.55},  {16, 16, 4, 8, 0.5},
                           {8, 16, 4, 8, 0.5},   {16, 16, 4, 4, 0.4}, {8, 16, 4, 4, 0.4},  {8, 8, 4, 4, 0.35},
                           {4, 32, 4, 4, 0.4},   {8, 16, 2, 4, 0.25}, {4, 32, 2, 4, 0.25}, {8, 8, 2, 4, 0.25},
                           {16, 16, 1, 4, 0.15}, {8, 16, 1, 4, 0.15}, {4, 32, 1, 4, 0.15}, {8, 8, 1, 4, 0.15},
                           {4, 4, 4, 4, 0.25},   {4, 8, 2, 4, 0.2},   {4, 4, 2, 4, 0.15}};

Expr Product(Context& c, const Iters& iters) {
  Expr e = c.Int(1);
  for (const StageIter& i : iters) e = c.Mul(e, i.extent);
  return e;
}

// The iterators' values at one fused index: mixed-radix digits.
void AddDigits(Context& c, const Iters& iters, Expr index, VarMap& map) {
  Expr rest = index;
  for (size_t i = iters.size(); i-- > 0;) {
    map[iters[i].var] = i == 0 ? rest : c.Mod(rest, iters[i].extent);
    rest = c.Div(rest, iters[i].extent);
  }
}

// The next value of `var` lies next to it.
bool IsContiguous(Analyzer& a, Expr offset, Expr var) {
  Context& c = a.context();
  return IsInt(a.Simplify(c.Sub(Substitute(c, offset, {{var, c.Add(var, c.Int(1))}}), offset)), 1);
}

// One operand, as its tile in shared memory is filled.
struct Panel {
  Stage stage;             // over batch, reduction, side
  bool along_side = true;  // neighbouring threads read along the side; else along the reduction
  int64_t vector = 1;      // elements of one read
  std::string block() const { return "b_" + stage.name; }
};

class MatmulGpu {
 public:
  MatmulGpu(TeProgram group, const Target& target)
      : group_(AlignEpilogue(std::move(group))), c_(*group_.context), a_(c_), target_(target) {
    for (const SymbolFact& s : group_.symbols) a_.BindSymbol(s);
  }

  StatusOr<std::vector<Proposal>> Run() {
    if (!Match()) return std::vector<Proposal>();
    const double seconds = ChooseTile();
    ASSIGN_OR_RETURN(Func loops, ToLoops(Tiled()));
    Schedule s(std::move(loops));
    RETURN_IF_ERROR(WriteSchedule(s));
    return std::vector<Proposal>{{"matmul_gpu", s.func(), s.text(), seconds}};
  }

 private:
  // Finds the three sides of the product; false if it is none.
  bool Match() {
    if (group_.stages.empty() || group_.stages.size() > 2) return false;
    const Stage& acc = group_.stages[0];
    const auto found = FindContraction(acc);
    if (!found || acc.outputs.size() != 1) return false;
    if (group_.stages.size() == 2 && (group_.stages[1].IsReduction() || group_.stages[1].outputs.size() != 1))
      return false;
    if (group_.stages.size() == 2 && IsParam(acc.outputs[0])) return false;
    const Expr sum = acc.values[0];
    const bool first = sum->args[0]->op == ExprOp::kLoad && sum->args[0]->buffer == acc.outputs[0];
    const Expr product = sum->args[first ? 1 : 0];
    // An iterator of which an operand takes only the upper digits becomes two: a group and a place in it.
    Iters data;
    for (const StageIter& i : acc.iters) {
      const int64_t part = GroupSize(product, i);
      if (part == 0) {
        data.push_back(i);
        whole_[i.var] = i.var;
        continue;
      }
      const Expr group = c_.Var(i.var->name + "_g"), place = c_.Var(i.var->name + "_p");
      data.push_back({group, c_.Int(i.extent->int_value / part)});
      data.push_back({place, c_.Int(part)});
      whole_[i.var] = c_.Add(c_.Mul(group, c_.Int(part)), place);
    }
    for (const Iters& list : {data, acc.reduce_iters}) {
      for (const StageIter& i : list) a_.BindRange(i.var, c_.Int(0), i.extent);
    }
    lhs_ = Simplified(Substitute(c_, product->args[0], whole_));
    rhs_ = Simplified(Substitute(c_, product->args[1], whole_));
    for (const StageIter& i : data) {
      const bool in_lhs = Uses(lhs_, i.var), in_rhs = Uses(rhs_, i.var);
      (in_lhs == in_rhs ? batch_ : in_lhs ? m_ : n_).push_back(i);
    }
    k_ = acc.reduce_iters;
    // Results are contiguous along n.
    const Stage& out = group_.stages.back();
    const Expr last = out.at.empty() ? VarsOf(out.iters).back() : out.at.back();
    VarMap to_acc;
    for (size_t d = 0; d < out.iters.size() && d < acc.iters.size(); ++d)
      to_acc[out.iters[d].var] = whole_.at(acc.iters[d].var);
    const Expr moved = Substitute(c_, last, to_acc);
    auto moves = [&](const Iters& iters) {
      return std::any_of(iters.begin(), iters.end(), [&](const StageIter& i) { return Uses(moved, i.var); });
    };
    if (moves(m_) && !moves(n_)) {
      std::swap(m_, n_);
      std::swap(lhs_, rhs_);
    }
    extent_b_ = a_.Simplify(Product(c_, batch_));
    extent_m_ = a_.Simplify(Product(c_, m_));
    extent_n_ = a_.Simplify(Product(c_, n_));
    extent_k_ = a_.Simplify(Product(c_, k_));
    if (IsInt(extent_b_, 0) || (IsInt(extent_k_) && extent_k_->int_value < kMinDepth)) return false;
    return !(IsInt(extent_m_) && extent_m_->int_value < 2) && !(IsInt(extent_n_) && extent_n_->int_value < 2);
  }

  bool IsParam(Buffer b) const {
    return std::any_of(group_.params.begin(), group_.params.end(), [&](const Param& p) { return p.buffer == b; });
  }

  // d where some operand reads `i` only as i / d; 0 if there is none.
  int64_t GroupSize(Expr product, const StageIter& i) {
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

  Expr Simplified(Expr e) {
    return Rewriter(c_, [&](Expr x) -> Expr {
      if (x->op != ExprOp::kLoad) return nullptr;
      std::vector<Expr> at;
      for (Expr i : IndicesOf(x)) at.push_back(a_.Simplify(i));
      const Expr mask = MaskOf(x);
      return c_.Load(x->buffer, std::move(at), mask == nullptr ? nullptr : a_.Simplify(mask));
    })(e);
  }

  // Steps of the reduction that a panel holds: a divisor if there is a good one, more of them in small tiles.
  int64_t DepthFor(const Tile& t) {
    const int64_t divisor = IsInt(extent_k_) ? extent_k_->int_value : a_.KnownDivisor(extent_k_);
    if (IsInt(extent_k_) && divisor < 16) return divisor;
    if (divisor % 32 == 0 && t.M() + t.N() <= 96) return 32;
    return divisor % 16 != 0 && divisor % 8 == 0 ? 8 : 16;
  }

  // The cheapest tile; its predicted time.
  double ChooseTile() {
    double best = 1e30;
    for (Tile t : kTiles) {
      t.depth = DepthFor(t);
      for (t.slices = 1; t.slices <= 16; t.slices *= 2) {
        if (!Fits(t)) continue;
        const double seconds = SecondsOf(t);
        if (seconds >= best) continue;
        best = seconds;
        tile_ = t;
      }
    }
    return best;
  }

  int64_t Width() const { return BytesOf(group_.stages[0].outputs[0]->dtype); }
  int64_t RegistersOf(const Tile& t) const { return t.Threads() * (t.m * t.n * Width() / 4 + 40); }

  bool Fits(const Tile& t) const {
    const int64_t shared = t.slices * ((t.M() + t.N()) * t.depth + (t.slices > 1 ? t.M() * t.N() : 0)) * Width();
    return t.m * t.n * Width() <= kAccumulatorBytes && t.Threads() <= kMaxThreads && RegistersOf(t) <= kRegisters &&
           shared <= kSharedBytes;
  }

  double SecondsOf(const Tile& t) const {
    auto size = [&](Expr e) { return TypicalSize(e, group_.symbols); };
    auto tiles = [&](Expr e, int64_t tile) { return std::ceil(size(e) / static_cast<double>(tile)); };
    const double width = static_cast<double>(Width()), k = size(extent_k_);
    const double cores = static_cast<double>(std::max<int64_t>(target_.cores, 1));
    const double blocks = size(extent_b_) * tiles(extent_m_, t.M()) * tiles(extent_n_, t.N());
    const double in_turn = std::ceil(blocks / cores);  // of one SM
    const double busy = std::min(1.0, in_turn * static_cast<double>(t.Threads()) / kBusyThreads);
    const double flops = in_turn * 2 * static_cast<double>(t.M() * t.N()) * k * (width > 4 ? 2 : 1);
    const double compute = flops * cores / (PeakFlops(target_) * t.efficiency * busy);
    const double moving = in_turn * static_cast<double>(t.M() + t.N()) * width * k / kSmBytesPerSecond;
    // Each panel is waited for, by as many blocks at once as registers hold.
    const double together = static_cast<double>(kRegisters / RegistersOf(t));
    const double panels = tiles(extent_k_, t.depth * t.slices) + (t.slices > 1 ? 1 : 0);
    return kKernelSeconds + std::ceil(in_turn / together) * panels * kPanelSeconds +
           std::max({compute, moving, CostOfMatmuls(group_).bytes / BytesPerSecond(target_)});
  }

  Expr RoundUp(Expr e, int64_t to) { return a_.Simplify(c_.Mul(c_.CeilDiv(e, c_.Int(to)), c_.Int(to))); }

  // The contraction with its operands as stages of their own, zeros beyond the bounds, and tiles without remainders.
  TeProgram Tiled() {
    const Stage& acc = group_.stages[0];
    const DType type = acc.outputs[0]->dtype;
    const Expr k = RoundUp(extent_k_, tile_.depth * tile_.slices), m = RoundUp(extent_m_, tile_.M()),
               n = RoundUp(extent_n_, tile_.N());
    left_ = MakePanel("lhs", lhs_, m_, extent_m_, tile_.M(), k);
    right_ = MakePanel("rhs", rhs_, n_, extent_n_, tile_.N(), k);

    // Slices take turns in a panel.
    Stage sum;
    sum.name = "acc";
    const Expr z = c_.Int(tile_.slices), d = c_.Int(tile_.depth);
    const Expr vz = c_.Var("vz"), vb = c_.Var("vb"), vi = c_.Var("vi"), vj = c_.Var("vj"), vk = c_.Var("vk");
    const Buffer tile = c_.MakeBuffer({.name = "acc", .dtype = type, .shape = {z, extent_b_, m, n}, .alignment = 16});
    sum.outputs = {tile};
    sum.iters = {{vz, z}, {vb, extent_b_}, {vi, m}, {vj, n}};
    sum.reduce_iters = {{vk, a_.Simplify(c_.Div(k, z))}};
    sum.inits = acc.inits;
    const Expr at = tile_.slices == 1 ? vk : c_.Add(c_.Mul(c_.Add(c_.Mul(c_.Div(vk, d), z), vz), d), c_.Mod(vk, d));
    sum.values = {c_.Add(c_.Load(tile, {vz, vb, vi, vj}),
                         c_.Make(ExprOp::kMul, {c_.Load(left_.stage.outputs[0], {vb, at, vi}),
                                                c_.Load(right_.stage.outputs[0], {vb, at, vj})}))};
    TeProgram r = group_;
    r.stages = {left_.stage, right_.stage, std::move(sum)};
    Buffer total = tile;
    if (tile_.slices > 1) {
      Stage parts, whole;
      parts.name = "parts";
      const Expr pz = c_.Var("pz"), pb = c_.Var("pb"), pi = c_.Var("pi"), pj = c_.Var("pj");
      parts.iters = {{pz, z}, {pb, extent_b_}, {pi, m}, {pj, n}};
      parts.outputs = {c_.MakeBuffer({.name = "parts", .dtype = type, .shape = tile->shape, .alignment = 16})};
      parts.values = {c_.Load(tile, {pz, pb, pi, pj})};
      whole.name = "total";
      total = c_.MakeBuffer({.name = "total", .dtype = type, .shape = {extent_b_, m, n}, .alignment = 16});
      const Expr tb = c_.Var("tb"), ti = c_.Var("ti"), tj = c_.Var("tj"), tz = c_.Var("tz");
      whole.iters = {{tb, extent_b_}, {ti, m}, {tj, n}};
      whole.reduce_iters = {{tz, z}};
      whole.outputs = {total};
      whole.inits = acc.inits;
      whole.values = {c_.Add(c_.Load(total, {tb, ti, tj}), c_.Load(parts.outputs[0], {tz, tb, ti, tj}))};
      r.stages.push_back(std::move(parts));
      r.stages.push_back(std::move(whole));
    }

    const Stage& old = group_.stages.back();
    Stage out;
    out.name = old.name;
    out.outputs = old.outputs;
    const Expr ob = c_.Var("ob"), oi = c_.Var("oi"), oj = c_.Var("oj");
    out.iters = {{ob, extent_b_}, {oi, extent_m_}, {oj, extent_n_}};
    const Expr finished = tile_.slices == 1 ? c_.Load(tile, {c_.Int(0), ob, oi, oj}) : c_.Load(total, {ob, oi, oj});
    VarMap digits, to;
    AddDigits(c_, batch_, ob, digits);
    AddDigits(c_, m_, oi, digits);
    AddDigits(c_, n_, oj, digits);
    for (size_t d = 0; d < old.iters.size(); ++d)  // the epilogue's iterators are the contraction's, in order
      to[old.iters[d].var] = Substitute(c_, whole_.at(acc.iters[d].var), digits);
    out.values = {group_.stages.size() == 1 ? finished : Rewriter(c_, [&](Expr x) -> Expr {
      if (x->op == ExprOp::kLoad && x->buffer == acc.outputs[0]) return finished;
      if (x->op != ExprOp::kVar) return nullptr;
      auto it = to.find(x);
      return it == to.end() ? x : it->second;
    })(old.values[0])};
    for (Expr e : old.at.empty() ? VarsOf(old.iters) : old.at) out.at.push_back(Substitute(c_, e, to));
    r.stages.push_back(std::move(out));
    return r;
  }

  Panel MakePanel(const std::string& name, Expr value, const Iters& side, Expr size, int64_t tile, Expr padded_k) {
    const Expr padded = RoundUp(size, tile);
    Panel r;
    const Expr b = c_.Var(name + "_b"), k = c_.Var(name + "_k"), x = c_.Var(name + "_x");
    a_.BindRange(b, c_.Int(0), extent_b_);
    a_.BindRange(k, c_.Int(0), extent_k_);
    a_.BindRange(x, c_.Int(0), size);
    VarMap digits;
    AddDigits(c_, batch_, b, digits);
    AddDigits(c_, k_, k, digits);
    AddDigits(c_, side, x, digits);
    Expr beyond = nullptr;
    if (!a_.CanProve(c_.Eq(padded_k, extent_k_))) beyond = c_.Lt(k, extent_k_);
    if (!a_.CanProve(c_.Eq(padded, size))) {
      const Expr inside = c_.Lt(x, size);
      beyond = beyond == nullptr ? inside : c_.And(beyond, inside);
    }
    Expr load = value;
    while (load->op == ExprOp::kCast) load = load->args[0];
    std::vector<Expr> indices;
    for (Expr e : IndicesOf(load)) indices.push_back(a_.Simplify(Substitute(c_, e, digits)));
    Expr mask = MaskOf(load);
    if (mask != nullptr) mask = a_.Simplify(Substitute(c_, mask, digits));
    // How far neighbours lie together along either axis.
    const Expr offset = ElementOffset(c_, load->buffer, indices),
               own = ElementOffset(c_, load->buffer, IndicesOf(load));
    auto run = [&](Expr var, Expr extent, const Iters& iters) {
      if (IsContiguous(a_, offset, var)) return extent;
      return !iters.empty() && IsContiguous(a_, own, iters.back().var) ? iters.back().extent : c_.Int(1);
    };
    const Expr along_x = run(x, size, side), along_k = run(k, extent_k_, k_);
    r.along_side = TypicalSize(along_x, group_.symbols) >= std::min(TypicalSize(along_k, group_.symbols), 32.0);
    const Expr line = r.along_side ? along_x : along_k;
    const bool masked = mask != nullptr && Uses(mask, r.along_side ? x : k);
    r.vector = kAccessBytes / BytesOf(load->buffer->dtype);
    const int64_t divisor = IsInt(line) ? line->int_value : a_.KnownDivisor(line);
    while (r.vector > 1 && (masked || divisor % r.vector != 0 || (r.along_side ? tile : tile_.depth) % r.vector != 0))
      r.vector /= 2;
    if (beyond != nullptr) mask = mask == nullptr ? beyond : c_.And(beyond, mask);
    const Expr read = c_.Load(load->buffer, std::move(indices), mask);
    const DType type = value->type.dtype;
    const Buffer panel =
        c_.MakeBuffer({.name = name, .dtype = type, .shape = {extent_b_, padded_k, padded}, .alignment = 16});
    r.stage.name = name;
    r.stage.outputs = {panel};
    r.stage.iters = {{b, extent_b_}, {k, padded_k}, {x, padded}};
    r.stage.values = {Rewriter(c_, [&](Expr e) -> Expr { return e == load ? read : nullptr; })(value)};
    return r;
  }

  Status WriteSchedule(Schedule& s) {
    const std::string out = "b_" + group_.stages.back().name;
    std::vector<std::string> names = s.LoopsAround(out);
    size_t next = 0;
    const std::string lb = IsInt(extent_b_, 1) ? "" : names[next++];
    const std::string li = names[next++], lj = names[next++];
    s.Step("split ", li, " ", tile_.M(), " -> io ii").Step("split ", lj, " ", tile_.N(), " -> jo ji");
    s.Step("reorder ", lb, lb.empty() ? "" : " ", "io jo ii ji");
    s.Step("fuse ", lb, lb.empty() ? "" : " ", "io jo -> p").Run("bind p blockIdx.x");
    const bool sliced = tile_.slices > 1;
    // A block has tiles of its own.
    s.Run("scope acc local").Run("scope lhs shared").Run("scope rhs shared");
    if (sliced) s.Run("scope parts shared").Run("scope total local");
    if (sliced) s.Run("compute_at b_total p").Run("compute_at b_parts p");
    s.Run("compute_at b_acc p");
    const std::vector<std::string> acc = s.LoopsAround("b_acc");  // p, slices, rows, columns, reduction
    RET_CHECK(acc.size() == (sliced ? 5 : 4), s.text());
    const std::string rows = acc[acc.size() - 3], columns = acc[acc.size() - 2];
    s.Step("split ", acc.back(), " ", tile_.depth, " -> ko ki");
    s.Step("reorder ko ki ", sliced ? acc[1] + " " : "", rows, " ", columns);
    for (const Panel* p : {&left_, &right_}) s.Step("compute_at ", p->block(), " ko");
    RETURN_IF_ERROR(s.status());
    for (const Panel* p : {&left_, &right_}) RETURN_IF_ERROR(Fill(s, *p));
    std::string steps = "ki";
    if (tile_.depth > kUnroll && tile_.depth % kUnroll == 0) {
      s.Step("split ki ", kUnroll, " -> kj kl");
      steps = "kj kl";
    }
    BindTile(s, "a", sliced ? acc[1] : "", rows, columns, steps);
    s.Step("unroll ", steps.substr(steps.size() - 2)).Run("split_init b_acc ko -> b_init");
    if (sliced) {
      const std::vector<std::string> parts = s.LoopsAround("b_parts"), total = s.LoopsAround("b_total");
      RET_CHECK(parts.size() == 4 && total.size() == 4, s.text());
      BindTile(s, "s", parts[1], parts[2], parts[3], "");
      // One slice's threads finish.
      s.Step("split ", total[1], " 1 -> tp tq").Run("split ii 1 -> op oq");
      BindTile(s, "t", "tq", "tp", total[2], total[3]);
      s.Step("unroll ", total[3]).Step("split_init b_total ", total[3], " -> b_start");
      BindTile(s, "o", "oq", "op", "ji", "");
    } else {
      BindTile(s, "o", "", "ii", "ji", "");
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
    std::vector<std::string> around = s.LoopsAround(panel.block());  // p, ko, steps, side
    around.erase(around.begin(), std::find(around.begin(), around.end(), "ko") + 1);
    RET_CHECK(!around.empty() && around.size() <= 2, s.text());
    const std::string n = panel.stage.name;
    if (around.size() == 2 && !panel.along_side) {
      s.Step("reorder ", around[1], " ", around[0]);
      std::swap(around[0], around[1]);
    }
    std::string lane;
    if (panel.vector > 1) {
      s.Step("split ", around.back(), " ", panel.vector, " -> ", n, "_o ", n, "_e");
      around.back() = n + "_o";
      lane = n + "_e";
    }
    std::string fuse = "fuse";
    for (const std::string& l : around) fuse += " " + l;
    s.Run(Cat(fuse, " -> ", n, "_f"));
    const std::string z = tile_.slices > 1 ? n + "_z " : "";
    s.Step("split ", n, "_f ", tile_.slices > 1 ? Cat(tile_.slices, " ") : "", tile_.rows, " ", tile_.columns, " -> ",
           n, "_s ", z, n, "_y ", n, "_t");
    s.Step("reorder ", z, n, "_y ", n, "_t ", n, "_s").Step("unroll ", n, "_s");
    if (tile_.slices > 1) s.Step("bind ", z, "threadIdx.z");
    s.Step("bind ", n, "_y threadIdx.y").Step("bind ", n, "_t threadIdx.x");
    if (!lane.empty()) s.Step("vectorize ", lane);
    return s.status();
  }

  TeProgram group_;
  Context& c_;
  Analyzer a_;
  const Target& target_;
  VarMap whole_;  // iterators of the contraction in terms of those of the sides
  Iters batch_, m_, n_, k_;
  Expr lhs_ = nullptr, rhs_ = nullptr;  // elements, perhaps under casts
  Expr extent_b_ = nullptr, extent_m_ = nullptr, extent_n_ = nullptr, extent_k_ = nullptr;
  Tile tile_ = kTiles[0];
  Panel left_, right_;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeMatmulGpu(const TeProgram& group, const Target& target) {
  if (!target.IsGpu()) return std::vector<Proposal>();
  return MatmulGpu(group, target).Run();
}

}  // namespace cinn_like::hlir
