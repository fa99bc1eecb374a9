#include "hlir/tactics/chain_roles.h"

#include <algorithm>

#include "hlir/stage_analysis.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

using Role = ChainRole;

bool IsOne(const StageIter& i) { return IsInt(i.extent, 1); }

class Finder {
 public:
  Finder(const TeProgram& group, Schedule& s) : group_(group), s_(s) {}

  std::optional<Chain> Run() {
    if (!FindSum() || !FindRoles()) return std::nullopt;
    return std::move(chain_);
  }

 private:
  const std::vector<Stage>& stages() const { return s_.stages()->stages; }
  bool IsResult(const Stage& s) const {
    return std::any_of(group_.params.begin(), group_.params.end(),
                       [&](const Param& p) { return p.role == ParamRole::kResult && p.buffer == s.outputs[0]; });
  }

  size_t CountContractions() const {
    return static_cast<size_t>(
        std::count_if(stages().begin(), stages().end(), [](const Stage& s) { return FindContraction(s).has_value(); }));
  }

  // What a product computes of other stages' results before it multiplies (probabilities under a mask) is a stage.
  void KeepFactors() {
    for (size_t k = stages().size(); k-- > 0;) {
      const Stage& s = stages()[k];
      const auto product = FindProduct(s);
      if (!product || FindContraction(s)) continue;
      for (Expr factor : {product->lhs, product->rhs}) {
        bool is_inner = false;
        VisitLoads(factor, [&](Expr e) {
          is_inner |= std::any_of(stages().begin(), stages().end(),
                                  [&](const Stage& x) { return &x != &s && Contains(x.outputs, e->buffer); });
        });
        if (!is_inner || !IsComputed(factor) || !PrintsWithin(factor, kMostNodesOfStep)) continue;
        std::string iters;
        for (const auto* list : {&s.iters, &s.reduce_iters}) {
          for (const StageIter& i : *list) {
            if (Uses(factor, i.var)) iters += Cat(iters.empty() ? "" : ", ", i.var->name);
          }
        }
        if (s_.Try(Cat("define ", s_.Fresh("factor"), "[", iters, "] = ", Print(factor)))) return;
      }
    }
  }

  // The second contraction, perhaps without what its elements have in common; its results are an allocation's, and what
  // follows runs over the same iterators.
  bool FindSum() {
    const std::string name = s_.Fresh("sum");
    for (size_t k = stages().size(); k-- > 0 && CountContractions() < 2;) {
      if (stages()[k].IsReduction() && !FindContraction(stages()[k]))
        s_.Try(Cat("hoist ", stages()[k].name, " -> ", name));
    }
    if (CountContractions() < 2) KeepFactors();
    if (CountContractions() != 2) return false;
    size_t sum = 0;
    for (size_t k = 0; k < stages().size(); ++k) {
      if (FindContraction(stages()[k])) sum = k;
    }
    chain_.sum = stages()[sum].name;
    if (IsResult(stages()[sum]) && !s_.Try(Cat("keep ", stages()[sum].outputs[0]->name, " -> ", name))) return false;
    std::vector<std::string> aligned = {chain_.sum};
    for (size_t k = sum + 1; k < stages().size(); ++k) {
      const Stage s = stages()[k];
      if (s.IsReduction()) continue;
      for (const std::string& to : aligned) {
        if (s_.Try(Cat("align ", s.name, " ", to))) {
          aligned.push_back(s.name);
          break;
        }
      }
    }
    return true;
  }

  // Iterators that are one dimension, or digits of one: those that a stage reads another one's dimension with. Of all
  // stages these are the keys, which the second contraction sums over, the rows, the last that only the first one's
  // other operand has, the features, which only the second one has, and the rest.
  bool FindRoles() {
    const std::vector<Stage>& all = stages();
    size_t sum = 0, scores = 0;
    while (all[sum].name != chain_.sum) ++sum;
    while (!FindContraction(all[scores])) ++scores;
    chain_.scores = all[scores].name;
    const auto con = FindContraction(all[scores]);
    absl::flat_hash_map<Expr, Expr> parent;
    const auto find = [&](Expr v) {
      for (auto it = parent.find(v); it != parent.end() && it->second != v; it = parent.find(v)) v = it->second;
      return v;
    };
    absl::flat_hash_map<Buffer, const Stage*> writer;
    for (const Stage& s : all) {
      if (s.outputs.size() != 1 || (!s.at.empty() && &s != &all.back())) return false;
      for (Expr v : s.values) {
        VisitLoads(v, [&](Expr e) {
          auto it = writer.find(e->buffer);
          for (size_t d = 0; it != writer.end() && d < it->second->iters.size(); ++d) {
            for (Expr x : VarsOf(e->args[d])) {
              if (!IsSymbol(x)) parent[find(x)] = find(it->second->iters[d].var);
            }
          }
        });
      }
      writer[s.outputs[0]] = &s;
    }
    const auto only = [&](const std::vector<StageIter>& iters) {
      const StageIter* r = nullptr;
      for (const StageIter& i : iters) {
        if (IsOne(i)) continue;
        if (r != nullptr) return static_cast<const StageIter*>(nullptr);
        r = &i;
      }
      return r;
    };
    const StageIter* key = only(all[sum].reduce_iters);
    if (key == nullptr) return false;
    chain_.keys = key->extent;
    const auto has_key = [&](const std::vector<StageIter>& side) {
      return std::any_of(side.begin(), side.end(), [&](const StageIter& i) { return find(i.var) == find(key->var); });
    };
    const bool swapped = has_key(con->m);
    if (only(swapped ? con->m : con->n) == nullptr || !has_key(swapped ? con->m : con->n)) return false;
    absl::flat_hash_map<Expr, Role> of;
    Expr row = nullptr;
    for (const StageIter& i : swapped ? con->n : con->m) {
      if (!IsOne(i)) row = find(i.var), chain_.rows = i.extent;
    }
    if (row == nullptr) return false;
    for (const StageIter& i : all[scores].iters) of[find(i.var)] = Role::kBatch;
    of[find(key->var)] = Role::kKey, of[row] = Role::kRow;
    for (const StageIter& i : all[scores].reduce_iters) {
      if (!IsInt(i.extent)) return false;
      of[find(i.var)] = Role::kDepth;
      chain_.depth *= TypicalSize(i.extent, group_.symbols);
    }
    for (const StageIter& i : all[sum].iters) {
      if (IsOne(i) || of.contains(find(i.var))) continue;
      if (chain_.features != nullptr) return false;
      of[find(i.var)] = Role::kFeature, chain_.features = i.extent;
    }
    if (chain_.features == nullptr || !IsInt(chain_.features)) return false;
    // Every stage runs over what it should.
    for (const Stage& s : all) {
      size_t counts[5] = {};
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        const bool reduced = list == &s.reduce_iters;
        for (const StageIter& i : *list) {
          if (IsOne(i)) continue;
          auto it = of.find(find(i.var));
          if (it == of.end()) return false;
          if (reduced ? it->second != (s.name == chain_.scores ? Role::kDepth : Role::kKey)
                      : it->second == Role::kDepth)
            return false;
          chain_.roles[i.var] = it->second;
          ++counts[static_cast<size_t>(it->second)];
        }
      }
      const auto count = [&](Role r) { return counts[static_cast<size_t>(r)]; };
      const bool is_last = !s.IsReduction() && count(Role::kFeature) > 0;
      if (count(Role::kRow) == 0 || count(Role::kKey) > 1 || count(Role::kFeature) > 1) return false;
      if (s.IsReduction() && s.name != chain_.scores && count(Role::kKey) != 1) return false;
      if (is_last && count(Role::kKey) > 0) return false;
      if (s.name != chain_.sum && s.IsReduction() && count(Role::kFeature) > 0) return false;
      (is_last ? chain_.last : chain_.inner).push_back(s.name);
    }
    return !chain_.last.empty() && chain_.last.back() == all.back().name;
  }

  bool IsSymbol(Expr v) const {
    return std::any_of(group_.symbols.begin(), group_.symbols.end(), [&](const SymbolFact& f) { return f.var == v; });
  }

  const TeProgram& group_;
  Schedule& s_;
  Chain chain_;
};

}  // namespace

std::optional<ChainRole> Chain::RoleOf(Expr var) const {
  auto it = roles.find(var);
  return it == roles.end() ? std::nullopt : std::optional(it->second);
}

const StageIter* Chain::IterOf(const Stage& s, ChainRole role) const {
  for (const auto* list : {&s.iters, &s.reduce_iters}) {
    for (const StageIter& i : *list) {
      if (!IsOne(i) && RoleOf(i.var) == role) return &i;
    }
  }
  return nullptr;
}

const Stage& Chain::StageOf(const std::string& name) const { return StageNamed(stages, name); }

bool MayBeChain(const TeProgram& group) {
  const auto is_reduction = [](const Stage& s) { return s.IsReduction(); };
  const auto is_scan = [](const Stage& s) { return s.IsScan(); };
  const auto is_contraction = [](const Stage& s) { return FindContraction(s).has_value(); };
  const auto is_result = [](const Param& p) { return p.role == ParamRole::kResult; };
  return std::count_if(group.stages.begin(), group.stages.end(), is_reduction) >= 3 &&
         std::any_of(group.stages.begin(), group.stages.end(), is_contraction) &&
         std::none_of(group.stages.begin(), group.stages.end(), is_scan) &&
         std::count_if(group.params.begin(), group.params.end(), is_result) == 1;
}

std::optional<Chain> FindChain(const TeProgram& group, Schedule& s) { return Finder(group, s).Run(); }

}  // namespace cinn_like::hlir
