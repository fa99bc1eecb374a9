#include "hlir/place_checks.h"

#include <algorithm>
#include <map>

#include "ir/analyzer.h"
#include "ir/index_map.h"
#include "ir/schedule/stage_parts.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

class Placer {
 public:
  explicit Placer(TeProgram p) : p_(std::move(p)), c_(*p_.context), analyzer_(c_), names_(NamesOf(p_)) {
    for (const SymbolFact& f : p_.symbols) analyzer_.BindSymbol(f);
    for (const Param& q : p_.params) {
      if (q.role == ParamRole::kResult) results_.insert(q.buffer);
    }
    for (const Stage& s : p_.stages) {
      for (Buffer b : InputsOf(s)) readers_[b].push_back(&s);
    }
  }

  TeProgram Run(const absl::flat_hash_set<std::string>& apart) {
    std::vector<bool> in_readers;
    absl::flat_hash_set<std::string> texts;
    for (const RangeCheck& check : p_.checks)
      in_readers.push_back(!apart.contains(check.what) && texts.insert(check.what).second &&
                           IsReadWhole(check.values, Dims(check.values->shape.size(), true)));
    std::vector<Stage> stages;
    for (Stage& s : p_.stages) {
      const auto is_of = [&](const RangeCheck& check) {
        return s.outputs[0] == check.values || s.outputs[0] == check.low || s.outputs[0] == check.high;
      };
      const auto check = std::find_if(p_.checks.begin(), p_.checks.end(), is_of);
      if (check == p_.checks.end()) {
        stages.push_back(std::move(s));
        continue;
      }
      if (s.outputs[0] != check->values) continue;  // the numbers are not needed
      Stage checked = s;
      const DType t = check->values->dtype;
      checked.values = {
          c_.Cast(t, c_.Checked(c_.Cast(DType::kI64, s.values[0]), check->begin, check->end, check->what))};
      if (!in_readers[static_cast<size_t>(check - p_.checks.begin())]) {
        stages.push_back(std::move(s));
        checked.name = names_.Fresh("checked");
        checked.outputs = {c_.MakeBuffer({.name = checked.name, .dtype = t, .shape = check->values->shape})};
        p_.kept.push_back(checked.outputs[0]);
      }
      stages.push_back(std::move(checked));
    }
    p_.stages = std::move(stages);
    p_.checks.clear();
    return std::move(p_);
  }

 private:
  using Dims = std::vector<bool>;

  // For all indices along these dimensions an element is computed that some result needs, whatever the others are.
  bool IsReadWhole(Buffer b, const Dims& dims) {
    if (results_.contains(b)) return true;
    const auto [it, fresh] = whole_.try_emplace({b, dims}, false);
    if (!fresh) return it->second;
    bool r = false;
    for (const Stage* s : readers_[b]) {
      if (s->IsCall() || !s->at.empty()) continue;
      VisitLoads(s->values[0], [&](Expr e) {
        r = r || (e->buffer == b && (Covers(*s, e, dims) || Covers(*s, e, Dims(dims.size(), true))));
      });
    }
    return whole_[{b, dims}] = r;
  }

  bool Covers(const Stage& s, Expr load, const Dims& dims) {
    std::vector<Expr> map, shape;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!dims[d]) continue;
      map.push_back(load->args[d]);
      shape.push_back(load->buffer->shape[d]);
    }
    std::vector<Expr> asked = map;
    if (load->has_mask) asked.push_back(MaskOf(load));
    if (std::any_of(asked.begin(), asked.end(), [](Expr e) { return e->reads; })) return false;
    // Iterations that say something about it, and where these lie in the stage's own result.
    std::vector<StageIter> within;
    Dims own;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) {
        const bool matters = std::any_of(asked.begin(), asked.end(), [&](Expr e) { return Uses(e, i.var); });
        if (list == &s.iters) own.push_back(matters);
        if (matters)
          within.push_back(i);
        else if (analyzer_.ConstBounds(i.extent).lo < 1)
          return false;  // there may be no iteration
      }
    }
    return Reaches(within, map, shape, MaskOf(load)) && IsReadWhole(s.outputs[0], own);
  }

  // Whether there is an iteration for each index, under the mask.
  bool Reaches(const std::vector<StageIter>& iters, const std::vector<Expr>& map, const std::vector<Expr>& shape,
               Expr mask) {
    std::vector<Expr> at;
    for (Expr extent : shape) {
      at.push_back(c_.Var(names_.Fresh("at")));
      analyzer_.BindRange(at.back(), c_.Int(0), extent);
    }
    if (mask == nullptr && InvertIndexMap(analyzer_, iters, map, shape, at)) return true;
    // An iterator of its own along each dimension, displaced; where others only say whether, their first iteration.
    VarMap to;
    Expr holds = c_.Bool(true);
    for (size_t d = 0; d < map.size(); ++d) {
      const auto moves = [&](Expr e) {
        return std::any_of(iters.begin(), iters.end(), [&](const StageIter& i) { return Uses(e, i.var); });
      };
      if (IsInt(shape[d], 1) && !moves(map[d])) continue;
      const auto i = std::find_if(iters.begin(), iters.end(), [&](const StageIter& x) {
        return !to.contains(x.var) && Uses(map[d], x.var) && !moves(analyzer_.Simplify(c_.Sub(map[d], x.var)));
      });
      if (i == iters.end()) return false;
      const Expr value = c_.Sub(at[d], analyzer_.Simplify(c_.Sub(map[d], i->var)));
      holds = c_.And(holds, c_.And(c_.Le(c_.Int(0), value), c_.Lt(value, i->extent)));
      to[i->var] = value;
    }
    for (const StageIter& i : iters) {
      if (to.try_emplace(i.var, c_.Int(0)).second) holds = c_.And(holds, c_.Lt(c_.Int(0), i.extent));
    }
    if (mask != nullptr) holds = c_.And(holds, Substitute(c_, mask, to));
    return analyzer_.CanProve(holds);
  }

  TeProgram p_;
  Context& c_;
  Analyzer analyzer_;
  NameSupply names_;
  absl::flat_hash_set<Buffer> results_;
  std::map<std::pair<Buffer, Dims>, bool> whole_;
  absl::flat_hash_map<Buffer, std::vector<const Stage*>> readers_;
};

}  // namespace

TeProgram PlaceChecks(TeProgram p, const Target& target, const absl::flat_hash_set<std::string>& apart) {
  if (p.checks.empty()) return p;
  if (target.device->kernels_assert) return Placer(std::move(p)).Run(apart);
  for (const RangeCheck& check : p.checks) p.kept.insert(p.kept.end(), {check.low, check.high});
  return p;
}

absl::flat_hash_set<std::string> ChecksOf(const TeProgram& p) {
  absl::flat_hash_set<std::string> r;
  for (const Stage& s : p.stages) {
    for (Expr e : s.values) {
      Visit(e, [&](Expr x) {
        if (x->op == ExprOp::kChecked) r.insert(x->name);
        return x->checks;
      });
    }
  }
  return r;
}

Status CheckIsLowered(const TeProgram& group, const Module& kernel) {
  absl::flat_hash_set<std::string> lost = ChecksOf(group);
  if (lost.empty()) return absl::OkStatus();
  for (const Func& f : kernel.funcs) {
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const Call* n = As<Call>(s); n != nullptr && n->callee == "cinn_range_error") lost.erase(n->text);
      return true;
    });
  }
  RET_CHECK(lost.empty(), "nothing checks '", *lost.begin(), "' any more:\n", Print(kernel));
  return absl::OkStatus();
}

}  // namespace cinn_like::hlir
