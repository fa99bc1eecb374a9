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
#include "hlir/tactics/chain_plan.h"
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
  explicit Loops(ChainPlan& plan) : t_(plan), s_(plan.schedule) {}

  Status Run() {
    Tile();
    RETURN_IF_ERROR(s_.status());
    Chain();
    RETURN_IF_ERROR(s_.status());
    return Vectorize();
  }

  // Of all tiles of keys those that are computed, on the average: those behind which a mask leaves nothing are not.
  double ShareOfKeys() const {
    constexpr int kSamples = 64;
    if (chain_.empty()) return 1;
    const Func& f = s_.func();
    Context& c = *f.context;
    const StatusOr<StmtPath> path = FindLoop(f, keys_loop_);
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
    const double all = std::ceil(TypicalSize(t_.keys, f.symbols) / static_cast<double>(t_.keys_tile));
    return std::min(1.0, sum / kSamples / all);
  }

 private:
  // Tasks are tiles of rows; all that a task needs is computed in it, in memory of its own.
  void Tile() {
    const Stage out = t_.StageOf(t_.last.back());
    const std::vector<std::string> names = s_.LoopsAround("b_" + out.name);
    std::string fuse = "fuse", order = "reorder", inner, rows;
    size_t next = 0;
    for (const StageIter& i : out.iters) {
      if (IsInt(i.extent, 1) || next == names.size()) continue;
      const std::string& loop = names[next++];
      const auto role = t_.RoleOf(i.var);
      if (role == Role::kBatch) {
        order += " " + loop, fuse += " " + loop;
      } else if (role == Role::kRow) {
        rows += " " + loop;
      } else {
        inner = loop;
      }
    }
    s_.Run(order + rows + " " + inner).Run("fuse" + rows + " -> ir");
    s_.Step("split ir ", t_.lanes * t_.vectors, " -> io ii").Run(fuse + " io -> p").Run("parallel p");
    for (size_t k = 0; k + 1 < t_.last.size(); ++k) s_.Step("inline b_", t_.last[k]);
    for (size_t k = t_.inner.size(); k-- > 0;) {
      s_.Step("scope ", t_.StageOf(t_.inner[k]).outputs[0]->name, " local align 64");
      s_.Step("compute_at b_", t_.inner[k], " p");
    }
    for (const std::string& name : t_.inner) {
      if (name == t_.sum) {
        const std::vector<std::pair<Role, std::string>> loops = LoopsOf(t_.StageOf(name));
        feature_tiles_ = s_.Fresh("do");
        s_.Step("split ", loops[0].second, " ", t_.features_tile, " -> ", feature_tiles_, " ", s_.Fresh("di"));
      }
      s_.Step("pad b_", name);
    }
    s_.Step("split ", inner, " ", t_.lanes, " -> ov ol").Run("vectorize ol");
  }

  // The loops in a task around a stage's block, by what they run over: those of its iterators, in order.
  std::vector<std::pair<Role, std::string>> LoopsOf(const Stage& s) {
    std::vector<std::pair<Role, std::string>> r;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) {
        const auto role = t_.RoleOf(i.var);
        if (!IsInt(i.extent, 1) && role && role != Role::kBatch) r.push_back({*role, ""});
      }
    }
    const std::vector<std::string> names = s_.LoopsAround("b_" + s.name);
    for (size_t k = 0; k < r.size() && k < names.size(); ++k) r[r.size() - 1 - k].second = names[names.size() - 1 - k];
    return r;
  }

  // Keys, a tile at a time, are the outermost loop of each stage; these become one.
  void Chain() {
    std::string loops;
    bool needs = false;
    // In the order in which they stand.
    std::vector<const Stage*> order_of_blocks;
    for (const StmtPath& path : FindBlocks(s_.func())) {
      for (const std::string& name : t_.inner) {
        if (As<Block>(path.back())->name == "b_" + name) order_of_blocks.push_back(&t_.StageOf(name));
      }
    }
    for (const Stage* stage : order_of_blocks) {
      const Stage& s = *stage;
      const std::string block = "b_" + s.name;
      std::string order = s.name == t_.sum ? " " + feature_tiles_ : "", outer;
      for (const auto& [role, loop] : LoopsOf(s)) {
        if (role == Role::kKey) {
          outer = s_.Fresh("jo");
          const std::string inner = s_.Fresh("ji");
          s_.Step("split ", loop, " ", t_.keys_tile, " -> ", outer, " ", inner);
          order += " " + inner;
        } else {
          order += " " + loop;
        }
      }
      if (outer.empty()) continue;
      s_.Run("reorder " + outer + order);
      loops += " " + outer;
      if (s.IsReduction() && s.name != t_.scores) {
        inits_.push_back(s_.Fresh(block + "_init"));
        s_.Step("split_init ", block, " ", outer, " -> ", inits_.back());
        needs = needs || s.values[0]->op == ExprOp::kMax;
        sums_.push_back(s.outputs[0]->name);
      } else {
        s_.Step("pad ", block);
      }
    }
    const bool once = IsInt(t_.keys) && t_.keys->int_value <= t_.keys_tile;
    if (!needs || once) {
      s_.Run("merge" + loops);
      return;
    }
    chain_ = s_.Fresh("by");
    keys_loop_ = loops.substr(1, loops.find(' ', 1) - 1);
    s_.Run("chain" + loops + " -> " + chain_);
  }

  // Rows are the innermost loop around every block, and vectors.
  Status Vectorize() {
    for (const std::string& name : t_.inner) {
      RETURN_IF_ERROR(s_.status());
      const Stage& s = t_.StageOf(name);
      const std::string block = "b_" + name;
      std::string row;
      const std::vector<std::string> all = s_.LoopsAround(block);
      const size_t least = s.name == t_.sum || s.name == t_.scores ? 4 : 2;
      RET_CHECK(all.size() >= least, block);
      if (s.name == t_.scores) {
        const std::vector<std::pair<Role, std::string>> loops = LoopsOf(s);
        std::string depth;
        for (const auto& [role, loop] : loops) {
          if (role == Role::kRow) row = loop;
          if (role == Role::kDepth) depth += " " + loop;
        }
        const std::string tile = s_.Fresh("jt"), sums = s_.Fresh("js");
        s_.Step("split ", loops[0].second, " ", t_.keys_sums, " -> ", tile, " ", sums);
        if (t_.keys_tile % t_.keys_sums != 0) s_.Step("pad ", block);
        const auto [vector, lane] = SplitRows(row);
        s_.Run("reorder " + tile + depth + " " + sums + " " + vector + " " + lane);
        s_.Step("unroll ", sums).Step("unroll ", vector);
        s_.Step("split_init ", block, depth.substr(0, depth.find(' ', 1)), " -> ", s_.Fresh(block + "_init"));
      } else if (s.name == t_.sum) {
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
    std::vector<std::string> made = inits_;
    if (!chain_.empty()) {
      made.push_back(Cat("b_", chain_));
      made.push_back(Cat("b_", chain_, "_old"));
      s_.Step("scope ", chain_, " local align 64").Step("scope ", chain_, "_old local align 64");
      for (const std::string& sum : sums_) {
        if (!s_.LoopsAround(Cat("b_", chain_, "_", sum)).empty()) made.push_back(Cat("b_", chain_, "_", sum));
      }
    }
    for (const std::string& block : made) {
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
  Schedule& s_;
  std::vector<std::string> inits_, sums_;  // blocks that start reductions over keys, and these reductions' results
  std::string feature_tiles_;              // the loop over them
  std::string chain_;                      // the name that the step `chain` gives what it makes
  std::string keys_loop_;                  // over tiles of keys, chained
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeChainCpu(const TeProgram& group, const Target& target, Until until) {
  StatusOr<std::optional<ChainPlan>> plan = PlanChain(group, target);
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
