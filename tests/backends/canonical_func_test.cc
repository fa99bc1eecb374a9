// Canonical texts, and the grain of parallel loops.
#include "backends/canonical_func.h"

#include "backends/parallel_grain.h"
#include "gtest/gtest.h"

namespace cinn_like {
namespace {

ir::Func Parse(const std::string& text) {
  auto f = ir::ParseFunc(text);
  EXPECT_TRUE(f.ok()) << f.status();
  return *std::move(f);
}

TEST(CanonicalFunc, NamesDoNotMatter) {
  const ir::Func a = Parse(R"(
func @softmax_3(x: f32[1], y: f32[1], n: i64) {
  for i in 0..n {
    alloc t: f32[4] @local
    let s = x[i] * 2.0
    y[i] = s + t[0]
  }
}
)");
  const ir::Func b = Parse(R"(
func @other(in: f32[1], out: f32[1], rows: i64) {
  for row in 0..rows {
    alloc tmp: f32[4] @local
    let twice = in[row] * 2.0
    out[row] = twice + tmp[0]
  }
}
)");
  EXPECT_EQ(ir::Print(CanonicalFunc(a)), ir::Print(CanonicalFunc(b)));
  EXPECT_NE(CanonicalFunc(a).context, a.context);
}

TEST(CanonicalFunc, MeaningDoes) {
  const char* texts[] = {
      "func @f(x: f32[1], y: f32[1]) {\n  y[0] = x[0]\n}\n",
      "func @f(x: f32[1], y: f32[1]) {\n  x[0] = y[0]\n}\n",
      "func @f(x: f64[1], y: f64[1]) {\n  y[0] = x[0]\n}\n",
      "func @f(x: f32[1] align 64, y: f32[1]) {\n  y[0] = x[0]\n}\n",
      "func @f(x: f32[1], y: f32[1]) {\n  y[0] = x[0] + 0.0\n}\n",
      "func @f(x: f32[1], y: f32[1]) {\n  for i in 0..1 @parallel {\n    y[0] = x[0]\n  }\n}\n",
  };
  for (const char* a : texts) {
    for (const char* b : texts) {
      EXPECT_EQ(ir::Print(CanonicalFunc(Parse(a))) == ir::Print(CanonicalFunc(Parse(b))), a == b) << a << b;
    }
  }
}

TEST(CanonicalFunc, RenamesCalleesOfTheModuleOnly) {
  const ir::Func f = Parse("func @f(x: f32[1]) {\n  call @a(&x[0])\n  call @b(&x[0])\n  call a(&x[0])\n}\n");
  EXPECT_EQ(ir::Print(RenameCallees(f, {{"a", "z"}})),
            "func @f(x: f32[1]) {\n  call @z(&x[0])\n  call @b(&x[0])\n  call a(&x[0])\n}\n");
}

std::string Grain(const std::string& text) {
  const ir::Func f = Parse(text);
  const auto* loop = ir::As<ir::For>(f.body);
  EXPECT_NE(loop, nullptr);
  return ir::Print(ParallelGrain(*f.context, *loop));
}

TEST(ParallelGrain, FollowsTheWorkOfAnIteration) {
  const int64_t cheap =
      std::stoll(Grain("func @f(x: f32[1]) {\n  for i in 0..1000 @parallel {\n    x[i] = x[i] + 1.0\n  }\n}\n"));
  const int64_t dear =
      std::stoll(Grain("func @f(x: f32[1]) {\n  for i in 0..1000 @parallel {\n    x[i] = exp(x[i])\n  }\n}\n"));
  EXPECT_GT(cheap, 500);
  EXPECT_GT(cheap, 3 * dear);
  const std::string rows =
      "func @f(x: f32[1], m: i64) {\n  for i in 0..9 @parallel {\n    for j in 0..EXTENT {\n      x[i * 8 + j] = 1.0\n "
      "   }\n  }\n}\n";
  auto with = [&](const std::string& extent) {
    std::string text = rows;
    return Grain(text.replace(text.find("EXTENT"), 6, extent));
  };
  EXPECT_EQ(with("1000000"), "1");
  EXPECT_NE(with("m").find("tdiv(16000"), std::string::npos) << with("m");
  // An extent that only the body knows is a guess.
  EXPECT_GT(std::stoll(with("i + 1")), 1);
}

}  // namespace
}  // namespace cinn_like
