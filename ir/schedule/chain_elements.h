// What chain asks of the elements of its reductions: how sums of them follow a maximum, and which of them count.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/analyzer.h"
#include "ir/linear.h"

namespace cinn_like::ir {

// Whether a load of `b` is part of `e`.
bool Reads(Expr e, Buffer b);

// Both without the conditions under which `x`, whose maximum is taken, is not -inf, where `element`, which is summed,
// is 0 without each of them: what the one passes over the other does. False: they stay.
//   select(c, select(d, exp(x - m), 0), 0), select(c, x, -inf)  ->  select(d, exp(x - m), 0), x
bool DropConditions(Context& c, Expr& element, Expr& x);

// 0, or what counts for 0: a product of which a factor is.
bool Vanishes(Analyzer& a, Expr e);

// `e` without the roundings on the way, of which the factors of Repair know nothing.
Expr Widened(Context& c, Expr e);

// How an element f(r, m) of a later reduction changes with the maximum m = max_r x(r): f(r, m') = h(m, m') * f(r, m).
// Products of one factor exp(c * (x(r) - m)), c > 0, and of what m is no part of have such an h; no other is known. In
// place of m there may be max(m, b) with b that is the same for all elements, or 0 where m is infinite. That factor is
// 1 at most whatever part of the elements m is the maximum of (more where that is infinite, as the whole is then), so
// that partial results never overflow where the whole does not.
class Repair {
 public:
  // `a` knows the range of elements, `m`: the load of the maximum; `x`: what it is the maximum of, at the element.
  // `given(b)`: b at the maximum's iterators; null where it is not the same for all elements.
  Repair(Analyzer& a, Expr m, Expr x, Expr was, Expr is, std::function<Expr(Expr)> given)
      : a_(a), c_(a.context()), m_(m), x_(x), was_(was), is_(is), given_(std::move(given)) {}

  // h in terms of `was` and `is`, m and m'; null: m is no part of e.
  StatusOr<Expr> Of(Expr e);
  // Whether some elements in the range were no powers, but chosen.
  bool selects() const { return selects_; }

 private:
  StatusOr<Expr> OfBoth(Expr e, Expr a, Expr b);
  Expr Moved(Expr was, Expr is);
  Expr FiniteOr0(Expr m);
  StatusOr<Expr> Exponent(Expr e);
  Status Unknown(Expr e) const;

  Analyzer& a_;
  Context& c_;
  const Expr m_, x_, was_, is_;
  const std::function<Expr(Expr)> given_;
  bool selects_ = false;
};

// What has to be at least 0 for `e` to be more than -inf. What is added to -inf is taken to be finite.
void AddNeedsOf(Context& c, Expr e, std::vector<Linear>& needs);

}  // namespace cinn_like::ir
