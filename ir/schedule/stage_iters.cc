// Steps that change over what a stage runs: digits, extents, parts of a reduction.
#include <algorithm>
#include <limits>

#include "ir/join.h"
#include "ir/schedule/stage_parts.h"
#include "ir/schedule/stage_steps.h"

namespace cinn_like::ir {
namespace {

// The place of an iterator among all of a stage's.
StatusOr<size_t> FindIter(const Stage& s, const std::string& name) {
  const std::vector<StageIter> all = AllIters(s);
  std::string known;
  for (size_t d = 0; d < all.size(); ++d) {
    if (all[d].var->name == name) return d;
    known += Cat(known.empty() ? "" : ", ", all[d].var->name);
  }
  return InvalidArgument(name, " is no iterator of stage ", s.name, "; it has ", known);
}

// `v` with its reads at `var` done by `to(load with indices that were treated so, mask)`.
Expr ReplaceReads(Context& c, Expr v, Expr var, const std::function<Expr(Expr load, Expr mask)>& to) {
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if (e->op != ExprOp::kLoad || !Uses(e, var)) return nullptr;
    std::vector<Expr> indices;
    for (Expr i : IndicesOf(e)) indices.push_back((*self)(i));
    const Expr mask = MaskOf(e);
    return to(c.Load(e->buffer, std::move(indices)), mask == nullptr ? nullptr : (*self)(mask));
  });
  self = &rewrite;
  return rewrite(v);
}

// What an integer division, or a shift, by something that depends on `var` looks like; null if there is none.
Expr FindDivision(const std::vector<Expr>& values, Expr var) {
  Expr found = nullptr;
  for (Expr v : values) {
    Visit(v, [&](Expr e) {
      switch (e->op) {
        case ExprOp::kDiv:
        case ExprOp::kMod:
        case ExprOp::kTruncDiv:
        case ExprOp::kTruncMod:
        case ExprOp::kShl:
        case ExprOp::kShr:
          if (!IsFloat(e->type.dtype) && Uses(e->args[1], var)) found = e;
          return true;
        default:
          return true;
      }
    });
  }
  return found;
}

}  // namespace

StatusOr<TeProgram> Unfold(TeProgram p, const std::string& stage, const std::string& iterator,
                           const std::vector<int64_t>& factors, const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  const Stage& s = p.stages[at];
  ASSIGN_OR_RETURN(const size_t dim, FindIter(s, iterator));
  const StageIter old = AllIters(s)[dim];
  if (names.size() != factors.size() + 1)
    return InvalidArgument("expected ", factors.size() + 1, " names for the digits and got ", names.size());
  int64_t product = 1;
  for (int64_t f : factors) {
    if (f < 1 || f > INT32_MAX / product)
      return InvalidArgument("expected factors of 1 or more, whose product is below 2^31, and got ", f);
    product *= f;
  }
  Analyzer a(c);
  BindFacts(a, p, AllIters(s));
  if (a.KnownDivisor(old.extent) % product != 0) {
    return InvalidArgument(iterator, " of stage ", stage, " has ", Print(old.extent),
                           " values, which is not known to be a multiple of ", product);
  }
  RETURN_IF_ERROR(CheckNew(p, names));
  std::vector<StageIter> digits;
  for (size_t k = 0; k < names.size(); ++k) {
    const Expr extent = k == 0 ? a.Simplify(c.Div(old.extent, c.Int(product))) : c.Int(factors[k - 1]);
    digits.push_back({c.Var(names[k]), extent});
  }
  NewIters r{s.iters, s.reduce_iters, {}, nullptr};
  const bool reduced = dim >= s.iters.size();
  std::vector<StageIter>& list = reduced ? r.reduce_iters : r.iters;
  const auto place = list.erase(list.begin() + static_cast<ptrdiff_t>(reduced ? dim - s.iters.size() : dim));
  list.insert(place, digits.begin(), digits.end());
  Expr whole = digits[0].var;
  for (size_t k = 1; k < digits.size(); ++k) whole = c.Add(c.Mul(whole, digits[k].extent), digits[k].var);
  r.of[old.var] = whole;
  r.indices = [&c, dim, digits, reduced](const std::vector<Expr>& indices) {
    if (reduced) return indices;
    std::vector<Expr> r = indices, own(digits.size());
    Expr rest = indices[dim];
    for (size_t k = digits.size(); k-- > 0;) {
      own[k] = k == 0 ? rest : c.Mod(rest, digits[k].extent);
      rest = c.Div(rest, digits[k].extent);
    }
    const auto place = r.erase(r.begin() + static_cast<ptrdiff_t>(dim));
    r.insert(place, own.begin(), own.end());
    return r;
  };
  if (!reduced) return Reiterate(std::move(p), at, r);
  // Nothing moves that is written.
  Stage& changed = p.stages[at];
  for (Expr& v : changed.values) v = Substitute(c, v, r.of);
  changed.reduce_iters = std::move(r.reduce_iters);
  return p;
}

namespace {

// The stage's iterator at `dim` has values before its first, as many as `before` says, and further ones, `extent` in
// all; at none of those that it had not does anything change.
StatusOr<TeProgram> Extend(TeProgram p, size_t at, size_t dim, Expr before, Expr extent) {
  Context& c = *p.context;
  Stage& s = p.stages[at];
  RETURN_IF_ERROR(CheckNoScan(s));
  const StageIter old = AllIters(s)[dim];
  const std::string& iterator = old.var->name;
  const bool reduced = dim >= s.iters.size(), reshapes = WritesAllocations(p, s);
  if (!reduced && !reshapes && s.IsReduction()) {
    return InvalidArgument("stage ", s.name, " reduces into a result: there is no place beyond ", iterator,
                           "'s end; keep it first");
  }
  for (const auto* list : {&s.values, &s.inits}) {
    if (const Expr division = FindDivision(*list, old.var))
      return InvalidArgument("stage ", s.name, " divides or shifts by what is not known beyond ", iterator,
                             "'s end: ", Print(division));
  }
  const bool moves = !IsInt(before, 0);
  NewIters to{s.iters, s.reduce_iters, {}, [](const std::vector<Expr>& indices) { return indices; }};
  (reduced ? to.reduce_iters[dim - s.iters.size()] : to.iters[dim]).extent = extent;
  if (moves) {
    to.of[old.var] = c.Sub(old.var, before);
    to.indices = [&c, vars = VarsOf(s.iters), before, reduced, dim](std::vector<Expr> indices) {
      VarMap own;
      for (size_t d = 0; d < vars.size(); ++d) own[vars[d]] = indices[d];
      if (!reduced) indices[dim] = c.Add(indices[dim], Substitute(c, before, own));
      return indices;
    };
  }
  Expr inside = c.Lt(old.var, c.Add(old.extent, before));
  if (moves) inside = c.And(c.Le(before, old.var), inside);
  Analyzer a(c);
  BindFacts(a, p, AllIters(s));
  a.BindRange(old.var, c.Int(0), extent);
  const auto is_there = [&](Expr load, Expr own) {
    const Analyzer::Assume asked(a, own == nullptr ? c.Bool(true) : own);
    bool there = true;
    for (size_t d = 0; d < load->args.size() && there; ++d)
      there = a.CanProve(c.Le(c.Int(0), load->args[d])) && a.CanProve(c.Lt(load->args[d], load->buffer->shape[d]));
    return there;
  };
  const auto mask = [&](Expr v) {
    return ReplaceReads(c, v, old.var, [&](Expr load, Expr own) {
      if (Contains(p.stages[at].outputs, load->buffer)) return load;
      if (is_there(load, own)) return own == nullptr ? load : c.Load(load->buffer, load->args, own);
      return c.Load(load->buffer, load->args, own == nullptr ? inside : c.And(inside, own));
    });
  };
  if (!reduced) {
    ASSIGN_OR_RETURN(p, Reiterate(std::move(p), at, to));
    Stage& changed = p.stages[at];
    if (!reshapes) {
      changed.where = changed.where == nullptr ? inside : c.And(changed.where, inside);
      return p;
    }
    for (std::vector<Expr>* list : {&changed.values, &changed.inits}) {
      for (Expr& v : *list) v = mask(v);
    }
    return p;
  }
  // Nothing moves that is written.
  ASSIGN_OR_RETURN(const Join join, JoinOf(c, s));
  Rewriter* self = nullptr;
  Rewriter move(c, [&](Expr e) -> Expr {
    if (e == old.var) return to.of.at(e);
    if (e->op != ExprOp::kLoad) return nullptr;
    std::vector<Expr> indices;
    for (Expr i : IndicesOf(e)) indices.push_back(a.Simplify((*self)(i)));
    return c.Load(e->buffer, std::move(indices), MaskOf(e) == nullptr ? nullptr : a.Simplify((*self)(MaskOf(e))));
  });
  self = &move;
  std::vector<Expr> elements;
  for (size_t k = 0; k < join.elements.size(); ++k) {
    const Expr e = mask(moves ? move(join.elements[k]) : join.elements[k]);
    const std::vector<Expr> asked = ConditionsOf(e, s.inits[k]), parts = ConjunctsOf(inside);
    const bool is_neutral = std::all_of(
        parts.begin(), parts.end(), [&](Expr x) { return std::find(asked.begin(), asked.end(), x) != asked.end(); });
    elements.push_back(is_neutral ? e : c.Select(inside, e, s.inits[k]));
  }
  s.values = join.Joined(c, join.running, elements);
  s.reduce_iters = to.reduce_iters;
  return p;
}

}  // namespace

StatusOr<TeProgram> RoundUp(TeProgram p, const std::string& stage, const std::string& iterator, int64_t multiple) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  ASSIGN_OR_RETURN(const size_t dim, FindIter(p.stages[at], iterator));
  const StageIter old = AllIters(p.stages[at])[dim];
  if (multiple < 1 || multiple > INT32_MAX)
    return InvalidArgument("expected a factor of 1 or more, below 2^31, and got ", multiple);
  Analyzer a(c);
  BindFacts(a, p, AllIters(p.stages[at]));
  const Expr extent = a.Simplify(c.Mul(c.CeilDiv(old.extent, c.Int(multiple)), c.Int(multiple)));
  if (a.CanProve(c.Eq(extent, old.extent))) return p;
  return Extend(std::move(p), at, dim, c.Int(0), extent);
}

StatusOr<TeProgram> Shift(TeProgram p, const std::string& stage, const std::string& iterator, const std::string& by) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  const Stage& s = p.stages[at];
  ASSIGN_OR_RETURN(const size_t dim, FindIter(s, iterator));
  const StageIter old = AllIters(s)[dim];
  ASSIGN_OR_RETURN(const Expr before, ParseExprOf(NamesOf(p), by));
  if (before->type != kIndexType)
    return InvalidArgument("expected an index and got ", by, ", which is ", Print(before->type));
  if (before->reads) return InvalidArgument(by, " reads memory");
  for (Expr v : VarsOf(before)) {
    const bool is_symbol =
        std::any_of(p.symbols.begin(), p.symbols.end(), [&](const SymbolFact& f) { return f.var == v; });
    const bool is_own =
        v != old.var && std::any_of(s.iters.begin(), s.iters.end(), [&](const StageIter& i) { return i.var == v; });
    if (!is_symbol && !is_own)
      return InvalidArgument(by, " depends on ", v->name, ", which is no symbol and no other data iterator of stage ",
                             stage);
  }
  Analyzer a(c);
  BindFacts(a, p, AllIters(s));
  const auto bounds = a.ConstBounds(before);
  if (bounds.lo < 0 || bounds.hi > INT32_MAX)
    return InvalidArgument("expected a number of 0 or more, below 2^31, and ", by, " may be ",
                           bounds.lo < 0 ? "less" : "more");
  const Expr extent = a.Simplify(c.Add(old.extent, c.Int(bounds.hi)));
  return Extend(std::move(p), at, dim, before, extent);
}

StatusOr<TeProgram> Rfactor(TeProgram p, const std::string& stage, const std::string& iterator,
                            const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  ASSIGN_OR_RETURN(const size_t dim, FindIter(s, iterator));
  if (dim < s.iters.size()) return InvalidArgument("stage ", stage, " does not reduce over ", iterator);
  if (s.reduce_iters.size() == 1)
    return InvalidArgument("stage ", stage, " reduces over nothing but ", iterator, ": its parts are its elements");
  if (names.size() != s.outputs.size()) {
    return InvalidArgument("stage ", stage, " has ", s.outputs.size(), " results, whose parts have ", names.size(),
                           " names");
  }
  ASSIGN_OR_RETURN(const Join join, JoinOf(c, s));
  const StageIter joined = AllIters(s)[dim];
  Stage parts;
  parts.name = names[0];
  std::vector<std::string> taken = names;
  VarMap own;
  std::vector<Expr> shape, element = {joined.var};
  const auto add = [&](const StageIter& i) {
    taken.push_back(Cat(parts.name, "_", parts.iters.size()));
    parts.iters.push_back({c.Var(taken.back()), i.extent});
    own[i.var] = parts.iters.back().var;
    shape.push_back(i.extent);
  };
  add(joined);
  for (const StageIter& i : s.iters) {
    add(i);
    element.push_back(i.var);
  }
  RETURN_IF_ERROR(CheckNew(p, taken));
  for (const StageIter& i : s.reduce_iters) {
    if (i.var != joined.var) parts.reduce_iters.push_back(i);
  }
  std::vector<Expr> elements, found;
  for (size_t k = 0; k < names.size(); ++k) {
    parts.outputs.push_back(c.MakeBuffer({.name = names[k], .dtype = s.outputs[k]->dtype, .shape = shape}));
    elements.push_back(Substitute(c, join.elements[k], own));
    found.push_back(c.Load(parts.outputs[k], element));
  }
  parts.inits = s.inits;
  parts.values = join.Joined(c, RunningOf(c, parts), elements);
  s.values = join.Joined(c, join.running, found);
  s.reduce_iters = {joined};
  p.stages.insert(p.stages.begin() + static_cast<ptrdiff_t>(at), std::move(parts));
  return p;
}

StatusOr<TeProgram> Separate(TeProgram p, const std::string& stage, const std::string& name) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  const std::vector<Expr> running = RunningOf(c, s);
  const std::optional<Join> join =
      s.IsReduction() && running.size() == 2 ? FindJoin(c, s.values, running) : std::nullopt;
  const std::optional<bool> largest = join ? ChoosesFirst(c, *join, 0) : std::nullopt;
  const Combiner best = largest.value_or(true) ? Combiner::kMax : Combiner::kMin;
  if (!largest || s.inits[0] != Identity(c, best, s.outputs[0]->dtype) ||
      s.inits[1] != Identity(c, Combiner::kMin, s.outputs[1]->dtype))
    return InvalidArgument("stage ", stage, " does not choose the first of pairs of a value and its place");
  Stage values = s;
  values.outputs = {s.outputs[0]};
  if (!WritesAllocations(p, values))
    return InvalidArgument("stage ", stage, " writes its values to a result, or not at its iterators");
  const Buffer found = s.outputs[1];
  const Expr x = join->elements[0], place = join->elements[1];
  Analyzer a(c);
  BindFacts(a, p, AllIters(s));
  const bool fits =
      a.CanProve(c.Le(c.Int(0), place)) && a.CanProve(c.Lt(place, c.Int(std::numeric_limits<int32_t>::max())));
  const DType dtype = fits ? DType::kI32 : found->dtype;
  Stage places, copy;
  places.name = name;
  places.origin = copy.origin = s.origin;
  places.outputs = {c.MakeBuffer({.name = name, .dtype = dtype, .shape = found->shape})};
  std::vector<std::string> taken = {name, Cat("copy_", found->name)};
  const auto again = [&](const std::vector<StageIter>& iters, VarMap& to) {
    std::vector<StageIter> r;
    for (const StageIter& i : iters) {
      taken.push_back(Cat(name, "_", taken.size() - 2));
      r.push_back({c.Var(taken.back()), i.extent});
      to[i.var] = r.back().var;
    }
    return r;
  };
  VarMap to, to_copy;
  places.iters = again(s.iters, to);
  places.reduce_iters = again(s.reduce_iters, to);
  places.inits = {Identity(c, Combiner::kMin, dtype)};
  Expr is_best = c.Make(ExprOp::kEq, {x, running[0]});
  if (IsFloat(x->type.dtype)) is_best = c.Or(is_best, c.Make(ExprOp::kIsNan, {x}));
  const Expr of_best = c.Select(is_best, fits ? c.Cast(dtype, place) : place, places.inits[0]);
  places.values = {Combine(c, Combiner::kMin, RunningOf(c, places)[0], Substitute(c, of_best, to))};
  copy.name = taken[1];
  copy.outputs = {found};
  copy.iters = again(s.iters, to_copy);
  RETURN_IF_ERROR(CheckNew(p, taken));
  copy.values = {c.Cast(found->dtype, c.Load(places.outputs[0], VarsOf(copy.iters)))};
  s.outputs.pop_back();
  s.inits.pop_back();
  s.values = {Combine(c, best, running[0], x)};
  p.stages.insert(p.stages.begin() + static_cast<ptrdiff_t>(at) + 1, {std::move(places), std::move(copy)});
  return p;
}

StatusOr<TeProgram> Together(TeProgram p, const std::string& first, const std::string& second) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, first));
  ASSIGN_OR_RETURN(const size_t from, FindStage(p, second));
  if (from <= at) return InvalidArgument("stage ", second, " does not come after stage ", first);
  Context& c = *p.context;
  Stage &s = p.stages[at], &t = p.stages[from];
  for (const Stage* x : {&s, &t}) {
    if (!x->IsReduction()) return InvalidArgument("stage ", x->name, " is no reduction");
  }
  VarMap to;
  const auto same = [&](const std::vector<StageIter>& a, const std::vector<StageIter>& b) {
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (a[i].extent != b[i].extent) return false;
      to[b[i].var] = a[i].var;
    }
    return a.size() == b.size();
  };
  if (!same(s.iters, t.iters) || !same(s.reduce_iters, t.reduce_iters))
    return InvalidArgument("stages ", first, " and ", second, " run over different values");
  for (size_t k = at; k < from; ++k) {
    for (Buffer b : p.stages[k].outputs) {
      if (Contains(InputsOf(t), b))
        return InvalidArgument("stage ", second, " reads what stage ", p.stages[k].name, " computes");
    }
  }
  for (size_t k = 0; k < t.outputs.size(); ++k) {
    s.outputs.push_back(t.outputs[k]);
    s.inits.push_back(Substitute(c, t.inits[k], to));
    s.values.push_back(Substitute(c, t.values[k], to));
  }
  p.stages.erase(p.stages.begin() + static_cast<ptrdiff_t>(from));
  return p;
}

}  // namespace cinn_like::ir
