#include "ir/passes/narrow_index.h"

#include "ir/analyzer.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

constexpr int64_t kMax = (int64_t{1} << 31) - 1;

bool FitsIn32Bits(Analyzer& a, Expr e) {
  const Analyzer::Bounds b = a.ConstBounds(e);
  return b.lo >= -kMax && b.hi <= kMax;
}

class Narrower {
 public:
  explicit Narrower(const Func& f) : c_(*f.context), analyzer_(f) {}

  Stmt Run(const Stmt& s) {
    if (const Store* n = As<Store>(s)) {
      Store r{n->buffer, {}, NarrowWithin(n->value), n->mask == nullptr ? nullptr : NarrowWithin(n->mask)};
      for (Expr e : n->indices) r.indices.push_back(Index(e));
      return MakeStmt(std::move(r));
    }
    const For* n = As<For>(s);
    if (n == nullptr) {
      return MapChildren(s, [&](Expr e) { return NarrowWithin(e); }, [&](const Stmt& x) { return Run(x); });
    }
    analyzer_.BindRange(n->var, c_.Int(0), n->extent);
    const bool fits = n->var->type == kIndexType && Fits(n->extent);
    if (!fits) return MakeStmt(For{n->var, NarrowWithin(n->extent), n->kind, Run(n->body)});
    const Expr narrow = c_.Var(n->var->name, {DType::kI32, 1});
    narrow_[n->var] = narrow;
    Stmt body = Run(n->body);
    return MakeStmt(For{narrow, To32(n->extent), n->kind, std::move(body)});
  }

 private:
  bool Fits(Expr e) { return FitsIn32Bits(analyzer_, e); }

  // An i64 expression fits in 32 bits: as plain arithmetic on what fits, or as a scalar that is computed wide.
  bool CanNarrow(Expr e) {
    const bool is_scalar = e->type == kIndexType && e->op != ExprOp::kInt && e->op != ExprOp::kVar;
    return IsNarrow(e) || (is_scalar && Fits(e));
  }

  bool IsNarrow(Expr e) {
    auto it = can_.find(e);
    if (it != can_.end()) return it->second;
    bool ok = e->type.dtype == DType::kI64;
    switch (e->op) {
      case ExprOp::kInt:
        ok = ok && e->int_value >= -kMax && e->int_value <= kMax;
        break;
      case ExprOp::kVar:
        ok = ok && (narrow_.contains(e) || Fits(e));
        break;
      case ExprOp::kAdd:
      case ExprOp::kSub:
      case ExprOp::kMul:
      case ExprOp::kTruncDiv:
      case ExprOp::kTruncMod:
      case ExprOp::kMin:
      case ExprOp::kMax:
        ok = ok && e->type.lanes == 1 && Fits(e) && CanNarrow(e->args[0]) && CanNarrow(e->args[1]);
        break;
      case ExprOp::kRamp:
        ok = ok && CanNarrow(e->args[0]) && CanNarrow(e->args[1]) &&
             Fits(c_.Add(e->args[0], c_.Mul(e->args[1], c_.Int(e->type.lanes))));
        break;
      case ExprOp::kBroadcast:
        ok = ok && CanNarrow(e->args[0]);
        break;
      default:
        ok = false;
    }
    return can_[e] = ok;
  }

  Expr To32(Expr e) {
    if (e->op == ExprOp::kInt) return c_.Int(e->int_value, DType::kI32);
    if (e->op == ExprOp::kVar) {
      auto it = narrow_.find(e);
      return it != narrow_.end() ? it->second : c_.Cast(DType::kI32, e);
    }
    if (!IsNarrow(e)) return c_.Cast(DType::kI32, NarrowWithin(e));
    return MapChildren(c_, e, [&](Expr x) { return To32(x); });
  }

  // `e` with its largest narrowable i64 parts in 32 bits: indices and comparisons stay narrow, other uses are widened.
  Expr NarrowWithin(Expr e) {
    auto it = memo_.find(e);
    if (it != memo_.end()) return it->second;
    Expr r = nullptr;
    if (e->type.dtype == DType::kI64 && e->op != ExprOp::kInt && IsNarrow(e)) {
      r = c_.Cast(DType::kI64, To32(e));
    } else if (e->op == ExprOp::kLoad || e->op == ExprOp::kAddress) {
      std::vector<Expr> args;
      for (Expr a : e->args) args.push_back(Index(a));
      r = c_.WithArgs(e, std::move(args));
    } else if (RowOf(e->op) != nullptr && RowOf(e->op)->result == OpRow::kBool && e->args.size() == 2 &&
               CanNarrow(e->args[0]) && CanNarrow(e->args[1])) {
      r = c_.Make(e->op, {To32(e->args[0]), To32(e->args[1])});
    } else if (e->op == ExprOp::kCast && CanNarrow(e->args[0]) && e->args[0]->op != ExprOp::kInt) {
      r = c_.Cast(e->type.dtype, To32(e->args[0]));
    } else {
      r = MapChildren(c_, e, [&](Expr x) { return NarrowWithin(x); });
    }
    memo_[e] = r;
    return r;
  }

  Expr Index(Expr e) { return e->type.dtype == DType::kI64 && CanNarrow(e) ? To32(e) : NarrowWithin(e); }

  Context& c_;
  Analyzer analyzer_;
  absl::flat_hash_map<Expr, Expr> narrow_;  // i64 loop variable -> i32
  absl::flat_hash_map<Expr, bool> can_;
  absl::flat_hash_map<Expr, Expr> memo_;
};

// Comparisons of lanes that fit in 32 bits.
class LanesNarrower {
 public:
  explicit LanesNarrower(const Func& f) : c_(*f.context), analyzer_(f) {}

  Stmt Run(const Stmt& s) {
    if (const For* n = As<For>(s)) analyzer_.BindRange(n->var, c_.Int(0), n->extent);
    return MapChildren(s, [&](Expr e) { return Narrow(e); }, [&](const Stmt& x) { return Run(x); });
  }

 private:
  bool Fits(Expr e) { return FitsIn32Bits(analyzer_, e); }
  bool CanNarrow(Expr e) {
    return e->type.dtype == DType::kI64 && Fits(e) &&
           (e->op == ExprOp::kBroadcast || (e->op == ExprOp::kRamp && Fits(e->args[0]) && Fits(e->args[1])));
  }
  Expr Narrow(Expr e) {
    return Rewriter(c_, [&](Expr x) -> Expr {
      const bool compares = RowOf(x->op) != nullptr && RowOf(x->op)->result == OpRow::kBool && x->args.size() == 2;
      if (!compares || x->type.lanes < 2) return nullptr;
      if (!CanNarrow(x->args[0]) || !CanNarrow(x->args[1])) return x->op == ExprOp::kLt ? FromFirst(x) : nullptr;
      const auto narrow = [&](Expr side) {
        return MapChildren(c_, side, [&](Expr part) { return c_.Cast(DType::kI32, part); });
      };
      return c_.Make(x->op, {narrow(x->args[0]), narrow(x->args[1])});
    })(e);
  }

  // From the first lane on, as far as lanes go. Null where that is no number that is known to be one.
  Expr FromFirst(Expr less) {
    const bool rises = less->args[0]->op == ExprOp::kRamp;
    Expr ramp = less->args[rises ? 0 : 1], end = less->args[rises ? 1 : 0];
    if (ramp->op != ExprOp::kRamp || end->op != ExprOp::kBroadcast || ramp->args[0]->type.dtype != DType::kI64)
      return nullptr;
    Expr first = ramp->args[0], step = ramp->args[1];
    constexpr int64_t kFar = int64_t{1} << 16;  // of 256 lanes
    if (!IsInt(step) || step->int_value <= 0 || step->int_value > kFar) return nullptr;
    for (Expr e : {first, end->args[0]}) {
      if (!analyzer_.ConstBounds(e).IsKnown()) return nullptr;
    }
    const int64_t last = step->int_value * (ramp->type.lanes - 1);
    Expr many = c_.Sub(end->args[0], first);
    many = c_.Min(c_.Max(many, c_.Int(rises ? 0 : -1)), c_.Int(rises ? last + 1 : last));
    const Expr lanes = c_.Ramp(c_.Int(0, DType::kI32), c_.Cast(DType::kI32, step), ramp->type.lanes);
    const Expr most = c_.Broadcast(c_.Cast(DType::kI32, many), ramp->type.lanes);
    return rises ? c_.Lt(lanes, most) : c_.Lt(most, lanes);
  }

  Context& c_;
  Analyzer analyzer_;
};

}  // namespace

StatusOr<Func> NarrowLanes(Func f) {
  LanesNarrower narrower(f);
  f.body = narrower.Run(f.body);
  return f;
}

StatusOr<Func> NarrowIndex(Func f) {
  Narrower narrower(f);
  f.body = narrower.Run(f.body);
  return f;
}

}  // namespace cinn_like::ir
