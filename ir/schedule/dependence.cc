#include "ir/schedule/dependence.h"

#include <algorithm>
#include <utility>

#include "ir/join.h"
#include "ir/schedule/region.h"

namespace cinn_like::ir {
namespace {

using VarSet = absl::flat_hash_set<Expr>;

constexpr ForKind kThreadKinds[] = {ForKind::kBlockX,  ForKind::kBlockY,  ForKind::kBlockZ,  ForKind::kThreadX,
                                    ForKind::kThreadY, ForKind::kThreadZ, ForKind::kClusterX};

}  // namespace

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

std::optional<int64_t> Dependences::Distance(const VarMap& known, Expr var) {
  if (a_.ConstBounds(var).IsConst()) return 0;
  auto it = known.find(Prime(var));
  if (it == known.end()) return std::nullopt;
  const Expr d = a_.Simplify(c_.Sub(it->second, var));
  return IsInt(d) ? std::optional<int64_t>(d->int_value) : std::nullopt;
}

// `proves()`, or it does where the conditions of both hold.
bool Dependences::Proves(const Access& a, const Access& b, const VarMap& rename, const std::function<bool()>& proves) {
  if (proves()) return true;
  if (a.condition == nullptr && b.condition == nullptr) return false;
  IndicesOf(a), IndicesOf(b);  // as they are without the conditions
  const Expr none = c_.Bool(true);
  const Analyzer::Assume first(a_, a.condition == nullptr ? none : a.condition);
  const Analyzer::Assume second(a_, b.condition == nullptr ? none : Substitute(c_, b.condition, rename));
  return proves();
}

// Whether the two are steps of one reduction that the loop of `var` may take in any order: nothing else moves that is
// not known to stand still.
bool Dependences::IsFree(const Access& a, const Access& b, const VarMap& known, const std::vector<const For*>& fixed,
                         Expr var, bool in_lanes) {
  if (a.sum == nullptr || a.sum != b.sum || !a.sum->loops.contains(var)) return false;
  if (!a.sum->any_order && !(in_lanes && a.sum->scans)) return false;
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

std::vector<std::pair<const Access*, const Access*>> Dependences::PairsOf(Buffer b, const Range& range,
                                                                          const Changed& changed) const {
  if (changed.buffer != nullptr && b != changed.buffer) return {};
  const Range asked = changed.within == nullptr ? range : RangeOf(changed.within);
  auto is_in = [](size_t k, const Range& r) { return k >= r.first && k < r.second; };
  std::vector<size_t> inside;
  for (size_t k : by_buffer_.at(b)) {
    if (is_in(k, range)) inside.push_back(k);
  }
  std::vector<std::pair<const Access*, const Access*>> r;
  for (size_t i = 0; i < inside.size(); ++i) {
    for (size_t j = i; j < inside.size(); ++j) {
      const Access &x = accesses_[inside[i]], &y = accesses_[inside[j]];
      if ((x.writes || y.writes) && (is_in(inside[i], asked) || is_in(inside[j], asked))) r.emplace_back(&x, &y);
    }
  }
  return r;
}

std::optional<Dependences::Conflict> Dependences::CarriedBy(const StmtPath& loop, ForKind kind, bool reductions,
                                                            const Changed& changed) {
  const For& n = *As<For>(loop.back());
  std::vector<const For*> fixed = LoopsOf(loop);
  fixed.pop_back();
  const Range range = RangeOf(loop.back());
  for (Buffer buffer : buffers_) {
    std::optional<Conflict> conflict;
    for (const auto& [first, second] : PairsOf(buffer, range, changed)) {
      const Access &a = *first, &b = *second;
      // Threads wait for each other between statements on shared memory.
      if (IsThreadAxis(kind) && buffer->scope == Scope::kShared && a.statement != b.statement) continue;
      // What a thread keeps for itself is proven where it is placed (ir/passes/place_buffers.h).
      if (IsThreadAxis(kind) && buffer->scope == Scope::kLocal) continue;
      const VarMap rename = Rename(a, b, fixed);
      auto apart = [&] {
        const auto known = Meet(a, b, rename);
        return !known || Distance(*known, n.var) == 0 ||
               (reductions && IsFree(a, b, *known, fixed, n.var, kind == ForKind::kVectorized));
      };
      if (Proves(a, b, rename, apart)) continue;
      conflict = {&a, &b};
      break;
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
      const VarMap rename = Rename(*writes[k], *r, outer);
      const bool at_once = Proves(*writes[k], *r, rename, [&] {
        const auto known = Meet(*writes[k], *r, rename);
        return !known || Distance(*known, n.var) == 0;
      });
      if (!at_once) return Conflict{writes[k], r};
    }
  }
  return std::nullopt;
}

// `read` finds what `write` has written, at the same iteration of `fixed`; `inside`: it stays within the buffer's
// shape.
bool Dependences::IsCovered(const Access& read, const Access& write, const std::vector<const For*>& fixed,
                            bool inside) {
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
  const std::vector<Expr>&at = IndicesOf(read), &written = IndicesOf(write);
  std::vector<Expr> of_read = read.condition == nullptr ? std::vector<Expr>{} : ConjunctsOf(read.condition);
  for (size_t k = of_read.size(); k-- > 0;) of_read.push_back(a_.Simplify(of_read[k]));
  const auto holds_for_read = [&](Expr condition) {
    const std::vector<Expr> parts = ConjunctsOf(condition);
    return std::all_of(parts.begin(), parts.end(),
                       [&](Expr e) { return std::find(of_read.begin(), of_read.end(), e) != of_read.end(); });
  };
  // The same element by loops of the same form.
  if (own.size() <= theirs.size()) {
    VarMap map;
    bool equal = true;
    for (size_t k = 0; k < own.size(); ++k) {
      equal = equal && own[k]->extent == theirs[k]->extent;
      map[own[k]->var] = theirs[k]->var;
    }
    for (size_t d = 0; d < at.size() && equal; ++d) equal = a_.Simplify(Substitute(c_, written[d], map)) == at[d];
    if (equal && (write.condition == nullptr || holds_for_read(Substitute(c_, write.condition, map)))) return true;
  }
  // A box of elements, each dimension by loops of its own.
  VarSet taken;
  VarSet bounds;  // conditions that hold for every element of the buffer
  for (size_t d = 0; d < written.size() && inside; ++d)
    bounds.insert(a_.Simplify(c_.Lt(written[d], write.buffer->shape[d])));
  if (write.condition != nullptr) {
    // Where the loops that write the element are, as far as one of them alone runs along a dimension.
    VarMap writer;
    for (size_t d = 0; d < written.size(); ++d) {
      Expr along = nullptr;
      size_t several = 0;
      for (Expr v : VarsOf(written[d])) {
        if (!own_extents.contains(v)) continue;
        along = v;
        ++several;
      }
      const Expr rest = several == 1 ? a_.Simplify(c_.Sub(written[d], along)) : nullptr;
      if (rest != nullptr && !Uses(rest, along)) writer[along] = a_.Simplify(c_.Sub(at[d], rest));
    }
    std::function<bool(Expr)> holds = [&](Expr e) {
      if (e->op == ExprOp::kAnd) return holds(e->args[0]) && holds(e->args[1]);
      if (bounds.contains(a_.Simplify(e))) return true;
      e = a_.Simplify(Substitute(c_, e, writer));
      const std::vector<Expr> vars = VarsOf(e);
      return holds_for_read(e) &&
             std::none_of(vars.begin(), vars.end(), [&](Expr v) { return own_extents.contains(v); });
    };
    if (!holds(write.condition)) return false;
  }
  for (size_t d = 0; d < written.size(); ++d) {
    const Expr w = written[d];
    for (Expr v : VarsOf(w)) {
      if (own_extents.contains(v) && !taken.insert(v).second) return false;
    }
    const auto span = DenseSpanOf(a_, w, own_extents);
    if (!span) return false;
    const auto reach = SpanOf(a_, at[d], their_extents);
    if (!reach && !inside) return false;
    const Span need = reach.value_or(Span{c_.Int(0), read.buffer->shape[d]});
    const Expr end = c_.Add(span->min, span->extent), need_end = c_.Add(need.min, need.extent);
    if (!a_.CanProve(c_.Le(span->min, need.min))) return false;
    if (!a_.CanProve(c_.Le(need_end, end)) && !(inside && a_.CanProve(c_.Le(write.buffer->shape[d], end))))
      return false;
  }
  return true;
}

bool Dependences::FindsWritten(const Access& read) {
  for (size_t k : by_buffer_[read.buffer]) {
    const Access& write = accesses_[k];
    if (!write.writes || write.statement >= read.statement) continue;
    std::vector<const For*> around;
    for (size_t i = 0; i < read.loops.size() && i < write.loops.size() && read.loops[i] == write.loops[i]; ++i)
      around.push_back(read.loops[i]);
    if (IsCovered(read, write, around, false)) return true;
  }
  return false;
}

bool Dependences::MeetTogether(const Access& a, const Access& b) {
  const VarMap rename = Rename(a, b, {});
  return Proves(a, b, rename, [&] {
    const auto known = Meet(a, b, rename);
    return !known || std::all_of(a.loops.begin(), a.loops.end(), [&](const For* n) {
      const bool shared = std::any_of(b.loops.begin(), b.loops.end(), [&](const For* m) { return m->var == n->var; });
      return !shared || Distance(*known, n->var) == 0;
    });
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
    all.at.push_back(loops.back()->var);
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
    for (const auto& [first, second] : PairsOf(buffer, range, {})) {
      const Access &a = *first, &b = *second;
      const VarMap rename = Rename(a, b, fixed);
      const bool as_before = Proves(a, b, rename, [&] {
        const auto known = Meet(a, b, rename);
        if (!known) return true;
        // One loop alone keeps its direction wherever it stands; more must be known.
        int apart = 0;
        bool exact = true;
        for (const For* n : chain) {
          const auto d = Distance(*known, n->var);
          exact = exact && d.has_value();
          if (d == 0 || std::find(moved.begin(), moved.end(), n) == moved.end()) continue;
          apart += !IsFree(a, b, *known, fixed, n->var);
        }
        return apart <= 1 || (exact && sign(*known, chain) == sign(*known, order));
      });
      if (!as_before) return Conflict{&a, &b};
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
      const VarMap rename = Rename(a, b, fixed, {{twin, var}});
      const bool later = Proves(a, b, rename, [&] {
        const auto known = Meet(a, b, rename);
        return !known || Distance(*known, var).value_or(-1) >= 0;
      });
      if (!later) return Conflict{&a, &b};
    }
  }
  return std::nullopt;
}

std::optional<Dependences::Conflict> Dependences::BetweenThreads(const StmtPath& kernel, bool bound,
                                                                 const Changed& changed) {
  StmtPath around = kernel;
  around.pop_back();
  const std::vector<const For*> outside = LoopsOf(around);
  const Range range = RangeOf(kernel.back());
  // The loop whose iterations are the access's threads; null: it is the first thread's. Threads that reduce together
  // leave the result to the first.
  auto loop_on = [](const Access& x, ForKind axis) -> const For* {
    for (const For* n : x.loops) {
      if (n->kind == axis && !IsInt(n->extent, 1) && !(x.sum != nullptr && x.sum->loops.contains(n->var))) return n;
    }
    return nullptr;
  };
  absl::flat_hash_set<ForKind> bound_axes;
  VisitStmts(kernel.back(), [&](const Stmt& s) {
    if (const For* n = As<For>(s); n != nullptr && !IsInt(n->extent, 1)) bound_axes.insert(n->kind);
    return true;
  });
  auto by_all = [&](const Access& x, const For* loop, ForKind axis) {
    return !bound && !x.writes && loop == nullptr && (IsBlockAxis(axis) ? x.by_all_blocks : x.by_all_threads) &&
           bound_axes.contains(axis);
  };
  for (Buffer buffer : buffers_) {
    if (buffer->scope == Scope::kLocal) continue;
    const bool shared = buffer->scope == Scope::kShared;
    for (const auto& [first, second] : PairsOf(buffer, range, changed)) {
      const Access *a = first, *b = second;
      // Threads of a block wait for each other between statements on its shared memory, which no other block sees.
      const bool waits = shared && a->statement != b->statement;
      std::vector<const For*> fixed = outside;
      VarMap twins;
      std::vector<std::pair<const For*, const For*>> axes;
      bool everyone = false;  // of an axis reads what is written
      for (ForKind axis : kThreadKinds) {
        const For *p = loop_on(*a, axis), *q = loop_on(*b, axis);
        if (shared && IsBlockAxis(axis) && (p == nullptr ? nullptr : p->var) == (q == nullptr ? nullptr : q->var)) {
          if (p != nullptr) fixed.push_back(p);
          continue;
        }
        if (waits && IsThreadAxis(axis)) continue;
        if (by_all(*a, p, axis) || by_all(*b, q, axis)) {
          everyone = true;
          continue;
        }
        if ((bound && (p == nullptr || q == nullptr)) || (p == nullptr && q == nullptr)) continue;
        // The wider loop stands for both.
        if (p != nullptr && q != nullptr && p->var != q->var && axes.empty() &&
            !a_.CanProve(c_.Le(q->extent, p->extent))) {
          std::swap(a, b);
          std::swap(p, q);
        }
        axes.emplace_back(p, q);
        if (p != nullptr && q != nullptr && p->var != q->var && a_.CanProve(c_.Le(q->extent, p->extent)))
          twins[q->var] = p->var;
      }
      if (axes.empty() && !everyone) continue;
      const VarMap rename = Rename(*a, *b, fixed, twins);
      auto same = [&] {
        const auto known = Meet(*a, *b, rename);
        return !known || (!everyone && std::all_of(axes.begin(), axes.end(), [&](const auto& axis) {
          const auto& [p, q] = axis;
          if (p != nullptr && q != nullptr) return Distance(*known, p->var) == 0;
          Expr only = p != nullptr ? p->var : Substitute(c_, q->var, rename);
          if (p == nullptr && known->contains(only)) only = known->at(only);
          return a_.CanProve(c_.Eq(only, c_.Int(0)));
        }));
      };
      if (!Proves(*a, *b, rename, same)) return Conflict{first, second};
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
      const Access &a = accesses_[i], &b = accesses_[j];
      const VarMap rename = Rename(a, b, outer);
      if (!Proves(a, b, rename, [&] { return !Meet(a, b, rename); })) return Conflict{&a, &b};
    }
  }
  return std::nullopt;
}

}  // namespace cinn_like::ir
