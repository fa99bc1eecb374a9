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

constexpr int64_t kShort = 1024;  // elements that stay near on any machine
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
  for (int k : Again(p, squares, MainLoad(p.stages[squares], p.stages[squares].values)->buffer)) stages.push_back(k);
  std::vector<Buffer> outputs = {p.stages[sum].outputs[0], p.stages[squares].outputs[0]};
  if (stages.size() > pair.size()) outputs.push_back(p.stages[static_cast<size_t>(stages.back())].outputs[0]);
  const std::optional<double> now = Seconds(p, stages, outputs, target);
  for (int& k : stages) k += 2;
  stages.insert(stages.begin(), {pair.front(), pair.front() + 1});
  const std::optional<double> then = Seconds(recentered, stages, outputs, target);
  return now && then && *now >= kGain * *then;
}

}  // namespace

std::optional<size_t> FindSumBeside(const TeProgram& p, size_t k) {
  const Stage& squares = p.stages[k];
  if (p.exact || !SumsDistances(squares)) return std::nullopt;
  const Expr load = MainLoad(squares, squares.values);
  if (load == nullptr) return std::nullopt;
  for (size_t i = k; i-- > 0;) {
    const Stage& sum = p.stages[i];
    if (!sum.IsReduction() || !Contains(InputsOf(sum), load->buffer) || !FindDistances(p, squares, sum).ok()) continue;
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
    if (!recentered.ok() || !(apart || Pays(p, stages, *recentered, target))) continue;
    p = *std::move(recentered);
    k += 2;
  }
  return p;
}

}  // namespace cinn_like::hlir
