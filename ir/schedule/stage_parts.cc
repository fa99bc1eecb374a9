#include "ir/schedule/stage_parts.h"

#include <algorithm>

namespace cinn_like::ir {

StatusOr<size_t> FindStage(const TeProgram& p, const std::string& name) {
  std::string known;
  for (size_t k = 0; k < p.stages.size(); ++k) {
    const Stage& s = p.stages[k];
    if (s.name == name && s.IsCall())
      return InvalidArgument("stage ", name, " calls \"", As<Call>(s.call)->text,
                             "\", which computes its outputs as a whole");
    if (s.name == name) return k;
    known += Cat(known.empty() ? "" : ", ", p.stages[k].name);
  }
  return InvalidArgument("no stage '", name, "' in @", p.name, "; its stages are ", known);
}

std::vector<StageIter> AllIters(const Stage& s) {
  std::vector<StageIter> r = s.iters;
  r.insert(r.end(), s.reduce_iters.begin(), s.reduce_iters.end());
  return r;
}

Func NamesOf(const TeProgram& p) {
  Func f{p.name, FuncKind::kInternal, p.params, p.symbols, nullptr, p.context};
  for (const Stage& s : p.stages) {
    for (const auto* list : {&s.outputs, &s.running}) {
      for (Buffer b : *list) f.params.push_back({.buffer = b});
    }
    for (const StageIter& i : AllIters(s)) f.params.push_back({.var = i.var});
  }
  return f;
}

Status CheckNew(const TeProgram& p, const std::vector<std::string>& names) {
  absl::flat_hash_set<std::string> taken;
  for (const Param& q : NamesOf(p).params) taken.insert(q.buffer != nullptr ? q.buffer->name : q.var->name);
  for (const SymbolFact& s : p.symbols) taken.insert(s.var->name);
  // A stage's block bears its name, or the text would give it another.
  for (const Stage& s : p.stages) taken.insert({s.name, "b_" + s.name});
  for (const std::string& name : names) {
    if (!taken.insert(name).second) return InvalidArgument("the name ", name, " is taken in @", p.name);
  }
  for (const std::string& name : names) {
    if (taken.contains("b_" + name)) return InvalidArgument("the name b_", name, " is taken in @", p.name);
  }
  return absl::OkStatus();
}

void BindFacts(Analyzer& a, const TeProgram& p, const std::vector<StageIter>& iters) {
  for (const SymbolFact& s : p.symbols) a.BindSymbol(s);
  for (const StageIter& i : iters) a.BindRange(i.var, a.context().Int(0), i.extent);
}

Expr MoveLoad(Analyzer& a, Rewriter& move, Expr load) {
  std::vector<Expr> indices;
  for (Expr i : IndicesOf(load)) indices.push_back(a.Simplify(move(i)));
  const Expr mask = MaskOf(load);
  return a.context().Load(load->buffer, std::move(indices), mask == nullptr ? nullptr : a.Simplify(move(mask)));
}

bool WritesAllocations(const TeProgram& p, const Stage& s) {
  const auto is_param = [&](Buffer b) {
    return std::any_of(p.params.begin(), p.params.end(), [&](const Param& q) { return q.buffer == b; });
  };
  return s.at.empty() && std::none_of(s.outputs.begin(), s.outputs.end(), is_param);
}

Status CheckNoScan(const Stage& s) {
  if (!s.IsScan()) return absl::OkStatus();
  return InvalidArgument("stage ", s.name, " is a scan along ", s.along->name, ", whose iterators stay as they are");
}

StatusOr<TeProgram> Reiterate(TeProgram p, size_t stage, const NewIters& to) {
  Context& c = *p.context;
  Stage& s = p.stages[stage];
  const bool reshapes = WritesAllocations(p, s);
  RETURN_IF_ERROR(CheckNoScan(s));
  if (s.IsReduction() && !reshapes)
    return InvalidArgument("stage ", s.name, " reduces into a result, whose shape stays: keep it first");
  const std::vector<Expr> vars = VarsOf(to.iters), moved = to.indices(VarsOf(s.iters));
  VarMap whole;  // what the new iterators are of the old
  for (size_t k = 0; k < moved.size(); ++k) {
    if (!IsInt(moved[k])) whole[moved[k]] = vars[k];
  }
  absl::flat_hash_map<Buffer, Buffer> buffers;
  for (Buffer b : s.outputs) {
    if (!reshapes) break;
    BufferNode n{.name = b->name, .dtype = b->dtype};
    for (const StageIter& i : to.iters) n.shape.push_back(i.extent);
    buffers[b] = c.MakeBuffer(std::move(n));
  }
  Analyzer a(c);
  std::vector<StageIter> all = to.iters;
  all.insert(all.end(), to.reduce_iters.begin(), to.reduce_iters.end());
  BindFacts(a, p, all);
  Rewriter* self = nullptr;
  Rewriter move(c, [&](Expr e) -> Expr {
    if (auto it = whole.find(e); it != whole.end()) return it->second;
    if (e->op == ExprOp::kLoad && buffers.contains(e->buffer)) return c.Load(buffers.at(e->buffer), vars);
    if (e->op == ExprOp::kLoad) return MoveLoad(a, *self, e);
    if (e->op != ExprOp::kVar) return nullptr;
    auto it = to.of.find(e);
    return it == to.of.end() ? e : it->second;
  });
  self = &move;
  for (std::vector<Expr>* list : {&s.values, &s.inits}) {
    for (Expr& e : *list) e = move(e);
  }
  if (!reshapes) {
    if (s.at.empty()) s.at = VarsOf(s.iters);
    for (Expr& e : s.at) e = move(e);
    if (s.where != nullptr) s.where = a.Simplify(move(s.where));
  }
  for (Buffer& b : s.outputs) {
    if (reshapes) b = buffers.at(b);
  }
  for (size_t k = stage + 1; k < p.stages.size(); ++k) {
    std::vector<StageIter> ranges = AllIters(p.stages[k]);
    std::erase_if(ranges, [](const StageIter& i) { return IsInt(i.extent, 1); });  // they keep their names
    BindFacts(a, p, ranges);
    for (Expr& v : p.stages[k].values) {
      Rewriter* read = nullptr;
      Rewriter rewrite(c, [&](Expr e) -> Expr {
        if (e->op != ExprOp::kLoad || !buffers.contains(e->buffer)) return nullptr;
        std::vector<Expr> indices;
        for (Expr i : IndicesOf(e)) indices.push_back((*read)(i));
        const Expr mask = MaskOf(e);
        std::vector<Expr> moved = to.indices(indices);
        for (Expr& i : moved) i = a.Simplify(i);
        return c.Load(buffers.at(e->buffer), std::move(moved), mask == nullptr ? nullptr : (*read)(mask));
      });
      read = &rewrite;
      v = rewrite(v);
    }
  }
  s.iters = to.iters;
  s.reduce_iters = to.reduce_iters;
  return p;
}

namespace {

// Whether joining the same once more changes nothing.
bool IsIdempotent(ExprOp op) {
  switch (op) {
    case ExprOp::kSelect:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kBitAnd:
    case ExprOp::kBitOr:
      return true;
    default:
      return false;
  }
}

}  // namespace

StatusOr<Join> JoinOf(Context& c, const Stage& s) {
  RETURN_IF_ERROR(CheckNoScan(s));
  std::optional<Join> join = FindJoin(c, s.values, RunningOf(c, s));
  if (!join) return InvalidArgument("stage ", s.name, " does not join elements by an operator that takes any order");
  for (size_t k = 0; k < s.values.size(); ++k) {
    if (!IsIdempotent(s.values[k]->op) && s.inits[k] != NeutralOf(c, s.values[k]->op, s.outputs[k]->dtype)) {
      return InvalidArgument("stage ", s.name, " starts ", s.outputs[k]->name, " with ", Print(s.inits[k]),
                             ", which is not known to change nothing");
    }
  }
  return *std::move(join);
}

}  // namespace cinn_like::ir
