// Checks generated CUDA code on a GPU, and needs nothing but this program, a driver and NVRTC:
//   1. every f32 function against the C library in f64, with the bounds of docs/numerics.md,
//   2. kernels written as loop text (pointwise bf16, softmax bf16) against f64, with their times,
//   3. conversions to 16-bit floats against the interpreter's rounding, bit by bit.
//
//   gpu_check [--device=0] [--numerics=docs/numerics.md] [--loops=tests/backends/golden]
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "backends/cuda_compiler.h"
#include "gflags/gflags.h"
#include "runtime/device_api.h"
#include "runtime/last_error.h"

DEFINE_int32(device, 0, "the GPU to use");
DEFINE_string(numerics, "docs/numerics.md", "the table of bounds");
DEFINE_string(loops, "tests/backends/golden", "the folder of kernels");

namespace cinn_like {
namespace {

class Gpu {
 public:
  static StatusOr<std::unique_ptr<Gpu>> Open(int device) {
    auto r = std::make_unique<Gpu>();
    r->device_ = device;
    ASSIGN_OR_RETURN(r->api_, GetCudaDevice());
    ASSIGN_OR_RETURN(r->target_, r->api_->Detect(device));
    ASSIGN_OR_RETURN(r->options_, CompileOptions::FromFlags());
    return r;
  }
  const Target& target() const { return target_; }

  // Memory that lives as long as the program.
  StatusOr<void*> Upload(const void* data, size_t bytes) {
    ASSIGN_OR_RETURN(void* p, api_->Alloc(device_, static_cast<int64_t>(bytes), nullptr));
    if (data != nullptr) RETURN_IF_ERROR(api_->Copy(device_, p, data, static_cast<int64_t>(bytes), nullptr));
    RETURN_IF_ERROR(api_->Synchronize(device_, nullptr));
    return p;
  }
  Status Download(void* to, const void* from, size_t bytes) {
    RETURN_IF_ERROR(api_->Copy(device_, to, from, static_cast<int64_t>(bytes), nullptr));
    return api_->Synchronize(device_, nullptr);
  }
  void Free(void* p) { api_->Free(device_, p); }

  Status Build(const std::string& loops) {
    ASSIGN_OR_RETURN(const ir::Module m, ir::ParseModule(loops));
    const auto begin = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const KernelImages images, MakeCudaCompiler(target_, options_, nullptr)->Compile(m, ""));
    ASSIGN_OR_RETURN(kernels_, LoadedKernels::Load(images, cinn_device_cuda));
    printf("built %zu kernels in %.3f s\n", m.funcs.size(),
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return absl::OkStatus();
  }
  // Milliseconds of one of `times` launches.
  template <class... Args>
  StatusOr<double> Launch(std::string_view kernel, int64_t blocks, int64_t threads, int times, Args... args) {
    ASSIGN_OR_RETURN(void* k, kernels_->Kernel(kernel));
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {kDLCUDA, device_};
    void* params[] = {&args...};
    RETURN_IF_ERROR(api_->Synchronize(device_, nullptr));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) {
      if (cinn_launch(&cinn_device_cuda, k, blocks, 1, 1, threads, 1, 1, 0, params, &env) != 0)
        return Internal(kernel, ": ", LastError());
    }
    RETURN_IF_ERROR(api_->Synchronize(device_, nullptr));
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / times;
  }

 private:
  int device_ = 0;
  DeviceApi* api_ = nullptr;
  Target target_;
  CompileOptions options_;
  std::unique_ptr<LoadedKernels> kernels_;
};

int failures = 0;
void Report(bool ok, const std::string& what) {
  printf("%s %s\n", ok ? "  ok " : "FAIL", what.c_str());
  failures += ok ? 0 : 1;
}

StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(Cat("can't read ", path));
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

// The rows "| cuda <name> | <bound> | ..." of the table.
StatusOr<std::map<std::string, double>> ReadBounds() {
  ASSIGN_OR_RETURN(const std::string text, ReadText(FLAGS_numerics));
  std::map<std::string, double> r;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    std::vector<absl::string_view> cells = absl::StrSplit(line, '|');
    double bound = 0;
    if (cells.size() > 3 && absl::SimpleAtod(absl::StripAsciiWhitespace(cells[2]), &bound)) {
      absl::string_view name = absl::StripAsciiWhitespace(cells[1]);
      if (absl::ConsumePrefix(&name, "cuda ")) r[std::string(name)] = bound;
    }
  }
  return r;
}

struct Function {
  const char* name;
  const char* text;  // of a and b
  std::function<double(double, double)> reference;
  double lo, hi;  // of a; b is in -8..8
};
const Function kFunctions[] = {
    {"div", "a / b", [](double a, double b) { return a / b; }, -1e30, 1e30},
    {"exp", "exp(a)", [](double a, double) { return std::exp(a); }, -87, 88},
    {"exp2", "exp2(a)", [](double a, double) { return std::exp2(a); }, -125, 127},
    {"expm1", "expm1(a)", [](double a, double) { return std::expm1(a); }, -20, 88},
    {"log", "log(a)", [](double a, double) { return std::log(a); }, 1e-37, 1e38},
    {"log1p", "log1p(a)", [](double a, double) { return std::log1p(a); }, -0.999, 1e38},
    {"sqrt", "sqrt(a)", [](double a, double) { return std::sqrt(a); }, 1e-37, 1e38},
    {"rsqrt", "rsqrt(a)", [](double a, double) { return 1 / std::sqrt(a); }, 1e-37, 1e38},
    {"tanh", "tanh(a)", [](double a, double) { return std::tanh(a); }, -20, 20},
    {"erf", "erf(a)", [](double a, double) { return std::erf(a); }, -6, 6},
    {"sin", "sin(a)", [](double a, double) { return std::sin(a); }, -1e6, 1e6},
    {"cos", "cos(a)", [](double a, double) { return std::cos(a); }, -1e6, 1e6},
    {"pow", "pow(abs(a), b)", [](double a, double b) { return std::pow(std::fabs(a), b); }, 1e-3, 1e3},
};

double UlpsOff(float got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e30;
  // Results that are denormal may be flushed to 0.
  if (std::fabs(want) < 1.17549435e-38) return std::fabs(got - want) <= 1.17549435e-38 ? 0 : 1e30;
  if (std::fabs(want) > 3.4028234e38) return std::isinf(got) ? 0 : std::fabs(got) > 3.4e38 ? 1 : 1e30;
  return std::fabs(got - want) / std::ldexp(1.0, std::ilogb(want) - 23);
}

Status CheckFunctions(Gpu& gpu) {
  ASSIGN_OR_RETURN(const auto bounds, ReadBounds());
  constexpr int64_t kCount = 1 << 21;
  std::string loops;
  for (const Function& f : kFunctions) {
    loops += Cat("func @", f.name, " kernel (x: f32[", kCount, "] align 16, z: f32[", kCount, "] align 16, y: f32[",
                 kCount, "] align 16) { for i in 0..", kCount / 256, " @blockIdx.x { for t in 0..256 @threadIdx.x {\n",
                 "let a = x[i * 256 + t]\nlet b = z[i * 256 + t]\ny[i * 256 + t] = ", f.text, " } } }\n");
  }
  RETURN_IF_ERROR(gpu.Build(loops));
  std::mt19937_64 random(std::random_device{}());
  std::vector<float> x(kCount), z(kCount), y(kCount);
  for (const Function& f : kFunctions) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double u = std::uniform_real_distribution<double>(f.lo, f.hi)(random);
      // Half of them evenly spread over the exponents.
      double v = std::ldexp(u, -static_cast<int>(random() % 40));
      if (v < f.lo || v > f.hi) v = u;
      x[i] = static_cast<float>(i % 2 == 0 ? u : v);
      z[i] = static_cast<float>(std::uniform_real_distribution<double>(-8, 8)(random));
    }
    const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f};
    memcpy(x.data(), special, sizeof(special));
    ASSIGN_OR_RETURN(void* dx, gpu.Upload(x.data(), x.size() * 4));
    ASSIGN_OR_RETURN(void* dz, gpu.Upload(z.data(), z.size() * 4));
    ASSIGN_OR_RETURN(void* dy, gpu.Upload(nullptr, y.size() * 4));
    RETURN_IF_ERROR(gpu.Launch(f.name, kCount / 256, 256, 1, dx, dz, dy).status());
    RETURN_IF_ERROR(gpu.Download(y.data(), dy, y.size() * 4));
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double off = UlpsOff(y[i], f.reference(x[i], z[i]));
      if (off > worst) worst = off, at = i;
    }
    const auto bound = bounds.find(f.name);
    char line[200];
    snprintf(line, sizeof(line), "%-6s %8.3f ULP (bound %g) at %.9g, %.9g: %.9g not %.9g", f.name, worst,
             bound == bounds.end() ? -1 : bound->second, x[at], z[at], y[at], f.reference(x[at], z[at]));
    Report(bound != bounds.end() && worst <= bound->second, line);
    for (void* p : {dx, dz, dy}) gpu.Free(p);
  }
  return absl::OkStatus();
}

float FromBf16(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }
uint16_t ToBf16(double v) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(ir::RoundTo(DType::kBF16, v))) >> 16);
}

Status CheckConversions(Gpu& gpu) {
  constexpr int64_t kCount = 1 << 20;
  std::string loops;
  for (const char* to : {"bf16", "f16"}) {
    for (const char* from : {"f32", "f64"}) {
      loops += Cat("func @", to, "_", from, " kernel (x: ", from, "[", kCount, "] align 16, y: ", to, "[", kCount,
                   "] align 16) { for i in 0..", kCount / 2048, " @blockIdx.x { for t in 0..256 @threadIdx.x {\n",
                   "y[ramp(i * 2048 + t * 8, 1, 8)] = ", to, "(x[ramp(i * 2048 + t * 8, 1, 8)]) } } }\n");
    }
  }
  RETURN_IF_ERROR(gpu.Build(loops));
  std::mt19937_64 random(std::random_device{}());
  for (const bool is_f64 : {false, true}) {
    std::vector<double> values(kCount);
    std::vector<float> narrow(kCount);
    for (size_t i = 0; i < values.size(); ++i) {
      const float f = std::bit_cast<float>(static_cast<uint32_t>(random()));
      // Anything, ties of the 16-bit formats, and values next to ties.
      values[i] = i % 3 == 0
                      ? f
                      : static_cast<double>(std::bit_cast<float>((std::bit_cast<uint32_t>(f) & 0xffff0000u) | 0x8000u));
      if (i % 3 == 2)
        values[i] *= 1 + (is_f64 ? 1e-12 : 1e-7) * static_cast<double>(static_cast<int>(random() % 3) - 1);
      narrow[i] = static_cast<float>(values[i]);
      if (!is_f64) values[i] = narrow[i];
    }
    const void* data = is_f64 ? static_cast<const void*>(values.data()) : narrow.data();
    ASSIGN_OR_RETURN(void* dx, gpu.Upload(data, values.size() * (is_f64 ? 8 : 4)));
    ASSIGN_OR_RETURN(void* dy, gpu.Upload(nullptr, values.size() * 2));
    for (const DType to : {DType::kBF16, DType::kF16}) {
      std::vector<uint16_t> y(kCount);
      const std::string name = Cat(Name(to), is_f64 ? "_f64" : "_f32");
      RETURN_IF_ERROR(gpu.Launch(name, kCount / 2048, 256, 1, dx, dy).status());
      RETURN_IF_ERROR(gpu.Download(y.data(), dy, y.size() * 2));
      int64_t wrong = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        const double got = to == DType::kBF16 ? FromBf16(y[i]) : static_cast<double>(std::bit_cast<_Float16>(y[i]));
        const double want = ir::RoundTo(to, values[i]);
        wrong += !(got == want || (std::isnan(got) && std::isnan(want)));
      }
      Report(wrong == 0, Cat("conversion ", name, ": ", wrong, " wrong of ", kCount));
    }
    gpu.Free(dx);
    gpu.Free(dy);
  }
  return absl::OkStatus();
}

// y and x of `rows` rows of 4096 bf16 through a kernel of the golden files; `row` computes a row in f64.
Status CheckRows(
    Gpu& gpu, const std::string& name, const std::string& kernel, int64_t rows, bool has_bias,
    const std::function<void(const std::vector<double>&, const std::vector<double>&, std::vector<double>&)>& row) {
  constexpr size_t kCols = 4096;
  ASSIGN_OR_RETURN(const std::string loops, ReadText(Cat(FLAGS_loops, "/", name, ".loops")));
  RETURN_IF_ERROR(gpu.Build(loops));
  std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal(0, 2);
  std::vector<uint16_t> x(static_cast<size_t>(rows) * kCols), bias(kCols), y(x.size());
  for (uint16_t& v : x) v = ToBf16(normal(random));
  for (uint16_t& v : bias) v = ToBf16(normal(random));
  ASSIGN_OR_RETURN(void* dx, gpu.Upload(x.data(), x.size() * 2));
  ASSIGN_OR_RETURN(void* db, gpu.Upload(bias.data(), bias.size() * 2));
  ASSIGN_OR_RETURN(void* dy, gpu.Upload(nullptr, y.size() * 2));
  auto launch = [&](int times) {
    return has_bias ? gpu.Launch(kernel, rows, 256, times, dx, db, dy, rows)
                    : gpu.Launch(kernel, rows, 256, times, dx, dy, rows);
  };
  RETURN_IF_ERROR(launch(5).status());
  std::vector<double> times;
  for (int i = 0; i < 11; ++i) {
    ASSIGN_OR_RETURN(const double ms, launch(50));
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  RETURN_IF_ERROR(gpu.Download(y.data(), dy, y.size() * 2));
  double worst = 0;
  std::vector<double> in(kCols), b(kCols), want(kCols);
  for (size_t j = 0; j < kCols; ++j) b[j] = FromBf16(bias[j]);
  for (int64_t r = 0; r < rows; r += 1 + rows / 300) {
    const size_t at = static_cast<size_t>(r) * kCols;
    for (size_t j = 0; j < kCols; ++j) in[j] = FromBf16(x[at + j]);
    row(in, b, want);
    for (size_t j = 0; j < kCols; ++j)
      worst = std::max(worst, std::fabs(FromBf16(y[at + j]) - want[j]) / (std::fabs(want[j]) + 1e-3));
  }
  char line[200];
  snprintf(line, sizeof(line),
           "%s %ldx%zu: %.4f ms, %.2f TB/s, largest relative error %.2e (one bf16 rounding is 3.9e-3)", name.c_str(),
           static_cast<long>(rows), kCols, times[5], 4e-9 * static_cast<double>(x.size()) / times[5], worst);
  Report(worst < 4.2e-3, line);
  for (void* p : {dx, db, dy}) gpu.Free(p);
  return absl::OkStatus();
}

Status Run() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Gpu> gpu, Gpu::Open(FLAGS_device));
  printf("target %s\n", gpu->target().Print().c_str());
  RETURN_IF_ERROR(CheckFunctions(*gpu));
  RETURN_IF_ERROR(CheckConversions(*gpu));
  RETURN_IF_ERROR(CheckRows(*gpu, "pointwise_bf16", "pointwise", 32768, true,
                            [](const std::vector<double>& x, const std::vector<double>& b, std::vector<double>& y) {
                              for (size_t j = 0; j < x.size(); ++j)
                                y[j] = (x[j] + b[j]) * 0.5 * (1 + std::erf((x[j] + b[j]) * 0.70710678));
                            }));
  RETURN_IF_ERROR(CheckRows(*gpu, "softmax_bf16", "softmax", 16384, false,
                            [](const std::vector<double>& x, const std::vector<double>&, std::vector<double>& y) {
                              const double m = *std::max_element(x.begin(), x.end());
                              double sum = 0;
                              for (size_t j = 0; j < x.size(); ++j) sum += y[j] = std::exp(x[j] - m);
                              for (double& v : y) v /= sum;
                            }));
  return absl::OkStatus();
}

}  // namespace
}  // namespace cinn_like

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const absl::Status s = cinn_like::Run();
  if (!s.ok()) fprintf(stderr, "%s\n", std::string(s.message()).c_str());
  return s.ok() && cinn_like::failures == 0 ? 0 : 1;
}
