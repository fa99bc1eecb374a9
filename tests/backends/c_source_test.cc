// The C text of every operator and cast on every dtype, compiled by the system's compiler and compared with C++'s own
// functions in higher precision and with the constant folder.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "tests/backends/c_program.h"

namespace cinn_like::backends {
namespace {

constexpr int kCount = 96;
constexpr DType kInts[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                           DType::kU8, DType::kU16, DType::kU32, DType::kU64};
constexpr DType kAll[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32,  DType::kI64, DType::kU8, DType::kU16,
                          DType::kU32,  DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// An array of any dtype, read and written as double or int64.
struct Array {
  explicit Array(DType t) : dtype(t), bytes(static_cast<size_t>(kCount * BytesOf(t))) {}
  template <class T>
  T Get(int i) const {
    T v;
    memcpy(&v, bytes.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    return v;
  }
  template <class T>
  void Set(int i, T v) {
    memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &v, sizeof(T));
  }
  double Float(int i) const {
    if (dtype == DType::kF64) return Get<double>(i);
    if (dtype == DType::kF32) return Get<float>(i);
    if (dtype == DType::kF16) return static_cast<double>(std::bit_cast<_Float16>(Get<uint16_t>(i)));
    return std::bit_cast<float>(static_cast<uint32_t>(Get<uint16_t>(i)) << 16);
  }
  void SetFloat(int i, double v) {
    v = ir::RoundTo(dtype, v);
    if (dtype == DType::kF64)
      Set<double>(i, v);
    else if (dtype == DType::kF32)
      Set<float>(i, static_cast<float>(v));
    else if (dtype == DType::kF16)
      Set<uint16_t>(i, std::bit_cast<uint16_t>(static_cast<_Float16>(v)));
    else
      Set<uint16_t>(i, static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(v)) >> 16));
  }
  int64_t Int(int i) const {
    switch (BytesOf(dtype)) {
      case 1:
        return ir::WrapTo(dtype, Get<int8_t>(i));
      case 2:
        return ir::WrapTo(dtype, Get<int16_t>(i));
      case 4:
        return ir::WrapTo(dtype, Get<int32_t>(i));
      default:
        return Get<int64_t>(i);
    }
  }
  void SetInt(int i, int64_t v) {
    v = ir::WrapTo(dtype, v);
    switch (BytesOf(dtype)) {
      case 1:
        return Set<int8_t>(i, static_cast<int8_t>(v));
      case 2:
        return Set<int16_t>(i, static_cast<int16_t>(v));
      case 4:
        return Set<int32_t>(i, static_cast<int32_t>(v));
      default:
        return Set<int64_t>(i, v);
    }
  }
  void* data() { return bytes.data(); }

  DType dtype;
  std::vector<unsigned char> bytes;
};

class Random {
 public:
  int64_t Int() {
    // Small, large and the extremes.
    const uint64_t r = engine_();
    switch (r % 4) {
      case 0:
        return static_cast<int64_t>(engine_() % 11) - 5;
      case 1:
        return r % 8 < 4 ? INT64_MIN : INT64_MAX;
      default:
        return static_cast<int64_t>(engine_() >> engine_() % 60);
    }
  }
  double Float(double lo, double hi) { return std::uniform_real_distribution<double>(lo, hi)(engine_); }
  uint64_t Bits() { return engine_(); }

 private:
  std::mt19937_64 engine_{std::random_device{}()};
};

// func @f(a: t[96], b: t[96], y: r[96]) { y = value, element by element and four at a time }
std::string Function(std::string_view name, std::string_view t, std::string_view r, std::string_view value,
                     std::string_view vector_value) {
  return Cat(
      "func @", name, "(a: ", t, "[96], b: ", t, "[96], y: ", r, "[96]) {\n for i in 0..48 {\n",
      "let av = a[i]\nlet bv = b[i]\ny[i] = ", value,
      "\n}\nfor j in 0..12 @unrolled {\nlet aw = a[ramp(48 + j * 4, 1, 4)]\nlet bw = b[ramp(48 + j * 4, 1, 4)]\n",
      "y[ramp(48 + j * 4, 1, 4)] = ", vector_value, "\n}\n}\n");
}

TEST(CSource, IntegerOperators) {
  // Divisors are never 0 where that has no meaning.
  const std::vector<std::string> binary = {
      "a + b",  "a - b",  "a * b", "min(a, b)", "max(a, b)",  "a | b",      "a & b",        "a ^ b",
      "a == b", "a != b", "a < b", "a <= b",    "tdiv(a, b)", "tmod(a, b)", "a << (b & 7)", "a >> (b & 7)"};
  const std::vector<ir::ExprOp> ops = {
      ir::ExprOp::kAdd,      ir::ExprOp::kSub,      ir::ExprOp::kMul,    ir::ExprOp::kMin,
      ir::ExprOp::kMax,      ir::ExprOp::kBitOr,    ir::ExprOp::kBitAnd, ir::ExprOp::kBitXor,
      ir::ExprOp::kEq,       ir::ExprOp::kNe,       ir::ExprOp::kLt,     ir::ExprOp::kLe,
      ir::ExprOp::kTruncDiv, ir::ExprOp::kTruncMod, ir::ExprOp::kShl,    ir::ExprOp::kShr};
  const std::vector<std::string> unary = {"neg(a)", "not(a)", "abs(a)"};
  const std::vector<ir::ExprOp> unary_ops = {ir::ExprOp::kNeg, ir::ExprOp::kNot, ir::ExprOp::kAbs};
  auto with = [](std::string s, std::string_view suffix, std::string_view t, bool vector) {
    std::string r;
    for (size_t i = 0; i < s.size(); ++i) {
      const bool alone = (i == 0 || !isalpha(s[i - 1])) && (i + 1 == s.size() || !isalpha(s[i + 1]));
      if (alone && (s[i] == 'a' || s[i] == 'b'))
        r += Cat(std::string(1, s[i]), suffix);
      else if (s[i] == '7')
        r += vector ? Cat("broadcast(", t, "(7), 4)") : Cat(t, "(7)");
      else
        r += s[i];
    }
    return r;
  };
  std::string text;
  std::vector<std::string> all = binary;
  all.insert(all.end(), unary.begin(), unary.end());
  std::vector<ir::ExprOp> all_ops = ops;
  all_ops.insert(all_ops.end(), unary_ops.begin(), unary_ops.end());
  for (DType t : kInts) {
    for (size_t k = 0; k < all.size(); ++k) {
      const bool is_bool = ir::RowOf(all_ops[k])->result == ir::OpRow::kBool;
      text += Function(Cat("f", k, "_", Name(t)), Name(t), is_bool ? "bool" : Name(t),
                       with(all[k], "v", Name(t), false), with(all[k], "w", Name(t), true));
    }
  }
  const CProgram program(text);
  Random random;
  for (DType t : kInts) {
    for (size_t k = 0; k < all.size(); ++k) {
      const bool is_bool = ir::RowOf(all_ops[k])->result == ir::OpRow::kBool;
      Array a(t), b(t), y(is_bool ? DType::kBool : t);
      for (int i = 0; i < kCount; ++i) {
        a.SetInt(i, random.Int());
        b.SetInt(i, random.Int());
      }
      ASSERT_EQ(program.Call(Cat("f", k, "_", Name(t)), a.data(), b.data(), y.data()), 0);
      for (int i = 0; i < kCount; ++i) {
        const bool is_shift = all_ops[k] == ir::ExprOp::kShl || all_ops[k] == ir::ExprOp::kShr;
        std::vector<int64_t> args = {a.Int(i), is_shift ? b.Int(i) & 7 : b.Int(i)};
        // Undefined to the folder, but defined: x / 0 is x, x % 0 is 0.
        const int64_t want =
            ir::FoldInt(all_ops[k], t, args).value_or(all_ops[k] == ir::ExprOp::kTruncDiv ? args[0] : 0);
        ASSERT_EQ(y.Int(i), want) << all[k] << " of " << Name(t) << " " << a.Int(i) << " " << b.Int(i) << "\n";
      }
    }
  }
}

// In units of the last place of `t` at `want`.
double Ulps(DType t, double got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : 1e30;
  if (got == want) return 0;
  if (std::isinf(got) || std::isinf(want)) return 1e30;
  const double ulp = t == DType::kF64 ? std::nextafter(std::fabs(want), INFINITY) - std::fabs(want)
                                      : std::ldexp(1.0, std::max(-149, std::ilogb(want == 0 ? 1e-300 : want) - 23));
  return std::fabs(got - want) / ulp;
}

struct FloatCase {
  std::string text;
  std::function<long double(long double, long double)> reference;
  double lo, hi;
  double ulps = 4;
};

double NanMin(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double NanMax(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

TEST(CSource, FloatOperators) {
  using L = long double;
  const std::vector<FloatCase> cases = {
      {"a + b", [](L a, L b) { return a + b; }, -9, 9, 0.5},
      {"a - b", [](L a, L b) { return a - b; }, -9, 9, 0.5},
      {"a * b", [](L a, L b) { return a * b; }, -9, 9, 0.5},
      {"a / b", [](L a, L b) { return a / b; }, -9, 9, 0.5},
      {"min(a, b)", [](L a, L b) -> L { return NanMin(static_cast<double>(a), static_cast<double>(b)); }, -9, 9, 0},
      {"max(a, b)", [](L a, L b) -> L { return NanMax(static_cast<double>(a), static_cast<double>(b)); }, -9, 9, 0},
      {"fma(a, b, a)", [](L a, L b) { return std::fma(a, b, a); }, -9, 9, 0.51},  // a * b may lose what is left
      {"tdiv(a, b)", [](L a, L b) { return std::trunc(a / b); }, 2, 9, 0},
      {"tmod(a, b)", [](L a, L b) { return std::fmod(a, b); }, -9, 9, 0},
      {"neg(a)", [](L a, L) { return -a; }, -9, 9, 0},
      {"abs(a)", [](L a, L) { return std::fabs(a); }, -9, 9, 0},
      {"exp(a)", [](L a, L) { return std::exp(a); }, -80, 80},
      {"exp2(a)", [](L a, L) { return std::exp2(a); }, -120, 120},
      {"expm1(a)", [](L a, L) { return std::expm1(a); }, -2, 9},
      {"log(a)", [](L a, L) { return std::log(a); }, 0, 100},
      {"log1p(a)", [](L a, L) { return std::log1p(a); }, -0.9, 9},
      {"sqrt(a)", [](L a, L) { return std::sqrt(a); }, 0, 100, 0.5},
      {"rsqrt(a)", [](L a, L) { return 1 / std::sqrt(a); }, 0, 100},
      {"tanh(a)", [](L a, L) { return std::tanh(a); }, -9, 9},
      {"erf(a)", [](L a, L) { return std::erf(a); }, -4, 4},
      {"sin(a)", [](L a, L) { return std::sin(a); }, -99, 99},
      {"cos(a)", [](L a, L) { return std::cos(a); }, -99, 99},
      {"pow(a, b)", [](L a, L b) { return std::pow(a, b); }, 0, 9},
      {"floor(a)", [](L a, L) { return std::floor(a); }, -9, 9, 0},
      {"ceil(a)", [](L a, L) { return std::ceil(a); }, -9, 9, 0},
      {"round(a * c)", [](L a, L) { return std::nearbyint(a * 0.5L); }, -9, 9, 0},
      {"trunc(a)", [](L a, L) { return std::trunc(a); }, -9, 9, 0},
      {"select(a < b, a, b * c)", [](L a, L b) { return a < b ? a : b * 0.5L; }, -9, 9, 0},
  };
  std::string text;
  auto with = [](const std::string& s, std::string_view suffix, std::string_view t, bool vector) {
    std::string r;
    for (size_t i = 0; i < s.size(); ++i) {
      const bool alone = (i == 0 || !isalnum(s[i - 1])) && (i + 1 == s.size() || !isalnum(s[i + 1]));
      if (alone && (s[i] == 'a' || s[i] == 'b'))
        r += Cat(std::string(1, s[i]), suffix);
      else if (alone && s[i] == 'c')
        r += vector ? Cat("broadcast(", t, "(0.5), 4)") : Cat(t, "(0.5)");
      else
        r += s[i];
    }
    return r;
  };
  for (DType t : {DType::kF32, DType::kF64}) {
    for (size_t k = 0; k < cases.size(); ++k) {
      text += Function(Cat("f", k, "_", Name(t)), Name(t), Name(t), with(cases[k].text, "v", Name(t), false),
                       with(cases[k].text, "w", Name(t), true));
    }
    text += Function(Cat("isnan_", Name(t)), Name(t), "bool", "isnan(av)", "isnan(aw)");
  }
  const CProgram program(text, "-O1 -ffp-contract=off");
  Random random;
  for (DType t : {DType::kF32, DType::kF64}) {
    for (size_t k = 0; k < cases.size(); ++k) {
      Array a(t), b(t), y(t);
      for (int i = 0; i < kCount; ++i) {
        a.SetFloat(i, i % 16 == 7  ? NAN
                      : i % 4 == 3 ? std::round(random.Float(cases[k].lo, cases[k].hi))
                                   : random.Float(cases[k].lo, cases[k].hi));
        b.SetFloat(i, i % 16 == 8 ? NAN : random.Float(cases[k].lo, cases[k].hi));
      }
      ASSERT_EQ(program.Call(Cat("f", k, "_", Name(t)), a.data(), b.data(), y.data()), 0);
      for (int i = 0; i < kCount; ++i) {
        const long double want = cases[k].reference(a.Float(i), b.Float(i));
        const bool uses_b =
            cases[k].text.find('b') != std::string::npos && cases[k].text.find("abs") == std::string::npos;
        if (!uses_b && std::isnan(b.Float(i))) continue;
        EXPECT_LE(Ulps(t, y.Float(i), static_cast<double>(want)), cases[k].ulps + (t == DType::kF64 ? 1 : 0.01))
            << cases[k].text << " of " << Name(t) << " " << a.Float(i) << " " << b.Float(i) << ": " << y.Float(i)
            << " not " << want;
      }
    }
    Array a(t), y(DType::kBool);
    for (int i = 0; i < kCount; ++i) a.SetFloat(i, i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : 1.5);
    program.Call(Cat("isnan_", Name(t)), a.data(), a.data(), y.data());
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(y.Int(i), i % 3 == 0);
  }
}

// As docs/numerics.md has it of a CPU: 32 and 64 bits by their own conversion, whose answer to what does not fit is the
// lowest integer; others are the low bits of a wider one.
int64_t Converted(DType to, double v) {
  if (to == DType::kBool) return v != 0;
  const auto signed_bits = [](double x, int bits) {
    const double end = std::ldexp(1.0, bits - 1);
    return x >= -end && x < end ? static_cast<int64_t>(x) : bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1));
  };
  if (to == DType::kI64) return signed_bits(v, 64);
  if (to == DType::kU64) {
    const double half = std::ldexp(1.0, 63);
    return v >= half ? signed_bits(v - half, 64) ^ INT64_MIN : signed_bits(v, 64);
  }
  const bool wide = to == DType::kU8 || to == DType::kU32;
  return ir::WrapTo(to, signed_bits(v, wide ? 64 : 32));
}

TEST(CSource, Casts) {
  std::string text;
  for (DType from : kAll) {
    for (DType to : kAll) {
      const std::string name = Cat("f_", Name(from), "_", Name(to));
      text += Function(name, Name(from), Name(to), Cat(Name(to), "(av)"), Cat(Name(to), "(aw)"));
    }
  }
  const CProgram program(text);
  Random random;
  for (DType from : kAll) {
    for (DType to : kAll) {
      Array a(from), y(to);
      for (int i = 0; i < kCount; ++i) {
        if (!IsFloat(from))
          a.SetInt(i, random.Int());
        else if (IsFloat(to) && i % 2 == 0)
          a.SetFloat(i, std::bit_cast<double>(random.Bits()));  // any magnitude
        else if (IsFloat(to))
          a.SetFloat(i, std::bit_cast<float>(static_cast<uint32_t>(random.Bits())));
        else
          a.SetFloat(i, i % 5 == 0  ? 0
                        : i % 5 < 3 ? random.Float(-300, 300)
                                    : std::ldexp(random.Float(-1, 1), static_cast<int>(random.Bits() % 70)));
        if (IsFloat(from) && i % 32 == 31) a.SetFloat(i, i == 31 ? NAN : i == 63 ? INFINITY : -INFINITY);
      }
      program.Call(Cat("f_", Name(from), "_", Name(to)), a.data(), a.data(), y.data());
      for (int i = 0; i < kCount; ++i) {
        if (!IsFloat(to)) {
          const int64_t want = IsFloat(from) ? Converted(to, a.Float(i)) : ir::WrapTo(to, a.Int(i));
          ASSERT_EQ(y.Int(i), want) << Name(from) << " to " << Name(to) << " of " << (IsFloat(from) ? a.Float(i) : 0);
          continue;
        }
        // An integer becomes a 16-bit float by way of f32, as eager frameworks do.
        double v = IsFloat(from) ? a.Float(i) : 0;
        if (!IsFloat(from)) {
          const bool large = from == DType::kU64 && a.Int(i) < 0;
          v = to == DType::kF64
                  ? (large ? static_cast<double>(static_cast<uint64_t>(a.Int(i))) : static_cast<double>(a.Int(i)))
                  : (large ? static_cast<float>(static_cast<uint64_t>(a.Int(i))) : static_cast<float>(a.Int(i)));
        }
        const double want = ir::RoundTo(to, v);
        EXPECT_TRUE(y.Float(i) == want || (std::isnan(want) && std::isnan(y.Float(i))))
            << Name(from) << " to " << Name(to) << " of " << v;
      }
    }
  }
}

TEST(CSource, EveryHalfSurvivesAndEveryRoundingIsRight) {
  const CProgram program(R"(
func @up16(a: f16[65536], y: f32[65536]) { for i in 0..65536 { y[i] = f32(a[i]) } }
func @upb(a: bf16[65536], y: f32[65536]) { for i in 0..65536 { y[i] = f32(a[i]) } }
func @down16(a: f32[65536], y: f16[65536]) { for i in 0..65536 { y[i] = f16(a[i]) } }
func @downb(a: f32[65536], y: bf16[65536]) { for i in 0..65536 { y[i] = bf16(a[i]) } })");
  std::vector<uint16_t> h(65536), back(65536);
  std::vector<float> f(65536);
  for (int i = 0; i < 65536; ++i) h[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
  for (const bool is_bf16 : {false, true}) {
    program.Call(is_bf16 ? "upb" : "up16", h.data(), f.data());
    program.Call(is_bf16 ? "downb" : "down16", f.data(), back.data());
    for (size_t i = 0; i < h.size(); ++i) {
      if (std::isnan(f[i])) continue;
      ASSERT_EQ(back[i], h[i]);
      ASSERT_TRUE(is_bf16 || f[i] == static_cast<float>(std::bit_cast<_Float16>(h[i])));
    }
    // Between two neighbours: just below, at and just above the middle.
    std::vector<float> g(65536);
    for (size_t i = 0; i < g.size(); ++i) {
      const float a = f[i], b = f[(i + 1) % f.size()];
      const float middle = a + (b - a) / 2;
      g[i] = i % 3 == 0 ? middle : std::nextafter(middle, i % 3 == 1 ? a : b);
    }
    program.Call(is_bf16 ? "downb" : "down16", g.data(), back.data());
    for (size_t i = 0; i < g.size(); ++i) {
      if (std::isnan(g[i])) continue;
      const double want = ir::RoundTo(is_bf16 ? DType::kBF16 : DType::kF16, g[i]);
      const double got = is_bf16 ? std::bit_cast<float>(static_cast<uint32_t>(back[i]) << 16)
                                 : static_cast<double>(std::bit_cast<_Float16>(back[i]));
      ASSERT_EQ(got, want) << g[i];
    }
  }
}

TEST(CSource, LanesThatMove) {
  const CProgram program(R"(
func @f(x: f32[64], y: f32[8], z: f32[8], s: f32[1]) {
  let v = x[ramp(3, 2, 8)]
  y[ramp(0, 1, 8)] = lane_shift(v, 2) + v
  z[ramp(0, 1, 8)] = lane_shift(lane_shift(x[ramp(8, 1, 8)], 4) * v, 1)
  s[0] = lane_last(x[ramp(8, 1, 8)])
})");
  std::vector<float> x(64), y(8), z(8), s(1);
  Random random;
  for (float& v : x) v = static_cast<float>(random.Float(-2, 2));
  ASSERT_EQ(program.Call("f", x.data(), y.data(), z.data(), s.data()), 0) << program.source();
  const auto moved = [](size_t i, size_t n) { return i < n ? i : i - n; };
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(y[i], x[3 + 2 * moved(i, 2)] + x[3 + 2 * i]) << program.source();
    const size_t k = moved(i, 1);
    EXPECT_EQ(z[i], x[8 + moved(k, 4)] * x[3 + 2 * k]) << program.source();
  }
  EXPECT_EQ(s[0], x[15]);
}

TEST(CSource, LanesMasksAndReversal) {
  const CProgram program(R"(
func @f(x: f32[64], y: f32[64], s: f32[4], z: i32[8], n: i64) where n in 0..64 {
  for i in 0..8 {
    y[ramp(i * 8, 1, 8); ramp(i * 8, 1, 8) < broadcast(n, 8)] = x[ramp(i * 8 + 7, -1, 8); ramp(i * 8, 1, 8) < broadcast(n - 1, 8)] + broadcast(1.0, 8)
  }
  s[0] = lane_add(x[ramp(0, 1, 7)])
  s[1] = lane_max(x[ramp(0, 9, 7)])
  s[2] = lane_min(x[ramp(0, 9, 7)])
  s[3] = lane_mul(x[ramp(1, 1, 3)])
  alloc r: i32[8] @local
  r[ramp(0, 1, 8)] = i32(ramp(0, 3, 8))
  r[ramp(0, 1, 8)] = r[ramp(7, -1, 8)]
  z[ramp(0, 1, 8)] = r[ramp(0, 1, 8)]
})");
  std::vector<float> x(64), y(64, -1), s(4);
  std::vector<int> z(8);
  Random random;
  for (float& v : x) v = static_cast<float>(random.Float(-2, 2));
  ASSERT_EQ(program.Call("f", x.data(), y.data(), s.data(), z.data(), int64_t{29}), 0) << program.source();
  for (int i = 0; i < 64; ++i) {
    const float read = i < 28 ? x[static_cast<size_t>(i / 8 * 8 + 7 - i % 8)] : 0;
    EXPECT_EQ(y[static_cast<size_t>(i)], i < 29 ? read + 1 : -1) << i;
  }
  double sum = 0;
  float hi = x[0], lo = x[0];
  for (size_t i = 0; i < 7; ++i) {
    sum += x[i];
    hi = std::max(hi, x[i * 9]);
    lo = std::min(lo, x[i * 9]);
  }
  EXPECT_NEAR(s[0], sum, 1e-5);
  EXPECT_EQ(s[1], hi);
  EXPECT_EQ(s[2], lo);
  EXPECT_FLOAT_EQ(s[3], x[1] * x[2] * x[3]);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(z[static_cast<size_t>(i)], (7 - i) * 3);
}

TEST(CSource, CallsMemoryAndParallelLoops) {
  const CProgram program(R"(
func @half(x: f32[n], y: f32[n], n: i64) where n in 1..1000 {
  for i in 0..n @parallel { y[i] = x[i] * 0.5 }
}
func @quarter(x: f32[n], y: f32[n], n: i64) where n in 1..1000 {
  alloc w: f32[n] @global
  call @half(&x[0], &w[0], n)
  if n > 2 { call @half(&w[0], &y[0], n) } else { y[0] = -1.0 }
})",
                         "-O1 -fopenmp");
  std::vector<float> x(777), y(777);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  ASSERT_EQ(program.Call("quarter", x.data(), y.data(), int64_t{777}), 0) << program.source();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], static_cast<float>(i) / 4);
  ASSERT_EQ(program.Call("quarter", x.data(), y.data(), int64_t{2}), 0);
  EXPECT_EQ(y[0], -1);
}

// An iteration that fails frees what it has and leaves the others alone; the function returns the failure's code.
TEST(CSource, FailuresInParallelLoops) {
  for (const char* flags : {"-O1 -fopenmp", "-O1"}) {
    const CProgram program(R"(
func @f(x: i32[n], y: i32[n], n: i64) where n in 1..1000 {
  for i in 0..n @parallel {
    alloc w: i32[n] @global
    for j in 0..n {
      alloc u: i32[2] @global
      u[1] = x[j]
      w[j] = u[1] + i32(1)
    }
    if x[i] == i32(7) { call cinn_range_error("seven", i, 0, 7) }
    y[i] = w[i]
  }
  for i in 0..n { x[i] = i32(0) }
})",
                           flags);
    std::vector<int> x(500), y(500);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int>(i % 7);
    ASSERT_EQ(program.Call("f", x.data(), y.data(), int64_t{500}), 0) << program.source();
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], i % 7 + 1);
    x[3] = 7;
    ASSERT_EQ(program.Call("f", x.data(), y.data(), int64_t{500}), -11);
    EXPECT_EQ(x[3], 7);  // what follows does not run
    EXPECT_EQ(y[4], 1);
  }
}

TEST(CSource, WhatHasNoTextIsAnErrorThatNamesIt) {
  auto emit = [](std::string_view text, const Dialect& d) {
    auto m = ir::ParseModule(text);
    EXPECT_TRUE(m.ok()) << m.status();
    auto f = EmitFunc(m->funcs[0], d, "f");
    return f.ok() ? std::string("fine") : Message(f.status());
  };
  EXPECT_EQ(emit("func @g(x: i32[4]) { x[0] = x[1] / x[2] }", CDialect()),
            "function g: no c text for / of i32 in x[1] / x[2]");
  EXPECT_EQ(emit("func @g(x: f32[4]) { barrier }", CDialect()), "function g: no c text for a barrier");
  EXPECT_EQ(emit("func @g kernel (x: f32[4]) { x[0] = 1.0 }", CDialect()), "function g: c text is for host functions");
  EXPECT_EQ(emit("func @g entry (x: f32[4]) { x[0] = 1.0 }", CDialect()),
            "function g: an entry function is part of a program (c_program.h)");
  EXPECT_EQ(emit("func @g(x: f32[4]) { x[0] = 1.0 }", CudaDialect()), "function g: cuda text is for kernels");
  EXPECT_EQ(emit("func @g kernel (x: f32[4], n: i64) { alloc r: f32[n] @local x[0] = 1.0 }", CudaDialect()),
            "function g: the size of r (local) must be constant");
  EXPECT_EQ(emit("func @g kernel (x: f32[4]) { for i in 0..4 @parallel { x[i] = 1.0 } }", CudaDialect()),
            "function g: no cuda text for parallel loops: lower the function first");
}

}  // namespace
}  // namespace cinn_like::backends
