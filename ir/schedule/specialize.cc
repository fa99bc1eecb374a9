// specialize: a nest twice, under a condition and under its opposite.
#include <algorithm>

#include "ir/clone.h"
#include "ir/join.h"
#include "ir/schedule/primitives.h"
#include "ir/schedule/tree.h"

namespace cinn_like::ir {
namespace {

// Whether code may ask it wherever the nest stands: a number of variables alone, which no value of theirs makes trap.
Status CheckCondition(Analyzer& a, Expr cond) {
  Context& c = a.context();
  if (cond->type != kBoolType) return InvalidArgument("the condition ", Print(cond), " is ", Print(cond->type));
  Status status;
  Visit(cond, [&](Expr e) {
    if (e->op == ExprOp::kLoad || e->op == ExprOp::kAddress)
      status.Update(InvalidArgument("the condition reads memory: ", Print(e)));
    if (e->op == ExprOp::kShuffleXor || e->op == ExprOp::kShl || e->op == ExprOp::kShr || e->type.lanes != 1)
      status.Update(InvalidArgument("the condition is no arithmetic of numbers: ", Print(e)));
    const bool divides =
        e->op == ExprOp::kDiv || e->op == ExprOp::kMod || e->op == ExprOp::kTruncDiv || e->op == ExprOp::kTruncMod;
    if (divides && !IsFloat(e->type.dtype) && !a.CanProve(c.Lt(c.Int(0, e->args[1]->type.dtype), e->args[1])))
      status.Update(InvalidArgument("the condition divides by ", Print(e->args[1]), ", which may not be above 0"));
    return status.ok();
  });
  return status;
}

// Every expression of the nest in the simplest form that it has where `a` knows what it does; loops and blocks stay.
Stmt SimplifyAll(Analyzer& a, const Stmt& s) {
  Context& c = a.context();
  const auto walk = [&](const Stmt& x) { return SimplifyAll(a, x); };
  if (const If* n = As<If>(s)) {
    If r{a.Simplify(n->cond), nullptr, nullptr};
    {
      const Analyzer::Assume holds(a, n->cond);
      r.then = walk(n->then);
    }
    const Analyzer::Assume fails(a, c.Not(n->cond));
    if (n->otherwise != nullptr) r.otherwise = walk(n->otherwise);
    return MakeStmt(std::move(r));
  }
  if (const For* n = As<For>(s)) a.BindRange(n->var, c.Int(0, n->var->type.dtype), a.Simplify(n->extent));
  if (const Block* n = As<Block>(s)) {
    // Not what their extents say: a padded block runs beyond them.
    for (const BlockIter& i : n->iters) a.BindRange(i.var, a.Simplify(i.binding), c.Int(1));
  }
  const Stmt r = MapChildren(s, [&](Expr e) { return a.Simplify(e); }, walk);
  // What does not run there may have an extent below 0.
  const auto at_least_0 = [&](Expr extent) {
    return IsInt(extent) && extent->int_value < 0 ? c.Int(0, extent->type.dtype) : extent;
  };
  if (const For* n = As<For>(r); n != nullptr && at_least_0(n->extent) != n->extent)
    return MakeStmt(For{n->var, at_least_0(n->extent), n->kind, n->body});
  const Block* n = As<Block>(r);
  if (n == nullptr) return r;
  Block plain = *n;
  for (BlockIter& i : plain.iters) i.extent = at_least_0(i.extent);
  if (n->predicate != nullptr && IsTrue(n->predicate)) plain.predicate = nullptr;
  return MakeStmt(std::move(plain));
}

}  // namespace

StatusOr<Func> Specialize(Func f, const std::string& target, const std::string& condition, const std::string& name) {
  auto refuse = [&](const auto&... why) { return InvalidArgument("specialize ", target, ": ", why...); };
  StatusOr<StmtPath> found = FindLoop(f, target);
  if (absl::IsInvalidArgument(found.status()) && FindBlock(f, target).ok()) found = FindBlock(f, target);
  ASSIGN_OR_RETURN(const StmtPath path, std::move(found));
  const Stmt general = path.back();
  Context& c = *f.context;
  // The condition may speak of the loops around, too.
  Func spoken = f;
  for (size_t k = 0; k + 1 < path.size(); ++k) {
    if (const For* n = As<For>(path[k])) spoken.params.push_back({.var = n->var});
  }
  StatusOr<Expr> parsed = ParseExprOf(spoken, condition);
  if (!parsed.ok()) return refuse("the condition is not one of symbols and loops around: ", Message(parsed.status()));
  const Expr cond = *parsed;
  Analyzer a(c);
  BindFactsOf(a, f, path);
  RETURN_IF_ERROR(Annotate(CheckCondition(a, cond), Cat("specialize ", target)));
  if (const Expr known = a.Simplify(cond); IsInt(known))
    return refuse("the condition ", Print(cond), IsTrue(known) ? " always holds" : " never holds");
  // What starts a reduction must not depend on how far it is.
  Status status;
  VisitStmts(general, [&](const Stmt& s) {
    const Block* b = As<Block>(s);
    if (b == nullptr || b->init == nullptr) return true;
    for (Expr v : VarsOf(cond)) {
      for (const BlockIter& i : b->iters) {
        if (i.kind == IterKind::kReduce && Uses(i.binding, v))
          status = refuse("loop ", v->name, " carries the reduction of block ", b->name,
                          ", whose start is to be split off first (split_init)");
      }
    }
    return true;
  });
  RETURN_IF_ERROR(status);

  NameSupply names(f);
  const BufferMap own = CopiesOfPrivate(f, general, names);  // both have some
  Stmt special = ReplaceBuffers(c, CloneFresh(c, general, names, {}, Cat("_", name)), own);
  for (Expr e : ConjunctsOf(cond)) {
    if (e->op == ExprOp::kEq && e->args[0]->op == ExprOp::kVar && IsInt(e->args[1]))
      special = Substitute(c, special, {{e->args[0], e->args[1]}});
  }
  a.Require(cond);
  special = SimplifyAll(a, special);
  f.body = Replace(f.body, general, MakeStmt(If{cond, special, general}));
  f.body = DeclareCopies(f.body, own);
  return f;
}

}  // namespace cinn_like::ir
