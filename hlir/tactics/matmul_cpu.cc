// Contractions on a CPU: register tiles of rows x lanes. Each thread takes tiles; a tile's accumulators stay in vector
// registers over the whole reduction, whose operands are one row element broadcast and one run of lanes. Either operand
// can be the lanes': the one along which the results lie, unless the other is cheaper. What is read under a mask (the
// padding of a convolution), whose lanes are not contiguous (its strides, a transposed matrix) or whose rows lie far
// apart is first packed into a panel (hlir/panels.h) that all row tiles share: the operand's expression over a tile of
// lanes. The epilogue, of one result or of several, runs over the finished tile while it is in L1.
// Either operand may be computed of what is read (weights of integers, scaled): a panel holds what is multiplied; rows
// are written so once, ahead of the tiles. Of bf16 and 8-bit integers, where the machine sums a few products in one
// instruction, panels hold groups for it (contraction_dots.h).
//   C[i, j] += A[i, k] * B[k, j]:   tile rows 4..14, two vectors wide (measured: docs/performance.md)
//   y[o, p] += w[o, k] * x[window of p at k; inside]:   rows o, lanes p, panel[k, p] for 32 places p at a time
#include <algorithm>
#include <utility>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/contraction_plan.h"
#include "hlir/tactics/contraction_rows.h"
#include "hlir/tactics/contraction_sides.h"
#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/tactics.h"
#include "ir/schedule/schedule.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

// The steps on loops.
class Loops {
 public:
  explicit Loops(ContractionPlan& plan)
      : t_(plan),
        s_(plan.schedule),
        acc_(plan.flat.group.stages[0]),
        sums_(acc_.outputs[0]->name),
        sum_block_("b_" + acc_.name),
        is_deep_(plan.depth.outer > 0) {}

  Status Run() {
    Tile();
    CopyRows(t_);
    if (is_deep_) {
      SumPanels();
    } else {
      // A thread has a tile and a panel of its own; what a matrix unit sums comes to be in memory, there is no copy.
      const bool copies = !t_.dots || !t_.dots->tiles;
      if (copies) CopySums();
      s_.Step("scope ", sums_, copies ? " local" : " local align 64").Step("compute_at ", sum_block_, " ", at_);
      const std::vector<std::string> of_totals = FindTotals();
      if (t_.pack) Pack("p");
      if (t_.padded) CopyPadded();
      SumTotals(of_totals);
      SumTile();
      for (const std::string& tile : tiles_) CopyTile(tile);
    }
    // Two vectors of 32-bit sums are one of 16-bit results.
    if (has_columns_) Vectorize("ji", "o", t_.tile.vectors % 2 == 0 ? 2 : 1);
    return s_.status();
  }

 private:
  // Of the results: tasks over blocks of rows, which stay near, and panels; in them tiles.
  void Tile() {
    // Its loops, where the extent is not 1.
    const Stage& first = FirstResult(t_.flat.group);
    std::vector<std::string> names = s_.LoopsAround("b_" + first.name), inner;
    for (size_t k = 0; k < t_.flat.results; ++k) {
      const Stage& out = t_.flat.result(k);
      if (!IsParam(t_.flat.group, out.outputs[0])) {
        inner.push_back(out.name);
      } else if (out.name != first.name) {
        const std::vector<std::string> others = s_.LoopsAround("b_" + out.name);
        for (size_t d = 0; d < std::min(names.size(), others.size()); ++d) s_.Step("merge ", names[d], " ", others[d]);
      }
    }
    size_t next = 0;
    auto take = [&](Expr extent) { return IsInt(extent, 1) ? std::string() : names[next++]; };
    const std::string lb = take(t_.flat.b), li = take(t_.flat.i), lj = take(t_.flat.j);
    std::vector<std::string> shared, inside, point;
    if (!lb.empty()) shared.push_back(lb);
    has_columns_ = !lj.empty();
    if (has_columns_) {
      s_.Step("split ", lj, " ", t_.tile.width(), " -> jo ji");
      (t_.padded ? inside : shared).push_back("jo");
    }
    has_rows_ = !li.empty();
    if (has_rows_) {
      const bool blocks = (t_.pack || t_.padded) && t_.row_block > 0;
      if (blocks) shared.insert(shared.end() - (has_columns_ && !t_.padded ? 1 : 0), "ib");
      // A loop over tiles, unless a task is one of them.
      const bool tiles = !is_deep_ && !(blocks && t_.row_block == t_.rows);
      if (blocks && tiles) {
        s_.Step("split ", li, " ", t_.row_block / t_.rows, " ", t_.rows, " -> ib io ii");
      } else if (blocks) {
        s_.Step("split ", li, " ", t_.row_block, " -> ib ii");
      } else if (tiles) {
        s_.Step("split ", li, " ", t_.rows, " -> io ii");
      }
      if (tiles) (t_.pack || t_.padded ? inside : shared).push_back("io");
      point.push_back(is_deep_ && !blocks ? li : "ii");
    }
    if (has_columns_) point.push_back("ji");
    std::string order = "reorder", fuse = "fuse";
    for (const auto* list : {&shared, &inside, &point}) {
      for (const std::string& l : *list) order += " " + l;
    }
    for (const std::string& l : shared) fuse += " " + l;
    s_.Run(order).Run(fuse + " -> p").Run("parallel p");
    at_ = inside.empty() ? "p" : inside.back();
    // What only other results are computed of, a row of the tile at a time.
    const std::string row = point.size() > 1 ? point[0] : at_;
    while (!inner.empty()) {
      const std::string block = "b_" + inner.back();
      s_.Step("scope ", StageNamed(t_.flat.group.stages, inner.back()).outputs[0]->name, " local");
      s_.Step("compute_at ", block, " ", row);
      const std::vector<std::string> loops = Inside(row, block);
      if (has_columns_ && !loops.empty()) Vectorize(loops.back(), "i");
      inner.pop_back();
    }
  }

  // The loops around a block that are inside `loop`. After a step that is refused they may be others: there is no
  // schedule then.
  std::vector<std::string> Inside(const std::string& loop, const std::string& block) {
    std::vector<std::string> v = s_.LoopsAround(block);
    auto it = std::find(v.begin(), v.end(), loop);
    return {it == v.end() ? it : it + 1, v.end()};
  }

  // Lanes become vectors, `together` of the sums' in one; the loop over these.
  std::string Vectorize(const std::string& loop, const std::string& base, int64_t together = 1) {
    if (t_.tile.lanes == 1) return loop;
    const std::string vector = s_.Fresh(base + "v"), lane = s_.Fresh(base + "l");
    s_.Step("split ", loop, " ", together * t_.tile.lanes, " -> ", vector, " ", lane).Step("vectorize ", lane);
    return vector;
  }

  // A panel is computed in `loop`, before what reads it, which computes beyond bounds only what it finds there.
  void Pack(const std::string& loop) {
    s_.Run("scope panel local align 64").Step("compute_at b_panel ", loop);
    const std::vector<std::string> v = Inside(loop, "b_panel");
    if (!s_.status().ok()) return;
    const Expr read = t_.flat.of_lanes;
    if (t_.dots) return PackGroups(v);
    if (t_.across) return PackAcross(v);
    if (!v.empty() && has_columns_) {
      const std::string vector = Vectorize(v.back(), "p");
      // What a lane asks about its place it asks once: loops that the condition depends on are outside.
      if (read->has_mask || !t_.contiguous) {
        std::vector<std::string> outer = {vector}, rest;
        size_t k = 0;
        for (size_t d = 0; d < acc_.reduce_iters.size() && k + 1 < v.size(); ++d) {
          const StageIter& i = acc_.reduce_iters[d];
          if (IsInt(i.extent, 1) || !t_.IsInPanel(d)) continue;
          (read->has_mask && Uses(MaskOf(read), i.var) ? outer : rest).push_back(v[k++]);
        }
        if (t_.tile.lanes > 1) rest.push_back(s_.LoopsAround("b_panel").back());
        ReorderLoops(s_, {outer, rest});
      }
    }
    // Lanes run over; so do steps of the reduction, but for those whose end is a symbol.
    s_.Step("pad b_panel", t_.panel_lanes.empty() ? "" : " ", t_.panel_lanes);
  }

  // An image with zeros around it, or rows of it, before the tiles that read it.
  void CopyPadded() {
    s_.Run("scope padded local align 64").Step("compute_at b_padded p");
    const std::vector<std::string> v = Inside("p", "b_padded");
    if (s_.status().ok() && !v.empty()) Vectorize(v.back(), "c");
    s_.Run("pad b_padded");
  }

  // The same of an operand that lies along a step of the reduction: matrices change places in registers.
  void PackAcross(const std::vector<std::string>& v) {
    std::vector<std::string> steps(v.begin(), v.end() - 1);
    const std::string along = steps[StepOf(*t_.across)];
    std::erase(steps, along);
    s_.Step("split ", v.back(), " ", t_.tile.lanes, " -> pv pl");
    s_.Step("split ", along, " ", ColumnsOfPanel(*t_.across), " -> pk pc");
    ReorderLoops(s_, {{"pv"}, steps, {"pk", "pc", "pl"}});
    if (t_.has_raw) Turn("b_raw", "raw", "pk");
    s_.Run("pad b_panel");
    if (s_.status().ok() && (t_.has_raw || !s_.Try("tensorize pc transpose"))) s_.Run("vectorize pl");
    if (!t_.has_lines) return;
    // What a lane asks about its place it asks once for all of them.
    s_.Run("scope lines local align 64").Step("compute_at b_lines ", steps.empty() ? "pv" : steps.back());
    const std::vector<std::string> around = s_.LoopsAround("b_lines");
    if (s_.status().ok()) Vectorize(around.back(), "c");
  }

  // Matrices of `buffer` change places, each in `loop`; the first of its loops is along a step of the reduction.
  void Turn(const std::string& block, const std::string& buffer, const std::string& loop) {
    s_.Step("scope ", buffer, " local align 64").Step("compute_at ", block, " ", loop);
    const std::vector<std::string> v = Inside(loop, block);
    s_.Step("pad ", block);
    if (s_.status().ok() && !v.empty()) s_.Try(Cat("tensorize ", v[0], " transpose"));
  }

  // A panel of groups, from loops `v`: the last two are the lanes and a group's members.
  void PackGroups(const std::vector<std::string>& v) {
    using Lanes = DotProduct::Lanes;
    // Those of the stage `lanes` lie along the lanes.
    const Lanes lies = t_.has_lanes ? Lanes::kAlongLanes : t_.dots->lanes;
    const std::string member = v.back();
    const int64_t lanes = t_.tile.lanes;
    std::vector<std::string> outer, steps(v.begin(), v.end() - 2), inner;
    std::string nest;
    if (lies == Lanes::kAlongLanes) {
      s_.Step("split ", v[v.size() - 2], " ", lanes, " -> pv pl");
      outer = {"pv"}, inner = {"pl", member}, nest = "pl";
      if (t_.has_raw) {
        const std::string along = steps[StepOf(t_.dots->at)];
        std::erase(steps, along);
        s_.Step("split ", along, " ", ColumnsOfPanel(t_.dots->at), " -> pk pc");
        steps.insert(steps.end(), {"pk", "pc"});
      }
    } else if (const int64_t columns = ColumnsOfPanel(t_.dots->at);
               lies == Lanes::kAlongGroups && columns > 1 && lanes <= 16) {
      s_.Step("split ", v[v.size() - 2], " ", lanes, " -> pv pl");
      // The loops of the panel's steps are those of the reduction that do not move, without a group's.
      const std::string along = steps[StepOf(t_.dots->at)];
      std::erase(steps, along);
      s_.Step("split ", along, " ", columns, " -> pk pc");
      outer = {"pv"}, inner = {"pk", "pc", "pl", member}, nest = "pc";
    } else {
      inner = {v[v.size() - 2], member};
    }
    // What a lane asks about its place it asks once.
    if (const Expr mask = MaskOf(t_.flat.of_lanes); mask != nullptr && steps.size() > 1) {
      size_t k = 0;
      std::vector<std::string> asked, rest;
      for (const size_t d : t_.order) {
        const StageIter& i = acc_.reduce_iters[d];
        if (IsInt(i.extent, 1) || !t_.IsInPanel(d) || d == t_.dots->at + 1) continue;
        (Uses(mask, i.var) ? asked : rest).push_back(steps[k++]);
      }
      asked.insert(asked.end(), rest.begin(), rest.end());
      steps = asked;
    }
    ReorderLoops(s_, {outer, steps, inner});
    if (t_.has_lanes) {
      s_.Run("scope lanes local align 64").Step("compute_at b_lanes ", steps.empty() ? "pv" : steps.back());
      const std::vector<std::string> around = s_.LoopsAround("b_lanes");
      if (s_.status().ok() && t_.tile.lanes > 1) s_.Step("vectorize ", around.back());
      if (s_.status().ok()) s_.Step("unroll ", around[around.size() - 2]);
    }
    if (t_.has_raw) {
      Turn("b_raw", "raw", "pk");
      s_.Run("pad b_lanes");
    }
    s_.Run("pad b_panel");
    // Else one by one.
    if (s_.status().ok() && !nest.empty()) s_.Try(Cat("tensorize ", nest, " transpose"));
  }

  // The loop of the reduction's iterator `at` among those of a panel.
  size_t StepOf(size_t at) const {
    size_t r = 0;
    for (size_t k = 0; t_.order[k] != at; ++k)
      r += t_.IsInPanel(t_.order[k]) && !IsInt(acc_.reduce_iters[t_.order[k]].extent, 1) ? 1 : 0;
    return r;
  }
  // Of the matrices that change places on their way to a panel: steps of iterator `at`, as many as fit a vector and
  // leave no rest.
  int64_t ColumnsOfPanel(size_t at) const {
    if (!t_.IsInPanel(at)) return 1;
    const bool is_part = t_.IsInPart(at);
    const Expr extent = acc_.reduce_iters[at].extent;
    const int64_t steps = is_part ? t_.depth.factor : IsInt(extent) ? extent->int_value : 1;
    int64_t r = t_.tile.lanes;
    while (steps % r != 0) r /= 2;
    return r;
  }

  // All of the reduction, a tile at a time.
  void SumTile() {
    const std::vector<std::string> v = Inside(at_, sum_block_);
    if (!s_.status().ok()) return;
    std::vector<std::string> tile, steps;
    for (size_t k = 0; k < v.size(); ++k) (k < CountTileLoops() ? tile : steps).push_back(v[k]);
    if (t_.dots) {
      size_t at = 0;
      for (size_t d = 0; d <= t_.dots->at; ++d) at += IsInt(acc_.reduce_iters[d].extent, 1) ? 0 : 1;
      const auto take = [&](size_t k) {
        const std::string loop = steps[k];
        steps.erase(steps.begin() + static_cast<ptrdiff_t>(k));
        return loop;
      };
      members_ = {take(at)};
      if (t_.dots->tiles) {
        members_.insert(members_.begin(), take(at - 1));
        steps.push_back(take(at - 2));
      }
    }
    std::vector<std::string> taps;
    for (const size_t d : t_.taps) {
      size_t at = 0;
      for (size_t e = 0; e < d; ++e) at += IsInt(acc_.reduce_iters[e].extent, 1) ? 0 : 1;
      taps.push_back(steps[at]);
    }
    // Loops that a guard ends early are outside.
    size_t first = 0, k = 0;
    for (const StageIter& i : acc_.reduce_iters) {
      if (IsInt(i.extent, 1) || t_.dots) continue;
      if (t_.guarding.contains(i.var)) {
        std::rotate(steps.begin() + static_cast<ptrdiff_t>(first), steps.begin() + static_cast<ptrdiff_t>(k),
                    steps.begin() + static_cast<ptrdiff_t>(k) + 1);
        ++first;
      }
      ++k;
    }
    for (const std::string& tap : taps) {
      std::erase(steps, tap);
      steps.push_back(tap);
    }
    ReorderLoops(s_, {steps, tile, members_});
    Multiply(sum_block_, tile, steps.empty() ? "" : steps[0], "b_init");
    for (const std::string& tap : taps) s_.Step("unroll ", tap);
  }

  // Of what the lanes' operand sums to, where that is wanted: loops over the reduction, those first that move from
  // panel to panel.
  std::vector<std::string> FindTotals() {
    if (!t_.dots || !t_.dots->compensated) return {};
    s_.Run("scope totals local align 64").Step("compute_at b_totals p");
    const std::vector<std::string> v = Inside("p", "b_totals");
    std::vector<std::string> panels, steps;
    if (!s_.status().ok()) return panels;
    std::string member;
    size_t k = 1;  // behind the lanes
    for (size_t d = 0; d < acc_.reduce_iters.size(); ++d) {
      if (IsInt(acc_.reduce_iters[d].extent, 1)) continue;
      const std::string loop = v[k++];
      if (d == t_.dots->at + 1) {
        member = loop;
      } else if (t_.IsInPart(d)) {
        s_.Step("split ", loop, " ", t_.depth.factor, " -> so si");
        panels.emplace_back("so");
        steps.emplace_back("si");
      } else {
        (t_.IsInPanel(d) ? steps : panels).push_back(loop);
      }
    }
    ReorderLoops(s_, {panels, steps, {v[0]}, {member}});
    panels.insert(panels.end(), steps.begin(), steps.end());
    return panels;
  }
  // Of what is in a panel by now.
  void SumTotals(const std::vector<std::string>& steps) {
    if (steps.empty() || !s_.status().ok()) return;
    const std::vector<std::string> around = s_.LoopsAround("b_totals");
    Multiply("b_totals", {around[around.size() - 2]}, steps[0], "b_totals_init");
  }

  // A part of the reduction, for all tiles of a block of rows, then the next.
  void SumPanels() {
    s_.Step("scope ", sums_, " local align 64").Step("compute_at ", sum_block_, " p");
    const std::vector<std::string> v = Inside("p", sum_block_);
    if (!s_.status().ok()) return;
    size_t k = 0, of_unit = acc_.reduce_iters.size();
    std::vector<std::string> tile, tiles, panels, steps;
    if (has_rows_ && t_.row_block != 1) {  // a task of one row has no loop over them
      s_.Step("split ", v[k], " ", t_.rows, " -> vo vr");
      tiles = {"vo"}, tile = {"vr"}, ++k;
    }
    if (has_columns_) tile.push_back(v[k++]);
    for (size_t d = 0; d < acc_.reduce_iters.size(); ++d) {
      if (IsInt(acc_.reduce_iters[d].extent, 1)) continue;
      if (t_.dots && t_.dots->tiles && d + 1 == t_.dots->at) of_unit = steps.size();
      if (t_.dots && (d == t_.dots->at + 1 || (t_.dots->tiles && d == t_.dots->at))) {
        members_.push_back(v[k++]);
      } else if (t_.IsInPart(d)) {
        s_.Step("split ", v[k++], " ", t_.depth.factor, " -> ro ri");
        panels.emplace_back("ro");
        steps.emplace_back("ri");
      } else {
        (t_.IsInPanel(d) ? steps : panels).push_back(v[k++]);
      }
    }
    if (of_unit < steps.size()) {
      std::rotate(steps.begin() + static_cast<ptrdiff_t>(of_unit), steps.begin() + static_cast<ptrdiff_t>(of_unit) + 1,
                  steps.end());
    }
    ReorderLoops(s_, {panels, tiles, steps, tile, members_});
    std::vector<std::string> of_totals = FindTotals();
    for (size_t k = 0; k < std::min(panels.size(), of_totals.size()); ++k) {
      s_.Step("merge ", panels[k], " ", of_totals[k]);
      of_totals[k] = panels[k];
    }
    Pack(panels.back());
    SumTotals(of_totals);
    Multiply(sum_block_, tile, panels[0], "b_init");
  }

  size_t CountTileLoops() const { return static_cast<size_t>(has_rows_ && t_.rows > 1) + (has_columns_ ? 1 : 0); }

  // The innermost loops: `tile` in registers; sums start before loop `start`, in the block `init`.
  void Multiply(const std::string& block, std::vector<std::string> tile, const std::string& start,
                const std::string& init) {
    if (t_.dots) return MultiplyGroups(block, tile, start, init);
    if (has_columns_) tile.back() = Vectorize(tile.back(), "a");
    for (const std::string& l : tile) s_.Step("unroll ", l);
    // A block of rows of a number that is a symbol may have fewer tiles.
    const bool may_be_fewer = is_deep_ && has_rows_ && t_.row_block != 1 && !IsInt(t_.flat.i);
    s_.Step("pad ", block, may_be_fewer ? " vo" : "");
    if (start.empty()) return;
    s_.Step("split_init ", block, " ", start, " -> ", init);
    if (t_.is_guarded && !tile.empty()) s_.Step("guard ", block, " ", tile[0]);
  }

  void MultiplyGroups(const std::string& block, std::vector<std::string> tile, const std::string& start,
                      const std::string& init) {
    if (t_.dots->tiles) {
      // The loop around the tile's is that of a unit's steps.
      const std::vector<std::string> v = s_.LoopsAround(block);
      s_.Step("pad ", block).Step("split_init ", block, " ", start, " -> ", init);
      if (!s_.status().ok()) return;
      s_.Step("tensorize ", v[v.size() - members_.size() - tile.size() - 1], " ", Name(t_.dots->kind));
      if (s_.status().ok()) s_.Step("vectorize ", s_.LoopsAround(init).back());
      return;
    }
    const std::string lane = s_.Fresh("al"), vector = s_.Fresh("av");
    s_.Step("split ", tile.back(), " ", t_.tile.lanes, " -> ", vector, " ", lane);
    tile.back() = vector;
    for (const std::string& l : tile) s_.Step("unroll ", l);
    s_.Step("pad ", block).Step("split_init ", block, " ", start, " -> ", init);
    s_.Step("tensorize ", lane, " ", Name(t_.dots->kind));
    const std::vector<std::string> around = s_.LoopsAround(init);
    if (s_.status().ok()) s_.Step("vectorize ", around.back());
  }

  // Of the sums, which registers hold, a tile in memory for each stage that reads them.
  void CopySums() {
    for (size_t k = 0; k < t_.flat.results; ++k) {
      const Stage& out = t_.flat.result(k);
      if (!Contains(InputsOf(out), acc_.outputs[0])) continue;
      const std::string tile = Cat("tile", tiles_.empty() ? "" : std::to_string(tiles_.size() + 1));
      s_.Step("stage ", sums_, " b_", out.name, " -> ", tile).Step("scope ", tile, " local");
      s_.Step("compute_at ", tile, "_copy ", at_);
      tiles_.push_back(tile);
    }
  }

  void CopyTile(const std::string& tile) {
    std::vector<std::string> v = Inside(at_, tile + "_copy");
    if (!s_.status().ok()) return;
    if (has_columns_) v[CountTileLoops() - 1] = Vectorize(v[CountTileLoops() - 1], "t");
    for (size_t k = 0; k < CountTileLoops(); ++k) s_.Step("unroll ", v[k]);
    s_.Step("pad ", tile, "_copy");
  }

  ContractionPlan& t_;
  Schedule& s_;
  const Stage& acc_;
  const std::string sums_, sum_block_;
  const bool is_deep_;
  std::string at_;                         // the loop around a tile
  std::vector<std::string> tiles_ = {};    // copies of its sums
  std::vector<std::string> members_ = {};  // loops inside of all, if sums are of groups
  bool has_rows_ = false, has_columns_ = false;
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeMatmulCpu(const TeProgram& original, const Target& target, Until until,
                                                 Point& point) {
  ASSIGN_OR_RETURN(std::optional<ContractionPlan> plan, PlanContraction(original, target, point));
  if (!plan) return std::vector<Proposal>();
  if (until == Until::kPrice) return std::vector<Proposal>{{"matmul_cpu", {}, "", plan->seconds}};
  Status scheduled = Loops(*plan).Run();
  if (!scheduled.ok() && plan->in_phases) {
    // That tiles which reach beyond a few digits write nothing twice is more than steps can prove.
    Point whole;
    ASSIGN_OR_RETURN(plan, PlanContraction(original, target, whole, false));
    RET_CHECK(plan.has_value(), original.name);
    scheduled = Loops(*plan).Run();
  }
  RETURN_IF_ERROR(scheduled);
  return std::vector<Proposal>{{"matmul_cpu", plan->schedule.func(), plan->schedule.text(), plan->seconds}};
}

}  // namespace cinn_like::hlir
