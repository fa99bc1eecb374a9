#include "hlir/stage_analysis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "ir/join.h"
#include "ir/linear.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::hlir {

using namespace ir;  // NOLINT: this file speaks of nothing else

namespace {

Expr StripCasts(Expr e) {
  while (e->op == ExprOp::kCast) e = e->args[0];
  return e;
}

}  // namespace

bool AreAlike(const TeProgram& p) {
  const std::vector<Stage>& stages = p.stages;
  return std::all_of(stages.begin(), stages.end(), [&](const Stage& s) {
    const Stage& first = stages[0];
    bool alike = s.iters.size() == first.iters.size();
    for (size_t d = 0; alike && d < s.iters.size(); ++d) alike = s.iters[d].extent == first.iters[d].extent;
    for (Expr load : LoadsOf(s)) {
      const auto writer =
          std::find_if(stages.begin(), stages.end(), [&](const Stage& x) { return x.outputs[0] == load->buffer; });
      if (writer == stages.end()) continue;
      alike = alike && writer->iters.size() == s.iters.size() && MaskOf(load) == nullptr;
      if (!alike) return false;
      std::vector<Expr> own = writer->at.empty() ? VarsOf(writer->iters) : writer->at;
      VarMap map;
      for (size_t d = 0; d < s.iters.size(); ++d) map[writer->iters[d].var] = s.iters[d].var;
      for (Expr& e : own) e = Substitute(*p.context, e, map);
      alike = IndicesOf(load) == own;
    }
    return alike;
  });
}

std::vector<Expr> LoadsOf(const Stage& s) {
  std::vector<Expr> r;
  for (Expr v : s.values) VisitLoads(v, [&](Expr e) { r.push_back(e); });
  return r;
}

namespace {

// Of a term, which may be negative.
double TypicalValue(Expr extent, const std::vector<SymbolFact>& symbols) {
  if (extent->op == ExprOp::kInt) return static_cast<double>(extent->int_value);
  if (extent->op == ExprOp::kVar) {
    for (const SymbolFact& s : symbols) {
      if (s.var != extent) continue;
      if (s.hint > 0) return static_cast<double>(s.hint);
      return std::round(std::sqrt(std::max(static_cast<double>(s.lo), 1.0) * static_cast<double>(s.hi)));
    }
  }
  if (extent->args.size() != 2) return 1;
  const double a = TypicalValue(extent->args[0], symbols), b = TypicalValue(extent->args[1], symbols);
  switch (extent->op) {
    case ExprOp::kAdd:
      return a + b;
    case ExprOp::kSub:
      return std::max(a - b, 1.0);
    case ExprOp::kMul:
      return a * b;
    case ExprOp::kDiv:
      return std::max(std::floor(a / std::max(b, 1.0)), 1.0);
    case ExprOp::kMod:
      return std::max(std::fmod(a, std::max(b, 1.0)), 1.0);
    case ExprOp::kMin:
      return std::min(a, b);
    case ExprOp::kMax:
      return std::max(a, b);
    default:
      return 1;
  }
}

}  // namespace

double TypicalSize(Expr extent, const std::vector<SymbolFact>& symbols) {
  return IsInt(extent) ? static_cast<double>(extent->int_value) : std::max(TypicalValue(extent, symbols), 1.0);
}

double TypicalSize(const std::vector<StageIter>& iters, const std::vector<SymbolFact>& symbols) {
  double size = 1;
  for (const StageIter& i : iters) size *= TypicalSize(i.extent, symbols);
  return size;
}

double TypicalBytes(Buffer b, const std::vector<SymbolFact>& symbols) {
  double bytes = BytesOf(b->dtype);
  for (Expr e : b->shape) bytes *= TypicalSize(e, symbols);
  return bytes;
}

double BytesRead(const Stage& s, Buffer b, const std::vector<SymbolFact>& symbols) {
  const double whole = TypicalBytes(b, symbols);
  if (s.IsCall()) {
    const std::vector<Buffer> read = InputsOf(s);
    return std::count(read.begin(), read.end(), b) > 0 ? whole : 0;
  }
  absl::flat_hash_set<Expr> loads;
  for (Expr load : LoadsOf(s)) {
    if (load->buffer == b) loads.insert(load);
  }
  double elements = 0;
  for (Expr load : loads) {
    const std::vector<Expr> indices = IndicesOf(load);
    double places = 1;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const StageIter& i : *list) {
        if (std::any_of(indices.begin(), indices.end(), [&](Expr e) { return Uses(e, i.var); }))
          places *= TypicalSize(i.extent, symbols);
      }
    }
    elements += places;
  }
  return std::min(elements * BytesOf(b->dtype), whole);
}

double BytesRead(const TeProgram& group, Buffer b) {
  double bytes = 0;
  for (const Stage& s : group.stages) bytes += BytesRead(s, b, group.symbols);
  return std::min(bytes, TypicalBytes(b, group.symbols));
}

double BytesMoved(const TeProgram& group) {
  double bytes = 0;
  for (const Param& p : group.params) {
    if (p.buffer == nullptr) continue;
    bytes += p.role == ParamRole::kResult ? TypicalBytes(p.buffer, group.symbols) : BytesRead(group, p.buffer);
  }
  return bytes;
}

bool IsView(const Stage& s) {
  // Views of views become one expression, which every walk goes down again.
  constexpr int kMaxDepth = 128;
  if (!s.IsPointwise() || s.values.size() != 1) return false;
  Expr e = s.values[0];
  if (e->depth > kMaxDepth || CostOf(e) > 8) return false;
  // Padding and slicing select between one element and a constant; index arithmetic is free.
  int loads = 0;
  bool cheap = true;
  Visit(e, [&](Expr x) {
    if (x->op == ExprOp::kLoad) {
      ++loads;
      for (Expr i : x->args) {
        Visit(i, [&](Expr y) {
          cheap &= y->op != ExprOp::kLoad;
          return true;
        });
      }
      return false;
    }
    const bool is_data = IsFloat(x->type.dtype) || x->type.lanes > 1;
    if (is_data && x->op != ExprOp::kCast && x->op != ExprOp::kSelect && x->op != ExprOp::kFloat) cheap = false;
    return true;
  });
  return cheap && loads <= 1;
}

int CostOf(Expr e) { return CostOf(std::vector<Expr>{e}, nullptr); }

int CostOf(const std::vector<Expr>& values, Expr lane) {
  struct Found {
    bool moves, reads;  // with the lane; memory
  };
  int64_t cost = 0;
  absl::flat_hash_map<Expr, Found> found;
  const std::function<Found(Expr)> add = [&](Expr x) -> Found {
    const auto [it, is_new] = found.emplace(x, Found{lane == nullptr || x == lane, x->op == ExprOp::kLoad});
    if (!is_new || cost >= 1000) return it->second;
    Found all = it->second;
    const int64_t before = cost;
    for (Expr a : x->args) {
      const Found of = add(a);
      all = {all.moves || of.moves, all.reads || of.reads};
    }
    if (x->op == ExprOp::kLoad) cost = before;  // index arithmetic is shared
    // Numbers of lanes that follow one another are one number; conditions on conditions are a few bits.
    const bool is_bool = x->type.dtype == DType::kBool,
               compares = is_bool && x->args.size() == 2 && x->args[0]->type.dtype != DType::kBool;
    const bool is_free = lane != nullptr && (is_bool ? !compares : !all.reads && !IsFloat(x->type.dtype));
    if (const ir::OpRow* row = all.moves && !is_free ? RowOf(x->op) : nullptr; row != nullptr && x->op != ExprOp::kLoad)
      cost += row->cost == ir::OpRow::kMath ? 16 : x->op == ExprOp::kDiv && IsFloat(x->type.dtype) ? 4 : 1;
    return found[x] = all;
  };
  for (Expr e : values) add(e);
  return static_cast<int>(cost);
}

bool IsComputed(Expr factor) { return StripCasts(factor)->op != ExprOp::kLoad; }

Expr MainLoad(const Stage& s, const std::vector<Expr>& values) {
  Expr r = nullptr;
  int most = -1;
  for (Expr v : values) {
    VisitLoads(v, [&](Expr e) {
      int used = 0;
      for (const auto* list : {&s.iters, &s.reduce_iters}) {
        for (const StageIter& i : *list) used += Uses(e, i.var);
      }
      if (used > most && !Writes(s, e->buffer)) r = e, most = used;
    });
  }
  return r;
}

std::optional<Contraction> FindContraction(const Stage& s) {
  std::optional<Contraction> r = FindProduct(s);
  if (!r || IsComputed(r->lhs) || IsComputed(r->rhs)) return std::nullopt;
  r->lhs = StripCasts(r->lhs);
  r->rhs = StripCasts(r->rhs);
  return r;
}

std::optional<Contraction> FindProduct(const Stage& s) {
  if (!s.IsReduction() || s.values.size() != 1) return std::nullopt;
  const Expr v = s.values[0];
  const Expr acc = s.outputs.empty() ? nullptr : v->op == ExprOp::kAdd ? v : nullptr;
  if (acc == nullptr) return std::nullopt;
  auto is_accumulator = [&](Expr e) { return e->op == ExprOp::kLoad && e->buffer == s.outputs[0]; };
  const Expr product = is_accumulator(v->args[0]) ? v->args[1] : is_accumulator(v->args[1]) ? v->args[0] : nullptr;
  if (product == nullptr || product->op != ExprOp::kMul) return std::nullopt;
  Contraction r;
  r.lhs = product->args[0];
  r.rhs = product->args[1];
  for (Expr factor : {r.lhs, r.rhs}) {
    bool reads = false;
    VisitLoads(factor, [&](Expr) { reads = true; });
    if (!reads) return std::nullopt;
  }
  for (const StageIter& i : s.iters) {
    const bool in_lhs = Uses(r.lhs, i.var), in_rhs = Uses(r.rhs, i.var);
    if (IsInt(i.extent, 1) || (in_lhs && in_rhs))
      r.batch.push_back(i);
    else if (in_lhs)
      r.m.push_back(i);
    else if (in_rhs)
      r.n.push_back(i);
    else
      return std::nullopt;
  }
  for (const StageIter& i : s.reduce_iters) {
    if (!IsInt(i.extent, 1) && !(Uses(r.lhs, i.var) && Uses(r.rhs, i.var))) return std::nullopt;
    r.k.push_back(i);
  }
  if (r.m.empty() && r.n.empty()) return std::nullopt;
  return r;
}

int64_t DivisorOf(Expr e, Expr var) {
  int64_t divisor = 0;
  bool only = true;
  Visit(e, [&](Expr x) {
    const bool divides = x->op == ExprOp::kDiv && x->args[0] == var && IsInt(x->args[1]);
    if (x == var || (divides && divisor != 0 && divisor != x->args[1]->int_value)) only = false;
    if (divides) divisor = x->args[1]->int_value;
    return !divides;
  });
  return only ? divisor : 0;
}

const ir::Stage& StageNamed(const std::vector<ir::Stage>& stages, const std::string& name) {
  return *std::find_if(stages.begin(), stages.end(), [&](const ir::Stage& s) { return s.name == name; });
}

ir::Expr StepAlong(ir::Analyzer& a, ir::Expr offset, ir::Expr var) {
  ir::Context& c = a.context();
  return a.Simplify(c.Sub(ir::Substitute(c, offset, {{var, c.Add(var, c.Int(1))}}), offset));
}

bool IsContiguous(ir::Analyzer& a, ir::Expr offset, ir::Expr var) { return ir::IsInt(StepAlong(a, offset, var), 1); }

bool IsParam(const ir::TeProgram& p, ir::Buffer b) {
  return std::any_of(p.params.begin(), p.params.end(), [&](const ir::Param& q) { return q.buffer == b; });
}

bool EndsInMemory(Context& c, const Stage& s) {
  if (!s.IsReduction() || s.outputs.size() != 1) return false;
  const auto join = FindJoin(c, s.values, RunningOf(c, s));
  const Expr neutral = join ? NeutralOf(c, s.values[0]->op, s.values[0]->type.dtype) : nullptr;
  if (neutral == nullptr) return false;
  absl::flat_hash_set<Expr> reduced;
  for (const StageIter& i : s.reduce_iters) reduced.insert(i.var);
  const std::vector<Expr> conditions = ConditionsOf(join->elements[0], neutral, false);
  return std::any_of(conditions.begin(), conditions.end(), [&](Expr e) {
    return e->reads && (FirstFalse(c, e, s.reduce_iters.back().var) != nullptr || !Uses(e, reduced));
  });
}

bool ScansColumns(const Stage& s) {
  for (size_t i = s.iters.size(); i-- > 0 && s.iters[i].var != s.along;) {
    if (!IsInt(s.iters[i].extent, 1)) return true;
  }
  return false;
}

bool IsScanWithReaders(const std::vector<Stage>& stages, const std::vector<ir::Buffer>& outputs) {
  if (stages.empty() || !stages[0].IsScan()) return false;
  const Stage& scan = stages[0];
  std::vector<ir::Buffer> read;
  for (size_t k = 1; k < stages.size(); ++k) {
    const Stage& s = stages[k];
    bool reads = false;
    const bool is_there =
        s.IsPointwise() && s.at.empty() &&
        std::equal(s.iters.begin(), s.iters.end(), scan.iters.begin(), scan.iters.end(),
                   [](const ir::StageIter& a, const ir::StageIter& b) { return a.extent == b.extent; });
    if (!is_there) return false;
    for (ir::Buffer b : InputsOf(s)) {
      if (!Contains(scan.outputs, b)) continue;
      if (reads || Contains(read, b) || Contains(outputs, b)) return false;
      read.push_back(b);
      reads = true;
    }
    for (ir::Expr e : LoadsOf(s)) {
      if (Contains(scan.outputs, e->buffer) && (e->has_mask || IndicesOf(e) != VarsOf(s.iters))) return false;
    }
    if (!reads) return false;
  }
  return true;
}

}  // namespace cinn_like::hlir
