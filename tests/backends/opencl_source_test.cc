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

#include "backends/c_emitter.h"
#include "backends/opencl_compiler.h"
#include "ir/interpreter.h"
#include "runtime/kernel_images.h"
#include "tests/backends/kernel_cases.h"
#include "tests/golden_file.h"
#include "tests/opencl.h"
#include "tests/rounds.h"

namespace cinn_like::backends {
namespace {

StatusOr<std::string> SourceOf(const std::string& loops, int64_t subgroup = 1) {
  ASSIGN_OR_RETURN(const ir::Module m, ir::ParseModule(loops));
  return EmitModule(m, OpenClDialect(subgroup));
}

void CheckGolden(const std::string& name, int64_t subgroup = 1) {
  const std::string base = "tests/backends/golden/" + name;
  const StatusOr<std::string> source = SourceOf(ReadFile(base + ".loops"), subgroup);
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectGolden(base + ".cl", *source);
}

TEST(OpenClSource, GoldenPointwise) { CheckGolden("pointwise_bf16"); }
// Shared memory at the start of the kernel, half floats, 64 bits, a check of indices.
TEST(OpenClSource, GoldenRows) { CheckGolden("rows_shared"); }
// Threads of a block as they lie in sub-groups, where they shuffle.
TEST(OpenClSource, GoldenSubgroups) { CheckGolden("rows_subgroups", 16); }

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

// The kernels of cases, all in one program.
class Kernels {
 public:
  void Add(KernelCase c) {
    text_ += LoopsOf(c, cases_.size());
    cases_.push_back(std::move(c));
  }

  Status Build(int64_t subgroup = 1) {
    ASSIGN_OR_RETURN(module_, ir::ParseModule(text_));
    ASSIGN_OR_RETURN(const Target target, Target::Parse(Cat("opencl -subgroup-size=", subgroup)));
    const auto compiler = MakeOpenClCompiler(target, {}, nullptr);
    std::string source;
    if (subgroup > 1 && !OffersSubgroups(static_cast<size_t>(subgroup))) {
      ASSIGN_OR_RETURN(source, compiler->EmitSource(module_));
      source = WithEmulatedSubgroups(std::move(source), subgroup);
    }
    ASSIGN_OR_RETURN(const KernelImages images, compiler->Compile(module_, source));
    ASSIGN_OR_RETURN(kernels_, LoadedKernels::Load(images, cinn_device_opencl));
    return absl::OkStatus();
  }

  const std::vector<KernelCase>& cases() const { return cases_; }

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
  std::vector<KernelCase> cases_;
  ir::Module module_;
  std::unique_ptr<LoadedKernels> kernels_;
};

// On random numbers.
void ExpectAsInterpreted(const Kernels& kernels) {
  for (size_t k = 0; k < kernels.cases().size(); ++k) {
    const KernelCase& c = kernels.cases()[k];
    ir::HostArray x = Numbers(c.in, 0), z = Numbers(c.in, 1), got(c.out, {kCount}), want(c.out, {kCount});
    Status status = kernels.Run(k, x, z, got);
    ASSERT_TRUE(status.ok()) << status;
    status = kernels.Interpret(k, x, z, want);
    ASSERT_TRUE(status.ok()) << status;
    ExpectSame(c, x, z, got, want);
  }
}

TEST(OpenClSource, EveryOperatorAndCast) {
  SKIP_WITHOUT_OPENCL();
  Kernels kernels;
  for (KernelCase& c : EveryOperatorAndCast()) kernels.Add(std::move(c));
  const Status built = kernels.Build();
  ASSERT_TRUE(built.ok()) << built;
  ExpectAsInterpreted(kernels);
}

// Of sub-groups of the device where it offers them, else of ours.
TEST(OpenClSource, EveryTypeShuffles) {
  SKIP_WITHOUT_OPENCL();
  for (const int64_t subgroup : {16, 4, 32}) {
    if (subgroup != 16 && !OffersSubgroups(static_cast<size_t>(subgroup))) continue;
    Kernels kernels;
    for (const DType t : {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
                          DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      for (const int64_t step : {int64_t{1}, subgroup / 2}) kernels.Add({t, t, Cat("shuffle_xor(a, i32(", step, "))")});
    }
    const Status built = kernels.Build(subgroup);
    ASSERT_TRUE(built.ok()) << built;
    ExpectAsInterpreted(kernels);
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
  for (const Function& f : kFunctions) kernels.Add({DType::kF32, DType::kF32, f.text});
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
