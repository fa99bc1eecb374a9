#include "ir/known_bounds.h"

#include <utility>

#include "ir/analyzer.h"

namespace cinn_like::ir {
namespace {

constexpr int kMostPrinted = 100;  // nodes of an access
constexpr int kMostAsked = 64;     // parts of an index

class Finder {
 public:
  explicit Finder(const Func& f) : c_(*f.context), a_(f) {}

  std::string Find(const Stmt& s) {
    Walk(s);
    return found_;
  }

 private:
  void Walk(const Stmt& s) {
    if (s == nullptr || !found_.empty()) return;
    if (const For* n = As<For>(s)) {
      Ask(n->extent);
      a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), n->extent);
      Walk(n->body);
    } else if (const Block* n = As<Block>(s)) {
      const std::string outer = std::exchange(block_, n->name);
      for (const BlockIter& i : n->iters) {
        Ask(i.binding);
        a_.BindRange(i.var, c_.Int(0), i.extent);
      }
      if (n->predicate != nullptr) Ask(n->predicate);
      Walk(n->init);
      Walk(n->body);
      block_ = outer;
    } else if (const If* n = As<If>(s)) {
      Ask(n->cond);
      {
        const Analyzer::Assume assume(a_, n->cond);
        Walk(n->then);
      }
      const Analyzer::Assume assume(a_, c_.Not(n->cond));
      Walk(n->otherwise);
    } else {
      if (const Store* n = As<Store>(s)) Ask("writes", n->buffer, n->indices, n->mask);
      ForEachChild(s, [&](Expr e) { Ask(e); }, [&](const Stmt& child) { Walk(child); });
    }
  }

  void Ask(Expr e) {
    VisitLoads(e, [&](Expr load) { Ask("reads", load->buffer, IndicesOf(load), MaskOf(load)); });
  }

  void Ask(std::string_view what, Buffer b, const std::vector<Expr>& indices, Expr mask) {
    if (!found_.empty()) return;
    std::vector<Expr> asked;
    for (Expr e : indices) asked.push_back(c_.Cast(DType::kI64, e));
    asked.push_back(mask == nullptr ? c_.Bool(true) : mask);
    NameLoads(asked);
    const Analyzer::Assume assume(a_, asked.back());
    for (size_t d = 0; d < indices.size(); ++d) {
      const Expr at = asked[d];
      asked_ = 0;
      const auto above = [&](Expr e) { return a_.CanProve(c_.Le(c_.Int(0), e)); };
      const auto below = [&](Expr e) { return a_.CanProve(c_.Lt(e, b->shape[d])); };
      if (at->type.lanes == 1 && Holds(at, ExprOp::kMax, above) && Holds(at, ExprOp::kMin, below)) continue;
      const Expr load = c_.Load(b, indices, mask);
      found_ = Cat(block_.empty() ? "it" : Cat("block ", block_), " ", what, " ",
                   PrintsWithin(load, kMostPrinted) ? Print(load) : b->name, ", not known to be within 0..",
                   Print(b->shape[d]), indices.size() > 1 ? Cat(" in dimension ", d) : "");
      return;
    }
  }

  // Integers that are loaded, once for a block's step: conditions on them are known of variables. Sums of variables are
  // taken not to overflow, so those of 64 bits are named where nothing is added to them.
  void NameLoads(std::vector<Expr>& exprs) {
    absl::flat_hash_set<Expr> summed;
    for (Expr root : exprs) {
      Visit(root, [&](Expr e) {
        const bool sums = e->op == ExprOp::kAdd || e->op == ExprOp::kSub || e->op == ExprOp::kMul ||
                          e->op == ExprOp::kNeg || e->op == ExprOp::kShl;
        if (sums) VisitLoads(e, [&](Expr load) { summed.insert(load); });
        return true;
      });
    }
    Rewriter name(c_, [&](Expr e) -> Expr {
      const Expr load = e->op == ExprOp::kCast ? e->args[0] : e;
      const DType t = load->type.dtype;
      if (load->op != ExprOp::kLoad || !IsInt(t) || e->type != kIndexType) return nullptr;
      const int bits = InfoOf(t).bits;
      if (bits == 64 && (!IsSigned(t) || summed.contains(load))) return nullptr;
      Expr& var = names_[load];
      if (var != nullptr) return var;
      var = c_.Var(Cat("#", names_.size()));
      if (bits < 64) {
        const int64_t count = int64_t{1} << bits;
        a_.BindRange(var, c_.Int(IsSigned(t) ? -(count / 2) : 0), c_.Int(count));
      }
      return var;
    });
    for (Expr& e : exprs) e = name(e);
  }

  // Whether a condition holds of every value that clamps and choices can give: for a min below a number, or a max above
  // one, which are `either`, that of one operand is enough.
  bool Holds(Expr e, ExprOp either, absl::FunctionRef<bool(Expr)> known) {
    if (asked_++ == kMostAsked) return false;
    if (known(e)) return true;
    const auto holds = [&](Expr x) { return Holds(x, either, known); };
    if (e->op == ExprOp::kCast && IsInt(e->args[0]->type.dtype) && e->args[0]->type.dtype != DType::kU64) {
      const Expr inner = e->args[0];
      if (inner->op != ExprOp::kMin && inner->op != ExprOp::kMax && inner->op != ExprOp::kSelect) return false;
      std::vector<Expr> args;
      for (Expr x : inner->args) args.push_back(x->type.dtype == DType::kBool ? x : c_.Cast(e->type.dtype, x));
      return holds(c_.Make(inner->op, args));
    }
    if (e->op == ExprOp::kMin || e->op == ExprOp::kMax)
      return e->op == either ? holds(e->args[0]) || holds(e->args[1]) : holds(e->args[0]) && holds(e->args[1]);
    if (e->op != ExprOp::kSelect) return false;
    {
      const Analyzer::Assume assume(a_, e->args[0]);
      if (!holds(e->args[1])) return false;
    }
    const Analyzer::Assume assume(a_, c_.Not(e->args[0]));
    return holds(e->args[2]);
  }

  Context& c_;
  Analyzer a_;
  absl::flat_hash_map<Expr, Expr> names_;  // of loads
  int asked_ = 0;
  std::string block_, found_;
};

}  // namespace

std::string FindUnknownAccess(const Func& f) { return Finder(f).Find(f.body); }

}  // namespace cinn_like::ir
