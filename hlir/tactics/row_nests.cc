#include "hlir/tactics/row_nests.h"

#include <algorithm>
#include <numeric>

#include "hlir/phases.h"
#include "hlir/stage_analysis.h"
#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"
#include "ir/join.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr double kShortest = 16;           // dimension worth rearranging for
constexpr double kMostLikely = 1LL << 31;  // a size beyond that is no likely one

struct StageAccess {
  size_t stage;
  Buffer buffer;
  Expr offset;
};

std::vector<StageAccess> AccessesOf(const TeProgram& p) {
  Context& c = *p.context;
  std::vector<StageAccess> r;
  for (size_t k = 0; k < p.stages.size(); ++k) {
    const Stage& s = p.stages[k];
    for (Buffer b : s.outputs) r.push_back({k, b, ElementOffset(c, b, s.at.empty() ? VarsOf(s.iters) : s.at)});
    for (Expr v : s.values) {
      Visit(v, [&](Expr e) {
        if (e->op == ExprOp::kLoad) r.push_back({k, e->buffer, ElementOffset(c, e->buffer, IndicesOf(e))});
        return true;
      });
    }
  }
  return r;
}

// {contraction, pointwise stage}
bool HasEpilogue(const TeProgram& p) {
  return p.stages.size() == 2 && FindProduct(p.stages[0]) && p.stages[1].IsPointwise();
}

}  // namespace

bool ChoosesPairs(const Stage& s) {
  bool r = false;
  for (size_t k = 0; s.IsReduction() && s.outputs.size() > 1 && k < s.outputs.size(); ++k) {
    Visit(s.values[k], [&](Expr e) {
      r |= e->op == ExprOp::kLoad && e->buffer != s.outputs[k] && Contains(s.outputs, e->buffer);
      return !r;
    });
  }
  return r;
}

TeProgram AlignEpilogue(TeProgram group) {
  if (!HasEpilogue(group)) return group;
  StatusOr<TeProgram> aligned = Align(group, group.stages[1].name, group.stages[0].name);
  return aligned.ok() ? *std::move(aligned) : group;
}

StatusOr<bool> RowNests::Read() {
  RET_CHECK(schedule.stages() != nullptr, schedule.text());
  group = *schedule.stages();
  const bool chunks = sums && sums->chunk > 0;
  size_t sum = group.stages.size();
  std::vector<Stage> stages;
  for (size_t k = 0; k < group.stages.size(); ++k) {
    if (chunks && group.stages[k].name == sums->stage)
      sum = k;
    else
      stages.push_back(group.stages[k]);
  }
  std::optional<RowSpace> found = FindRowSpace(stages, sums.has_value() && !chunks);
  if (!found) return false;
  space = *std::move(found);
  if (chunks) {
    RET_CHECK(sum < group.stages.size(), sums->stage);
    space.dim_of.insert(space.dim_of.begin() + static_cast<ptrdiff_t>(sum), std::vector<int>());
    space.dim_of[sum] = DimsOfSums(sum);
  }
  OrderRows();
  RETURN_IF_ERROR(ReadNests(sum));
  return true;
}

void RowNests::OrderRows() {
  std::vector<int> rows = Dims(true);
  if (rows.size() < 2) return;
  const std::vector<double> votes = ContiguousAlong();
  const auto innermost =
      std::max_element(rows.rbegin(), rows.rend(), [&](int x, int y) { return votes[x] < votes[y]; });
  if (innermost == rows.rbegin() || votes[*innermost] <= votes[rows.back()]) return;
  if (!IsInt(space.dims[*innermost].extent)) return;
  std::vector<int> order = rows;
  std::rotate(order.begin() + (rows.rend() - innermost - 1), order.begin() + (rows.rend() - innermost), order.end());
  std::vector<int> to(space.dims.size());
  std::iota(to.begin(), to.end(), 0);
  const std::vector<RowSpace::Dim> dims = space.dims;
  for (size_t i = 0; i < rows.size(); ++i) {
    to[order[i]] = rows[i];
    space.dims[rows[i]] = dims[order[i]];
  }
  for (std::vector<int>& of : space.dim_of) {
    for (int& d : of) d = d < 0 ? d : to[d];
  }
}

Status RowNests::ReadNests(size_t sum) {
  nests.clear();
  for (size_t k = 0; k < group.stages.size(); ++k) {
    RowNest nest;
    nest.block = "b_" + group.stages[k].name;
    nest.reduction = !group.stages[k].IsPointwise();
    const std::vector<std::string> names = schedule.LoopsAround(nest.block);
    size_t next = 0;
    for (size_t i = 0; i < space.dim_of[k].size(); ++i) {
      const Stage& s = group.stages[k];
      const int d = space.dim_of[k][i];
      const bool part = k == sum && i < s.iters.size() && s.iters[i].var == sums->part;
      const bool element = k == sum && i >= s.iters.size();
      if (d < 0 && !part && !element) continue;
      RET_CHECK(next < names.size(), nest.block);
      (part ? sums->part_loop : element ? sums->element_loop : nest.loops[d]) = names[next++];
    }
    nests.push_back(std::move(nest));
  }
  return absl::OkStatus();
}

Status RowNests::ReadAgain() {
  RETURN_IF_ERROR(schedule.status());
  const size_t dims = space.dims.size();
  ASSIGN_OR_RETURN(const bool found, Read());
  RET_CHECK(found && space.dims.size() == dims, schedule.text());
  return absl::OkStatus();
}

StatusOr<std::optional<RowNests>> RowNests::Create(const TeProgram& group) {
  ASSIGN_OR_RETURN(Schedule schedule, Schedule::Of(group));
  if (HasEpilogue(group)) schedule.Try(Cat("align ", group.stages[1].name, " ", group.stages[0].name));
  RowNests r{std::move(schedule), {}, {}, {}};
  ASSIGN_OR_RETURN(const bool found, r.Read());
  if (!found) return std::optional<RowNests>();
  return std::optional<RowNests>(std::move(r));
}

StatusOr<std::optional<RowNests>> RowNests::CreateInPhases(const TeProgram& group) {
  if (group.stages.size() > 2) return std::optional<RowNests>();
  const std::vector<Phase> phases = FindPhases(*group.context, group.stages[0]);
  if (phases.empty()) return std::optional<RowNests>();
  ASSIGN_OR_RETURN(Schedule schedule, Schedule::Of(group));
  const Stage& first = group.stages[0];
  if (group.stages.size() == 1)
    schedule.Step("keep ", first.outputs[0]->name, " -> ", schedule.Fresh("kept_" + first.outputs[0]->name));
  else if (IsParam(group, first.outputs[0]) || !schedule.Try(Cat("align ", group.stages[1].name, " ", first.name)))
    return std::optional<RowNests>();
  RETURN_IF_ERROR(schedule.status());
  RETURN_IF_ERROR(SplitPhases(schedule, phases, {first.name, schedule.stages()->stages[1].name}).status());
  RowNests r{std::move(schedule), {}, {}, {}};
  ASSIGN_OR_RETURN(const bool found, r.Read());
  if (!found) return std::optional<RowNests>();
  return std::optional<RowNests>(std::move(r));
}

Expr RowNests::SpaceVar(int dim) const { return group.context->Var(Cat("d", dim)); }

VarMap RowNests::SpaceVarsOf(size_t stage) const {
  VarMap map;
  const Stage& s = group.stages[stage];
  for (size_t i = 0; i < space.dim_of[stage].size(); ++i) {
    const Expr var = i < s.iters.size() ? s.iters[i].var : s.reduce_iters[i - s.iters.size()].var;
    map[var] = space.dim_of[stage][i] < 0 ? group.context->Int(0) : SpaceVar(space.dim_of[stage][i]);
  }
  return map;
}

std::vector<RowNests::Input> RowNests::FindInputs() const {
  Context& c = *group.context;
  std::vector<Input> r;
  absl::flat_hash_map<Expr, size_t> index;
  for (size_t k = 0; k < group.stages.size(); ++k) {
    const VarMap map = SpaceVarsOf(k);
    absl::flat_hash_set<Expr> seen;
    for (Expr v : group.stages[k].values) {
      Visit(v, [&](Expr e) {
        if (e->op != ExprOp::kLoad) return true;
        const bool is_input = std::any_of(group.params.begin(), group.params.end(), [&](const Param& p) {
          return p.buffer == e->buffer && p.role != ParamRole::kResult;
        });
        const Expr x = Substitute(c, e, map);
        if (!is_input || !IsWhole(x) || !PrintsWithin(e, kMostNodesOfStep) || !seen.insert(x).second) return true;
        const auto [it, fresh] = index.emplace(x, r.size());
        if (fresh) r.push_back({x, {}});
        r[it->second].read.emplace_back(k, e);
        return true;
      });
    }
  }
  return r;
}

bool RowNests::IsWhole(Expr e) const {
  for (size_t d = 0; d < space.dims.size(); ++d) {
    if (!Uses(e, SpaceVar(static_cast<int>(d)))) return false;
  }
  return true;
}

bool RowNests::IsAlong(Expr offset, int dim) const {
  Analyzer a(*group.context);
  return IsContiguous(a, offset, SpaceVar(dim));
}

std::vector<RowNests::Input> RowNests::FindInputsAlong(int dim) const {
  std::vector<Input> inputs = FindInputs();
  std::erase_if(inputs, [&](const Input& input) {
    return !IsAlong(ElementOffset(*group.context, input.load->buffer, IndicesOf(input.load)), dim);
  });
  return inputs;
}

std::vector<Buffer> RowNests::FindResultsAlong(int dim) const {
  Context& c = *group.context;
  std::vector<Buffer> r;
  for (size_t k = 0; k < group.stages.size(); ++k) {
    const Stage& s = group.stages[k];
    if (!s.IsPointwise() || s.IsCall()) continue;
    for (Buffer b : s.outputs) {
      const Expr offset = Substitute(c, ElementOffset(c, b, s.at.empty() ? VarsOf(s.iters) : s.at), SpaceVarsOf(k));
      if (IsParam(group, b) && IsWhole(offset) && IsAlong(offset, dim)) r.push_back(b);
    }
  }
  return r;
}

int64_t RowNests::ConstExtent(int dim) const {
  const Expr e = space.dims[dim].extent;
  return IsInt(e) ? e->int_value : 0;
}

int64_t RowNests::LargestExtent(int dim) const {
  Analyzer a(*group.context);
  for (const SymbolFact& f : group.symbols) a.BindSymbol(f);
  return std::clamp<int64_t>(a.ConstBounds(space.dims[dim].extent).hi, 1, static_cast<int64_t>(kMostLikely));
}

int64_t RowNests::LikelyExtent(int dim) const {
  return static_cast<int64_t>(std::min(TypicalSize(space.dims[dim].extent, group.symbols), kMostLikely));
}

double RowNests::LikelySize(const std::vector<int>& dims) const {
  double n = 1;
  for (int d : dims) n *= static_cast<double>(LikelyExtent(d));
  return n;
}

std::vector<double> RowNests::ContiguousAlong() const {
  Context& c = *group.context;
  Analyzer a(c);
  std::vector<double> votes(space.dims.size(), 0);
  for (const StageAccess& access : AccessesOf(group)) {
    if (!IsParam(group, access.buffer)) continue;
    double elements = 1;
    std::vector<size_t> contiguous;
    for (size_t d = 0; d < space.dims.size(); ++d) {
      const Expr i = IterOf(group, space, access.stage, static_cast<int>(d));
      if (i == nullptr) continue;
      const Expr step = StepAlong(a, access.offset, i);
      if (IsInt(step, 1)) contiguous.push_back(d);
      if (!IsInt(step, 0)) elements *= TypicalSize(space.dims[d].extent, group.symbols);
    }
    for (size_t d : contiguous) votes[d] += elements;
  }
  return votes;
}

int RowNests::VectorDim(bool of_rows) const {
  const std::vector<double> votes = ContiguousAlong();
  int best = -1;
  for (int d = static_cast<int>(votes.size()) - 1; d >= 0; --d) {
    if ((of_rows || !space.dims[d].reduced) && (best < 0 || votes[d] > votes[best])) best = d;
  }
  return best;
}

std::optional<RowNests::Transposition> RowNests::FindTransposition() const {
  Context& c = *group.context;
  Analyzer a(c);
  std::vector<int> bytes(space.dims.size(), 0), written = bytes;  // of what is read and written along each dimension
  for (const StageAccess& access : AccessesOf(group)) {
    if (!IsParam(group, access.buffer)) continue;
    int contiguous = -1;
    bool whole = true;
    for (int d = 0; d < static_cast<int>(space.dims.size()); ++d) {
      const Expr i = IterOf(group, space, access.stage, d);
      const Expr step = i == nullptr ? c.Int(0) : StepAlong(a, access.offset, i);
      if (IsInt(step, 1)) contiguous = d;
      whole = whole && !IsInt(step, 0);
    }
    if (!whole || contiguous < 0) continue;
    const std::vector<Buffer>& outputs = group.stages[access.stage].outputs;
    if (std::find(outputs.begin(), outputs.end(), access.buffer) != outputs.end())
      written[contiguous] += BytesOf(access.buffer->dtype);
    else
      bytes[contiguous] += BytesOf(access.buffer->dtype);
  }
  const auto most = [](const std::vector<int>& v) {
    return static_cast<int>(std::max_element(v.begin(), v.end()) - v.begin());
  };
  // Of results in several orders those along what is read need no tile.
  if (std::count(written.begin(), written.end(), 0) + 1 < std::ssize(written)) written[most(bytes)] = 0;
  const int out = most(written);
  if (written[out] == 0) return std::nullopt;
  bytes[out] = 0;
  const int in = most(bytes);
  for (int d : {in, out}) {
    if (TypicalSize(space.dims[d].extent, group.symbols) < kShortest) return std::nullopt;
  }
  if (bytes[in] == 0) return std::nullopt;
  return Transposition{in, out};
}

Expr RowNests::StartOfLine(Expr offset, int dim, int64_t v) const {
  Context& c = *group.context;
  Analyzer a(c);
  for (const SymbolFact& f : group.symbols) a.BindSymbol(f);
  for (int d = 0; d < static_cast<int>(space.dims.size()); ++d)
    a.BindRange(SpaceVar(d), c.Int(0), space.dims[d].extent);
  return a.Simplify(c.Mod(Substitute(c, offset, {{SpaceVar(dim), c.Int(0)}}), c.Int(v)));
}

Expr RowNests::StartOfLines(int dim, int64_t v) const {
  Expr start = nullptr;
  for (const StageAccess& access : AccessesOf(group)) {
    if (!IsParam(group, access.buffer)) continue;
    const Expr offset = Substitute(*group.context, access.offset, SpaceVarsOf(access.stage));
    if (!IsWhole(offset)) continue;
    const Expr first = StartOfLine(offset, dim, v);
    if (!IsAlong(offset, dim) || (start != nullptr && first != start)) return nullptr;
    start = first;
  }
  return start;
}

int RowNests::WidestAlong(int dim) const {
  Context& c = *group.context;
  Analyzer a(c);
  int widest = 0, most = 0, any = 1;
  for (const StageAccess& access : AccessesOf(group)) {
    if (!IsParam(group, access.buffer)) continue;
    const int bytes = BytesOf(access.buffer->dtype);
    any = std::max(any, bytes);
    auto moves_along = [&](int d) {
      const Expr i = IterOf(group, space, access.stage, d);
      if (i == nullptr) return false;
      return !IsInt(StepAlong(a, access.offset, i), 0);
    };
    if (!moves_along(dim)) continue;
    int dims = 0;
    for (size_t d = 0; d < space.dims.size(); ++d) dims += moves_along(static_cast<int>(d));
    if (dims > most) widest = 0;
    if (dims >= most) widest = std::max(widest, bytes);
    most = std::max(most, dims);
  }
  return widest > 0 ? widest : any;
}

bool RowNests::IsMultiple(const std::vector<int>& dims, int64_t n) const {
  Analyzer a(*group.context);
  for (const SymbolFact& f : group.symbols) a.BindSymbol(f);
  Expr length = group.context->Int(1);
  for (int d : dims) length = group.context->Mul(length, space.dims[d].extent);
  return a.KnownDivisor(a.Simplify(length)) % n == 0;
}

bool RowNests::CanCoalesce(int d) const {
  if (space.dims[d].reduced != space.dims[d + 1].reduced) return false;
  if (space.dims[d].scanned || space.dims[d + 1].scanned) return false;
  Context& c = *group.context;
  Analyzer a(c);
  for (const StageAccess& x : AccessesOf(group)) {
    const Expr outer = IterOf(group, space, x.stage, d), inner = IterOf(group, space, x.stage, d + 1);
    if (outer == nullptr && inner == nullptr) continue;
    if (outer == nullptr || inner == nullptr) return false;
    const Expr next = Substitute(c, x.offset, {{outer, c.Add(outer, c.Int(1))}});
    const Expr along = Substitute(c, x.offset, {{inner, c.Add(inner, space.dims[d + 1].extent)}});
    if (!IsInt(a.Simplify(c.Sub(next, along)), 0)) return false;
  }
  // An iterator that is itself a value (iota, masks) must stay.
  for (size_t k = 0; k < group.stages.size(); ++k) {
    const Expr outer = IterOf(group, space, k, d), inner = IterOf(group, space, k, d + 1);
    bool used = false;
    for (Expr v : group.stages[k].values) {
      Visit(v, [&](Expr e) {
        if (e->op == ExprOp::kLoad) {
          if (Expr m = MaskOf(e)) used |= (outer != nullptr && Uses(m, outer)) || (inner != nullptr && Uses(m, inner));
          return false;
        }
        used |= e == outer || e == inner;
        return true;
      });
    }
    if (used) return false;
  }
  return true;
}

std::vector<int> RowNests::LineAround(int dim) const {
  std::vector<int> along = {dim};
  while (along.front() > 0 && CanCoalesce(along.front() - 1)) along.insert(along.begin(), along.front() - 1);
  while (along.back() + 1 < static_cast<int>(space.dims.size()) && CanCoalesce(along.back()))
    along.push_back(along.back() + 1);
  return along;
}

std::vector<int> RowNests::Dims(bool reduced) const {
  std::vector<int> r;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    if (space.dims[d].reduced == reduced) r.push_back(static_cast<int>(d));
  }
  return r;
}

std::vector<Buffer> RowNests::Temporaries() const {
  std::vector<Buffer> r;
  for (const Stage& s : group.stages) {
    for (Buffer b : s.outputs) {
      if (!IsParam(group, b)) r.push_back(b);
    }
    r.insert(r.end(), s.running.begin(), s.running.end());
  }
  return r;
}

void RowNests::ReorderAll(const std::vector<std::vector<int>>& order) {
  for (const RowNest& nest : nests) {
    if (schedule.LoopsAround(nest.block).empty()) continue;  // substituted away
    std::string step = "reorder";
    for (const auto& dims : order) {
      for (int d : dims) {
        if (auto it = nest.loops.find(d); it != nest.loops.end()) step += " " + it->second;
      }
    }
    if (step != "reorder") schedule.Run(step);
  }
}

std::string RowNests::FuseDims(RowNest& nest, const std::vector<int>& dims, const std::string& base) {
  std::string step = "fuse", last;
  for (int d : dims) {
    auto it = nest.loops.find(d);
    if (it == nest.loops.end()) continue;
    step += " " + it->second;
    last = it->second;
    nest.loops.erase(it);
  }
  if (last.empty()) return last;
  const std::string name = schedule.Fresh(base);
  schedule.Run(step + " -> " + name);
  return name;
}

void MergeLoops(Schedule& s, const std::vector<std::string>& loops) {
  std::string step = "merge";
  for (const std::string& l : loops) step += " " + l;
  if (loops.size() > 1) s.Run(step);
}

void ReorderLoops(Schedule& s, std::initializer_list<std::vector<std::string>> loops) {
  std::string step = "reorder";
  for (const auto& list : loops) {
    for (const std::string& l : list) step += " " + l;
  }
  if (step.find(' ') != step.npos) s.Run(step);
}

}  // namespace cinn_like::hlir
