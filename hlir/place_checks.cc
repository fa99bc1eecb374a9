#include "hlir/place_checks.h"

#include <algorithm>

#include "ir/analyzer.h"
#include "ir/index_map.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and expressions are all there is here

namespace {

class Placer {
 public:
  explicit Placer(TeProgram p) : p_(std::move(p)), c_(*p_.context), analyzer_(c_) {
    for (const SymbolFact& f : p_.symbols) analyzer_.BindSymbol(f);
    for (const Param& q : p_.params) {
      if (q.role == ParamRole::kResult) whole_[q.buffer] = true;
    }
    for (const Stage& s : p_.stages) {
      for (Buffer b : InputsOf(s)) readers_[b].push_back(&s);
    }
  }

  TeProgram Run(const absl::flat_hash_set<std::string>& apart) {
    std::vector<bool> in_readers;
    absl::flat_hash_set<std::string> texts;
    for (const RangeCheck& check : p_.checks)
      in_readers.push_back(!apart.contains(check.what) && texts.insert(check.what).second && IsReadWhole(check.values));
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
  // Every element is computed, or is where it stands in what some result needs: no mask is around it.
  bool IsReadWhole(Buffer b) {
    if (const auto it = whole_.find(b); it != whole_.end()) return it->second;
    const auto readers = readers_.find(b);
    const bool r = readers != readers_.end() && std::any_of(readers->second.begin(), readers->second.end(),
                                                            [&](const Stage* s) { return ReadsWhole(*s, b); });
    return whole_[b] = r;
  }

  bool ReadsWhole(const Stage& s, Buffer b) {
    if (s.IsCall() || s.where != nullptr || !IsReadWhole(s.outputs[0])) return false;
    bool found = false;
    VisitLoads(s.values[0], [&](Expr e) { found |= e->buffer == b && !e->has_mask && Covers(s, e); });
    return found;
  }

  // Over all iterations the load reads every element.
  bool Covers(const Stage& s, Expr load) {
    std::vector<StageIter> within;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) {
        const bool moves = std::any_of(load->args.begin(), load->args.end(), [&](Expr e) { return Uses(e, i.var); });
        if (moves)
          within.push_back(i);
        else if (analyzer_.ConstBounds(i.extent).lo < 1)
          return false;  // there may be no iteration
      }
    }
    std::vector<Expr> at;
    for (size_t d = 0; d < load->args.size(); ++d) at.push_back(c_.Var(names_.Fresh("at")));
    return InvertIndexMap(c_, within, load->args, load->buffer->shape, at).has_value();
  }

  TeProgram p_;
  Context& c_;
  Analyzer analyzer_;
  NameSupply names_;
  absl::flat_hash_map<Buffer, bool> whole_;
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

}  // namespace cinn_like::hlir
