// Chains of reductions between two contractions (hlir/tactics/chain_roles.h) on a GPU with matrix units: a block takes
// a tile of rows, each of its warps 32 of them, and goes along the keys a tile at a time. Scores, what is computed from
// them and the sums so far stay in registers, in the order that the matrix units give (ir/mma.h); the second product
// takes its left operand from there. Keys' operands are fetched a tile ahead.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/chain_gpu_plan.h"
#include "hlir/tactics/chain_steps.h"
#include "hlir/tactics/gpu_tiles.h"
#include "hlir/tactics/tactics.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Role = ChainRole;

// The steps on loops.
class Loops {
 public:
  explicit Loops(ChainGpuPlan& plan) : t_(plan), chain_(plan.chain), s_(plan.schedule) {}

  Status Run() {
    Tile();
    RETURN_IF_ERROR(s_.status());
    keys_ = ChainKeys(s_, chain_, t_.tiles.keys, "");
    s_.Run("bind p blockIdx.x");
    RETURN_IF_ERROR(s_.status());
    return BindAll();
  }

 private:
  // Blocks take tiles of rows; all that a block needs is computed in it, in memory of its own.
  void Tile() {
    columns_ = TileRows(s_, chain_, t_.tiles.Rows());
    // Each goes in front of its first reader; the second contraction comes behind the other sums, so that its operand's
    // registers are free by then.
    std::vector<std::string> order_of_moves;
    for (const bool read : {false, true}) {
      for (size_t k = chain_.inner.size(); k-- > 0;) {
        const std::string& name = chain_.inner[k];
        if ((name == chain_.sum || IsRead(name)) == read) order_of_moves.push_back(name);
      }
    }
    for (const std::string& name : order_of_moves) {
      const bool panel = t_.IsPanel(name);
      s_.Step("scope ", chain_.StageOf(name).outputs[0]->name, panel ? " shared align " : " local align ",
              kAccessBytes);
      if (panel && name != t_.weights.name && !t_.tiles.wgmma)
        s_.Step("storage_align ", chain_.StageOf(name).outputs[0]->name, " ", kRowFactor, " ", kRowOffset);
      s_.Step("compute_at b_", name, " p");
    }
    for (const std::string& name : chain_.inner) {
      for (const auto& [loop, role] : LoopsByRole(s_, chain_, chain_.StageOf(name))) {
        if (role != Role::kFeature || IsInt(chain_.features, t_.features)) continue;
        // A whole number of the matrix units' tiles.
        const std::string once = s_.Fresh("once"), all = s_.Fresh("d");
        s_.Step("split ", loop, " ", t_.features, " -> ", once, " ", all);
        s_.Step("fuse ", once, " ", all, " -> ", s_.Fresh("dd"));
      }
      s_.Step("pad b_", name);
    }
  }

  // By an inner stage.
  bool IsRead(const std::string& name) const {
    const Buffer result = chain_.StageOf(name).outputs[0];
    return std::any_of(chain_.inner.begin(), chain_.inner.end(), [&](const std::string& s) {
      return s != name && Contains(InputsOf(chain_.StageOf(s)), result);
    });
  }

  // Rows, the innermost loops but the columns' where there are such: warps, tiles of 16, halves of these, threads; of
  // four warps no tiles, and threads in two digits.
  struct RowLoops {
    std::string v, i, h, y, q;
    std::string Threads() const { return v + (q.empty() ? " " : " " + q + " ") + y; }
    std::string Tiles() const { return (i.empty() ? "" : i + " ") + h; }
  };
  RowLoops SplitRows(const std::string& loop) {
    RowLoops r{s_.Fresh("v"), "", s_.Fresh("h"), s_.Fresh("y"), ""};
    if (t_.tiles.wgmma) {
      r.q = s_.Fresh("q");
      s_.Step("split ", loop, " 4 2 ", kWarpRows, " -> ", r.v, " ", r.q, " ", r.h, " ", r.y);
    } else {
      r.i = s_.Fresh("i");
      s_.Step("split ", loop, " ", t_.tiles.RowsEach() / 16, " 2 ", kWarpRows, " -> ", r.v, " ", r.i, " ", r.h, " ",
              r.y);
    }
    return r;
  }
  struct ColumnLoops {
    std::string j, x, l;
  };
  ColumnLoops SplitColumns(const std::string& loop) {
    const ColumnLoops r{s_.Fresh("j"), s_.Fresh("x"), s_.Fresh("l")};
    s_.Step("split ", loop, " ", kWarpColumns, " 2 -> ", r.j, " ", r.x, " ", r.l);
    return r;
  }
  void BindRows(const RowLoops& r, bool unroll = true) {
    std::string y = r.y;
    if (!r.q.empty()) {
      y = s_.Fresh("y");
      s_.Step("fuse ", r.q, " ", r.y, " -> ", y);
    }
    s_.Step("bind ", r.v, " threadIdx.z").Step("bind ", y, " threadIdx.y");
    if (!unroll) return;
    if (!r.i.empty()) s_.Step("unroll ", r.i);
    s_.Step("unroll ", r.h);
  }

  // One value for each row and column.
  void BindWide(const std::string& rows, const std::string& columns, bool vectorize) {
    const RowLoops r = SplitRows(rows);
    const ColumnLoops c = SplitColumns(columns);
    s_.Step("reorder ", r.Threads(), " ", c.x, " ", r.Tiles(), " ", c.j, " ", c.l);
    BindRows(r);
    s_.Step("bind ", c.x, " threadIdx.x").Step("unroll ", c.j);
    s_.Step(vectorize ? "vectorize " : "unroll ", c.l);
  }
  // One value for each row; of a reduction over columns all of a row's threads have it.
  void BindRow(const std::string& rows, const std::string& columns = "") {
    const RowLoops r = SplitRows(rows);
    if (columns.empty()) {
      s_.Step("reorder ", r.Threads(), " ", r.Tiles());
    } else {
      const ColumnLoops c = SplitColumns(columns);
      s_.Step("reorder ", r.Threads(), " ", r.Tiles(), " ", c.x, " ", c.j, " ", c.l);
      s_.Step("bind ", c.x, " threadIdx.x").Step("unroll ", c.j).Step("unroll ", c.l);
    }
    BindRows(r);
  }

  Status BindAll() {
    for (const std::string& name : chain_.inner) {
      RETURN_IF_ERROR(s_.status());
      const Stage& s = chain_.StageOf(name);
      const std::string block = "b_" + name;
      const std::vector<std::string> all = s_.LoopsAround(block);
      if (t_.IsPanel(name) && name != t_.weights.name) {
        for (const ChainPanel* panel : {&t_.lhs, &t_.rhs, &t_.values}) {
          if (name != panel->name) continue;
          const bool is_ahead = panel != &t_.lhs;
          if (is_ahead && t_.tensor_copies &&
              s_.Try(Cat("tensorize ", all[all.size() - 2], " ", Name(ForKind::kTensorCopy))))
            continue;
          FillByThreads(s_, name, {all[all.size() - 2], all.back()}, panel->vector,
                        {{'z', t_.tiles.warps}, {'y', t_.tiles.ThreadRows()}, {'x', kWarpColumns}});
        }
      } else if (name == chain_.scores || name == chain_.sum) {
        Multiply(block, all[all.size() - 3], all[all.size() - 2], all.back());
      } else if (s.IsReduction()) {
        BindRow(all[all.size() - 2], all.back());
      } else if (chain_.IterOf(s, Role::kKey) != nullptr) {
        BindWide(all[all.size() - 2], all.back(), true);
      } else {
        BindRow(all.back());
      }
    }
    const std::string sum = chain_.StageOf(chain_.sum).outputs[0]->name;
    for (const std::string& block : keys_.MadeBlocks(s_, Cat("local align ", kAccessBytes))) {
      RETURN_IF_ERROR(s_.status());
      const std::vector<std::string> all = s_.LoopsAround(block);
      RET_CHECK(!all.empty(), block);
      const bool wide = block == Cat("b_", keys_.by, "_", sum) || block == Cat("b_", chain_.sum, "_init");
      if (wide) {
        BindWide(all[all.size() - 2], all.back(), false);
      } else {
        BindRow(all.back());
      }
    }
    BindWide("ii", columns_, true);
    if (!IsInt(chain_.keys) || chain_.keys->int_value > t_.tiles.keys)
      s_.Step("pipeline ", keys_.loop, " ", ChainGpuPlan::kStages);
    return s_.status();
  }

  void Multiply(const std::string& block, const std::string& rows, const std::string& columns,
                const std::string& steps) {
    const RowLoops r = SplitRows(rows);
    const ColumnLoops c = SplitColumns(columns);
    const std::string kk = s_.Fresh("kk"), ke = s_.Fresh("ke");
    s_.Step("split ", steps, " ", kMmaDepth, " -> ", kk, " ", ke);
    s_.Step("reorder ", r.Threads(), " ", c.x, " ", kk, " ", r.i, r.i.empty() ? "" : " ", c.j, " ", r.h, " ", c.l, " ",
            ke);
    BindRows(r, false);
    s_.Step("bind ", c.x, " threadIdx.x");
    const bool starts = block == "b_" + chain_.scores;
    const std::string start = starts ? s_.Fresh(block + "_init") : "";
    if (starts) s_.Step("split_init ", block, " ", kk, " -> ", start);
    s_.Run(r.i.empty() ? Cat("tensorize ", c.j, " wgmma_m64k16") : Cat("tensorize ", r.i, " mma_m16n8k16"));
    s_.Step("unroll ", kk);
    if (!starts) return;
    // It stands in the same threads.
    const std::vector<std::string> all = s_.LoopsAround(start);
    for (size_t k = all.size() - std::min<size_t>(all.size(), r.i.empty() ? 3 : 4); k < all.size(); ++k)
      s_.Step("unroll ", all[k]);
  }

  ChainGpuPlan& t_;
  const Chain& chain_;
  Schedule& s_;
  std::string columns_;  // the loop over the result's features
  KeyLoop keys_;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeChainGpu(const TeProgram& group, const Target& target, Until until,
                                                Point& point) {
  StatusOr<std::optional<ChainGpuPlan>> plan = PlanChainGpu(group, target, point);
  // Whether the group is such a chain the steps know best; its parts have tactics of their own.
  if (!plan.ok() || !*plan) return std::vector<Proposal>();
  ChainGpuPlan& p = **plan;
  if (!Loops(p).Run().ok()) return std::vector<Proposal>();
  if (until == Until::kPrice) return std::vector<Proposal>{{"chain_gpu", {}, "", p.seconds}};
  return std::vector<Proposal>{{"chain_gpu", p.schedule.func(), p.schedule.text(), p.seconds}};
}

}  // namespace cinn_like::hlir
