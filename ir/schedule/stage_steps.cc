#include "ir/schedule/stage_steps.h"

#include <algorithm>
#include <utility>

#include "ir/analyzer.h"
#include "ir/index_map.h"
#include "ir/schedule/stage_parts.h"

namespace cinn_like::ir {
namespace {

// For errors.
std::string Spell(Expr load) {
  constexpr int kMostNodes = 100;
  return PrintsWithin(load, kMostNodes) ? Print(load) : Cat(load->buffer->name, "[...]");
}

// `v` with the loads that `to` has something for replaced by that.
Expr ReplaceLoads(Context& c, Expr v, const std::function<Expr(Expr)>& to) {
  return Rewriter(c, [&](Expr e) -> Expr { return e->op == ExprOp::kLoad ? to(e) : nullptr; })(v);
}

// Whether every load in `value` stays inside of its buffer whatever `iters` are, or is masked: where a stage runs at
// all of these, its masks see to that.
bool StaysInside(const TeProgram& p, const std::vector<StageIter>& iters, Expr value, bool masks_do) {
  Context& c = *p.context;
  Analyzer a(c);
  BindFacts(a, p, iters);
  bool inside = true;
  Visit(value, [&](Expr e) {
    if (e->op != ExprOp::kLoad || (e->has_mask && masks_do)) return inside;
    const Analyzer::Assume asked(a, e->has_mask ? MaskOf(e) : c.Bool(true));
    const std::vector<Expr> at = IndicesOf(e);
    for (size_t d = 0; d < at.size() && inside; ++d)
      inside = a.CanProve(c.Le(c.Int(0), at[d])) && a.CanProve(c.Lt(at[d], e->buffer->shape[d]));
    return inside;
  });
  return inside;
}

// Whether something that `is_it` stands where it is always evaluated: in no operand of a select, in no second one of
// && or ||, in no index under a mask.
bool IsAlwaysEvaluated(Expr v, const std::function<bool(Expr)>& is_it) {
  absl::flat_hash_set<Expr> seen;
  std::function<bool(Expr)> go = [&](Expr e) {
    if (!seen.insert(e).second) return false;
    if (is_it(e)) return true;
    if (e->op == ExprOp::kSelect || e->op == ExprOp::kAnd || e->op == ExprOp::kOr) return go(e->args[0]);
    if (e->op == ExprOp::kLoad && e->has_mask) return go(MaskOf(e));
    return std::any_of(e->args.begin(), e->args.end(), go);
  };
  return go(v);
}

// A load of one stage with the places, by another one's iterators, at which that has its element, and what the first
// one's iterators are there.
struct Link {
  Expr load;
  std::vector<Expr> places, inverse;
};

std::optional<Link> LinkOf(Analyzer& a, const Stage& s, Expr load, const std::vector<Expr>& places) {
  std::vector<Expr> map = IndicesOf(load);
  for (Expr& e : map) e = a.Simplify(e);
  auto inverse = InvertIndexMap(a, s.iters, map, load->buffer->shape, places);
  return inverse ? std::optional(Link{load, places, *std::move(inverse)}) : std::nullopt;
}

std::vector<Expr> LoadsIn(const Stage& s) {
  std::vector<Expr> r;
  for (Expr v : s.values) VisitLoads(v, [&](Expr e) { r.push_back(e); });
  return r;
}

// By what `to` writes at `places`.
StatusOr<Link> LinkByResults(Analyzer& a, const Stage& s, const Stage& to, const std::vector<Expr>& places) {
  std::vector<Expr> loads = LoadsIn(s);
  std::erase_if(loads, [&](Expr e) { return !Contains(to.outputs, e->buffer); });
  if (loads.empty()) {
    return InvalidArgument("stage ", s.name, " does not read stage ", to.name, ", nor each element of what that reads");
  }
  for (Expr e : loads) {
    if (e->has_mask || e->args != loads[0]->args)
      return InvalidArgument("stage ", s.name, " reads stage ", to.name, " at more than one place: ", Spell(loads[0]),
                             ", ", Spell(e));
  }
  if (auto link = LinkOf(a, s, loads[0], places)) return *std::move(link);
  return InvalidArgument("stage ", s.name, " reads ", Spell(loads[0]), ", which does not say for each element of ",
                         loads[0]->buffer->name, " at which iterators it is read");
}

// By what both read, `to` each element once: at `iters`, which `of_to` says of its own.
std::optional<Link> LinkByInputs(Analyzer& a, const Stage& s, const Stage& to, const std::vector<StageIter>& iters,
                                 const VarMap& of_to) {
  if (to.where != nullptr) return std::nullopt;
  const std::vector<Expr> loads = LoadsIn(s);
  for (Expr its : LoadsIn(to)) {
    if (its->has_mask || Contains(to.outputs, its->buffer)) continue;
    std::vector<Expr> places = IndicesOf(its);
    for (Expr& e : places) e = Substitute(a.context(), e, of_to);
    if (!InvertIndexMap(a, iters, places, its->buffer->shape, places)) continue;
    for (Expr load : loads) {
      if (load->buffer != its->buffer || load->has_mask) continue;
      if (auto link = LinkOf(a, s, load, places)) return link;
    }
  }
  return std::nullopt;
}

}  // namespace

StatusOr<Stage> AlignStage(Analyzer& a, Stage s, const Stage& to, const std::vector<std::string>& names) {
  Context& c = a.context();
  RETURN_IF_ERROR(CheckNoScan(s));
  if (s.IsReduction()) return InvalidArgument("stage ", s.name, " reduces; only a pointwise stage can be aligned");
  if (!s.at.empty()) return InvalidArgument("stage ", s.name, " does not write at its iterators");
  std::vector<StageIter> iters;
  VarMap of_to;
  for (const StageIter& i : AllIters(to)) {
    iters.push_back({c.Var(names[iters.size()]), i.extent});
    of_to[i.var] = iters.back().var;
  }
  for (const auto* list : {&s.iters, &iters}) {
    for (const StageIter& i : *list) {
      if (!IsInt(i.extent, 1)) a.BindRange(i.var, c.Int(0), i.extent);  // else no place would say which one it is of
    }
  }
  std::vector<Expr> places = to.at.empty() ? VarsOf(to.iters) : to.at;
  for (Expr& e : places) e = Substitute(c, e, of_to);
  StatusOr<Link> link = LinkByResults(a, s, to, places);
  if (link.ok()) {
    iters.resize(to.iters.size());
  } else if (auto other = LinkByInputs(a, s, to, iters, of_to)) {
    link = *std::move(other);
  } else {
    return link.status();
  }
  VarMap map;
  for (size_t d = 0; d < s.iters.size(); ++d) map[s.iters[d].var] = link->inverse[d];
  // Reads of what links them are where the other one is, whatever the simplifier makes of the round trip.
  Rewriter* self = nullptr;
  Rewriter move(c, [&](Expr e) -> Expr {
    if (e->op == ExprOp::kLoad && e->buffer == link->load->buffer && e->args == link->load->args)
      return c.Load(e->buffer, link->places);
    if (e->op == ExprOp::kLoad) return MoveLoad(a, *self, e);
    if (e->op != ExprOp::kVar) return nullptr;
    auto it = map.find(e);
    return it == map.end() ? e : it->second;
  });
  self = &move;
  for (Expr& v : s.values) v = move(v);
  // Where the other one writes nothing (rounded up), nothing is to be read.
  if (to.where != nullptr) s.where = Substitute(c, to.where, of_to);
  if (link->inverse != VarsOf(iters) || s.where != nullptr) s.at = link->inverse;
  s.iters = std::move(iters);
  return s;
}

StatusOr<TeProgram> Align(TeProgram p, const std::string& stage, const std::string& to) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  ASSIGN_OR_RETURN(const size_t of, FindStage(p, to));
  std::vector<std::string> names;
  NameSupply used(NamesOf(p));
  for (const StageIter& i : AllIters(p.stages[of])) names.push_back(used.Fresh(i.var->name + "_o"));
  Analyzer a(*p.context);
  BindFacts(a, p, {});
  ASSIGN_OR_RETURN(Stage aligned, AlignStage(a, p.stages[at], p.stages[of], names));
  RETURN_IF_ERROR(CheckNew(p, names));
  p.stages[at] = std::move(aligned);
  return p;
}

StatusOr<TeProgram> Keep(TeProgram p, const std::string& result, const std::string& name) {
  Context& c = *p.context;
  size_t at = 0;
  Buffer from = nullptr;
  for (size_t k = 0; k < p.stages.size(); ++k) {
    for (Buffer b : p.stages[k].outputs) {
      if (b->name == result) at = k, from = b;
    }
  }
  const bool is_param = std::any_of(p.params.begin(), p.params.end(), [&](const Param& q) { return q.buffer == from; });
  if (from == nullptr || !is_param) return InvalidArgument("no stage of @", p.name, " writes a result '", result, "'");
  Stage copy;
  copy.name = Cat("copy_", result);
  std::vector<std::string> names = {name, copy.name};
  const Stage& s = p.stages[at];
  if (!s.at.empty() || s.IsCall()) return InvalidArgument("stage ", s.name, " does not write at its iterators");
  for (const StageIter& i : s.iters) {
    names.push_back(Cat(i.var->name, "_", result));
    copy.iters.push_back({c.Var(names.back()), i.extent});
  }
  RETURN_IF_ERROR(CheckNew(p, names));
  const Buffer kept = c.MakeBuffer({.name = name, .dtype = from->dtype, .shape = from->shape});
  copy.outputs = {from};
  copy.values = {c.Load(kept, VarsOf(copy.iters))};
  for (size_t k = at; k < p.stages.size(); ++k) {
    for (Expr& v : p.stages[k].values) {
      v = ReplaceLoads(
          c, v, [&](Expr e) -> Expr { return e->buffer == from ? c.Load(kept, IndicesOf(e), MaskOf(e)) : nullptr; });
    }
  }
  std::replace(p.stages[at].outputs.begin(), p.stages[at].outputs.end(), from, kept);
  p.stages.insert(p.stages.begin() + static_cast<ptrdiff_t>(at) + 1, std::move(copy));
  return p;
}

StatusOr<TeProgram> InlineStage(TeProgram p, const std::string& stage) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  const Stage s = p.stages[at];
  RETURN_IF_ERROR(CheckNoScan(s));
  if (!s.IsPointwise()) return InvalidArgument("stage ", stage, " reduces; only a pointwise stage can be inlined");
  if (!WritesAllocations(p, s)) return InvalidArgument("stage ", stage, " writes a result, or not at its iterators");
  for (Buffer b : s.outputs) {
    const auto asks = [&](const RangeCheck& r) { return r.values == b || r.low == b || r.high == b; };
    if (Contains(p.kept, b) || std::any_of(p.checks.begin(), p.checks.end(), asks))
      return InvalidArgument("stage ", stage, " writes ", b->name, ", which others than stages need");
  }
  for (Stage& reader : p.stages) {
    for (size_t o = 0; o < s.outputs.size(); ++o) {
      for (Expr& v : reader.values) v = InlineLoads(*p.context, v, s.outputs[o], VarsOf(s.iters), s.values[o]);
    }
  }
  p.stages.erase(p.stages.begin() + static_cast<ptrdiff_t>(at));
  return p;
}

StatusOr<TeProgram> Fold(TeProgram p, const std::string& stage, const std::vector<Folded>& to) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  const Stage& s = p.stages[at];
  const std::vector<StageIter> own = AllIters(s);

  // What each iterator is of the new ones.
  NewIters r;
  std::vector<std::string> names;
  std::vector<std::vector<size_t>> places;  // of the iterators of each bracket of data iterators
  std::optional<size_t> last_reduced;
  for (const Folded& fold : to) {
    Expr extent = c.Int(1);
    std::vector<size_t> dims;
    bool has_data = fold.iters.empty();
    for (const std::string& name : fold.iters) {
      size_t d = 0;
      while (d < own.size() && own[d].var->name != name) ++d;
      if (d == own.size()) return InvalidArgument(name, " is no iterator of stage ", stage);
      if (!r.of.emplace(own[d].var, nullptr).second) return InvalidArgument(name, " stands in brackets twice");
      if (d < s.iters.size()) {
        has_data = true;
      } else if (std::exchange(last_reduced, d).value_or(0) > d) {
        return InvalidArgument(name, " of stage ", stage, " stands after an iterator that it is reduced before");
      }
      dims.push_back(d);
      extent = c.Mul(extent, own[d].extent);
    }
    if (has_data && !dims.empty() && *std::max_element(dims.begin(), dims.end()) >= s.iters.size())
      return InvalidArgument(fold.name, " of stage ", stage, " stands for iterators of which it reduces some");
    names.push_back(fold.name);
    const StageIter folded{c.Var(fold.name), extent};
    Expr rest = folded.var;
    for (size_t i = dims.size(); i-- > 0;) {
      const StageIter& iter = own[dims[i]];
      r.of[iter.var] = i == 0 ? rest : c.Mod(rest, iter.extent);
      rest = c.Div(rest, iter.extent);
    }
    (has_data ? r.iters : r.reduce_iters).push_back(folded);
    if (has_data) places.push_back(std::move(dims));
  }
  RETURN_IF_ERROR(CheckNew(p, names));
  for (size_t d = 0; d < own.size(); ++d) {
    const StageIter& i = own[d];
    if (r.of.contains(i.var)) continue;
    const bool reduced = d >= s.iters.size(), is_one = IsInt(i.extent, 1);
    if (!is_one && (!reduced || last_reduced))
      return InvalidArgument(i.var->name, " of stage ", stage, " stands in no brackets");
    // Of a reduction's that stand in none one stays.
    if (is_one && !(reduced && d + 1 == own.size() && r.reduce_iters.empty()))
      r.of.emplace(i.var, c.Int(0));
    else
      r.reduce_iters.push_back(i);
  }
  r.indices = [&c, places, own](const std::vector<Expr>& indices) {
    std::vector<Expr> r;
    for (const std::vector<size_t>& dims : places) {
      Expr e = c.Int(0);
      for (size_t d : dims) e = c.Add(c.Mul(e, own[d].extent), indices[d]);
      r.push_back(e);
    }
    return r;
  };
  return Reiterate(std::move(p), at, r);
}

StatusOr<TeProgram> Define(TeProgram p, const Definition& d) {
  Context& c = *p.context;
  ASSIGN_OR_RETURN(Expr value, ParseExprOf(NamesOf(p), d.value));
  // The reader is the stage whose iterators these are.
  size_t at = 0;
  std::vector<StageIter> iters;
  VarMap ones;
  for (; at < p.stages.size(); ++at) {
    iters.clear();
    ones.clear();
    const std::vector<StageIter> own = AllIters(p.stages[at]);
    for (const std::string& name : d.iters) {
      for (const StageIter& i : own) {
        if (i.var->name == name) iters.push_back(i);
      }
    }
    for (const StageIter& i : own) {
      const bool listed = std::count(d.iters.begin(), d.iters.end(), i.var->name) > 0;
      if (IsInt(i.extent, 1) && !listed) ones[i.var] = c.Int(0);
    }
    if (!iters.empty() && iters.size() == d.iters.size()) break;
  }
  if (at == p.stages.size()) return InvalidArgument("no stage of @", p.name, " has these iterators: ", d.name, "[...]");
  Stage& reader = p.stages[at];
  const std::vector<Expr> vars = VarsOf(iters);
  const auto settled = [&](Expr e) { return ones.empty() ? e : Substitute(c, e, ones); };
  value = settled(value);
  for (Expr v : VarsOf(value)) {
    const bool is_symbol =
        std::any_of(p.symbols.begin(), p.symbols.end(), [&](const SymbolFact& f) { return f.var == v; });
    const bool is_param = std::any_of(p.params.begin(), p.params.end(), [&](const Param& q) { return q.var == v; });
    if (!is_symbol && !is_param && std::find(vars.begin(), vars.end(), v) == vars.end())
      return InvalidArgument(d.value, " depends on ", v->name, ", which is not one of ", d.name, "'s iterators");
  }

  size_t exists = 0;
  while (exists < p.stages.size() && p.stages[exists].name != d.name) ++exists;
  Buffer made = nullptr;
  if (exists < p.stages.size()) {
    const Stage& s = p.stages[exists];
    if (d.before) return InvalidArgument("stage ", d.name, " stands somewhere already, so it goes before no other");
    VarMap own;
    bool same =
        exists < at && s.IsPointwise() && s.at.empty() && s.values.size() == 1 && s.iters.size() == iters.size();
    for (size_t i = 0; same && i < iters.size(); ++i) {
      own[s.iters[i].var] = iters[i].var;
      same = s.iters[i].extent == iters[i].extent;
    }
    if (!same || Substitute(c, s.values[0], own) != value)
      return InvalidArgument("stage ", d.name, " does not compute ", d.value, " for stage ", reader.name);
    made = s.outputs[0];
  }

  Stage defined;
  size_t before = at;
  if (made == nullptr) {
    if (d.before) {
      ASSIGN_OR_RETURN(before, FindStage(p, *d.before));
      if (before > at)
        return InvalidArgument("stage ", *d.before, " comes after stage ", reader.name, ", which reads it");
    }
    if (value->type.lanes != 1) return InvalidArgument(d.value, " is a vector");
    Status readable;
    Visit(value, [&](Expr e) {
      for (size_t k = before; k < p.stages.size(); ++k) {
        if (e->buffer != nullptr && Writes(p.stages[k], e->buffer))
          readable.Update(InvalidArgument(d.value, " reads ", e->buffer->name, ", which stage ", p.stages[k].name,
                                          " is still to compute"));
      }
      return true;
    });
    RETURN_IF_ERROR(readable);
    defined.name = d.name;
    std::vector<std::string> names = {d.name};
    std::vector<Expr> shape;
    VarMap own;
    for (const StageIter& i : iters) {
      names.push_back(Cat(d.name, "_", shape.size()));
      defined.iters.push_back({c.Var(names.back()), i.extent});
      own[i.var] = defined.iters.back().var;
      shape.push_back(i.extent);
    }
    RETURN_IF_ERROR(CheckNew(p, names));
    made = c.MakeBuffer({.name = d.name, .dtype = value->type.dtype, .shape = std::move(shape)});
    defined.outputs = {made};
    defined.values = {Substitute(c, value, own)};
  }
  // The operator is asked first: most of what a stage computes is something else.
  const auto is_value = [&](Expr e) { return e->op == value->op && e->type == value->type && settled(e) == value; };
  const Expr read = c.Load(made, vars);
  Analyzer a(c);
  for (const SymbolFact& f : p.symbols) a.BindSymbol(f);
  bool found = false, runs = reader.where == nullptr, always = false;
  for (const StageIter& i : AllIters(reader)) {
    const bool listed = std::find(vars.begin(), vars.end(), i.var) != vars.end();
    runs = runs && (listed || a.CanProve(c.Lt(c.Int(0), i.extent)));
  }
  for (Expr& v : reader.values) {
    always = always || (runs && IsAlwaysEvaluated(v, is_value));
    v = Rewriter(c, [&](Expr e) -> Expr {
      if (!is_value(e)) return nullptr;
      found = true;
      return read;
    })(v);
  }
  if (!found) return InvalidArgument("stage ", reader.name, " does not compute ", d.value);
  if (!defined.name.empty() && !always && !StaysInside(p, iters, value, reader.where == nullptr)) {
    return InvalidArgument("stage ", reader.name, " computes ", d.value,
                           " under conditions, without which it may read beyond a buffer's end");
  }
  if (!defined.name.empty()) p.stages.insert(p.stages.begin() + static_cast<ptrdiff_t>(before), std::move(defined));
  return p;
}

}  // namespace cinn_like::ir
