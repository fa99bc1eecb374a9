#include "ir/passes/vectorize.h"

#include "ir/analyzer.h"
#include "ir/clone.h"
#include "ir/join.h"
#include "ir/te.h"

namespace cinn_like::ir {
namespace {

// Of a loop; longer ones stay loops. LLVM takes a minute for 500 lanes under a mask on a machine without masks, 3
// seconds for 256.
constexpr int64_t kMostLanes = 256;

// How lanes that hold partial results are combined, and by what they start.
std::optional<std::pair<ExprOp, Combiner>> LaneOp(ExprOp op) {
  switch (op) {
    case ExprOp::kAdd:
      return std::pair(ExprOp::kLaneAdd, Combiner::kSum);
    case ExprOp::kMul:
      return std::pair(ExprOp::kLaneMul, Combiner::kProd);
    case ExprOp::kMin:
      return std::pair(ExprOp::kLaneMin, Combiner::kMin);
    case ExprOp::kMax:
      return std::pair(ExprOp::kLaneMax, Combiner::kMax);
    case ExprOp::kAnd:  // of 0 and 1
      return std::pair(ExprOp::kLaneMin, Combiner::kAll);
    case ExprOp::kOr:
      return std::pair(ExprOp::kLaneMax, Combiner::kAny);
    default:
      return std::nullopt;
  }
}

// One loop's body with its variable spread over lanes.
class Lanes {
 public:
  // `step`: the variable of the serial loop around, if any, of host code.
  Lanes(Analyzer& a, NameSupply& names, Expr var, int lanes, Expr step = nullptr)
      : c_(a.context()), a_(a), names_(names), var_(var), step_(step), lanes_(lanes) {
    vectors_[var] = c_.Ramp(c_.Int(0), c_.Int(1), lanes);
  }

  static std::vector<Expr> Conjuncts(Expr e) {
    if (e->op != ExprOp::kAnd) return {e};
    std::vector<Expr> r = Conjuncts(e->args[0]);
    for (Expr x : Conjuncts(e->args[1])) r.push_back(x);
    return r;
  }

  // Code with the condition `lane`: `whole()` where it is seen to hold in all lanes, `masked()` where in some.
  //   x * 16 + lane < n  ->  if x * 16 + 15 < n { whole } else if x * 16 < n { masked }
  template <typename Whole, typename Masked>
  Stmt Guard(Expr lane, const Whole& whole, const Masked& masked) {
    Expr all = nullptr, some = nullptr;
    bool known = true;
    const std::vector<Expr> conjuncts = Conjuncts(lane);
    for (Expr e : conjuncts) {
      const Expr first = Substitute(c_, e, {{var_, c_.Int(0)}}), last = Substitute(c_, e, {{var_, c_.Int(lanes_ - 1)}});
      const bool rises = Implies(first, e), falls = !rises && Implies(last, e);
      known = known && (rises || falls);
      if (!known) break;
      all = And(all, rises ? first : last);
      if (Implies(e, rises ? last : first)) some = And(some, rises ? last : first);
    }
    const auto stores = stores_ahead_;
    const bool before = some_on_;
    some_on_ = known && some != nullptr && conjuncts.size() == 1 && mask_ == nullptr;
    Stmt rest = masked();
    some_on_ = before;
    stores_ahead_ = stores;
    if (rest == nullptr || !known) return rest;
    Stmt most = whole();
    rest = CloneFresh(c_, rest, names_);  // loops inside now stand twice
    if (some != nullptr) rest = MakeStmt(If{some, rest, nullptr});
    return most == nullptr ? nullptr : MakeStmt(If{all, most, rest});
  }

  // The loop's body; null where it cannot be.
  Stmt VectorizeBody(const Stmt& body) {
    VisitStmts(body, [&](const Stmt& s) {
      if (const Store* n = As<Store>(s)) ++stores_ahead_[n->buffer];
      return true;
    });
    return Vectorize(body);
  }

 private:
  // Null where it cannot be.
  Stmt Vectorize(const Stmt& s) {
    return Match(
        s,
        [&](const Seq& n) -> Stmt {
          std::vector<Stmt> v;
          for (const Stmt& x : n.stmts) {
            v.push_back(Vectorize(x));
            if (v.back() == nullptr) return nullptr;
          }
          return MakeSeq(std::move(v));
        },
        [&](const For& n) -> Stmt {
          if (n.kind != ForKind::kSerial || Depends(n.extent)) return nullptr;
          Stmt body = Vectorize(n.body);
          return body == nullptr ? nullptr : MakeStmt(For{n.var, n.extent, n.kind, body});
        },
        [&](const If& n) -> Stmt {
          // Conditions that are the same in all lanes stay around; the others are masks.
          Expr uniform = nullptr, lane = nullptr;
          for (Expr e : Conjuncts(n.cond)) {
            Expr& to = Depends(e) ? lane : uniform;
            to = And(to, e);
          }
          if (lane != nullptr && n.otherwise != nullptr) return nullptr;
          Stmt then = lane == nullptr ? Vectorize(n.then) : UnderMask(lane, n.then);
          Stmt otherwise = n.otherwise == nullptr ? nullptr : Vectorize(n.otherwise);
          if (then == nullptr || (n.otherwise != nullptr && otherwise == nullptr)) return nullptr;
          return uniform == nullptr ? then : MakeStmt(If{uniform, then, otherwise});
        },
        [&](const Let& n) -> Stmt {
          if (!Depends(n.value) && !ReadsUnderMask(n.value)) return ReadsAhead(n.value) ? nullptr : s;
          const Expr value = Wide(Vector(n.value));
          const Expr var = c_.Var(n.var->name, value->type);
          vectors_[n.var] = var;
          return ok_ ? MakeStmt(Let{var, value}) : nullptr;
        },
        [&](const Store& n) -> Stmt {
          const bool accumulates = ReadsAhead(n.value);
          --stores_ahead_[n.buffer];
          Store r{n.buffer, {}, nullptr, nullptr};
          bool moves = false;
          for (Expr e : n.indices) {
            r.indices.push_back(Vector(e));
            moves |= r.indices.back()->type.lanes > 1;
          }
          if (!moves) {
            // One element for all lanes: only if each would write the same.
            const bool depends = Depends(n.value) || (n.mask != nullptr && Depends(n.mask)) || mask_ != nullptr;
            return depends || accumulates ? nullptr : s;
          }
          r.value = Wide(Vector(n.value));
          r.mask = n.mask == nullptr ? mask_ : And(Vector(n.mask), mask_);
          return ok_ ? MakeStmt(std::move(r)) : nullptr;
        },
        [&](const Prefetch& n) -> Stmt {
          // Of the first lane, which stands for its neighbours; a hint may be left out.
          const Expr value = Substitute(c_, n.value, {{var_, c_.Int(0)}});
          return mask_ != nullptr || Depends(value) ? MakeSeq({}) : MakeStmt(Prefetch{value});
        },
        [&](const auto&) -> Stmt { return nullptr; });
  }

 public:
  bool Depends(Expr e) {
    bool found = false;
    Visit(e, [&](Expr x) {
      found |= vectors_.contains(x);
      return !found;
    });
    return found;
  }

  // The value in every lane; a scalar where all lanes agree. Sets ok() to false where there is no vector form.
  Expr Vector(Expr e) {
    if (auto it = vectors_.find(e); it != vectors_.end()) return it->second;
    if (auto it = memo_.find(e); it != memo_.end()) return it->second;
    Expr r = Compute(e);
    memo_[e] = r;
    return r;
  }
  Expr Wide(Expr e) { return c_.Broadcast(e, lanes_); }
  bool ok() const { return ok_; }
  void Define(Expr var, Expr vector) { vectors_[var] = vector; }
  void set_mask(Expr m) {
    mask_ = m;
    memo_.clear();
  }

 private:
  Expr And(Expr a, Expr b) { return a == nullptr ? b : b == nullptr ? a : c_.And(a, b); }
  // What is the same in all lanes differs between iterations: it reads what is stored later in the body.
  bool ReadsAhead(Expr e) const {
    bool found = false;
    Visit(e, [&](Expr x) {
      const auto it = x->op == ExprOp::kLoad ? stores_ahead_.find(x->buffer) : stores_ahead_.end();
      found |= it != stores_ahead_.end() && it->second > 0;
      return !found;
    });
    return found;
  }

  // In every lane.
  bool Implies(Expr a, Expr b) {
    Analyzer::Assume assume(a_, a);
    return a_.CanProve(b);
  }

  Stmt Masked(Expr lane, const Stmt& s) {
    const Expr before = mask_, m = Vector(lane);
    if (!ok_) return nullptr;
    mask_ = And(mask_, m);
    memo_.clear();
    Stmt r = Vectorize(s);
    memo_.clear();
    mask_ = before;
    return r;
  }

  Stmt UnderMask(Expr lane, const Stmt& s) {
    if (StaysInRegisters(lane, s)) return Masked(lane, s);
    return Guard(lane, [&] { return Vectorize(s); }, [&] { return Masked(lane, s); });
  }

  // What is added up in whole vectors of its own, under a condition that no step of the loop around changes: a branch
  // in each step would send the sums to memory. Not what reads one element for all lanes, which some lane must want.
  bool StaysInRegisters(Expr lane, const Stmt& s) {
    const Store* n = As<Store>(s);
    if (step_ == nullptr || Uses(lane, step_) || mask_ != nullptr || n == nullptr || n->mask != nullptr) return false;
    bool for_all = false;
    Visit(n->value, [&](Expr e) { return !(for_all |= e->op == ExprOp::kLoad && !Depends(e)); });
    return !for_all && IsWholeVector(n->buffer, n->indices) && ReadsAhead(n->value);
  }

  // Of a buffer that nobody else sees.
  bool IsWholeVector(Buffer b, const std::vector<Expr>& indices) const {
    if (b->scope != Scope::kLocal || indices.size() != 1 || !IsInt(b->shape[0])) return false;
    const Linear at = AddScaled(ToLinear(c_, indices[0]), ToLinear(c_, var_), -1);
    return at.IsConst() && at.constant >= 0 && at.constant + lanes_ <= b->shape[0]->int_value;
  }

  // All lanes may be off, and then nothing may be read.
  bool ReadsUnderMask(Expr e) const {
    bool found = false;
    Visit(e, [&](Expr x) {
      found |= x->op == ExprOp::kLoad;
      return !found;
    });
    return found && mask_ != nullptr && !some_on_;
  }

  Expr Compute(Expr e) {
    if (!Depends(e) && !ReadsUnderMask(e)) return e;
    if (e->type.lanes != 1 || e->op == ExprOp::kShuffleXor) {
      ok_ = false;
      return e;
    }
    std::vector<Expr> args;
    for (Expr x : e->args) args.push_back(Vector(x));
    if (e->op == ExprOp::kLoad) {
      Expr own = nullptr;
      if (e->has_mask) {
        own = args.back();
        args.pop_back();
      }
      bool moves = false;
      for (Expr i : args) moves |= i->type.lanes > 1;
      // A lane that is off must not touch memory.
      Expr mask = moves || !some_on_ ? And(own, mask_) : own;
      if (!moves && mask != nullptr && mask->type.lanes > 1) {
        // One element, wanted by some lanes.
        for (Expr& i : args) i = Wide(i);
      }
      return c_.Load(e->buffer, std::move(args), mask);
    }
    const bool is_index = !IsFloat(e->type.dtype) && e->type.dtype != DType::kBool && args.size() == 2;
    if (is_index) {
      const Expr a = args[0], b = args[1];
      const bool ramp_a = a->op == ExprOp::kRamp, ramp_b = b->op == ExprOp::kRamp;
      const bool scalar_a = a->type.lanes == 1, scalar_b = b->type.lanes == 1;
      auto ramp = [&](Expr base, Expr stride) { return c_.Ramp(base, stride, lanes_); };
      switch (e->op) {
        case ExprOp::kAdd:
          if (ramp_a && scalar_b) return ramp(c_.Add(a->args[0], b), a->args[1]);
          if (scalar_a && ramp_b) return ramp(c_.Add(a, b->args[0]), b->args[1]);
          if (ramp_a && ramp_b) return ramp(c_.Add(a->args[0], b->args[0]), c_.Add(a->args[1], b->args[1]));
          break;
        case ExprOp::kSub:
          if (ramp_a && scalar_b) return ramp(c_.Sub(a->args[0], b), a->args[1]);
          if (scalar_a && ramp_b) return ramp(c_.Sub(a, b->args[0]), c_.Sub(c_.Int(0, b->type.dtype), b->args[1]));
          break;
        case ExprOp::kMul:
          if (ramp_a && scalar_b) return ramp(c_.Mul(a->args[0], b), c_.Mul(a->args[1], b));
          if (scalar_a && ramp_b) return ramp(c_.Mul(a, b->args[0]), c_.Mul(a, b->args[1]));
          break;
        case ExprOp::kDiv:
        case ExprOp::kMod:
          // All lanes lie between two multiples of the divisor.
          if (ramp_a && IsInt(a->args[1], 1) && scalar_b && a_.KnownDivisor(b) % lanes_ == 0 &&
              a_.ConstBounds(b).lo > 0 && a_.KnownDivisor(a->args[0]) % lanes_ == 0) {
            return e->op == ExprOp::kDiv ? c_.Div(a->args[0], b) : ramp(c_.Mod(a->args[0], b), a->args[1]);
          }
          break;
        default:
          break;
      }
    }
    for (Expr& x : args) x = Wide(x);
    return c_.WithArgs(e, std::move(args));
  }

  Context& c_;
  Analyzer& a_;
  NameSupply& names_;
  Expr var_, step_;
  int lanes_;
  bool ok_ = true;
  Expr mask_ = nullptr;
  bool some_on_ = false;                     // of the mask's lanes
  absl::flat_hash_map<Expr, Expr> vectors_;  // lane-dependent variables
  absl::flat_hash_map<Expr, Expr> memo_;     // under the current mask
  absl::flat_hash_map<Buffer, int> stores_ahead_;
};

class Vectorizer {
 public:
  explicit Vectorizer(Func& f) : c_(*f.context), a_(f), names_(f) {}

  Stmt Run(const Stmt& s) {
    const For* n = As<For>(s);
    if (n == nullptr) {
      return MapChildren(s, [](Expr e) { return e; }, [&](const Stmt& x) { return Run(x); });
    }
    if (Stmt r = OnlyFirst(*n); r != nullptr) return Run(r);
    if (Stmt r = Reduction(*n); r != nullptr) return r;
    if (Stmt r = Scan(*n); r != nullptr) return r;
    a_.BindRange(n->var, c_.Int(0), n->extent);
    if (n->kind != ForKind::kVectorized) {
      const bool was_kernel = in_kernel_;
      in_kernel_ = in_kernel_ || IsThreadAxis(n->kind) || IsBlockAxis(n->kind);
      const Expr around = std::exchange(step_, n->kind == ForKind::kSerial && !in_kernel_ ? n->var : step_);
      Stmt body = Run(n->body);
      step_ = around;
      in_kernel_ = was_kernel;
      return MakeStmt(For{n->var, n->extent, n->kind, std::move(body)});
    }
    if (IsInt(n->extent) && n->extent->int_value > 1 && n->extent->int_value <= kMostLanes) {
      Lanes lanes(a_, names_, n->var, static_cast<int>(n->extent->int_value), step_);
      if (Stmt r = lanes.VectorizeBody(n->body); r != nullptr) return r;
    }
    return MakeStmt(For{n->var, n->extent, ForKind::kSerial, Run(n->body)});
  }

 private:
  // What only the first iteration does, the end of a line that is one longer than its vectors: no loop. Null: not such.
  Stmt OnlyFirst(const For& n) {
    const If* guard = As<If>(n.body);
    if (n.kind != ForKind::kVectorized || guard == nullptr || guard->otherwise != nullptr || !IsInt(n.extent) ||
        n.extent->int_value < 1)
      return nullptr;
    const std::vector<Expr> conjuncts = Lanes::Conjuncts(guard->cond);
    const auto is_first = [&](Expr e) { return e == c_.Lt(n.var, c_.Int(1)); };
    if (std::none_of(conjuncts.begin(), conjuncts.end(), is_first)) return nullptr;
    return Substitute(c_, n.body, {{n.var, c_.Int(0)}});
  }

  // What lanes accumulate apart, in `partial`, and what joins these.
  struct LaneSum {
    Buffer buffer;
    std::vector<Expr> indices;
    ExprOp op, across;
    Combiner combiner;
    Expr element, neutral = nullptr;
    Buffer partial = nullptr;
  };
  // A nest of serial loops and one vectorized loop around lane reductions: lanes accumulate apart. Null: not such.
  Stmt Reduction(const For& outer) {
    std::vector<const For*> loops;
    const For* n = &outer;
    while (true) {
      loops.push_back(n);
      if (n->kind == ForKind::kVectorized) break;
      if (n->kind != ForKind::kSerial) return nullptr;
      n = As<For>(n->body);
      if (n == nullptr) return nullptr;
    }
    const For& vector = *loops.back();
    if (!IsInt(vector.extent) || vector.extent->int_value < 2 || vector.extent->int_value > kMostLanes) return nullptr;
    const int lanes = static_cast<int>(vector.extent->int_value);
    absl::flat_hash_set<Expr> vars;
    for (const For* l : loops) vars.insert(l->var);
    // What does not change in the nest stays around all of it: the result may only be touched there.
    Expr around = nullptr, condition = nullptr;
    Stmt steps = vector.body;
    if (const If* guard = As<If>(vector.body); guard != nullptr && guard->otherwise == nullptr) {
      std::function<void(Expr)> add = [&](Expr e) {
        if (e->op == ExprOp::kAnd) return add(e->args[0]), add(e->args[1]);
        Expr& to = Uses(e, vars) ? condition : around;
        to = to == nullptr ? e : c_.And(to, e);
      };
      add(guard->cond);
      steps = guard->then;
    }
    // Several results are reduced side by side, each by an operator of its own.
    const std::optional<Stores> stores = StoresOf(c_, steps);
    if (!stores) return nullptr;
    std::vector<LaneSum> sums;
    for (const For* l : loops) a_.BindRange(l->var, c_.Int(0), l->extent);
    for (size_t k = 0; k < stores->values.size(); ++k) {
      const Expr value = stores->values[k], running = c_.Load(stores->buffers[k], stores->indices[k]);
      const auto op = value->args.size() == 2 ? LaneOp(value->op) : std::nullopt;
      if (!op) return nullptr;
      const Expr element = value->args[0] == running   ? value->args[1]
                           : value->args[1] == running ? value->args[0]
                                                       : nullptr;
      if (element == nullptr) return nullptr;
      bool is_free = true;
      for (Expr i : stores->indices[k]) is_free = is_free && !Uses(i, vars);
      VisitLoads(element, [&](Expr e) { is_free = is_free && !Contains(stores->buffers, e->buffer); });
      if (!is_free) return nullptr;
      sums.push_back({stores->buffers[k], stores->indices[k], value->op, op->first, op->second, element});
    }
    const bool is_local =
        std::all_of(sums.begin(), sums.end(), [](const LaneSum& x) { return x.buffer->scope == Scope::kLocal; });
    // A result that others see is written only if some iteration would: the first, if any.
    if (condition != nullptr && !is_local) {
      VarMap zeros;
      for (Expr v : vars) zeros[v] = c_.Int(0, v->type.dtype);
      for (Expr e : Lanes::Conjuncts(condition)) {
        const Expr first = a_.Simplify(Substitute(c_, e, zeros));
        const Analyzer::Assume assume(a_, e);
        if (!a_.CanProve(first)) return nullptr;
        if (!IsTrue(first)) around = around == nullptr ? first : c_.And(around, first);
      }
    }
    Lanes spread(a_, names_, vector.var, lanes);
    const Expr at = c_.Ramp(c_.Int(0), c_.Int(1), lanes);
    std::vector<Stmt> all;
    for (LaneSum& x : sums) {
      x.neutral = Identity(c_, x.combiner, x.buffer->dtype);
      x.partial = c_.MakeBuffer({.name = names_.Fresh("lanes"),
                                 .dtype = x.buffer->dtype,
                                 .shape = {c_.Int(lanes)},
                                 .scope = Scope::kLocal,
                                 .alignment = 64});
      all.push_back(MakeStmt(Alloc{x.partial}));
      all.push_back(MakeStmt(Store{x.partial, {at}, c_.Broadcast(x.neutral, lanes)}));
    }
    auto accumulate = [&](Expr mask) -> Stmt {
      spread.set_mask(mask);
      std::vector<Stmt> r;
      for (const LaneSum& x : sums) {
        Expr value = spread.Wide(spread.Vector(x.element));
        if (mask != nullptr) value = c_.Select(mask, value, c_.Broadcast(x.neutral, lanes));
        r.push_back(MakeStmt(Store{x.partial, {at}, c_.Make(x.op, {c_.Load(x.partial, {at}), value})}));
      }
      return MakeSeq(std::move(r));
    };
    Expr uniform = nullptr;
    if (condition != nullptr) {
      Expr lane = nullptr;
      for (Expr e : Lanes::Conjuncts(condition)) {
        Expr& to = Uses(e, vector.var) ? lane : uniform;
        to = to == nullptr ? e : c_.And(to, e);
      }
      condition = lane;
    }
    Stmt body = condition == nullptr ? accumulate(nullptr)
                                     : spread.Guard(
                                           condition, [&] { return accumulate(nullptr); },
                                           [&] { return accumulate(spread.Wide(spread.Vector(condition))); });
    if (!spread.ok()) return nullptr;
    if (uniform != nullptr) body = MakeStmt(If{uniform, body, nullptr});
    for (size_t i = loops.size() - 1; i-- > 0;)
      body = MakeStmt(For{loops[i]->var, loops[i]->extent, loops[i]->kind, body});
    all.push_back(body);
    for (const LaneSum& x : sums) {
      const DType t = x.buffer->dtype, joined_in = t == DType::kBool ? DType::kU8 : t;
      const Expr joined = c_.Cast(t, c_.Make(x.across, {c_.Cast(joined_in, c_.Load(x.partial, {at}))}));
      all.push_back(MakeStmt(Store{x.buffer, x.indices, c_.Make(x.op, {c_.Load(x.buffer, x.indices), joined})}));
    }
    const Stmt r = MakeSeq(std::move(all));
    return around == nullptr ? r : MakeStmt(If{around, r, nullptr});
  }

  // A vectorized loop around one step of a scan: in lanes, parts of 1, 2, 4, ... are joined with those before them,
  // then all with what ran up to here. Null: not such.
  Stmt Scan(const For& n) {
    if (n.kind != ForKind::kVectorized || !IsInt(n.extent) || n.extent->int_value < 2 ||
        n.extent->int_value > kMostLanes)
      return nullptr;
    const int lanes = static_cast<int>(n.extent->int_value);
    const If* guard = As<If>(n.body);
    if (guard != nullptr && guard->otherwise != nullptr) return nullptr;
    const std::optional<ScanStep> step = ScanStepOf(c_, guard != nullptr ? guard->then : n.body, {n.var});
    if (!step) return nullptr;
    const size_t size = step->vars.size();
    const std::vector<Expr> running = step->running.Running(c_);
    const std::optional<Join> join = FindJoin(c_, step->running.values, running);
    if (!join) return nullptr;
    std::vector<Buffer> written = step->running.buffers;
    for (const Store& s : step->results) written.push_back(s.buffer);
    bool reads_result = false;
    for (Expr e : join->elements) {
      VisitLoads(e, [&](Expr x) { reads_result |= Contains(written, x->buffer); });
    }
    // Lanes that are off change nothing.
    std::vector<Expr> neutral;
    for (size_t k = 0; k < size; ++k) {
      const ExprOp op = step->running.values[k]->op;
      neutral.push_back(op == ExprOp::kSelect ? running[k] : NeutralOf(c_, op, running[k]->type.dtype));
      if (neutral[k] == nullptr) return nullptr;
    }
    if (reads_result) return nullptr;
    std::vector<Expr> first, second;
    for (size_t k = 0; k < size; ++k) {
      first.push_back(c_.Var(Cat("first", k), running[k]->type));
      second.push_back(c_.Var(Cat("second", k), running[k]->type));
    }
    const std::vector<Expr> joined = join->Joined(c_, first, second);
    a_.BindRange(n.var, c_.Int(0), n.extent);
    Lanes spread(a_, names_, n.var, lanes);
    const auto make = [&](Expr mask) -> Stmt {
      std::vector<Stmt> out;
      const auto let = [&](std::string_view name, const std::vector<Expr>& values) {
        std::vector<Expr> vars;
        for (Expr e : values) {
          vars.push_back(c_.Var(names_.Fresh(name), e->type));
          out.push_back(MakeStmt(Let{vars.back(), e}));
        }
        return vars;
      };
      const auto join_of = [&](const std::vector<Expr>& a, const std::vector<Expr>& b) {
        VarMap map;
        for (size_t k = 0; k < size; ++k) map[first[k]] = a[k], map[second[k]] = b[k];
        std::vector<Expr> r;
        for (Expr e : joined) r.push_back(Substitute(c_, e, map));
        return r;
      };
      spread.set_mask(mask);
      std::vector<Expr> x;
      for (size_t k = 0; k < size; ++k) {
        x.push_back(spread.Wide(spread.Vector(join->elements[k])));
        if (mask != nullptr) x[k] = c_.Select(mask, x[k], c_.Broadcast(neutral[k], lanes));
      }
      x = let("part", x);
      for (int d = 1; d < lanes; d *= 2) {
        std::vector<Expr> before, next;
        for (Expr e : x) before.push_back(c_.Make(ExprOp::kLaneShift, {e, c_.Int(d, DType::kI32)}));
        const Expr has = c_.Make(ExprOp::kLe, {c_.Int(d), c_.Ramp(c_.Int(0), c_.Int(1), lanes)});
        const std::vector<Expr> of_both = join_of(before, x);
        for (size_t k = 0; k < size; ++k) next.push_back(c_.Make(ExprOp::kSelect, {has, of_both[k], x[k]}));
        x = let("part", next);
      }
      const std::vector<Expr> ran = let("ran", running);
      std::vector<Expr> wide, last;
      for (size_t k = 0; k < size; ++k) {
        wide.push_back(c_.Broadcast(ran[k], lanes));
        last.push_back(c_.Make(ExprOp::kLaneLast, {x[k]}));
      }
      const std::vector<Expr> whole = join_of(wide, x), next = join_of(ran, last);
      for (size_t k = 0; k < size; ++k) {
        out.push_back(MakeStmt(Store{step->running.buffers[k], step->running.indices[k], next[k], nullptr}));
        spread.Define(step->vars[k], whole[k]);
      }
      for (const Store& s : step->results) {
        Store r{s.buffer, {}, spread.Wide(spread.Vector(s.value)), mask};
        for (Expr e : s.indices) r.indices.push_back(spread.Vector(e));
        out.push_back(MakeStmt(std::move(r)));
      }
      return spread.ok() ? MakeSeq(std::move(out)) : nullptr;
    };
    Expr lane = nullptr, uniform = nullptr;
    for (Expr e : guard == nullptr ? std::vector<Expr>{} : Lanes::Conjuncts(guard->cond)) {
      Expr& to = spread.Depends(e) ? lane : uniform;
      to = to == nullptr ? e : c_.And(to, e);
    }
    Stmt r =
        lane == nullptr
            ? make(nullptr)
            : spread.Guard(lane, [&] { return make(nullptr); }, [&] { return make(spread.Wide(spread.Vector(lane))); });
    if (r == nullptr || !spread.ok()) return nullptr;
    return uniform == nullptr ? r : MakeStmt(If{uniform, r, nullptr});
  }

  Context& c_;
  Analyzer a_;
  NameSupply names_;
  bool in_kernel_ = false;  // whose threads take branches together, as most do
  Expr step_ = nullptr;     // the variable of the innermost serial loop around, of host code
};

}  // namespace

StatusOr<Func> Vectorize(Func f) {
  f.body = Vectorizer(f).Run(f.body);
  return f;
}

}  // namespace cinn_like::ir
