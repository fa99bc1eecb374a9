// Integer expressions as sums: coefficient * atom + ... + constant. An atom is a product of sorted factors that are no
// sums or constants (`i * n`, `x / 8`, a variable). Terms are ordered by falling degree and |coefficient|, then
// structure, so that equal sums build one expression:  4 + i - j + i * 7  ->  i * 8 - j + 4.
#pragma once
#include <vector>

#include "cinn_like/base/int_math.h"
#include "ir/expr.h"

namespace cinn_like::ir {

struct LinearTerm {
  Expr atom;
  WrapInt coef;
};
struct Linear {
  std::vector<LinearTerm> terms;
  WrapInt constant = 0;
  // Every number is below 2^62, and is what mathematics makes of the parts. A sum that is not exact has the value that
  // arithmetic that wraps gives it, and proves nothing.
  bool exact = true;
  bool IsConst() const { return terms.empty(); }
};

// A total order that does not depend on addresses.
int CompareExprs(Expr a, Expr b);

// The factors of an atom.
std::vector<Expr> FactorsOf(Expr atom);
// The product of factors, as an atom; null if there are none.
Expr MakeAtom(Context& c, std::vector<Expr> factors);

// `e` must be a scalar integer.
Linear ToLinear(Context& c, Expr e);
Expr FromLinear(Context& c, const Linear& l, DType t);

Linear Constant(int64_t c);
Linear AddScaled(Linear a, const Linear& b, int64_t scale);  // a + scale * b
Linear Scale(Linear a, int64_t scale);
// a * b; expands the product if either side has one term, else the product is an atom.
Linear Multiply(Context& c, const Linear& a, const Linear& b, DType t);
void AddConstant(Linear& l, int64_t c);
// Adds `coef * atom`, keeping the order.
void AddTerm(Linear& l, Expr atom, int64_t coef);
void RemoveTerm(Linear& l, Expr atom);
// The greatest common divisor of the coefficients (0 if none).
int64_t GcdOfCoefs(const Linear& l);
// The first value of `var` at which `condition`, an a < b of indices, is false, as it is from there on; it may be below
// 0. Null if it is no such condition.
//   k * 4 + u < n, k  ->  (n - u + 3) / 4
Expr FirstFalse(Context& c, Expr condition, Expr var);

}  // namespace cinn_like::ir
