#include "ir/passes/hoist_quotients.h"

#include <algorithm>
#include <map>

#include "ir/analyzer.h"

namespace cinn_like::ir {
namespace {

bool IsAxis(const For& n) { return IsBlockAxis(n.kind) || IsThreadAxis(n.kind); }

// What emitters read as a whole.
bool Stays(const Stmt& s) {
  const For* n = As<For>(s);
  return As<Call>(s) != nullptr || (n != nullptr && IsTensorized(n->kind));
}

class Hoister {
 public:
  explicit Hoister(const Func& f) : c_(*f.context), a_(f), names_(f) {
    VisitStmts(f.body, [&](const Stmt& s) {
      if (const Let* n = As<Let>(s)) ahead_.insert(n->var);
      if (const For* n = As<For>(s)) {
        a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), n->extent);
        ahead_.insert(n->var);
      }
      if (const Block* n = As<Block>(s)) {
        for (const BlockIter& i : n->iters) ahead_.insert(i.var);
      }
      return true;
    });
  }

  Stmt Run(const Stmt& body) {
    FindQuotients(body);
    return all_.empty() ? body : WalkSeq(body, false);
  }

 private:
  // How a statement computes a quotient.
  struct Use {
    bool repeats = false;  // in a loop that it comes to whenever it runs
    bool certain = false;  // whenever it runs
    int places = 0;
  };
  using Uses = std::map<size_t, Use>;  // by the quotient's place in quotients_

  // Of scalars, computed from integers alone.
  bool IsQuotient(Expr e) {
    if ((e->op != ExprOp::kTruncDiv && e->op != ExprOp::kTruncMod) || IsInt(e->args[1])) return false;
    if (e->type.lanes > 1 || e->reads || e->checks || a_.ConstBounds(e->args[1]).lo < 1) return false;
    bool pure = true;
    Visit(e, [&](Expr x) {
      const bool is_bool = x->type.dtype == DType::kBool;
      pure = pure && x->type.lanes == 1 && (IsInt(x->type.dtype) || is_bool) && x->op != ExprOp::kAddress &&
             x->op != ExprOp::kShuffleXor;
      return pure;
    });
    return pure;
  }

  void FindQuotients(const Stmt& s) {
    if (Stays(s)) return;
    const auto find = [&](Expr root) {
      Visit(root, [&](Expr e) {
        if (IsQuotient(e)) all_.insert(e);
        return true;
      });
    };
    ForEachChild(s, find, [&](const Stmt& x) { FindQuotients(x); });
  }

  // What a remainder is computed from, where that is somewhere; else null.
  Expr QuotientOf(Expr e) {
    if (e->op != ExprOp::kTruncMod || !all_.contains(e)) return nullptr;
    const auto it = all_.find(c_.Make(ExprOp::kTruncDiv, e->args));
    return it == all_.end() ? nullptr : *it;
  }

  // ---- who computes what ----

  static void Join(Uses& all, const Uses& more) {
    for (const auto& [k, use] : more) {
      Use& u = all[k];
      u.repeats |= use.repeats;
      u.certain |= use.certain;
      u.places += use.places;
    }
  }

  Uses UsesOf(Expr root) {
    Uses r;
    std::vector<Expr> found;
    Visit(root, [&](Expr e) {
      if (!all_.contains(e)) return true;
      found.push_back(e);
      if (Expr quotient = QuotientOf(e)) found.push_back(quotient);
      return true;
    });
    // First what others are computed from.
    std::stable_sort(found.begin(), found.end(), [](Expr a, Expr b) {
      return std::pair(a->depth, a->op == ExprOp::kTruncMod) < std::pair(b->depth, b->op == ExprOp::kTruncMod);
    });
    for (Expr e : found) {
      auto [it, inserted] = numbers_.try_emplace(e, quotients_.size());
      if (inserted) quotients_.push_back(e);
      r[it->second] = {.certain = true, .places = 1};
    }
    return r;
  }

  const Uses& UsesOf(const Stmt& s) {
    auto it = uses_.find(s.get());
    return it != uses_.end() ? it->second : uses_.emplace(s.get(), Compute(s)).first->second;
  }

  Uses Compute(const Stmt& s) {
    Uses r;
    if (s == nullptr || Stays(s)) return r;
    if (const If* n = As<If>(s)) {
      r = UsesOf(n->then);
      const Uses otherwise = n->otherwise == nullptr ? Uses() : UsesOf(n->otherwise);
      for (auto& [k, use] : r) {
        const auto it = otherwise.find(k);
        const bool both = it != otherwise.end();
        use = {.repeats = both && use.repeats && it->second.repeats,
               .certain = both && use.certain && it->second.certain,
               .places = use.places};
      }
      for (const auto& [k, use] : otherwise) {
        Use& u = r[k];
        u.places += use.places;
      }
      Join(r, UsesOf(n->cond));
      return r;
    }
    const For* loop = As<For>(s);
    const bool is_axis = loop != nullptr && IsAxis(*loop);
    ForEachChild(s, [&](Expr e) { Join(r, is_axis ? Uses() : UsesOf(e)); }, [&](const Stmt& x) { Join(r, UsesOf(x)); });
    if ((loop != nullptr && !is_axis) || As<While>(s) != nullptr) {
      for (auto& [k, use] : r) use = {.repeats = true, .certain = use.certain, .places = 1};
    }
    return r;
  }

  // ---- where ----

  // With the variables that there are.
  Expr Rewrite(Expr root) {
    Rewriter* self = nullptr;
    Rewriter rewrite(c_, [&](Expr e) -> Expr {
      const auto it = lets_.find(e);
      if (it != lets_.end()) return it->second;
      const Expr quotient = QuotientOf(e);
      return quotient == nullptr ? nullptr
                                 : c_.Sub((*self)(e->args[0]), c_.Mul((*self)(quotient), (*self)(e->args[1])));
    });
    self = &rewrite;
    return rewrite(root);
  }

  // `in_loop`: threads may run it several times.
  Stmt Walk(const Stmt& s, bool in_loop) {
    if (Stays(s)) return s;
    if (As<Seq>(s) != nullptr) return WalkSeq(s, in_loop);
    const For* loop = As<For>(s);
    const bool is_axis = loop != nullptr && IsAxis(*loop);
    const bool repeats = (loop != nullptr && !is_axis) || As<While>(s) != nullptr;
    if (loop != nullptr) ahead_.erase(loop->var);
    const bool is_pipeline = loop != nullptr && PipelineStages(loop->kind) > 0;
    const auto body = [&](const Stmt& x) { return WalkSeq(x, in_loop || repeats, is_pipeline); };
    // Conditions and extents first: in the bodies more is known.
    return MapChildren(s, [&](Expr e) { return is_axis ? e : Rewrite(e); }, body);
  }

  // `whole`: emitters read it as a whole.
  Stmt WalkSeq(const Stmt& s, bool in_loop, bool whole = false) {
    const std::vector<Stmt> stmts = As<Seq>(s) != nullptr ? As<Seq>(s)->stmts : std::vector<Stmt>{s};
    // So are nests of threads and what runs as instructions.
    const For* only = stmts.size() == 1 ? As<For>(stmts[0]) : nullptr;
    whole = whole || (only != nullptr && IsAxis(*only)) ||
            std::any_of(stmts.begin(), stmts.end(), [](const Stmt& x) { return As<For>(x) != nullptr && Stays(x); });
    Uses uses;
    for (const Stmt& x : stmts) Join(uses, UsesOf(x));
    std::vector<Stmt> out;
    std::vector<Expr> placed;
    const auto place = [&](Expr of) {  // null: of anything
      for (const auto& [k, use] : uses) {
        const Expr e = quotients_[k];
        if (of != nullptr && !ir::Uses(e, of)) continue;
        if (!use.repeats && (use.places == 1 || (in_loop && !use.certain))) continue;
        if (lets_.contains(e) || ir::Uses(e, ahead_)) continue;
        const Expr var = c_.Var(names_.Fresh(e->op == ExprOp::kTruncDiv ? "q" : "r"), e->type);
        out.push_back(MakeStmt(Let{var, Rewrite(e)}));
        lets_[e] = var;
        placed.push_back(e);
      }
    };
    if (!whole) place(nullptr);
    for (const Stmt& x : stmts) {
      out.push_back(Walk(x, in_loop));
      const Let* let = As<Let>(x);
      if (let == nullptr) continue;
      ahead_.erase(let->var);
      if (!whole) place(let->var);
    }
    for (Expr e : placed) lets_.erase(e);
    return MakeSeq(std::move(out));
  }

  Context& c_;
  Analyzer a_;
  NameSupply names_;
  absl::flat_hash_set<Expr> ahead_;  // variables that are declared further on
  absl::flat_hash_set<Expr> all_;    // quotients and remainders
  std::vector<Expr> quotients_;      // by number
  absl::flat_hash_map<Expr, size_t> numbers_;
  absl::flat_hash_map<const StmtNode*, Uses> uses_;
  absl::flat_hash_map<Expr, Expr> lets_;  // quotient -> its variable
};

}  // namespace

StatusOr<Func> HoistQuotients(Func f) {
  // Their sums leave no registers for what would be known all along.
  bool multiplies = false;
  VisitStmts(f.body, [&](const Stmt& s) {
    const For* n = As<For>(s);
    multiplies |= n != nullptr && IsMatrixUnit(n->kind);
    return !multiplies;
  });
  if (multiplies) return f;
  f.body = Hoister(f).Run(f.body);
  return f;
}

}  // namespace cinn_like::ir
