#include "hlir/tactics/chain_gpu_plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "cinn_like/base/costs.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/chain_steps.h"
#include "hlir/tactics/gpu_tiles.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactic.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Role = ChainRole;

constexpr int64_t kMostWarps = 4, kMostFours = 2;
constexpr int64_t kMostSums = 192;       // registers of a thread for scores and sums
constexpr int64_t kOtherRegisters = 24;  // of a thread, beside scores and sums
constexpr Role kOrder[] = {Role::kBatch, Role::kRow, Role::kKey, Role::kDepth, Role::kFeature};

bool IsOne(const StageIter& i) { return IsInt(i.extent, 1); }
int64_t RoundUpTo(int64_t n, int64_t factor) { return (n + factor - 1) / factor * factor; }

class Planner {
 public:
  Planner(const TeProgram& group, const Target& target, Point& point) : group_(group), target_(target), point_(point) {}

  StatusOr<std::optional<ChainGpuPlan>> Run() {
    if (group_.exact || !target_.device->limits.mma || SpeedsOf(target_).own_mma == 0 || !MayBeChain(group_))
      return std::optional<ChainGpuPlan>();
    ASSIGN_OR_RETURN(Schedule s, Schedule::Of(group_));
    s_.emplace(std::move(s));
    std::optional<Chain> chain = FindChain(group_, *s_);
    if (!chain) return std::optional<ChainGpuPlan>();
    chain_ = *std::move(chain);
    if (!IsInt(chain_.features) || !ChooseTiles()) return std::optional<ChainGpuPlan>();
    FoldRoles(*s_, chain_, kOrder, true);
    ScaleWeights();
    if (!KeepMasked() || !RoundUp() || !StagePanels()) return std::optional<ChainGpuPlan>();
    RETURN_IF_ERROR(s_->status());
    chain_.stages = s_->stages()->stages;
    const bool is_ahead = !IsInt(chain_.keys) || chain_.keys->int_value > tiles_.keys;
    const bool tensor_copies =
        is_ahead && tiles_.wgmma && target_.Limits().tensor_copies && point_.ChooseBool("tensor_copies", true);
    return std::optional<ChainGpuPlan>(
        {*s_, chain_, lhs_, rhs_, weights_, values_, tiles_, FeaturesOf(tiles_), tensor_copies, SecondsOf(tiles_)});
  }

 private:
  const Stage& StageOf(const std::string& name) const { return StageNamed(s_->stages()->stages, name); }

  int64_t DepthOf(const ChainTiles& t) const { return RoundUpTo(static_cast<int64_t>(chain_.depth), t.Unit()); }
  int64_t FeaturesOf(const ChainTiles& t) const { return RoundUpTo(chain_.features->int_value, t.Unit()); }

  bool Fits(const ChainTiles& t) const {
    return (FeaturesOf(t) + t.keys) / (t.wgmma ? 2 : 1) <= kMostSums && SharedBytes(t) <= target_.shared_bytes;
  }

  int64_t SharedBytes(const ChainTiles& t) const {
    const int64_t gap = t.wgmma ? 0 : kRowOffset, depth = DepthOf(t) + gap, features = FeaturesOf(t) + gap;
    return 2 * (t.Rows() * depth + ChainGpuPlan::kStages * t.keys * (depth + features));
  }

  std::vector<int64_t> KeysOf(bool wgmma) const {
    return wgmma ? std::vector<int64_t>{64, 128} : std::vector<int64_t>{32, 64, 128};
  }

  // By a warp's own units; without keys if there is none.
  ChainTiles TilesOfWarps() const {
    ChainTiles r{.warps = kMostWarps};
    const double rows = TypicalSize(chain_.rows, group_.symbols);
    while (r.warps > 1 && rows <= static_cast<double>((r.warps - 1) * r.RowsEach())) --r.warps;
    double least = 1e30;
    ChainTiles best = r;
    for (const int64_t keys : KeysOf(false)) {
      r.keys = keys;
      const double tiles = std::ceil(TypicalSize(chain_.keys, group_.symbols) / static_cast<double>(keys));
      const double cost = tiles * static_cast<double>(keys + GpuCostsOf(target_).tile_keys);
      if (cost <= least && Fits(r)) least = cost, best = r;
    }
    return best;
  }

  ChainTiles TilesOfFours() const {
    ChainTiles best{.wgmma = true};
    for (const int64_t warps : UpTo(kMostFours)) {
      for (const int64_t keys : KeysOf(true)) {
        const ChainTiles t{.wgmma = true, .warps = warps, .keys = keys};
        if (Fits(t) && (best.keys == 0 || SecondsOf(t) < SecondsOf(best))) best = t;
      }
    }
    return best;
  }

  bool ChooseTiles() {
    tiles_ = TilesOfWarps();
    const bool has_wgmma = SpeedsOf(target_).own_wgmma != 0 && target_.arch == "sm_90a";
    const ChainTiles four = has_wgmma ? TilesOfFours() : ChainTiles();
    if (four.keys != 0) {
      const bool better = tiles_.keys == 0 || SecondsOf(four) < SecondsOf(tiles_);
      if (point_.Choose("units", {1, 4}, better ? 4 : 1) == 4) tiles_ = four;
    }
    if (tiles_.keys == 0) return false;
    tiles_.keys = point_.Choose("keys", KeysOf(tiles_.wgmma), tiles_.keys);
    tiles_.warps = point_.Choose("warps", UpTo(tiles_.wgmma ? kMostFours : kMostWarps), tiles_.warps);
    return Fits(tiles_);
  }

  // A power of 2 for each score, of the difference from the largest alone: what both are scaled by is part of the
  // exponent's own factor.
  void ScaleWeights() {
    for (const std::string& name : chain_.inner) {
      const Stage& s = StageOf(name);
      if (s.IsReduction() && s.values[0]->op == ExprOp::kMax) s_->Try(Cat("factor ", name));
    }
    for (const std::string& name : chain_.inner) {
      const Stage& s = StageOf(name);
      if (!s.IsReduction() && chain_.IterOf(s, Role::kKey) != nullptr) s_->Try(Cat("exp2 ", name));
    }
  }

  // What the largest value is of, where it is more than the scores, is computed once and kept for who else needs it.
  bool KeepMasked() {
    if (!s_->status().ok()) return false;
    for (const std::string& name : std::vector<std::string>(chain_.inner)) {
      const Stage& s = StageOf(name);
      if (!s.IsReduction() || s.values[0]->op != ExprOp::kMax) continue;
      const Expr running = RunningOf(*group_.context, s)[0];
      const Expr element = s.values[0]->args[s.values[0]->args[0] == running ? 1 : 0];
      if (element->op == ExprOp::kLoad && element->buffer == StageOf(chain_.scores).outputs[0]) continue;
      if (!KeepElement(*s_, chain_, name, kOrder) || !s_->status().ok()) return false;
    }
    return true;
  }

  // What matrix units go along has no rest: zeros beyond.
  bool RoundUp() {
    Analyzer a(*group_.context);
    for (const SymbolFact& f : group_.symbols) a.BindSymbol(f);
    const std::tuple<std::string, Role, int64_t> kSteps[] = {{chain_.scores, Role::kDepth, tiles_.Unit()},
                                                             {chain_.sum, Role::kKey, tiles_.keys}};
    for (const auto& [name, role, factor] : kSteps) {
      const Stage s = StageOf(name);
      const StageIter* i = chain_.IterOf(s, role);
      if (i == nullptr) return false;
      if (a.KnownDivisor(i->extent) % factor == 0) continue;
      if (!s_->Run(Cat("round_up ", name, " ", i->var->name, " ", factor)).status().ok()) return false;
    }
    return true;
  }

  // Operands of the contractions as stages of their own, 16-bit floats of one type: those are what a panel holds.
  bool StagePanels() {
    for (const std::string& name : {chain_.scores, chain_.sum}) {
      const Stage s = StageOf(name);
      if (!FindContraction(s) || s.outputs[0]->dtype != DType::kF32) return false;
      const Expr sum = s.values[0];
      const Expr product = sum->args[sum->args[0]->op == ExprOp::kLoad && sum->args[0]->buffer == s.outputs[0] ? 1 : 0];
      if (product->op != ExprOp::kMul) return false;
      std::vector<DType> types;
      for (Expr operand : product->args) {
        if (operand->op != ExprOp::kCast || !IsHalf(operand->args[0]->type.dtype)) return false;
        types.push_back(operand->args[0]->type.dtype);
      }
      if (types[0] != types[1]) return false;
      for (Expr operand : product->args) {
        const StageIter* row = chain_.IterOf(s, Role::kRow);
        const bool of_rows = row != nullptr && Uses(operand, row->var);
        if (!StagePanel(s, operand->args[0],
                        name == chain_.scores ? (of_rows ? lhs_ : rhs_) : (of_rows ? weights_ : values_)))
          return false;
      }
    }
    return !lhs_.name.empty() && !rhs_.name.empty() && !weights_.name.empty() && !values_.name.empty();
  }

  bool StagePanel(const Stage& s, Expr value, ChainPanel& panel) {
    std::vector<const StageIter*> iters;
    for (const Role role : {Role::kBatch, Role::kRow, Role::kKey, Role::kDepth, Role::kFeature}) {
      const StageIter* i = chain_.IterOf(s, role);
      if (i != nullptr && Uses(value, i->var)) iters.push_back(i);
    }
    const size_t batch = !iters.empty() && chain_.RoleOf(iters[0]->var) == Role::kBatch;
    if (iters.size() != batch + 2 || !PrintsWithin(value, kMostNodesOfStep)) return false;
    // In the order in which memory is read.
    panel.vector = VectorAlong(s, value, *iters[batch + 1]);
    if (const int64_t other = VectorAlong(s, value, *iters[batch]); other > panel.vector) {
      std::swap(iters[batch], iters[batch + 1]);
      panel.vector = other;
    }
    panel.name = s_->Fresh(&panel == &lhs_      ? "lhs"
                           : &panel == &rhs_    ? "rhs"
                           : &panel == &values_ ? "values"
                                                : "weights");
    RoledNames at;
    for (const StageIter* i : iters) at.emplace_back(i->var->name, *chain_.RoleOf(i->var));
    DefineInner(*s_, chain_, panel.name, at, value, s.name);
    return s_->status().ok();
  }

  // Neighbours along the iterator that are read at once; 0: they are no neighbours in memory.
  int64_t VectorAlong(const Stage& s, Expr value, const StageIter& i) const {
    Context& c = *group_.context;
    Analyzer a(c);
    for (const SymbolFact& f : group_.symbols) a.BindSymbol(f);
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& x : *list) a.BindRange(x.var, c.Int(0), x.extent);
    }
    int64_t vector = kAccessBytes / 2;
    bool contiguous = false;
    VisitLoads(value, [&](Expr load) {
      const Expr offset = ElementOffset(c, load->buffer, IndicesOf(load));
      if (!Uses(offset, i.var)) return;
      contiguous = IsContiguous(a, offset, i.var);
      // A mask that ends within a vector.
      Expr end = i.extent;
      if (const Expr mask = MaskOf(load); mask != nullptr && Uses(mask, i.var))
        end = mask->op == ExprOp::kLt && mask->args[0] == i.var ? mask->args[1] : c.Int(1);
      const int64_t divisor = IsInt(end) ? end->int_value : a.KnownDivisor(end);
      while (vector > 1 && (!contiguous || divisor % vector != 0)) vector /= 2;
    });
    return contiguous ? vector : 0;
  }

  double SecondsOf(const ChainTiles& t) const {
    const auto size = [&](Expr e) { return TypicalSize(e, group_.symbols); };
    double batch = 1;
    for (const StageIter& i : StageOf(chain_.scores).iters) {
      if (!IsOne(i) && chain_.RoleOf(i.var) == Role::kBatch) batch *= size(i.extent);
    }
    const auto tile = static_cast<double>(t.Rows()), cores = std::max<double>(1, static_cast<double>(target_.cores));
    const double in_turn = std::ceil(batch * std::ceil(size(chain_.rows) / tile) / cores);  // of an SM
    const double scores = in_turn * tile * size(chain_.keys);
    const SpeedRow& speeds = SpeedsOf(target_);
    const GpuCosts& gpu = GpuCostsOf(target_);
    const double rate = t.wgmma ? speeds.own_wgmma : speeds.own_mma;
    const double products = 2 * scores * static_cast<double>(DepthOf(t) + FeaturesOf(t)) / (rate * 1e9);
    const double memory = CostOfMatmuls(group_).bytes / BytesPerSecond(target_);
    if (!t.wgmma) {
      const double busy = in_turn < 2 ? gpu.alone_part : 1;
      return gpu.kernel_seconds + std::max((products + scores * gpu.score_seconds) / busy, memory);
    }
    // Fours of warps beside each other compute while the units work for others; each goes on with its sums once a tile.
    const double fours = std::min(in_turn, static_cast<double>(Together(t))) * static_cast<double>(t.warps);
    const double a_tile = gpu.tile_scores + gpu.tile_sum_scores * static_cast<double>(FeaturesOf(t));
    const double others = scores * gpu.wgmma_score_seconds * (1 + gpu.wgmma_alone_factor / fours) *
                          (1 + a_tile / static_cast<double>(t.keys));
    const double moved = scores / static_cast<double>(t.Rows()) * 2 * static_cast<double>(DepthOf(t) + FeaturesOf(t));
    return gpu.kernel_seconds + std::max({products + others, moved / gpu.key_bytes_per_second, memory});
  }

  // Blocks of an SM at a time.
  int64_t Together(const ChainTiles& t) const {
    const int64_t registers = t.keys * 5 / 8 + FeaturesOf(t) / 2 + kOtherRegisters;
    return std::max<int64_t>(1, std::min(target_.registers / (registers * t.warps * t.ThreadRows() * kWarpColumns),
                                         target_.shared_bytes / SharedBytes(t)));
  }

  const TeProgram& group_;
  const Target& target_;
  Point& point_;
  std::optional<Schedule> s_;
  Chain chain_;
  ChainPanel lhs_, rhs_, weights_, values_;
  ChainTiles tiles_;
};

}  // namespace

StatusOr<std::optional<ChainGpuPlan>> PlanChainGpu(const TeProgram& group, const Target& target, Point& point) {
  return Planner(group, target, point).Run();
}

}  // namespace cinn_like::hlir
