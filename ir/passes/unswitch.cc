#include "ir/passes/unswitch.h"

#include <algorithm>

#include "ir/clone.h"
#include "ir/join.h"
#include "ir/linear.h"
#include "ir/te.h"

namespace cinn_like::ir {

namespace {

// What a condition says of no loop around it is asked before those loops:
//   for k { if a && k < b { S } }  ->  if a { for k { if k < b { S } } }
Stmt AskFirst(Context& c, const Stmt& s) {
  const Stmt r = MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return AskFirst(c, x); });
  const For* n = As<For>(r);
  const If* guard = n != nullptr ? As<If>(n->body) : nullptr;
  if (guard == nullptr || guard->otherwise != nullptr || IsThreadAxis(n->kind) || IsBlockAxis(n->kind)) return r;
  if (n->kind == ForKind::kParallel) return r;
  Expr first = nullptr, inside = nullptr;
  for (Expr e : ConjunctsOf(guard->cond)) {
    bool moves = false;
    Visit(e, [&](Expr x) {
      moves |= x == n->var || x->op == ExprOp::kLoad;
      return !moves;
    });
    Expr& to = moves ? inside : first;
    to = to == nullptr ? e : c.And(to, e);
  }
  if (first == nullptr) return r;
  const Stmt body = inside == nullptr ? guard->then : MakeStmt(If{inside, guard->then, nullptr});
  return MakeStmt(If{first, MakeStmt(For{n->var, n->extent, n->kind, body}), nullptr});
}

// A serial loop that does nothing beyond an end stops there; not where the end is a symbol, unless `symbols` says so,
// nor where lanes or threads would stop at ends of their own.
class Trimmer {
 public:
  explicit Trimmer(const Func& f, bool symbols = false) : c_(*f.context) {
    for (const SymbolFact& s : f.symbols) {
      if (!symbols) others_.insert(s.var);
    }
  }

  Stmt operator()(const Stmt& s) {
    const For* n = As<For>(s);
    if (n != nullptr && (IsThreadAxis(n->kind) || IsBlockAxis(n->kind))) return s;
    if (n != nullptr && n->kind == ForKind::kVectorized) others_.insert(n->var);
    const Stmt r = MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return (*this)(x); });
    n = As<For>(r);
    const If* guard = n != nullptr && n->kind == ForKind::kSerial ? As<If>(n->body) : nullptr;
    if (guard == nullptr || guard->otherwise != nullptr) return r;
    Expr extent = n->extent, stays = nullptr;
    for (Expr e : ConjunctsOf(guard->cond)) {
      if (Expr end = EndOf(e, n->var))
        extent = c_.Min(extent, end);
      else
        stays = stays == nullptr ? e : c_.And(stays, e);
    }
    if (extent == n->extent) return r;
    return MakeStmt(
        For{n->var, extent, n->kind, stays == nullptr ? guard->then : MakeStmt(If{stays, guard->then, nullptr})});
  }

  // As FirstFalse; null also where it says what an end may not. What is read may be written in the loop.
  Expr EndOf(Expr e, Expr var) { return Uses(e, others_) || e->reads ? nullptr : FirstFalse(c_, e, var); }

 private:
  Context& c_;
  absl::flat_hash_set<Expr> others_;  // that an end may not speak of
};

// A serial loop of sums whose elements change nothing from an end on that a value in memory says stops there: threads
// and lanes at the last of theirs. Ends that memory doesn't say are those of windows, in loops that compilers unroll.
class Ender {
 public:
  explicit Ender(const Func& f) : c_(*f.context) {
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const Store* store = As<Store>(s)) written_.insert(store->buffer);
      may_write_ |= As<Call>(s) != nullptr;
      return true;
    });
  }

  Stmt operator()(const Stmt& s) {
    const Stmt r = MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return (*this)(x); });
    const For* n = As<For>(r);
    if (n == nullptr || n->kind != ForKind::kSerial || may_write_) return r;
    const Expr end = EndOf(n->body, *n, {});
    return end == nullptr ? r : MakeStmt(For{n->var, c_.Min(n->extent, c_.Max(end, c_.Int(0))), n->kind, n->body});
  }

 private:
  // Where the last store ends; null: one goes on, or `s` does something else. `inner`: the loops between.
  Expr EndOf(const Stmt& s, const For& loop, std::vector<const For*> inner) {
    if (const For* n = As<For>(s)) {
      inner.push_back(n);
      return EndOf(n->body, loop, std::move(inner));
    }
    if (const If* n = As<If>(s)) return n->otherwise == nullptr ? EndOf(n->then, loop, std::move(inner)) : nullptr;
    if (const Seq* n = As<Seq>(s)) {
      Expr last = nullptr;
      for (const Stmt& x : n->stmts) {
        const Expr end = EndOf(x, loop, inner);
        if (end == nullptr) return nullptr;
        last = last == nullptr ? end : c_.Max(last, end);
      }
      return last;
    }
    const Store* store = As<Store>(s);
    const Expr neutral = store == nullptr ? nullptr : NeutralOf(c_, store->value->op, store->value->type.dtype);
    if (neutral == nullptr || store->value->args.size() != 2) return nullptr;
    const Expr running = c_.Load(store->buffer, store->indices);
    const auto& [a, b] = std::tie(store->value->args[0], store->value->args[1]);
    if (a != running && b != running) return nullptr;
    Expr first = nullptr;
    for (Expr e : ConditionsOf(a == running ? b : a, neutral, false)) {
      if (!ReadsInputs(e)) continue;
      const Expr end = EndFor(e, loop, inner);
      if (end != nullptr) first = first == nullptr ? end : c_.Min(first, end);
    }
    return first;
  }

  // FirstFalse for whatever the loops between are at; null if that is not known. At once, or never, where no loop moves
  // the condition.
  Expr EndFor(Expr condition, const For& loop, const std::vector<const For*>& inner) {
    const auto moves = [&](const For* n) { return Uses(condition, n->var); };
    if (!Uses(condition, loop.var) && std::none_of(inner.begin(), inner.end(), moves))
      return c_.Select(condition, loop.extent, c_.Int(0));
    if (condition->op != ExprOp::kLt || condition->args[0]->type != kIndexType) return nullptr;
    const Linear difference = AddScaled(ToLinear(c_, condition->args[0]), ToLinear(c_, condition->args[1]), -1);  // < 0
    VarMap at;
    for (const LinearTerm& t : difference.terms) {
      for (const For* n : inner) {
        if (t.atom == n->var)
          at[n->var] = t.coef > 0 ? c_.Int(0) : c_.Sub(n->extent, c_.Int(1));
        else if (Uses(t.atom, n->var))
          return nullptr;
      }
    }
    return FirstFalse(c_, at.empty() ? condition : Substitute(c_, condition, at), loop.var);
  }

  // Whether memory has a part in it, none of which is written here.
  bool ReadsInputs(Expr e) {
    bool written = false;
    VisitLoads(e, [&](Expr load) { written |= written_.contains(load->buffer); });
    return e->reads && !written;
  }

  Context& c_;
  absl::flat_hash_set<Buffer> written_;
  bool may_write_ = false;
};

class Unswitcher {
 public:
  explicit Unswitcher(const Func& f) : c_(*f.context), names_(f), trimmer_(f, true) {
    for (const SymbolFact& s : f.symbols) symbols_.insert(s.var);
  }

  Stmt operator()(const Stmt& s) {
    const For* n = As<For>(s);
    if (n != nullptr && (IsThreadAxis(n->kind) || IsBlockAxis(n->kind))) of_threads_ = true;
    if (n != nullptr && IsThreadAxis(n->kind)) threads_[n->var] = n;
    if (n != nullptr && IsInt(n->extent) && (n->kind == ForKind::kSerial || IsAtOnce(*n))) {
      if (Expr inside = FindInside(s)) {
        const Stmt all = RewriteExprs(
            c_, s, Rewriter(c_, [&](Expr e) -> Expr { return guards_.contains(e) ? c_.Bool(true) : nullptr; }));
        const Stmt rest = CloneFresh(c_, s, names_);
        return MakeStmt(If{inside, all, of_threads_ ? Ladder(rest) : trimmer_(rest)});
      }
    }
    const bool was_in_lanes = in_lanes_;
    in_lanes_ = in_lanes_ || (n != nullptr && n->kind == ForKind::kVectorized);
    const Stmt r = MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& child) { return (*this)(child); });
    in_lanes_ = was_in_lanes;
    return Partition(r);
  }

 private:
  // A serial loop of host code whose first steps do one thing and whose last ones another is two loops: sums go on in
  // registers from step to step of each.
  Stmt Partition(const Stmt& s) {
    const For* n = As<For>(s);
    const If* either = n != nullptr && n->kind == ForKind::kSerial ? As<If>(n->body) : nullptr;
    if (either == nullptr || either->otherwise == nullptr || of_threads_ || in_lanes_) return s;
    Expr end = n->extent;
    for (Expr e : ConjunctsOf(either->cond)) {
      const Expr own = trimmer_.EndOf(e, n->var);
      if (own == nullptr) return s;
      end = c_.Min(end, own);
    }
    end = c_.Max(end, c_.Int(0));
    const Expr rest = c_.Var(names_.Fresh(n->var->name));
    const Stmt last = Substitute(c_, either->otherwise, {{n->var, c_.Add(end, rest)}});
    return MakeSeq({MakeStmt(For{n->var, end, n->kind, either->then}),
                    MakeStmt(For{rest, c_.Sub(n->extent, end), n->kind, last})});
  }

  // Unrolled steps of which the first ones run: threads leave them behind the last that any of them has.
  //   for k in 0..3 @unrolled { if k * 32 + t < n { S } }
  //     -> { if t < n { S }; if 32 < n { if 32 + t < n { S }; if 64 < n { if 64 + t < n { S } } } }
  Stmt Ladder(const Stmt& s) {
    constexpr int64_t kLeastSteps = 8, kMostRungs = 8;
    const For* n = As<For>(s);
    const If* guard = n->kind == ForKind::kUnrolled ? As<If>(n->body) : nullptr;
    if (guard == nullptr || guard->otherwise != nullptr || n->extent->int_value < kLeastSteps) return s;
    Expr any = nullptr;  // of the threads runs the step
    for (Expr e : ConjunctsOf(guard->cond)) {
      if (trimmer_.EndOf(e, n->var) == nullptr) continue;
      if (Expr best = AtBest(e)) any = any == nullptr ? best : c_.And(any, best);
    }
    if (any == nullptr) return s;
    const int64_t rung = (n->extent->int_value + kMostRungs - 1) / kMostRungs;
    std::vector<Stmt> steps;
    Stmt r;
    for (int64_t k = n->extent->int_value; k-- > 0;) {
      const VarMap at = {{n->var, c_.Int(k)}};
      steps.insert(steps.begin(), CloneFresh(c_, Substitute(c_, n->body, at), names_));
      if (k % rung != 0) continue;
      r = MakeSeq(std::exchange(steps, {}));
      if (k > 0) steps = {MakeStmt(If{Substitute(c_, any, at), r, nullptr})};
    }
    return r;
  }

  // `a < b` where the threads' part of a - b is smallest; null if that is not known.
  Expr AtBest(Expr guard) {
    const Linear difference = AddScaled(ToLinear(c_, guard->args[0]), ToLinear(c_, guard->args[1]), -1);
    VarMap at;
    for (const LinearTerm& t : difference.terms) {
      if (auto it = threads_.find(t.atom); it != threads_.end()) {
        at[t.atom] = t.coef > 0 ? c_.Int(0) : c_.Sub(it->second->extent, c_.Int(1));
        continue;
      }
      for (Expr v : VarsOf(t.atom)) {
        if (threads_.contains(v)) return nullptr;
      }
    }
    return c_.Lt(Substitute(c_, guard->args[0], at), Substitute(c_, guard->args[1], at));
  }

  static bool IsAtOnce(const For& n) { return n.kind == ForKind::kUnrolled || n.kind == ForKind::kVectorized; }

  // The condition under which every guard in the loop is true; null if there are none. Guards are then in guards_. Of a
  // serial loop they must be all that move with it: else the loops inside ask for more of them.
  Expr FindInside(const Stmt& loop) {
    absl::flat_hash_map<Expr, int64_t> extents;  // of the loops that are run through
    absl::flat_hash_set<Expr> own;               // other variables that the loop declares
    bool alone = true;                           // threads need not meet in it
    bool all = true;
    VisitStmts(loop, [&](const Stmt& s) {
      alone = alone && As<Barrier>(s) == nullptr;
      if (const Let* let = As<Let>(s)) own.insert(let->var);
      if (const For* n = As<For>(s)) {
        alone = alone && !IsThreadAxis(n->kind) && !IsBlockAxis(n->kind);
        if (IsInt(n->extent))
          extents[n->var] = n->extent->int_value;
        else
          own.insert(n->var);
      }
      return true;
    });
    guards_.clear();
    struct Asked {
      Expr guard, worst;
      Linear difference;  // positive where it is true
    };
    std::vector<Asked> asked;
    ForEachExpr(loop, [&](Expr root) {
      Visit(root, [&](Expr e) {
        alone = alone && e->op != ExprOp::kShuffleXor;
        if (e->op != ExprOp::kLt || e->type != kBoolType || e->args[0]->type != kIndexType) return true;
        if (guards_.contains(e) || !Uses(e, symbols_) || e->reads) return false;
        Expr worst = Uses(e, own) ? nullptr : AtWorst(e, extents);
        if (worst != nullptr) {
          guards_.insert(e);
          asked.push_back({e, worst, AddScaled(ToLinear(c_, worst->args[1]), ToLinear(c_, worst->args[0]), -1)});
        } else {
          for (Expr v : VarsOf(e)) all = all && !own.contains(v) && !extents.contains(v);
        }
        return false;
      });
    });
    // Those that exclude each other, as of parts that are joined, stay.
    const auto exclude = [](const Asked& x, const Asked& y) {
      const Linear sum = AddScaled(x.difference, y.difference, 1);
      return sum.exact && sum.IsConst() && sum.constant < 2;
    };
    Expr inside = c_.Bool(true);
    for (const Asked& x : asked) {
      if (std::any_of(asked.begin(), asked.end(), [&](const Asked& y) { return exclude(x, y); }))
        guards_.erase(x.guard);
      else
        inside = c_.And(inside, x.worst);
    }
    return alone && !guards_.empty() && (all || IsAtOnce(*As<For>(loop))) ? inside : nullptr;
  }

  // `a < b` where a - b is largest; null if that is not at an end of each loop, or no loop moves it. Threads that run
  // together ask for all of them: else they would go both ways.
  Expr AtWorst(Expr guard, const absl::flat_hash_map<Expr, int64_t>& extents) {
    constexpr int64_t kTogether = 32;
    const Linear difference = AddScaled(ToLinear(c_, guard->args[0]), ToLinear(c_, guard->args[1]), -1);
    if (!difference.exact) return nullptr;
    VarMap at;
    bool moves = false;
    for (const LinearTerm& t : difference.terms) {
      if (auto it = extents.find(t.atom); it != extents.end()) {
        at[t.atom] = c_.Int(t.coef > 0 ? it->second - 1 : 0);
        moves = true;
        continue;
      }
      if (auto it = threads_.find(t.atom); it != threads_.end() && it->second->kind == ForKind::kThreadX) {
        const Expr extent = it->second->extent;
        if (IsInt(extent) && extent->int_value <= kTogether)
          at[t.atom] = c_.Int(t.coef > 0 ? extent->int_value - 1 : 0);
        continue;
      }
      for (Expr v : VarsOf(t.atom)) {
        if (extents.contains(v)) return nullptr;
      }
    }
    if (!moves) return nullptr;
    return c_.Lt(Substitute(c_, guard->args[0], at), Substitute(c_, guard->args[1], at));
  }

  Context& c_;
  NameSupply names_;
  Trimmer trimmer_;
  bool of_threads_ = false;  // the function is a kernel of many
  bool in_lanes_ = false;    // of a vectorized loop
  absl::flat_hash_set<Expr> symbols_, guards_;
  absl::flat_hash_map<Expr, const For*> threads_;  // the axes around
};

}  // namespace

StatusOr<Func> Unswitch(Func f) {
  f.body = Unswitcher(f)(Ender(f)(Trimmer(f)(AskFirst(*f.context, f.body))));
  return f;
}

}  // namespace cinn_like::ir
