#include "cinn_like/base/lexer.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace cinn_like {
namespace {

TEST(Lexer, ReadsRandomIntegersBack) {
  std::mt19937_64 random(std::random_device{}());
  for (int i = 0; i < 1000; ++i) {
    const int64_t value = static_cast<int64_t>(random()) >> (random() % 64);
    const std::string text = Cat(value, " next");
    Lexer lexer(text);
    const StatusOr<int64_t> got = lexer.Int("a number");
    ASSERT_TRUE(got.ok()) << Message(got.status());
    EXPECT_EQ(*got, value);
    EXPECT_TRUE(lexer.Eat("next"));
    EXPECT_TRUE(lexer.AtEnd());
  }
}

TEST(Lexer, KeepsRangesApartFromFractions) {
  Lexer lexer("1..4096 2.5");
  EXPECT_EQ(lexer.Int("low").value(), 1);
  EXPECT_TRUE(lexer.Eat(".."));
  EXPECT_EQ(lexer.Int("high").value(), 4096);
  EXPECT_EQ(lexer.Number("x").value(), 2.5);
}

TEST(Lexer, ErrorsNameThePlaceAndWhatWasFound) {
  Lexer lexer("// a comment\n  name 7");
  EXPECT_EQ(lexer.Ident("a name").value(), "name");
  EXPECT_EQ(Message(lexer.Ident("a name").status()), "line 2, column 8: expected a name, got '7'");
  EXPECT_EQ(Message(lexer.Expect("->")), "line 2, column 8: expected '->', got '7'");
}

TEST(Lexer, RefusesIntegersBeyond64Bits) {
  Lexer lexer("9223372036854775808");
  EXPECT_EQ(Message(lexer.Int("the size").status()),
            "line 1, column 1: the size does not fit in 64 bits, got '9223372036854775808'");
}

}  // namespace
}  // namespace cinn_like
