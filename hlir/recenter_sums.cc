#include "hlir/recenter_sums.h"

#include <algorithm>
#include <optional>

#include "hlir/extract_group.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/tactic.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

constexpr int64_t kShort = 4096;  // elements that stay near on any machine
constexpr double kGain = 1.15;    // of what is predicted: less was none

// Stages from `from` to `to`, both included, of which each needs `from` and is needed by `to`.
std::vector<int> Between(const TeProgram& p, size_t from, size_t to) {
  std::vector<std::vector<Buffer>> reads(to + 1 - from);
  absl::flat_hash_set<Buffer> needed;
  for (size_t k = to + 1; k-- > from;) {
    const Stage& s = p.stages[k];
    if (k != to && std::none_of(s.outputs.begin(), s.outputs.end(), [&](Buffer b) { return needed.contains(b); }))
      continue;
    reads[k - from] = InputsOf(s);
    needed.insert(reads[k - from].begin(), reads[k - from].end());
  }
  std::vector<int> r;
  absl::flat_hash_set<Buffer> needs;
  for (size_t k = from; k <= to; ++k) {
    const auto is_in = [&](Buffer b) { return needs.contains(b); };
    if (k != from && std::none_of(reads[k - from].begin(), reads[k - from].end(), is_in)) continue;
    r.push_back(static_cast<int>(k));
    needs.insert(p.stages[k].outputs.begin(), p.stages[k].outputs.end());
  }
  return r.back() == static_cast<int>(to) ? r : std::vector<int>();
}

// Stages behind `from` that need it and go through the elements of `buffer` again, with those between.
std::vector<int> Again(const TeProgram& p, size_t from, Buffer buffer) {
  absl::flat_hash_set<Buffer> needs(p.stages[from].outputs.begin(), p.stages[from].outputs.end());
  std::vector<int> behind, r;
  for (size_t k = from + 1; k < p.stages.size(); ++k) {
    const Stage& s = p.stages[k];
    const std::vector<Buffer> reads = InputsOf(s);
    if (!s.IsPointwise() || std::none_of(reads.begin(), reads.end(), [&](Buffer b) { return needs.contains(b); }))
      continue;
    behind.push_back(static_cast<int>(k));
    if (Contains(reads, buffer)) {
      r = behind;
      break;
    }
    needs.insert(s.outputs.begin(), s.outputs.end());
  }
  return r;
}

std::optional<double> Seconds(const TeProgram& p, const std::vector<int>& stages, const std::vector<Buffer>& outputs,
                              const Target& target) {
  const StatusOr<ExtractedGroup> group = ExtractGroup(p, stages, outputs);
  if (!group.ok()) return std::nullopt;
  return CollectBids(group->program, target).seconds();
}

// Of the pair, with what goes through the same elements once more.
bool Pays(const TeProgram& p, const std::vector<int>& pair, const TeProgram& recentered, const Target& target) {
  const auto sum = static_cast<size_t>(pair.front()), squares = static_cast<size_t>(pair.back());
  std::vector<int> stages = pair;
  const Expr load = MainLoad(p.stages[sum], p.stages[sum].values);
  const std::vector<int> again = load == nullptr ? std::vector<int>() : Again(p, squares, load->buffer);
  stages.insert(stages.end(), again.begin(), again.end());
  std::vector<Buffer> outputs = {p.stages[sum].outputs[0], p.stages[squares].outputs[0]};
  if (stages.size() > pair.size()) outputs.push_back(p.stages[static_cast<size_t>(stages.back())].outputs[0]);
  const std::optional<double> now = Seconds(p, stages, outputs, target);
  stages = Between(recentered, sum, squares + 2);
  for (int k : again) stages.push_back(k + 2);
  const std::optional<double> then = Seconds(recentered, stages, outputs, target);
  return now && then && *now >= kGain * *then;
}

// Whether the pivot reads what a stage computes of more elements than it has: that would have to lie in memory first.
bool WaitsForElements(const TeProgram& p, size_t pivot) {
  const std::vector<Buffer> read = InputsOf(p.stages[pivot]);
  const double own = TypicalSize(p.stages[pivot].iters, p.symbols);
  return std::any_of(p.stages.begin(), p.stages.begin() + static_cast<ptrdiff_t>(pivot), [&](const Stage& s) {
    const auto is_read = [&](Buffer b) { return Contains(read, b); };
    return s.IsPointwise() && TypicalSize(s.iters, p.symbols) > own &&
           std::any_of(s.outputs.begin(), s.outputs.end(), is_read);
  });
}

}  // namespace

std::optional<size_t> FindSumBeside(const TeProgram& p, size_t k) {
  const Stage& squares = p.stages[k];
  if (p.exact || !SumsDistances(p, squares)) return std::nullopt;
  const auto reduces_as_much = [](const Stage& x, const Stage& y) {
    return std::equal(x.reduce_iters.begin(), x.reduce_iters.end(), y.reduce_iters.begin(), y.reduce_iters.end(),
                      [](const StageIter& a, const StageIter& b) { return a.extent == b.extent; });
  };
  for (size_t i = k; i-- > 0;) {
    const Stage& sum = p.stages[i];
    if (!sum.IsReduction() || !reduces_as_much(sum, squares)) continue;
    if (!FindDistances(p, squares, sum).ok()) continue;
    if (!Between(p, i, k).empty()) return i;
  }
  return std::nullopt;
}

TeProgram RecenterSums(TeProgram p, const Target& target, NameSupply& names) {
  for (size_t k = 0; k < p.stages.size(); ++k) {
    const std::optional<size_t> sum = FindSumBeside(p, k);
    if (!sum) continue;
    const std::vector<int> stages = Between(p, *sum, k);
    // Where parts are joined in between these are kernels of their own.
    const bool apart = std::any_of(stages.begin() + 1, stages.end() - 1,
                                   [&](int i) { return p.stages[static_cast<size_t>(i)].IsReduction(); });
    if (!apart && TypicalSize(p.stages[k].reduce_iters, p.symbols) < kShort) continue;
    StatusOr<TeProgram> recentered = Recenter(p, p.stages[k].name, p.stages[*sum].name, names.Fresh("pivot"));
    if (!recentered.ok() || WaitsForElements(*recentered, *sum)) continue;
    if (!(apart || Pays(p, stages, *recentered, target))) continue;
    p = *std::move(recentered);
    k += 2;
    // Nobody needs the differences any more.
    const auto is_read = [&](Buffer b) {
      return IsParam(p, b) || Contains(p.kept, b) ||
             std::any_of(p.stages.begin(), p.stages.end(), [&](const Stage& s) { return Contains(InputsOf(s), b); });
    };
    for (size_t i = k; i-- > *sum;) {
      if (std::any_of(p.stages[i].outputs.begin(), p.stages[i].outputs.end(), is_read)) continue;
      p.stages.erase(p.stages.begin() + static_cast<ptrdiff_t>(i));
      --k;
    }
  }
  return p;
}

}  // namespace cinn_like::hlir
