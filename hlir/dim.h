// A dimension: an integer expression of graph symbols in canonical form (a sum of products), so that two expressions
// that are equal in the usual ways compare equal:
//
//   (n + n)*64 -> n*128      n*128/4 -> n*32      (n*4 + 3)/4 -> n      (n*4 + 1) % 4 -> 1
//
// `/` and `%` floor. What the canonical form can't see, the facts about symbols (range, divisor) may still prove.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "cinn_like/base/int_math.h"
#include "cinn_like/base/lexer.h"
#include "cinn_like/base/status.h"

namespace cinn_like::hlir {

class Dim {
 public:
  Dim(int64_t value = 0);  // NOLINT: integers are dimensions
  static Dim Symbol(std::string name);

  std::optional<int64_t> AsConst() const;
  bool IsConst() const { return AsConst().has_value(); }
  // The symbol's name if this is a plain symbol.
  std::optional<std::string> AsSymbol() const;
  void CollectSymbols(std::set<std::string>* out) const;
  std::string ToString() const;  // "n*12+4"

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator/(const Dim& a, const Dim& b);  // a zero constant divisor gives an expression that stays symbolic
  friend Dim operator%(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b) { return Compare(a, b) == 0; }
  friend bool operator!=(const Dim& a, const Dim& b) { return Compare(a, b) != 0; }
  friend bool operator<(const Dim& a, const Dim& b) { return Compare(a, b) < 0; }

  // The expression in another algebra: `op` is one of + * / %.
  template <class T>
  T Fold(const std::function<T(int64_t)>& constant, const std::function<T(const std::string&)>& symbol,
         const std::function<T(char op, const T&, const T&)>& binary) const;

  // The expression with each symbol replaced by `value_of(symbol)`.
  Dim Substitute(const std::function<Dim(const std::string&)>& value_of) const;
  // The value when `value_of` gives each symbol's.
  int64_t Evaluate(const std::function<int64_t(const std::string&)>& value_of) const;

 private:
  // A symbol, or a floor division or remainder that could not be resolved.
  struct Factor {
    char kind;  // 's', '/' or '%'
    std::string name;
    std::shared_ptr<const Dim> a, b;
  };
  struct Term {
    std::vector<Factor> factors;  // sorted
    WrapInt coefficient;
  };
  static int Compare(const Dim& a, const Dim& b);
  static int Compare(const Factor& a, const Factor& b);
  static int Compare(const std::vector<Factor>& a, const std::vector<Factor>& b);
  static std::string Print(const std::vector<Factor>& factors);
  static Dim OfFactor(Factor f);
  void AddTerm(const Term& t);

  // Sorted by factors, higher degree first; no zero coefficients. Most dimensions are one number.
  absl::InlinedVector<Term, 1> terms_;
};

using Dims = std::vector<Dim>;

std::string ToString(const Dims& dims);  // "[n,256]"

// What is known about a symbol: `where n in 8..4096 multiple 8 hint 512`.
struct SymbolInfo {
  std::string name;
  int64_t lo = 1, hi = 1;  // inclusive
  int64_t divisor = 1;
  int64_t hint = 0;  // the value to be fast for, in lo..hi; 0: not known. Any other gives the same results
  friend bool operator==(const SymbolInfo&, const SymbolInfo&) = default;
};
using SymbolTable = std::vector<SymbolInfo>;

const SymbolInfo* Find(const SymbolTable& symbols, std::string_view name);

struct DimRange {
  int64_t lo, hi;  // inclusive
};
// Bounds of `d`; sound, not always tight.
DimRange RangeOf(const Dim& d, const SymbolTable& symbols);
// Whether a == b for every value of the symbols (false: can't tell).
bool ProvablyEqual(const Dim& a, const Dim& b, const SymbolTable& symbols);
bool ProvablyEqual(const Dims& a, const Dims& b, const SymbolTable& symbols);
// Whether `k` divides `d` for every value of the symbols.
bool Divides(int64_t k, const Dim& d, const SymbolTable& symbols);

Dim ProductOf(const Dims& dims);

// expr := term (('+'|'-') term)*, with * / % binding closer, parentheses and unary minus.
StatusOr<Dim> ParseDim(Lexer* lexer);

template <class T>
T Dim::Fold(const std::function<T(int64_t)>& constant, const std::function<T(const std::string&)>& symbol,
            const std::function<T(char, const T&, const T&)>& binary) const {
  std::optional<T> sum;
  for (const Term& term : terms_) {
    std::optional<T> product;
    for (const Factor& f : term.factors) {
      T value = f.kind == 's'
                    ? symbol(f.name)
                    : binary(f.kind, f.a->Fold<T>(constant, symbol, binary), f.b->Fold<T>(constant, symbol, binary));
      product = product ? binary('*', *product, value) : value;
    }
    if (!product) {
      product = constant(term.coefficient);
    } else if (term.coefficient != 1) {
      product = binary('*', *product, constant(term.coefficient));
    }
    sum = sum ? binary('+', *sum, *product) : *product;
  }
  return sum ? *sum : constant(0);
}

}  // namespace cinn_like::hlir
