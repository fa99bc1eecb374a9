// Chains of reductions over one dimension between two contractions, on a CPU: the first one's results are reduced along
// what the second one sums over (a largest value, a sum of exponentials less that), and are the second one's operand.
//   s[i, j] = sum_d q[i, d] * k[j, d];  m[i] = max_j s[i, j];  e[i, j] = exp(s[i, j] - m[i]);  l[i] = sum_j e[i, j];
//   o[i, d] = sum_j e[i, j] * v[j, d] / l[i]
// Each thread takes tiles of rows i, which are the lanes of every loop: nothing is reduced across lanes, and of k and v
// one element at a time is broadcast from where it lies. Tiles of j follow one another in one loop (the step `chain`),
// so that what is computed for each i and j stays in the first-level cache.
#include <algorithm>
#include <cmath>
#include <utility>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/chain_cpu_plan.h"
#include "hlir/tactics/chain_steps.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"
#include "ir/schedule/tree.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Role = ChainRole;

// The steps on loops.
class Loops {
 public:
  explicit Loops(ChainPlan& plan) : t_(plan), chain_(plan.chain), s_(plan.schedule) {}

  Status Run() {
    Tile();
    RETURN_IF_ERROR(s_.status());
    keys_ = ChainKeys(s_, chain_, t_.keys_tile, feature_tiles_);
    RETURN_IF_ERROR(s_.status());
    return Vectorize();
  }

  // Of all tiles of keys those that are computed, on the average: those behind which a mask leaves nothing are not.
  double ShareOfKeys() const {
    constexpr int kSamples = 64;
    if (keys_.by.empty()) return 1;
    const Func& f = s_.func();
    Context& c = *f.context;
    const StatusOr<StmtPath> path = FindLoop(f, keys_.loop);
    if (!path.ok()) return 1;
    const For &tasks = *ir::LoopsOf(*path).front(), &loop = *ir::LoopsOf(*path).back();
    VarMap values;
    for (const SymbolFact& s : f.symbols) values[s.var] = c.Int(static_cast<int64_t>(TypicalSize(s.var, f.symbols)));
    Analyzer a(c);
    double sum = 0, unused = 0;
    for (int k = 0; k < kSamples; ++k) {
      // Anywhere, in step with nothing.
      const double at = TypicalSize(tasks.extent, f.symbols) * std::modf(k * 0.6180339887, &unused);
      values[tasks.var] = c.Int(static_cast<int64_t>(at));
      const Expr extent = a.Simplify(Substitute(c, loop.extent, values));
      if (!IsInt(extent)) return 1;
      sum += static_cast<double>(extent->int_value);
    }
    const double all = std::ceil(TypicalSize(chain_.keys, f.symbols) / static_cast<double>(t_.keys_tile));
    return std::min(1.0, sum / kSamples / all);
  }

 private:
  // Tasks are tiles of rows; all that a task needs is computed in it, in memory of its own.
  void Tile() {
    const std::string columns = TileRows(s_, chain_, t_.lanes * t_.vectors);
    s_.Run("parallel p");
    for (size_t k = chain_.inner.size(); k-- > 0;) {
      s_.Step("scope ", chain_.StageOf(chain_.inner[k]).outputs[0]->name, " local align 64");
      s_.Step("compute_at b_", chain_.inner[k], " p");
    }
    for (const std::string& name : chain_.inner) {
      if (name == chain_.sum) {
        feature_tiles_ = s_.Fresh("do");
        s_.Step("split ", LoopsByRole(s_, chain_, chain_.StageOf(name))[0].first, " ", t_.features_tile, " -> ",
                feature_tiles_, " ", s_.Fresh("di"));
      }
      s_.Step("pad b_", name);
    }
    s_.Step("split ", columns, " ", t_.lanes, " -> ov ol").Run("vectorize ol");
  }

  // Rows are the innermost loop around every block, and vectors.
  Status Vectorize() {
    for (const std::string& name : chain_.inner) {
      RETURN_IF_ERROR(s_.status());
      const Stage& s = chain_.StageOf(name);
      const std::string block = "b_" + name;
      std::string row;
      const std::vector<std::string> all = s_.LoopsAround(block);
      const size_t least = s.name == chain_.sum || s.name == chain_.scores ? 4 : 2;
      RET_CHECK(all.size() >= least, block);
      if (s.name == chain_.scores) {
        const RoledNames loops = LoopsByRole(s_, chain_, s);
        std::string depth;
        for (const auto& [loop, role] : loops) {
          if (role == Role::kRow) row = loop;
          if (role == Role::kDepth) depth += " " + loop;
        }
        const std::string tile = s_.Fresh("jt"), sums = s_.Fresh("js");
        s_.Step("split ", loops[0].first, " ", t_.keys_sums, " -> ", tile, " ", sums);
        if (t_.keys_tile % t_.keys_sums != 0) s_.Step("pad ", block);
        const auto [vector, lane] = SplitRows(row);
        s_.Run("reorder " + tile + depth + " " + sums + " " + vector + " " + lane);
        s_.Step("unroll ", sums).Step("unroll ", vector);
        s_.Step("split_init ", block, depth.substr(0, depth.find(' ', 1)), " -> ", s_.Fresh(block + "_init"));
      } else if (s.name == chain_.sum) {
        // tiles of features, keys, features, rows
        const std::string tile = all[all.size() - 4], sums = all[all.size() - 3];
        const auto [vector, lane] = SplitRows(all[all.size() - 2]);
        s_.Run("reorder " + tile + " " + all.back() + " " + sums + " " + vector + " " + lane);
        s_.Step("unroll ", sums).Step("unroll ", vector);
      } else if (s.IsReduction()) {
        const auto [vector, lane] = SplitRows(all[all.size() - 2]);
        s_.Run("reorder " + all.back() + " " + vector + " " + lane);
        s_.Step("unroll ", vector);
      } else {
        SplitRows(all.back());
      }
    }
    for (const std::string& block : keys_.MadeBlocks(s_, "local align 64")) {
      const std::vector<std::string> all = s_.LoopsAround(block);
      RET_CHECK(!all.empty(), block);
      SplitRows(all.back());
    }
    return s_.status();
  }

  std::pair<std::string, std::string> SplitRows(const std::string& loop) {
    const std::string vector = s_.Fresh("iv"), lane = s_.Fresh("il");
    s_.Step("split ", loop, " ", t_.lanes, " -> ", vector, " ", lane).Step("vectorize ", lane);
    return {vector, lane};
  }

  ChainPlan& t_;
  const Chain& chain_;
  Schedule& s_;
  std::string feature_tiles_;  // the loop over them
  KeyLoop keys_;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeChainCpu(const TeProgram& group, const Target& target, Until until,
                                                Point& point) {
  StatusOr<std::optional<ChainPlan>> plan = PlanChain(group, target, point);
  // Whether the group is such a chain the steps know best; its parts have tactics of their own.
  if (!plan.ok() || !*plan) return std::vector<Proposal>();
  ChainPlan& p = **plan;
  Loops loops(p);
  if (!loops.Run().ok()) return std::vector<Proposal>();
  const double seconds = p.seconds - p.keys_seconds * (1 - loops.ShareOfKeys());
  if (until == Until::kPrice) return std::vector<Proposal>{{"chain_cpu", {}, "", seconds}};
  return std::vector<Proposal>{{"chain_cpu", p.schedule.func(), p.schedule.text(), seconds}};
}

}  // namespace cinn_like::hlir
