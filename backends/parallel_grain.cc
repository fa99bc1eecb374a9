#include "backends/parallel_grain.h"

#include <algorithm>

namespace cinn_like {
namespace {

using ir::Expr;
using ir::ExprOp;

// In quarters of a nanosecond, the cost of one vector or scalar instruction; a piece should take 4 us.
constexpr int64_t kPieceCost = 16000;
constexpr int64_t kLoopCost = 2;
constexpr int64_t kCallCost = 2000;
constexpr int64_t kUnknownExtent = 16;
constexpr int kVectorLanes = 16;

int64_t CostOfNode(Expr e) {
  int64_t cost = 1;
  if (ir::IsConst(e) || e->op == ExprOp::kVar || e->op == ExprOp::kRamp || e->op == ExprOp::kBroadcast) return 0;
  if (e->op == ExprOp::kLoad) {
    cost = 2;
  } else if (e->op >= ExprOp::kExp && e->op <= ExprOp::kPow) {
    cost = 20;
  } else if (e->op == ExprOp::kDiv || e->op == ExprOp::kTruncDiv || e->op == ExprOp::kTruncMod) {
    cost = 8;
  }
  return cost * std::max(1, e->type.lanes / kVectorLanes);
}

class Estimator {
 public:
  explicit Estimator(ir::Context& c) : c_(c) {}

  Expr Cost(const ir::Stmt& s) {
    if (const auto* loop = ir::As<ir::For>(s)) return CostOfLoop(*loop);
    int64_t own = ir::As<ir::Call>(s) != nullptr ? kCallCost : 1;
    if (const auto* let = ir::As<ir::Let>(s)) inner_.insert(let->var);
    Expr below = c_.Int(0);
    auto expr = [&](Expr e) {
      ir::Visit(e, [&](Expr x) {
        own += CostOfNode(x);
        return true;
      });
    };
    ir::ForEachChild(s, expr, [&](const ir::Stmt& child) { below = c_.Add(below, Cost(child)); });
    return c_.Add(below, c_.Int(own));
  }

 private:
  Expr CostOfLoop(const ir::For& loop) {
    inner_.insert(loop.var);
    bool known = !ir::Uses(loop.extent, inner_) && loop.extent->type == ir::kIndexType;
    ir::Visit(loop.extent, [&](Expr e) {
      known &= e->op != ExprOp::kLoad;
      return known;
    });
    return c_.Mul(known ? loop.extent : c_.Int(kUnknownExtent), c_.Add(Cost(loop.body), c_.Int(kLoopCost)));
  }

  ir::Context& c_;
  absl::flat_hash_set<Expr> inner_;
};

}  // namespace

Expr ParallelGrain(ir::Context& c, const ir::For& loop) {
  const Expr work =
      c.Max(Estimator(c).Cost(ir::MakeStmt(ir::For{loop.var, c.Int(1), ir::ForKind::kSerial, loop.body})), c.Int(1));
  const Expr one = c.Int(1);
  if (ir::IsInt(work)) return c.Int(std::max<int64_t>(kPieceCost / work->int_value, 1));
  return c.Max(c.Make(ExprOp::kTruncDiv, {c.Int(kPieceCost), work}), one);
}

}  // namespace cinn_like
