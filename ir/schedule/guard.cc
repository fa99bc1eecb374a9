#include <algorithm>

#include "ir/join.h"
#include "ir/schedule/legality.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"
#include "ir/te.h"

namespace cinn_like::ir {

StatusOr<Func> Guard(Func f, const std::string& block, const std::string& loop) {
  Context& c = *f.context;
  ASSIGN_OR_RETURN(const StmtPath path, FindBlock(f, block));
  Block b = *As<Block>(path.back());
  const std::vector<const For*> loops = LoopsOf(path);
  const auto from = std::find_if(loops.begin(), loops.end(), [&](const For* n) { return n->var->name == loop; });
  if (from == loops.end()) return InvalidArgument("guard ", block, ": it is not inside loop ", loop);
  const bool reduces =
      std::any_of(b.iters.begin(), b.iters.end(), [](const BlockIter& i) { return i.kind == IterKind::kReduce; });
  if (!reduces || b.init != nullptr)
    return InvalidArgument("guard ", block, ": expected a reduction whose start is elsewhere (split_init)");
  const std::optional<Stores> stores = StoresOf(c, b.body);
  const std::optional<Join> join = stores ? FindJoin(c, stores->values, stores->Running(c)) : std::nullopt;
  if (!join) return InvalidArgument("guard ", block, ": it does not join elements by an operator that takes any order");

  const VarMap bindings = Bindings(b);
  const auto moves = [&](Expr condition) {
    bool reads = false;
    Visit(condition, [&](Expr e) { return !(reads |= e->op == ExprOp::kLoad); });
    const Expr bound = Substitute(c, condition, bindings);
    return reads || std::any_of(from, loops.end(), [&](const For* n) { return Uses(bound, n->var); });
  };
  // Those of every element.
  std::vector<Expr> conditions;
  for (size_t k = 0; k < join->elements.size(); ++k) {
    const Expr neutral = NeutralOf(c, join->values[k]->op, join->values[k]->type.dtype);
    std::vector<Expr> own = neutral == nullptr ? std::vector<Expr>() : ConditionsOf(join->elements[k], neutral);
    std::erase_if(own, [&](Expr e) {
      return moves(e) || (k > 0 && std::find(conditions.begin(), conditions.end(), e) == conditions.end());
    });
    conditions = std::move(own);
  }
  if (conditions.empty())
    return InvalidArgument("guard ", block, ": no condition under which it changes something stays the same in loop ",
                           loop);
  for (Expr e : conditions) {
    const Expr bound = Substitute(c, e, bindings);
    b.predicate = b.predicate == nullptr ? bound : c.And(b.predicate, bound);
  }
  Analyzer a(c);
  BindFacts(a, f, loops);
  Expr all = c.Bool(true);
  for (Expr e : conditions) all = c.And(all, e);
  const Analyzer::Assume assume(a, all);
  Rewriter* self = nullptr;
  Rewriter rewrite(c, [&](Expr e) -> Expr {
    if (std::find(conditions.begin(), conditions.end(), e) != conditions.end()) return c.Bool(true);
    if (e->op == ExprOp::kLoad && e->has_mask) {
      std::vector<Expr> indices;
      for (Expr i : IndicesOf(e)) indices.push_back((*self)(i));
      const Expr mask = a.Simplify((*self)(MaskOf(e)));
      return c.Load(e->buffer, std::move(indices), IsTrue(mask) ? nullptr : mask);
    }
    // Places that are no longer kept inside.
    if (e->op == ExprOp::kMin && IsInt(e->type.dtype)) {
      for (size_t k = 0; k < 2; ++k) {
        if (IsTrue(a.Simplify(c.Le(e->args[k], e->args[1 - k])))) return (*self)(e->args[k]);
      }
    }
    if (e->op == ExprOp::kSelect) {
      const Expr asked = a.Simplify((*self)(e->args[0]));
      return IsTrue(asked) ? (*self)(e->args[1]) : c.Select(asked, (*self)(e->args[1]), (*self)(e->args[2]));
    }
    return nullptr;
  });
  self = &rewrite;
  b.body = RewriteExprs(c, b.body, rewrite);
  const Stmt changed = MakeStmt(std::move(b));
  f.body = Replace(f.body, path.back(), changed);
  return SimplifyBindings(std::move(f), changed);
}

}  // namespace cinn_like::ir
