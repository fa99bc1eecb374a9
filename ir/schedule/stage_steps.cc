#include "ir/schedule/stage_steps.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "ir/analyzer.h"
#include "ir/index_map.h"

namespace cinn_like::ir {
namespace {

StatusOr<size_t> FindStage(const TeProgram& p, const std::string& name) {
  std::string known;
  for (size_t k = 0; k < p.stages.size(); ++k) {
    if (p.stages[k].name == name) return k;
    known += Cat(known.empty() ? "" : ", ", p.stages[k].name);
  }
  return InvalidArgument("no stage '", name, "' in @", p.name, "; its stages are ", known);
}

std::vector<StageIter> AllIters(const Stage& s) {
  std::vector<StageIter> r = s.iters;
  r.insert(r.end(), s.reduce_iters.begin(), s.reduce_iters.end());
  return r;
}

// For errors.
std::string Spell(Expr load) {
  constexpr int kMostNodes = 100;
  return PrintsWithin(load, kMostNodes) ? Print(load) : Cat(load->buffer->name, "[...]");
}

// Every buffer and iterator of the program as a parameter: what an expression in a step may speak of.
Func NamesOf(const TeProgram& p) {
  Func f{p.name, FuncKind::kInternal, p.params, p.symbols, nullptr, p.context};
  for (const Stage& s : p.stages) {
    for (Buffer b : s.outputs) f.params.push_back({.buffer = b});
    for (const StageIter& i : AllIters(s)) f.params.push_back({.var = i.var});
  }
  return f;
}

// OK if nothing in the program has one of these names.
Status CheckNew(const TeProgram& p, const std::vector<std::string>& names) {
  absl::flat_hash_set<std::string> taken;
  for (const Param& q : NamesOf(p).params) taken.insert(q.buffer != nullptr ? q.buffer->name : q.var->name);
  for (const SymbolFact& s : p.symbols) taken.insert(s.var->name);
  for (const Stage& s : p.stages) taken.insert(s.name);
  for (const std::string& name : names) {
    if (!taken.insert(name).second) return InvalidArgument("the name ", name, " is taken in @", p.name);
  }
  return absl::OkStatus();
}

// `v` with the loads that `to` has something for replaced by that.
Expr ReplaceLoads(Context& c, Expr v, const std::function<Expr(Expr)>& to) {
  return Rewriter(c, [&](Expr e) -> Expr { return e->op == ExprOp::kLoad ? to(e) : nullptr; })(v);
}

// Whether every load in `value` stays inside of its buffer whatever `iters` are, or is masked.
bool StaysInside(const TeProgram& p, const std::vector<StageIter>& iters, Expr value) {
  Context& c = *p.context;
  Analyzer a(c);
  for (const SymbolFact& s : p.symbols) a.BindSymbol(s);
  for (const StageIter& i : iters) a.BindRange(i.var, c.Int(0), i.extent);
  bool inside = true;
  Visit(value, [&](Expr e) {
    if (e->op != ExprOp::kLoad || e->has_mask) return inside;
    for (size_t d = 0; d < e->args.size() && inside; ++d)
      inside = a.CanProve(c.Le(c.Int(0), e->args[d])) && a.CanProve(c.Lt(e->args[d], e->buffer->shape[d]));
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

// What stands in a bracket of `fold`: an iterator, "i/4" or "i%4".
struct Part {
  std::string iter;
  int64_t divisor = 0;  // 0: the iterator itself
  bool is_remainder = false;
};

StatusOr<Part> ParsePart(const std::string& word) {
  const size_t at = word.find_first_of("/%");
  Part part{.iter = word.substr(0, at)};
  if (at == word.npos) return part;
  part.is_remainder = word[at] == '%';
  if (!absl::SimpleAtoi(word.substr(at + 1), &part.divisor) || part.divisor <= 0)
    return InvalidArgument("expected ITERATOR, ITERATOR/NUMBER or ITERATOR%NUMBER and got '", word, "'");
  return part;
}

}  // namespace

StatusOr<TeProgram> Align(TeProgram p, const std::string& stage, const std::string& to) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  ASSIGN_OR_RETURN(const size_t of, FindStage(p, to));
  Context& c = *p.context;
  const Stage& read = p.stages[of];
  Stage& s = p.stages[at];
  if (s.IsReduction()) return InvalidArgument("stage ", stage, " reduces; only a pointwise stage can be aligned");
  if (!s.at.empty()) return InvalidArgument("stage ", stage, " does not write at its iterators");
  if (!read.at.empty()) return InvalidArgument("stage ", to, " does not write at its iterators");
  std::vector<Expr> loads;
  for (Expr v : s.values) {
    Visit(v, [&](Expr e) {
      if (e->op == ExprOp::kLoad && Contains(read.outputs, e->buffer)) loads.push_back(e);
      return true;
    });
  }
  if (loads.empty()) return InvalidArgument("stage ", stage, " does not read stage ", to);
  for (Expr e : loads) {
    if (e->has_mask || e->args != loads[0]->args)
      return InvalidArgument("stage ", stage, " reads stage ", to, " at more than one place: ", Spell(loads[0]), ", ",
                             Spell(e));
  }
  std::vector<StageIter> iters;
  std::vector<std::string> names;
  for (const StageIter& i : read.iters) {
    names.push_back(i.var->name + "_o");
    iters.push_back({c.Var(names.back()), i.extent});
  }
  RETURN_IF_ERROR(CheckNew(p, names));
  const std::vector<Expr> vars = VarsOf(iters);
  const auto inverse = InvertIndexMap(c, s.iters, loads[0]->args, loads[0]->buffer->shape, vars);
  if (!inverse) {
    return InvalidArgument("stage ", stage, " reads ", Spell(loads[0]), ", which does not say for each element of ",
                           loads[0]->buffer->name, " at which iterators it is read");
  }
  VarMap map;
  for (size_t d = 0; d < s.iters.size(); ++d) map[s.iters[d].var] = (*inverse)[d];
  // Reads of the other stage are at the iterators themselves, whatever the simplifier makes of the round trip.
  for (Expr& v : s.values) {
    v = Rewriter(c, [&](Expr e) -> Expr {
      if (e->op == ExprOp::kLoad && Contains(read.outputs, e->buffer)) return c.Load(e->buffer, vars);
      if (e->op != ExprOp::kVar) return nullptr;
      auto it = map.find(e);
      return it == map.end() ? e : it->second;
    })(v);
  }
  if (*inverse != vars) s.at = *inverse;
  s.iters = std::move(iters);
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
  if (!s.at.empty()) return InvalidArgument("stage ", s.name, " does not write at its iterators");
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

StatusOr<TeProgram> Fold(TeProgram p, const std::string& stage, const std::vector<Folded>& to) {
  ASSIGN_OR_RETURN(const size_t at, FindStage(p, stage));
  Context& c = *p.context;
  Stage& s = p.stages[at];
  const auto is_param = [&](Buffer b) {
    return std::any_of(p.params.begin(), p.params.end(), [&](const Param& q) { return q.buffer == b; });
  };
  const bool reshapes = s.at.empty() && std::none_of(s.outputs.begin(), s.outputs.end(), is_param);
  if (s.IsReduction() && !reshapes)
    return InvalidArgument("stage ", stage, " reduces into a result, whose shape stays: keep it first");

  // What each iterator is of the new ones, and each new one of the old.
  VarMap digits, whole;
  std::vector<StageIter> iters;
  std::vector<std::string> names;
  // An iterator of the stage, or the quotient or remainder of one.
  struct Digit {
    size_t dim;
    Part part;
    Expr extent;
  };
  std::vector<std::vector<Digit>> places;  // what each bracket holds
  VarMap quotients, remainders;
  Analyzer a(c);
  for (const SymbolFact& f : p.symbols) a.BindSymbol(f);
  for (const Folded& fold : to) {
    Expr extent = c.Int(1);
    std::vector<Digit>& held = places.emplace_back();
    for (const std::string& word : fold.iters) {
      ASSIGN_OR_RETURN(const Part part, ParsePart(word));
      size_t d = 0;
      while (d < s.iters.size() && s.iters[d].var->name != part.iter) ++d;
      if (d == s.iters.size()) return InvalidArgument(part.iter, " is no data iterator of stage ", stage);
      const StageIter& iter = s.iters[d];
      if (part.divisor > 0 && a.KnownDivisor(iter.extent) % part.divisor != 0)
        return InvalidArgument(part.divisor, " is not known to divide the extent ", Print(iter.extent), " of ",
                               part.iter);
      VarMap& seen = part.divisor == 0 ? digits : part.is_remainder ? remainders : quotients;
      if (!seen.emplace(iter.var, nullptr).second) return InvalidArgument(word, " stands in brackets twice");
      held.push_back({d, part,
                      part.divisor == 0   ? iter.extent
                      : part.is_remainder ? c.Int(part.divisor)
                                          : c.Div(iter.extent, c.Int(part.divisor))});
      extent = c.Mul(extent, held.back().extent);
    }
    names.push_back(fold.name);
    iters.push_back({c.Var(fold.name), extent});
    Expr rest = iters.back().var;
    for (size_t i = held.size(); i-- > 0;) {
      const Part& part = held[i].part;
      VarMap& whose = part.divisor == 0 ? digits : part.is_remainder ? remainders : quotients;
      const Expr digit = i == 0 ? rest : c.Mod(rest, held[i].extent);
      whose[s.iters[held[i].dim].var] =
          part.is_remainder || part.divisor == 0 ? digit : c.Mul(digit, c.Int(part.divisor));
      rest = c.Div(rest, held[i].extent);
    }
  }
  for (const auto& [var, quotient] : quotients) {
    if (!remainders.contains(var) || !digits.emplace(var, c.Add(quotient, remainders.at(var))).second)
      return InvalidArgument(var->name, " stands in brackets as a quotient, but not as its remainder alone");
  }
  for (const auto& [var, remainder] : remainders) {
    if (!quotients.contains(var))
      return InvalidArgument(var->name, " stands in brackets as a remainder, but not as its quotient");
  }
  for (const std::vector<Digit>& held : places) {
    for (const Digit& x : held) {
      for (const std::vector<Digit>& others : places) {
        for (const Digit& y : others) {
          if (x.dim == y.dim && x.part.divisor != y.part.divisor)
            return InvalidArgument(x.part.iter, " stands in brackets with two divisors");
        }
      }
    }
  }
  RETURN_IF_ERROR(CheckNew(p, names));
  for (const StageIter& i : s.iters) {
    if (!digits.contains(i.var) && !IsInt(i.extent, 1))
      return InvalidArgument(i.var->name, " of stage ", stage, " stands in no brackets");
    digits.emplace(i.var, c.Int(0));
  }
  std::vector<StageIter> reduced;
  for (const StageIter& i : s.reduce_iters) {
    const bool is_last = &i == &s.reduce_iters.back();
    if (IsInt(i.extent, 1) && !(is_last && reduced.empty()))
      digits.emplace(i.var, c.Int(0));
    else
      reduced.push_back(i);
  }
  // The new indices of an element.
  const auto fuse = [&](const std::vector<Expr>& indices) {
    std::vector<Expr> r;
    for (const std::vector<Digit>& held : places) {
      Expr e = c.Int(0);
      for (const Digit& x : held) {
        const Expr divisor = c.Int(x.part.divisor), index = indices[x.dim];
        e = c.Add(c.Mul(e, x.extent), x.part.divisor == 0   ? index
                                      : x.part.is_remainder ? c.Mod(index, divisor)
                                                            : c.Div(index, divisor));
      }
      r.push_back(e);
    }
    return r;
  };
  const std::vector<Expr> vars = VarsOf(iters), fused = fuse(VarsOf(s.iters));
  for (size_t k = 0; k < fused.size(); ++k) {
    if (!IsInt(fused[k])) whole[fused[k]] = vars[k];
  }

  absl::flat_hash_map<Buffer, Buffer> buffers;
  for (Buffer b : s.outputs) {
    if (!reshapes) break;
    BufferNode n{.name = b->name, .dtype = b->dtype};
    for (const StageIter& i : iters) n.shape.push_back(i.extent);
    buffers[b] = c.MakeBuffer(std::move(n));
  }
  for (const auto* list : {&iters, &reduced}) {
    for (const StageIter& i : *list) a.BindRange(i.var, c.Int(0), i.extent);
  }
  Rewriter* self = nullptr;
  Rewriter move(c, [&](Expr e) -> Expr {
    if (auto it = whole.find(e); it != whole.end()) return it->second;
    if (e->op == ExprOp::kLoad && buffers.contains(e->buffer)) return c.Load(buffers.at(e->buffer), vars);
    if (e->op == ExprOp::kLoad) {
      std::vector<Expr> indices;
      for (Expr i : IndicesOf(e)) indices.push_back(a.Simplify((*self)(i)));
      return c.Load(e->buffer, std::move(indices), e->has_mask ? a.Simplify((*self)(MaskOf(e))) : nullptr);
    }
    if (e->op != ExprOp::kVar) return nullptr;
    auto it = digits.find(e);
    return it == digits.end() ? e : it->second;
  });
  self = &move;
  for (std::vector<Expr>* list : {&s.values, &s.inits}) {
    for (Expr& e : *list) e = move(e);
  }
  if (!reshapes) {
    if (s.at.empty()) s.at = VarsOf(s.iters);
    for (Expr& e : s.at) e = move(e);
  }
  for (Buffer& b : s.outputs) {
    if (reshapes) b = buffers.at(b);
  }
  for (size_t k = at + 1; k < p.stages.size(); ++k) {
    for (Expr& v : p.stages[k].values) {
      Rewriter* read = nullptr;
      Rewriter rewrite(c, [&](Expr e) -> Expr {
        if (e->op != ExprOp::kLoad || !buffers.contains(e->buffer)) return nullptr;
        std::vector<Expr> indices;
        for (Expr i : IndicesOf(e)) indices.push_back((*read)(i));
        const Expr mask = MaskOf(e);
        return c.Load(buffers.at(e->buffer), fuse(indices), mask == nullptr ? nullptr : (*read)(mask));
      });
      read = &rewrite;
      v = rewrite(v);
    }
  }
  s.iters = std::move(iters);
  s.reduce_iters = std::move(reduced);
  return p;
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
        exists < at && !s.IsReduction() && s.at.empty() && s.values.size() == 1 && s.iters.size() == iters.size();
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
        if (Contains(p.stages[k].outputs, e->buffer))
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
  bool found = false, runs = true, always = false;
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
  if (!defined.name.empty() && !always && !StaysInside(p, iters, value)) {
    return InvalidArgument("stage ", reader.name, " computes ", d.value,
                           " under conditions, without which it may read beyond a buffer's end");
  }
  if (!defined.name.empty()) p.stages.insert(p.stages.begin() + static_cast<ptrdiff_t>(before), std::move(defined));
  return p;
}

}  // namespace cinn_like::ir
