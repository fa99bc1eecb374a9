// The f32 functions against libm in f64: within the bounds of docs/numerics.md over all of f32, and equal to libm at
// infinities, NaN and zeros.
#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/backends/jit_test_util.h"
#include "tests/rounds.h"

namespace cinn_like {
namespace {

struct Function {
  const char* name;
  double (*reference)(double);
};
double Rsqrt(double x) { return 1 / std::sqrt(x); }
constexpr Function kFunctions[] = {
    {"exp", std::exp},     {"exp2", std::exp2}, {"expm1", std::expm1}, {"log", std::log},
    {"log1p", std::log1p}, {"sqrt", std::sqrt}, {"rsqrt", Rsqrt},      {"tanh", std::tanh},
    {"erf", std::erf},     {"sin", std::sin},   {"cos", std::cos},
};

// The table of bounds: lines "| exp | 1.1 | ...".
std::map<std::string, double> ReadBounds() {
  std::map<std::string, double> bounds;
  std::ifstream file("docs/numerics.md");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream in(line);
    std::string bar, name, bar2;
    double bound;
    if (in >> bar >> name >> bar2 >> bound && bar == "|" && bar2 == "|") bounds[name] = bound;
  }
  return bounds;
}

// The distance in units of the last place of the f32 nearest to `want` (denormals: their spacing).
double Ulps(float got, double want) {
  const float nearest = static_cast<float>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(got)) {
    // At the edge of overflow either neighbour may come.
    if (got == nearest) return 0;
    return std::fabs(want) > 3.402823e38 && std::fabs(got) > 3.402823e38f ? 1 : INFINITY;
  }
  int exponent;
  std::frexp(want, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(got) - want) / ulp;
}

class VectorMathTest : public ::testing::TestWithParam<int> {};

std::string Text(int lanes) {
  std::string text;
  for (const Function& f : kFunctions) {
    text += lanes == 1
                ? Cat("func @", f.name, "(x: f32[1], y: f32[1], n: i64) {\n  for i in 0..n {\n    y[i] = ", f.name,
                      "(x[i])\n  }\n}\n")
                : Cat("func @", f.name, "(x: f32[1], y: f32[1], n: i64) {\n  for i in 0..tdiv(n, ", lanes,
                      ") {\n    y[ramp(i * ", lanes, ", 1, ", lanes, ")] = ", f.name, "(x[ramp(i * ", lanes, ", 1, ",
                      lanes, ")])\n  }\n}\n");
  }
  return text;
}

TEST_P(VectorMathTest, WithinDocumentedBounds) {
  const int lanes = GetParam();
  const auto bounds = ReadBounds();
  const auto compiler = CompileForTest(Text(lanes));
  constexpr int64_t kBlock = 1 << 14;
  // Every binade of both signs, a different offset in each block.
  const uint32_t step = (lanes == 16 ? 1021 : 16411) * kRoundsDivisor;
  std::vector<float> x(kBlock), y(kBlock);
  for (const Function& f : kFunctions) {
    ASSERT_TRUE(bounds.contains(f.name)) << f.name << " is missing in docs/numerics.md";
    double worst = 0;
    float worst_at = 0, worst_got = 0;
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32);) {
      for (int64_t i = 0; i < kBlock; ++i, bits += step) x[i] = std::bit_cast<float>(static_cast<uint32_t>(bits));
      ASSERT_EQ(CallInternal(*compiler, f.name, x.data(), y.data(), kBlock), 0);
      for (int64_t i = 0; i < kBlock; ++i) {
        const double ulps = Ulps(y[i], f.reference(x[i]));
        if (ulps > worst) {
          worst = ulps;
          worst_at = x[i];
          worst_got = y[i];
        }
      }
    }
    RecordProperty(f.name, Cat(worst));
    EXPECT_LE(worst, bounds.at(f.name)) << f.name << "(" << worst_at << ") gives " << worst_got << ", not "
                                        << f.reference(worst_at);
  }
}

TEST_P(VectorMathTest, DenseAroundOneAndZero) {
  const int lanes = GetParam();
  const auto bounds = ReadBounds();
  const auto compiler = CompileForTest(Text(lanes));
  std::mt19937 rng(lanes);
  constexpr int64_t kBlock = 1 << 18;
  std::vector<float> x(kBlock), y(kBlock);
  for (const Function& f : kFunctions) {
    for (const double center : {0.0, 1.0, -1.0, 3.14159265, 80.0, -100.0}) {
      std::normal_distribution<float> d(static_cast<float>(center), 1);
      for (float& v : x) v = d(rng);
      ASSERT_EQ(CallInternal(*compiler, f.name, x.data(), y.data(), kBlock), 0);
      for (int64_t i = 0; i < kBlock; ++i) {
        ASSERT_LE(Ulps(y[i], f.reference(x[i])), bounds.at(f.name)) << f.name << "(" << x[i] << ") gives " << y[i];
      }
    }
  }
}

TEST_P(VectorMathTest, SpecialValuesAsLibm) {
  const int lanes = GetParam();
  const auto compiler = CompileForTest(Text(lanes));
  std::vector<float> x = {
      0.0f,   -0.0f,   INFINITY,       -INFINITY,       NAN,   1.0f,    -1.0f, 3.4028235e38f, -3.4028235e38f,
      1e-45f, -1e-45f, 1.1754944e-38f, -1.1754944e-38f, 88.8f, -110.0f, -2.0f};
  std::vector<float> y(x.size());
  for (const Function& f : kFunctions) {
    ASSERT_EQ(CallInternal(*compiler, f.name, x.data(), y.data(), static_cast<int64_t>(x.size())), 0);
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = static_cast<float>(f.reference(x[i]));
      EXPECT_LE(Ulps(y[i], f.reference(x[i])), 2) << f.name << "(" << x[i] << ") gives " << y[i] << ", not " << want;
      if (want == 0) {
        EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << f.name << "(" << x[i] << ")";
      }
    }
  }
}

TEST_P(VectorMathTest, RemaindersAreExact) {
  const int lanes = GetParam();
  const std::string at = lanes == 1 ? "i" : Cat("ramp(i * ", lanes, ", 1, ", lanes, ")");
  std::string text;
  for (const auto& [name, value] : {std::pair("fmod", "tmod(x[$], y[$])"), std::pair("floored", "x[$] % y[$]")}) {
    text += Cat("func @", name, "(x: f32[1], y: f32[1], z: f32[1], n: i64) {\n  for i in 0..tdiv(n, ", lanes,
                ") {\n    z[$] = ", value, "\n  }\n}\n");
  }
  const auto compiler = CompileForTest(absl::StrReplaceAll(text, {{"$", at}}));
  constexpr int64_t kCount = 1 << 16;
  std::mt19937 rng(lanes);
  std::vector<float> x(kCount), y(kCount), z(kCount);
  const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -3.0f, 3.4028235e38f, 1e-45f, -1.1754944e-38f};
  std::normal_distribution<float> near(0, 100);
  for (int64_t i = 0; i < kCount; ++i) {
    const auto any = [&] {
      const int kind = static_cast<int>(rng() % 8);
      if (kind == 0) return special[rng() % std::size(special)];
      return kind < 4   ? std::bit_cast<float>(static_cast<uint32_t>(rng()))
             : kind < 6 ? near(rng)
                        : std::trunc(near(rng));
    };
    x[i] = any();
    y[i] = any();
  }
  for (const bool floored : {false, true}) {
    ASSERT_EQ(CallInternal(*compiler, floored ? "floored" : "fmod", x.data(), y.data(), z.data(), kCount), 0);
    for (int64_t i = 0; i < kCount; ++i) {
      float want = std::fmod(x[i], y[i]);
      if (floored && want != 0 && (want < 0) != (y[i] < 0)) want += y[i];
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(z[i])) << x[i] << " by " << y[i] << " gives " << z[i];
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(z[i]), std::bit_cast<uint32_t>(want))
            << x[i] << " by " << y[i] << ": " << z[i];
      }
    }
  }
}

TEST_P(VectorMathTest, Pow) {
  const int lanes = GetParam();
  const double bound = ReadBounds()["pow"];
  ASSERT_GT(bound, 0);
  const std::string index = lanes == 1 ? "i" : Cat("ramp(i * ", lanes, ", 1, ", lanes, ")");
  const auto compiler =
      CompileForTest(Cat("func @pow(x: f32[1], y: f32[1], z: f32[1], n: i64) {\n  for i in 0..tdiv(n, ", lanes,
                         ") {\n    z[", index, "] = pow(x[", index, "], y[", index, "])\n  }\n}\n"));
  std::vector<float> values = {0.0f,    -0.0f,    INFINITY,    -INFINITY,   NAN,        1.0f,      -1.0f,  2.0f,
                               -2.0f,   3.0f,     -3.0f,       0.5f,        -0.5f,      2.5f,      1e-45f, -1e-45f,
                               3.4e38f, -3.4e38f, 16777215.0f, 16777216.0f, 1.0000001f, 0.9999999f};
  std::vector<float> x, y;
  for (float a : values) {
    for (float b : values) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  std::mt19937_64 rng(3);
  while (x.size() < 2000000) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng() & 0x7fffffff)));
    y.push_back(std::uniform_real_distribution<float>(-8, 8)(rng));
    x.push_back(std::uniform_real_distribution<float>(-4, 4)(rng));
    y.push_back(std::round(std::uniform_real_distribution<float>(-60, 60)(rng)));
    x.push_back(std::uniform_real_distribution<float>(0.9f, 1.1f)(rng));
    y.push_back(std::uniform_real_distribution<float>(-900, 900)(rng));
  }
  x.resize(x.size() / 16 * 16);
  y.resize(x.size());
  std::vector<float> z(x.size());
  ASSERT_EQ(CallInternal(*compiler, "pow", x.data(), y.data(), z.data(), static_cast<int64_t>(x.size())), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
    ASSERT_LE(Ulps(z[i], want), bound) << "pow(" << x[i] << ", " << y[i] << ") gives " << z[i] << ", not " << want;
    if (want == 0) {
      ASSERT_EQ(std::signbit(z[i]), std::signbit(want)) << "pow(" << x[i] << ", " << y[i] << ")";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, VectorMathTest, ::testing::Values(1, 16));

}  // namespace
}  // namespace cinn_like
