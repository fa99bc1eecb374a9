#include "ir/passes/guard_stores.h"

namespace cinn_like::ir {

StatusOr<Func> GuardStores(Func f) {
  bool has_blocks = false, has_threads = false, has_calls = false, has_memory = false;
  VisitStmts(f.body, [&](const Stmt& s) {
    const For* n = As<For>(s);
    has_blocks |= n != nullptr && IsBlockAxis(n->kind);
    has_threads |= n != nullptr && n->kind == ForKind::kThreadX;
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
  if (!has_threads) return f;
  NameSupply names(f);
  std::function<Stmt(const Stmt&)> go = [&](const Stmt& s) -> Stmt {
    const For* n = As<For>(s);
    if (n != nullptr && n->kind == ForKind::kThreadX) return s;
    const Store* store = As<Store>(s);
    if (store != nullptr && store->buffer->scope != Scope::kLocal) {
      return MakeStmt(For{f.context->Var(names.Fresh("one")), f.context->Int(1), ForKind::kThreadX, s});
    }
    return MapChildren(s, [](Expr e) { return e; }, go);
  };
  f.body = go(f.body);
  return f;
}

}  // namespace cinn_like::ir
