#include "ir/passes/guard_stores.h"

namespace cinn_like::ir {

StatusOr<Func> GuardStores(Func f) {
  bool has_blocks = false, has_threads = false, has_calls = false;
  VisitStmts(f.body, [&](const Stmt& s) {
    const For* n = As<For>(s);
    has_blocks |= n != nullptr && IsBlockAxis(n->kind);
    has_threads |= n != nullptr && n->kind == ForKind::kThreadX;
    has_calls |= As<Call>(s) != nullptr;
    return true;
  });
  if (!has_blocks && !has_calls) {
    f.body = MakeStmt(For{f.context->Var(NameSupply(f).Fresh("block")), f.context->Int(1), ForKind::kBlockX, f.body});
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
