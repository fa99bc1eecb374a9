#include "ir/linear.h"

#include <algorithm>
#include <numeric>

namespace cinn_like::ir {
namespace {

uint64_t Magnitude(int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }

template <class T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int Degree(Expr atom) {
  int n = 1;
  for (; atom->op == ExprOp::kMul; atom = atom->args[0]) ++n;
  return n;
}

bool Before(const LinearTerm& a, const LinearTerm& b) {
  if (int o = Order(Degree(b.atom), Degree(a.atom))) return o < 0;
  if (int o = Order(Magnitude(b.coef), Magnitude(a.coef))) return o < 0;
  if ((a.coef > 0) != (b.coef > 0)) return a.coef > 0;
  return CompareExprs(a.atom, b.atom) < 0;
}

void Sort(Linear& l) {
  std::erase_if(l.terms, [](const LinearTerm& t) { return t.coef == 0; });
  std::sort(l.terms.begin(), l.terms.end(), Before);
}

// A number of `l`. The results wrap, and `l` is told.
WrapInt Number(Linear& l, __int128 v) {
  constexpr __int128 kMost = __int128{1} << 62;
  if (v <= -kMost || v >= kMost) l.exact = false;
  return static_cast<int64_t>(v);
}
WrapInt Sum(Linear& l, int64_t a, int64_t b) { return Number(l, static_cast<__int128>(a) + b); }
WrapInt Product(Linear& l, int64_t a, int64_t b) { return Number(l, static_cast<__int128>(a) * b); }

void Accumulate(Linear& l, Expr atom, int64_t coef) {
  for (LinearTerm& t : l.terms) {
    if (t.atom == atom) {
      t.coef = Sum(l, t.coef, coef);
      return;
    }
  }
  l.terms.push_back({atom, Number(l, coef)});
}

}  // namespace

int CompareExprs(Expr a, Expr b) {
  if (a == b) return 0;
  if (int o = Order(a->op, b->op)) return o;
  if (int o = Order(a->type.dtype, b->type.dtype)) return o;
  if (int o = Order(a->type.lanes, b->type.lanes)) return o;
  if (int o = Order(a->int_value, b->int_value)) return o;
  if (int o = Order(a->float_value, b->float_value)) return o;
  if (int o = Order(a->name, b->name)) return o;
  if (a->buffer != b->buffer && a->buffer != nullptr && b->buffer != nullptr) {
    if (int o = Order(a->buffer->name, b->buffer->name)) return o;
  }
  if (int o = Order(a->args.size(), b->args.size())) return o;
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (int o = CompareExprs(a->args[i], b->args[i])) return o;
  }
  return Order(a->has_mask, b->has_mask);
}

std::vector<Expr> FactorsOf(Expr atom) {
  std::vector<Expr> r;
  while (atom->op == ExprOp::kMul) {
    r.push_back(atom->args[1]);
    atom = atom->args[0];
  }
  r.push_back(atom);
  std::reverse(r.begin(), r.end());
  return r;
}

Expr MakeAtom(Context& c, std::vector<Expr> factors) {
  std::sort(factors.begin(), factors.end(), [](Expr a, Expr b) { return CompareExprs(a, b) < 0; });
  Expr r = nullptr;
  for (Expr f : factors) r = r == nullptr ? f : c.Make(ExprOp::kMul, {r, f});
  return r;
}

Linear ToLinear(Context& c, Expr e) {
  switch (e->op) {
    case ExprOp::kInt:
      return Constant(e->int_value);
    case ExprOp::kAdd:
      return AddScaled(ToLinear(c, e->args[0]), ToLinear(c, e->args[1]), 1);
    case ExprOp::kSub:
      return AddScaled(ToLinear(c, e->args[0]), ToLinear(c, e->args[1]), -1);
    case ExprOp::kNeg:
      return Scale(ToLinear(c, e->args[0]), -1);
    case ExprOp::kMul:
      return Multiply(c, ToLinear(c, e->args[0]), ToLinear(c, e->args[1]), e->type.dtype);
    default:
      return {{{e, 1}}, 0};
  }
}

Expr FromLinear(Context& c, const Linear& l, DType t) {
  Expr r = nullptr;
  auto product = [&](Expr atom, int64_t coef) { return c.Mul(atom, c.Int(coef, t)); };
  for (const LinearTerm& x : l.terms) {
    if (x.coef > 0) r = r == nullptr ? product(x.atom, x.coef) : c.Add(r, product(x.atom, x.coef));
  }
  WrapInt constant = l.constant;
  if (r == nullptr) {
    r = c.Int(constant, t);
    constant = 0;
  }
  for (const LinearTerm& x : l.terms) {
    if (x.coef < 0) r = c.Sub(r, product(x.atom, -x.coef));
  }
  if (constant < 0 && constant != INT64_MIN && IsSigned(t)) return c.Sub(r, c.Int(-constant, t));
  return c.Add(r, c.Int(constant, t));
}

Linear Constant(int64_t c) {
  Linear l;
  AddConstant(l, c);
  return l;
}

Linear AddScaled(Linear a, const Linear& b, int64_t scale) {
  a.exact = a.exact && b.exact;
  for (const LinearTerm& t : b.terms) Accumulate(a, t.atom, Product(a, t.coef, scale));
  a.constant = Sum(a, a.constant, Product(a, b.constant, scale));
  Sort(a);
  return a;
}

void AddConstant(Linear& l, int64_t c) { l.constant = Sum(l, l.constant, c); }

Linear Scale(Linear a, int64_t scale) {
  for (LinearTerm& t : a.terms) t.coef = Product(a, t.coef, scale);
  a.constant = Product(a, a.constant, scale);
  Sort(a);
  return a;
}

Linear Multiply(Context& c, const Linear& a, const Linear& b, DType t) {
  Linear r;
  r.exact = a.exact && b.exact;
  if (a.IsConst() || b.IsConst()) {
    r = Scale(a.IsConst() ? b : a, a.IsConst() ? a.constant : b.constant);
    r.exact = r.exact && a.exact && b.exact;
    return r;
  }
  auto is_single = [](const Linear& l) { return l.terms.size() == 1 && l.constant == 0; };
  if (!is_single(a) && !is_single(b)) {
    AddTerm(r, MakeAtom(c, {FromLinear(c, a, t), FromLinear(c, b, t)}), 1);
    return r;
  }
  const Linear& one = is_single(a) ? a : b;
  const Linear& sum = is_single(a) ? b : a;
  const std::vector<Expr> factors = FactorsOf(one.terms[0].atom);
  for (const LinearTerm& x : sum.terms) {
    std::vector<Expr> all = FactorsOf(x.atom);
    all.insert(all.end(), factors.begin(), factors.end());
    Accumulate(r, MakeAtom(c, std::move(all)), Product(r, x.coef, one.terms[0].coef));
  }
  if (sum.constant != 0) Accumulate(r, one.terms[0].atom, Product(r, sum.constant, one.terms[0].coef));
  Sort(r);
  return r;
}

void AddTerm(Linear& l, Expr atom, int64_t coef) {
  Accumulate(l, atom, coef);
  Sort(l);
}

void RemoveTerm(Linear& l, Expr atom) {
  std::erase_if(l.terms, [&](const LinearTerm& t) { return t.atom == atom; });
}

int64_t GcdOfCoefs(const Linear& l) {
  int64_t g = 0;
  for (const LinearTerm& t : l.terms) g = Gcd(g, t.coef);
  return g;
}

Expr FirstFalse(Context& c, Expr condition, Expr var) {
  if (condition->op != ExprOp::kLt || condition->type != kBoolType || condition->args[0]->type != kIndexType)
    return nullptr;
  Linear rest = AddScaled(ToLinear(c, condition->args[1]), ToLinear(c, condition->args[0]), -1);  // > 0
  int64_t step = 0;
  for (const LinearTerm& t : rest.terms) {
    if (t.atom == var)
      step = -t.coef;
    else if (Uses(t.atom, var))
      return nullptr;
  }
  if (!rest.exact || step <= 0) return nullptr;
  RemoveTerm(rest, var);
  AddConstant(rest, step - 1);
  return c.Div(FromLinear(c, rest, DType::kI64), c.Int(step));
}

}  // namespace cinn_like::ir
