#include "hlir/tactics/chain_gpu_plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

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

constexpr int64_t kMostWarps = 4;
constexpr int64_t kMostSums = 192;        // registers of a thread for scores and sums
constexpr int64_t kTileKeys = 32;         // that take as long as what is done once for a tile
constexpr double kAlone = 0.6;            // of the rate of blocks that take turns: one alone on an SM
constexpr double kScoreSeconds = 60e-12;  // of what an SM computes of one beside the products
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
    if (!ChooseTiles()) return std::optional<ChainGpuPlan>();
    FoldRoles(*s_, chain_, kOrder, true);
    if (!KeepMasked() || !RoundUp() || !StagePanels()) return std::optional<ChainGpuPlan>();
    RETURN_IF_ERROR(s_->status());
    chain_.stages = s_->stages()->stages;
    return std::optional<ChainGpuPlan>(
        {*s_, chain_, lhs_, rhs_, weights_, values_, warps_, keys_tile_, features_, PredictSeconds()});
  }

 private:
  const Stage& StageOf(const std::string& name) const { return StageNamed(s_->stages()->stages, name); }

  bool ChooseTiles() {
    if (!IsInt(chain_.features)) return false;
    features_ = RoundUpTo(chain_.features->int_value, kMmaDepth);
    depth_ = RoundUpTo(static_cast<int64_t>(chain_.depth), kMmaDepth);
    double least = 1e30;
    for (const int64_t tile : {32, 64, 128}) {
      if (features_ + tile > kMostSums) continue;
      const double tiles = std::ceil(TypicalSize(chain_.keys, group_.symbols) / static_cast<double>(tile));
      const double cost = tiles * static_cast<double>(tile + kTileKeys);
      if (cost > least) continue;
      least = cost;
      keys_tile_ = tile;
    }
    if (keys_tile_ == 0) return false;
    keys_tile_ = point_.Choose("keys", {32, 64, 128}, keys_tile_);
    const double rows = TypicalSize(chain_.rows, group_.symbols);
    warps_ = kMostWarps;
    while (warps_ > 1 && rows <= static_cast<double>((warps_ - 1) * ChainGpuPlan::kRows)) --warps_;
    warps_ = point_.Choose("warps", UpTo(kMostWarps), warps_);
    const int64_t row_bytes = 2 * (depth_ + kRowOffset), value_bytes = 2 * (features_ + kRowOffset);
    return warps_ * ChainGpuPlan::kRows * row_bytes + ChainGpuPlan::kStages * keys_tile_ * (row_bytes + value_bytes) <=
           target_.shared_bytes;
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
    const std::tuple<std::string, Role, int64_t> kSteps[] = {{chain_.scores, Role::kDepth, kMmaDepth},
                                                             {chain_.sum, Role::kKey, keys_tile_}};
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
    for (const std::string& name : chain_.inner) {
      const Stage& s = StageOf(name);
      if (!s.IsReduction() && chain_.IterOf(s, Role::kKey) != nullptr) s_->Try(Cat("exp2 ", name));
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
      contiguous = IsInt(a.Simplify(c.Sub(Substitute(c, offset, {{i.var, c.Add(i.var, c.Int(1))}}), offset)), 1);
      // A mask that ends within a vector.
      Expr end = i.extent;
      if (const Expr mask = MaskOf(load); mask != nullptr && Uses(mask, i.var))
        end = mask->op == ExprOp::kLt && mask->args[0] == i.var ? mask->args[1] : c.Int(1);
      const int64_t divisor = IsInt(end) ? end->int_value : a.KnownDivisor(end);
      while (vector > 1 && (!contiguous || divisor % vector != 0)) vector /= 2;
    });
    return contiguous ? vector : 0;
  }

  double PredictSeconds() {
    const auto size = [&](Expr e) { return TypicalSize(e, group_.symbols); };
    double batch = 1;
    for (const StageIter& i : StageOf(chain_.scores).iters) {
      if (!IsOne(i) && chain_.RoleOf(i.var) == Role::kBatch) batch *= size(i.extent);
    }
    const auto tile = static_cast<double>(warps_ * ChainGpuPlan::kRows),
               cores = std::max<double>(1, static_cast<double>(target_.cores));
    const double in_turn = std::ceil(batch * std::ceil(size(chain_.rows) / tile) / cores);  // of an SM
    const double scores = in_turn * tile * size(chain_.keys);
    const double products = 2 * scores * static_cast<double>(depth_ + features_) / (SpeedsOf(target_).own_mma * 1e9);
    const double busy = in_turn < 2 ? kAlone : 1;
    return kKernelSeconds +
           std::max((products + scores * kScoreSeconds) / busy, CostOfMatmuls(group_).bytes / BytesPerSecond(target_));
  }

  const TeProgram& group_;
  const Target& target_;
  Point& point_;
  std::optional<Schedule> s_;
  Chain chain_;
  ChainPanel lhs_, rhs_, weights_, values_;
  int64_t warps_ = 1, keys_tile_ = 0, depth_ = 0, features_ = 0;
};

}  // namespace

StatusOr<std::optional<ChainGpuPlan>> PlanChainGpu(const TeProgram& group, const Target& target, Point& point) {
  return Planner(group, target, point).Run();
}

}  // namespace cinn_like::hlir
