#include "hlir/tactics/contraction_rows.h"

#include <cstddef>
#include <string>
#include <vector>

#include "hlir/tactics/contraction_sides.h"
#include "hlir/tactics/row_nests.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

class Rows {
 public:
  explicit Rows(ContractionPlan& plan) : t_(plan), s_(plan.schedule) {}

  void Copy() {
    std::vector<std::string> v = s_.LoopsAround("b_rows");
    if (!s_.status().ok() || v.empty()) return;
    const size_t batch = t_.in_batch && !IsInt(t_.flat.b, 1) ? 1 : 0;
    if (t_.in_tiles) {
      // Runs of a row's reduction are read once: what a tile holds of it is inside, and so are phases.
      const size_t n = v.size();
      s_.Step("fuse ", v[n - 2], " ", v[n - 1], " -> rr");
      const std::string row = v[n - 3], step = v[n - 4];
      std::string fuse = "fuse";
      for (size_t k = batch; k + 4 < n; ++k) fuse += " " + v[k];
      const bool has_taps = n > batch + 4;
      if (has_taps) s_.Run(fuse + " -> rt");
      v.resize(batch);
      std::vector<std::string> inner = {"rr"};
      if (has_taps) inner.insert(inner.begin(), "rt");
      ReorderLoops(s_, {t_.in_phases ? std::vector{row, step} : v, t_.in_phases ? v : std::vector{row, step}, inner});
      if (s_.status().ok() && !(has_taps && s_.Try("tensorize rt transpose"))) s_.Run("vectorize rr");
      if (t_.in_phases) v.clear();
      v.push_back(row);
    } else if (t_.copies_runs) {
      std::string run = v.back();
      v.pop_back();
      if (t_.dots && !v.empty()) {
        s_.Step("fuse ", v.back(), " ", run, " -> rr");
        run = "rr";
        v.pop_back();
      }
      s_.Step("split ", run, " ", t_.tile.lanes, " -> rv rl").Run("vectorize rl");
      if (v.empty()) v = {"rv"};
    } else if (t_.turns_rows) {
      v = TurnRows(std::move(v), batch);
    } else if (t_.dots && v.size() > batch + 2) {
      v = CopyGroups(std::move(v), batch);
    } else if (v.size() > batch + 1) {
      v.resize(batch + 1);  // the batch and the first steps of the reduction
    }
    std::string fuse = "fuse";
    for (const std::string& l : v) fuse += " " + l;
    s_.Run(fuse + " -> rp").Run("parallel rp");
  }

  // Each line of what the rows of all phases are read from is read once from memory: loops over digits are inside.
  void CopyPhases() {
    const std::vector<std::string> v = s_.LoopsAround("b_rows");
    if (!s_.status().ok()) return;
    std::vector<std::string> order;
    if (t_.copied.back() == Copied::kRun) {
      s_.Step("split ", v.back(), " ", 2 * t_.tile.lanes, " -> ck cl").Run("vectorize cl");
      for (size_t k = 0; k + 1 < v.size(); ++k) {
        if (t_.copied[k] == 2) order.push_back(v[k]);
      }
      order.push_back("ck");
    }
    for (int depth : {0, 1, 2}) {
      for (size_t k = 0; k < v.size() && (depth < 2 || t_.copied.back() != Copied::kRun); ++k) {
        if (t_.copied[k] == depth) order.push_back(v[k]);
      }
    }
    if (order.empty()) return;
    ReorderLoops(s_, {order});
    s_.Step("parallel ", order[0]);
  }

 private:
  // Groups of steps: what a tile reads of its rows lies together, and a part of a row that lies in lines of memory,
  // whatever its steps' order there, is read at once. The loops that tasks share.
  std::vector<std::string> CopyGroups(std::vector<std::string> v, size_t batch) {
    constexpr int64_t kGroups = 16;  // of a task
    const std::vector<StageIter>& reduced = t_.flat.group.stages[0].reduce_iters;
    const std::string member = v.back(), row = v[v.size() - 2];
    std::vector<std::string> tasks(v.begin(), v.begin() + static_cast<ptrdiff_t>(batch)), inner;
    s_.Step("split ", row, " ", t_.rows, " -> rb rr");
    tasks.emplace_back("rb");
    for (size_t k = batch; k + 2 < v.size(); ++k) {
      if (reduced[t_.order[k - batch]].var->name != t_.dots->groups) {
        inner.push_back(v[k]);
        continue;
      }
      s_.Step("split ", v[k], " ", kGroups, " -> rg rm");
      tasks.emplace_back("rg");
    }
    if (tasks.back() == "rg") inner.emplace_back("rm");
    inner.push_back(member);
    const size_t rank = v.size() - batch + (t_.in_batch ? 1 : 0);
    std::string dims, to = Cat("d", rank - 2, " / ", t_.rows);
    for (size_t k = 0; k < rank; ++k) {
      dims += Cat(k == 0 ? "" : ", ", "d", k);
      to += Cat(", d", k, k + 2 == rank ? Cat(" % ", t_.rows) : "");
    }
    s_.Step("transform_layout rows[", dims, "] -> [", to, "]");
    ReorderLoops(s_, {tasks, {"rr"}, inner});
    return tasks;
  }

  // Lines of memory, which lie along the rows, are read whole: some rows are inside of all steps of a task, those of
  // whole matrices that change places in registers, or of a line one by one. The loops that tasks share.
  std::vector<std::string> TurnRows(std::vector<std::string> v, size_t batch) {
    if (v.size() < batch + 2) return v;  // no loop of rows, or of steps
    const int64_t together = TurnedTogether(t_);
    constexpr int64_t kLine = 16, kSteps = 64;  // of a task
    s_.Step("split ", v[batch], " ", together > 1 ? together : kLine, " -> rb rm");
    s_.Step("split ", v.back(), " ", together > 1 ? together : kSteps, " -> rk rn");
    v[batch] = "rb", v.back() = "rk";
    if (together > 1) {
      ReorderLoops(s_, {v, {"rm", "rn"}});
      if (s_.status().ok() && !s_.Try("tensorize rm transpose") && s_.Try("peel rk back 1 -> rt")) {
        v.pop_back();  // the last steps, which may be fewer, have a loop of their own
        s_.Try("tensorize rm transpose");
      }
    } else {
      ReorderLoops(s_, {v, {"rn", "rm"}});
    }
    return v;
  }

  ContractionPlan& t_;
  Schedule& s_;
};

}  // namespace

void CopyRows(ContractionPlan& plan) {
  if (plan.copy_rows) Rows(plan).Copy();
  if (!plan.copied.empty()) Rows(plan).CopyPhases();
}

}  // namespace cinn_like::hlir
