#include "ir/passes/keep_wide.h"

namespace cinn_like::ir {
namespace {

// A 16-bit value that was f32 a moment ago.
bool IsRounded(Expr e) {
  return e->op == ExprOp::kCast && IsHalf(e->type.dtype) && e->args[0]->type.dtype == DType::kF32;
}

class Widener {
 public:
  explicit Widener(const Func& f) : c_(*f.context) {
    absl::flat_hash_set<Buffer> computed, pinned;
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const Store* n = As<Store>(s); n != nullptr && IsComputed(n->value)) computed.insert(n->buffer);
      // Instructions read what is as narrow as it says.
      if (const For* n = As<For>(s); n != nullptr && (DotSize(n->kind) > 0 || n->kind == ForKind::kTranspose)) {
        ForEachExpr(n->body, [&](Expr root) { VisitLoads(root, [&](Expr e) { pinned.insert(e->buffer); }); });
      }
      return true;
    });
    if (computed.empty()) return;
    ForEachExpr(f.body, [&](Expr root) {
      Visit(root, [&](Expr e) {
        if (e->op == ExprOp::kAddress) pinned.insert(e->buffer);
        return true;
      });
    });
    for (Buffer b : computed) {
      if (b->scope != Scope::kLocal || !IsHalf(b->dtype) || pinned.contains(b)) continue;
      BufferNode wide = *b;
      wide.dtype = DType::kF32;
      wide.alignment *= 2;
      wide_[b] = c_.MakeBuffer(std::move(wide));
    }
  }

  Stmt Walk(const Stmt& s) {
    auto expr = [&](Expr e) { return Rewrite(e); };
    auto walk = [&](const Stmt& x) { return Walk(x); };
    if (const Let* n = As<Let>(s); n != nullptr && IsHalf(n->var->type.dtype)) {
      const Expr value = Rewrite(n->value);
      if (IsRounded(value)) {
        const Expr var = c_.Var(n->var->name, value->args[0]->type);
        memo_[n->var] = c_.Cast(n->var->type.dtype, var);
        return MakeStmt(Let{var, value->args[0]});
      }
    }
    if (const Alloc* n = As<Alloc>(s); n != nullptr && wide_.contains(n->buffer))
      return MakeStmt(Alloc{wide_[n->buffer]});
    Stmt r = MapChildren(s, expr, walk);
    if (const Store* n = As<Store>(r); n != nullptr && wide_.contains(n->buffer)) {
      return MakeStmt(Store{wide_[n->buffer], n->indices, c_.Cast(DType::kF32, Narrowed(n->value)), n->mask});
    }
    return r;
  }

 private:
  // More than a copy: copies stay as small as what they are copied from.
  static bool IsComputed(Expr value) {
    bool r = false;
    Visit(value, [&](Expr e) {
      r |= IsRounded(e);
      return e->op != ExprOp::kLoad;
    });
    return r;
  }

  // The value under its rounding, if it has one.
  static Expr Narrowed(Expr e) { return IsRounded(e) ? e->args[0] : e; }
  Expr Wide(Expr e) { return IsRounded(e) ? e->args[0] : c_.Cast(DType::kF32, e); }

  Expr Rewrite(Expr e) {
    if (auto it = memo_.find(e); it != memo_.end()) return it->second;
    std::vector<Expr> args;
    for (Expr a : e->args) args.push_back(Rewrite(a));
    return memo_[e] = Widen(e, args);
  }

  Expr Widen(Expr e, const std::vector<Expr>& args) {
    const DType t = e->type.dtype;
    if (e->op == ExprOp::kLoad && wide_.contains(e->buffer)) {
      std::vector<Expr> indices = args;
      Expr mask = nullptr;
      if (e->has_mask) {
        mask = indices.back();
        indices.pop_back();
      }
      return c_.Cast(t, c_.Load(wide_[e->buffer], std::move(indices), mask));
    }
    if (e->op == ExprOp::kCast && IsFloat(t)) return c_.Cast(t, Narrowed(args[0]));
    if (e->op == ExprOp::kBroadcast && IsRounded(args[0]))
      return c_.Cast(t, c_.Broadcast(Wide(args[0]), e->type.lanes));
    if (e->op == ExprOp::kSelect && (IsRounded(args[1]) || IsRounded(args[2]))) {
      return c_.Cast(t, c_.Make(e->op, {args[0], Wide(args[1]), Wide(args[2])}));
    }
    return args.empty() ? e : c_.WithArgs(e, args);
  }

  Context& c_;
  BufferMap wide_;
  absl::flat_hash_map<Expr, Expr> memo_;
};

}  // namespace

StatusOr<Func> KeepWide(Func f) {
  f.body = Widener(f).Walk(f.body);
  return f;
}

}  // namespace cinn_like::ir
