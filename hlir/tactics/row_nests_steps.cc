// Steps on stages (row_nests.h).
#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "hlir/tactics/row_nests.h"
#include "ir/join.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

Status RowNests::KeepResults(bool rows, bool sums) {
  for (size_t k = 0; k < group.stages.size(); ++k) {
    const Stage& s = group.stages[k];
    bool row_sized = false;
    for (int d : space.dim_of[k]) row_sized |= !s.IsReduction() && d >= 0 && space.dims[d].reduced;
    if (!s.at.empty() || (row_sized && !rows)) continue;
    const auto is_read = [&](Buffer out) {
      return std::any_of(group.stages.begin() + static_cast<ptrdiff_t>(k), group.stages.end(),
                         [&](const Stage& other) { return Contains(InputsOf(other), out); });
    };
    // What is reduced together is so in one place.
    const bool apart = s.IsReduction() && std::any_of(s.outputs.begin(), s.outputs.end(),
                                                      [&](Buffer b) { return !IsParam(group, b) || is_read(b); });
    // The last first: each copy comes right after the stage.
    for (size_t o = s.outputs.size(); o-- > 0;) {
      const Buffer out = s.outputs[o];
      if (IsParam(group, out) && (apart || (sums && s.IsReduction()) || is_read(out)))
        schedule.Step("keep ", out->name, " -> ", schedule.Fresh("kept_" + out->name));
    }
  }
  return ReadAgain();
}

std::string RowNests::LayoutOf(const std::string& buffer, const std::vector<int>& dims,
                               const std::vector<std::vector<int>>& lines) const {
  std::vector<std::string> names, others, at(lines.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    const std::string& n = names.emplace_back(Cat("e", i));
    if (dims[i] < 0) continue;
    size_t line = 0;
    while (line < lines.size() && std::count(lines[line].begin(), lines[line].end(), dims[i]) == 0) ++line;
    if (line == lines.size())
      others.push_back(n);
    else
      at[line] = at[line].empty() ? n : Cat("(", at[line], ") * (", Print(space.dims[dims[i]].extent), ") + ", n);
  }
  others.insert(others.end(), at.begin(), at.end());
  return Cat(buffer, "[", absl::StrJoin(names, ", "), "] -> [", absl::StrJoin(others, ", "), "]");
}

bool RowNests::ReadsWindows() const {
  constexpr double kShort = 8;  // elements of a window next to each other
  Context& c = *group.context;
  Analyzer a(c);
  for (const Stage& s : group.stages) {
    bool found = false;
    const auto look = [&](Expr index) {
      for (const StageIter& r : s.reduce_iters) {
        if (IsInt(r.extent, 1) || !Uses(index, r.var)) continue;
        const double length = TypicalSize(r.extent, group.symbols);
        for (const StageIter& i : s.iters) {
          if (!Uses(index, i.var)) continue;
          const Expr step = StepAlong(a, index, i.var);
          found |= IsInt(step) && (length < kShort || static_cast<double>(step->int_value) < length);
        }
      }
    };
    for (Expr v : s.values) {
      if (!s.IsReduction()) break;
      VisitLoads(v, [&](Expr e) {
        if (IsParam(group, e->buffer) && !Contains(s.outputs, e->buffer)) {
          for (Expr index : IndicesOf(e)) look(index);
        }
      });
    }
    if (found) return true;
  }
  return false;
}

Status RowNests::KeepReduced() {
  for (const Stage& s : group.stages) {
    for (size_t o = s.outputs.size(); s.IsReduction() && o-- > 0;) {
      if (IsParam(group, s.outputs[o]))
        schedule.Step("keep ", s.outputs[o]->name, " -> ", schedule.Fresh("kept_" + s.outputs[o]->name));
    }
  }
  return ReadAgain();
}

Status RowNests::SeparatePairs(bool costly) {
  if (std::none_of(group.stages.begin(), group.stages.end(), ChoosesPairs)) return absl::OkStatus();
  for (const Stage& s : group.stages) {
    if (!s.IsReduction() || s.outputs.size() != 2) continue;
    const std::optional<Join> join = FindJoin(*group.context, s.values, RunningOf(*group.context, s));
    if (!join || !ChoosesFirst(*group.context, *join, 0)) continue;
    const Expr element = join->elements[0];
    if (CostOf(element) >= kCostly) {  // both compute it
      if (!costly) continue;
      std::string iters;
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        for (const StageIter& i : *list) iters += Cat(iters.empty() ? "" : ", ", i.var->name);
      }
      if (PrintsWithin(element, kMostNodesOfStep))
        schedule.Try(Cat("define ", schedule.Fresh("element"), "[", iters, "] = ", Print(element)));
    }
    const Buffer best = s.outputs[0];
    if (IsParam(group, best)) schedule.Step("keep ", best->name, " -> ", schedule.Fresh("kept_" + best->name));
    schedule.Try(Cat("separate ", s.name, " -> ", schedule.Fresh("place")));
  }
  return ReadAgain();
}

Status RowNests::JoinReductions() {
  std::vector<size_t> joined(group.stages.size());  // whom each stage has joined
  std::iota(joined.begin(), joined.end(), 0);
  for (const Input& input : FindInputs()) {
    std::optional<size_t> last;
    for (const auto& [k, load] : input.read) {
      if (!group.stages[k].IsReduction() || ChoosesPairs(group.stages[k])) continue;
      if (last && *last != joined[k]) {
        const auto [first, second] = std::minmax(*last, joined[k]);
        if (schedule.Try(Cat("together ", group.stages[first].name, " ", group.stages[second].name)))
          std::replace(joined.begin(), joined.end(), size_t{second}, size_t{first});
      }
      last = joined[k];
    }
  }
  return ReadAgain();
}

StatusOr<size_t> RowNests::StageInputs(const std::vector<Input>& inputs) {
  const std::string first = group.stages[0].name;
  size_t staged = 0;
  for (const Input& input : inputs) {
    const std::string name = schedule.Fresh(Cat("row", staged));
    bool defined = false;
    for (const auto& [k, load] : input.read) {
      std::string iters;
      for (int d = 0; d < static_cast<int>(space.dims.size()); ++d)
        iters += Cat(d == 0 ? "" : ", ", IterOf(group, space, k, d)->name);
      // A stage may not read it any more, where it stood in an index of another input.
      defined |=
          schedule.Try(Cat("define ", name, "[", iters, "] = ", Print(load), defined ? "" : Cat(" before ", first)));
    }
    staged += defined;
  }
  RETURN_IF_ERROR(ReadAgain());
  return staged;
}

Status RowNests::TakePowersOf2() {
  const auto is_wide = [](const Param& p) {
    return p.buffer != nullptr && IsFloat(p.buffer->dtype) && BytesOf(p.buffer->dtype) > 2;
  };
  if (group.exact || std::any_of(group.params.begin(), group.params.end(), is_wide)) return absl::OkStatus();
  bool any = false;
  for (size_t k = 0; k < group.stages.size(); ++k) any |= schedule.Try(Cat("exp2 ", group.stages[k].name));
  return any ? ReadAgain() : absl::OkStatus();
}

Status RowNests::Shift(int dim, Expr by) {
  Context& c = *group.context;
  for (size_t k = 0; k < group.stages.size(); ++k) {
    const Expr var = IterOf(group, space, k, dim);
    if (var == nullptr) continue;
    VarMap own;
    for (int d = 0; d < static_cast<int>(space.dims.size()); ++d) {
      if (const Expr i = IterOf(group, space, k, d); i != nullptr) own[SpaceVar(d)] = i;
    }
    schedule.Step("shift ", group.stages[k].name, " ", var->name, " ", Print(Substitute(c, by, own)));
  }
  RETURN_IF_ERROR(schedule.status());
  return ReadAgain();
}

StatusOr<bool> RowNests::Define(size_t stage, Expr value, const std::string& name) {
  std::string iters;
  std::vector<int> dims;
  for (int d = 0; d < static_cast<int>(space.dims.size()); ++d) {
    const Expr i = IterOf(group, space, stage, d);
    if (i == nullptr) continue;
    iters += Cat(dims.empty() ? "" : ", ", i->name);
    dims.push_back(d);
  }
  if (!PrintsWithin(value, kMostNodesOfStep) || !schedule.Try(Cat("define ", name, "[", iters, "] = ", Print(value))))
    return false;
  // The space is the same: what shared an element of an input shares that of its copy.
  group = *schedule.stages();
  space.dim_of.insert(space.dim_of.begin() + static_cast<ptrdiff_t>(stage), std::move(dims));
  RETURN_IF_ERROR(ReadNests(group.stages.size()));
  return true;
}

}  // namespace cinn_like::hlir
