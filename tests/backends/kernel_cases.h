// Each operator and cast on each dtype as a kernel y[t] = value of a = x[t] and c = z[t], for dialects whose kernels
// can be run: numbers to run them on, and what is right beside the interpreter.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "ir/host_array.h"

namespace cinn_like::backends {

constexpr int kCount = 512, kThreadsOfBlock = 64;

struct KernelCase {
  DType in, out;
  std::string value;
};

// Kernel number k of a text, @k<k>.
inline std::string LoopsOf(const KernelCase& c, size_t k) {
  const std::string i(Name(c.in)), o(Name(c.out));
  return Cat("func @k", k, " kernel (x: ", i, "[", kCount, "], z: ", i, "[", kCount, "], y: ", o, "[", kCount,
             "]) {\nfor b in 0..", kCount / kThreadsOfBlock, " @blockIdx.x {\nfor t in 0..", kThreadsOfBlock,
             " @threadIdx.x {\nlet a = x[b * 64 + t]\nlet c = z[b * 64 + t]\ny[b * 64 + t] = ", c.value, "\n}\n}\n}\n");
}

inline std::vector<KernelCase> EveryOperatorAndCast() {
  const DType all[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32,  DType::kI64, DType::kU8, DType::kU16,
                       DType::kU32,  DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  std::vector<KernelCase> r;
  for (const DType t : all) {
    for (const DType u : all) r.push_back({t, u, Cat(Name(u), "(a)")});
    r.push_back({t, t, "select(t < 5, a, c)"});
    if (IsHalf(t) || t == DType::kBool) continue;
    for (const char* v : {"a + c", "a - c", "a * c", "min(a, c)", "max(a, c)", "neg(a)", "abs(a)"})
      r.push_back({t, t, v});
    for (const char* v : {"a == c", "a != c", "a < c", "a <= c"}) r.push_back({t, DType::kBool, v});
    if (IsFloat(t)) {
      for (const char* v : {"a / c", "a % c", "fma(a, c, a)", "exp(a)", "exp2(a)", "expm1(a)", "log(a)", "log1p(a)",
                            "sqrt(a)", "rsqrt(a)", "tanh(a)", "erf(a)", "sin(a)", "cos(a)", "pow(a, c)", "floor(a)",
                            "ceil(a)", "round(a)", "trunc(a)"}) {
        r.push_back({t, t, v});
      }
      r.push_back({t, DType::kBool, "isnan(a)"});
    } else {
      for (const char* v :
           {"tdiv(a, c)", "tmod(a, c)", "a | c", "a & c", "a ^ c", "not(a)", "a << (c & T(7))", "a >> (c & T(7))"}) {
        r.push_back({t, t, absl::StrReplaceAll(v, {{"T", std::string(Name(t))}})});
      }
    }
  }
  return r;
}

// Small numbers of both signs, and the edges of the type; no integer of seed 1 is 0.
inline ir::HostArray Numbers(DType t, unsigned seed) {
  std::mt19937_64 rng(seed);
  ir::HostArray a(t, {kCount});
  for (int64_t i = 0; i < kCount; ++i) {
    if (IsFloat(t)) {
      const double edges[] = {0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, INFINITY, -INFINITY, NAN, 1e-40, 6e4, 1e-7};
      a.Set(i,
            i < 14 ? edges[(static_cast<size_t>(i) * (seed + 1)) % 14] : std::normal_distribution<double>(0, 3)(rng));
    } else if (t == DType::kBool) {
      a.Set(i, static_cast<double>(rng() % 2));
    } else {
      a.SetInt(
          i, i % 3 == 0 ? static_cast<int64_t>(rng() % 7) - (seed == 0 ? 3 : -1) : static_cast<int64_t>(rng() | seed));
    }
  }
  return a;
}

inline bool IsFunction(const std::string& value) {
  for (const char* f : {"exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "pow", "/", "%", "fma"}) {
    if (value.find(f) != value.npos) return true;
  }
  return false;
}

// `want` is the interpreter's.
inline void ExpectSame(const KernelCase& c, const ir::HostArray& x, const ir::HostArray& z, const ir::HostArray& got,
                       const ir::HostArray& want) {
  const auto& [in, out, value] = c;
  for (int64_t i = 0; i < kCount; ++i) {
    // What does not fit is the device's own.
    if (IsFloat(in) && IsInt(out) && !(std::abs(x.Get(i)) < 100)) continue;
    if (IsFloat(in) && IsInt(out) && out != DType::kI32 && out != DType::kI64 && x.Get(i) < 0) continue;
    // What is left of a number by infinity is that number, which the interpreter does not say.
    if (value == "a % c" && std::isinf(z.Get(i))) continue;
    const double a = got.Get(i), b = want.Get(i);
    const double tolerance = !IsFunction(value) ? 0 : out == DType::kF64 ? 1e-14 : 1e-6;
    const double scale = value == "a % c" ? std::abs(x.Get(i)) : std::abs(b);
    const bool same = (IsInt(out) && got.GetInt(i) == want.GetInt(i)) || a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::abs(a - b) <= tolerance * scale;
    ASSERT_TRUE(same) << value << " of " << Name(in) << " " << x.Get(i) << ", " << z.Get(i) << ": " << a
                      << ", expected " << b;
  }
}

}  // namespace cinn_like::backends
