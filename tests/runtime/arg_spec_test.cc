#include "runtime/arg_spec.h"

#include <gtest/gtest.h>

#include <random>

namespace cinn_like {
namespace {

ArgSpec Small() {
  ArgSpec spec;
  spec.function = "f";
  spec.symbols = {{"n", 1, 9, 1}};
  spec.args = {{"x", ArgRole::kInput, 0, DType::kF32, {SymbolDim(0)}, {}, 4}};
  return spec;
}

std::string Error(const ArgSpec& spec) { return Message(EncodeArgSpec(spec).status()); }

TEST(ArgSpec, RandomSpecsRoundTrip) {
  std::mt19937_64 random(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  const auto dim = [&]() -> Dim {
    Dim d = {{DimOp::kSymbol, below(2)}};
    if (below(2)) return d;
    if (below(2)) return ConstDim(below(1000) - 500);
    for (int64_t i = 1 + below(4); i > 0; --i) {
      d.push_back({DimOp::kConst, below(1 << 30) - (1 << 29)});
      d.push_back({static_cast<DimOp>(static_cast<int>(DimOp::kAdd) + below(5)), 0});
    }
    return d;
  };
  for (int round = 0; round < 300; ++round) {
    ArgSpec spec;
    spec.function = Cat("fn", round);
    spec.device_type = below(2) ? 1 : 2;
    spec.symbols = {{"n", below(10), 10 + below(100), 1 + below(8)}, {"batch", 0, INT64_MAX, 1}};
    spec.args = {{"n", ArgRole::kSymbol, 0, DType::kI64, {}, {}, 1},
                 {"b", ArgRole::kSymbol, 1, DType::kI64, {}, {}, 1}};
    for (int64_t i = below(6); i > 0; --i) {
      ArgInfo arg{Cat("arg", i),
                  below(2) ? ArgRole::kInput : ArgRole::kResult,
                  static_cast<int>(i),
                  static_cast<DType>(below(13)),
                  {},
                  {},
                  1 << below(9)};
      for (int64_t d = below(6); d > 0; --d) arg.shape.push_back(dim());
      if (below(2)) {
        for (size_t d = 0; d < arg.shape.size(); ++d) arg.strides.push_back(dim());
      }
      spec.args.push_back(std::move(arg));
    }
    const StatusOr<std::string> bytes = EncodeArgSpec(spec);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const StatusOr<ArgSpec> again = DecodeArgSpec(*bytes);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*EncodeArgSpec(*again), *bytes);
    ASSERT_EQ(again->args.size(), spec.args.size());
    EXPECT_EQ(again->function, spec.function);
    EXPECT_EQ(again->symbols[0].max, spec.symbols[0].max);
    for (size_t i = 0; i < spec.args.size(); ++i) {
      EXPECT_EQ(again->args[i].name, spec.args[i].name);
      EXPECT_EQ(again->args[i].role, spec.args[i].role);
      EXPECT_EQ(again->args[i].dtype, spec.args[i].dtype);
      EXPECT_EQ(again->args[i].shape, spec.args[i].shape);
      EXPECT_EQ(again->args[i].strides, spec.args[i].strides);
      EXPECT_EQ(again->args[i].alignment, spec.args[i].alignment);
    }
  }
}

TEST(ArgSpec, DescribesExpressions) {
  const std::vector<SymbolSpec> symbols = {{"n"}, {"m"}};
  const DimStep n{DimOp::kSymbol, 0}, m{DimOp::kSymbol, 1}, two{DimOp::kConst, 2};
  const DimStep add{DimOp::kAdd}, sub{DimOp::kSub}, mul{DimOp::kMul}, div{DimOp::kFloorDiv}, mod{DimOp::kFloorMod};
  EXPECT_EQ(Describe({n, two, mul, m, add}, symbols), "n*2+m");
  EXPECT_EQ(Describe({n, m, add, two, div}, symbols), "(n+m)/2");
  EXPECT_EQ(Describe({n, m, two, sub, sub}, symbols), "n-(m-2)");
  EXPECT_EQ(Describe({n, m, two, mod, mul}, symbols), "n*(m%2)");
  ArgInfo arg = Small().args[0];
  arg.shape = {{n}, {two}};
  arg.strides = {{two}, {n, two, mul}};
  EXPECT_EQ(DescribeType(arg, symbols), "f32[n,2] strides [2,n*2]");
}

TEST(ArgSpec, ContradictionsAreErrors) {
  ArgSpec s = Small();
  s.args[0].shape = {ConstDim(3)};
  EXPECT_EQ(Error(s), "f: symbol 'n' is no plain dimension of an input and no argument");
  s = Small();
  s.args[0].role = ArgRole::kPacked;  // not looked at, so it binds nothing
  EXPECT_EQ(Error(s), "f: symbol 'n' is no plain dimension of an input and no argument");
  s = Small();
  s.symbols[0].divisor = 0;
  EXPECT_EQ(Error(s), "f: symbol 'n' in 1..9 multiple 0");
  s = Small();
  s.args[0].shape.push_back(SymbolDim(1));
  EXPECT_EQ(Error(s), "f: argument 'x': symbol number 1 of 1");
  s = Small();
  s.args[0].shape.push_back({{DimOp::kConst, 1}, {DimOp::kAdd, 0}});
  EXPECT_EQ(Error(s), "f: argument 'x': an operator without operands");
  s = Small();
  s.args[0].shape.push_back({{DimOp::kConst, 1}, {DimOp::kConst, 1}});
  EXPECT_EQ(Error(s), "f: argument 'x': an expression with 2 values, expected 1");
  s = Small();
  s.args[0].shape.push_back({});
  EXPECT_EQ(Error(s), "f: argument 'x': an expression with 0 values, expected 1");
  s = Small();
  s.args[0].shape.push_back(ConstDim(INT64_MAX));
  EXPECT_EQ(Error(s), "f: argument 'x': constant 9223372036854775807 is too large");
  s = Small();
  s.args[0].shape.resize(kMaxRank + 1, ConstDim(1));
  EXPECT_EQ(Error(s), "f: argument 'x': rank 33 is above 32");
  s = Small();
  s.args[0].strides = {ConstDim(1), ConstDim(1)};
  EXPECT_EQ(Error(s), "f: argument 'x': 2 strides for rank 1");
  s = Small();
  s.args[0].alignment = 12;
  EXPECT_EQ(Error(s), "f: argument 'x': alignment 12 is no power of two");
  EXPECT_EQ(Message(DecodeArgSpec("nonsense").status()), "argument spec: not one, or of another version");
}

}  // namespace
}  // namespace cinn_like
