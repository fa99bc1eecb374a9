#include "ir/analyzer.h"

#include <algorithm>

#include "glog/logging.h"

namespace cinn_like::ir {
namespace {

using Bounds = Analyzer::Bounds;
constexpr int64_t kUnknown = Analyzer::kUnknown;

// All bounds are made by this: what lies beyond what they can say is less than it and not known, on that side alone.
Bounds Between(__int128 lo, __int128 hi) {
  constexpr __int128 kMost = kUnknown;
  return {static_cast<int64_t>(std::clamp(lo, -kMost, kMost - 1)),
          static_cast<int64_t>(std::clamp(hi, -kMost + 1, kMost))};
}
// Unknown absorbs: a finite result must not come from an infinite operand.
Bounds Add(Bounds a, Bounds b) {
  auto lo = a.lo <= -kUnknown || b.lo <= -kUnknown ? -kUnknown : a.lo + b.lo;
  auto hi = a.hi >= kUnknown || b.hi >= kUnknown ? kUnknown : a.hi + b.hi;
  return Between(lo, hi);
}
Bounds Mul(Bounds a, Bounds b) {
  __int128 p[4] = {a.lo, a.lo, a.hi, a.hi};
  for (int i = 0; i < 4; ++i) p[i] *= i % 2 == 0 ? b.lo : b.hi;
  return Between(*std::min_element(p, p + 4), *std::max_element(p, p + 4));
}
Bounds Negate(Bounds a) { return {-a.hi, -a.lo}; }
Bounds Union(Bounds a, Bounds b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }
Bounds Intersect(Bounds a, Bounds b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }
int64_t DivSat(int64_t a, int64_t b) { return a >= kUnknown || a <= -kUnknown ? a : FloorDiv(a, b); }

Bounds RangeOf(DType t) {
  if (t == DType::kBool) return {0, 1};
  const DTypeInfo& info = InfoOf(t);
  if (info.kind == DTypeKind::kUInt) return {0, info.bits >= 62 ? kUnknown : (int64_t{1} << info.bits) - 1};
  if (info.kind == DTypeKind::kInt && info.bits < 62) {
    return {-(int64_t{1} << (info.bits - 1)), (int64_t{1} << (info.bits - 1)) - 1};
  }
  return {};
}
bool Within(Bounds a, Bounds b) { return a.lo >= b.lo && a.hi <= b.hi; }

}  // namespace

Analyzer::Analyzer(const Func& f) : c_(*f.context) {
  for (const SymbolFact& s : f.symbols) BindSymbol(s);
}

void Analyzer::Forget() {
  unknown_.clear();
  simplified_.clear();
  bounds_.clear();
  divisors_.clear();
}

const Analyzer::VarInfo* Analyzer::Find(Expr var) {
  auto it = vars_.find(var);
  if (it != vars_.end()) return &it->second;
  unknown_.insert(var);
  return nullptr;
}

Analyzer::VarInfo& Analyzer::Mutable(Expr var) {
  auto [it, fresh] = vars_.try_emplace(var);
  if (fresh) {
    const Bounds r = RangeOf(var->type.dtype);
    it->second.lo = r.lo;
    it->second.hi = r.hi;
    it->second.order = static_cast<int>(vars_.size());
  }
  return it->second;
}

void Analyzer::BindRange(Expr var, Expr min, Expr extent) {
  const Linear lo = LinearOf(Simplify(min));
  Linear hi = AddScaled(lo, LinearOf(Simplify(extent)), 1);
  AddConstant(hi, -1);
  VarInfo info;
  info.lo = BoundsOf(lo).lo;
  info.hi = BoundsOf(hi).hi;
  info.order = static_cast<int>(vars_.size()) + 1;
  info.has_range = !IsData(min) && !IsData(extent);  // memory changes
  info.min = lo;
  info.max = hi;
  const bool was_asked_for = vars_.contains(var) || unknown_.contains(var);
  vars_[var] = std::move(info);
  if (was_asked_for) Forget();
}

void Analyzer::BindSymbol(const SymbolFact& fact) {
  VarInfo& info = Mutable(fact.var);
  const Bounds b = Between(fact.lo, fact.hi);
  info.lo = b.lo;
  info.hi = b.hi;
  info.divisor = std::max<int64_t>(fact.divisor, 1);
  Forget();
}

Analyzer::Assume::Assume(Analyzer& a, Expr cond)
    : a_(a), facts_(a.facts_.size()), undo_(a.undo_.size()), truths_(a.truths_.size()) {
  a.Learn(a.Simplify(cond));
  if (Learned()) a.Forget();
}
void Analyzer::Require(Expr cond) {
  Learn(Simplify(cond));
  undo_.clear();
  Forget();
}
bool Analyzer::Assume::Learned() const {
  return a_.facts_.size() > facts_ || a_.truths_.size() > truths_ || a_.undo_.size() > undo_;
}
Analyzer::Assume::~Assume() {
  if (!Learned()) return;
  a_.facts_.resize(facts_);
  a_.truths_.resize(truths_);
  while (a_.undo_.size() > undo_) {
    a_.vars_[a_.undo_.back().first] = std::move(a_.undo_.back().second);
    a_.undo_.pop_back();
  }
  a_.Forget();
}

void Analyzer::Learn(Expr cond) {
  if (cond->type.lanes != 1 || IsInt(cond)) return;
  if (cond->op == ExprOp::kAnd) {
    Learn(cond->args[0]);
    Learn(cond->args[1]);
    return;
  }
  if (IsData(cond)) return;  // memory changes
  Expr opposite = Simplify(c_.Not(cond));
  truths_.emplace_back(cond, true);
  truths_.emplace_back(opposite, false);
  if (cond->op != ExprOp::kLt && cond->op != ExprOp::kLe && cond->op != ExprOp::kEq) return;
  Expr a = cond->args[0], b = cond->args[1];
  const DType t = a->type.dtype;
  if (IsFloat(t) || t == DType::kBool) return;
  if (cond->op == ExprOp::kEq && a->op == ExprOp::kMod && IsInt(b, 0) && IsInt(a->args[1])) {
    if (Expr v = a->args[0]; v->op == ExprOp::kVar && a->args[1]->int_value > 0) {
      VarInfo& info = Mutable(v);
      undo_.emplace_back(v, info);
      const int64_t divisor = a->args[1]->int_value;
      const __int128 both = static_cast<__int128>(info.divisor / Gcd(info.divisor, divisor)) * divisor;
      info.divisor = both < kUnknown ? static_cast<int64_t>(both) : std::max(info.divisor, divisor);
    }
  }
  const Linear la = LinearOf(a), lb = LinearOf(b);
  if (!CannotWrap(la, t) || !CannotWrap(lb, t)) return;
  Linear d = AddScaled(lb, la, -1);
  if (cond->op == ExprOp::kLt) AddConstant(d, -1);
  LearnNonNegative(d);
  if (cond->op == ExprOp::kEq) LearnNonNegative(Scale(d, -1));
}

void Analyzer::LearnNonNegative(Linear l) {
  // Multiples of d that are at least -c are at least the next multiple.
  Linear multiples = l;
  multiples.constant = 0;
  if (const int64_t d = DivisorOf(multiples); d > 1) AddConstant(l, FloorDiv(l.constant, d) * d - l.constant);
  facts_.push_back(l);
  // A bound of each variable that the others leave.
  for (const LinearTerm& t : l.terms) {
    if (t.atom->op != ExprOp::kVar) continue;
    Linear rest = l;
    RemoveTerm(rest, t.atom);
    const int64_t hi = BoundsOf(rest).hi;  // coef * var >= -rest >= -hi
    if (hi >= kUnknown) continue;
    VarInfo& info = Mutable(t.atom);
    undo_.emplace_back(t.atom, info);
    if (t.coef > 0) {
      info.lo = std::max(info.lo, CeilDiv(-hi, t.coef));
    } else {
      info.hi = std::min(info.hi, FloorDiv(hi, -t.coef));
    }
  }
  bounds_.clear();
}

Linear Analyzer::LinearOf(Expr e) {
  if (e->op == ExprOp::kInt) return Constant(e->int_value);
  if (RowOf(e->op) == nullptr) return {{{e, 1}}, 0};
  auto it = linear_.find(e);
  if (it == linear_.end()) it = linear_.emplace(e, ToLinear(c_, e)).first;
  return it->second;
}

bool Analyzer::IsData(Expr e) {
  if (e->op == ExprOp::kInt || e->op == ExprOp::kVar) return false;
  auto it = is_data_.find(e);
  if (it != is_data_.end()) return it->second;
  bool r = e->op == ExprOp::kLoad || e->op == ExprOp::kFloat || e->op == ExprOp::kShuffleXor || IsFloat(e->type.dtype);
  for (Expr a : e->args) r = r || IsData(a);
  is_data_.emplace(e, r);
  return r;
}

bool Analyzer::CannotWrap(const Linear& l, DType t) {
  if (!l.exact) return false;
  if (t == DType::kI64) {
    bool is_data = false;
    for (const LinearTerm& x : l.terms) is_data = is_data || (IsData(x.atom) && !AtomBounds(x.atom).IsKnown());
    if (!is_data) return true;
    // One loaded value as it is cannot wrap either.
    return l.terms.size() == 1 && l.terms[0].coef == 1 && l.constant == 0;
  }
  if (l.terms.size() == 1 && l.terms[0].coef == 1 && l.constant == 0) return t != DType::kU64;
  if (l.terms.empty()) return t != DType::kU64;
  const Bounds b = BoundsOf(l);
  return b.IsKnown() && Within(b, RangeOf(t));
}

Bounds Analyzer::BoundsOf(const Linear& l) {
  if (!l.exact) return {};
  Bounds r{l.constant, l.constant};
  for (const LinearTerm& t : l.terms) r = Add(r, Mul(AtomBounds(t.atom), {t.coef, t.coef}));
  return r;
}

Bounds Analyzer::AtomBounds(Expr atom) {
  if (atom->op == ExprOp::kVar) {
    const VarInfo* v = Find(atom);
    // An empty range is a scope that never runs: any answer holds.
    if (v == nullptr || v->lo > v->hi) return RangeOf(atom->type.dtype);
    return {v->lo, v->hi};
  }
  if (atom->op == ExprOp::kInt) return Between(atom->int_value, atom->int_value);
  auto it = bounds_.find(atom);
  if (it != bounds_.end()) return it->second;
  const Bounds range = RangeOf(atom->type.dtype);
  Bounds b;
  if (atom->op == ExprOp::kMul && atom->type.lanes == 1) {
    b = Mul(ConstBounds(atom->args[0]), ConstBounds(atom->args[1]));
    if (atom->type.dtype != DType::kI64 && !(b.IsKnown() && Within(b, range))) b = range;
  } else {
    b = Intersect(ComputeBounds(atom), range);
  }
  if (b.lo > b.hi) b = range;
  bounds_.emplace(atom, b);
  return b;
}

Analyzer::Bounds Analyzer::ConstBounds(Expr e) {
  if (IsFloat(e->type.dtype)) return {};
  if (e->op == ExprOp::kInt) return Between(e->int_value, e->int_value);
  const bool is_sum = e->op == ExprOp::kAdd || e->op == ExprOp::kSub || e->op == ExprOp::kMul || e->op == ExprOp::kNeg;
  if (!is_sum || e->type.lanes != 1) return AtomBounds(e);
  const DType t = e->type.dtype;
  const Linear l = LinearOf(e);
  if (!CannotWrap(l, t)) return RangeOf(t);
  return BoundsOf(l);
}

Bounds Analyzer::ComputeBounds(Expr e) {
  const Bounds range = RangeOf(e->type.dtype);
  auto arg = [&](int i) { return ConstBounds(e->args[i]); };
  auto fit = [&](Bounds b) {
    const bool is_index = e->type.dtype == DType::kI64 && !IsData(e);
    return is_index || (b.IsKnown() && Within(b, range)) ? b : range;
  };
  switch (e->op) {
    case ExprOp::kCast: {
      if (IsFloat(e->args[0]->type.dtype)) return range;
      const Bounds b = arg(0);
      return Within(b, range) ? b : range;
    }
    case ExprOp::kBroadcast:
    case ExprOp::kChecked:
      return arg(0);
    case ExprOp::kRamp: {
      const int64_t last = e->type.lanes - 1;
      return fit(Union(arg(0), Add(arg(0), Mul(arg(1), {last, last}))));
    }
    case ExprOp::kAdd:
      return fit(Add(arg(0), arg(1)));
    case ExprOp::kSub:
      return fit(Add(arg(0), Negate(arg(1))));
    case ExprOp::kNeg:
      return fit(Negate(arg(0)));
    case ExprOp::kMul:
      return fit(Mul(arg(0), arg(1)));
    case ExprOp::kDiv:
    case ExprOp::kTruncDiv: {
      const Bounds a = arg(0), b = arg(1);
      if (b.lo <= 0) return range;
      const bool floors = e->op == ExprOp::kDiv;
      auto div = [&](int64_t x, int64_t y) { return floors || x >= 0 ? DivSat(x, y) : -DivSat(-x, y); };
      // The bound of the divisor matters by the sign of the dividend; an unknown divisor leaves 0 or -1.
      const int64_t far_lo = b.hi >= kUnknown ? (a.lo < 0 && floors ? -1 : 0) : div(a.lo, b.hi);
      const int64_t far_hi = b.hi >= kUnknown ? (a.hi < 0 && floors ? -1 : 0) : div(a.hi, b.hi);
      return {std::min(div(a.lo, b.lo), far_lo), std::max(div(a.hi, b.lo), far_hi)};
    }
    case ExprOp::kMod: {
      const Bounds a = arg(0), b = arg(1);
      if (b.lo <= 0) return range;
      if (a.lo >= 0 && a.hi < b.lo) return a;
      const Bounds m{0, b.hi >= kUnknown ? kUnknown : b.hi - 1};
      return a.lo >= 0 ? Bounds{0, std::min(m.hi, a.hi)} : m;
    }
    case ExprOp::kTruncMod: {
      const Bounds a = arg(0), b = arg(1);
      if (b.lo <= 0) return range;
      const int64_t most = b.hi >= kUnknown ? kUnknown : b.hi - 1;
      return {a.lo >= 0 ? 0 : std::max(a.lo, -most), a.hi <= 0 ? 0 : std::min(a.hi, most)};
    }
    case ExprOp::kMin: {
      if (e->type.dtype == DType::kU64) return range;
      return {std::min(arg(0).lo, arg(1).lo), std::min(arg(0).hi, arg(1).hi)};
    }
    case ExprOp::kMax: {
      if (e->type.dtype == DType::kU64) return range;
      return {std::max(arg(0).lo, arg(1).lo), std::max(arg(0).hi, arg(1).hi)};
    }
    case ExprOp::kSelect:
      return Union(arg(1), arg(2));
    case ExprOp::kAbs: {
      const Bounds a = arg(0);
      if (!a.IsKnown() || a.lo <= RangeOf(e->type.dtype).lo) return range;
      return {a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, std::max(a.hi, -a.lo)};
    }
    case ExprOp::kBitAnd: {
      const Bounds a = arg(0), b = arg(1);
      if (a.lo >= 0 && b.lo >= 0) return {0, std::min(a.hi, b.hi)};
      if (b.lo >= 0) return {0, b.hi};
      if (a.lo >= 0) return {0, a.hi};
      return range;
    }
    case ExprOp::kShr: {
      const Bounds a = arg(0), b = arg(1);
      if (!b.IsConst() || b.lo < 0 || b.lo > 61 || a.lo < 0) return range;
      return {DivSat(a.lo, int64_t{1} << b.lo), DivSat(a.hi, int64_t{1} << b.lo)};
    }
    default:
      return range;
  }
}

int64_t Analyzer::DivisorOf(const Linear& l) {
  int64_t g = Gcd(l.constant, 0);
  for (const LinearTerm& t : l.terms) {
    const __int128 d = static_cast<__int128>(KnownDivisor(t.atom)) * t.coef;
    g = Gcd(g, d > kUnknown || d < -kUnknown ? static_cast<int64_t>(t.coef) : static_cast<int64_t>(d));
  }
  return g;
}

int64_t Analyzer::KnownDivisor(Expr e) {
  if (e->op == ExprOp::kInt) return Gcd(e->int_value, 0);
  if (e->op == ExprOp::kVar) {
    const VarInfo* v = Find(e);
    if (v == nullptr) return 1;
    if (v->lo == v->hi) return Gcd(v->lo, 0);
    return v->divisor;
  }
  if (IsFloat(e->type.dtype) || e->args.empty()) return 1;
  auto it = divisors_.find(e);
  if (it != divisors_.end()) return it->second;
  int64_t r = 1;
  const bool exact = e->type.dtype == DType::kI64 && !IsData(e);
  auto arg = [&](int i) { return KnownDivisor(e->args[i]); };
  // Wrapping keeps only powers of two. Data may wrap, and so may types narrower than i64.
  auto wrapped = [](int64_t divisor) { return std::min<int64_t>(divisor & -divisor, 64); };
  const bool may_wrap = !exact && e->type.dtype != DType::kBool;
  switch (e->op) {
    case ExprOp::kAdd:
    case ExprOp::kSub:
      if (exact) r = e->type.lanes == 1 ? DivisorOf(LinearOf(e)) : Gcd(arg(0), arg(1));
      if (may_wrap) r = wrapped(Gcd(arg(0), arg(1)));
      // x - x % m is a multiple of m.
      if (e->type.lanes == 1 && (exact || may_wrap)) {
        const Linear l = LinearOf(e);
        for (const auto [atom, coef] : l.terms) {
          const bool leaves = atom->op == ExprOp::kMod || atom->op == ExprOp::kTruncMod;
          if (!leaves || !IsInt(atom->args[1]) || atom->args[1]->int_value <= r) continue;
          Linear whole = l;
          RemoveTerm(whole, atom);
          whole = AddScaled(std::move(whole), LinearOf(atom->args[0]), coef);
          if (!whole.exact) continue;
          const int64_t found = Gcd(WrapInt(coef) * atom->args[1]->int_value, DivisorOf(whole));
          r = std::max(r, exact ? found : wrapped(found));
        }
      }
      break;
    case ExprOp::kNeg:
      if (exact) r = arg(0);
      break;
    case ExprOp::kMul:
      if (exact) {
        const __int128 both = static_cast<__int128>(arg(0)) * arg(1);
        r = both < kUnknown ? static_cast<int64_t>(both) : std::max(arg(0), arg(1));
      }
      if (may_wrap) r = wrapped(wrapped(arg(0)) * wrapped(arg(1)));
      break;
    case ExprOp::kDiv:
    case ExprOp::kTruncDiv:
      if ((exact || may_wrap) && IsInt(e->args[1]) && e->args[1]->int_value > 0 &&
          arg(0) % e->args[1]->int_value == 0) {
        r = arg(0) / e->args[1]->int_value;
      }
      break;
    case ExprOp::kMod:
    case ExprOp::kTruncMod:
      if (exact || may_wrap) r = Gcd(arg(0), arg(1));
      break;
    case ExprOp::kMin:
    case ExprOp::kMax:
      r = Gcd(arg(0), arg(1));
      break;
    case ExprOp::kSelect:
      r = Gcd(arg(1), arg(2));
      break;
    case ExprOp::kRamp:
      if (exact || may_wrap) r = Gcd(arg(0), arg(1));
      break;
    case ExprOp::kBroadcast:
      r = arg(0);
      break;
    case ExprOp::kCast:
      if (!IsFloat(e->args[0]->type.dtype) && Within(ConstBounds(e->args[0]), RangeOf(e->type.dtype))) r = arg(0);
      break;
    default:
      break;
  }
  divisors_.emplace(e, r);
  return r;
}

bool Analyzer::ProveAtLeast(Linear l, int64_t lower) {
  AddConstant(l, -WrapInt(lower));
  Proof p;
  return ProveNonNegative(l, p, 8);
}

// Bounds of constants first, of what an assumed fact leaves, too; else the innermost variable that has a bound in the
// needed direction is replaced by it, divisions and minima by what bounds them, and assumed facts are subtracted.
bool Analyzer::ProveNonNegative(const Linear& l, Proof& p, int depth) {
  if (!l.exact) return false;
  const Bounds b = BoundsOf(l);
  if (b.lo >= 0) return true;
  if (b.hi < 0 || depth == 0 || --p.steps < 0) return false;

  // l = k * fact + rest with rest >= 0: at once, or at last.
  const auto by_fact = [&](const std::function<bool(const Linear&)>& proves) {
    for (const Linear& fact : facts_) {
      for (const LinearTerm& t : fact.terms) {
        auto it = std::find_if(l.terms.begin(), l.terms.end(), [&](const LinearTerm& x) { return x.atom == t.atom; });
        if (it == l.terms.end() || it->coef % t.coef != 0 || it->coef / t.coef <= 0) continue;
        if (proves(AddScaled(l, fact, -(it->coef / t.coef)))) return true;
      }
    }
    return false;
  };
  if (by_fact([&](const Linear& rest) { return BoundsOf(rest).lo >= 0; })) return true;

  // l with `coef * rest * x` replaced by `coef * rest * y`.
  auto replace = [&](const LinearTerm& t, Expr x, const Linear& y) {
    Linear r = l;
    RemoveTerm(r, t.atom);
    std::vector<Expr> rest = FactorsOf(t.atom);
    rest.erase(std::find(rest.begin(), rest.end(), x));
    Linear product = rest.empty() ? y : Multiply(c_, y, {{{MakeAtom(c_, rest), 1}}, 0}, kIndexType.dtype);
    return AddScaled(std::move(r), product, t.coef);
  };
  auto others_nonnegative = [&](const std::vector<Expr>& factors, Expr x) {
    bool skipped = false;
    for (Expr f : factors) {
      if (f == x && !skipped) {
        skipped = true;
      } else if (ConstBounds(f).lo < 0) {
        return false;
      }
    }
    return true;
  };

  // Whether the other factors of a term are a term of the other sign: a * b - b is (a - 1) * b.
  auto meets_others = [&](const LinearTerm& t, std::vector<Expr> rest, Expr x) {
    rest.erase(std::find(rest.begin(), rest.end(), x));
    if (rest.empty()) return false;
    const Expr others = MakeAtom(c_, rest);
    return std::any_of(l.terms.begin(), l.terms.end(),
                       [&](const LinearTerm& u) { return u.atom == others && (u.coef < 0) != (t.coef < 0); });
  };

  // Those that meet others first, then the innermost one.
  struct Candidate {
    const LinearTerm* term = nullptr;
    Expr var = nullptr;
    int order = -1;
  };
  Candidate meeting, innermost;
  for (const LinearTerm& t : l.terms) {
    const std::vector<Expr> factors = FactorsOf(t.atom);
    for (Expr f : factors) {
      const VarInfo* v = f->op == ExprOp::kVar ? Find(f) : nullptr;
      if (v == nullptr) continue;
      const bool upper = t.coef < 0;
      const bool symbolic = v->has_range && !(upper ? v->max : v->min).IsConst();
      const bool bounded = upper ? v->hi < kUnknown : v->lo > -kUnknown;
      if ((!symbolic && !(factors.size() > 1 && bounded)) || !others_nonnegative(factors, f)) continue;
      if (v->order > innermost.order) innermost = {&t, f, v->order};
      if (v->order > meeting.order && meets_others(t, factors, f)) meeting = {&t, f, v->order};
    }
  }
  if (meeting.term == innermost.term && meeting.var == innermost.var) meeting = {};
  for (const Candidate& x : {meeting, innermost}) {
    if (x.term == nullptr) continue;
    const VarInfo& v = vars_.find(x.var)->second;
    const bool upper = x.term->coef < 0;
    const Linear bound =
        v.has_range && !(upper ? v.max : v.min).IsConst() ? (upper ? v.max : v.min) : Constant(upper ? v.hi : v.lo);
    if (ProveNonNegative(replace(*x.term, x.var, bound), p, depth - 1)) return true;
  }

  // What makes the sum smaller first.
  std::vector<LinearTerm> terms = l.terms;
  std::stable_partition(terms.begin(), terms.end(), [](const LinearTerm& t) { return t.coef < 0; });
  for (const LinearTerm& t : terms) {
    for (Expr f : FactorsOf(t.atom)) {
      const bool upper = t.coef < 0;
      if (f->type != kIndexType || IsData(f) || !others_nonnegative(FactorsOf(t.atom), f)) continue;
      std::vector<Linear> bounds;
      if ((f->op == ExprOp::kMin && upper) || (f->op == ExprOp::kMax && !upper)) {
        bounds = {LinearOf(f->args[0]), LinearOf(f->args[1])};
      } else if (f->op == ExprOp::kMod && upper && ConstBounds(f->args[1]).lo > 0) {
        Linear most = LinearOf(f->args[1]);
        AddConstant(most, -1);
        bounds.push_back(most);
        if (ConstBounds(f->args[0]).lo >= 0) bounds.push_back(LinearOf(f->args[0]));
      }
      for (const Linear& y : bounds) {
        if (ProveNonNegative(replace(t, f, y), p, depth - 1)) return true;
      }
      // The larger of two is no more than what neither exceeds.
      if ((f->op == ExprOp::kMax && upper) || (f->op == ExprOp::kMin && !upper)) {
        const auto holds = [&](Expr y) { return ProveNonNegative(replace(t, f, LinearOf(y)), p, depth - 1); };
        if (holds(f->args[0]) && holds(f->args[1])) return true;
      }
      // d * (x / d) lies in x - (d - 1)..x. What is multiplied by d to see that need only stay above -d.
      if (f != t.atom || f->op != ExprOp::kDiv || ConstBounds(f->args[1]).lo <= 0) continue;
      const Linear divisor = LinearOf(f->args[1]);
      const bool divides = divisor.IsConst() && t.coef % divisor.constant == 0;
      Linear rest = l, x = LinearOf(f->args[0]);
      RemoveTerm(rest, f);
      if (!upper) x = AddScaled(std::move(x), divisor, -1), AddConstant(x, 1);
      if (!divides) {
        rest = AddScaled(Multiply(c_, rest, divisor, kIndexType.dtype), divisor, 1);
        AddConstant(rest, -1);
      }
      const int64_t times = divides ? t.coef / divisor.constant : t.coef;
      if (ProveNonNegative(AddScaled(std::move(rest), x, times), p, depth - 1)) return true;
    }
  }
  return by_fact([&](const Linear& rest) { return ProveNonNegative(rest, p, depth - 1); });
}

bool Analyzer::CanProve(Expr cond) { return IsTrue(Simplify(cond)); }

}  // namespace cinn_like::ir
