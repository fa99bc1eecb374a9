#include "ir/passes/insert_barriers.h"

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

// `s` with barriers inside; `pending` is what came before since the last barrier, and is updated.
Stmt Insert(const Stmt& s, Accesses& pending) {
  if (const Seq* q = As<Seq>(s)) {
    std::vector<Stmt> out;
    for (const Stmt& x : q->stmts) {
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
      if (Conflicts(again, SharedAccesses(n->body)) && HasBarrier(body)) {
        body = MakeSeq({body, MakeStmt(Barrier{})});
        pending.Clear();
      }
    }
    before.push_back(MakeStmt(For{n->var, n->extent, n->kind, body}));
    return MakeSeq(std::move(before));
  }
  const Accesses own = SharedAccesses(s);
  if (Conflicts(pending, own)) {
    pending.Clear();
    pending.Add(own);
    return MakeSeq({MakeStmt(Barrier{}), s});
  }
  pending.Add(own);
  return s;
}

}  // namespace

StatusOr<Func> InsertBarriers(Func f) {
  Accesses pending;
  f.body = Insert(f.body, pending);
  return f;
}

}  // namespace cinn_like::ir
