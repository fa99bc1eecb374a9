// The table of Dependences: every place that touches memory, in terms of the loops around it, and what is known of the
// reductions among them.
#include <algorithm>
#include <utility>

#include "ir/join.h"
#include "ir/schedule/dependence.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

using VarSet = absl::flat_hash_set<Expr>;

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

// How a block reduces; null if it has no reduce iterators.
std::unique_ptr<Reduction> ReductionOf(Context& c, const Block& b) {
  auto r = std::make_unique<Reduction>();
  VarSet own, data;
  for (const BlockIter& i : b.iters) {
    if (i.kind == IterKind::kReduce) continue;
    for (Expr v : VarsOf(i.binding)) data.insert(v);
  }
  // What was started elsewhere may begin anywhere, where loops that move other iterators say (behind tiles that a mask
  // leaves nothing of).
  const bool goes_on = b.init == nullptr;
  for (const BlockIter& i : b.iters) {
    if (i.kind != IterKind::kReduce) continue;
    own.insert(i.var);
    for (Expr v : VarsOf(i.binding)) {
      if (!goes_on || !data.contains(v)) r->loops.insert(v);
    }
  }
  if (own.empty()) return nullptr;
  r->starts_at_zero = std::all_of(b.iters.begin(), b.iters.end(), [&](const BlockIter& i) {
    return i.kind == IterKind::kReduce ? StartsAtZero(i.binding, r->loops) : !Uses(i.binding, r->loops);
  });
  if (!goes_on && !r->starts_at_zero) return r;
  const auto reads_none = [](const Join& join, const std::vector<Buffer>& written) {
    bool none = true;
    for (Expr e : join.elements) {
      VisitLoads(e, [&](Expr x) { none = none && !Contains(written, x->buffer); });
    }
    return none;
  };
  if (const std::optional<ScanStep> step = ScanStepOf(c, b.body, own)) {
    const std::optional<Join> join = FindJoin(c, step->running.values, step->running.Running(c));
    r->scans = join && reads_none(*join, BuffersWritten(b.body));
    return r;
  }
  const std::optional<Stores> stores = StoresOf(c, b.body);
  if (!stores) return r;
  const std::vector<Expr> running = stores->Running(c);
  const std::optional<Join> join = FindJoin(c, stores->values, running);
  r->any_order = join.has_value();
  for (Expr e : running) r->any_order &= !Uses(e, own);
  r->any_order = r->any_order && reads_none(*join, stores->buffers);
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
  std::vector<const For*> loops;
  int statement = 0, conditions = 0, whiles = 0;
  Expr where = nullptr;  // the conditions around that no memory has a part in
  const auto both = [&](Expr a, Expr b) { return a == nullptr ? b : c_.And(a, b); };
  std::vector<std::pair<Reduction*, Access>> steps;  // at their reduce iterators

  // Accesses of one block or bare statement.
  absl::flat_hash_set<std::tuple<Buffer, std::vector<Expr>, bool>> seen_reads, seen_writes;
  Access base;
  auto begin = [&] {
    base = Access();
    base.loops = loops;
    base.statement = ++statement;
    base.condition = where;
    base.is_conditional = conditions > 0;
    seen_reads.clear();
    seen_writes.clear();
  };
  auto add = [&](Buffer b, std::vector<Expr> at, bool writes, bool masked) {
    if (!(writes ? seen_writes : seen_reads).insert({b, at, base.by_all_threads}).second) return;
    Access x = base;
    x.buffer = b;
    x.writes = writes;
    x.is_conditional |= masked;
    for (Expr e : at) x.is_whole |= e->type.lanes > 1;
    x.at = std::move(at);
    if (writes) written_.insert(b);
    accesses_.push_back(std::move(x));
  };
  // The whole of a buffer.
  auto add_operand = [&](Buffer b, bool is_output) {
    Access x = base;
    x.buffer = b;
    x.is_whole = true;
    x.writes = is_output;
    if (is_output) written_.insert(b);
    accesses_.push_back(std::move(x));
  };
  auto add_reads = [&](Expr e) {
    Visit(e, [&](Expr x) {
      if (x->op == ExprOp::kLoad) add(x->buffer, ir::IndicesOf(x), false, MaskOf(x) != nullptr);
      if (x->op == ExprOp::kAddress) {
        add(x->buffer, {}, true, true);
        accesses_.back().is_whole = true;
      }
      return true;
    });
  };
  const auto read_by_all = [&](const std::vector<Buffer>& written) {
    const auto writes = [&](Scope scope) {
      return std::any_of(written.begin(), written.end(), [&](Buffer b) { return b->scope == scope; });
    };
    base.by_all_threads = writes(Scope::kLocal);
    base.by_all_blocks = base.by_all_threads || writes(Scope::kShared);
  };
  const auto add_condition = [&](Expr e) {
    const bool threads = std::exchange(base.by_all_threads, true), blocks = std::exchange(base.by_all_blocks, true);
    add_reads(e);
    base.by_all_threads = threads, base.by_all_blocks = blocks;
  };
  // A statement inside of a block, or one that holds no others.
  std::function<void(const Stmt&)> add_all = [&](const Stmt& s) {
    if (const Let* n = As<Let>(s)) {
      add_reads(n->value);
      values_[n->var] = Substitute(c_, n->value, values_);
      return;
    }
    if (const Call* n = As<Call>(s); n != nullptr && n->IsOfFunction()) {
      ForEachOperand(*n, [&](const Call::Operand& o, absl::Span<const Expr> args) {
        for (Expr e : args.subspan(o.is_tensor)) add_reads(e);
        if (!o.is_tensor) return;
        for (Expr e : args[0]->args) add_reads(e);
        add_operand(args[0]->buffer, o.is_output);
      });
      return;
    }
    const bool conditional = As<If>(s) != nullptr || As<For>(s) != nullptr || As<While>(s) != nullptr;
    if (const For* n = As<For>(s)) {
      loops.push_back(n);
      base.loops = loops;
      a_.BindRange(n->var, c_.Int(0), Substitute(c_, n->extent, values_));
    }
    const bool before = base.is_conditional;
    base.is_conditional |= conditional;
    ForEachChild(
        s,
        [&](Expr e) {
          const Store* n = As<Store>(s);
          if (conditional)
            add_condition(e);
          else if (n == nullptr || e == n->value || e == n->mask || ReadsMemory(e))
            add_reads(e);
        },
        add_all);
    if (const Store* n = As<Store>(s)) add(n->buffer, n->indices, true, n->mask != nullptr);
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
      add_condition(n->extent);
      a_.BindRange(n->var, c_.Int(0), n->extent);
      loops.push_back(n);
      go(n->body);
      loops.pop_back();
    } else if (const Seq* n = As<Seq>(s)) {
      for (const Stmt& x : n->stmts) go(x);
    } else if (const If* n = As<If>(s)) {
      begin();
      add_condition(n->cond);
      const Expr cond = Substitute(c_, n->cond, values_), before = where;
      const bool reads = ReadsMemory(cond);  // what memory says may change between two runs
      conditions += reads;
      if (!reads) where = both(before, cond);
      go(n->then);
      if (!reads) where = both(before, c_.Not(cond));
      if (n->otherwise != nullptr) go(n->otherwise);
      where = before;
      conditions -= reads;
    } else if (const While* n = As<While>(s)) {
      begin();
      add_condition(n->cond);
      ++conditions, ++whiles;
      go(n->body);
      --conditions, --whiles;
    } else if (const Block* n = As<Block>(s)) {
      begin();
      base.block = n;
      read_by_all(BuffersWritten(s));
      for (const BlockIter& i : n->iters) {
        values_[i.var] = i.binding;
        add_reads(i.binding);
      }
      if (n->predicate != nullptr) {
        add_condition(n->predicate);
        const Expr predicate = Substitute(c_, n->predicate, values_);
        if (ReadsMemory(predicate))
          base.is_conditional = true;
        else
          base.condition = both(where, predicate);
      }
      std::unique_ptr<Reduction> sum = ReductionOf(c_, *n);
      if (sum != nullptr) {
        // It may begin and go on more than once.
        if (whiles > 0) sum->any_order = sum->scans = sum->starts_at_zero = false;
        reductions_.push_back(std::move(sum));
        base.sum = reductions_.back().get();
        Access step = base;
        for (const BlockIter& i : n->iters) {
          if (i.kind == IterKind::kReduce) step.at.push_back(i.binding);
        }
        steps.emplace_back(reductions_.back().get(), std::move(step));
      }
      const size_t start = accesses_.size();
      if (n->init != nullptr) add_all(n->init);
      add_all(n->body);
      // Only what it reduces into is an accumulator: no results of a scan.
      std::vector<Buffer> into = BuffersWritten(n->body);
      VarSet own;
      for (const BlockIter& i : n->iters) {
        if (i.kind == IterKind::kReduce) own.insert(i.var);
      }
      VisitStmts(n->body, [&](const Stmt& x) {
        const Store* store = As<Store>(x);
        for (Expr e : store == nullptr ? std::vector<Expr>{} : store->indices) {
          if (Uses(e, own)) std::erase(into, store->buffer);
        }
        return true;
      });
      for (size_t k = start; k < accesses_.size(); ++k) {
        if (std::find(into.begin(), into.end(), accesses_[k].buffer) == into.end()) accesses_[k].sum = nullptr;
      }
    } else {
      begin();
      read_by_all(BuffersWritten(s));
      if (const Let* n = As<Let>(s)) add_condition(n->value);
      add_all(s);
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
    sum->scans &= once;
  }
}

const std::vector<Expr>& Dependences::IndicesOf(const Access& x) {
  if (x.indices_.size() == x.at.size()) return x.indices_;
  // An index out of memory that changes is any value.
  auto any = [&](Expr y) -> Expr {
    return y->op == ExprOp::kLoad && written_.contains(y->buffer) ? c_.Var(Cat("#", unknown_++), y->type) : nullptr;
  };
  for (Expr e : x.at) {
    e = Substitute(c_, e, values_);
    if (ReadsMemory(e)) e = Rewriter(c_, any)(e);
    x.indices_.push_back(x.is_whole ? e : a_.Simplify(e));
  }
  return x.indices_;
}

Dependences::Range Dependences::RangeOf(const Stmt& s) const {
  auto it = ranges_.find(s.get());
  return it == ranges_.end() ? Range{0, 0} : it->second;
}

std::string Dependences::Describe(const Conflict& x) {
  auto one = [&](const Access& a) {
    std::string at;
    for (Expr e : IndicesOf(a)) at += Cat(at.empty() ? "" : ", ", Print(e));
    return Cat(a.block != nullptr ? Cat("block ", a.block->name) : std::string("a statement"),
               a.writes ? " writes " : " reads ", a.buffer->name, "[", a.is_whole ? "..." : at, "]");
  };
  if (x.a == x.b) return Cat(one(*x.a), " more than once");
  return Cat(one(*x.a), " and ", one(*x.b));
}

}  // namespace cinn_like::ir
