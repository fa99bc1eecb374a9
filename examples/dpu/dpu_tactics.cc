// Schedules for the dpu, beside `naive`, which serves every group: products by the matrix instruction, and elements
// that don't depend on each other by runs of them.
#include <cmath>

#include "examples/dpu/dpu.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/contraction_sides.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/schedule/schedule.h"

namespace dpu {
namespace {

using hlir::Point;
using hlir::Proposal;
using hlir::Until;
using namespace ir;  // NOLINT: schedules and stages are all there is here

using Proposals = std::vector<Proposal>;
constexpr int64_t kUnit = 8;             // rows, columns and steps of mm8
constexpr double kKernelSeconds = 2e-6;  // of one that does nothing

// out[b, i, j] = f(sum over k of lhs[b, i, k] * rhs[b, k, j]): a core computes a tile of results, in registers. Panels
// of both operands are copied to its scratchpad, some steps of the reduction at a time, with zeros beyond the bounds.
class Product {
 public:
  Product(const TeProgram& group, const Target& target) : group_(group), target_(target), c_(*group.context), a_(c_) {
    for (const SymbolFact& s : group_.symbols) a_.BindSymbol(s);
  }

  StatusOr<Proposals> Run(Until until, Point& point) {
    if (!IsCandidate()) return Proposals();
    ASSIGN_OR_RETURN(Schedule s, Schedule::Of(group_));
    ASSIGN_OR_RETURN(const bool is_flat, Flatten(s));
    if (!is_flat) return Proposals();
    const double seconds = ChooseTile(point);
    if (until == Until::kPrice) return Proposals{{"dpu_product", {}, "", seconds}};
    RETURN_IF_ERROR(WriteSchedule(s));
    return Proposals{{"dpu_product", s.func(), s.text(), seconds}};
  }

 private:
  // A product of f32, and perhaps a pointwise stage that alone reads it.
  bool IsCandidate() const {
    if (!hlir::IsContraction(group_)) return false;
    const Stage& acc = group_.stages[0];
    if (acc.outputs[0]->dtype != DType::kF32) return false;
    return group_.stages.size() == 1 || (group_.stages[1].IsPointwise() && group_.stages[1].outputs.size() == 1);
  }

  // Steps on stages make it acc[vb, vi, vj] = sum over vk, and what is written of it over ob, oi, oj.
  StatusOr<bool> Flatten(Schedule& s) {
    ASSIGN_OR_RETURN(const bool apart, hlir::TakeApart(s));
    if (!apart) return false;
    const Stage acc = s.stages()->stages[0], out = s.stages()->stages[1];
    const std::optional<hlir::Contraction> con = hlir::FindProduct(acc);
    if (!con || con->m.empty() || con->n.empty()) return false;
    const auto fold = [&](const Stage& stage, const std::string& base) {
      const auto bracket = [&](const char* name, const std::vector<StageIter>& side) {
        std::string list;
        for (size_t d = 0; d < acc.iters.size(); ++d) {
          for (const StageIter& i : side) {
            if (i.var == acc.iters[d].var) list += Cat(list.empty() ? "" : ", ", stage.iters[d].var->name);
          }
        }
        return Cat(" ", base, name, "[", list, "]");
      };
      return Cat("fold ", stage.name, " ->", bracket("b", con->batch), bracket("i", con->m), bracket("j", con->n));
    };
    std::string steps;
    for (const StageIter& i : con->k) steps += Cat(steps.empty() ? "" : ", ", i.var->name);
    s.Run(Cat(fold(acc, "v"), " vk[", steps, "]")).Run(fold(out, "o"));
    RETURN_IF_ERROR(s.status());
    flat_ = s.stages()->stages[0];
    const auto extent = [&](const StageIter& i) { return a_.Simplify(i.extent); };
    b_ = extent(flat_.iters[0]), m_ = extent(flat_.iters[1]), n_ = extent(flat_.iters[2]);
    k_ = extent(flat_.reduce_iters[0]);
    const auto below = [](Expr e, int64_t least) { return IsInt(e) && e->int_value < least; };
    return !below(b_, 1) && !below(m_, 2) && !below(n_, 2) && !below(k_, 1);
  }

  double Size(Expr e) const { return hlir::TypicalSize(e, group_.symbols); }
  double SecondsOf(int64_t tile) const {
    const auto tiles = [&](Expr e) { return std::ceil(Size(e) / static_cast<double>(tile)); };
    const double units = static_cast<double>(tile / kUnit), area = static_cast<double>(tile * tile);
    const double in_turn = std::ceil(Size(b_) * tiles(m_) * tiles(n_) / static_cast<double>(target_.cores));
    const double panel = 2 * area / kUnit * Kind().intrinsics[1].seconds;
    const double step = units * units * units * Kind().intrinsics[0].seconds + panel;
    return kKernelSeconds + std::max(in_turn * (tiles(k_) * step + area * kOperationSeconds),
                                     hlir::CostOfMatmuls(group_).bytes / hlir::BytesPerSecond(target_));
  }

  double ChooseTile(Point& point) {
    const std::vector<int64_t> tiles = {8, 16, 32, 64};
    const auto best =
        std::min_element(tiles.begin(), tiles.end(), [&](int64_t x, int64_t y) { return SecondsOf(x) < SecondsOf(y); });
    tile_ = point.Choose("tile", tiles, *best);
    return SecondsOf(tile_);
  }

  Status WriteSchedule(Schedule& s) {
    const std::string acc = flat_.name, sums = flat_.outputs[0]->name, block = "b_" + acc;
    for (const StageIter& i : {flat_.iters[1], flat_.iters[2], flat_.reduce_iters[0]})
      s.Step("round_up ", acc, " ", i.var->name, " ", tile_);
    for (const bool right : {false, true}) {
      RETURN_IF_ERROR(s.status());
      const std::optional<hlir::Contraction> con = hlir::FindProduct(s.stages()->stages[right ? 1 : 0]);
      RET_CHECK(con.has_value(), s.text());
      s.Step("define ", right ? "rhs[vb, vk, vj] = " : "lhs[vb, vi, vk] = ", Print(right ? con->rhs : con->lhs));
    }
    RETURN_IF_ERROR(s.status());

    // Blocks are tiles of results.
    std::vector<std::string> names = s.LoopsAround("b_" + s.stages()->stages.back().name);
    const std::string lb = IsInt(b_, 1) ? "" : names[0] + " ";
    RET_CHECK(names.size() == (lb.empty() ? 2 : 3), s.text());
    const std::string lj = names.back(), li = names[names.size() - 2];
    s.Step("split ", li, " ", tile_, " -> io ii").Step("split ", lj, " ", tile_, " -> jo ji");
    s.Step("reorder ", lb, "io jo ii ji").Step("fuse ", lb, "io jo -> p");
    s.Step("scope ", sums, " local").Run("scope lhs shared").Run("scope rhs shared");
    s.Step("compute_at ", block, " p");
    const std::vector<std::string> loops = s.LoopsAround(block);  // p, rows, columns, reduction
    RET_CHECK(loops.size() == 4, s.text());
    s.Step("split ", loops[3], " ", tile_, " -> ko ki").Step("reorder ko ", loops[1], " ", loops[2], " ki");
    s.Run("compute_at b_lhs ko").Run("compute_at b_rhs ko").Run("bind p blockIdx.x");

    // In a tile, units of 8 by 8 by 8.
    s.Step("split ", loops[1], " 8 -> iu i8").Step("split ", loops[2], " 8 -> ju j8").Run("split ki 8 -> ku k8");
    s.Run("reorder iu ju ku i8 j8 k8").Step("split_init ", block, " ko -> b_start").Run("tensorize i8 intrinsic.mm8");
    return s.status();
  }

  const TeProgram& group_;
  const Target& target_;
  Context& c_;
  Analyzer a_;
  Stage flat_;  // over vb, vi, vj, vk
  Expr b_ = nullptr, m_ = nullptr, n_ = nullptr, k_ = nullptr;
  int64_t tile_ = kUnit;
};

StatusOr<Proposals> ProposeProduct(const TeProgram& group, const Target& target, Until until, Point& point) {
  return Product(group, target).Run(until, point);
}

// A core takes a run of elements.
StatusOr<Proposals> ProposeElements(const TeProgram& group, const Target& target, Until until, Point& point) {
  if (group.stages.size() != 1 || !group.stages[0].IsPointwise()) return Proposals();
  const Stage& stage = group.stages[0];
  const double elements = hlir::TypicalSize(stage.iters, group.symbols);
  double bytes = 0;
  for (const Param& p : group.params) bytes += p.buffer == nullptr ? 0 : hlir::TypicalBytes(p.buffer, group.symbols);
  double operations = 1;
  for (Expr e : stage.values) operations += hlir::CostOf(e);
  const double seconds =
      kKernelSeconds + std::max(bytes / hlir::BytesPerSecond(target),
                                elements * operations * kOperationSeconds / static_cast<double>(target.cores));
  ASSIGN_OR_RETURN(Schedule s, Schedule::Of(group));
  const std::vector<std::string> loops = s.LoopsAround("b_" + stage.name);
  if (loops.empty()) return Proposals();
  const int64_t run = point.Choose("run", {64, 256, 1024}, 256);
  if (until == Until::kPrice) return Proposals{{"dpu_elements", {}, "", seconds}};
  std::string all;
  for (const std::string& l : loops) all += Cat(" ", l);
  s.Step("fuse", all, " -> e").Step("split e ", run, " -> p r").Run("bind p blockIdx.x");
  RETURN_IF_ERROR(s.status());
  return Proposals{{"dpu_elements", s.func(), s.text(), seconds}};
}

}  // namespace

const std::vector<hlir::Tactic>& Tactics() {
  static const auto* tactics =
      new std::vector<hlir::Tactic>{{"dpu_product", ProposeProduct}, {"dpu_elements", ProposeElements}};
  return *tactics;
}

}  // namespace dpu
