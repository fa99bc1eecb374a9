#include "hlir/dim.h"

#include <gtest/gtest.h>

#include <random>

namespace cinn_like::hlir {
namespace {

Dim P(std::string_view text) {
  Lexer lexer(text);
  StatusOr<Dim> d = ParseDim(&lexer);
  EXPECT_TRUE(d.ok()) << text << ": " << d.status();
  EXPECT_TRUE(lexer.AtEnd()) << text;
  return d.ok() ? *d : Dim(-12345);
}

TEST(Dim, Canonical) {
  for (const auto& [text, printed] :
       std::vector<std::pair<std::string, std::string>>{{"n*12", "n*12"},
                                                        {"(n+n)*64", "n*128"},
                                                        {"n*128/4", "n*32"},
                                                        {"(n*4+3)/4", "n"},
                                                        {"(n*4+1)%4", "1"},
                                                        {"n*m*3-m*n", "m*n*2"},
                                                        {"8-n", "8-n"},
                                                        {"n/2/3", "n/6"},
                                                        {"6*n/4", "(n*3)/2"},
                                                        {"n*m/n", "m"},
                                                        {"(n*m+m)/m", "n+1"},
                                                        {"n%1", "0"},
                                                        {"(n+7)/8*8", "(n+7)/8*8"},
                                                        {"0-n/2", "0-n/2"},
                                                        {"-(n/2)*3", "0-n/2*3"},
                                                        {"m*(n/2)", "m*(n/2)"},
                                                        {"n-1-n", "-1"},
                                                        {"(n+9)/4", "(n+1)/4+2"},
                                                        {"-9223372036854775808", "-9223372036854775808"},
                                                        {"n*-9223372036854775808", "n*-9223372036854775808"},
                                                        {"m+n*-9223372036854775808", "m+n*-9223372036854775808"},
                                                        {"n+-9223372036854775808", "n+-9223372036854775808"}}) {
    const Dim d = P(text);
    EXPECT_EQ(d.ToString(), printed) << text;
    EXPECT_EQ(P(d.ToString()), d) << text;
  }
}

TEST(Dim, Facts) {
  const SymbolTable symbols = {{"n", 8, 4096, 8}, {"m", 1, 64, 1}};
  EXPECT_TRUE(ProvablyEqual(P("n/8*8"), P("n"), symbols));
  EXPECT_TRUE(ProvablyEqual(P("n%4"), P("0"), symbols));
  EXPECT_FALSE(ProvablyEqual(P("n/16*16"), P("n"), symbols));
  EXPECT_FALSE(ProvablyEqual(P("n"), P("m"), symbols));
  EXPECT_TRUE(Divides(16, P("n*2"), symbols));
  EXPECT_TRUE(Divides(8, P("n*m"), symbols));
  EXPECT_FALSE(Divides(16, P("n*m"), symbols));
  EXPECT_FALSE(Divides(2, P("m"), symbols));
  EXPECT_EQ(RangeOf(P("n*m-8"), symbols).lo, 0);
  EXPECT_EQ(RangeOf(P("n*m-8"), symbols).hi, 4096 * 64 - 8);
  EXPECT_EQ(RangeOf(P("(n+1)/8"), symbols).hi, 512);
  EXPECT_EQ(RangeOf(P("n%7"), symbols).hi, 6);
}

// A random expression as text, beside its value with n = 13, m = 4.
std::pair<std::string, int64_t> RandomExpr(std::mt19937& rng, int depth) {
  auto pick = [&](int n) { return static_cast<int>(rng() % n); };
  if (depth == 0) {
    const int k = pick(3);
    if (k == 0) return {"n", 13};
    if (k == 1) return {"m", 4};
    const int c = pick(9) + 1;
    return {std::to_string(c), c};
  }
  const auto [a, x] = RandomExpr(rng, depth - 1);
  const int op = pick(5);
  if (op >= 3) {
    const int c = pick(7) + 1;
    const int64_t q = x >= 0 ? x / c : -((-x + c - 1) / c);
    return {Cat("((", a, ")", op == 3 ? "/" : "%", c, ")"), op == 3 ? q : x - q * c};
  }
  const auto [b, y] = RandomExpr(rng, depth - 1);
  return {Cat("(", a, op == 0 ? "+" : op == 1 ? "-" : "*", b, ")"), op == 0 ? x + y : op == 1 ? x - y : x * y};
}

TEST(Dim, RandomExpressionsKeepTheirValueAndRoundTrip) {
  std::mt19937 rng(7);
  for (int i = 0; i < 3000; ++i) {
    const auto [text, value] = RandomExpr(rng, 1 + i % 4);
    const Dim d = P(text);
    EXPECT_EQ(d.Evaluate([](const std::string& s) { return s == "n" ? 13 : 4; }), value)
        << text << " = " << d.ToString();
    EXPECT_EQ(P(d.ToString()), d) << text << " = " << d.ToString();
    const DimRange range = RangeOf(d, {{"n", 10, 20, 1}, {"m", 4, 4, 2}});
    EXPECT_LE(range.lo, value) << text;
    EXPECT_GE(range.hi, value) << text;
  }
}

TEST(Dim, BadText) {
  for (const auto& [text, message] :
       std::vector<std::pair<std::string, std::string>>{{"n+", "expected a dimension, got end of text"},
                                                        {"n/0", "dimension divided by zero"},
                                                        {"(n", "expected ')'"},
                                                        {"99999999999999999999", "does not fit in 64 bits"},
                                                        {std::string(100000, '('), "dimension is too long"}}) {
    Lexer lexer(text);
    const StatusOr<Dim> d = ParseDim(&lexer);
    ASSERT_FALSE(d.ok()) << text;
    EXPECT_NE(Message(d.status()).find(message), std::string::npos) << d.status();
  }
}

}  // namespace
}  // namespace cinn_like::hlir
