// The functions against libm's of a wider type: within the bounds of docs/numerics.md over all of f32 and f64, and
// equal to libm's at infinities, NaN and zeros.
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <type_traits>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/backends/jit_test_util.h"
#include "tests/rounds.h"

namespace cinn_like {
namespace {

// What results are held against: f32 in f64, f64 in x86's 80 bits.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
template <typename T>
constexpr const char* kName = sizeof(T) == 4 ? "f32" : "f64";

struct Function {
  const char* name;
  double (*of_double)(double);
  long double (*of_long_double)(long double);
  double operator()(double x) const { return of_double(x); }
  long double operator()(long double x) const { return of_long_double(x); }
};
template <typename T>
T Rsqrt(T x) {
  return 1 / std::sqrt(x);
}
constexpr Function kFunctions[] = {
    {"exp", std::exp, std::exp}, {"exp2", std::exp2, std::exp2},    {"expm1", std::expm1, std::expm1},
    {"log", std::log, std::log}, {"log1p", std::log1p, std::log1p}, {"sqrt", std::sqrt, std::sqrt},
    {"rsqrt", Rsqrt, Rsqrt},     {"tanh", std::tanh, std::tanh},    {"erf", std::erf, std::erf},
    {"sin", std::sin, std::sin}, {"cos", std::cos, std::cos},
};

// The table of bounds: lines "| exp | f32's | f64's | ...".
template <typename T>
std::map<std::string, double> ReadBounds() {
  std::map<std::string, double> bounds;
  std::ifstream file("docs/numerics.md");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream in(line);
    std::string bar, name, bar2, bar3;
    double f32, f64;
    if (in >> bar >> name >> bar2 >> f32 >> bar3 >> f64 && bar == "|" && bar2 == "|" && bar3 == "|") {
      bounds[name] = sizeof(T) == 4 ? f32 : f64;
    }
  }
  return bounds;
}

// The distance in units of the last place of the number nearest to `want` (denormals: their spacing).
template <typename T>
double Ulps(T got, Wide<T> want) {
  using Limits = std::numeric_limits<T>;
  const T nearest = static_cast<T>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(got)) {
    // At the edge of overflow either neighbour may come.
    if (got == nearest) return 0;
    return std::abs(want) > Limits::max() * Wide<T>(0.9999998) && std::abs(got) > Limits::max() * T(0.9999998)
               ? 1
               : INFINITY;
  }
  int exponent;
  std::frexp(want, &exponent);
  constexpr int kLeast = Limits::min_exponent - Limits::digits;
  const Wide<T> ulp = std::ldexp(Wide<T>(1), std::max(exponent - Limits::digits, kLeast));
  return static_cast<double>(std::abs(static_cast<Wide<T>>(got) - want) / ulp);
}

class VectorMathTest : public ::testing::TestWithParam<int> {};

// `body` for each i, T the type, and $ where element i, or vector i, is.
std::string Loop(std::string_view name, std::string_view buffers, int lanes, const char* type, std::string_view body) {
  const std::string at = lanes == 1 ? "i" : Cat("ramp(i * ", lanes, ", 1, ", lanes, ")");
  return absl::StrReplaceAll(
      Cat("func @", name, "(", buffers, ", n: i64) {\n  for i in 0..tdiv(n, ", lanes, ") {\n    ", body, "\n  }\n}\n"),
      {{"$", at}, {": T", Cat(": ", type)}});
}

template <typename T>
std::string Text(int lanes) {
  std::string text;
  for (const Function& f : kFunctions) {
    text += Loop(f.name, "x: T[1], y: T[1]", lanes, kName<T>, Cat("y[$] = ", f.name, "(x[$])"));
  }
  return text;
}

// Every binade of both signs, a different offset in each block.
template <typename T>
void CheckAllBinades(int lanes, uint64_t step) {
  const auto bounds = ReadBounds<T>();
  const auto compiler = CompileForTest(Text<T>(lanes));
  constexpr int64_t kBlock = 1 << 14;
  std::vector<T> x(kBlock), y(kBlock);
  for (const Function& f : kFunctions) {
    ASSERT_TRUE(bounds.contains(f.name)) << f.name << " is missing in docs/numerics.md";
    double worst = 0;
    T worst_at = 0, worst_got = 0;
    constexpr auto kMost = std::numeric_limits<Bits<T>>::max();
    for (Bits<T> bits = 0; bits < kMost - step * kBlock;) {
      for (int64_t i = 0; i < kBlock; ++i, bits += static_cast<Bits<T>>(step)) x[i] = std::bit_cast<T>(bits);
      ASSERT_EQ(CallInternal(*compiler, f.name, x.data(), y.data(), kBlock), 0);
      for (int64_t i = 0; i < kBlock; ++i) {
        const double ulps = Ulps(y[i], f(Wide<T>(x[i])));
        if (ulps > worst) {
          worst = ulps;
          worst_at = x[i];
          worst_got = y[i];
        }
      }
    }
    EXPECT_LE(worst, bounds.at(f.name)) << kName<T> << " " << f.name << "(" << worst_at << ") gives " << worst_got
                                        << ", not " << f(Wide<T>(worst_at));
  }
}

TEST_P(VectorMathTest, WithinDocumentedBounds) {
  const int lanes = GetParam();
  const uint64_t step = (lanes == 16 ? 2039 : 16411) * kRoundsDivisor;
  CheckAllBinades<float>(lanes, step);
  CheckAllBinades<double>(lanes, (step << 35) + 12345678901);
}

template <typename T>
void CheckCommonNumbers(int lanes) {
  const auto bounds = ReadBounds<T>();
  const auto compiler = CompileForTest(Text<T>(lanes));
  std::mt19937 rng(lanes);
  constexpr int64_t kBlock = sizeof(T) == 4 ? 1 << 17 : 1 << 14;
  std::vector<T> x(kBlock), y(kBlock);
  for (const Function& f : kFunctions) {
    for (const double center : {0.0, 1.0, -1.0, 3.14159265, 80.0, -100.0, 700.0}) {
      std::normal_distribution<T> d(static_cast<T>(center), 1);
      for (T& v : x) v = d(rng);
      ASSERT_EQ(CallInternal(*compiler, f.name, x.data(), y.data(), kBlock), 0);
      for (int64_t i = 0; i < kBlock; ++i) {
        ASSERT_LE(Ulps(y[i], f(Wide<T>(x[i]))), bounds.at(f.name))
            << kName<T> << " " << f.name << "(" << x[i] << ") gives " << y[i];
      }
    }
  }
}

TEST_P(VectorMathTest, DenseAroundOneAndZero) {
  CheckCommonNumbers<float>(GetParam());
  CheckCommonNumbers<double>(GetParam());
}

// The numbers closest to multiples of pi / 2, where most of an argument is taken off.
TEST_P(VectorMathTest, CloseToQuarterTurns) {
  const int lanes = GetParam();
  const auto bounds = ReadBounds<double>();
  const auto compiler = CompileForTest(Text<double>(lanes));
  std::vector<double> x, y;
  for (int64_t turns = 1; turns < 1 << 16; ++turns) {
    const double near = static_cast<double>(static_cast<long double>(turns) * (M_PIl / 2));
    for (const double v : {near, std::nextafter(near, 0.0), -near}) x.push_back(v);
  }
  x.resize(x.size() / lanes * lanes);
  y.resize(x.size());
  for (const Function& f : kFunctions) {
    if (f.name != std::string_view("sin") && f.name != std::string_view("cos")) continue;
    ASSERT_EQ(CallInternal(*compiler, f.name, x.data(), y.data(), static_cast<int64_t>(x.size())), 0);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(Ulps(y[i], f(static_cast<long double>(x[i]))), bounds.at(f.name)) << f.name << "(" << x[i] << ")";
    }
  }
}

template <typename T>
void CheckSpecialValues(int lanes) {
  using Limits = std::numeric_limits<T>;
  const auto compiler = CompileForTest(Text<T>(lanes));
  const std::vector<T> x = {T(0),
                            T(-0.0),
                            Limits::infinity(),
                            -Limits::infinity(),
                            Limits::quiet_NaN(),
                            T(1),
                            T(-1),
                            Limits::max(),
                            -Limits::max(),
                            Limits::denorm_min(),
                            -Limits::denorm_min(),
                            Limits::min(),
                            -Limits::min(),
                            T(88.8),
                            T(-110),
                            T(-2)};
  std::vector<T> y(x.size());
  for (const Function& f : kFunctions) {
    ASSERT_EQ(CallInternal(*compiler, f.name, x.data(), y.data(), static_cast<int64_t>(x.size())), 0);
    for (size_t i = 0; i < x.size(); ++i) {
      const Wide<T> want = f(Wide<T>(x[i]));
      EXPECT_LE(Ulps(y[i], want), 2) << kName<T> << " " << f.name << "(" << x[i] << ") gives " << y[i] << ", not "
                                     << want;
      if (static_cast<T>(want) == 0) {
        EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << f.name << "(" << x[i] << ")";
      }
    }
  }
}

TEST_P(VectorMathTest, SpecialValuesAsLibm) {
  CheckSpecialValues<float>(GetParam());
  CheckSpecialValues<double>(GetParam());
}

template <typename T>
void CheckRemainders(int lanes) {
  const auto compiler =
      CompileForTest(Cat(Loop("fmod", "x: T[1], y: T[1], z: T[1]", lanes, kName<T>, "z[$] = tmod(x[$], y[$])"),
                         Loop("floored", "x: T[1], y: T[1], z: T[1]", lanes, kName<T>, "z[$] = x[$] % y[$]")));
  constexpr int64_t kCount = 1 << 16;
  std::mt19937_64 rng(lanes);
  std::vector<T> x(kCount), y(kCount), z(kCount);
  using Limits = std::numeric_limits<T>;
  const T special[] = {T(0),          T(-0.0), Limits::infinity(), -Limits::infinity(),  Limits::quiet_NaN(), T(1),
                       Limits::max(), T(-3),   Limits::min(),      Limits::denorm_min(), -Limits::min()};
  std::normal_distribution<T> near(0, 100);
  for (int64_t i = 0; i < kCount; ++i) {
    const auto any = [&] {
      const int kind = static_cast<int>(rng() % 8);
      if (kind == 0) return special[rng() % std::size(special)];
      return kind < 4 ? std::bit_cast<T>(static_cast<Bits<T>>(rng())) : kind < 6 ? near(rng) : std::trunc(near(rng));
    };
    x[i] = any();
    // Often one that goes into it almost a whole number of times.
    y[i] = rng() % 4 == 0 ? std::nextafter(x[i] / static_cast<T>(1 + rng() % (1 << 20)), any()) : any();
  }
  for (const bool floored : {false, true}) {
    ASSERT_EQ(CallInternal(*compiler, floored ? "floored" : "fmod", x.data(), y.data(), z.data(), kCount), 0);
    for (int64_t i = 0; i < kCount; ++i) {
      T want = std::fmod(x[i], y[i]);
      if (floored && want != 0 && (want < 0) != (y[i] < 0)) want += y[i];
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(z[i])) << x[i] << " by " << y[i] << " gives " << z[i];
      } else {
        EXPECT_EQ(std::bit_cast<Bits<T>>(z[i]), std::bit_cast<Bits<T>>(want)) << x[i] << " by " << y[i] << ": " << z[i];
      }
    }
  }
}

TEST_P(VectorMathTest, RemaindersAreExact) {
  CheckRemainders<float>(GetParam());
  CheckRemainders<double>(GetParam());
}

template <typename T>
void CheckPow(int lanes) {
  using Limits = std::numeric_limits<T>;
  const double bound = ReadBounds<T>()["pow"];
  ASSERT_GT(bound, 0);
  const auto compiler =
      CompileForTest(Loop("pow", "x: T[1], y: T[1], z: T[1]", lanes, kName<T>, "z[$] = pow(x[$], y[$])"));
  const T infinity = Limits::infinity(), least = Limits::denorm_min(), most = Limits::max();
  const T odd = std::ldexp(T(1), Limits::digits) - 1;
  const std::vector<T> values = {T(0),
                                 T(-0.0),
                                 infinity,
                                 -infinity,
                                 Limits::quiet_NaN(),
                                 T(1),
                                 T(-1),
                                 T(2),
                                 T(-2),
                                 T(3),
                                 T(-3),
                                 T(0.5),
                                 T(-0.5),
                                 T(2.5),
                                 least,
                                 -least,
                                 most,
                                 -most,
                                 odd,
                                 odd + 1,
                                 std::nextafter(T(1), T(2)),
                                 std::nextafter(T(1), T(0))};
  std::vector<T> x, y;
  for (const T a : values) {
    for (const T b : values) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  std::mt19937_64 rng(3);
  while (x.size() < (sizeof(T) == 4 ? 1000000 : 200000)) {
    x.push_back(std::bit_cast<T>(static_cast<Bits<T>>(rng() & (~Bits<T>{0} >> 1))));
    y.push_back(std::uniform_real_distribution<T>(-8, 8)(rng));
    x.push_back(std::uniform_real_distribution<T>(-4, 4)(rng));
    y.push_back(std::round(std::uniform_real_distribution<T>(-60, 60)(rng)));
    x.push_back(std::uniform_real_distribution<T>(T(0.9), T(1.1))(rng));
    y.push_back(std::uniform_real_distribution<T>(-900, 900)(rng) * (sizeof(T) == 4 ? 1 : 8));
  }
  x.resize(x.size() / 16 * 16);
  y.resize(x.size());
  std::vector<T> z(x.size());
  ASSERT_EQ(CallInternal(*compiler, "pow", x.data(), y.data(), z.data(), static_cast<int64_t>(x.size())), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide<T> want = std::pow(static_cast<Wide<T>>(x[i]), static_cast<Wide<T>>(y[i]));
    ASSERT_LE(Ulps(z[i], want), bound) << kName<T> << " pow(" << x[i] << ", " << y[i] << ") gives " << z[i] << ", not "
                                       << want;
    if (static_cast<T>(want) == 0) {
      ASSERT_EQ(std::signbit(z[i]), std::signbit(want)) << "pow(" << x[i] << ", " << y[i] << ")";
    }
  }
}

TEST_P(VectorMathTest, Pow) {
  CheckPow<float>(GetParam());
  CheckPow<double>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Lanes, VectorMathTest, ::testing::Values(1, 8, 16));

}  // namespace
}  // namespace cinn_like
