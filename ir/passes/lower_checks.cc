#include "ir/passes/lower_checks.h"

namespace cinn_like::ir {
namespace {

class Lowering {
 public:
  explicit Lowering(const Func& f)
      : c_(*f.context), bare_(c_, [this](Expr e) -> Expr {
          if (!e->checks) return e;
          return e->op == ExprOp::kChecked ? bare_(e->args[0]) : nullptr;
        }) {
    for (Buffer b : BuffersWritten(f.body)) written_.insert(b);
  }

  Stmt Run(const Stmt& s) {
    if (const Seq* n = As<Seq>(s)) {
      const auto before = asked_;
      std::vector<Stmt> out;
      for (size_t i = 0; i < n->stmts.size();) i = RunLine(n->stmts, i, out);
      asked_ = before;
      return MakeSeq(std::move(out));
    }
    std::vector<Stmt> out;
    RunLine({s}, 0, out);
    return MakeSeq(std::move(out));
  }

 private:
  struct Question {
    Expr wrong;
    Stmt fails;
    bool is_early = false;  // it can be asked before what stands in front of it in a line of statements
  };

  // Statements from `begin` on: one, or a line of those that have no parts. What they all read is asked together, so
  // that no load waits for the answer about another. Returns where it stopped.
  size_t RunLine(const std::vector<Stmt>& stmts, size_t begin, std::vector<Stmt>& out) {
    std::vector<Question> early;
    std::vector<Stmt> rest;
    absl::flat_hash_set<Expr> defined;
    size_t at = begin;
    for (bool is_plain = true; is_plain && at < stmts.size(); ++at) {
      const Stmt& s = stmts[at];
      const Let* let = As<Let>(s);
      is_plain = let != nullptr || As<Store>(s) != nullptr;
      if (!is_plain && at > begin) break;
      std::vector<Question> questions;
      ForEachChild(s, [&](Expr e) { AskAll(e, questions); }, [](const Stmt&) {});
      for (Question& q : questions) {
        if (q.is_early && !Uses(q.wrong, defined))
          early.push_back(std::move(q));
        else
          rest.push_back(MakeStmt(If{q.wrong, q.fails, nullptr}));
      }
      if (let != nullptr) defined.insert(let->var);
      rest.push_back(RunWithin(s));
    }
    std::vector<Stmt> asks;
    Expr any = nullptr;
    for (const Question& q : early) {
      any = any == nullptr ? q.wrong : c_.Make(ExprOp::kOr, {any, q.wrong});
      asks.push_back(early.size() == 1 ? q.fails : MakeStmt(If{q.wrong, q.fails, nullptr}));
    }
    if (any != nullptr) out.push_back(MakeStmt(If{any, MakeSeq(std::move(asks)), nullptr}));
    out.insert(out.end(), rest.begin(), rest.end());
    return at;
  }

  // What is asked within is asked for some iterations, or in one of two branches.
  Stmt RunWithin(const Stmt& s) {
    const int questions = questions_;
    Stmt r = MapChildren(
        s, [&](Expr e) { return bare_(e); },
        [&](const Stmt& x) {
          const auto here = asked_;
          Stmt inner = Run(x);
          asked_ = here;
          return inner;
        });
    if (const For* n = As<For>(r); n != nullptr && n->kind == ForKind::kParallel && questions_ > questions)
      r = MakeStmt(For{n->var, n->extent, ForKind::kSerial, n->body});
    return r;
  }

  // Innermost first: what is read at a checked index may be checked itself.
  void AskAll(Expr root, std::vector<Question>& out) {
    absl::flat_hash_set<Expr> seen;
    std::function<void(Expr)> go = [&](Expr e) {
      if (!e->checks || !seen.insert(e).second) return;
      for (Expr x : e->args) go(x);
      if (e->op == ExprOp::kChecked) Ask(e, out);
    };
    go(root);
  }

  void Ask(Expr checked, std::vector<Question>& out) {
    bool stays = true;
    Expr on = c_.Bool(true);
    VisitLoads(checked, [&](Expr x) {
      stays &= !written_.contains(x->buffer);
      if (x->has_mask) on = And(on, bare_(MaskOf(x)));
    });
    if (stays && !asked_.insert(checked).second) return;
    const bool is_inner = std::none_of(checked->args.begin(), checked->args.end(), [](Expr e) { return e->checks; });
    Expr value = bare_(checked->args[0]), begin = bare_(checked->args[1]), end = bare_(checked->args[2]);
    Expr wrong =
        And(on, c_.Make(ExprOp::kOr, {c_.Make(ExprOp::kLt, {value, begin}), c_.Make(ExprOp::kLe, {end, value})}));
    if (const int lanes = wrong->type.lanes; lanes > 1) {
      // Of the lanes that are wrong the lowest, or else the highest value.
      const Expr wide = c_.Broadcast(value, lanes);
      begin = OfLanes(ExprOp::kLaneMin, begin);
      end = OfLanes(ExprOp::kLaneMax, end);
      const auto of_wrong = [&](ExprOp fold) {
        return OfLanes(fold, c_.Make(ExprOp::kSelect, {wrong, wide, c_.Broadcast(begin, lanes)}));
      };
      const Expr low = of_wrong(ExprOp::kLaneMin);
      value = c_.Select(c_.Lt(low, begin), low, of_wrong(ExprOp::kLaneMax));
      wrong = c_.Cast(DType::kBool, OfLanes(ExprOp::kLaneMax, c_.Cast(DType::kU8, wrong)));
    }
    Call fail{.callee = "cinn_range_error", .is_runtime = true, .text = checked->name, .args = {value, begin, end}};
    out.push_back({wrong, MakeStmt(std::move(fail)), stays && is_inner});
    ++questions_;
  }

  Expr OfLanes(ExprOp fold, Expr e) {
    return e->op == ExprOp::kBroadcast ? e->args[0] : e->type.lanes > 1 ? c_.Make(fold, {e}) : e;
  }
  // Context's, of operands with different numbers of lanes.
  Expr And(Expr a, Expr b) { return IsTrue(a) ? b : a == b ? a : c_.Make(ExprOp::kAnd, {a, b}); }

  Context& c_;
  Rewriter bare_;  // without checks
  absl::flat_hash_set<Buffer> written_;
  absl::flat_hash_set<Expr> asked_;  // before this statement, of memory that stays as it is
  int questions_ = 0;
};

}  // namespace

StatusOr<Func> LowerChecks(Func f) {
  bool checks = false;
  ForEachExpr(f.body, [&](Expr e) { checks |= e->checks; });
  if (checks) f.body = Lowering(f).Run(f.body);
  return f;
}

}  // namespace cinn_like::ir
