#include "ir/passes/simplify.h"

#include "ir/analyzer.h"

namespace cinn_like::ir {
namespace {

bool IsEmpty(const Stmt& s) { return s == nullptr || (As<Seq>(s) != nullptr && As<Seq>(s)->stmts.empty()); }

class Simplifier {
 public:
  explicit Simplifier(const Func& f) : c_(*f.context), a_(f) {}

  Stmt Walk(const Stmt& s) {
    if (const Seq* n = As<Seq>(s)) return WalkSeq(*n);
    if (const For* n = As<For>(s)) return WalkFor(*n, s);
    if (const If* n = As<If>(s)) return WalkIf(*n, s);
    if (As<Prefetch>(s) != nullptr) {
      Stmt r = Children(s);
      return LoadsOf(*As<Prefetch>(r)).empty() ? MakeSeq({}) : r;
    }
    if (const Store* n = As<Store>(s); n != nullptr && n->mask != nullptr) return WalkMasked(s);
    if (const Block* n = As<Block>(s)) {
      if (n->predicate != nullptr && IsInt(a_.Simplify(n->predicate), 0)) return MakeSeq({});
      for (const BlockIter& i : n->iters) a_.BindRange(i.var, c_.Int(0), i.extent);
      Stmt r = Children(s);
      const Block* b = As<Block>(r);
      if (b->predicate == nullptr || !IsTrue(b->predicate)) return r;
      Block without = *b;
      without.predicate = nullptr;
      return MakeStmt(std::move(without));
    }
    return Children(s);
  }

 private:
  Stmt Children(const Stmt& s) {
    return MapChildren(s, [&](Expr e) { return a_.Simplify(e); }, [&](const Stmt& x) { return Walk(x); });
  }

  Stmt WalkSeq(const Seq& n) {
    std::vector<Stmt> out;
    VarMap copies;
    for (const Stmt& original : n.stmts) {
      Stmt s = Walk(Substitute(c_, original, copies));
      if (const Let* let = As<Let>(s)) {
        if (IsConst(let->value) || let->value->op == ExprOp::kVar) {
          copies[let->var] = let->value;
          continue;
        }
        const Type t = let->var->type;
        if (IsInt(t.dtype) && t.lanes == 1) a_.BindRange(let->var, let->value, c_.Int(1, t.dtype));
      }
      out.push_back(std::move(s));
    }
    return MakeSeq(std::move(out));
  }

  Stmt WalkFor(const For& n, const Stmt& s) {
    Expr extent = a_.Simplify(n.extent);
    if (a_.ConstBounds(extent).hi <= 0) return MakeSeq({});
    a_.BindRange(n.var, c_.Int(0, n.var->type.dtype), extent);
    Stmt body = Walk(n.body);
    const bool shapes_launch = IsBlockAxis(n.kind) || IsThreadAxis(n.kind);
    if (IsEmpty(body) && !shapes_launch) return MakeSeq({});
    if (IsInt(extent, 1) && !shapes_launch) return body;
    return extent == n.extent && body == n.body ? s : MakeStmt(For{n.var, extent, n.kind, body});
  }

  Stmt WalkIf(const If& n, const Stmt& s) {
    Expr cond = a_.Simplify(n.cond);
    if (IsInt(cond)) {
      const Stmt& taken = cond->int_value != 0 ? n.then : n.otherwise;
      return taken == nullptr ? MakeSeq({}) : Walk(taken);
    }
    Stmt then, otherwise;
    {
      Analyzer::Assume assume(a_, cond);
      then = Walk(n.then);
    }
    if (n.otherwise != nullptr) {
      Analyzer::Assume assume(a_, c_.Not(cond));
      otherwise = Walk(n.otherwise);
      if (IsEmpty(otherwise)) otherwise = nullptr;
    }
    if (IsEmpty(then)) {
      if (otherwise == nullptr) return MakeSeq({});
      return MakeStmt(If{a_.Simplify(c_.Not(cond)), otherwise, nullptr});
    }
    if (cond == n.cond && then == n.then && otherwise == n.otherwise) return s;
    return MakeStmt(If{cond, then, otherwise});
  }

  Stmt WalkMasked(const Stmt& s) {
    Stmt r = Children(s);
    Store n = *As<Store>(r);
    Expr mask = n.mask->op == ExprOp::kBroadcast ? n.mask->args[0] : n.mask;
    if (IsInt(mask, 0)) return MakeSeq({});
    if (!IsTrue(mask)) return r;
    n.mask = nullptr;
    return MakeStmt(std::move(n));
  }

  Context& c_;
  Analyzer a_;
};

}  // namespace

StatusOr<Func> Simplify(Func f) {
  f.body = Simplifier(f).Walk(f.body);
  return f;
}

}  // namespace cinn_like::ir
