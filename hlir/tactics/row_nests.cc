#include "hlir/tactics/row_nests.h"

#include <algorithm>

#include "hlir/tactics/matmul_cost.h"
#include "ir/analyzer.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: schedules and stages are all there is here

namespace {

constexpr double kShortest = 16;           // dimension worth rearranging for
constexpr double kMostLikely = 1LL << 31;  // a size beyond that is no likely one

bool IsParam(const TeProgram& p, Buffer b) {
  return std::any_of(p.params.begin(), p.params.end(), [&](const Param& q) { return q.buffer == b; });
}

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

// The iterator of stage `k` for a dimension; null if it has none.
Expr IterOf(const TeProgram& p, const RowSpace& space, size_t k, int dim) {
  const Stage& s = p.stages[k];
  for (size_t i = 0; i < space.dim_of[k].size(); ++i) {
    if (space.dim_of[k][i] != dim) continue;
    return i < s.iters.size() ? s.iters[i].var : s.reduce_iters[i - s.iters.size()].var;
  }
  return nullptr;
}

}  // namespace

TeProgram AlignEpilogue(TeProgram group) {
  if (group.stages.size() != 2 || !FindContraction(group.stages[0]) || group.stages[1].IsReduction()) return group;
  Context& c = *group.context;
  const Stage& acc = group.stages[0];
  Stage& out = group.stages[1];
  std::vector<Expr> map;
  Visit(out.values[0], [&](Expr e) {
    if (e->op == ExprOp::kLoad && e->buffer == acc.outputs[0]) map = e->args;
    return true;
  });
  if (map.empty() || !out.at.empty()) return group;
  std::vector<StageIter> iters;
  for (const StageIter& i : acc.iters) iters.push_back({c.Var(i.var->name + "_o"), i.extent});
  auto inverse = InvertIndexMap(c, out.iters, map, acc.outputs[0]->shape, VarsOf(iters));
  if (!inverse) return group;
  VarMap to;
  for (size_t d = 0; d < out.iters.size(); ++d) to[out.iters[d].var] = (*inverse)[d];
  // Reads of the contraction are at the iterators themselves, whatever the simplifier makes of the round trip.
  const Expr here = c.Load(acc.outputs[0], VarsOf(iters));
  out.values[0] = Rewriter(c, [&](Expr e) -> Expr {
    if (e->op == ExprOp::kLoad && e->buffer == acc.outputs[0]) return here;
    if (e->op != ExprOp::kVar) return nullptr;
    auto it = to.find(e);
    return it == to.end() ? e : it->second;
  })(out.values[0]);
  out.at = *inverse;
  out.iters = std::move(iters);
  return group;
}

TeProgram KeepResults(TeProgram group, const RowSpace& space, bool rows) {
  Context& c = *group.context;
  std::vector<Stage> stages;
  for (size_t k = 0; k < group.stages.size(); ++k) {
    Stage s = group.stages[k];
    bool row_sized = false;
    for (int d : space.dim_of[k]) row_sized |= !s.IsReduction() && d >= 0 && space.dims[d].reduced;
    std::vector<Stage> copies;
    for (Buffer& out : s.outputs) {
      const Buffer result = out;
      auto reads = [&](const Stage& other) {
        const std::vector<Buffer> inputs = InputsOf(other);
        return std::count(inputs.begin(), inputs.end(), result) > 0;
      };
      if (!IsParam(group, result) || !s.at.empty() || (row_sized && !rows)) continue;
      if (std::none_of(group.stages.begin() + static_cast<ptrdiff_t>(k) + 1, group.stages.end(), reads)) continue;
      Stage copy;
      copy.name = Cat("copy_", result->name);
      for (const StageIter& i : s.iters) copy.iters.push_back({c.Var(Cat(i.var->name, "_", result->name)), i.extent});
      copy.outputs = {result};
      out = c.MakeBuffer({.name = Cat("kept_", result->name), .dtype = result->dtype, .shape = result->shape});
      copy.values = {c.Load(out, VarsOf(copy.iters))};
      auto replace = [&](Stage& stage) {
        for (Expr& v : stage.values) {
          v = Rewriter(c, [&](Expr e) -> Expr {
            return e->op == ExprOp::kLoad && e->buffer == result ? c.Load(out, IndicesOf(e), MaskOf(e)) : nullptr;
          })(v);
        }
      };
      replace(s);
      for (size_t j = k + 1; j < group.stages.size(); ++j) replace(group.stages[j]);
      copies.push_back(std::move(copy));
    }
    stages.push_back(std::move(s));
    for (Stage& copy : copies) stages.push_back(std::move(copy));
  }
  group.stages = std::move(stages);
  return group;
}

StatusOr<std::optional<RowNests>> RowNests::Create(const TeProgram& original) {
  TeProgram group = AlignEpilogue(original);
  auto space = FindRowSpace(group.stages);
  if (!space) return std::optional<RowNests>();
  ASSIGN_OR_RETURN(Func loops, ToLoops(group));
  RowNests r{std::move(group), *std::move(space), Schedule(std::move(loops)), {}};
  for (size_t k = 0; k < r.group.stages.size(); ++k) {
    RowNest nest;
    nest.block = "b_" + r.group.stages[k].name;
    nest.reduction = r.group.stages[k].IsReduction();
    const std::vector<std::string> names = r.schedule.LoopsAround(nest.block);
    size_t next = 0;
    for (int d : r.space.dim_of[k]) {
      if (d < 0) continue;
      RET_CHECK(next < names.size(), nest.block);
      nest.loops[d] = names[next++];
    }
    r.nests.push_back(std::move(nest));
  }
  return std::optional<RowNests>(std::move(r));
}

Status RowNests::Renew(const TeProgram& program) {
  ASSIGN_OR_RETURN(std::optional<RowNests> renewed, Create(program));
  RET_CHECK(renewed.has_value() && renewed->space.dims.size() == space.dims.size(), program.name);
  *this = *std::move(renewed);
  return absl::OkStatus();
}

int64_t RowNests::ConstExtent(int dim) const {
  const Expr e = space.dims[dim].extent;
  return IsInt(e) ? e->int_value : 0;
}

int64_t RowNests::LikelyExtent(int dim) const {
  return static_cast<int64_t>(std::min(TypicalSize(space.dims[dim].extent, group.symbols), kMostLikely));
}

int RowNests::VectorDim() const {
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
      const Expr step = a.Simplify(c.Sub(Substitute(c, access.offset, {{i, c.Add(i, c.Int(1))}}), access.offset));
      if (IsInt(step, 1)) contiguous.push_back(d);
      if (!IsInt(step, 0)) elements *= TypicalSize(space.dims[d].extent, group.symbols);
    }
    for (size_t d : contiguous) votes[d] += elements;
  }
  int best = static_cast<int>(votes.size()) - 1;
  for (int d = best; d >= 0; --d) {
    if (votes[d] > votes[best]) best = d;
  }
  return best;
}

std::optional<RowNests::Transposition> RowNests::FindTransposition() const {
  Context& c = *group.context;
  Analyzer a(c);
  int out = -1;
  std::vector<int> bytes(space.dims.size(), 0);  // of what is read along each dimension
  for (const StageAccess& access : AccessesOf(group)) {
    if (!IsParam(group, access.buffer)) continue;
    int contiguous = -1;
    bool whole = true;
    for (int d = 0; d < static_cast<int>(space.dims.size()); ++d) {
      const Expr i = IterOf(group, space, access.stage, d);
      const Expr step = i == nullptr
                            ? c.Int(0)
                            : a.Simplify(c.Sub(Substitute(c, access.offset, {{i, c.Add(i, c.Int(1))}}), access.offset));
      if (IsInt(step, 1)) contiguous = d;
      whole = whole && !IsInt(step, 0);
    }
    if (!whole || contiguous < 0) continue;
    const std::vector<Buffer>& outputs = group.stages[access.stage].outputs;
    if (std::find(outputs.begin(), outputs.end(), access.buffer) != outputs.end())
      out = contiguous;
    else
      bytes[contiguous] += BytesOf(access.buffer->dtype);
  }
  if (out < 0) return std::nullopt;
  bytes[out] = 0;
  const int in = static_cast<int>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  for (int d : {in, out}) {
    if (TypicalSize(space.dims[d].extent, group.symbols) < kShortest) return std::nullopt;
  }
  if (bytes[in] == 0) return std::nullopt;
  return Transposition{in, out};
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
      const Expr next = Substitute(c, access.offset, {{i, c.Add(i, c.Int(1))}});
      return !IsInt(a.Simplify(c.Sub(next, access.offset)), 0);
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

bool RowNests::CanCoalesce(int d) const {
  if (space.dims[d].reduced != space.dims[d + 1].reduced) return false;
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

std::vector<int> RowNests::Dims(bool reduced) const {
  std::vector<int> r;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    if (space.dims[d].reduced == reduced) r.push_back(static_cast<int>(d));
  }
  return r;
}

double RowNests::Bytes() const {
  double total = 0;
  for (const Param& p : group.params) {
    if (p.buffer != nullptr) total += TypicalBytes(p.buffer, group.symbols);
  }
  return total;
}

std::vector<Buffer> RowNests::Temporaries() const {
  std::vector<Buffer> r;
  for (const Stage& s : group.stages) {
    for (Buffer b : s.outputs) {
      if (!IsParam(group, b)) r.push_back(b);
    }
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

}  // namespace cinn_like::hlir
