#include "ir/passes/guard_stores.h"

#include <set>

namespace cinn_like::ir {

StatusOr<Func> GuardStores(Func f) {
  bool has_blocks = false, has_calls = false, has_memory = false;
  VisitStmts(f.body, [&](const Stmt& s) {
    const For* n = As<For>(s);
    has_blocks |= n != nullptr && IsBlockAxis(n->kind);
    has_calls |= As<Call>(s) != nullptr;
    const Alloc* a = As<Alloc>(s);
    has_memory |= a != nullptr && a->buffer->scope == Scope::kGlobal;
    return true;
  });
  if (!has_calls) {
    NameSupply names(f);
    auto in_block = [&](const Stmt& s) {
      return MakeStmt(For{f.context->Var(names.Fresh("block")), f.context->Int(1), ForKind::kBlockX, s});
    };
    const Seq* seq = As<Seq>(f.body);
    if (seq == nullptr || (!has_blocks && !has_memory)) {
      if (!has_blocks) f.body = in_block(f.body);
    } else {
      std::vector<Stmt> stmts = seq->stmts;
      for (Stmt& s : stmts) {
        bool stores = false, bound = false;
        VisitStmts(s, [&](const Stmt& x) {
          const For* n = As<For>(x);
          stores |= As<Store>(x) != nullptr;
          bound |= n != nullptr && IsBlockAxis(n->kind);
          return true;
        });
        if (stores && !bound) s = in_block(s);
      }
      f.body = MakeSeq(std::move(stmts));
    }
  }
  // In each kernel, what is in no loop on one of its axes.
  NameSupply names(f);
  std::set<ForKind> missing;  // axes whose threads all come here
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) -> Stmt {
    const For* n = As<For>(s);
    if (n != nullptr && missing.contains(n->kind)) {
      missing.erase(n->kind);
      const Stmt r = MakeStmt(For{n->var, n->extent, n->kind, go(n->body)});
      missing.insert(n->kind);
      return r;
    }
    const Store* store = As<Store>(s);
    if (store != nullptr && store->buffer->scope != Scope::kLocal) {
      Stmt r = s;
      for (ForKind axis : missing) {
        // Each block has shared memory of its own.
        if (IsBlockAxis(axis) && store->buffer->scope != Scope::kGlobal) continue;
        r = MakeStmt(For{f.context->Var(names.Fresh("one")), f.context->Int(1), axis, r});
      }
      return r;
    }
    return MapChildren(s, [](Expr e) { return e; }, go);
  };
  f.body = RewriteStmts(f.body, [&](const Stmt& s) -> Stmt {
    const For* n = As<For>(s);
    if (n == nullptr || (!IsBlockAxis(n->kind) && !IsThreadAxis(n->kind))) return nullptr;
    missing.clear();
    VisitStmts(s, [&](const Stmt& x) {
      const For* m = As<For>(x);
      if (m != nullptr && (IsBlockAxis(m->kind) || IsThreadAxis(m->kind))) missing.insert(m->kind);
      return true;
    });
    return go(s);
  });
  return f;
}

}  // namespace cinn_like::ir
