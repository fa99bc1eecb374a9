// Rows beside the sums of their columns: how the stages become nests of one space.
#include <algorithm>
#include <utility>

#include "hlir/stage_analysis.h"
#include "hlir/tactics/row_nests.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: stages and schedules are all there is here

std::vector<int> RowNests::DimsOfSums(size_t sum) const {
  const Stage& s = group.stages[sum];
  const auto dim_of = [&](size_t k, Expr var) {
    for (int d = 0; d < static_cast<int>(space.dims.size()); ++d) {
      if (IterOf(group, space, k, d) == var) return d;
    }
    return -1;
  };
  std::vector<int> dims(s.iters.size() + s.reduce_iters.size(), -1);
  for (size_t i = 0; i < s.iters.size(); ++i) {
    const Expr var = s.iters[i].var;
    if (IsInt(s.iters[i].extent, 1) || var == sums->part) continue;
    for (Expr load : LoadsOf(s)) {
      for (size_t k = 0; k < group.stages.size() && dims[i] < 0; ++k) {
        if (k == sum) continue;
        const auto match = [&](const std::vector<Expr>& at) {
          for (size_t d = 0; d < at.size() && d < load->args.size(); ++d) {
            if (load->args[d] == var && dims[i] < 0) dims[i] = dim_of(k, at[d]);
          }
        };
        if (Contains(group.stages[k].outputs, load->buffer)) match(VarsOf(group.stages[k].iters));
        for (Expr other : LoadsOf(group.stages[k])) {
          if (other->buffer == load->buffer) match(other->args);
        }
      }
    }
  }
  return dims;
}

StatusOr<std::optional<RowNests>> RowNests::CreateWithSums(const TeProgram& group, bool chunks) {
  const std::optional<ColumnSums> found = FindColumnSums(*group.context, group.stages, chunks);
  if (!found) return std::optional<RowNests>();
  ASSIGN_OR_RETURN(Schedule schedule, Schedule::Of(group));
  const Stage& first = group.stages[found->sums[0]];
  const Parts parts = *PartsOf(*group.context, first, chunks);
  const int64_t chunk = chunks ? parts.element.extent->int_value : 0;
  RowNests r{std::move(schedule), {}, {}, {}, Sums{first.name, parts.part.var, chunk}};
  // What a row's stage writes to memory, the sums read where it is computed.
  for (size_t k = 0; k < group.stages.size(); ++k) {
    const Stage& s = group.stages[k];
    const bool is_sum = std::count(found->sums.begin(), found->sums.end(), k) > 0;
    for (Buffer out : s.outputs) {
      const auto reads = [&](const Stage& other) { return &other != &s && Contains(InputsOf(other), out); };
      const bool folds = chunks && parts.places.size() > 1 && s.IsReduction() && !is_sum;
      if (IsParam(group, out) && (folds || std::any_of(group.stages.begin(), group.stages.end(), reads)))
        r.schedule.Step("keep ", out->name, " -> ", r.schedule.Fresh("kept_" + out->name));
    }
  }
  RETURN_IF_ERROR(r.schedule.status());
  const std::vector<Stage> stages = r.schedule.stages()->stages;
  const std::optional<ColumnSums> kept = FindColumnSums(*group.context, stages, chunks);
  RET_CHECK(kept.has_value(), r.schedule.text());
  for (const ColumnSums::Rows& of : kept->rows) {
    const Stage& s = stages[of.stage];
    std::vector<std::string> line;
    for (Expr e : of.digits) line.push_back(e->name);
    if (!chunks) {
      const std::string q = r.schedule.Fresh("q"), p = r.schedule.Fresh("p");
      r.schedule.Step("unfold ", s.name, " ", line[0], " ", kept->parts / kept->inner, " -> ", q, " ", p);
      line[0] = p;
      if (line.size() > 1) line.insert(line.begin(), q);
    }
    if (line.size() < 2) continue;
    std::string fold = Cat("fold ", s.name, " ->");
    for (const StageIter& i : s.iters) {
      if (i.var == of.digits[0]) {
        if (!chunks) fold += Cat(" ", r.schedule.Fresh("e"), "[", line[0], "]");
        fold += Cat(" ", r.schedule.Fresh("part"), "[");
        for (size_t k = chunks ? 0 : 1; k < line.size(); ++k) fold += Cat(fold.back() == '[' ? "" : ", ", line[k]);
        fold += "]";
      } else if (std::count(of.digits.begin(), of.digits.end(), i.var) == 0 && !IsInt(i.extent, 1)) {
        fold += Cat(" ", r.schedule.Fresh(i.var->name), "[", i.var->name, "]");
      }
    }
    for (const StageIter& i : s.reduce_iters) {
      if (chunks && !IsInt(i.extent, 1)) fold += Cat(" ", r.schedule.Fresh(i.var->name), "[", i.var->name, "]");
    }
    r.schedule.Run(fold);
  }
  for (size_t n = 1; n < kept->sums.size(); ++n)
    r.schedule.Step("together ", stages[kept->sums[0]].name, " ", stages[kept->sums[n]].name);
  RETURN_IF_ERROR(r.schedule.status());
  ASSIGN_OR_RETURN(const bool read, r.Read());
  RET_CHECK(read, r.schedule.text());
  return std::optional<RowNests>(std::move(r));
}

}  // namespace cinn_like::hlir
