#include "ir/passes/insert_barriers.h"

#include <algorithm>
#include <map>

namespace cinn_like::ir {
namespace {

using Buffers = absl::flat_hash_set<Buffer>;

struct Accesses {
  Buffers reads, writes;
  void Add(const Accesses& o) {
    reads.insert(o.reads.begin(), o.reads.end());
    writes.insert(o.writes.begin(), o.writes.end());
  }
  void Clear() {
    reads.clear();
    writes.clear();
  }
};

bool Intersects(const Buffers& a, const Buffers& b) {
  for (Buffer x : a) {
    if (b.contains(x)) return true;
  }
  return false;
}

// `next` must wait for what is pending.
bool Conflicts(const Accesses& pending, const Accesses& next) {
  return Intersects(pending.writes, next.reads) || Intersects(pending.reads, next.writes) ||
         Intersects(pending.writes, next.writes);
}

Accesses SharedAccesses(const Stmt& s) {
  Accesses r;
  for (Buffer b : BuffersRead(s)) {
    if (b->scope == Scope::kShared) r.reads.insert(b);
  }
  for (Buffer b : BuffersWritten(s)) {
    if (b->scope == Scope::kShared) r.writes.insert(b);
  }
  return r;
}

bool HasBarrier(const Stmt& s) {
  bool found = false;
  VisitStmts(s, [&](const Stmt& x) {
    found |= As<Barrier>(x) != nullptr;
    return !found;
  });
  return found;
}

// Of one run of `s`, two places touch shared memory at different elements, one of them writing: where all are at one
// element, it is one thread's (ir/schedule/legality.h).
bool MeetsInside(const Stmt& s) {
  absl::flat_hash_map<Buffer, absl::flat_hash_set<std::vector<Expr>>> places;
  auto add = [&](Buffer b, const std::vector<Expr>& at) {
    if (b->scope == Scope::kShared) places[b].insert(at);
  };
  VisitStmts(s, [&](const Stmt& x) {
    if (const Store* n = As<Store>(x)) add(n->buffer, n->indices);
    return true;
  });
  ForEachExpr(s, [&](Expr e) {
    Visit(e, [&](Expr x) {
      if (x->op == ExprOp::kLoad) add(x->buffer, IndicesOf(x));
      return true;
    });
  });
  const std::vector<Buffer> written = BuffersWritten(s);
  return std::any_of(places.begin(), places.end(), [&](const auto& x) {
    return x.second.size() > 1 && std::find(written.begin(), written.end(), x.first) != written.end();
  });
}

// One iteration may take one branch and the next one the other, where both touch the same shared memory.
bool BranchesMeet(const Stmt& s) {
  bool found = false;
  VisitStmts(s, [&](const Stmt& x) {
    const If* n = As<If>(x);
    found |=
        n != nullptr && n->otherwise != nullptr && Conflicts(SharedAccesses(n->then), SharedAccesses(n->otherwise));
    return !found;
  });
  return found;
}

// `s` with barriers inside; `pending` is what came before since the last barrier, and is updated.
Stmt Insert(const Stmt& s, Accesses& pending) {
  if (const Seq* q = As<Seq>(s)) {
    std::vector<Stmt> out;
    bool copies = false;
    for (const Stmt& x : q->stmts) {
      // What a pipelined loop waits for, each into memory of its own.
      const Barrier* barrier = As<Barrier>(x);
      copies = barrier != nullptr ? barrier->scope == BarrierScope::kBeginCopies : copies;
      if (copies) {
        pending.Add(SharedAccesses(x));
        out.push_back(x);
        continue;
      }
      // What a statement needs at its start: its accesses up to its own first barrier, taken whole (safe).
      const bool nested = As<Seq>(x) != nullptr || As<For>(x) != nullptr;
      if (!nested && Conflicts(pending, SharedAccesses(x))) {
        out.push_back(MakeStmt(Barrier{}));
        pending.Clear();
      }
      out.push_back(Insert(x, pending));
    }
    return MakeSeq(std::move(out));
  }
  if (const For* n = As<For>(s); n != nullptr && PipelineStages(n->kind) > 0) {
    // Begins with a barrier, and needs no other (ir/passes/lower_pipeline.h).
    pending = SharedAccesses(n->body);
    return s;
  }
  if (const For* n = As<For>(s)) {
    const bool is_loop = !IsThreadAxis(n->kind) && !IsBlockAxis(n->kind);
    std::vector<Stmt> before;
    // One barrier is enough for threads that need none among themselves, and stands where those outside reach it too.
    const auto alone = [&] {
      Accesses none;
      return !HasBarrier(Insert(n->body, none));
    };
    if (Conflicts(pending, SharedAccesses(n->body)) && (is_loop || (IsThreadAxis(n->kind) && alone()))) {
      before.push_back(MakeStmt(Barrier{}));
      pending.Clear();
    }
    Stmt body = Insert(n->body, pending);
    if (is_loop) {
      // The next iteration starts like this one did.
      Accesses again = pending;
      if (Conflicts(again, SharedAccesses(n->body)) && (HasBarrier(body) || BranchesMeet(body))) {
        body = MakeSeq({body, MakeStmt(Barrier{})});
        pending.Clear();
      }
    }
    before.push_back(MakeStmt(For{n->var, n->extent, n->kind, body}));
    return MakeSeq(std::move(before));
  }
  const Accesses own = SharedAccesses(s);
  std::vector<Stmt> out;
  if (Conflicts(pending, own)) {
    out.push_back(MakeStmt(Barrier{}));
    pending.Clear();
  }
  const If* n = As<If>(s);
  if (n == nullptr || !MeetsInside(s)) {
    pending.Add(own);
    out.push_back(s);
    return MakeSeq(std::move(out));
  }
  pending.Add(SharedAccesses(MakeStmt(If{n->cond, MakeSeq({}), nullptr})));
  Accesses other = pending;
  const Stmt then = Insert(n->then, pending);
  const Stmt otherwise = n->otherwise == nullptr ? nullptr : Insert(n->otherwise, other);
  pending.Add(other);
  out.push_back(MakeStmt(If{n->cond, then, otherwise}));
  return MakeSeq(std::move(out));
}

// Whether all threads of a block come to every barrier, and all of a warp to every shuffle.
class Meeting {
 public:
  Meeting(const Func& f, int64_t warp) : warp_(warp) {
    VisitStmts(f.body, [&](const Stmt& s) {
      const For* n = As<For>(s);
      if (n == nullptr || !IsThreadAxis(n->kind) || !IsInt(n->extent)) return true;
      int64_t& most = threads_[n->kind];
      most = std::max(most, n->extent->int_value);
      return true;
    });
  }

  Status Check(const Stmt& s) {
    if (As<Barrier>(s) != nullptr && !apart_.empty())
      return Unimplemented("a barrier that not all threads reach, ", apart_);
    Status status;
    auto expr = [&](Expr e) {
      Visit(e, [&](Expr x) {
        if (x->op == ExprOp::kShuffleXor && !split_warp_.empty())
          status = Unimplemented("a shuffle that not all of a warp reach, ", split_warp_);
        return true;
      });
    };
    if (const While* n = As<While>(s); n != nullptr && MeetsInside(s))
      return Unimplemented("threads that meet in shared memory in a loop while ", Print(n->cond));
    const std::string apart = apart_, split_warp = split_warp_;
    if (const Let* n = As<Let>(s); n != nullptr && Varies(n->value)) varying_.insert(n->var);
    if (const If* n = As<If>(s); n != nullptr && Varies(n->cond)) apart_ = split_warp_ = Cat("under ", Print(n->cond));
    // What it asks is written as it runs.
    if (const While* n = As<While>(s)) apart_ = split_warp_ = Cat("while ", Print(n->cond));
    if (const For* n = As<For>(s)) {
      const bool is_thread = IsThreadAxis(n->kind);
      if (is_thread || Varies(n->extent)) varying_.insert(n->var);
      const int64_t all = is_thread ? threads_[n->kind] : 0;
      if (is_thread && IsInt(n->extent) && n->extent->int_value < all) {
        apart_ = Cat("in loop ", n->var->name, " over ", n->extent->int_value, " of ", all, " threads");
        // Of the threads of a row that run, and of those before the next row.
        const bool is_x = n->kind == ForKind::kThreadX;
        const int64_t row = threads_[ForKind::kThreadX], own = is_x ? n->extent->int_value : row;
        const bool has_rows = threads_[ForKind::kThreadY] > 1 || threads_[ForKind::kThreadZ] > 1;
        if (own % warp_ != 0 || (has_rows && row % warp_ != 0)) split_warp_ = apart_;
      } else if (!is_thread && Varies(n->extent)) {
        apart_ = split_warp_ = Cat("in loop ", n->var->name, ", whose extent differs between threads");
      }
    }
    ForEachChild(s, expr, [&](const Stmt& x) { status.Update(Check(x)); });
    apart_ = apart;
    split_warp_ = split_warp;
    return status;
  }

 private:
  bool Varies(Expr e) {
    bool found = false;
    Visit(e, [&](Expr x) {
      found |= varying_.contains(x) || (x->op == ExprOp::kLoad && x->buffer->scope != Scope::kGlobal);
      return !found;
    });
    return found;
  }
  const int64_t warp_;
  std::map<ForKind, int64_t> threads_;
  absl::flat_hash_set<Expr> varying_;
  std::string apart_, split_warp_;  // why threads are apart here; empty: they are not
};

}  // namespace

StatusOr<Func> InsertBarriers(Func f, const LaunchLimits& limits) {
  Accesses pending;
  if (limits.threads > 1) {
    f.body = Insert(f.body, pending);
  } else {  // one thread waits for nobody, nor do pipelines
    f.body = RewriteStmts(f.body, [](const Stmt& s) -> Stmt {
      const auto* barrier = As<Barrier>(s);
      return barrier != nullptr && barrier->scope == BarrierScope::kBlock ? MakeSeq({}) : nullptr;
    });
  }
  RETURN_IF_ERROR(Annotate(Meeting(f, limits.warp).Check(f.body), Cat("@", f.name)));
  return f;
}

}  // namespace cinn_like::ir
