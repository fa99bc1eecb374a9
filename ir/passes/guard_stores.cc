#include "ir/passes/guard_stores.h"

#include <set>

namespace cinn_like::ir {
namespace {

// All threads of a warp come to a shuffle.
bool Shuffles(Expr e) {
  bool found = false;
  Visit(e, [&](Expr x) {
    found |= x->op == ExprOp::kShuffleXor;
    return !found;
  });
  return found;
}

// Where what begins with stmts[k] ends: a value goes with its uses.
size_t EndOfUses(const std::vector<Stmt>& stmts, size_t k) {
  size_t end = k + 1;
  for (size_t j = k; j < end; ++j) {
    const Let* let = As<Let>(stmts[j]);
    for (size_t i = stmts.size(); let != nullptr && i-- > end;) {
      bool uses = false;
      ForEachExpr(stmts[i], [&](Expr e) { uses |= Uses(e, let->var); });
      if (uses) end = i + 1;
    }
  }
  return end;
}

}  // namespace

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
  // Those of which one thread is to run all of `s`.
  std::function<std::set<ForKind>(const Stmt&)> guarded = [&](const Stmt& s) -> std::set<ForKind> {
    if (As<Alloc>(s) != nullptr || As<Barrier>(s) != nullptr || As<Call>(s) != nullptr) return {};
    if (const Let* n = As<Let>(s); n != nullptr && Shuffles(n->value)) return {};
    std::set<ForKind> r = missing;
    if (const For* n = As<For>(s)) r.erase(n->kind);
    if (const Store* n = As<Store>(s)) {
      // Each block has shared memory of its own.
      std::erase_if(r, [&](ForKind axis) {
        return n->buffer->scope == Scope::kLocal || (IsBlockAxis(axis) && n->buffer->scope != Scope::kGlobal);
      });
    }
    ForEachChild(s, [&](const Stmt& x) {
      const std::set<ForKind> own = guarded(x);
      std::erase_if(r, [&](ForKind axis) { return !own.contains(axis); });
    });
    return r;
  };
  std::function<Stmt(const Stmt&)> go;
  const auto guard = [&](const Stmt& s) {
    const std::set<ForKind> axes = guarded(s), before = missing;
    std::erase_if(missing, [&](ForKind axis) { return axes.contains(axis); });
    Stmt r = go(s);
    missing = before;
    for (ForKind axis : axes) r = MakeStmt(For{f.context->Var(names.Fresh("one")), f.context->Int(1), axis, r});
    return r;
  };
  go = [&](const Stmt& s) -> Stmt {
    const For* n = As<For>(s);
    if (n != nullptr && missing.contains(n->kind)) {
      missing.erase(n->kind);
      const Stmt r = MakeStmt(For{n->var, n->extent, n->kind, go(n->body)});
      missing.insert(n->kind);
      return r;
    }
    // What asks again for what it stores is one thread's as a whole, and so is what it asks a copy engine for.
    const bool is_whole =
        As<Store>(s) != nullptr || As<While>(s) != nullptr || (n != nullptr && n->kind == ForKind::kTensorCopy);
    if (is_whole && !guarded(s).empty()) return guard(s);
    if (const Seq* q = As<Seq>(s)) {
      // Values and the stores of them go together: what the first thread stores, others would read.
      std::vector<Stmt> out;
      for (size_t k = 0; k < q->stmts.size();) {
        const size_t end = EndOfUses(q->stmts, k);
        const auto at = q->stmts.begin() + static_cast<ptrdiff_t>(k);
        const Stmt run = MakeSeq({at, at + static_cast<ptrdiff_t>(end - k)});
        const bool together = end > k + 1 && !guarded(run).empty();
        out.push_back(together ? guard(run) : go(*at));
        k = together ? end : k + 1;
      }
      return MakeSeq(std::move(out));
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
