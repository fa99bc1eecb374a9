#include "hlir/tactics/chain_cpu_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cinn_like/base/costs.h"
#include "hlir/panels.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/chain_steps.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/tactic.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Role = ChainRole;

constexpr int64_t kMostSums = 14;                   // rows of a register tile
constexpr int64_t kMostSumsOfRest = 8;              // where each row has an address of its own, kept inside
constexpr int64_t kMostKeys = 64, kLeastKeys = 16;  // of a tile
// Rows last, so that they lie next to each other.
constexpr Role kOrder[] = {Role::kBatch, Role::kKey, Role::kFeature, Role::kRow};

bool IsOne(const StageIter& i) { return IsInt(i.extent, 1); }

// A divisor of `n` from `most` down to `least`; 0 if there is none.
int64_t DivisorFrom(int64_t n, int64_t most, int64_t least) {
  for (int64_t d = std::min(n, most); d >= least; --d) {
    if (n % d == 0) return d;
  }
  return 0;
}

class Planner {
 public:
  Planner(const TeProgram& group, const Target& target, Point& point) : group_(group), target_(target), point_(point) {}

  StatusOr<std::optional<ChainPlan>> Run() {
    ASSIGN_OR_RETURN(const bool is_chain, Plan());
    if (!is_chain) return std::optional<ChainPlan>();
    FoldRoles(*s_, chain_, kOrder, false);
    KeepMasked();
    Pack();
    RETURN_IF_ERROR(s_->status());
    chain_.stages = stages();
    return std::optional<ChainPlan>(
        {*s_, chain_, lanes_, vectors_, features_tile_, keys_tile_, keys_sums_, seconds_, keys_seconds_});
  }

 private:
  // False: the group is no such chain.
  StatusOr<bool> Plan() {
    if (group_.exact || target_.HasKernels() || !MayBeChain(group_)) return false;
    ASSIGN_OR_RETURN(Schedule s, Schedule::Of(group_));
    s_.emplace(std::move(s));
    std::optional<Chain> chain = FindChain(group_, *s_);
    if (!chain) return false;
    chain_ = *std::move(chain);
    sum_type_ = StageOf(chain_.scores).outputs[0]->dtype;
    if (sum_type_ != DType::kF32 || !HasRegisterTiles(sum_type_, target_)) return false;
    ChooseTiles();
    if (lanes_ == 1) return false;
    // What a task keeps: rows' operand and sums, three values for each of a tile's keys and rows, keys' operands.
    const double columns = chain_.depth + static_cast<double>(chain_.features->int_value),
                 keys = static_cast<double>(keys_tile_);
    const double floats = static_cast<double>(lanes_ * vectors_) * (columns + 3 * keys) + keys * columns;
    if (floats * BytesOf(sum_type_) > static_cast<double>(CpuCostsOf(target_).panel_bytes)) return false;
    PredictSeconds();
    return true;
  }

  const std::vector<Stage>& stages() const { return s_->stages()->stages; }

  void ChooseTiles() {
    const PanelShape panel = ChoosePanel(-1, sum_type_, target_);
    lanes_ = panel.lanes, vectors_ = panel.vectors;
    if (TypicalSize(chain_.rows, group_.symbols) <= static_cast<double>(lanes_)) vectors_ = 1;
    vectors_ = point_.Choose("vectors", UpTo(4), vectors_);
    const int64_t most = std::min<int64_t>(kMostSums, (target_.vector_bytes >= 64 ? 28 : 12) / vectors_);
    const auto tile_of = [&](Expr n) {
      const int64_t d = IsInt(n) ? DivisorFrom(n->int_value, most, std::min<int64_t>(4, n->int_value)) : 0;
      return d == 0 ? std::min<int64_t>(8, most) : d;
    };
    features_tile_ = point_.Choose("features", UpTo(most), tile_of(chain_.features));
    // Tiles of keys without a rest, where there are such; else as many as there must be, and as even as register tiles
    // make them.
    keys_tile_ = IsInt(chain_.keys)
                     ? DivisorFrom(chain_.keys->int_value, kMostKeys, std::min(kLeastKeys, chain_.keys->int_value))
                     : 0;
    has_rest_ = keys_tile_ == 0;
    const int64_t least_sums = std::min<int64_t>(5, most);
    if (has_rest_) {
      const double n = std::max(1.0, TypicalSize(chain_.keys, group_.symbols));
      const double even = std::ceil(n / std::ceil(n / static_cast<double>(kMostKeys)));
      for (int64_t sums = std::min(most, kMostSumsOfRest); sums >= least_sums; --sums) {
        const int64_t tile = (std::max(static_cast<int64_t>(even), kLeastKeys) + sums - 1) / sums * sums;
        if (keys_tile_ == 0 || tile < keys_tile_) keys_tile_ = tile, keys_sums_ = sums;
      }
    } else {
      keys_sums_ = DivisorFrom(keys_tile_, most, std::min(least_sums, keys_tile_));
      if (keys_sums_ == 0) keys_sums_ = std::min<int64_t>(8, most);
    }
    keys_tile_ = point_.Choose("keys", {kLeastKeys, 32, 48, kMostKeys, 2 * kMostKeys}, keys_tile_);
    keys_sums_ = point_.Choose("sums", UpTo(most), keys_sums_);
    has_rest_ = !IsInt(chain_.keys) || chain_.keys->int_value % keys_tile_ != 0;
  }

  void PredictSeconds() {
    const SpeedRow& speeds = SpeedsOf(target_);
    const CpuCosts& cpu = CpuCostsOf(target_);
    const TeProgram& p = *s_->stages();
    const auto size = [&](Expr e) { return TypicalSize(e, p.symbols); };
    const double tile = static_cast<double>(lanes_ * vectors_), cores = Cores(target_);
    double batch = 1;
    for (const StageIter& i : StageOf(chain_.scores).iters) {
      if (chain_.RoleOf(i.var) == Role::kBatch) batch *= size(i.extent);
    }
    streams_ = size(chain_.rows) <= tile;
    const double tiles = batch * std::ceil(size(chain_.rows) / tile);
    const double keys =
        std::ceil(size(chain_.keys) / static_cast<double>(keys_tile_)) * static_cast<double>(keys_tile_);
    const double rows = tiles * tile;
    double compute = 2 * rows * keys * (chain_.depth + size(chain_.features)) / (speeds.own_product * 1e9);
    double cost = 0, scattered = 0;
    for (const Stage& s : p.stages) {
      if (s.IsReduction() && s.values[0]->op == ExprOp::kMax) scattered += static_cast<double>(CountScattered(s));
      const bool wide = std::any_of(s.iters.begin(), s.iters.end(),
                                    [&](const StageIter& i) { return chain_.RoleOf(i.var) == Role::kKey; });
      if (!FindContraction(s) && (wide || s.IsReduction())) cost += CostOf(s.values[0]);
    }
    compute += rows * keys * (cpu.chain_element_seconds + cost / (speeds.own_rows * 1e9 * cpu.chain_near_factor));
    compute += rows * keys * scattered * cpu.chain_apart_seconds;
    if (has_rest_) compute *= cpu.chain_rest_factor;
    const double balance = tiles > 0 ? std::ceil(tiles / cores) * cores / tiles : 1;
    const double of_rows = rows * (chain_.depth + size(chain_.features)) * cpu.chain_gather_seconds * balance / cores;
    const double memory = BytesMoved() / BytesPerSecond(target_);
    keys_seconds_ = compute * balance / cores;
    const double busy = of_rows + keys_seconds_;
    seconds_ = cpu.loop_seconds + (streams_ ? busy + memory : std::max(busy, memory));
  }

  // Of the contractions' operands what they read, once, and the result; of a slice, or of heads that share their keys,
  // no more than that.
  double BytesMoved() const {
    const std::vector<SymbolFact>& symbols = group_.symbols;
    double bytes = TypicalBytes(stages().back().outputs[0], symbols);
    for (const std::string& name : {chain_.scores, chain_.sum}) {
      const Stage& s = StageOf(name);
      const auto con = FindContraction(s);
      if (!con) continue;
      for (Expr load : {con->lhs, con->rhs}) {
        if (!IsGiven(load->buffer)) continue;
        double read = BytesOf(load->type.dtype);
        for (const auto* list : {&s.iters, &s.reduce_iters}) {
          for (const StageIter& i : *list) {
            if (!Uses(load, i.var)) continue;
            int64_t shared = 1;
            for (Expr e : load->args) shared = std::max(shared, DivisorOf(e, i.var));
            read *= std::max(1.0, TypicalSize(i.extent, symbols) / static_cast<double>(shared));
          }
        }
        bytes += std::min(read, TypicalBytes(load->buffer, symbols));
      }
    }
    return bytes;
  }

  bool IsGiven(Buffer b) const {
    return std::any_of(group_.params.begin(), group_.params.end(),
                       [&](const Param& p) { return p.buffer != nullptr && p.buffer->name == b->name; });
  }

  const Stage& StageOf(const std::string& name) const { return StageNamed(stages(), name); }

  // Whether `load` takes a vector's lanes, which are rows, from here and there.
  bool IsScattered(Expr load, const Stage& s) const {
    const bool is_given = IsGiven(load->buffer);
    const std::vector<Expr>& shape = load->buffer->shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool lies_apart =
          std::any_of(shape.begin() + static_cast<ptrdiff_t>(d) + 1, shape.end(), [](Expr n) { return !IsInt(n, 1); });
      for (const StageIter& i : s.iters) {
        if (is_given && lies_apart && chain_.RoleOf(i.var) == Role::kRow && Uses(load->args[d], i.var)) return true;
      }
    }
    return false;
  }

  size_t CountScattered(const Stage& s) const {
    size_t n = 0;
    for (Expr v : s.values) {
      VisitLoads(v, [&](Expr e) { n += IsScattered(e, s); });
    }
    return n;
  }

  // What the maximum is of, where it takes such loads, is computed once and kept for who else needs it.
  void KeepMasked() {
    if (!s_->status().ok()) return;
    for (const std::string& name : std::vector<std::string>(chain_.inner)) {
      const Stage& s = StageOf(name);
      if (!s.IsReduction() || s.values[0]->op != ExprOp::kMax || CountScattered(s) == 0) continue;
      KeepElement(*s_, chain_, name, kOrder);
      return;
    }
  }

  // What of the first contraction's operands moves along the rows lies so, too; 16-bit operands become f32 a tile at a
  // time; what comes from memory is copied line after line, as memory gives it fastest.
  void Pack() {
    for (const std::string& name : {chain_.scores, chain_.sum}) {
      if (!s_->status().ok()) return;
      const Stage s = StageOf(name);
      const auto con = FindContraction(s);
      if (!con) return;
      for (Expr load : {con->lhs, con->rhs}) {
        const bool of_rows = std::any_of(s.iters.begin(), s.iters.end(), [&](const StageIter& i) {
          return chain_.RoleOf(i.var) == Role::kRow && Uses(load, i.var);
        });
        if (!IsGiven(load->buffer) || (!streams_ && !of_rows && BytesOf(load->type.dtype) == BytesOf(sum_type_)))
          continue;
        RoledNames at, row;
        for (const auto* list : {&s.iters, &s.reduce_iters}) {
          for (const StageIter& i : *list) {
            if (IsOne(i) || !Uses(load, i.var)) continue;
            const auto role = chain_.RoleOf(i.var);
            const bool is_row = role == Role::kRow || (!of_rows && role == Role::kFeature);
            (is_row ? row : at).emplace_back(i.var->name, role.value_or(Role::kBatch));
          }
        }
        at.insert(at.end(), row.begin(), row.end());
        DefineInner(*s_, chain_, s_->Fresh("panel"), at, WithCasts(s.values[0], load), name);
        if (!s_->status().ok()) return;
      }
    }
  }

  // `load`, converted as `value` does it.
  static Expr WithCasts(Expr value, Expr load) {
    Expr r = load;
    Visit(value, [&](Expr e) {
      if (e->op == ExprOp::kCast && e->args[0] == r) r = e;
      return true;
    });
    return r;
  }

  const TeProgram& group_;
  const Target& target_;
  Point& point_;
  std::optional<Schedule> s_;
  Chain chain_;
  DType sum_type_ = DType::kF32;
  int64_t lanes_ = 1, vectors_ = 1, features_tile_ = 1, keys_tile_ = 0, keys_sums_ = 1;
  bool has_rest_ = false;  // beyond whole tiles of keys
  bool streams_ = false;   // one task alone reads a key's operands: from memory, not from caches
  double seconds_ = 0, keys_seconds_ = 0;
};

}  // namespace

StatusOr<std::optional<ChainPlan>> PlanChain(const TeProgram& group, const Target& target, Point& point) {
  return Planner(group, target, point).Run();
}

}  // namespace cinn_like::hlir
