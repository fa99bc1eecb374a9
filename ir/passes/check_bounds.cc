#include "ir/passes/check_bounds.h"

#include "ir/analyzer.h"

namespace cinn_like::ir {
namespace {

constexpr size_t kMostText = 120;  // of an index

bool ReadsMemory(Expr e) {
  bool found = false;
  Visit(e, [&](Expr x) { return !(found |= x->op == ExprOp::kLoad); });
  return found;
}

class Checker {
 public:
  explicit Checker(const Func& f) : c_(*f.context), name_(f.name), a_(f) {}

  StatusOr<Stmt> Run(const Stmt& s) {
    Stmt r = Walk(s);
    if (!status_.ok()) return status_;
    return r;
  }

 private:
  Stmt Walk(const Stmt& s) {
    std::vector<Stmt> out;
    // What the statement itself evaluates, before it.
    if (const Call* n = As<Call>(s); n == nullptr || n->meaning == nullptr)
      ForEachChild(s, [&](Expr e) { AskLoads(e, out); }, [](const Stmt&) {});
    if (const Seq* n = As<Seq>(s)) {
      for (const Stmt& x : n->stmts) out.push_back(Walk(x));
    } else if (const For* n = As<For>(s)) {
      a_.BindRange(n->var, c_.Int(0, n->var->type.dtype), Known(n->extent));
      const int before = asked_;
      const Stmt body = Walk(n->body);
      // Neither threads nor instructions of many elements ask.
      const bool alone = (n->kind == ForKind::kParallel || IsTensorized(n->kind)) && asked_ > before;
      out.push_back(MakeStmt(For{n->var, n->extent, alone ? LoopKind(ForKind::kSerial) : n->kind, body}));
    } else if (const If* n = As<If>(s)) {
      If r = *n;
      r.then = WalkUnder(n->cond, n->then);
      if (n->otherwise != nullptr) r.otherwise = WalkUnder(c_.Not(n->cond), n->otherwise);
      out.push_back(MakeStmt(std::move(r)));
    } else if (const While* n = As<While>(s)) {
      std::vector<Stmt> body = {Walk(n->body)};
      AskLoads(n->cond, body);  // as it is asked again
      out.push_back(MakeStmt(While{n->cond, MakeSeq(std::move(body))}));
    } else if (const Let* n = As<Let>(s)) {
      if (!ReadsMemory(n->value)) lets_[n->var] = Known(n->value);
      out.push_back(s);
    } else if (const Store* n = As<Store>(s)) {
      Ask("stores to", n->buffer, n->indices, n->mask, out);
      out.push_back(s);
    } else {
      if (const Block* n = As<Block>(s); n != nullptr && status_.ok())
        status_ = InvalidArgument("check_bounds: block ", n->name, " of @", name_, " is not lowered");
      out.push_back(s);
    }
    return MakeSeq(std::move(out));
  }

  Stmt WalkUnder(Expr cond, const Stmt& s) {
    const Analyzer::Assume assume(a_, FactsOf(cond));
    return Walk(s);
  }

  // Innermost first: an index that is itself loaded is asked before what stands at it.
  void AskLoads(Expr root, std::vector<Stmt>& out) {
    absl::flat_hash_set<Expr> seen;
    std::function<void(Expr)> go = [&](Expr e) {
      if (!seen.insert(e).second) return;
      for (Expr x : e->args) go(x);
      if (e->op == ExprOp::kLoad) Ask("loads", e->buffer, IndicesOf(e), MaskOf(e), out);
    };
    go(root);
  }

  void Ask(std::string_view what, Buffer b, const std::vector<Expr>& indices, Expr mask, std::vector<Stmt>& out) {
    if (indices.size() != 1 || b->shape.size() != 1) {
      if (status_.ok()) status_ = InvalidArgument("check_bounds: ", b->name, " of @", name_, " is not flat");
      return;
    }
    const Expr index = indices[0], size = b->shape[0], zero = c_.Int(0, index->type.dtype);
    const auto [above, below] = Prove(index, size, mask);
    if (above && below) return;
    // The lowest and the highest element that is touched.
    Expr lowest = index, highest = index;
    const int lanes = index->type.lanes;
    const bool lane_mask = mask != nullptr && mask->type.lanes > 1;
    if (lanes > 1 && index->op == ExprOp::kRamp && !lane_mask) {
      const Expr first = index->args[0], stride = index->args[1];
      const Expr last = c_.Add(first, c_.Mul(stride, c_.Int(lanes - 1, stride->type.dtype)));
      const bool known = IsInt(stride);
      lowest = known ? (stride->int_value < 0 ? last : first) : c_.Min(first, last);
      highest = known ? (stride->int_value < 0 ? first : last) : c_.Max(first, last);
    } else if (lanes > 1) {
      // Lanes that are off are nowhere.
      const auto kept = [&](int64_t otherwise) {
        return lane_mask ? c_.Select(mask, index, c_.Broadcast(c_.Int(otherwise, index->type.dtype), lanes)) : index;
      };
      lowest = c_.Make(ExprOp::kLaneMin, {kept(0)});
      highest = c_.Make(ExprOp::kLaneMax, {kept(-1)});
    }
    const Expr is_low = c_.Lt(lowest, zero), is_high = c_.Le(c_.Cast(index->type.dtype, size), highest);
    const Expr outside = above ? is_high : below ? is_low : c_.Or(is_low, is_high);
    const Expr where = above || lowest == highest ? highest : below ? lowest : c_.Select(is_low, lowest, highest);
    std::string at = Print(index);
    if (at.size() > kMostText || at.find('\n') != at.npos)
      at = Cat(at.substr(0, std::min(kMostText, at.find('\n'))), "...");
    Call fail{.callee = "cinn_bounds_error",
              .is_runtime = true,
              .text = Cat("@", name_, " ", what, " ", b->name, "[", at, "] outside of it"),
              .args = {c_.Cast(DType::kI64, where), c_.Cast(DType::kI64, size)}};
    Stmt ask = MakeStmt(If{outside, MakeStmt(std::move(fail)), nullptr});
    if (mask != nullptr && !lane_mask) ask = MakeStmt(If{mask, ask, nullptr});
    out.push_back(std::move(ask));
    ++asked_;
  }

  // Whether 0 <= index and index < size are known, in every lane that is on.
  std::pair<bool, bool> Prove(Expr index, Expr size, Expr mask) {
    const int lanes = std::max(index->type.lanes, mask == nullptr ? 1 : mask->type.lanes);
    const Expr lane = c_.Var("#lane");
    if (lanes > 1) a_.BindRange(lane, c_.Int(0), c_.Int(lanes));
    const Expr at = LaneOf(index, lane), on = mask == nullptr ? c_.Bool(true) : LaneOf(mask, lane);
    if (at == nullptr) return {false, false};
    const Analyzer::Assume assume(a_, on == nullptr ? c_.Bool(true) : FactsOf(on));
    const Expr e = Known(at);
    return {a_.CanProve(c_.Le(c_.Int(0, e->type.dtype), e)), a_.CanProve(c_.Lt(e, Known(size)))};
  }

  // What a vector is in its lane `lane`; null: not known.
  Expr LaneOf(Expr e, Expr lane) {
    if (e->type.lanes == 1) return e;
    if (e->op == ExprOp::kRamp) return c_.Add(e->args[0], c_.Mul(e->args[1], lane));
    if (e->op == ExprOp::kBroadcast) return e->args[0];
    if (auto it = lets_.find(e); it != lets_.end()) return LaneOf(it->second, lane);
    if (e->op == ExprOp::kVar || e->op == ExprOp::kLoad || e->op == ExprOp::kShuffleXor ||
        e->op == ExprOp::kLaneShift || e->op == ExprOp::kLaneLast || e->args.empty())
      return nullptr;
    std::vector<Expr> args;
    for (Expr x : e->args) {
      args.push_back(LaneOf(x, lane));
      if (args.back() == nullptr) return nullptr;
    }
    return e->op == ExprOp::kCast ? c_.Cast(e->type.dtype, args[0]) : c_.Make(e->op, args);
  }

  // Lets by their values. What memory holds may change while the name stays.
  Expr Known(Expr e) { return lets_.empty() || e->type.lanes > 1 ? e : Substitute(c_, e, lets_); }

  // What is known where `cond` holds, apart from what it says of memory.
  Expr FactsOf(Expr cond) {
    Expr known = c_.Bool(true);
    std::function<void(Expr)> add = [&](Expr e) {
      if (e->op == ExprOp::kAnd) return add(e->args[0]), add(e->args[1]);
      if (!ReadsMemory(e)) known = c_.And(known, Known(e));
    };
    add(cond);
    return known;
  }

  Context& c_;
  const std::string& name_;
  Analyzer a_;
  VarMap lets_;
  int asked_ = 0;
  Status status_;
};

}  // namespace

StatusOr<Func> CheckBounds(Func f) {
  ASSIGN_OR_RETURN(f.body, Checker(f).Run(f.body));
  return f;
}

}  // namespace cinn_like::ir
