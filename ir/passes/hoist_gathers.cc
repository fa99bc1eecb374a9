#include "ir/passes/hoist_gathers.h"

#include <algorithm>

#include "ir/analyzer.h"
#include "ir/clone.h"

namespace cinn_like::ir {
namespace {

class GatherHoister {
 public:
  explicit GatherHoister(const Func& f) : c_(*f.context), a_(f), names_(f) {}

  Stmt Run(const Stmt& s) {
    const For* n = As<For>(s);
    if (n != nullptr) a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), n->extent);
    const Stmt r = MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return Run(x); });
    n = As<For>(r);
    if (n == nullptr || n->kind != ForKind::kSerial || a_.ConstBounds(n->extent).lo < 1) return r;
    const Moved moved(*n);
    if (moved.calls) return r;
    if (const If* either = As<If>(n->body); either != nullptr && !moved.Moves(either->cond)) return Either(*n, *either);
    std::vector<Expr> found;
    Collect(n->body, moved, found);
    return found.empty() ? r : Hoist(r, found);
  }

 private:
  // A loop of which no iteration asks anything else is two, if one of them reads vectors ahead.
  Stmt Either(const For& loop, const If& either) {
    const auto loop_of = [&](const Stmt& body) {
      return body == nullptr ? nullptr : Run(MakeStmt(For{loop.var, loop.extent, loop.kind, body}));
    };
    const Stmt then = loop_of(either.then), otherwise = loop_of(either.otherwise);
    const auto reads_ahead = [](const Stmt& s) { return s != nullptr && As<For>(s) == nullptr; };
    if (!reads_ahead(then) && !reads_ahead(otherwise))
      return MakeStmt(For{loop.var, loop.extent, loop.kind, MakeStmt(either)});
    return MakeStmt(If{either.cond, then, otherwise == nullptr ? nullptr : CloneFresh(c_, otherwise, names_)});
  }

  Stmt Hoist(const Stmt& loop, const std::vector<Expr>& found) {
    absl::flat_hash_map<Expr, Expr> lets;
    std::vector<Stmt> stmts;
    for (Expr e : found) {
      lets[e] = c_.Var(names_.Fresh("lanes"), e->type);
      stmts.push_back(MakeStmt(Let{lets[e], e}));
    }
    stmts.push_back(RewriteExprs(c_, loop, Rewriter(c_, [&](Expr e) -> Expr {
                                   const auto it = lets.find(e);
                                   return it == lets.end() ? nullptr : it->second;
                                 })));
    return MakeSeq(std::move(stmts));
  }

  // What a loop declares and writes.
  struct Moved {
    explicit Moved(const For& loop) {
      vars.insert(loop.var);
      VisitStmts(loop.body, [&](const Stmt& s) {
        if (const For* n = As<For>(s)) vars.insert(n->var);
        if (const Let* n = As<Let>(s)) vars.insert(n->var);
        if (const Store* n = As<Store>(s)) buffers.insert(n->buffer);
        if (const Alloc* n = As<Alloc>(s)) buffers.insert(n->buffer);
        calls |= As<Call>(s) != nullptr;
        return true;
      });
    }
    bool Moves(Expr e) const {
      bool r = Uses(e, vars);
      VisitLoads(e, [&](Expr x) { r |= buffers.contains(x->buffer); });
      return r;
    }
    absl::flat_hash_set<Expr> vars;
    absl::flat_hash_set<Buffer> buffers;
    bool calls = false;
  };

  static bool IsGather(Expr e) {
    if (e->op != ExprOp::kLoad || e->type.lanes == 1) return false;
    const std::vector<Expr> indices = IndicesOf(e);
    return indices.size() == 1 && indices[0]->op != ExprOp::kBroadcast &&
           !(indices[0]->op == ExprOp::kRamp && IsInt(indices[0]->args[1], 1));
  }

  // Of what an iteration comes to in any case.
  static void Collect(const Stmt& s, const Moved& moved, std::vector<Expr>& found) {
    const auto look = [&](Expr root) {
      Visit(root, [&](Expr e) {
        const bool hoists = IsGather(e) && !moved.Moves(e);
        if (hoists && std::find(found.begin(), found.end(), e) == found.end()) found.push_back(e);
        return !hoists;
      });
    };
    if (const Seq* n = As<Seq>(s)) {
      for (const Stmt& x : n->stmts) Collect(x, moved, found);
    } else if (const Store* n = As<Store>(s)) {
      look(n->value);
      for (Expr e : n->indices) look(e);
    } else if (const Let* n = As<Let>(s)) {
      look(n->value);
    }
  }

  Context& c_;
  Analyzer a_;
  NameSupply names_;
};

}  // namespace

StatusOr<Func> HoistGathers(Func f) {
  f.body = GatherHoister(f).Run(f.body);
  return f;
}

}  // namespace cinn_like::ir
