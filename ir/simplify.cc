#include <algorithm>
#include <cmath>

#include "ir/analyzer.h"
#include "ir/divisors.h"
#include "ir/rules.h"

namespace cinn_like::ir {
namespace {

bool IsIndexLike(DType t) { return IsInt(t); }
bool IsZero(const Linear& l) { return l.IsConst() && l.constant == 0; }

void Conjuncts(Expr e, ExprOp op, std::vector<Expr>& out) {
  if (e->op == op) {
    for (Expr a : e->args) Conjuncts(a, op, out);
  } else if (std::find(out.begin(), out.end(), e) == out.end()) {
    out.push_back(e);
  }
}

// The scalar that lane `lane` of `e` holds; null if it is not a ramp or a broadcast.
Expr LaneOf(Context& c, Expr e, Expr lane) {
  if (e->op == ExprOp::kBroadcast) return e->args[0];
  if (e->op != ExprOp::kRamp) return nullptr;
  Expr l = c.Cast(e->type.dtype, lane);
  return c.Add(e->args[0], c.Mul(l, e->args[1]));
}

}  // namespace

Expr Analyzer::Simplify(Expr e) {
  if (e->op == ExprOp::kInt || e->op == ExprOp::kFloat) return e;
  auto it = simplified_.find(e);
  if (it != simplified_.end()) return it->second;
  const Expr plain = MapChildren(c_, e, [this](Expr x) { return Simplify(x); });
  Expr r = Rewrite(plain);
  if (!KeepsChecks(plain, r)) r = plain;
  if (r->type.dtype == DType::kBool && !r->checks) {
    for (auto& [known, value] : truths_) {
      if (known == r) r = c_.Bool(value);
    }
  }
  simplified_.emplace(e, r);
  simplified_.emplace(r, r);
  return r;
}

// Whether floats of type `t` hold each integer of type `of`.
bool Holds(DType t, DType of) {
  if (!IsFloat(t) || !IsInt(of)) return false;
  const int digits = t == DType::kBF16 ? 8 : t == DType::kF16 ? 11 : t == DType::kF32 ? 24 : 53;
  return InfoOf(of).bits - (IsSigned(of) ? 1 : 0) <= digits;
}

// The operands are simple.
Expr Analyzer::Rewrite(Expr e) {
  if (e->op == ExprOp::kVar) {
    const VarInfo* v = Find(e);
    return v != nullptr && v->lo == v->hi ? c_.Int(v->lo, e->type.dtype) : e;
  }
  if (Expr mask = e->op == ExprOp::kLoad ? MaskOf(e) : nullptr; mask != nullptr) {
    if (mask->op == ExprOp::kBroadcast) mask = mask->args[0];
    if (IsTrue(mask)) return c_.Load(e->buffer, IndicesOf(e));
    if (IsInt(mask, 0)) return c_.Broadcast(c_.Const(0, e->type.dtype), e->type.lanes);
  }
  if (e->op == ExprOp::kRamp && IsInt(e->args[1], 0)) return c_.Broadcast(e->args[0], e->type.lanes);
  if (e->op == ExprOp::kCast) {
    // Widening and back.
    Expr inner = e->args[0];
    if (inner->op == ExprOp::kCast && inner->args[0]->type == e->type &&
        IsFloat(e->type.dtype) == IsFloat(inner->type.dtype) && BytesOf(inner->type.dtype) > BytesOf(e->type.dtype)) {
      return inner->args[0];
    }
    // f32(bf16(x)), x an i8: on the way it is what it was.
    if (inner->op == ExprOp::kCast && IsFloat(e->type.dtype) && Holds(inner->type.dtype, inner->args[0]->type.dtype))
      return c_.Cast(e->type.dtype, inner->args[0]);
  }
  if (RowOf(e->op) == nullptr) return e;
  if (e->op == ExprOp::kSelect) {
    Expr r = c_.Select(e->args[0], e->args[1], e->args[2]);
    if (r->op == ExprOp::kSelect && r->args[0]->op == ExprOp::kBroadcast && IsInt(r->args[0]->args[0])) {
      r = r->args[IsTrue(r->args[0]->args[0]) ? 1 : 2];
    }
    if (r->op == ExprOp::kSelect && r->args[0]->op == ExprOp::kNot)
      return c_.Select(r->args[0]->args[0], r->args[2], r->args[1]);
    return r;
  }
  const Type operand = e->args[0]->type;
  if (operand.lanes > 1) return IsFloat(operand.dtype) ? RewriteFloat(e) : RewriteVector(e);
  if (IsFloat(operand.dtype)) return RewriteFloat(e);
  return RewriteInt(e);
}

Expr Analyzer::RewriteInt(Expr e) {
  std::vector<int64_t> values;
  for (Expr a : e->args) {
    if (IsInt(a)) values.push_back(a->int_value);
  }
  const DType t = e->args[0]->type.dtype;
  if (values.size() == e->args.size()) {
    if (auto v = FoldInt(e->op, t, values)) return c_.Int(*v, e->type.dtype);
  }
  switch (e->op) {
    case ExprOp::kAdd:
    case ExprOp::kSub:
    case ExprOp::kNeg:
    case ExprOp::kMul: {
      if (!IsIndexLike(t)) return e;
      Linear l = LinearOf(e);
      if (l.exact) l = Recombine(std::move(l), t);
      if (CannotWrap(l, t)) {
        if (Bounds b = BoundsOf(l); b.IsConst() && !l.IsConst()) return c_.Int(b.lo, t);
      }
      return FromLinear(c_, l, t);
    }
    case ExprOp::kDiv:
    case ExprOp::kMod: {
      Linear l, a = LinearOf(e->args[0]);
      if (CannotWrap(a, t) && DivideLinear(a, e->args[1], e->op == ExprOp::kMod, t, &l)) return FromLinear(c_, l, t);
      if (IsInt(e->args[1], 1)) return e->op == ExprOp::kDiv ? e->args[0] : c_.Int(0, t);
      return Rules(e);
    }
    case ExprOp::kTruncDiv:
      return IsInt(e->args[1], 1) ? e->args[0] : Rules(e);
    case ExprOp::kTruncMod:
      return IsInt(e->args[1], 1) ? c_.Int(0, t) : Rules(e);
    case ExprOp::kMin:
    case ExprOp::kMax: {
      if (e->args[0] == e->args[1]) return e->args[0];
      if (IsInt(e->args[0])) e = c_.Make(e->op, {e->args[1], e->args[0]});
      return Rules(e);
    }
    case ExprOp::kLt:
    case ExprOp::kLe:
    case ExprOp::kEq:
    case ExprOp::kNe:
      return RewriteCompare(e->op, e->args[0], e->args[1]);
    case ExprOp::kAnd:
      return RewriteAnd(e);
    case ExprOp::kOr: {
      std::vector<Expr> parts;
      Conjuncts(e, ExprOp::kOr, parts);
      Expr r = c_.Bool(false);
      for (Expr p : parts) r = c_.Or(r, p);
      return r;
    }
    case ExprOp::kShl:
    case ExprOp::kShr:
    case ExprOp::kBitOr:
    case ExprOp::kBitXor:
      return IsInt(e->args[1], 0) ? e->args[0] : e;
    case ExprOp::kNot:
      return e->args[0]->op == ExprOp::kNot ? e->args[0]->args[0] : Rules(e);
    default:
      return Rules(e);
  }
}

Expr Analyzer::Rules(Expr e) {
  Expr operand = e->args[0]->type.dtype == DType::kBool && e->args.size() > 1 ? e->args[1] : e->args[0];
  if (e->op == ExprOp::kNot && operand->args.size() == 2) operand = operand->args[0];  // of a comparison
  for (const Rule* rule : RulesFor(e->op)) {
    if (!rule->HoldsFor(operand->type.dtype) || (rule->is_arithmetic && IsData(e))) continue;
    Expr r = ApplyRule(c_, *rule, e, [this](Expr cond) { return CanProve(cond); });
    if (r != nullptr) return Simplify(r);
  }
  return e;
}

Expr Analyzer::RewriteCompare(ExprOp op, Expr a, Expr b) {
  const DType t = a->type.dtype;
  const bool is_equality = op == ExprOp::kEq || op == ExprOp::kNe;
  if (a == b) return c_.Bool(op == ExprOp::kEq || op == ExprOp::kLe);
  Expr same = c_.Make(op, {a, b});
  if (t == DType::kBool) {
    if (!is_equality || !IsInt(b)) return same;
    return (b->int_value != 0) == (op == ExprOp::kEq) ? a : Rules(c_.Not(a));
  }
  // A number beyond what bounds speak of lies beyond every known bound.
  for (const auto& [far, near] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!IsInt(far) || Bounds{far->int_value, far->int_value}.IsKnown() || !ConstBounds(near).IsKnown()) continue;
    return c_.Bool(is_equality ? op == ExprOp::kNe : (far->int_value > 0) == (far == b));
  }
  const Linear la = LinearOf(a), lb = LinearOf(b);
  if (!CannotWrap(la, t) || !CannotWrap(lb, t)) return same;
  Linear d = AddScaled(lb, la, -1);
  if (op == ExprOp::kLe) AddConstant(d, 1);
  if (!d.exact) return same;
  d = Recombine(std::move(d), t);
  if (!d.exact) return same;
  Expr r = is_equality ? RewriteEqual(op == ExprOp::kNe, d, t) : RewritePositive(d, t);
  // Moving terms across may overflow where the sides did not.
  return IsInt(r) || (t == DType::kI64 && !IsData(same)) ? r : same;
}

Expr Analyzer::RewritePositive(const Linear& d, DType t) {
  if (ProveAtLeast(d, 1)) return c_.Bool(true);
  if (ProveAtLeast(Scale(d, -1), 0)) return c_.Bool(false);
  // max(x, y) + rest > 0 is x + rest > 0 where y + rest never is.
  for (const LinearTerm& m : d.terms) {
    if (m.atom->op != (m.coef > 0 ? ExprOp::kMax : ExprOp::kMin)) continue;
    if (!CannotWrap(LinearOf(m.atom->args[0]), t) || !CannotWrap(LinearOf(m.atom->args[1]), t)) continue;
    const auto with = [&](Expr x) {
      Linear r = d;
      RemoveTerm(r, m.atom);
      return AddScaled(std::move(r), LinearOf(x), m.coef);
    };
    for (int k : {0, 1}) {
      if (const Linear rest = with(m.atom->args[1 - k]); rest.exact && ProveAtLeast(Scale(rest, -1), 0))
        return RewritePositive(with(m.atom->args[k]), t);
    }
  }
  // d = g * high + low > 0 is high >= m if every value of low asks for the same m.
  std::vector<int64_t> divisors;
  auto divisor_of = [&](const LinearTerm& x) { return DivisorOf({{x}, 0}); };
  for (const LinearTerm& x : d.terms) divisors.push_back(divisor_of(x));
  for (int64_t g : Candidates(divisors)) {
    Linear high, low;
    low.constant = d.constant;
    for (const LinearTerm& x : d.terms) AddTerm(divisor_of(x) % g == 0 ? high : low, x.atom, x.coef);
    const Bounds r = BoundsOf(low);
    if (!r.IsKnown()) continue;
    const int64_t m = CeilDiv(1 - r.hi, g);
    if (m != CeilDiv(1 - r.lo, g)) continue;
    // high >= g * m; where the coefficients allow, divided by g.
    const int64_t common = Gcd(GcdOfCoefs(high), g);
    Linear next = high;
    for (LinearTerm& x : next.terms) x.coef /= common;
    next = AddScaled(std::move(next), Constant(m - 1), -(g / common));
    if (!next.exact) continue;
    if (next.terms.size() == d.terms.size() && next.terms[0].coef == d.terms[0].coef && next.constant == d.constant)
      break;
    return RewritePositive(next, t);
  }
  // Positive terms and the constant to the right.
  Linear left, right;
  for (const LinearTerm& x : d.terms) {
    if (x.coef > 0) {
      AddTerm(right, x.atom, x.coef);
    } else {
      AddTerm(left, x.atom, -x.coef);
    }
  }
  if (d.constant < 0 && left.terms.empty()) {
    left.constant = -d.constant;
  } else {
    right.constant = d.constant;
  }
  return c_.Lt(FromLinear(c_, left, t), FromLinear(c_, right, t));
}

Expr Analyzer::RewriteEqual(bool negate, const Linear& d, DType t) {
  if (d.IsConst()) return c_.Bool((d.constant == 0) != negate);
  const bool at_least = ProveAtLeast(d, 0), at_most = ProveAtLeast(Scale(d, -1), 0);
  if (at_least && at_most) return c_.Bool(!negate);
  if ((at_least && ProveAtLeast(d, 1)) || (at_most && ProveAtLeast(Scale(d, -1), 1))) return c_.Bool(negate);
  const int64_t common = DivisorOf({d.terms, 0});
  if (common > 1 && d.constant % common != 0) return c_.Bool(negate);
  auto join = [&](Expr a, Expr b) { return negate ? c_.Or(a, b) : c_.And(a, b); };
  // g * high + low is 0 only where both are, if |low| < g.
  std::vector<int64_t> divisors;
  for (const LinearTerm& x : d.terms) divisors.push_back(x.coef < 0 ? -x.coef : x.coef);
  for (int64_t g : Candidates(divisors)) {
    Linear high, low;
    // The constant's sign decides which remainder may be in range.
    for (int64_t constant : {FloorMod(d.constant, g), FloorMod(d.constant, g) - g}) {
      high = low = {};
      low.constant = constant;
      high.constant = (d.constant - constant) / g;
      for (const LinearTerm& x : d.terms) {
        if (x.coef % g == 0) {
          AddTerm(high, x.atom, x.coef / g);
        } else {
          AddTerm(low, x.atom, x.coef);
        }
      }
      const Bounds r = BoundsOf(low);
      if (r.lo <= -g || r.hi >= g) continue;
      if (IsZero(low)) return RewriteEqual(negate, high, t);
      return join(RewriteEqual(negate, high, t), RewriteEqual(negate, low, t));
    }
  }
  // A sum of terms of one sign.
  if (d.constant == 0 && d.terms.size() > 1) {
    bool all_nonnegative = true, all_nonpositive = true;
    for (const LinearTerm& x : d.terms) {
      const Bounds r = BoundsOf({{x}, 0});
      all_nonnegative = all_nonnegative && r.lo >= 0;
      all_nonpositive = all_nonpositive && r.hi <= 0;
    }
    if (all_nonnegative || all_nonpositive) {
      Expr r = nullptr;
      for (const LinearTerm& x : d.terms) {
        Expr one = RewriteEqual(negate, {{{x.atom, 1}}, 0}, t);
        r = r == nullptr ? one : join(r, one);
      }
      return r;
    }
  }
  const int64_t sign = d.terms[0].coef > 0 ? 1 : -1;
  Linear left, right;
  for (const LinearTerm& x : d.terms) AddTerm(x.coef * sign > 0 ? left : right, x.atom, x.coef > 0 ? x.coef : -x.coef);
  right.constant = -d.constant * sign;
  return c_.Make(negate ? ExprOp::kNe : ExprOp::kEq, {FromLinear(c_, left, t), FromLinear(c_, right, t)});
}

Expr Analyzer::RewriteAnd(Expr e) {
  std::vector<Expr> parts;
  Conjuncts(e, ExprOp::kAnd, parts);
  // d > 0 where the condition is an index comparison.
  auto positive = [&](Expr x, Linear* d) {
    if (x->op != ExprOp::kLt || x->args[0]->type != kIndexType || IsData(x)) return false;
    *d = AddScaled(LinearOf(x->args[1]), LinearOf(x->args[0]), -1);
    return true;
  };
  Expr r = c_.Bool(true);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (IsInt(parts[i], 0)) return parts[i];
    Linear mine, other;
    bool implied = false;
    for (size_t j = 0; j < parts.size() && positive(parts[i], &mine); ++j) {
      if (i == j || parts[j] == nullptr || !positive(parts[j], &other)) continue;
      if (BoundsOf(AddScaled(mine, other, 1)).hi < 2) return c_.Bool(false);
      implied = implied || BoundsOf(AddScaled(mine, other, -1)).lo >= 0;
    }
    if (implied) {
      parts[i] = nullptr;
      continue;
    }
    r = c_.And(r, parts[i]);
  }
  return r;
}

// A ramp is a scalar of a lane variable: simplify that, and see whether it is a ramp again.
Expr Analyzer::RewriteVector(Expr e) {
  const int lanes = e->args[0]->type.lanes;
  if (e->type.lanes != lanes || e->op == ExprOp::kShuffleXor || e->op == ExprOp::kLaneShift) return e;
  Expr lane = c_.Var(Cat("lane_of_", lanes));
  if (!vars_.contains(lane)) {
    VarInfo info;
    info.lo = 0;
    info.hi = lanes - 1;
    info.order = 1 << 20;
    vars_.emplace(lane, info);
  }
  std::vector<Expr> args;
  for (Expr a : e->args) {
    if (a->type.lanes == 1) {
      args.push_back(a);
      continue;
    }
    args.push_back(LaneOf(c_, a, lane));
    if (args.back() == nullptr) return e;
  }
  Expr r = Simplify(c_.Make(e->op, args));
  if (!Uses(r, lane)) return c_.Broadcast(r, lanes);
  if (!IsInt(r->type.dtype) || r->type.dtype != DType::kI64) return e;
  Linear base = LinearOf(r), stride;
  for (const LinearTerm& x : LinearOf(r).terms) {
    std::vector<Expr> factors = FactorsOf(x.atom);
    auto it = std::find(factors.begin(), factors.end(), lane);
    if (it == factors.end()) continue;
    factors.erase(it);
    RemoveTerm(base, x.atom);
    if (factors.empty()) {
      AddConstant(stride, x.coef);
    } else {
      AddTerm(stride, MakeAtom(c_, factors), x.coef);
    }
  }
  Expr b = FromLinear(c_, base, e->type.dtype), s = FromLinear(c_, stride, e->type.dtype);
  if (Uses(b, lane) || Uses(s, lane)) return e;
  return c_.Ramp(b, s, lanes);
}

Expr Analyzer::RewriteFloat(Expr e) {
  const DType t = e->args[0]->type.dtype;
  Expr a = e->args[0], b = e->args.size() > 1 ? e->args[1] : nullptr;
  auto is = [](Expr x, double v) {
    if (x->op == ExprOp::kBroadcast) x = x->args[0];
    return x->op == ExprOp::kFloat && x->float_value == v && std::signbit(x->float_value) == std::signbit(v);
  };
  const bool folds = a->op == ExprOp::kFloat && (b == nullptr || b->op == ExprOp::kFloat) && e->args.size() <= 2;
  const double x = folds ? a->float_value : 0, y = folds && b != nullptr ? b->float_value : 0;
  switch (e->op) {
    case ExprOp::kAdd:
      // f64 rounds once and rounding a f64 sum again to f32 or less is innocuous; so are - * /.
      if (folds) return c_.Float(x + y, t);
      if (is(b, -0.0)) return a;
      return is(a, -0.0) ? b : e;
    case ExprOp::kSub:
      if (folds) return c_.Float(x - y, t);
      return is(b, 0.0) ? a : e;
    case ExprOp::kMul:
      if (folds) return c_.Float(x * y, t);
      if (is(b, 1.0)) return a;
      return is(a, 1.0) ? b : e;
    case ExprOp::kDiv:
      if (folds) return c_.Float(x / y, t);
      return is(b, 1.0) ? a : e;
    case ExprOp::kNeg:
      if (folds) return c_.Float(-x, t);
      return a->op == ExprOp::kNeg ? a->args[0] : e;
    case ExprOp::kMin:
    case ExprOp::kMax:
      return a == b ? a : e;
    case ExprOp::kLt:
      return folds ? c_.Bool(x < y) : e;
    case ExprOp::kLe:
      return folds ? c_.Bool(x <= y) : e;
    case ExprOp::kEq:
      return folds ? c_.Bool(x == y) : e;
    case ExprOp::kNe:
      return folds ? c_.Bool(x != y) : e;
    default:
      return e;
  }
}

}  // namespace cinn_like::ir
