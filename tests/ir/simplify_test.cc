#include <limits>
#include <map>
#include <random>

#include "gtest/gtest.h"
#include "ir/analyzer.h"
#include "ir/rules.h"
#include "tests/rounds.h"

namespace cinn_like::ir {
namespace {

using Env = std::map<std::string, int64_t>;

// Null where it is undefined or overflows. Booleans count by truth.
std::optional<int64_t> Eval(Expr e, const Env& env) {
  if (e->op == ExprOp::kInt) return e->int_value;
  if (e->op == ExprOp::kVar) return env.at(e->name);
  std::vector<int64_t> args;
  for (Expr a : e->args) {
    auto v = Eval(a, env);
    if (!v) return std::nullopt;
    args.push_back(*v);
  }
  if (e->op == ExprOp::kNot) return args[0] == 0;
  if (Overflows(e->op, args)) return std::nullopt;
  return FoldInt(e->op, DType::kI64, args);
}

// Calls f for each assignment of the variables to lo..hi.
void ForBox(const std::vector<Expr>& vars, int64_t lo, int64_t hi, const std::function<bool(const Env&)>& f) {
  Env env;
  for (Expr v : vars) env[v->name] = lo;
  for (;;) {
    if (!f(env)) return;
    size_t i = 0;
    for (; i < vars.size(); ++i) {
      if (++env[vars[i]->name] <= hi) break;
      env[vars[i]->name] = lo;
    }
    if (i == vars.size()) return;
  }
}

std::string FindCounterexample(const Rule& r) {
  const bool is_bool = RowOf(r.lhs->op)->result == OpRow::kBool || r.lhs->op == ExprOp::kNot;
  const int64_t radius = r.vars.size() <= 3 ? 9 : r.vars.size() == 4 ? 6 : 3;
  std::string found;
  int tried = 0;
  ForBox(r.vars, -radius, radius, [&](const Env& env) {
    if (r.guard != nullptr && Eval(r.guard, env).value_or(0) == 0) return true;
    auto l = Eval(r.lhs, env), right = Eval(r.rhs, env);
    if (!l) return true;
    ++tried;
    if (right && (is_bool ? (*l != 0) == (*right != 0) : *l == *right)) return true;
    for (auto& [name, v] : env) found += Cat(name, "=", v, " ");
    return false;
  });
  return tried == 0 ? "never applies" : found;
}

TEST(Rules, HoldOverABox) {
  for (const Rule& r : BuiltinRules()) EXPECT_EQ(FindCounterexample(r), "") << r.text;
}
TEST(Rules, AWrongRuleIsCaught) {
  Context c;
  auto bad = ParseRule(c, "(x * c0) / c1 => x * (c0 / c1) if 0 < c1");
  ASSERT_TRUE(bad.ok());
  EXPECT_NE(FindCounterexample(*bad), "");
}
TEST(Rules, SyntaxErrors) {
  Context c;
  EXPECT_EQ(Message(ParseRule(c, "x + 1").status()), "rule 'x + 1': expected '=>'");
  EXPECT_EQ(Message(ParseRule(c, "x + 1 => y").status()), "rule 'x + 1 => y': y does not appear on the left");
}

class SimplifyTest : public testing::Test {
 protected:
  Expr P(std::string_view text) {
    auto e = ParseIndexExpr(c, text);
    EXPECT_TRUE(e.ok()) << e.status();
    return *e;
  }
  void Range(std::string_view name, std::string_view min, std::string_view extent) {
    a.BindRange(P(name), P(min), P(extent));
  }
  std::string S(std::string_view text) { return Print(a.Simplify(P(text))); }
  Context c;
  Analyzer a{c};
};

TEST_F(SimplifyTest, SumsCancel) {
  EXPECT_EQ(S("4 + i - j + i * 7"), "i * 8 - j + 4");
  EXPECT_EQ(S("(i * 4 + j) * n - n * j"), "i * n * 4");
  EXPECT_EQ(S("(i + 3) - (3 + i)"), "0");
}

TEST_F(SimplifyTest, Digits) {
  Range("t", "0", "256");
  Range("v", "0", "8");
  EXPECT_EQ(S("(k * 2048 + t * 8 + v) / 8"), "k * 256 + t");
  EXPECT_EQ(S("(k * 2048 + t * 8 + v) % 8"), "v");
  EXPECT_EQ(S("(k * 2048 + t * 8 + v) % 2048"), "t * 8 + v");
  EXPECT_EQ(S("(t * 8 + v) / 2048"), "0");
  EXPECT_EQ(S("(t * 8 + v) / 64"), "t / 8");
  EXPECT_EQ(S("(t * 8 + v) % 64"), "t % 8 * 8 + v");
  EXPECT_EQ(S("(t * 8 + v) / 64 * 64 + (t * 8 + v) % 64"), "t * 8 + v");
  EXPECT_EQ(S("t / 8 % 4 * 8 + t % 8 + t / 32 * 32"), "t");
  // Of a product with what a remainder left out, a divisor of it leaves nothing either.
  EXPECT_EQ(S("x % 1024 * 50257 % 8"), "x * 50257 % 8");
  EXPECT_EQ(S("(x % 1024 * 50257 + v) % 8"), "(x * 50257 + v) % 8");
  EXPECT_EQ(S("x % 4 * 6 % 8"), "x * 3 % 4 * 2");
  EXPECT_EQ(S("x % 1023 * 50257 % 8"), "x % 1023 * 50257 % 8");
  EXPECT_EQ(S("(k * 256 + t) / 2152 * 2152 + (k * 256 + t) / 8 % 269 * 8 + (k * 256 + t) % 8"), "k * 256 + t");
  // The two are digits of one number, as 98 * 256 is a multiple of 14, and so of 7.
  EXPECT_EQ(S("(k % 98 * 256 + t) / 14 * 14 + (k * 256 + t) % 14"), "k % 98 * 256 + t");
  EXPECT_EQ(S("(k % 98 * 256 + t) / 14 * 112 + (k * 256 + t) % 14 * 8 + v"), "k % 98 * 2048 + t * 8 + v");
  EXPECT_EQ(S("k / 0 * 98 + t % 98"), "k / 0 * 98 + t % 98");
  EXPECT_EQ(S("(k % 98 * 256 + t) / 15 * 15 + (k * 256 + t) % 15"),
            "(k % 98 * 256 + t) / 15 * 15 + (k * 256 + t) % 15");
  EXPECT_EQ(S("k * 2048 + t * 8 + v < 4096"), "k < 2");
  EXPECT_EQ(S("k * 2048 + t * 8 + v < 4000"), "k * 256 + t < 500");
  EXPECT_EQ(S("t * 8 + v == 0"), "t == 0 && v == 0");
}

TEST_F(SimplifyTest, Symbols) {
  a.BindSymbol({.var = P("n"), .lo = 1, .hi = 4096});
  a.BindSymbol({.var = P("m"), .lo = 1, .hi = 4096, .divisor = 8});
  Range("i", "0", "n");
  Range("v", "0", "8");
  Range("j", "0", "m");
  EXPECT_EQ(S("x * 8 + v < n * 8"), "x < n");
  EXPECT_EQ(S("i < n"), "true");
  EXPECT_EQ(S("i * 8 + v < n * 8"), "true");
  EXPECT_EQ(S("(x * n + i) / n"), "x");
  EXPECT_EQ(S("(x * n + i) % n"), "i");
  EXPECT_EQ(S("(x * n * 8 + i * 8 + v) / (n * 8)"), "x");
  EXPECT_EQ(S("(x * n * 8 + i * 8 + v) % (n * 8)"), "i * 8 + v");
  EXPECT_EQ(S("(m + 7) / 8"), "m / 8");
  EXPECT_EQ(S("(m + 7) / 8 * 8"), "m");
  EXPECT_EQ(S("x * 8 + v < m"), "x * 8 < m");
  EXPECT_EQ(S("m % 4"), "0");
  EXPECT_EQ(S("j * n + i < m * n"), "true");
  Range("p", "0", "n * 48");
  EXPECT_EQ(S("p / 4 / n < 12"), "true");
  EXPECT_EQ(S("p / (n * 4) < 11"), "p / 4 / n < 11");
  EXPECT_EQ(S("(x * n + i - n) % n"), "i");
  EXPECT_EQ(S("(x * n - 1) % n"), "n - 1");
  EXPECT_EQ(S("(x * n - 1) / n"), "x - 1");
  EXPECT_EQ(a.KnownDivisor(P("m * 4 + x * 16")), 16);
  EXPECT_EQ(a.KnownDivisor(P("0")), 0);
  // What a remainder leaves, at any place of a sum.
  EXPECT_EQ(a.KnownDivisor(P("x * 7 - x * 7 % 8 + m * 8")), 8);
  EXPECT_EQ(a.KnownDivisor(P("x * 7 - x * 7 % 8 + 4")), 4);
  EXPECT_EQ(a.KnownDivisor(P("x * 7 - x * 5 % 8")), 2);
}

// Of places in an array, computed from one number and back: of extents that are symbols, the same one twice, or sums.
TEST_F(SimplifyTest, DigitsOfSymbols) {
  for (std::string_view s : {"n", "m", "k"}) a.BindSymbol({.var = P(s), .lo = 8, .hi = 4096});
  EXPECT_EQ(S("x / k / m * m * k + x / k % m * k + x % k"), "x");
  EXPECT_EQ(S("x / k / k * k * k + x / k % k * k + x % k"), "x");
  EXPECT_EQ(S("x / k / m / n * n * m * k + x / k / m % n * m * k + x / k % m * k + x % k"), "x");
  EXPECT_EQ(S("x / k / m * m * k * 8 + x / k % m * k * 8 + x % k * 8"), "x * 8");
  EXPECT_EQ(S("x / (k - 6) * (k - 6) + x % (k - 6)"), "x");
  EXPECT_EQ(S("x / (k - 6) * (k - 6) * m + x % (k - 6) * m"), "m * x");
  EXPECT_EQ(S("x / k * m * k + x % k * n"), "k * m * (x / k) + n * (x % k)");
}

TEST_F(SimplifyTest, MinimaBound) {
  a.BindSymbol({.var = P("n"), .lo = 1});
  Range("io", "0", "(n + 127) / 128");
  Range("ii", "0", "min(128, n - io * 128)");
  EXPECT_EQ(S("io * 128 + ii < n"), "true");
  EXPECT_EQ(S("io * 128 < n"), "true");
  EXPECT_EQ(S("ii < 128"), "true");
  EXPECT_EQ(S("min(x + 3, x + 4)"), "x + 3");
  EXPECT_EQ(S("max(min(x, y), x)"), "x");
  // Lines without their ends, of which there may be no middle.
  Range("vo", "0", "(max(n - 4, 0) + 15) / 16");
  Range("vi", "0", "16");
  EXPECT_EQ(S("vo * 16 + vi < max(n - 4, 0)"), "vo * 16 + vi < n - 4");
  EXPECT_EQ(S("min(n - 4, 0) < n - 8 - x"), "x + min(n - 4, 0) < n - 8");
  EXPECT_EQ(S("max(n - 4, 0) <= n"), "true");
  EXPECT_EQ(S("max(n - 4, 2) <= n"), "max(n - 4, 2) < n + 1");
  EXPECT_EQ(S("n - 5 < min(n - 4, n + 2)"), "true");
  Analyzer::Assume middle(a, P("vo * 16 + vi < max(n - 4, 0)"));
  EXPECT_EQ(S("(vo * 16 + vi + 3) % n"), "vo * 16 + vi + 3");
  EXPECT_EQ(S("(vo * 16 + vi + 5) % n"), "(vo * 16 + vi + 5) % n");
}

TEST_F(SimplifyTest, Assumptions) {
  EXPECT_EQ(S("min(i, n)"), "min(i, n)");
  {
    Analyzer::Assume outer(a, P("i < n"));
    EXPECT_EQ(S("min(i, n)"), "i");
    EXPECT_EQ(S("i < n + 1"), "true");
    EXPECT_EQ(S("n <= i"), "false");
    Analyzer::Assume inner(a, P("0 <= i && i < 8 && n % 16 == 0"));
    EXPECT_EQ(S("i / 8"), "0");
    EXPECT_EQ(S("n % 8"), "0");
  }
  EXPECT_EQ(S("min(i, n)"), "min(i, n)");
  EXPECT_EQ(S("i / 8"), "i / 8");
}

// What is below a multiple of 4 and is one is below it by 4.
TEST_F(SimplifyTest, AssumptionsOfMultiples) {
  a.BindSymbol({.var = P("n"), .lo = 1, .hi = 4096});
  a.BindSymbol({.var = P("m"), .lo = 4, .hi = 4096, .divisor = 4});
  a.BindRange(P("i"), c.Int(0), c.Int(1024));
  a.BindRange(P("j"), c.Int(0), c.Int(4));
  Analyzer::Assume below(a, P("i * 4 < n * m"));
  EXPECT_TRUE(a.CanProve(P("i * 4 + j < n * m")));
  EXPECT_TRUE(a.CanProve(P("(i * 4 + j) / m < n")));
  EXPECT_FALSE(a.CanProve(P("i * 4 + j + 1 < n * m")));
  Analyzer::Assume odd(a, P("i * 4 < n * m - 5"));  // so it is no more than n * m - 8
  EXPECT_TRUE(a.CanProve(P("i * 4 + 8 <= n * m")));
  EXPECT_FALSE(a.CanProve(P("i * 4 + 12 <= n * m")));
}

TEST_F(SimplifyTest, BoundsOfSums) {
  Range("i", "0", "10");
  Range("j", "0 - 3", "7");
  auto bounds = [&](std::string_view t) {
    auto b = a.ConstBounds(a.Simplify(P(t)));
    return Cat(b.lo, "..", b.hi);
  };
  EXPECT_EQ(bounds("i * 2 - j"), "-3..21");
  EXPECT_EQ(bounds("j / 2"), "-2..1");
  EXPECT_EQ(bounds("j % 4"), "0..3");
  EXPECT_EQ(bounds("min(i, j)"), "-3..3");
  EXPECT_EQ(bounds("select(i < 3, i, j)"), "-3..9");
  EXPECT_EQ(a.ConstBounds(P("x")).hi, Analyzer::kUnknown);
}

TEST_F(SimplifyTest, Vectors) {
  a.BindSymbol({.var = P("m"), .lo = 1, .hi = 4096, .divisor = 8});
  EXPECT_EQ(S("ramp(i * 8, 1, 8) + broadcast(4, 8)"), "ramp(i * 8 + 4, 1, 8)");
  EXPECT_EQ(S("ramp(i * 8, 1, 8) / broadcast(8, 8)"), "broadcast(i, 8)");
  EXPECT_EQ(S("ramp(i * 8, 1, 8) % broadcast(16, 8)"), "ramp(i % 2 * 8, 1, 8)");
  EXPECT_EQ(S("ramp(i * 8, 1, 8) < broadcast(m, 8)"), "broadcast(i * 8 < m, 8)");
  EXPECT_EQ(S("ramp(i, 1, 8) < broadcast(m, 8)"), "ramp(i, 1, 8) < broadcast(m, 8)");
}

// Wrapping types and loaded values are not index arithmetic.
TEST(Simplify, DataMayWrap) {
  auto f = ParseFunc(R"(func @f(x: i64[8], y: i32[8], u: u8[8], o: bool[8], w: f32[8]) {
  for i in 0..8 {
    o[i] = x[i] < x[i] + 1
    o[i] = y[i] < y[i] + i32(1)
    o[i] = (y[i] + y[i]) / i32(2) == y[i]
    o[i] = u[i] < u8(255) + u8(1)
    o[i] = i32(u[i]) + i32(1) < i32(300)
    w[i] = w[i] * 1.0 + 0.0
  }
}
)");
  ASSERT_TRUE(f.ok()) << f.status();
  Analyzer a(*f);
  std::vector<std::string> got;
  ForEachExpr(f->body, [&](Expr e) {
    if (e->op != ExprOp::kVar && !IsInt(e)) got.push_back(Print(a.Simplify(e)));
  });
  EXPECT_EQ(got, (std::vector<std::string>{"x[i] < x[i] + 1", "y[i] < y[i] + i32(1)", "y[i] * i32(2) / i32(2) == y[i]",
                                           "false", "true", "w[i] + 0.0"}));
}

// What was asked before a variable was bound is asked anew, in whatever way it was asked.
TEST(Simplify, LearnsOfVariablesAskedForBefore) {
  Context c;
  Analyzer a(c);
  const Expr x = c.Var("x"), y = c.Var("y"), z = c.Var("z");
  const Expr less = c.Lt(x, c.Int(8)), half = c.Div(y, c.Int(2)), digit = c.Mod(z, c.Int(8));
  EXPECT_FALSE(a.CanProve(less));
  EXPECT_EQ(a.ConstBounds(half).hi, Analyzer::kUnknown);
  EXPECT_EQ(a.KnownDivisor(digit), 1);
  a.BindRange(x, c.Int(0), c.Int(8));
  a.BindRange(y, c.Int(0), c.Int(8));
  a.BindRange(z, c.Int(12), c.Int(1));
  EXPECT_TRUE(a.CanProve(less));
  EXPECT_EQ(a.ConstBounds(half).hi, 3);
  EXPECT_EQ(a.KnownDivisor(digit), 4);
}

// Extents of texts may be any number.
TEST(Simplify, BoundsBeyondTheirTypeAreUnknown) {
  Context c;
  Analyzer a(c);
  const Expr x = c.Var("x"), y = c.Var("y"), least = c.Int(std::numeric_limits<int64_t>::min());
  a.BindRange(x, c.Int(0), least);
  a.BindRange(y, least, c.Int(0));
  EXPECT_EQ(a.ConstBounds(x).hi, Analyzer::kUnknown);
  EXPECT_EQ(a.ConstBounds(y).hi, Analyzer::kUnknown);
  EXPECT_FALSE(a.CanProve(c.Lt(x, c.Int(5))));
  EXPECT_FALSE(a.CanProve(c.Lt(c.Add(y, least), c.Int(5))));
}

TEST(Simplify, NumbersBeyondAllBounds) {
  Context c;
  Analyzer a(c);
  const Expr x = c.Var("x"), any = c.Var("any");
  a.BindRange(x, c.Int(1), c.Int(63));
  for (const int64_t far : {std::numeric_limits<int64_t>::min(), -Analyzer::kUnknown, Analyzer::kUnknown,
                            std::numeric_limits<int64_t>::max()}) {
    const Expr number = c.Int(far);
    EXPECT_TRUE(a.CanProve(c.Make(ExprOp::kNe, {x, number}))) << far;
    EXPECT_EQ(a.Simplify(c.Eq(x, number)), c.Bool(false)) << far;
    EXPECT_EQ(a.Simplify(c.Lt(x, number)), c.Bool(far > 0)) << far;
    EXPECT_EQ(a.Simplify(c.Le(number, x)), c.Bool(far < 0)) << far;
    EXPECT_EQ(a.Simplify(c.Eq(any, number)), c.Eq(any, number)) << far;
  }
}

// Random expressions over random ranges: the same value everywhere, bounds and divisors that hold.
struct Random {
  int shorter = 0, unstable = 0;
};
// With `extreme` constants that overflow when two are added or multiplied.
void CheckRandomExpressions(int rounds, bool extreme, Random& r) {
  std::mt19937 g(99);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kExtreme[] = {kLeast,
                                  kLeast + 1,
                                  -(int64_t{1} << 62),
                                  -(int64_t{1} << 31),
                                  int64_t{1} << 31,
                                  int64_t{1} << 61,
                                  int64_t{1} << 62,
                                  3 * (int64_t{1} << 61),
                                  kMost};
  for (int round = 0; round < rounds; ++round) {
    Context c;
    Analyzer a(c);
    std::vector<Expr> vars = {c.Var("n"), c.Var("i"), c.Var("j")};
    struct R {
      int64_t lo, hi;
    };
    const int64_t divisor = 1 + static_cast<int64_t>(g() % 3);
    a.BindSymbol({.var = vars[0], .lo = 1, .hi = 6, .divisor = divisor});
    const int64_t i_lo = static_cast<int64_t>(g() % 7) - 3, i_extent = 1 + static_cast<int64_t>(g() % 6);
    a.BindRange(vars[1], c.Int(i_lo), c.Int(i_extent));
    const bool symbolic = g() % 2 == 0;
    const int64_t more = static_cast<int64_t>(g() % 3);
    a.BindRange(vars[2], c.Int(0), symbolic ? c.Add(vars[0], c.Int(more)) : c.Int(4));
    std::function<Expr(int, bool)> gen = [&](int depth, bool boolean) -> Expr {
      auto sub = [&] { return gen(depth - 1, false); };
      if (!boolean && extreme && depth < 4 && g() % 6 == 0) return c.Int(kExtreme[g() % std::size(kExtreme)]);
      if (boolean) {
        const ExprOp ops[] = {ExprOp::kLt, ExprOp::kLe, ExprOp::kEq, ExprOp::kNe};
        if (depth > 1 && g() % 4 == 0) {
          Expr x = gen(depth - 1, true);
          if (g() % 3 == 0) return c.Make(ExprOp::kNot, {x});
          return c.Make(g() % 2 ? ExprOp::kAnd : ExprOp::kOr, {x, gen(depth - 1, true)});
        }
        return c.Make(ops[g() % 4], {sub(), sub()});
      }
      if (depth <= 0 || g() % 5 == 0) return g() % 3 == 0 ? c.Int(static_cast<int64_t>(g() % 13) - 4) : vars[g() % 3];
      if (g() % 9 == 0) return c.Make(ExprOp::kSelect, {gen(depth - 1, true), sub(), sub()});
      const ExprOp ops[] = {ExprOp::kAdd, ExprOp::kAdd, ExprOp::kSub, ExprOp::kMul,      ExprOp::kMul,     ExprOp::kDiv,
                            ExprOp::kMod, ExprOp::kMin, ExprOp::kMax, ExprOp::kTruncDiv, ExprOp::kTruncMod};
      const ExprOp op = ops[g() % 11];
      if ((op == ExprOp::kDiv || op == ExprOp::kMod) && g() % 4 != 0) {
        return c.Make(op, {sub(), g() % 3 == 0 ? vars[0] : c.Int(1 + static_cast<int64_t>(g() % 8))});
      }
      return c.Make(op, {sub(), sub()});
    };
    std::unique_ptr<Analyzer::Assume> assume;
    Expr assumed = nullptr;
    if (g() % 3 == 0) {
      assumed = gen(2, true);
      assume = std::make_unique<Analyzer::Assume>(a, assumed);
    }
    Expr e = gen(4, g() % 2 == 0);
    Expr s = a.Simplify(e);
    r.unstable += a.Simplify(s) != s;
    r.shorter += Print(s).size() < Print(e).size();
    const auto bounds = a.ConstBounds(s);
    const int64_t known = a.KnownDivisor(s);
    for (int64_t n = 1; n <= 6; ++n) {
      if (n % divisor != 0) continue;
      for (int64_t i = i_lo; i < i_lo + i_extent; ++i) {
        for (int64_t j = 0; j < (symbolic ? n + more : 4); ++j) {
          const Env env{{"n", n}, {"i", i}, {"j", j}};
          if (assumed != nullptr && Eval(assumed, env).value_or(0) == 0) continue;
          auto want = Eval(e, env), got = Eval(s, env);
          if (!want || (extreme && !got)) continue;
          ASSERT_EQ(want, got) << Print(e) << "  ->  " << Print(s) << "  at n=" << n << " i=" << i << " j=" << j
                               << (assumed ? " assuming " + Print(assumed) : "");
          ASSERT_TRUE(*got >= bounds.lo || bounds.lo == -Analyzer::kUnknown) << Print(s);
          ASSERT_TRUE(*got <= bounds.hi || bounds.hi == Analyzer::kUnknown) << Print(s);
          if (known == 0) {
            ASSERT_EQ(*got, 0) << Print(s);
          } else {
            ASSERT_EQ(*got % known, 0) << Print(s) << " divisor " << known;
          }
        }
      }
    }
  }
}

TEST(Simplify, RandomExpressions) {
  constexpr int kRounds = Rounds(40000);
  Random r;
  CheckRandomExpressions(kRounds, /*extreme=*/false, r);
  EXPECT_GT(r.shorter, kRounds / 2);
  EXPECT_LT(r.unstable, kRounds / 1000);
}

// Nothing follows from numbers that overflow, and computing with them is defined.
TEST(Simplify, RandomExpressionsOfExtremeNumbers) {
  Random r;
  CheckRandomExpressions(Rounds(40000), /*extreme=*/true, r);
}

// a * b - b is (a - 1) * b, whichever of the two was declared last.
TEST(Analyzer, ProductsAreNoLessThanTheirFactors) {
  Context c;
  Analyzer a(c);
  const Expr x = c.Var("x"), y = c.Var("y"), z = c.Var("z");
  for (Expr v : {x, y, z}) a.BindSymbol({v, 1, int64_t{1} << 31});
  for (Expr v : {x, y}) EXPECT_TRUE(a.CanProve(c.Le(v, c.Mul(x, y)))) << Print(v);
  EXPECT_TRUE(a.CanProve(c.Le(c.Mul(y, z), c.Mul(c.Mul(x, y), z))));
  EXPECT_FALSE(a.CanProve(c.Lt(y, c.Mul(x, y))));
  EXPECT_FALSE(a.CanProve(c.Le(z, c.Mul(x, y))));
}

}  // namespace
}  // namespace cinn_like::ir
