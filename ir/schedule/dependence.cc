#include "ir/schedule/dependence.h"

#include <algorithm>

#include "ir/linear.h"
#include "ir/schedule/region.h"

namespace cinn_like::ir {
namespace {

using VarSet = absl::flat_hash_set<Expr>;

// What a block's body stores: all of it from what was there before. nullopt where it is no such sequence.
struct Stores {
  std::vector<Expr> running, values;  // what each store replaces, as a load, and its value
};
std::optional<Stores> StoresOf(Context& c, const Stmt& s) {
  Stores r;
  VarMap lets;
  const Seq* seq = As<Seq>(s);
  for (const Stmt& x : seq == nullptr ? std::vector<Stmt>{s} : seq->stmts) {
    const Let* let = As<Let>(x);
    const Store* store = As<Store>(x);
    if (let != nullptr) {
      lets[let->var] = Substitute(c, let->value, lets);
    } else if (store != nullptr && store->mask == nullptr) {
      r.running.push_back(c.Load(store->buffer, store->indices));
      r.values.push_back(Substitute(c, store->value, lets));
    } else {
      return std::nullopt;
    }
  }
  return r;
}

// e is 0 where the loops are.
bool StartsAtZero(Expr e, const VarSet& loops) {
  auto zero = [&](size_t k) { return StartsAtZero(e->args[k], loops); };
  switch (e->op) {
    case ExprOp::kVar:
      return loops.contains(e);
    case ExprOp::kInt:
      return e->int_value == 0;
    case ExprOp::kAdd:
    case ExprOp::kSub:
      return zero(0) && zero(1);
    case ExprOp::kMul:
      return zero(0) || zero(1);
    case ExprOp::kDiv:
    case ExprOp::kMod:
      return zero(0);
    default:
      return false;
  }
}

// x / k, where the simplifier has taken a division into x: (a * 64 + b / 2) / 5 -> (a * 128 + b) / 10.
Expr Quotient(Analyzer& a, Expr x, Expr k) {
  Context& c = a.context();
  Linear sum = ToLinear(c, x);
  for (const LinearTerm& t : sum.terms) {
    if (t.coef != 1 || t.atom->op != ExprOp::kDiv) continue;
    const Expr inner = t.atom->args[0], divisor = t.atom->args[1];
    AddTerm(sum, t.atom, -1);
    const Expr rest = FromLinear(c, sum, DType::kI64);
    return a.Simplify(c.Div(c.Add(c.Mul(rest, divisor), inner), c.Mul(k, divisor)));
  }
  return a.Simplify(c.Div(x, k));
}

// `value` is what was there joined with something else, or chosen among the two. That a choice is a good one is the
// author's word, as in te.h.
bool Joins(Expr value, Expr running) {
  switch (value->op) {
    case ExprOp::kSelect:
      return value->args[1] == running || value->args[2] == running;
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kMin:
    case ExprOp::kMax:
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kBitAnd:
    case ExprOp::kBitOr:
    case ExprOp::kBitXor:
      break;
    default:
      return false;
  }
  const Expr other = value->args[0] == running ? value->args[1] : value->args[0];
  bool again = false;
  Visit(other, [&](Expr x) {
    again |= x->op == ExprOp::kLoad && x->buffer == running->buffer;
    return !again;
  });
  return !again && (value->args[0] == running || value->args[1] == running);
}

// How a block reduces; null if it has no reduce iterators.
std::unique_ptr<Reduction> ReductionOf(Context& c, const Block& b) {
  auto r = std::make_unique<Reduction>();
  VarSet own;
  for (const BlockIter& i : b.iters) {
    if (i.kind != IterKind::kReduce) continue;
    own.insert(i.var);
    for (Expr v : VarsOf(i.binding)) r->loops.insert(v);
  }
  if (own.empty()) return nullptr;
  bool ok = true;
  for (const BlockIter& i : b.iters) {
    if (i.kind == IterKind::kReduce)
      ok = ok && StartsAtZero(i.binding, r->loops);
    else
      ok = ok && !Uses(i.binding, r->loops);
  }
  r->starts_at_zero = ok;
  const std::optional<Stores> stores = StoresOf(c, b.body);
  ok = ok && stores.has_value();
  for (size_t k = 0; ok && k < stores->running.size(); ++k)
    ok = !Uses(stores->running[k], own) && Joins(stores->values[k], stores->running[k]);
  r->any_order = ok;
  return r;
}

bool ReadsMemory(Expr e) {
  bool found = false;
  Visit(e, [&](Expr x) {
    found |= x->op == ExprOp::kLoad;
    return !found;
  });
  return found;
}

}  // namespace

Dependences::Dependences(const Func& f) : c_(*f.context), a_(f) { Collect(f); }

Expr Dependences::Prime(Expr var) {
  Expr& p = primes_[var];
  if (p == nullptr) p = c_.Var(var->name + "'", var->type);
  return p;
}

void Dependences::Collect(const Func& f) {
  absl::flat_hash_set<Buffer> written;
  for (Buffer b : BuffersWritten(f.body)) written.insert(b);
  std::vector<const For*> loops;
  int statement = 0, conditions = 0, unknown = 0;
  VarMap lets;
  std::vector<std::pair<Reduction*, Access>> steps;  // at their reduce iterators

  // Accesses of one block or bare statement; `map` puts iterators and lets into terms of the loops.
  absl::flat_hash_set<std::pair<Buffer, std::vector<Expr>>> seen_reads, seen_writes;
  Access base;
  auto begin = [&] {
    base = Access();
    base.loops = loops;
    base.statement = ++statement;
    base.is_conditional = conditions > 0;
    seen_reads.clear();
    seen_writes.clear();
  };
  auto add = [&](Buffer b, const std::vector<Expr>& indices, bool writes, bool masked, const VarMap& map) {
    Access x = base;
    x.buffer = b;
    x.writes = writes;
    x.is_conditional |= masked;
    for (Expr e : indices) {
      x.is_whole |= e->type.lanes > 1;
      Expr at = Substitute(c_, e, map);
      // An index out of memory that changes is any value.
      at = Rewriter(c_, [&](Expr y) -> Expr {
        return y->op == ExprOp::kLoad && written.contains(y->buffer) ? c_.Var(Cat("#", unknown++), y->type) : nullptr;
      })(at);
      x.indices.push_back(x.is_whole ? at : a_.Simplify(at));
    }
    if (!(writes ? seen_writes : seen_reads).insert({b, x.indices}).second) return;
    accesses_.push_back(std::move(x));
  };
  auto add_reads = [&](Expr e, const VarMap& map) {
    Visit(e, [&](Expr x) {
      if (x->op == ExprOp::kLoad) add(x->buffer, IndicesOf(x), false, MaskOf(x) != nullptr, map);
      if (x->op == ExprOp::kAddress) {
        add(x->buffer, {}, true, true, map);
        accesses_.back().is_whole = true;
      }
      return true;
    });
  };
  // A statement inside of a block, or one that holds no others.
  std::function<void(const Stmt&, VarMap&)> add_all = [&](const Stmt& s, VarMap& map) {
    if (const Let* n = As<Let>(s)) {
      add_reads(n->value, map);
      map[n->var] = Substitute(c_, n->value, map);
      return;
    }
    const bool conditional = As<If>(s) != nullptr || As<For>(s) != nullptr;
    if (const For* n = As<For>(s)) {
      loops.push_back(n);
      base.loops = loops;
      a_.BindRange(n->var, c_.Int(0), Substitute(c_, n->extent, map));
    }
    const bool before = base.is_conditional;
    base.is_conditional |= conditional;
    ForEachChild(
        s,
        [&](Expr e) {
          const Store* n = As<Store>(s);
          if (n == nullptr || e == n->value || e == n->mask || ReadsMemory(e)) add_reads(e, map);
        },
        [&](const Stmt& x) { add_all(x, map); });
    if (const Store* n = As<Store>(s)) add(n->buffer, n->indices, true, n->mask != nullptr, map);
    base.is_conditional = before;
    if (As<For>(s) != nullptr) {
      loops.pop_back();
      base.loops = loops;
    }
  };
  std::function<void(const Stmt&)> go = [&](const Stmt& s) {
    const size_t first = accesses_.size();
    if (const For* n = As<For>(s)) {
      begin();
      add_reads(n->extent, lets);
      a_.BindRange(n->var, c_.Int(0), n->extent);
      loops.push_back(n);
      go(n->body);
      loops.pop_back();
    } else if (const Seq* n = As<Seq>(s)) {
      for (const Stmt& x : n->stmts) go(x);
    } else if (const If* n = As<If>(s)) {
      begin();
      add_reads(n->cond, lets);
      ++conditions;
      go(n->then);
      if (n->otherwise != nullptr) go(n->otherwise);
      --conditions;
    } else if (const Block* n = As<Block>(s)) {
      begin();
      base.block = n;
      VarMap map = lets;
      for (const BlockIter& i : n->iters) {
        map[i.var] = i.binding;
        add_reads(i.binding, lets);
      }
      if (n->predicate != nullptr) {
        add_reads(n->predicate, lets);
        base.condition = Substitute(c_, n->predicate, lets);
      }
      std::unique_ptr<Reduction> sum = ReductionOf(c_, *n);
      if (sum != nullptr) {
        reductions_.push_back(std::move(sum));
        base.sum = reductions_.back().get();
        Access step = base;
        for (const BlockIter& i : n->iters) {
          if (i.kind == IterKind::kReduce) step.indices.push_back(a_.Simplify(i.binding));
        }
        steps.emplace_back(reductions_.back().get(), std::move(step));
      }
      const size_t start = accesses_.size();
      if (n->init != nullptr) add_all(n->init, map);
      add_all(n->body, map);
      // Only what it reduces into is an accumulator.
      const std::vector<Buffer> into = BuffersWritten(n->body);
      for (size_t k = start; k < accesses_.size(); ++k) {
        if (std::find(into.begin(), into.end(), accesses_[k].buffer) == into.end()) accesses_[k].sum = nullptr;
      }
    } else {
      begin();
      add_all(s, lets);
    }
    ranges_[s.get()] = {first, accesses_.size()};
  };
  go(f.body);
  VarMap primed;
  std::vector<const For*> all;
  VarSet bound;
  for (const Access& x : accesses_) {
    for (const For* n : x.loops) {
      if (bound.insert(n->var).second) all.push_back(n);
    }
  }
  for (const For* n : all) primed[n->var] = Prime(n->var);
  for (const For* n : all) a_.BindRange(Prime(n->var), c_.Int(0), Substitute(c_, n->extent, primed));
  for (size_t k = 0; k < accesses_.size(); ++k) {
    std::vector<size_t>& uses = by_buffer_[accesses_[k].buffer];
    if (uses.empty()) buffers_.push_back(accesses_[k].buffer);
    uses.push_back(k);
  }
  // A step that runs again would add again, or start again.
  for (const auto& [sum, at] : steps) {
    std::vector<const For*> fixed;
    for (const For* n : at.loops) {
      if (!sum->loops.contains(n->var)) fixed.push_back(n);
    }
    const auto known = Meet(at, at, Rename(at, at, fixed));
    const bool once = !known || std::all_of(at.loops.begin(), at.loops.end(), [&](const For* n) {
      return !sum->loops.contains(n->var) || Distance(*known, n->var) == 0;
    });
    sum->starts_at_zero &= once;
    sum->any_order &= once;
  }
}

Dependences::Range Dependences::RangeOf(const Stmt& s) const {
  auto it = ranges_.find(s.get());
  return it == ranges_.end() ? Range{0, 0} : it->second;
}

std::string Dependences::Describe(const Conflict& x) {
  auto one = [](const Access& a) {
    std::string at;
    for (Expr e : a.indices) at += Cat(at.empty() ? "" : ", ", Print(e));
    return Cat(a.block != nullptr ? Cat("block ", a.block->name) : std::string("a statement"),
               a.writes ? " writes " : " reads ", a.buffer->name, "[", a.is_whole ? "..." : at, "]");
  };
  if (x.a == x.b) return Cat(one(*x.a), " more than once");
  return Cat(one(*x.a), " and ", one(*x.b));
}

VarMap Dependences::Rename(const Access& a, const Access& b, const std::vector<const For*>& fixed,
                           const VarMap& twins) {
  auto has = [](const std::vector<const For*>& loops, const For* n) {
    return std::any_of(loops.begin(), loops.end(), [&](const For* m) { return m->var == n->var; });
  };
  // Loops that only one of the two is in: named alike where they can be, so that digits of one index are seen as such.
  std::vector<const For*> others;
  for (const For* n : a.loops) {
    if (!has(fixed, n) && !has(b.loops, n)) others.push_back(n);
  }
  for (const auto& [theirs, var] : twins) std::erase_if(others, [&](const For* n) { return n->var == var; });
  VarMap r;
  for (const For* n : b.loops) {
    const auto twin = twins.find(n->var);
    if (has(fixed, n)) continue;
    if (twin != twins.end()) {
      r[n->var] = Prime(twin->second);
      continue;
    }
    if (IsInt(n->extent, 1)) continue;  // stands still
    Expr like = n->var;
    if (!has(a.loops, n)) {
      const auto it = std::find_if(others.begin(), others.end(), [&](const For* m) { return m->extent == n->extent; });
      if (it != others.end()) {
        like = (*it)->var;
        others.erase(it);
      }
    }
    r[n->var] = Prime(like);
  }
  return r;
}

std::optional<VarMap> Dependences::Meet(const Access& a, const Access& b, const VarMap& rename) {
  VarMap known, primes = rename;
  if (a.is_whole || b.is_whole || a.indices.size() != b.indices.size()) return known;
  // What stands for a's variable on b's side: its own prime where only a has the loop.
  for (const For* n : a.loops) {
    const auto fixed = std::find_if(b.loops.begin(), b.loops.end(), [&](const For* m) { return m->var == n->var; });
    if (!primes.contains(n->var) && fixed == b.loops.end()) primes[n->var] = Prime(n->var);
  }
  VarSet free;
  for (const auto& [var, prime] : primes) free.insert(var);

  struct Equal {
    Expr x, y;  // of a, of b
  };
  std::vector<Equal> open;
  for (size_t d = 0; d < a.indices.size(); ++d) open.push_back({a.indices[d], Substitute(c_, b.indices[d], rename)});
  // Digits of one index in neighbouring dimensions: where these agree, so does what they make together.
  for (size_t d = 1; d < a.indices.size() && a.buffer != nullptr; ++d) {
    auto join = [&](const std::vector<Expr>& at, const VarMap& map) {
      const Expr e = c_.Add(c_.Mul(at[d - 1], a.buffer->shape[d]), at[d]);
      return a_.Simplify(map.empty() ? e : Substitute(c_, e, map));
    };
    open.push_back({join(a.indices, {}), join(b.indices, rename)});
  }
  VarSet same, joined;  // divisions and remainders that agree, and what they are digits of
  auto is_same = [&](Expr e) {
    for (const LinearTerm& t : ToLinear(c_, e).terms) {
      if (same.contains(t.atom)) continue;
      for (Expr v : VarsOf(t.atom)) {
        if (!free.contains(v)) continue;
        auto it = known.find(primes.at(v));
        if (it == known.end() || it->second != v) return false;
      }
    }
    return true;
  };
  bool changed = true;
  for (int round = 0; changed && round < 8; ++round) {
    changed = false;
    for (size_t k = 0; k < open.size(); ++k) {
      const Expr y = known.empty() ? open[k].y : a_.Simplify(Substitute(c_, open[k].y, known));
      Linear d = AddScaled(ToLinear(c_, open[k].x), ToLinear(c_, y), -1);
      for (bool found = true; found && !d.terms.empty();) {
        found = false;
        for (const LinearTerm& t : d.terms) {
          if (!Uses(t.atom, free)) continue;
          const Expr other = Substitute(c_, t.atom, primes);
          const auto match =
              std::find_if(d.terms.begin(), d.terms.end(), [&](const LinearTerm& u) { return u.atom == other; });
          if (match == d.terms.end() || match->coef != -t.coef) continue;
          // coef * scale * (x - x') + rest = 0, where |rest| < |coef| * scale: x = x' and rest = 0.
          std::vector<Expr> moving, scale;
          for (Expr e : FactorsOf(t.atom)) (Uses(e, free) ? moving : scale).push_back(e);
          if (moving.size() != 1) continue;
          Linear rest = d;
          AddTerm(rest, t.atom, -t.coef);
          AddTerm(rest, other, t.coef);
          const int64_t coef = t.coef < 0 ? -t.coef : t.coef;
          const Expr x = moving[0];
          int64_t distance = 0;
          if (rest.IsConst() && scale.empty() && rest.constant % coef == 0 && x->op == ExprOp::kVar) {
            distance = rest.constant / t.coef;  // x' = x + distance
            rest = Linear();
          } else {
            Expr step = c_.Int(coef);
            for (Expr e : scale) step = c_.Mul(step, e);
            const Expr r = FromLinear(c_, rest, DType::kI64);
            if (!a_.CanProve(c_.Lt(r, step)) || !a_.CanProve(c_.Lt(c_.Sub(c_.Int(0), step), r))) continue;
          }
          if (x->op == ExprOp::kVar) {
            known[primes.at(x)] = c_.Add(x, c_.Int(distance));
            changed = true;
          } else if ((x->op == ExprOp::kDiv || x->op == ExprOp::kMod) && same.insert(x).second) {
            changed = true;
          }
          d = std::move(rest);
          found = true;
          break;
        }
      }
      if (d.IsConst() ? d.constant != 0
                      : a_.CanProve(c_.Lt(FromLinear(c_, d, DType::kI64), c_.Int(0))) ||
                            a_.CanProve(c_.Lt(c_.Int(0), FromLinear(c_, d, DType::kI64)))) {
        return std::nullopt;
      }
    }
    // e / k and e % k agree: so does e, which may be a digit itself.
    std::vector<Equal> whole;
    for (Expr m : same) {
      const Expr other =
          m->op == ExprOp::kMod ? Quotient(a_, m->args[0], m->args[1]) : a_.Simplify(c_.Mod(m->args[0], m->args[1]));
      if (!is_same(other)) continue;
      if (!joined.insert(m->args[0]).second) continue;
      whole.push_back({m->args[0], Substitute(c_, m->args[0], primes)});
      changed = true;
    }
    for (const Equal& e : whole) {
      if (e.x->op == ExprOp::kDiv || e.x->op == ExprOp::kMod) same.insert(e.x);
    }
    open.insert(open.end(), whole.begin(), whole.end());
  }
  return known;
}

std::optional<int64_t> Dependences::Distance(const VarMap& known, Expr var) {
  if (a_.ConstBounds(var).IsConst()) return 0;
  auto it = known.find(Prime(var));
  if (it == known.end()) return std::nullopt;
  const Expr d = a_.Simplify(c_.Sub(it->second, var));
  return IsInt(d) ? std::optional<int64_t>(d->int_value) : std::nullopt;
}

// `proves()`, where the conditions of both hold.
bool Dependences::Where(const Access& a, const Access& b, const VarMap& rename, const std::function<bool()>& proves) {
  if (a.condition == nullptr && b.condition == nullptr) return false;
  const Expr none = c_.Bool(true);
  const Analyzer::Assume first(a_, a.condition == nullptr ? none : a.condition);
  const Analyzer::Assume second(a_, b.condition == nullptr ? none : Substitute(c_, b.condition, rename));
  return proves();
}

// Whether the two are steps of one reduction that the loop of `var` may take in any order: nothing else moves that is
// not known to stand still.
bool Dependences::IsFree(const Access& a, const Access& b, const VarMap& known, const std::vector<const For*>& fixed,
                         Expr var) {
  if (a.sum == nullptr || a.sum != b.sum || !a.sum->any_order || !a.sum->loops.contains(var)) return false;
  return std::all_of(a.loops.begin(), a.loops.end(), [&](const For* n) {
    return std::find(fixed.begin(), fixed.end(), n) != fixed.end() || a.sum->loops.contains(n->var) ||
           Distance(known, n->var) == 0;
  });
}

// All of the buffer's uses are in the loop, and every iteration has memory of its own.
bool Dependences::IsPrivate(Buffer b, const StmtPath& loop, ForKind kind) const {
  if (b->scope == Scope::kGlobal || (b->scope == Scope::kShared && IsThreadAxis(kind))) return false;
  const Range range = RangeOf(loop.back());
  const std::vector<size_t>& uses = by_buffer_.at(b);
  return uses.front() >= range.first && uses.back() < range.second;
}

std::optional<Dependences::Conflict> Dependences::CarriedBy(const StmtPath& loop, ForKind kind, bool reductions) {
  const For& n = *As<For>(loop.back());
  std::vector<const For*> fixed = LoopsOf(loop);
  fixed.pop_back();
  const Range range = RangeOf(loop.back());
  for (Buffer buffer : buffers_) {
    std::vector<const Access*> inside;
    bool written = false;
    for (size_t k : by_buffer_[buffer]) {
      if (k < range.first || k >= range.second) continue;
      inside.push_back(&accesses_[k]);
      written |= accesses_[k].writes;
    }
    if (!written) continue;
    std::optional<Conflict> conflict;
    for (size_t i = 0; i < inside.size() && !conflict; ++i) {
      for (size_t j = i; j < inside.size() && !conflict; ++j) {
        const Access &a = *inside[i], &b = *inside[j];
        if (!a.writes && !b.writes) continue;
        // Threads wait for each other between statements on shared memory.
        if (IsThreadAxis(kind) && buffer->scope == Scope::kShared && a.statement != b.statement) continue;
        // What a thread keeps for itself is proven where it is placed (ir/passes/place_buffers.h).
        if (IsThreadAxis(kind) && buffer->scope == Scope::kLocal) continue;
        const VarMap rename = Rename(a, b, fixed);
        auto apart = [&] {
          const auto known = Meet(a, b, rename);
          return !known || Distance(*known, n.var) == 0 || (reductions && IsFree(a, b, *known, fixed, n.var));
        };
        if (apart() || Where(a, b, rename, apart)) continue;
        conflict = {&a, &b};
      }
    }
    if (!conflict) continue;
    if (IsPrivate(buffer, loop, kind)) conflict = FlowsBetweenIterations(loop, buffer);
    if (conflict) return conflict;
  }
  return std::nullopt;
}

std::optional<Dependences::Conflict> Dependences::FlowsBetweenIterations(const StmtPath& loop, Buffer b) {
  const For& n = *As<For>(loop.back());
  std::vector<const For*> fixed = LoopsOf(loop);
  std::vector<const For*> outer(fixed.begin(), fixed.end() - 1);
  const Range range = RangeOf(loop.back());
  std::vector<const Access*> reads, writes;
  for (size_t k : by_buffer_[b]) {
    if (k < range.first || k >= range.second) continue;
    (accesses_[k].writes ? writes : reads).push_back(&accesses_[k]);
  }
  for (const Access* r : reads) {
    // An accumulator reads what its own start wrote.
    const bool starts = r->sum != nullptr && r->block->init != nullptr && !r->sum->loops.contains(n.var);
    bool ok = starts || std::any_of(writes.begin(), writes.end(), [&](const Access* w) {
                return w->statement < r->statement && IsCovered(*r, *w, fixed);
              });
    for (size_t k = 0; k < writes.size() && !ok; ++k) {
      const auto known = Meet(*writes[k], *r, Rename(*writes[k], *r, outer));
      if (known && Distance(*known, n.var) != 0) return Conflict{writes[k], r};
    }
  }
  return std::nullopt;
}

// `read` finds what `write` has written, at the same iteration of `fixed`.
bool Dependences::IsCovered(const Access& read, const Access& write, const std::vector<const For*>& fixed) {
  if (read.is_whole || write.is_whole || write.is_conditional) return false;
  auto is_fixed = [&](const For* n) { return std::find(fixed.begin(), fixed.end(), n) != fixed.end(); };
  std::vector<const For*> own, theirs;
  absl::flat_hash_map<Expr, Expr> own_extents, their_extents;
  for (const For* n : write.loops) {
    if (is_fixed(n)) continue;
    own.push_back(n);
    own_extents[n->var] = n->extent;
  }
  for (const For* n : read.loops) {
    if (is_fixed(n)) continue;
    theirs.push_back(n);
    their_extents[n->var] = n->extent;
  }
  // The same element by loops of the same form.
  if (own.size() <= theirs.size()) {
    VarMap map;
    bool equal = true;
    for (size_t k = 0; k < own.size(); ++k) {
      equal = equal && own[k]->extent == theirs[k]->extent;
      map[own[k]->var] = theirs[k]->var;
    }
    for (size_t d = 0; d < read.indices.size() && equal; ++d)
      equal = a_.Simplify(Substitute(c_, write.indices[d], map)) == read.indices[d];
    if (equal && (write.condition == nullptr ||
                  (read.condition != nullptr && Substitute(c_, write.condition, map) == read.condition)))
      return true;
  }
  // A box of elements, each dimension by loops of its own.
  VarSet taken;
  VarSet bounds;  // conditions that hold for every element of the buffer
  for (size_t d = 0; d < write.indices.size(); ++d)
    bounds.insert(a_.Simplify(c_.Lt(write.indices[d], write.buffer->shape[d])));
  if (write.condition != nullptr) {
    std::function<bool(Expr)> holds = [&](Expr e) {
      if (e->op == ExprOp::kAnd) return holds(e->args[0]) && holds(e->args[1]);
      if (bounds.contains(a_.Simplify(e))) return true;
      const std::vector<Expr> vars = VarsOf(e);
      return read.condition == e &&
             std::none_of(vars.begin(), vars.end(), [&](Expr v) { return own_extents.contains(v); });
    };
    if (!holds(write.condition)) return false;
  }
  for (size_t d = 0; d < write.indices.size(); ++d) {
    const Expr w = write.indices[d];
    for (Expr v : VarsOf(w)) {
      if (own_extents.contains(v) && !taken.insert(v).second) return false;
    }
    const auto span = DenseSpanOf(a_, w, own_extents);
    if (!span) return false;
    const Span need = SpanOf(a_, read.indices[d], their_extents).value_or(Span{c_.Int(0), read.buffer->shape[d]});
    const Expr end = c_.Add(span->min, span->extent), need_end = c_.Add(need.min, need.extent);
    if (!a_.CanProve(c_.Le(span->min, need.min))) return false;
    if (!a_.CanProve(c_.Le(need_end, end)) && !a_.CanProve(c_.Le(write.buffer->shape[d], end))) return false;
  }
  return true;
}

bool Dependences::MeetTogether(const Access& a, const Access& b) {
  const auto known = Meet(a, b, Rename(a, b, {}));
  return !known || std::all_of(a.loops.begin(), a.loops.end(), [&](const For* n) {
    const bool shared = std::any_of(b.loops.begin(), b.loops.end(), [&](const For* m) { return m->var == n->var; });
    return !shared || Distance(*known, n->var) == 0;
  });
}

bool Dependences::WritesWhole(const Access& write) {
  Access all;
  all.buffer = write.buffer;
  std::vector<std::unique_ptr<For>> loops;
  for (size_t d = 0; d < write.buffer->shape.size(); ++d) {
    loops.push_back(
        std::make_unique<For>(For{c_.Var(Cat("#all", d)), write.buffer->shape[d], ForKind::kSerial, nullptr}));
    a_.BindRange(loops.back()->var, c_.Int(0), loops.back()->extent);
    all.loops.push_back(loops.back().get());
    all.indices.push_back(loops.back()->var);
  }
  return IsCovered(all, write, {});
}

std::optional<Dependences::Conflict> Dependences::ChangedByOrder(const StmtPath& outermost,
                                                                 const std::vector<const For*>& chain,
                                                                 const std::vector<const For*>& order) {
  std::vector<const For*> fixed = LoopsOf(outermost);
  fixed.pop_back();
  const Range range = RangeOf(outermost.back());
  // Loops that pass, or are passed by, another.
  std::vector<const For*> moved;
  auto place = [](const std::vector<const For*>& v, const For* n) {
    return std::find(v.begin(), v.end(), n) - v.begin();
  };
  for (const For* n : chain) {
    const bool passes = std::any_of(chain.begin(), chain.end(), [&](const For* m) {
      return (place(chain, n) < place(chain, m)) != (place(order, n) < place(order, m));
    });
    if (passes) moved.push_back(n);
  }
  auto sign = [&](const VarMap& known, const std::vector<const For*>& loops) {
    for (const For* n : loops) {
      const int64_t d = *Distance(known, n->var);
      if (d != 0) return d < 0 ? -1 : 1;
    }
    return 0;
  };
  for (Buffer buffer : buffers_) {
    std::vector<const Access*> inside;
    bool written = false;
    for (size_t k : by_buffer_[buffer]) {
      if (k < range.first || k >= range.second) continue;
      inside.push_back(&accesses_[k]);
      written |= accesses_[k].writes;
    }
    if (!written) continue;
    for (size_t i = 0; i < inside.size(); ++i) {
      for (size_t j = i; j < inside.size(); ++j) {
        const Access &a = *inside[i], &b = *inside[j];
        if (!a.writes && !b.writes) continue;
        const auto known = Meet(a, b, Rename(a, b, fixed));
        if (!known) continue;
        // One loop alone keeps its direction wherever it stands; more must be known.
        int apart = 0;
        bool exact = true;
        for (const For* n : chain) {
          const auto d = Distance(*known, n->var);
          exact = exact && d.has_value();
          if (d == 0 || std::find(moved.begin(), moved.end(), n) == moved.end()) continue;
          apart += !IsFree(a, b, *known, fixed, n->var);
        }
        if (apart <= 1 || (exact && sign(*known, chain) == sign(*known, order))) continue;
        return Conflict{&a, &b};
      }
    }
  }
  return std::nullopt;
}

std::optional<Dependences::Conflict> Dependences::ChangedByMerge(const StmtPath& first, const StmtPath& second) {
  const Expr var = As<For>(first.back())->var, twin = As<For>(second.back())->var;
  std::vector<const For*> fixed = LoopsOf(first);
  fixed.pop_back();
  const Range r = RangeOf(first.back()), q = RangeOf(second.back());
  for (size_t i = r.first; i < r.second; ++i) {
    for (size_t j : by_buffer_[accesses_[i].buffer]) {
      if (j < q.first || j >= q.second) continue;
      const Access &a = accesses_[i], &b = accesses_[j];
      if (!a.writes && !b.writes) continue;
      const auto known = Meet(a, b, Rename(a, b, fixed, {{twin, var}}));
      if (known && Distance(*known, var).value_or(-1) < 0) return Conflict{&a, &b};
    }
  }
  return std::nullopt;
}

std::optional<Dependences::Conflict> Dependences::Between(const Stmt& s, const Stmt& t,
                                                          const std::vector<const For*>& outer) {
  const Range r = RangeOf(s), q = RangeOf(t);
  for (size_t i = r.first; i < r.second; ++i) {
    for (size_t j : by_buffer_[accesses_[i].buffer]) {
      if (j < q.first || j >= q.second || (!accesses_[i].writes && !accesses_[j].writes)) continue;
      if (Meet(accesses_[i], accesses_[j], Rename(accesses_[i], accesses_[j], outer)))
        return Conflict{&accesses_[i], &accesses_[j]};
    }
  }
  return std::nullopt;
}

Status CheckLoopKinds(const Func& f, const std::vector<Stmt>& loops) {
  std::optional<Dependences> dependences;
  for (const Stmt& s : loops) {
    const For* n = As<For>(s);
    if (n == nullptr || n->kind == ForKind::kSerial || n->kind == ForKind::kUnrolled) continue;
    if (!dependences) dependences.emplace(f);
    ASSIGN_OR_RETURN(const StmtPath path, FindLoop(f, n->var->name));
    const std::string what = Cat(Name(n->kind), " ", n->var->name);
    const bool thread = IsThreadAxis(n->kind);
    if (const auto conflict = dependences->CarriedBy(path, n->kind, thread || n->kind == ForKind::kVectorized)) {
      const bool reduces = conflict->a->sum != nullptr && conflict->a->sum == conflict->b->sum &&
                           conflict->a->sum->loops.contains(n->var);
      if (reduces) return InvalidArgument(what, ": the loop carries a reduction:\n", Print(s));
      return InvalidArgument(what, ": the loop carries a dependence: ", Dependences::Describe(*conflict),
                             " in different iterations:\n", Print(s));
    }
    // Threads that reduce together need the start, to join what each has found.
    Status status;
    VisitStmts(s, [&](const Stmt& x) {
      const Block* b = As<Block>(x);
      if (b == nullptr || !thread || b->init != nullptr) return status.ok();
      for (const BlockIter& i : b->iters) {
        if (i.kind != IterKind::kReduce || !Uses(i.binding, n->var)) continue;
        status = InvalidArgument(what, ": the loop carries the reduction of block ", b->name,
                                 ", whose start was split off:\n", Print(s));
      }
      return true;
    });
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

Status CheckMemory(const Func& f, Buffer b, Scope before) {
  Dependences dependences(f);
  std::optional<StmtPath> common;
  StmtPath path;
  std::function<void(const Stmt&)> go = [&](const Stmt& s) {
    path.push_back(s);
    const bool holds_others = As<Seq>(s) != nullptr || As<For>(s) != nullptr || As<If>(s) != nullptr;
    if (holds_others) {
      ForEachChild(s, [](Expr) {}, go);
    } else {
      const std::vector<Buffer> r = BuffersRead(s), w = BuffersWritten(s);
      if (std::find(r.begin(), r.end(), b) != r.end() || std::find(w.begin(), w.end(), b) != w.end()) {
        if (!common) common = path;
        size_t same = 0;
        while (same < common->size() && same < path.size() && (*common)[same] == path[same]) ++same;
        common->resize(same);
      }
    }
    path.pop_back();
  };
  go(f.body);
  if (!common) return absl::OkStatus();
  // What iterations had for themselves they may now meet in.
  if (before != Scope::kGlobal) RETURN_IF_ERROR(CheckLoopKinds(f, *common));
  if (b->scope == Scope::kGlobal) {
    for (const Access& x : dependences.accesses()) {
      if (x.buffer != b || !x.writes || x.is_whole) continue;
      Analyzer& a = dependences.analyzer();
      Context& c = a.context();
      const Analyzer::Assume inside(a, x.condition == nullptr ? c.Bool(true) : x.condition);
      for (size_t d = 0; d < x.indices.size(); ++d) {
        if (a.CanProve(c.Lt(x.indices[d], b->shape[d]))) continue;
        return InvalidArgument(x.block != nullptr ? Cat("block ", x.block->name) : std::string("a statement"),
                               " may write beyond its end, at ", Print(x.indices[d]), " in dimension ", d);
      }
    }
    return absl::OkStatus();
  }
  // A reduction that nobody reads: its start comes before its loops, and so does the memory.
  const Block* only = As<Block>(common->back());
  for (size_t k = common->size(); k > 0; --k) {
    const For* n = As<For>((*common)[k - 1]);
    if (n == nullptr || IsThreadAxis(n->kind)) continue;
    auto moves = [&](IterKind kind) {
      return std::any_of(only->iters.begin(), only->iters.end(),
                         [&](const BlockIter& i) { return i.kind == kind && Uses(i.binding, n->var); });
    };
    if (only != nullptr && only->init != nullptr && moves(IterKind::kReduce) && !moves(IterKind::kData)) continue;
    const StmtPath loop(common->begin(), common->begin() + static_cast<ptrdiff_t>(k));
    if (const auto conflict = dependences.FlowsBetweenIterations(loop, b)) {
      return InvalidArgument("loop ", n->var->name,
                             " holds all of its uses and would have memory of its own at each "
                             "iteration, but ",
                             Dependences::Describe(*conflict), ", which may be an earlier iteration's:\n",
                             Print((*common)[k - 1]));
    }
  }
  return absl::OkStatus();
}

}  // namespace cinn_like::ir
