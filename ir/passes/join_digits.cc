#include "ir/passes/join_digits.h"

#include <algorithm>

#include "ir/analyzer.h"
#include "ir/linear.h"

namespace cinn_like::ir {
namespace {

class Joiner {
 public:
  explicit Joiner(const Func& f) : c_(*f.context), a_(f) {
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const For* n = As<For>(s)) a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), n->extent);
      return true;
    });
  }

  // Where others need the digits as well, one that is joined is one more.
  Stmt Run(const Stmt& s) {
    const size_t apart = NumQuotients(s);
    if (apart < 2) return s;
    const Stmt r = RewriteExprs(c_, s, [&](Expr e) -> Expr {
      return e->type == kIndexType && e->op == ExprOp::kAdd && !e->reads && !e->checks ? Join(e) : nullptr;
    });
    if (r != s && NumQuotients(r) < apart) return r;
    return MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return Run(x); });
  }

 private:
  using Quotients = absl::flat_hash_set<std::pair<Expr, Expr>>;

  bool IsBySize(Expr e) {
    return (e->op == ExprOp::kTruncDiv || e->op == ExprOp::kTruncMod) && e->type == kIndexType && !IsInt(e->args[1]) &&
           a_.ConstBounds(e->args[1]).lo >= 1;
  }

  // A remainder is what its quotient leaves.
  Quotients QuotientsOf(Expr root) {
    Quotients r;
    Add(r, root);
    return r;
  }
  void Add(Quotients& to, Expr root) {
    Visit(root, [&](Expr e) {
      if (IsBySize(e)) to.emplace(e->args[0], e->args[1]);
      return true;
    });
  }
  size_t NumQuotients(const Stmt& s) {
    Quotients r;
    ForEachExpr(s, [&](Expr e) { Add(r, e); });
    return r.size();
  }

  // Null: it has no fewer quotients, or wider ones.
  Expr Join(Expr e) {
    const Quotients apart = QuotientsOf(e);
    if (apart.size() < 2) return nullptr;
    absl::flat_hash_map<Expr, Expr> memo;
    const Linear sum = ToLinear(c_, TakeApart(e, memo));
    if (!sum.exact) return nullptr;
    const Expr r = FromLinear(c_, sum, e->type.dtype);
    const Quotients joined = QuotientsOf(r);
    const bool widens = (IsNarrow(e) && !IsNarrow(r)) || (AreNarrow(apart) && !AreNarrow(joined));
    return joined.size() < apart.size() && !widens ? r : nullptr;
  }

  // tmod(x, n)  ->  x - tdiv(x, n) * n
  // tdiv(tdiv(x, n), m)  ->  tdiv(x, n * m)
  Expr TakeApart(Expr e, absl::flat_hash_map<Expr, Expr>& memo) {
    if (auto it = memo.find(e); it != memo.end()) return it->second;
    Expr r = MapChildren(c_, e, [&](Expr x) { return TakeApart(x, memo); });
    if (IsBySize(e)) {
      const Expr x = r->args[0], n = r->args[1];
      r = c_.Make(ExprOp::kTruncDiv, {x, n});
      if (IsBySize(x) && x->op == ExprOp::kTruncDiv) {
        const Linear both = Multiply(c_, ToLinear(c_, x->args[1]), ToLinear(c_, n), DType::kI64);
        if (both.exact) r = c_.Make(ExprOp::kTruncDiv, {x->args[0], FromLinear(c_, both, DType::kI64)});
      }
      if (e->op == ExprOp::kTruncMod) r = c_.Sub(x, c_.Mul(r, n));
    }
    return memo[e] = r;
  }

  bool IsNarrow(Expr e) {
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    const Analyzer::Bounds b = a_.ConstBounds(e);
    return b.lo >= -kMost && b.hi <= kMost;
  }
  bool AreNarrow(const Quotients& all) {
    return std::all_of(all.begin(), all.end(), [&](const auto& q) { return IsNarrow(q.first) && IsNarrow(q.second); });
  }

  Context& c_;
  Analyzer a_;
};

}  // namespace

StatusOr<Func> JoinDigits(Func f) {
  f.body = Joiner(f).Run(f.body);
  return f;
}

}  // namespace cinn_like::ir
