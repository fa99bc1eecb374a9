#include "hlir/dim.h"

#include <algorithm>
#include <limits>

namespace cinn_like::hlir {
namespace {

int64_t Clamp(__int128 v) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return v > kMax ? kMax : v < -kMax ? -kMax : static_cast<int64_t>(v);
}

}  // namespace

Dim::Dim(int64_t value) {
  if (value != 0) terms_.push_back({{}, value});
}

Dim Dim::OfFactor(Factor f) {
  Dim d;
  d.terms_.push_back({{std::move(f)}, 1});
  return d;
}

Dim Dim::Symbol(std::string name) { return OfFactor({'s', std::move(name), nullptr, nullptr}); }

std::optional<int64_t> Dim::AsConst() const {
  if (terms_.empty()) return 0;
  if (terms_.size() == 1 && terms_[0].factors.empty()) return terms_[0].coefficient;
  return std::nullopt;
}

std::optional<std::string> Dim::AsSymbol() const {
  if (terms_.size() != 1 || terms_[0].coefficient != 1 || terms_[0].factors.size() != 1) return std::nullopt;
  const Factor& f = terms_[0].factors[0];
  if (f.kind != 's') return std::nullopt;
  return f.name;
}

void Dim::CollectSymbols(std::set<std::string>* out) const {
  for (const Term& t : terms_) {
    for (const Factor& f : t.factors) {
      if (f.kind == 's') {
        out->insert(f.name);
      } else {
        f.a->CollectSymbols(out);
        f.b->CollectSymbols(out);
      }
    }
  }
}

int Dim::Compare(const Factor& a, const Factor& b) {
  if (a.kind != b.kind) return a.kind == 's' ? -1 : b.kind == 's' ? 1 : a.kind < b.kind ? -1 : 1;
  if (a.kind == 's') return a.name.compare(b.name);
  if (const int c = Compare(*a.a, *b.a); c != 0) return c;
  return Compare(*a.b, *b.b);
}

int Dim::Compare(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (const int c = Compare(a[i], b[i]); c != 0) return c;
  }
  return 0;
}

int Dim::Compare(const Dim& a, const Dim& b) {
  for (size_t i = 0; i < a.terms_.size() && i < b.terms_.size(); ++i) {
    if (const int c = Compare(a.terms_[i].factors, b.terms_[i].factors); c != 0) return c;
    if (a.terms_[i].coefficient != b.terms_[i].coefficient) {
      return a.terms_[i].coefficient < b.terms_[i].coefficient ? -1 : 1;
    }
  }
  if (a.terms_.size() == b.terms_.size()) return 0;
  return a.terms_.size() < b.terms_.size() ? -1 : 1;
}

void Dim::AddTerm(const Term& t) {
  auto it =
      std::find_if(terms_.begin(), terms_.end(), [&](const Term& u) { return Compare(u.factors, t.factors) >= 0; });
  if (it != terms_.end() && Compare(it->factors, t.factors) == 0) {
    it->coefficient = it->coefficient + t.coefficient;
    if (it->coefficient == 0) terms_.erase(it);
  } else if (t.coefficient != 0) {
    terms_.insert(it, t);
  }
}

Dim operator+(const Dim& a, const Dim& b) {
  Dim sum = a;
  for (const Dim::Term& t : b.terms_) sum.AddTerm(t);
  return sum;
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  Dim product;
  for (const Dim::Term& s : a.terms_) {
    for (const Dim::Term& t : b.terms_) {
      Dim::Term u{s.factors, s.coefficient * t.coefficient};
      for (const Dim::Factor& f : t.factors) {
        auto at = std::find_if(u.factors.begin(), u.factors.end(),
                               [&](const Dim::Factor& g) { return Dim::Compare(g, f) >= 0; });
        u.factors.insert(at, f);
      }
      product.AddTerm(u);
    }
  }
  return product;
}

Dim operator/(const Dim& a, const Dim& b) {
  if (b == Dim(1) || a == Dim(0)) return a;
  const std::optional<int64_t> ca = a.AsConst(), cb = b.AsConst();
  if (ca && cb && *cb != 0) return FloorDiv(*ca, *cb);
  if (b.terms_.size() != 1 || b.terms_[0].coefficient <= 0) {
    if (a == b) return 1;
    return Dim::OfFactor({'/', "", std::make_shared<const Dim>(a), std::make_shared<const Dim>(b)});
  }
  // floor((divisible + rest) / b) = divisible / b + floor(rest / b)
  const Dim::Term& divisor = b.terms_[0];
  Dim quotient, rest;
  for (const Dim::Term& t : a.terms_) {
    Dim::Term q{t.factors, t.coefficient};
    bool divisible = t.coefficient % divisor.coefficient == 0;
    for (const Dim::Factor& f : divisor.factors) {
      auto at = std::find_if(q.factors.begin(), q.factors.end(),
                             [&](const Dim::Factor& g) { return Dim::Compare(g, f) == 0; });
      if (at == q.factors.end()) {
        divisible = false;
        break;
      }
      q.factors.erase(at);
    }
    if (divisible) {
      q.coefficient /= divisor.coefficient;
      quotient.AddTerm(q);
    } else {
      rest.AddTerm(t);
    }
  }
  if (rest == Dim(0)) return quotient;
  if (!cb) {
    return quotient + Dim::OfFactor({'/', "", std::make_shared<const Dim>(rest), std::make_shared<const Dim>(b)});
  }
  // floor((g*x + r) / (g*c)) = floor((x + floor(r/g)) / c), g dividing every coefficient but the constant's.
  int64_t constant = 0, g = *cb;
  for (const Dim::Term& t : rest.terms_) {
    if (t.factors.empty()) {
      constant = t.coefficient;
    } else {
      g = Gcd(g, t.coefficient);
    }
  }
  const int64_t whole = FloorDiv(constant, *cb);
  if (whole != 0) {
    quotient = quotient + Dim(whole);
    rest = rest - Dim(WrapInt(whole) * *cb);
    constant = FloorMod(constant, *cb);
  }
  if (rest.IsConst()) return quotient;  // 0 <= constant < cb
  Dim numerator = FloorDiv(constant, g);
  for (Dim::Term t : rest.terms_) {
    if (t.factors.empty()) continue;
    t.coefficient /= g;
    numerator.AddTerm(t);
  }
  const int64_t c = *cb / g;
  if (c == 1) return quotient + numerator;
  // (x / c0) / c -> x / (c0*c)
  if (numerator.terms_.size() == 1 && numerator.terms_[0].coefficient == 1 && numerator.terms_[0].factors.size() == 1) {
    const Dim::Factor& f = numerator.terms_[0].factors[0];
    const std::optional<int64_t> inner = f.kind == '/' ? f.b->AsConst() : std::nullopt;
    if (inner && *inner > 0) return quotient + *f.a / Dim(WrapInt(*inner) * c);
  }
  return quotient + Dim::OfFactor({'/', "", std::make_shared<const Dim>(numerator), std::make_shared<const Dim>(c)});
}

Dim operator%(const Dim& a, const Dim& b) {
  const std::optional<int64_t> ca = a.AsConst(), cb = b.AsConst();
  if (ca && cb && *cb != 0) return FloorMod(*ca, *cb);
  if (a == Dim(0) || a == b || (cb && *cb == 1)) return 0;
  if (cb && *cb > 0) {
    Dim rest;
    for (Dim::Term t : a.terms_) {
      t.coefficient = FloorMod(t.coefficient, *cb);
      rest.AddTerm(t);
    }
    if (const std::optional<int64_t> c = rest.AsConst()) return FloorMod(*c, *cb);
    return Dim::OfFactor({'%', "", std::make_shared<const Dim>(rest), std::make_shared<const Dim>(b)});
  }
  const Dim quotient = a / b;  // exact: b * (a / b) == a
  if (quotient * b == a) return 0;
  return Dim::OfFactor({'%', "", std::make_shared<const Dim>(a), std::make_shared<const Dim>(b)});
}

std::string Dim::Print(const std::vector<Factor>& factors) {
  // A division or remainder is written first ("n/2*m") or in parentheses: "m*(n/2)" would be needed otherwise.
  std::string s;
  for (const Factor& f : factors) {
    if (!s.empty()) s += "*";
    if (f.kind == 's') {
      s += f.name;
      continue;
    }
    const bool nested = !s.empty();
    const bool atom_a = f.a->AsSymbol().has_value();
    const std::optional<int64_t> cb = f.b->AsConst();
    const bool atom_b = f.b->AsSymbol().has_value() || (cb && *cb >= 0);
    s += Cat(nested ? "(" : "", atom_a ? "" : "(", f.a->ToString(), atom_a ? "" : ")", std::string(1, f.kind),
             atom_b ? "" : "(", f.b->ToString(), atom_b ? "" : ")", nested ? ")" : "");
  }
  return s;
}

std::string Dim::ToString() const {
  if (terms_.empty()) return "0";
  // A positive term first, where there is one: "8-n", not "-n+8".
  std::vector<const Term*> order;
  for (const Term& t : terms_) order.push_back(&t);
  std::stable_partition(order.begin(), order.end(), [](const Term* t) { return t->coefficient > 0; });
  std::string s;
  for (const Term* t : order) {
    if (constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(); t->coefficient == kLeast) {
      // The one number that can't be read without its sign.
      s += Cat(s.empty() ? "" : "+", Print(t->factors), t->factors.empty() ? "" : "*", kLeast);
      continue;
    }
    const bool negative = t->coefficient < 0;
    const uint64_t magnitude = BitsOf(negative ? -t->coefficient : t->coefficient);
    if (negative) {
      const bool first_is_division = s.empty() && !t->factors.empty() && t->factors[0].kind != 's';
      s += first_is_division ? "0-" : "-";  // "-n/2" is floor(-n / 2)
    } else if (!s.empty()) {
      s += "+";
    }
    if (t->factors.empty()) {
      s += std::to_string(magnitude);
    } else if (magnitude == 1) {
      s += Print(t->factors);
    } else {
      s += Cat(Print(t->factors), "*", magnitude);
    }
  }
  return s;
}

std::string ToString(const Dims& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += Cat(i ? "," : "", dims[i].ToString());
  return s + "]";
}

Dim Dim::Substitute(const std::function<Dim(const std::string&)>& value_of) const {
  return Fold<Dim>([](int64_t c) { return Dim(c); }, value_of,
                   [](char op, const Dim& a, const Dim& b) {
                     return op == '+' ? a + b : op == '*' ? a * b : op == '/' ? a / b : a % b;
                   });
}

int64_t Dim::Evaluate(const std::function<int64_t(const std::string&)>& value_of) const {
  return Fold<WrapInt>(
      [](int64_t c) { return WrapInt(c); }, value_of,
      [](char op, const WrapInt& a, const WrapInt& b) {
        return op == '+' ? a + b : op == '*' ? a * b : WrapInt(op == '/' ? FloorDiv(a, b) : FloorMod(a, b));
      });
}

const SymbolInfo* Find(const SymbolTable& symbols, std::string_view name) {
  for (const SymbolInfo& s : symbols) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

DimRange RangeOf(const Dim& d, const SymbolTable& symbols) {
  if (const std::optional<int64_t> c = d.AsConst()) return {*c, *c};
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return d.Fold<DimRange>(
      [](int64_t c) { return DimRange{c, c}; },
      [&](const std::string& name) {
        const SymbolInfo* s = Find(symbols, name);
        return s ? DimRange{s->lo, s->hi} : DimRange{-kMax, kMax};
      },
      [](char op, const DimRange& a, const DimRange& b) -> DimRange {
        if (op == '+') return {Clamp(static_cast<__int128>(a.lo) + b.lo), Clamp(static_cast<__int128>(a.hi) + b.hi)};
        if (op == '*' || (op == '/' && b.lo > 0)) {
          __int128 lo = 0, hi = 0;
          bool first = true;
          for (int64_t x : {a.lo, a.hi}) {
            for (int64_t y : {b.lo, b.hi}) {
              const __int128 v = op == '*' ? static_cast<__int128>(x) * y : static_cast<__int128>(FloorDiv(x, y));
              lo = first ? v : std::min(lo, v);
              hi = first ? v : std::max(hi, v);
              first = false;
            }
          }
          return {Clamp(lo), Clamp(hi)};
        }
        if (op == '%' && b.lo > 0) {
          if (a.lo >= 0 && a.hi < b.lo) return a;
          return {0, b.hi - 1};
        }
        return {-kMax, kMax};
      });
}

bool ProvablyEqual(const Dim& a, const Dim& b, const SymbolTable& symbols) {
  if (a == b) return true;
  // n = divisor * n' makes n/divisor and n%divisor canonical.
  auto expand = [&](const std::string& name) {
    const SymbolInfo* s = Find(symbols, name);
    if (s && s->lo == s->hi) return Dim(s->lo);
    return s ? Dim::Symbol(name) * Dim(s->divisor) : Dim::Symbol(name);
  };
  return a.Substitute(expand) == b.Substitute(expand);
}

bool ProvablyEqual(const Dims& a, const Dims& b, const SymbolTable& symbols) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!ProvablyEqual(a[i], b[i], symbols)) return false;
  }
  return true;
}

bool Divides(int64_t k, const Dim& d, const SymbolTable& symbols) {
  return k != 0 && ProvablyEqual(d % Dim(k), 0, symbols);
}

Dim ProductOf(const Dims& dims) {
  Dim product = 1;
  for (const Dim& d : dims) product = product * d;
  return product;
}

namespace {

constexpr int kMaxParts = 1000;  // bounds the recursion of everything that walks a dimension

StatusOr<Dim> ParseSum(Lexer* lexer, int* parts);

StatusOr<Dim> ParseAtom(Lexer* lexer, int* parts) {
  if (++*parts > kMaxParts) return lexer->Error("dimension is too long");
  Lexer ahead = *lexer;
  if (ahead.Eat("-") && ahead.Peek().kind != TokenKind::kInt) {  // "-9223372036854775808" is one integer
    lexer->Take();
    ASSIGN_OR_RETURN(Dim d, ParseAtom(lexer, parts));
    return Dim(0) - d;
  }
  if (lexer->Eat("(")) {
    ASSIGN_OR_RETURN(Dim d, ParseSum(lexer, parts));
    RETURN_IF_ERROR(lexer->Expect(")"));
    return d;
  }
  if (lexer->Peek().kind == TokenKind::kIdent) return Dim::Symbol(lexer->Take().text);
  ASSIGN_OR_RETURN(const int64_t value, lexer->Int("a dimension"));
  return Dim(value);
}

StatusOr<Dim> ParseProduct(Lexer* lexer, int* parts) {
  ASSIGN_OR_RETURN(Dim d, ParseAtom(lexer, parts));
  while (true) {
    const std::string op = lexer->Peek().text;
    if (!lexer->Is("*") && !lexer->Is("/") && !lexer->Is("%")) return d;
    const Token at = lexer->Take();
    ASSIGN_OR_RETURN(const Dim b, ParseAtom(lexer, parts));
    if (op != "*" && b == Dim(0)) {
      return InvalidArgument("line ", at.line, ", column ", at.column, ": dimension divided by zero");
    }
    d = op == "*" ? d * b : op == "/" ? d / b : d % b;
  }
}

StatusOr<Dim> ParseSum(Lexer* lexer, int* parts) {
  ASSIGN_OR_RETURN(Dim d, ParseProduct(lexer, parts));
  while (true) {
    const bool plus = lexer->Eat("+");
    if (!plus && !lexer->Eat("-")) return d;
    ASSIGN_OR_RETURN(const Dim b, ParseProduct(lexer, parts));
    d = plus ? d + b : d - b;
  }
}

}  // namespace

StatusOr<Dim> ParseDim(Lexer* lexer) {
  int parts = 0;
  return ParseSum(lexer, &parts);
}

}  // namespace cinn_like::hlir
