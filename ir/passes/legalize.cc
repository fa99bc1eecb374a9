#include "ir/passes/legalize.h"

#include "ir/analyzer.h"

namespace cinn_like::ir {
namespace {

class Legalizer {
 public:
  explicit Legalizer(const Func& f) : c_(*f.context), a_(f) {}

  const BufferMap& resized() const { return resized_; }

  Stmt Walk(const Stmt& s) {
    // Facts differ from statement to statement, and so may what a division needs.
    absl::flat_hash_map<Expr, Expr> memo;
    auto expr = [&](Expr e) { return Rewrite(e, memo); };
    if (const For* n = As<For>(s)) a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), n->extent);
    if (const If* n = As<If>(s)) {
      If r{expr(n->cond), nullptr, nullptr};
      {
        Analyzer::Assume assume(a_, n->cond);
        r.then = Walk(n->then);
      }
      if (n->otherwise != nullptr) r.otherwise = Walk(n->otherwise);
      return MakeStmt(std::move(r));
    }
    if (const Alloc* n = As<Alloc>(s)) {
      // The size is computed where the memory is taken.
      BufferNode b = *n->buffer;
      for (Expr& e : b.shape) e = expr(e);
      if (b.shape != n->buffer->shape) resized_[n->buffer] = c_.MakeBuffer(std::move(b));
    }
    Stmt r = MapChildren(s, expr, [&](const Stmt& x) { return Walk(x); });
    if (const Let* n = As<Let>(s); n != nullptr && IsInt(n->var->type.dtype) && n->var->type.lanes == 1) {
      a_.BindRange(n->var, n->value, c_.Int(1, n->var->type.dtype));
    }
    return r;
  }

 private:
  Expr Rewrite(Expr e, absl::flat_hash_map<Expr, Expr>& memo) {
    auto it = memo.find(e);
    if (it != memo.end()) return it->second;
    std::vector<Expr> args;
    for (Expr a : e->args) args.push_back(Rewrite(a, memo));
    Expr r = Lower(e, args);
    memo.emplace(e, r);
    return r;
  }

  Expr Lower(Expr e, const std::vector<Expr>& args) {
    if (args.empty()) return e;
    const DType t = e->args[0]->type.dtype;
    const bool divides = e->op == ExprOp::kDiv || e->op == ExprOp::kMod;
    if (divides && !IsFloat(t)) return Divide(e, args[0], args[1]);
    const bool has_half = IsHalf(t) || IsHalf(e->type.dtype);
    if (!has_half || RowOf(e->op) == nullptr || e->op == ExprOp::kSelect) return c_.WithArgs(e, args);
    if (e->op == ExprOp::kShuffleXor || e->op == ExprOp::kLaneShift)
      return c_.Cast(t, c_.Make(e->op, {c_.Cast(DType::kF32, args[0]), args[1]}));
    std::vector<Expr> wide;
    for (Expr a : args) wide.push_back(IsHalf(a->type.dtype) ? c_.Cast(DType::kF32, a) : a);
    Expr r = c_.Make(e->op, std::move(wide));
    return r->type.dtype == DType::kF32 ? c_.Cast(e->type.dtype, r) : r;
  }

  Expr Divide(Expr e, Expr a, Expr b) {
    const bool is_mod = e->op == ExprOp::kMod;
    const DType t = e->type.dtype;
    Expr truncated = c_.Make(is_mod ? ExprOp::kTruncMod : ExprOp::kTruncDiv, {a, b});
    const auto x = a_.ConstBounds(e->args[0]), y = a_.ConstBounds(e->args[1]);
    if (!IsSigned(t) || (x.lo >= 0 && y.lo > 0)) return truncated;
    auto zero = [&](Expr like) { return c_.Broadcast(c_.Int(0, t), like->type.lanes); };
    Expr rest = is_mod ? truncated : c_.Make(ExprOp::kTruncMod, {a, b});
    // The remainder is on the wrong side of 0.
    Expr off = y.lo > 0 ? c_.Make(ExprOp::kLt, {rest, zero(rest)})
                        : c_.Make(ExprOp::kAnd, {c_.Make(ExprOp::kNe, {rest, zero(rest)}),
                                                 c_.Make(ExprOp::kNe, {c_.Make(ExprOp::kLt, {rest, zero(rest)}),
                                                                       c_.Make(ExprOp::kLt, {b, zero(b)})})});
    if (is_mod) return c_.Make(ExprOp::kSelect, {off, c_.Make(ExprOp::kAdd, {rest, b}), rest});
    return c_.Make(ExprOp::kSub, {truncated, c_.Cast(t, off)});
  }

  Context& c_;
  Analyzer a_;
  BufferMap resized_;
};

}  // namespace

StatusOr<Func> Legalize(Func f) {
  Legalizer legalizer(f);
  f.body = legalizer.Walk(f.body);
  if (!legalizer.resized().empty()) f.body = ReplaceBuffers(*f.context, f.body, legalizer.resized());
  return f;
}

}  // namespace cinn_like::ir
