#include "hlir/tactics/chain_steps.h"

#include <algorithm>

#include "hlir/stage_analysis.h"
#include "ir/schedule/tree.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

bool IsOne(const StageIter& i) { return IsInt(i.extent, 1); }

std::string LetterOf(ChainRole role) {
  switch (role) {
    case ChainRole::kBatch:
      return "b";
    case ChainRole::kRow:
      return "i";
    case ChainRole::kKey:
      return "j";
    case ChainRole::kFeature:
      return "d";
    case ChainRole::kDepth:
      return "k";
  }
  return "";
}

const Stage& Now(const Schedule& s, const std::string& name) { return StageNamed(s.stages()->stages, name); }

}  // namespace

void FoldRoles(Schedule& s, Chain& chain, RoleOrder order, bool reductions) {
  for (const std::string& name : chain.inner) {
    const Stage stage = Now(s, name);
    std::string step = Cat("fold ", name, " ->");
    RoledNames made;
    for (const auto* list : {&stage.iters, &stage.reduce_iters}) {
      if (list == &stage.reduce_iters && !reductions) continue;
      for (const ChainRole role : order) {
        std::string digits;
        for (const StageIter& i : *list) {
          if (!IsOne(i) && chain.RoleOf(i.var) == role) digits += Cat(digits.empty() ? "" : ", ", i.var->name);
        }
        if (digits.empty()) continue;
        made.emplace_back(s.Fresh(Cat(LetterOf(role), "_", name)), role);
        step += Cat(" ", made.back().first, "[", digits, "]");
      }
    }
    if (!s.Run(step).status().ok()) return;
    const Stage& folded = Now(s, name);
    for (const auto* list : {&folded.iters, &folded.reduce_iters}) {
      for (const StageIter& i : *list) {
        for (const auto& [var, role] : made) {
          if (i.var->name == var) chain.roles[i.var] = role;
        }
      }
    }
  }
}

void DefineInner(Schedule& s, Chain& chain, const std::string& name, const RoledNames& at, Expr value,
                 const std::string& reader) {
  std::string iters;
  for (const auto& [var, role] : at) iters += Cat(iters.empty() ? "" : ", ", var);
  if (!s.Run(Cat("define ", name, "[", iters, "] = ", Print(value))).status().ok()) return;
  if (std::count(chain.inner.begin(), chain.inner.end(), name) > 0) return;
  const Stage& made = Now(s, name);
  for (size_t d = 0; d < made.iters.size(); ++d) chain.roles[made.iters[d].var] = at[d].second;
  chain.inner.insert(std::find(chain.inner.begin(), chain.inner.end(), reader), name);
}

bool KeepElement(Schedule& s, Chain& chain, const std::string& reduction, RoleOrder order) {
  const Stage stage = Now(s, reduction);
  Context& c = *s.stages()->context;
  const Expr running = RunningOf(c, stage)[0];
  const Expr element = stage.values[0]->args[stage.values[0]->args[0] == running ? 1 : 0];
  const std::string kept = s.Fresh("kept");
  for (const std::string& reader : std::vector<std::string>(chain.inner)) {
    const Stage r = Now(s, reader);
    VarMap map;
    RoledNames at;
    for (const ChainRole role : order) {
      const StageIter *own = chain.IterOf(stage, role), *twin = chain.IterOf(r, role);
      if (own == nullptr || twin == nullptr) continue;
      map[own->var] = twin->var;
      at.emplace_back(twin->var->name, role);
    }
    const Expr value = Substitute(c, element, map);
    bool found = false;
    for (Expr v : r.values) {
      Visit(v, [&](Expr e) { return !(found |= e == value); });
    }
    if (!found) continue;
    if (!PrintsWithin(value, kMostNodesOfStep)) return false;
    DefineInner(s, chain, kept, at, value, reader);
    if (!s.status().ok()) return true;
  }
  return true;
}

RoledNames LoopsByRole(const Schedule& s, const Chain& chain, const Stage& stage) {
  RoledNames r;
  for (const auto* list : {&stage.iters, &stage.reduce_iters}) {
    for (const StageIter& i : *list) {
      const auto role = chain.RoleOf(i.var);
      if (!IsOne(i) && role && role != ChainRole::kBatch) r.emplace_back("", *role);
    }
  }
  const std::vector<std::string> names = s.LoopsAround("b_" + stage.name);
  for (size_t k = 0; k < r.size() && k < names.size(); ++k) r[r.size() - 1 - k].first = names[names.size() - 1 - k];
  return r;
}

std::string TileRows(Schedule& s, const Chain& chain, int64_t rows) {
  const Stage& out = chain.StageOf(chain.last.back());
  const std::vector<std::string> names = s.LoopsAround("b_" + out.name);
  std::string fuse = "fuse", order = "reorder", row_loops, columns;
  size_t next = 0;
  for (const StageIter& i : out.iters) {
    if (IsOne(i) || next == names.size()) continue;
    const std::string& loop = names[next++];
    const auto role = chain.RoleOf(i.var);
    if (role == ChainRole::kBatch) {
      order += " " + loop, fuse += " " + loop;
    } else if (role == ChainRole::kRow) {
      row_loops += " " + loop;
    } else {
      columns = loop;
    }
  }
  s.Run(order + row_loops + " " + columns).Run("fuse" + row_loops + " -> ir");
  s.Step("split ir ", rows, " -> io ii").Run(fuse + " io -> p");
  for (size_t k = 0; k + 1 < chain.last.size(); ++k) s.Step("inline b_", chain.last[k]);
  return columns;
}

KeyLoop ChainKeys(Schedule& s, const Chain& chain, int64_t tile, const std::string& around_sum) {
  KeyLoop r;
  std::string loops;
  bool needs = false;
  // In the order in which they stand.
  std::vector<const Stage*> stages;
  for (const StmtPath& path : FindBlocks(s.func())) {
    for (const std::string& name : chain.inner) {
      if (As<Block>(path.back())->name == "b_" + name) stages.push_back(&chain.StageOf(name));
    }
  }
  for (const Stage* stage : stages) {
    const std::string block = "b_" + stage->name;
    std::string order = stage->name == chain.sum && !around_sum.empty() ? " " + around_sum : "", outer;
    for (const auto& [loop, role] : LoopsByRole(s, chain, *stage)) {
      if (role == ChainRole::kKey) {
        outer = s.Fresh("jo");
        const std::string inner = s.Fresh("ji");
        s.Step("split ", loop, " ", tile, " -> ", outer, " ", inner);
        order += " " + inner;
      } else {
        order += " " + loop;
      }
    }
    if (outer.empty()) continue;
    s.Run("reorder " + outer + order);
    loops += " " + outer;
    if (r.loop.empty()) r.loop = outer;
    if (stage->IsReduction() && stage->name != chain.scores) {
      r.starts.push_back(s.Fresh(block + "_init"));
      s.Step("split_init ", block, " ", outer, " -> ", r.starts.back());
      needs = needs || stage->values[0]->op == ExprOp::kMax;
      r.sums.push_back(stage->outputs[0]->name);
    } else {
      s.Step("pad ", block);
    }
  }
  if (needs) r.by = s.Fresh("by");
  // Keys of a single tile are merged.
  if (needs && s.Try(Cat("chain", loops, " -> ", r.by))) return r;
  r.by.clear();
  s.Run("merge" + loops);
  return r;
}

std::vector<std::string> KeyLoop::MadeBlocks(Schedule& s, std::string_view scope) const {
  std::vector<std::string> made = starts;
  if (by.empty()) return made;
  for (const char* suffix : {"", "_old"}) {
    made.push_back(Cat("b_", by, suffix));
    s.Step("scope ", by, suffix, " ", scope);
  }
  for (const std::string& sum : sums) {
    if (!s.LoopsAround(Cat("b_", by, "_", sum)).empty()) made.push_back(Cat("b_", by, "_", sum));
  }
  return made;
}

}  // namespace cinn_like::hlir
