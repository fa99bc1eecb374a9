// The OpenCL C of lowered kernels: golden text, and each operator and cast on each dtype, compiled and run where there
// is a device, against the interpreter; functions within the bounds of docs/numerics.md.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "backends/c_emitter.h"
#include "backends/opencl_compiler.h"
#include "ir/interpreter.h"
#include "runtime/kernel_images.h"
#include "tests/golden_file.h"
#include "tests/opencl.h"
#include "tests/rounds.h"

namespace cinn_like::backends {
namespace {

StatusOr<std::string> SourceOf(const std::string& loops) {
  ASSIGN_OR_RETURN(const ir::Module m, ir::ParseModule(loops));
  return EmitModule(m, OpenClDialect());
}

void CheckGolden(const std::string& name) {
  const std::string base = "tests/backends/golden/" + name;
  const StatusOr<std::string> source = SourceOf(ReadFile(base + ".loops"));
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectGolden(base + ".cl", *source);
}

TEST(OpenClSource, GoldenPointwise) { CheckGolden("pointwise_bf16"); }
// Shared memory at the start of the kernel, half floats, 64 bits, a check of indices.
TEST(OpenClSource, GoldenRows) { CheckGolden("rows_shared"); }

TEST(OpenClSource, WhatItHasNot) {
  EXPECT_EQ(Message(SourceOf("func @k kernel (x: f32[64]) {\nfor t in 0..64 @threadIdx.x {\nx[t] = shuffle_xor(x[t], "
                             "i32(1))\n}\n}\n")
                        .status()),
            "function k: no opencl text for shuffle_xor of f32 in shuffle_xor(x[t], i32(1))");
  EXPECT_EQ(
      Message(SourceOf("func @k kernel (x: f32[64]) {\nfor t in 0..64 @threadIdx.x {\ncall cinn_bounds_error(\"@k "
                       "loads x\", t, 64)\n}\n}\n")
                  .status()),
      "function k: no opencl text for the call of cinn_bounds_error");
}

constexpr int kCount = 512;

// A kernel y[t] = value of a = x[t] and b = z[t] for each case, all in one program.
class Kernels {
 public:
  void Add(DType in, DType out, const std::string& value) {
    const std::string i(Name(in)), o(Name(out));
    text_ += Cat("func @k", cases_.size(), " kernel (x: ", i, "[", kCount, "], z: ", i, "[", kCount, "], y: ", o, "[",
                 kCount, "]) {\nfor b in 0..", kCount / 64, " @blockIdx.x {\nfor t in 0..64 @threadIdx.x {\n",
                 "let a = x[b * 64 + t]\nlet c = z[b * 64 + t]\ny[b * 64 + t] = ", value, "\n}\n}\n}\n");
    cases_.push_back({in, out, value});
  }

  Status Build() {
    ASSIGN_OR_RETURN(module_, ir::ParseModule(text_));
    ASSIGN_OR_RETURN(const KernelImages images,
                     MakeOpenClCompiler(*Target::Parse("opencl"), {}, nullptr)->Compile(module_, ""));
    ASSIGN_OR_RETURN(kernels_, LoadedKernels::Load(images, cinn_device_opencl));
    return absl::OkStatus();
  }

  struct Case {
    DType in, out;
    std::string value;
  };
  const std::vector<Case>& cases() const { return cases_; }

  Status Run(size_t k, ir::HostArray& x, ir::HostArray& z, ir::HostArray& y) const {
    ASSIGN_OR_RETURN(DeviceApi * api, GetOpenClDevice());
    ASSIGN_OR_RETURN(void* kernel, kernels_->Kernel(Cat("k", k)));
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {kDLOpenCL, 0};
    void *memory[3], *params[3];
    ir::HostArray* arrays[] = {&x, &z, &y};
    for (size_t i = 0; i < 3; ++i) {
      const auto bytes = static_cast<int64_t>(arrays[i]->bytes.size());
      ASSIGN_OR_RETURN(memory[i], api->Alloc(0, bytes, nullptr));
      RETURN_IF_ERROR(api->Copy(0, memory[i], arrays[i]->bytes.data(), bytes, nullptr));
      params[i] = &memory[i];
    }
    // As many as the kernel reads, in its order.
    const ir::Func& f = module_.funcs[k];
    RET_CHECK(f.params.size() == 3, f.name);
    RETURN_IF_ERROR(api->Launch(kernel, {{kCount / 64, 1, 1}, {64, 1, 1}, 0}, params, env));
    RETURN_IF_ERROR(api->Copy(0, y.bytes.data(), memory[2], static_cast<int64_t>(y.bytes.size()), nullptr));
    for (void* m : memory) api->Free(0, m);
    return absl::OkStatus();
  }
  Status Interpret(size_t k, ir::HostArray& x, ir::HostArray& z, ir::HostArray& y) const {
    return ir::Interpret(module_, Cat("k", k), {&x, &z, &y}, {});
  }

 private:
  std::string text_;
  std::vector<Case> cases_;
  ir::Module module_;
  std::unique_ptr<LoadedKernels> kernels_;
};

// Small numbers of both signs, and the edges of the type; no integer of seed 1 is 0.
ir::HostArray Numbers(DType t, unsigned seed) {
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

bool IsFunction(const std::string& value) {
  for (const char* f : {"exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "pow", "/", "%", "fma"}) {
    if (value.find(f) != value.npos) return true;
  }
  return false;
}

TEST(OpenClSource, EveryOperatorAndCast) {
  SKIP_WITHOUT_OPENCL();
  const DType all[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32,  DType::kI64, DType::kU8, DType::kU16,
                       DType::kU32,  DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  Kernels kernels;
  for (const DType t : all) {
    const std::string name(Name(t));
    for (const DType u : all) kernels.Add(t, u, Cat(Name(u), "(a)"));
    kernels.Add(t, t, "select(t < 5, a, c)");
    if (IsHalf(t) || t == DType::kBool) continue;
    for (const char* v : {"a + c", "a - c", "a * c", "min(a, c)", "max(a, c)", "neg(a)", "abs(a)"})
      kernels.Add(t, t, v);
    for (const char* v : {"a == c", "a != c", "a < c", "a <= c"}) kernels.Add(t, DType::kBool, v);
    if (IsFloat(t)) {
      for (const char* v : {"a / c", "a % c", "fma(a, c, a)", "exp(a)", "exp2(a)", "expm1(a)", "log(a)", "log1p(a)",
                            "sqrt(a)", "rsqrt(a)", "tanh(a)", "erf(a)", "sin(a)", "cos(a)", "pow(a, c)", "floor(a)",
                            "ceil(a)", "round(a)", "trunc(a)"}) {
        kernels.Add(t, t, v);
      }
      kernels.Add(t, DType::kBool, "isnan(a)");
    } else {
      for (const char* v :
           {"tdiv(a, c)", "tmod(a, c)", "a | c", "a & c", "a ^ c", "not(a)", "a << (c & T(7))", "a >> (c & T(7))"}) {
        kernels.Add(t, t, absl::StrReplaceAll(v, {{"T", name}}));
      }
    }
  }
  const Status built = kernels.Build();
  ASSERT_TRUE(built.ok()) << built;
  for (size_t k = 0; k < kernels.cases().size(); ++k) {
    const auto& [in, out, value] = kernels.cases()[k];
    ir::HostArray x = Numbers(in, 0), z = Numbers(in, 1), got(out, {kCount}), want(out, {kCount});
    Status status = kernels.Run(k, x, z, got);
    ASSERT_TRUE(status.ok()) << status;
    status = kernels.Interpret(k, x, z, want);
    ASSERT_TRUE(status.ok()) << status;
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
}

// ---- docs/numerics.md ----

std::map<std::string, double> ReadBounds() {
  std::map<std::string, double> bounds;
  std::ifstream file("docs/numerics.md");
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string bar, device, name, bar2;
    double bound;
    if (in >> bar >> device >> name >> bar2 >> bound && bar == "|" && bar2 == "|" && device == "opencl")
      bounds[name] = bound;
  }
  return bounds;
}

double Ulps(float got, double want) {
  const float nearest = static_cast<float>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : INFINITY;
  int exponent;
  std::frexp(want, &exponent);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Function {
  const char* name;
  const char* text;
  std::function<double(double, double)> reference;
  double lo, hi;  // of a; c is in -8..8
};
const Function kFunctions[] = {
    {"div", "a / c", [](double a, double b) { return a / b; }, -1e30, 1e30},
    {"exp", "exp(a)", [](double a, double) { return std::exp(a); }, -87, 88},
    {"exp2", "exp2(a)", [](double a, double) { return std::exp2(a); }, -125, 127},
    {"expm1", "expm1(a)", [](double a, double) { return std::expm1(a); }, -20, 88},
    {"log", "log(a)", [](double a, double) { return std::log(a); }, 1e-37, 1e38},
    {"log1p", "log1p(a)", [](double a, double) { return std::log1p(a); }, -0.999, 1e38},
    {"sqrt", "sqrt(a)", [](double a, double) { return std::sqrt(a); }, 1e-37, 1e38},
    {"rsqrt", "rsqrt(a)", [](double a, double) { return 1 / std::sqrt(a); }, 1e-37, 1e38},
    {"tanh", "tanh(a)", [](double a, double) { return std::tanh(a); }, -20, 20},
    {"erf", "erf(a)", [](double a, double) { return std::erf(a); }, -6, 6},
    {"sin", "sin(a)", [](double a, double) { return std::sin(a); }, -1000, 1000},
    {"cos", "cos(a)", [](double a, double) { return std::cos(a); }, -1000, 1000},
    {"pow", "pow(a, c)", [](double a, double b) { return std::pow(a, b); }, 1e-3, 1e3},
};

TEST(OpenClSource, FunctionsWithinDocumentedBounds) {
  SKIP_WITHOUT_OPENCL();
  const std::map<std::string, double> bounds = ReadBounds();
  Kernels kernels;
  for (const Function& f : kFunctions) kernels.Add(DType::kF32, DType::kF32, f.text);
  const Status built = kernels.Build();
  ASSERT_TRUE(built.ok()) << built;
  std::mt19937 rng(5);
  for (size_t k = 0; k < std::size(kFunctions); ++k) {
    const Function& f = kFunctions[k];
    ASSERT_TRUE(bounds.contains(f.name)) << f.name << " is missing in docs/numerics.md";
    double worst = 0;
    for (int round = 0; round < Rounds(100); ++round) {
      ir::HostArray a(DType::kF32, {kCount}), c(DType::kF32, {kCount}), y(DType::kF32, {kCount});
      for (int64_t i = 0; i < kCount; ++i) {
        // Half of them spread over the exponents.
        const double u = std::uniform_real_distribution<double>(0, 1)(rng), top = std::max(f.hi, -f.lo);
        double v =
            i % 2 == 0 ? f.lo + u * (f.hi - f.lo) : top * std::exp2(-u * (f.lo > 0 ? std::log2(f.hi / f.lo) : 40));
        if (i % 4 == 1 && -v > f.lo) v = -v;
        a.Set(i, v);
        c.Set(i, std::uniform_real_distribution<double>(-8, 8)(rng));
      }
      const Status ran = kernels.Run(k, a, c, y);
      ASSERT_TRUE(ran.ok()) << ran;
      for (int64_t i = 0; i < kCount; ++i) {
        const double want = f.reference(a.Get(i), c.Get(i));
        if (std::abs(want) < 1.2e-38 || std::abs(want) > 3e38) continue;
        const double ulps = Ulps(static_cast<float>(y.Get(i)), want);
        worst = std::max(worst, ulps);
        ASSERT_LE(ulps, bounds.at(f.name)) << f.name << "(" << a.Get(i) << ", " << c.Get(i) << ") gives " << y.Get(i);
      }
    }
    RecordProperty(f.name, Cat(worst));
  }
}

}  // namespace
}  // namespace cinn_like::backends
