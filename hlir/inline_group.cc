#include "hlir/inline_group.h"

#include <algorithm>

#include "hlir/row_space.h"
#include "hlir/stage_analysis.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: this file speaks of nothing else

namespace {

// Estimated operations that one element may take where it is read at several places, for all of them: about what
// writing it and reading it again takes. A chain of such reads would multiply them at every link: steps of a stencil, a
// concatenation of parts of a concatenation.
constexpr int kMostRepeated = 64;

constexpr int kMostLevels = 160;  // of a stage's value, so that its text can be read again

// Whether `s` may go to the places of `to`: a view to those of whatever it rearranges, what computes more to those of
// what reduces what it reads. That may be across memory; fusion asks for the price of what was aligned.
bool MayAlign(const Stage& s, const Stage& to) {
  if (FindContraction(to)) return false;  // the tactics for products move their epilogues themselves
  const std::vector<Buffer> mine = InputsOf(s), its = InputsOf(to);
  const auto is_input = [&](Buffer b) { return Contains(mine, b); };
  return (IsView(s) && std::any_of(to.outputs.begin(), to.outputs.end(), is_input)) ||
         (to.IsReduction() && std::any_of(its.begin(), its.end(), is_input));
}

// Stages that no other reads go to the places of a stage before, where both have one row space then: a 16-bit copy of
// another shape, images normalised by groups of their channels. nullopt: there are none.
std::optional<std::vector<Stage>> AlignResults(Context& c, std::vector<Stage> stages,
                                               const std::vector<SymbolFact>& symbols) {
  bool moved = false;
  for (size_t k = 1; k < stages.size(); ++k) {
    const Stage& s = stages[k];
    const auto reads = [&](const Stage& x) {
      const std::vector<Buffer> inputs = InputsOf(x);
      return std::any_of(s.outputs.begin(), s.outputs.end(), [&](Buffer b) { return Contains(inputs, b); });
    };
    if (!s.IsPointwise() || !s.at.empty() || std::any_of(stages.begin(), stages.end(), reads)) continue;
    for (size_t j = 0; j < k; ++j) {
      const Stage& to = stages[j];
      if (!MayAlign(s, to) || FindRowSpace({to, s})) continue;
      std::vector<std::string> names;
      for (size_t d = 0; d < to.iters.size() + to.reduce_iters.size(); ++d) names.push_back(Cat(s.name, "_at", d));
      Analyzer a(c);
      for (const SymbolFact& f : symbols) a.BindSymbol(f);
      StatusOr<Stage> there = AlignStage(a, s, to, names);
      if (!there.ok() || !FindRowSpace({to, *there})) continue;
      stages[k] = *std::move(there);
      moved = true;
      break;
    }
  }
  return moved ? std::optional(std::move(stages)) : std::nullopt;
}

}  // namespace

std::optional<std::vector<Stage>> InlineGroup(Context& c, std::vector<Stage> stages, const std::vector<Buffer>& outputs,
                                              const std::vector<SymbolFact>& symbols) {
  // More dimensions than those of `s` and more values than a rest adds where one dimension was cut into two.
  auto is_wider = [&](const Stage& reader, const Stage& s) {
    int dims[2] = {0, 0};
    double values[2] = {1, 1};
    for (const Stage* x : {&reader, &s}) {
      for (const auto* list : {&x->iters, &x->reduce_iters}) {
        for (const StageIter& i : *list) dims[x == &s] += !IsInt(i.extent, 1);
        values[x == &s] *= TypicalSize(*list, symbols);
      }
    }
    return dims[0] > dims[1] && values[0] >= 2 * values[1];
  };
  auto has_iter = [](const Stage& s, Expr e) {
    const auto is_it = [e](const StageIter& i) { return i.var == e; };
    return std::any_of(s.iters.begin(), s.iters.end(), is_it) ||
           std::any_of(s.reduce_iters.begin(), s.reduce_iters.end(), is_it);
  };
  std::vector<std::vector<Expr>> loads;
  for (const Stage& s : stages) loads.push_back(LoadsOf(s));
  std::vector<Stage> kept;
  bool all_plain = true;  // readers find what stays at their own point
  for (size_t k = 0; k < stages.size(); ++k) {
    const Stage& s = stages[k];
    if (!s.IsPointwise() || s.values.size() != 1 || Contains(outputs, s.outputs[0])) {
      kept.push_back(std::move(stages[k]));
      continue;
    }
    const Buffer b = s.outputs[0];
    std::vector<size_t> readers;
    int places = 0;  // of which the one that is a reader's own counts once for all readers
    bool plain = true, own = false, wider = false;
    for (size_t j = k + 1; j < stages.size(); ++j) {
      bool reads = false;
      for (Expr e : loads[j]) {
        if (e->buffer != b) continue;
        reads = true;
        bool here = !e->has_mask;
        for (size_t d = 0; d < s.iters.size(); ++d)
          here &= IsInt(s.iters[d].extent, 1) || has_iter(stages[j], e->args[d]);
        places += !here;
        own |= here;
        plain &= here;
      }
      if (!reads) continue;
      readers.push_back(j);
      wider |= is_wider(stages[j], s);
    }
    places += own;
    const int cost = CostOf(s.values[0]);
    const bool costly = cost >= kCostly;
    if (costly && (readers.size() > 1 || wider) && (plain || wider)) {
      all_plain &= plain;
      kept.push_back(std::move(stages[k]));
      continue;
    }
    if (places > 1 && cost * places > kMostRepeated) return std::nullopt;
    const std::vector<Expr> vars = VarsOf(s.iters);
    for (size_t j : readers) {
      for (Expr& v : stages[j].values) v = InlineLoads(c, v, b, vars, s.values[0]);
      loads[j] = LoadsOf(stages[j]);
    }
    for (size_t j = k + 1; j < stages.size(); ++j) {
      for (Expr v : stages[j].values) {
        if (v->depth > kMostLevels) return std::nullopt;
      }
    }
  }
  if (FindRowSpace(kept)) return kept;
  std::optional<std::vector<Stage>> aligned = AlignResults(c, kept, symbols);
  if (aligned && FindRowSpace(*aligned)) return aligned;
  return all_plain ? std::optional(std::move(kept)) : std::nullopt;
}

}  // namespace cinn_like::hlir
