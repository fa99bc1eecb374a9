// Rows on a GPU whose maximum and the sums under it (of a softmax) are found in one go, where rows are longer than what
// registers hold, or are read for the sums alone: a thread keeps the maximum of its own part of a row and sums under
// that (the steps rescale and chain), and the threads join what they found. What else needs the row reads it again.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "cinn_like/base/costs.h"
#include "cinn_like/base/powers_of_two.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/row_nests.h"
#include "hlir/tactics/rows_gpu_plan.h"
#include "hlir/tactics/tactics.h"
#include "ir/analyzer.h"
#include "ir/join.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr int64_t kWarp = RowsGpuPlan::kWarp;
constexpr int64_t kThreads = 256;               // of a long row
constexpr int64_t kAtOnce = 8, kFewAtOnce = 2;  // accesses of a thread, on their way, of all inputs
constexpr int64_t kTurns = 8;                   // for which twice the threads are as good
// Rows of fewer turns of a warp than these are better off in registers: most of theirs ask which elements are there.
constexpr int64_t kLeast = 3, kLeastShifted = 5;

bool Joins(Context& c, const Stage& s, ExprOp op) {
  return s.IsReduction() && s.values.size() == 1 && s.values[0]->op == op && IsFloat(s.outputs[0]->dtype) &&
         FindJoin(c, s.values, RunningOf(c, s)).has_value();
}

class OnlineRows {
 public:
  OnlineRows(RowNests r, const Target& target, Point& point)
      : r_(std::move(r)), s_(r_.schedule), target_(target), plan_(r_, target), point_(point) {}

  StatusOr<std::vector<Proposal>> Run(Until until) {
    if (!Find()) return std::vector<Proposal>();
    if (!PlanThreads()) return std::vector<Proposal>();
    const double seconds = Seconds();
    const StatusOr<bool> follows = RunStageSteps();
    RETURN_IF_ERROR(follows.status());
    if (!*follows) return std::vector<Proposal>();
    if (until == Until::kPrice) return std::vector<Proposal>{{"rows_online", {}, "", seconds}};
    RETURN_IF_ERROR(RunLoopSteps());
    RETURN_IF_ERROR(s_.status());
    return std::vector<Proposal>{{"rows_online", s_.func(), s_.text(), seconds}};
  }

 private:
  // The digits of a row's iterator, and the stage that reduces one thread's part.
  struct Part {
    std::string stage, k, u, t, l;
  };

  const Stage& Now(const std::string& name) const { return StageNamed(s_.stages()->stages, name); }

  // The maximum, and the sums that need it and no other sum, all along one dimension, in which memory goes.
  bool Find() {
    if (!r_.space.HasReduction() || r_.group.exact || !plan_.CanShare()) return false;
    vector_ = r_.VectorDim();
    // A row alone has more threads than a block.
    if (r_.Dims(true) != std::vector<int>{vector_} || r_.Dims(false).empty()) return false;
    enum Level : uint8_t { kElements, kMaximum, kBehind };  // the most that a value needs
    absl::flat_hash_map<Buffer, Level> level_of;
    Context& c = *r_.group.context;
    for (const Stage& s : r_.group.stages) {
      if (!s.at.empty() || s.IsCall()) return false;
      Level level = kElements;
      for (Buffer b : InputsOf(s)) {
        if (const auto it = level_of.find(b); it != level_of.end()) level = std::max(level, it->second);
      }
      const bool is_kept = IsParam(r_.group, s.outputs[0]);
      if (s.IsReduction() && level == kElements && maximum_.empty() && Joins(c, s, ExprOp::kMax)) {
        maximum_ = s.name;
        level = kMaximum;
      } else if (s.IsReduction()) {
        if (level == kMaximum && Joins(c, s, ExprOp::kAdd)) sums_.push_back(s.name);
        level = kBehind;
      } else if (level < kBehind && !is_kept) {
        (level == kElements ? values_ : shares_).push_back(s.name);
      }
      for (Buffer b : s.outputs) level_of[b] = level;
    }
    // What is computed of elements lies in a thread's registers for a turn: these alone read it, and it is no result.
    for (const Stage& s : r_.group.stages) {
      const bool is_first = IsFirst(s.name) || Has(values_, s.name);
      for (const Stage& of : r_.group.stages) {
        if (!of.IsPointwise() || !Contains(InputsOf(s), of.outputs[0])) continue;
        const bool is_result = IsParam(r_.group, of.outputs[0]);
        if (is_result ? is_first || Has(shares_, s.name) : !is_first && Has(values_, of.name)) return false;
      }
    }
    return !maximum_.empty() && !sums_.empty();
  }

  static bool Has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  bool IsFirst(const std::string& stage) const { return stage == maximum_ || Has(sums_, stage); }

  // What else is reduced, and what is as large as the row, reads it again, from memory.
  double Seconds() const {
    const GpuCosts& gpu = GpuCostsOf(target_);
    int64_t again = 0;
    for (size_t k = 0; k < r_.group.stages.size(); ++k) {
      const Stage& s = r_.group.stages[k];
      again += (s.IsReduction() || (plan_.IsRowSized(k) && IsParam(r_.group, s.outputs[0]))) && !IsFirst(s.name);
    }
    double bytes = BytesMoved(r_.group);
    for (const RowNests::Input& input : r_.FindInputs())
      bytes += static_cast<double>(again) * TypicalBytes(input.load->buffer, r_.group.symbols);
    const double narrow = std::log2(static_cast<double>(plan_.AccessElements(vector_)) / static_cast<double>(v_));
    const double memory = bytes / BytesPerSecond(target_) * (1 + gpu.narrow_online * narrow);
    // Of few rows each thread waits for what it asked for, turn by turn.
    const double at_once = static_cast<double>(gpu.threads) / static_cast<double>(threads_) * Cores(target_);
    const double turns = std::ceil(static_cast<double>(r_.LikelyExtent(vector_)) / static_cast<double>(Turn()));
    const double waits = std::ceil(Rows() / at_once) * static_cast<double>(1 + again) * turns * gpu.pass_seconds;
    const double asked = Rows() * AskingTurns(turns) * static_cast<double>((1 + again) * Turn());
    return gpu.kernel_seconds + std::max(memory, waits) + asked * gpu.ask_online_seconds / Cores(target_);
  }

  // Turns that ask which elements are the row's: where rows have turns of their own for that, those at their ends.
  double AskingTurns(double turns) const {
    const int64_t length = r_.ConstExtent(vector_);
    if (length == 0) return turns;
    return shift_ != nullptr ? 2 : length % Turn() != 0;
  }

  double Rows() const { return r_.LikelySize(r_.Dims(false)); }

  // False: a row is too few turns.
  bool PlanThreads() {
    const RowsGpuPlan::Row row = plan_.PlanRow(vector_);
    shift_ = nullptr;
    v_ = row.v;
    if (r_.ConstExtent(vector_) > 0 && 2 * plan_.VectorFor({vector_}) <= plan_.AccessElements(vector_)) {
      shift_ = plan_.ShiftOfRow(vector_, plan_.AccessElements(vector_));
      if (shift_ != nullptr) v_ = plan_.AccessElements(vector_);
    }
    // As many accesses on their way as there are two turns for; more threads where turns are many, or a device has
    // room.
    const int64_t length = r_.LikelyExtent(vector_), longest = r_.LargestExtent(vector_);
    if (longest < (shift_ != nullptr ? kLeastShifted : kLeast) * kWarp * kFewAtOnce * v_) return false;
    const auto inputs = std::max<int64_t>(static_cast<int64_t>(r_.FindInputs().size()), 1);
    at_once_ = length < 2 * kWarp * kAtOnce * v_ ? kFewAtOnce : std::max(PowerOfTwoBelow(kAtOnce / inputs), kFewAtOnce);
    const double room = static_cast<double>(GpuCostsOf(target_).threads) * Cores(target_) / 2;
    threads_ = kWarp;
    while (2 * threads_ <= plan_.most_threads() && length >= 2 * Turn() &&
           ((threads_ < kThreads && length >= kTurns * Turn()) || 2 * static_cast<double>(threads_) * Rows() <= room))
      threads_ *= 2;
    std::vector<int64_t> options = {kWarp, 2 * kWarp, 4 * kWarp, kThreads, 2 * kThreads};
    std::erase_if(options, [&](int64_t n) { return n > plan_.most_threads(); });
    threads_ = point_.Choose("threads", options, threads_);
    at_once_ = point_.Choose("accesses", {1, 2, 4, 8}, at_once_);
    while (longest <= Turn() && at_once_ * threads_ > kWarp) (at_once_ > 1 ? at_once_ : threads_) /= 2;
    return longest > Turn();
  }

  int64_t Turn() const { return at_once_ * threads_ * v_; }  // elements

  // False: the sums don't follow the maximum.
  StatusOr<bool> RunStageSteps() {
    RETURN_IF_ERROR(r_.TakePowersOf2());
    RETURN_IF_ERROR(r_.KeepResults(false));
    for (const std::string& name : shares_) s_.Step("inline_stage ", name);
    RETURN_IF_ERROR(r_.ReadAgain());
    if (shift_ != nullptr) RETURN_IF_ERROR(r_.Shift(vector_, shift_));
    std::vector<std::pair<std::string, std::string>> row_of;  // iterators along the row
    for (size_t k = 0; k < r_.group.stages.size(); ++k) {
      const std::string& name = r_.group.stages[k].name;
      const Expr iter = IterOf(r_.group, r_.space, k, vector_);
      if (iter != nullptr && (Has(values_, name) || IsFirst(name))) row_of.emplace_back(name, iter->name);
    }
    for (const auto& [name, iter] : row_of) s_.Step("round_up ", name, " ", iter, " ", Turn());
    const auto unfold = [&](const std::string& name, const std::string& iter) {
      Part& part = parts_[name];
      std::string step = Cat("unfold ", name, " ", iter);
      part = {"", s_.Fresh("k"), at_once_ > 1 ? s_.Fresh("u") : "", s_.Fresh("t"), v_ > 1 ? s_.Fresh("l") : ""};
      for (const int64_t f : {at_once_, threads_, v_}) step += f > 1 ? Cat(" ", f) : "";
      step += " ->";
      for (const std::string* s : {&part.k, &part.u, &part.t, &part.l}) step += s->empty() ? "" : " " + *s;
      s_.Step(step);
    };
    for (const auto& [name, iter] : row_of) {
      if (!IsFirst(name)) continue;
      unfold(name, iter);
      RETURN_IF_ERROR(s_.status());
      Part& part = parts_[name];
      part.stage = s_.Fresh("part");
      s_.Step("rfactor ", name, " ", part.t, " -> ", part.stage);
      RETURN_IF_ERROR(s_.status());
    }
    for (const std::string& sum : sums_) {
      if (!s_.Try(Cat("rescale ", parts_[sum].stage))) return false;
    }
    for (const auto& [name, iter] : row_of) {
      if (!IsFirst(name)) unfold(name, iter);
    }
    RETURN_IF_ERROR(s_.status());
    CopyInputs();
    RETURN_IF_ERROR(s_.status());
    group_ = *s_.stages();
    return true;
  }

  // What comes from memory for a turn lies in registers, 16 bytes at a time.
  void CopyInputs() {
    std::vector<std::string> stages = {parts_[maximum_].stage};
    for (const std::string& sum : sums_) stages.push_back(parts_[sum].stage);
    Context& c = *s_.stages()->context;
    std::vector<std::pair<std::string, std::vector<Expr>>> readers;  // iterators: rows, t, k, u, l
    for (const std::string& name : stages) {
      const Stage& s = Now(name);
      std::vector<Expr> iters;
      for (size_t d = 1; d < s.iters.size(); ++d) {
        if (!IsInt(s.iters[d].extent, 1)) iters.push_back(s.iters[d].var);
      }
      iters.push_back(s.iters[0].var);
      for (const StageIter& i : s.reduce_iters) iters.push_back(i.var);
      readers.emplace_back(name, std::move(iters));
    }
    const auto loads_of = [&](const Stage& s, const std::vector<Expr>& iters) {
      std::vector<Expr> r;
      VarMap ones;  // which a step counts as 0
      for (const StageIter& i : s.iters) {
        if (IsInt(i.extent, 1)) ones[i.var] = c.Int(0);
      }
      for (Expr v : s.values) {
        VisitLoads(v, [&](Expr e) {
          const bool is_input = std::none_of(s_.stages()->stages.begin(), s_.stages()->stages.end(),
                                             [&](const Stage& x) { return Contains(x.outputs, e->buffer); });
          const bool fits = Uses(e, iters.back()) && PrintsWithin(e, kMostNodesOfStep);
          const Expr load = Substitute(c, e, ones);
          if (is_input && fits && std::find(r.begin(), r.end(), load) == r.end()) r.push_back(load);
        });
      }
      return r;
    };
    for (size_t k = 0; k < readers.size(); ++k) {
      const auto& [name, iters] = readers[k];
      for (Expr load : loads_of(Now(name), iters)) {
        const std::string copy = s_.Fresh("row");
        for (size_t other = k; other < readers.size(); ++other) {
          VarMap to;
          std::string list;
          for (size_t d = 0; d < iters.size(); ++d) {
            to[iters[d]] = readers[other].second[d];
            list += Cat(d == 0 ? "" : ", ", readers[other].second[d]->name);
          }
          const std::string step = Cat("define ", copy, "[", list, "] = ", Print(Substitute(c, load, to)));
          if (other == k)
            s_.Step(step, " before ", stages[0]);
          else
            s_.Try(step);
        }
        if (!s_.status().ok()) return;
        const std::vector<StageIter>& made = Now(copy).iters;
        size_t d = made.size();
        Part& part = parts_[copy];
        for (std::string* digit : {v_ > 1 ? &part.l : nullptr, at_once_ > 1 ? &part.u : nullptr, &part.k, &part.t}) {
          if (digit != nullptr) *digit = made[--d].var->name;
        }
        values_.push_back(copy);
      }
    }
  }

  // The stage's loops over rows as one.
  std::string FuseRows(const std::string& stage, const std::vector<std::string>& along) {
    std::string loops, order;
    for (const std::string& l : s_.LoopsAround("b_" + stage)) loops += Has(along, l) ? "" : " " + l;
    for (const std::string& l : along) order += " " + l;
    s_.Step("reorder", loops, order);
    const std::string row = s_.Fresh("p");
    s_.Step("fuse", loops, " -> ", row);
    return row;
  }

  Status RunLoopSteps() {
    // Values of the size of rows are computed where they are read.
    for (size_t k = 0; k < r_.group.stages.size(); ++k) {
      const Stage& s = r_.group.stages[k];
      if (!s.IsReduction() && !Has(values_, s.name) && plan_.IsRowSized(k) && !IsParam(r_.group, s.outputs[0]))
        s_.Step("inline b_", s.name);
    }
    std::vector<std::string> rows, threads, joined, turns, starts;
    for (const Stage& s : group_.stages) {
      if (s_.LoopsAround("b_" + s.name).empty()) continue;  // substituted away
      for (Buffer b : s.outputs) {
        if (!IsParam(group_, b)) s_.Step("scope ", b->name, " local");
      }
      const bool is_value = Has(values_, s.name);
      const auto of = std::find_if(parts_.begin(), parts_.end(),
                                   [&](const auto& p) { return p.first == s.name || p.second.stage == s.name; });
      if (of != parts_.end() && (is_value || of->second.stage == s.name)) {
        const Part& part = of->second;
        const std::string t = "l_" + (is_value ? part.t : s.iters[0].var->name), k = "l_" + part.k,
                          u = part.u.empty() ? "" : "l_" + part.u, l = part.l.empty() ? "" : "l_" + part.l;
        std::vector<std::string> along = {t, k};
        for (const std::string& x : {u, l}) {
          if (!x.empty()) along.push_back(x);
        }
        rows.push_back(FuseRows(s.name, along));
        threads.push_back(t);
        turns.push_back(k);
        if (!u.empty()) s_.Step("unroll ", u);
        if (!l.empty()) s_.Step(is_value ? "vectorize " : "unroll ", l);
        if (!is_value) starts.push_back(s.name);
      } else if (of != parts_.end()) {
        joined.push_back("l_" + of->second.t);
        rows.push_back(FuseRows(s.name, {joined.back()}));
      } else {
        rows.push_back(FuseRows(s.name, ShareAgain(s, joined)));
      }
    }
    RETURN_IF_ERROR(s_.status());
    const auto all = [](const std::vector<std::string>& loops) {
      std::string r;
      for (const std::string& l : loops) r += " " + l;
      return r;
    };
    s_.Step("merge", all(rows));
    std::string block = rows[0];
    if (const int64_t together = plan_.RowsTogether(threads_); together > 1) {
      s_.Step("split ", block, " ", together, " -> pb py").Run("bind py threadIdx.y");
      block = "pb";
    }
    s_.Step("bind ", block, " blockIdx.x");
    s_.Step("merge", all(threads)).Step("bind ", threads[0], " threadIdx.x");
    for (const std::string& t : joined) s_.Step("bind ", t, " threadIdx.x");
    for (const std::string& name : starts)
      s_.Step("split_init b_", name, " ", "l_", PartOf(name).k, " -> ", s_.Fresh("start"));
    const std::string by = s_.Fresh("by");
    s_.Step("chain", all(turns), " -> ", by).Step("scope ", by, " local").Step("scope ", by, "_old local");
    Peel(turns[0]);
    for (const std::string& turn : again_) Peel(turn);
    return absl::OkStatus();
  }

  const Part& PartOf(const std::string& stage) const {
    return std::find_if(parts_.begin(), parts_.end(), [&](const auto& p) { return p.second.stage == stage; })->second;
  }

  // The first and the last turn alone ask which elements are the row's.
  void Peel(const std::string& turn) {
    if (r_.ConstExtent(vector_) == 0) return;
    if (shift_ != nullptr) s_.Try(Cat("peel ", turn, " front 1 -> ", s_.Fresh("first")));
    s_.Try(Cat("peel ", turn, " back 1 -> ", s_.Fresh("last")));
  }

  // What needs the row once more: threads share it as they did; gives the loops along it, or none.
  std::vector<std::string> ShareAgain(const Stage& s, std::vector<std::string>& joined) {
    size_t k = 0;
    while (k < r_.group.stages.size() && r_.group.stages[k].name != s.name) ++k;
    const Expr iter = k == r_.group.stages.size() ? nullptr : IterOf(r_.group, r_.space, k, vector_);
    if (iter == nullptr) return {};
    const std::string turn = s_.Fresh("k"), u = s_.Fresh("u"), t = s_.Fresh("t"), l = s_.Fresh("l");
    std::string split = Cat("split l_", iter->name);
    std::vector<std::string> along = {t, turn};
    for (const int64_t f : {at_once_, threads_, v_}) split += f > 1 ? Cat(" ", f) : "";
    if (at_once_ > 1) along.push_back(u);
    if (v_ > 1) along.push_back(l);
    s_.Step(split, " -> ", turn, at_once_ > 1 ? " " + u : "", " ", t, v_ > 1 ? " " + l : "");
    if (at_once_ > 1) s_.Step("unroll ", u);
    if (v_ > 1) s_.Step(s.outputs.size() > 1 && s.IsReduction() ? "unroll " : "vectorize ", l);
    joined.push_back(t);
    again_.push_back(turn);
    return along;
  }

  RowNests r_;
  Schedule& s_;  // r_'s
  const Target& target_;
  const RowsGpuPlan plan_;
  Point& point_;
  int vector_ = -1;
  std::string maximum_;
  std::vector<std::string> sums_;
  std::vector<std::string> shares_;  // stages of elements that need the maximum
  std::vector<std::string> values_;  // stages of elements that these need, and nobody else
  std::vector<std::string> again_;   // loops over the turns of who reads a row again
  std::map<std::string, Part> parts_;
  Expr shift_ = nullptr;
  int64_t v_ = 1, threads_ = 1, at_once_ = 1;
  TeProgram group_;  // when steps on loops begin
};

}  // namespace

StatusOr<std::vector<Proposal>> ProposeRowsOnline(const TeProgram& group, const Target& target, Until until,
                                                  Point& point) {
  if (!target.IsGpu() || target.device->limits.threads < kWarp) return std::vector<Proposal>();
  ASSIGN_OR_RETURN(std::optional<RowNests> r, RowNests::Create(group));
  if (!r || r->space.HasScan()) return std::vector<Proposal>();
  return OnlineRows(*std::move(r), target, point).Run(until);
}

}  // namespace cinn_like::hlir
