#include "hlir/fusion.h"

#include <algorithm>
#include <set>

#include "hlir/extract_group.h"
#include "hlir/inline_group.h"
#include "hlir/near_hints.h"
#include "hlir/prices.h"
#include "hlir/propagate_layouts.h"
#include "hlir/reachability.h"
#include "hlir/rewrite_stages.h"
#include "hlir/row_space.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/tactic.h"
#include "ir/alignment.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

constexpr size_t kMaxStages = 48;     // of one group
constexpr size_t kMaxBuffers = 24;    // that one kernel reads and writes
constexpr int kMaxProgram = 1 << 17;  // stages of a program: who reads whom takes the square of it in bits

class Planner {
 public:
  Planner(TeProgram program, const Target& target)
      : p_(std::move(program)), c_(*p_.context), target_(target), target_name_(target.Print()) {
    for (const Param& q : p_.params) {
      if (q.role == ParamRole::kResult && q.buffer != nullptr) results_.insert(q.buffer);
    }
    results_.insert(p_.kept.begin(), p_.kept.end());
  }

  StatusOr<FusionPlan> Run(bool fuse) {
    if (target_.HasKernels()) p_ = PropagateLayouts(std::move(p_));
    p_ = RewriteStages(std::move(p_), target_);
    const int n = static_cast<int>(p_.stages.size());
    if (n > kMaxProgram) return Unimplemented("expected a graph of at most ", kMaxProgram, " operations, got ", n);
    group_of_.resize(n);
    members_.resize(n);
    producers_.resize(n);
    consumers_.resize(n);
    absl::flat_hash_map<Buffer, int> writer;
    for (int i = 0; i < n; ++i) {
      group_of_[i] = i;
      members_[i] = {i};
      for (Buffer b : p_.stages[i].outputs) writer[b] = i;
      inputs_.push_back(InputsOf(p_.stages[i]));
      is_contraction_.push_back(FindContraction(p_.stages[i]).has_value());
      is_check_.push_back(std::any_of(p_.stages[i].outputs.begin(), p_.stages[i].outputs.end(),
                                      [&](Buffer b) { return Contains(p_.kept, b); }));
    }
    has_contraction_ = is_contraction_;
    for (int i = 0; i < n; ++i) {
      for (Buffer b : inputs_[i]) {
        auto it = writer.find(b);
        if (it == writer.end()) continue;
        producers_[i].push_back(it->second);
        consumers_[it->second].push_back(i);
      }
    }
    if (fuse) {
      reach_.emplace(consumers_);
      for (int i = 0; i < n; ++i) Grow(i);
      JoinSiblings();
      for (int i = n; i-- > 0;) MoveToReader(i);
      JoinChains();
      JoinGates();
      JoinEpilogues();
      JoinResults();
      JoinOperands();
      JoinProducts();
    }
    std::vector<FusionPlan::Group> groups;
    for (std::vector<int>& stages : Order()) {
      std::vector<Buffer> outputs = OutputsOf(stages);
      groups.push_back({std::move(stages), std::move(outputs)});
    }
    return FusionPlan{std::move(p_), std::move(groups)};
  }

 private:
  // Joins stage `i` with the groups of its producers where that works, largest producer first; then with the producers
  // of what it joined: what two stages read can only join once both have.
  void Grow(int i) {
    if (is_contraction_[i]) return;
    std::set<int> refused;
    for (bool joined = true; joined;) {
      joined = false;
      for (int producer : ProducersOf(members_[group_of_[i]])) {
        if (refused.contains(group_of_[producer])) continue;
        joined = Join(group_of_[producer], group_of_[i]);
        if (joined) break;
        refused.insert(group_of_[producer]);
      }
      if (joined) refused.clear();
    }
  }

  static bool IsSingle(const std::vector<Expr>& extents) {
    return std::all_of(extents.begin(), extents.end(), [](Expr e) { return IsInt(e, 1); });
  }

  static std::vector<Expr> ExtentsOf(const Stage& s) {
    std::vector<Expr> r;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) r.push_back(i.extent);
    }
    return r;
  }

  // Groups that read a tensor in common do so once, where they can. Those that read none (tables of places, weights of
  // an interpolation) are siblings, too: each would be a kernel.
  void JoinSiblings() {
    absl::flat_hash_map<Buffer, std::vector<int>> readers;
    std::vector<Buffer> order;
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      const std::vector<Expr> extents = ExtentsOf(p_.stages[i]);
      const auto add = [&](Buffer b) {
        std::vector<int>& stages = readers[b];
        if (stages.empty()) order.push_back(b);
        stages.push_back(static_cast<int>(i));
      };
      for (Buffer b : inputs_[i]) {
        if (!IsSingle(b->shape) || IsSingle(extents)) add(b);  // such readers may have nothing in common
      }
      if (inputs_[i].empty()) add(nullptr);
    }
    int joins = 0;
    for (Buffer b : order) {
      const std::vector<int>& stages = readers[b];
      // What was refused is refused again until something has joined: groups with many readers are asked once.
      absl::flat_hash_map<int, int> asked;  // group -> joins when it was asked with all the others
      for (size_t i = 0; i < stages.size(); ++i) {
        if (has_contraction_[group_of_[stages[i]]]) continue;
        const auto [at, fresh] = asked.emplace(group_of_[stages[i]], joins);
        if (!fresh && at->second == joins) continue;
        at->second = joins;
        absl::flat_hash_set<int> refused;
        for (size_t j = i + 1; j < stages.size(); ++j) {
          const int g = group_of_[stages[i]], h = group_of_[stages[j]];
          if (g == h || has_contraction_[h] || !refused.insert(h).second) continue;
          if (!Join(g, h)) continue;
          ++joins;
          refused.clear();
        }
      }
    }
  }

  // What one group computes and another alone reads goes there, where less is read for it than was read of it.
  // `i`: the last stage of it.
  //   h = f(x), u = h * 0.5 | y = g(h, u)   ->   h = f(x) | u = h * 0.5, y = g(h, u)
  void MoveToReader(int i) {
    if (consumers_[i].empty()) return;
    const int from = group_of_[i], to = group_of_[consumers_[i][0]];
    const auto reads_too = [&](int c) { return group_of_[c] == to; };
    if (from == to || !std::all_of(consumers_[i].begin(), consumers_[i].end(), reads_too)) return;
    if (has_contraction_[from] || has_contraction_[to] || is_check_[i] != is_check_[members_[to][0]]) return;
    // With the stage, those of its group that nothing else needs and the reader does not read already.
    std::vector<int> rest, more = members_[to];
    const std::vector<int> read = ProducersOf(members_[to]);
    for (size_t k = members_[from].size(); k-- > 0;) {
      const int m = members_[from][k];
      const auto stays = [&](Buffer b) { return results_.contains(b); };
      const auto is_inside = [&](int c) { return std::count(more.begin(), more.end(), c) > 0; };
      const std::vector<Buffer>& outputs = p_.stages[m].outputs;
      if ((m == i || (m < i && std::count(read.begin(), read.end(), m) == 0)) && p_.stages[m].IsPointwise() &&
          std::none_of(outputs.begin(), outputs.end(), stays) &&
          std::all_of(consumers_[m].begin(), consumers_[m].end(), is_inside)) {
        more.push_back(m);
      } else {
        rest.push_back(m);
      }
    }
    std::sort(rest.begin(), rest.end());
    std::sort(more.begin(), more.end());
    if (rest.empty() || BytesRead(more) >= BytesRead(members_[to])) return;
    if (!CanShareKernel(rest) || !CanShareKernel(more)) return;
    for (int m : more) group_of_[m] = to;
    members_[from] = std::move(rest);
    members_[to] = std::move(more);
  }

  // Of what the stages do not compute themselves.
  double BytesRead(const std::vector<int>& stages) const {
    absl::flat_hash_set<Buffer> buffers;
    for (int m : stages) buffers.insert(inputs_[m].begin(), inputs_[m].end());
    for (int m : stages) {
      for (Buffer b : p_.stages[m].outputs) buffers.erase(b);
    }
    double bytes = 0;
    for (Buffer b : buffers) bytes += TypicalBytes(b, p_.symbols);
    return bytes;
  }

  // A contraction, what reduces its results and a contraction that reads what that leaves: one kernel where some tactic
  // has one that is predicted to take less time than the groups apart.
  void JoinChains() {
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      if (!is_contraction_[i]) continue;
      for (int q : producers_[i]) {
        const int last = group_of_[i], rows = group_of_[q];
        if (rows == last || has_contraction_[rows] || !IsReduction(rows)) continue;
        int first = -1;
        for (int m : members_[rows]) {
          for (int x : producers_[m]) {
            if (group_of_[x] != rows && has_contraction_[group_of_[x]]) first = group_of_[x];
          }
        }
        if (first < 0 || first == last) break;
        JoinWithCopies({first, rows, last}, CopiesReadBy({first, last}));
        break;
      }
    }
  }

  // Copies that a library would need of the operands go in front; a kernel of ours needs none.
  bool JoinWithCopies(const std::vector<int>& groups, std::vector<int> copies) {
    if (!copies.empty()) {
      copies.insert(copies.end(), groups.begin(), groups.end());
      if (JoinIfCheaper(copies)) return true;
    }
    return groups.size() > 1 && JoinIfCheaper(groups);
  }

  // Groups that only move or convert what they read.
  std::vector<int> CopiesReadBy(const std::vector<int>& groups) const {
    std::vector<int> r;
    for (int g : groups) {
      for (int m : members_[g]) {
        for (int q : producers_[m]) {
          const int copy = group_of_[q];
          if (members_[copy].size() == 1 && IsView(p_.stages[q]) && std::count(r.begin(), r.end(), copy) == 0)
            r.push_back(copy);
        }
      }
    }
    return r;
  }

  // A contraction and what its operands are computed by, element by element: where some tactic computes them on the way
  // in, in less time than to memory and back.
  void JoinOperands() {
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      if (!is_contraction_[i]) continue;
      for (int q : producers_[i]) {
        const int product = group_of_[i], operand = group_of_[q];
        if (operand != product && !has_contraction_[operand] && !IsReduction(operand))
          JoinIfCheaper({operand, product});
      }
    }
  }

  // A contraction that a library computes, what alone reads its results, element by element, and copies that the
  // library needs: where a kernel of ours for all is predicted to take less time than the library's and those around
  // it.
  void JoinEpilogues() {
    if (!target_.HasKernels()) return;
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      if (!is_contraction_[i]) continue;
      const int product = group_of_[i];
      int reader = -1;
      for (int m : members_[product]) {
        for (int c : consumers_[m]) reader = group_of_[c] == product ? reader : group_of_[c];
      }
      const std::vector<int> copies = CopiesReadBy({product});
      if (reader >= 0 && !has_contraction_[reader] && !IsReduction(reader) && JoinWithCopies({product, reader}, copies))
        continue;
      JoinWithCopies({product}, copies);
    }
  }

  // A contraction and what else is computed of its results, element by element, which it then leaves, too: a
  // pre-activation and the activation, where gradients need both.
  void JoinResults() {
    if (target_.HasKernels()) return;
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      if (!is_contraction_[i]) continue;
      const auto joins = [&](int reader) {
        return !has_contraction_[reader] && !IsReduction(reader) && JoinIfCheaper({group_of_[i], reader}, kAny);
      };
      for (bool joined = true; joined;) {
        const std::vector<int> readers = ReadersOf(group_of_[i]);
        joined = std::any_of(readers.begin(), readers.end(), joins);
      }
    }
  }

  // Groups that read the group's results, each once.
  std::vector<int> ReadersOf(int group) const {
    std::vector<int> r;
    for (int m : members_[group]) {
      for (int c : consumers_[m]) {
        if (group_of_[c] != group && std::count(r.begin(), r.end(), group_of_[c]) == 0) r.push_back(group_of_[c]);
      }
    }
    return r;
  }

  // Several contractions and what reads all of their results, element by element: in one pass, by one kernel, where
  // that takes less time.
  void JoinGates() {
    if (!target_.HasKernels()) return;
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      const int reader = group_of_[i];
      if (members_[reader].empty() || members_[reader].back() != static_cast<int>(i)) continue;
      if (has_contraction_[reader] || IsReduction(reader)) continue;
      std::vector<int> groups;
      for (int m : members_[reader]) {
        for (int q : producers_[m]) {
          const int g = group_of_[q];
          if (g != reader && has_contraction_[g] && std::count(groups.begin(), groups.end(), g) == 0)
            groups.push_back(g);
        }
      }
      if (groups.size() < 2) continue;
      groups.push_back(reader);
      JoinIfCheaper(groups, kAny);
    }
  }

  // Contractions that share an operand, with their epilogues: queries, keys and values. A few at a time, since steps of
  // a recurrence may be thousands that share their weights.
  void JoinProducts() {
    if (!target_.HasKernels()) return;
    constexpr size_t kMostProducts = 4;
    absl::flat_hash_map<Buffer, std::vector<int>> readers;  // the last of them first
    for (size_t i = p_.stages.size(); i-- > 0;) {
      if (!is_contraction_[i]) continue;
      const std::vector<Expr> extents = ExtentsOf(p_.stages[i]);
      for (Buffer b : inputs_[i]) {
        std::vector<int>& after = readers[b];
        std::vector<int> alike = {group_of_[i]};
        for (size_t k = after.size(); k-- > 0 && alike.size() < kMostProducts;) {
          const int g = group_of_[after[k]];
          if (std::count(alike.begin(), alike.end(), g) == 0 && ExtentsOf(p_.stages[after[k]]) == extents)
            alike.push_back(g);
        }
        after.push_back(static_cast<int>(i));
        // All, or two.
        if (alike.size() > 1 && !JoinIfCheaper(alike, kAny) && alike.size() > 2)
          JoinIfCheaper({alike[0], alike[1]}, kAny);
      }
    }
  }

  // Or a scan.
  bool IsReduction(int group) const { return IsReduction(members_[group]); }
  bool IsReduction(const std::vector<int>& stages) const {
    return std::any_of(stages.begin(), stages.end(), [&](int m) { return !p_.stages[m].IsPointwise(); });
  }

  // Groups in an order in which they can run, of which no more results leave than said. Whether they are one now.
  static constexpr size_t kAny = kMaxBuffers;
  bool JoinIfCheaper(const std::vector<int>& groups, size_t most_results = 1) {
    std::vector<int> merged;
    for (int g : groups) merged.insert(merged.end(), members_[g].begin(), members_[g].end());
    std::sort(merged.begin(), merged.end());
    if (merged.size() > kMaxStages || OutputsOf(merged).size() > most_results) return false;
    for (int m : merged) {
      for (int c : consumers_[m]) {
        const int g = group_of_[c];
        if (std::count(groups.begin(), groups.end(), g) > 0) continue;
        if (std::any_of(groups.begin(), groups.end(), [&](int to) { return reach_->Has(g, to); })) return false;
      }
    }
    const std::optional<double> together = PriceOf(merged);
    if (!together) return false;
    double apart = 0;
    for (int g : groups) apart += PriceOf(members_[g]).value_or(0);
    if (*together >= apart) return false;
    for (size_t k = 1; k < groups.size(); ++k) Unite(groups[0], groups[k]);
    return true;
  }

  // Of the cheapest tactic's kernel; nullopt if no tactic has one.
  std::optional<double> PriceOf(const std::vector<int>& stages) {
    const StatusOr<ExtractedGroup> group = ExtractGroup(p_, stages, OutputsOf(stages));
    if (!group.ok()) return std::nullopt;
    const StatusOr<Func> loops = ToLoops(group->program);
    if (!loops.ok()) return std::nullopt;
    std::string key = Cat(target_name_, p_.exact ? " exact\n" : "\n", Print(*loops));
    // What the text does not say of the caller's tensors.
    for (const Stage& s : group->program.stages) key += Cat(s.origin_row_alignment, s.is_convolution ? "c" : " ");
    std::optional<double> price;
    if (Prices::OfAll().Find(key, &price)) return price;
    TeProgram likely = group->program;
    likely.symbols = NearHints(likely, target_);
    const Bids bids = CollectBids(likely, target_);
    if (!bids.bids.empty()) price = bids.seconds();
    Prices::OfAll().Add(key, price);
    return price;
  }

  // Stages outside the group that it reads, largest first; but what a contraction reads would be computed again for
  // each of its results.
  std::vector<int> ProducersOf(const std::vector<int>& group) const {
    std::vector<int> r;
    for (int m : group) {
      if (is_contraction_[m]) continue;
      for (int q : producers_[m]) {
        if (group_of_[q] != group_of_[m] && std::find(r.begin(), r.end(), q) == r.end()) r.push_back(q);
      }
    }
    std::sort(r.begin(), r.end(), [&](int a, int b) { return Rank(a) != Rank(b) ? Rank(a) > Rank(b) : a > b; });
    return r;
  }

  // What is computed for checks is small beside what the checked numbers are for, whose loops it must not shape.
  bool Join(int producer, int reader) {
    if (is_check_[members_[producer][0]] != is_check_[members_[reader][0]]) return false;
    if (members_[producer].size() + members_[reader].size() > kMaxStages) return false;
    if (HasPathAround(producer, reader) || HasPathAround(reader, producer)) return false;
    std::vector<int> merged = members_[producer];
    merged.insert(merged.end(), members_[reader].begin(), members_[reader].end());
    std::sort(merged.begin(), merged.end());
    if (!CanShareKernel(merged)) return false;
    if (MayCost(merged)) {
      const std::optional<double> together = PriceOf(merged);
      const double apart = PriceOf(members_[producer]).value_or(0) + PriceOf(members_[reader]).value_or(0);
      if (!together || *together >= apart) return false;
    }
    Unite(producer, reader);
    return true;
  }

  void Unite(int producer, int reader) {
    std::vector<int>& merged = members_[producer];
    merged.insert(merged.end(), members_[reader].begin(), members_[reader].end());
    std::sort(merged.begin(), merged.end());
    for (int m : merged) group_of_[m] = producer;
    members_[reader].clear();
    has_contraction_[producer] =
        std::any_of(merged.begin(), merged.end(), [&](int m) { return is_contraction_[m] && !IsRowSum(m, merged); });
    reach_->Join(producer, reader, [&](int g) {
      std::vector<int> r;
      for (int m : members_[g]) {
        for (int q : producers_[m]) {
          if (group_of_[q] != g) r.push_back(group_of_[q]);
        }
      }
      return r;
    });
  }

  // Whether one kernel for all may take longer than several: where what moves ends in rows and in columns and no block
  // of a GPU holds both, memory moves whole sectors for single elements; results that are written in the order of
  // what others read may lie across it; and loops of several results that move elements in different orders have no
  // tiles for all of them:
  //   y = exp(x), z = tanh(transpose(x))
  bool MayCost(const std::vector<int>& group) const {
    const bool reduces = IsReduction(group);
    const std::vector<Buffer> outputs = OutputsOf(group);
    if (!reduces && outputs.size() < 2) return false;
    std::vector<Stage> stages;
    for (int i : group) stages.push_back(p_.stages[i]);
    const auto kept = InlineGroup(c_, stages, outputs, p_.symbols);
    if (!kept) return false;
    const auto is_aligned = [](const Stage& s) { return !s.at.empty(); };
    return (reduces && std::any_of(kept->begin(), kept->end(), is_aligned)) ||
           ((target_.IsGpu() || !reduces) && MovesAcross(*kept, outputs));
  }

  size_t Rank(int i) const { return p_.stages[i].iters.size(); }

  // Some third group reads group `from` and is read, perhaps through others, by group `to`.
  bool HasPathAround(int from, int to) const {
    if (!reach_->Has(from, to)) return false;
    for (int m : members_[from]) {
      for (int c : consumers_[m]) {
        const int g = group_of_[c];
        if (g != from && g != to && reach_->Has(g, to)) return true;
      }
    }
    return false;
  }

  std::vector<Buffer> OutputsOf(const std::vector<int>& group) const {
    std::vector<Buffer> r;
    for (int i : group) {
      for (Buffer b : p_.stages[i].outputs) {
        bool leaves = results_.contains(b);
        for (int c : consumers_[i]) {
          leaves = leaves || (!std::binary_search(group.begin(), group.end(), c) && Contains(inputs_[c], b));
        }
        if (leaves) r.push_back(b);
      }
    }
    return r;
  }

  bool CanShareKernel(const std::vector<int>& group) {
    absl::flat_hash_set<Buffer> buffers;
    for (int i : group) buffers.insert(inputs_[i].begin(), inputs_[i].end());
    if (buffers.size() > kMaxBuffers) return false;
    const std::vector<Buffer> outputs = OutputsOf(group);
    // A contraction that reads nothing of the group stays what it is: it needs an epilogue, which has no reduction and
    // whose results alone leave.
    const bool stays = std::any_of(group.begin(), group.end(), [&](int i) {
      return is_contraction_[i] && !IsRowSum(i, group) &&
             std::none_of(producers_[i].begin(), producers_[i].end(),
                          [&](int q) { return std::binary_search(group.begin(), group.end(), q); });
    });
    const auto reductions =
        std::count_if(group.begin(), group.end(), [&](int i) { return !p_.stages[i].IsPointwise(); });
    if (stays && (outputs.size() != 1 || reductions != 1)) return false;
    std::vector<Stage> stages;
    stages.reserve(group.size());
    for (int i : group) stages.push_back(p_.stages[i]);
    auto kept = InlineGroup(c_, stages, outputs, p_.symbols);
    if (!kept) return false;
    // Only on CPUs does a tactic take scans along with others than what reads them where they are.
    const auto scans = [](const Stage& s) { return s.IsScan(); };
    if (target_.HasKernels() && kept->size() > 1 && std::any_of(kept->begin(), kept->end(), scans))
      return IsScanWithReaders(*kept, outputs);
    const bool contraction = std::any_of(kept->begin(), kept->end(), [&](const Stage& s) {
      const auto same = [&](int i) { return p_.stages[i].outputs == s.outputs && IsRowSum(i, group); };
      return FindContraction(s) && std::none_of(group.begin(), group.end(), same);
    });
    if (!contraction) {
      return FindRowSpace(*kept) ||
             (target_.IsGpu() == target_.HasKernels() && FindColumnSums(c_, *kept, !target_.IsGpu()) && PriceOf(group));
    }
    return IsEpilogue(p_, target_, *kept, outputs);
  }

  // Contraction `i` is of a matrix and a vector, and others of `group` read the matrix, too: it is read once then, and
  // its rows are summed as any.
  bool IsRowSum(int i, const std::vector<int>& group) const {
    if (!is_contraction_[i]) return false;
    const std::optional<Contraction> con = FindContraction(p_.stages[i]);
    if (!con || (!con->m.empty() && !con->n.empty())) return false;
    const Buffer matrix = (con->m.empty() ? con->rhs : con->lhs)->buffer;
    return std::any_of(group.begin(), group.end(), [&](int j) { return j != i && Contains(inputs_[j], matrix); });
  }

  // The groups, each after those it reads.
  std::vector<std::vector<int>> Order() const {
    std::vector<std::vector<int>> r;
    std::vector<bool> seen(members_.size(), false);
    // Groups under way, and those that each still waits for; a chain of them may be longer than a stack is deep.
    std::vector<std::pair<int, std::vector<int>>> open;
    auto enter = [&](int g) {
      if (seen[g]) return;
      seen[g] = true;
      std::vector<int> needs;
      for (int m : members_[g]) {
        for (int q : producers_[m]) {
          if (group_of_[q] != g) needs.push_back(group_of_[q]);
        }
      }
      std::reverse(needs.begin(), needs.end());
      open.push_back({g, std::move(needs)});
    };
    for (size_t i = 0; i < group_of_.size(); ++i) {
      enter(group_of_[i]);
      while (!open.empty()) {
        auto& [g, needs] = open.back();
        if (needs.empty()) {
          r.push_back(members_[g]);
          open.pop_back();
        } else {
          const int next = needs.back();
          needs.pop_back();
          enter(next);
        }
      }
    }
    return r;
  }

  TeProgram p_;
  Context& c_;
  const Target& target_;
  absl::flat_hash_set<Buffer> results_;
  // By stage:
  std::vector<std::vector<Buffer>> inputs_;
  std::vector<std::vector<int>> producers_, consumers_;
  std::vector<bool> is_contraction_, is_check_;
  std::vector<int> group_of_;
  // By group:
  std::vector<std::vector<int>> members_;
  std::vector<bool> has_contraction_;
  std::optional<Reachability> reach_;
  std::string target_name_;
};

}  // namespace

StatusOr<FusionPlan> PlanFusion(TeProgram program, bool fuse, const Target& target) {
  return Planner(std::move(program), target).Run(fuse);
}

}  // namespace cinn_like::hlir
