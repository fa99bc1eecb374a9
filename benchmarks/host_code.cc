// Speed of generated host code, each figure beside a probe of the same run: fused multiply-adds of a register tile
// against the machine's peak, elementary functions in elements per second, and what compiling costs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/compiler.h"
#include "glog/logging.h"
#include "runtime/call.h"

namespace cinn_like {
namespace {

double Seconds(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::unique_ptr<Compiler> Compile(const std::string& text) {
  auto module = ir::ParseModule(text);
  CHECK(module.ok()) << module.status();
  auto compiler = Compiler::Create(*Target::Parse("cpu"));
  CHECK(compiler.ok()) << compiler.status();
  CHECK_EQ((*compiler)->Build(*module).ToString(), "OK");
  return *std::move(compiler);
}

// An internal function with its environment bound.
template <class... Args>
auto Function(const Compiler& c, const char* name) {
  auto* f = reinterpret_cast<int32_t (*)(Args..., const CinnCallEnv*)>(c.Lookup(name));
  return [f](Args... args) {
    static const CinnCallEnv env = {};
    CHECK_EQ(f(args..., &env), 0);
  };
}

// 24 chains of fused multiply-adds that touch no memory.
constexpr char kPeak[] = R"(
func @peak(y: f32[384], n: i64) {
  alloc acc: f32[384] @local
  for r in 0..24 @unrolled {
    acc[ramp(r * 16, 1, 16)] = broadcast(y[0], 16)
  }
  for k in 0..n {
    for s in 0..24 @unrolled {
      acc[ramp(s * 16, 1, 16)] = fma(acc[ramp(s * 16, 1, 16)], broadcast(y[1], 16), broadcast(y[2], 16))
    }
  }
  for t in 0..24 @unrolled {
    y[ramp(t * 16, 1, 16)] = acc[ramp(t * 16, 1, 16)]
  }
}
)";

// C[rows,32] += A[k,rows] * B[k,32], both packed.
std::string Tile(int rows) {
  return Cat("func @tile(a: f32[1], b: f32[1], c: f32[1], n: i64) {\n  alloc acc: f32[", rows * 32, R"(] @local
  for r in 0..)",
             rows * 2, R"( @unrolled {
    acc[ramp(r * 16, 1, 16)] = c[ramp(r * 16, 1, 16)]
  }
  for k in 0..n {
    for i in 0..)",
             rows, R"( @unrolled {
      for j in 0..2 @unrolled {
        acc[ramp(i * 32 + j * 16, 1, 16)] = acc[ramp(i * 32 + j * 16, 1, 16)] + broadcast(a[k * )",
             rows, R"( + i], 16) * b[ramp(k * 32 + j * 16, 1, 16)]
      }
    }
  }
  for t in 0..)",
             rows * 2, R"( @unrolled {
    c[ramp(t * 16, 1, 16)] = acc[ramp(t * 16, 1, 16)]
  }
}
)");
}

void BenchTile(int rows) {
  const auto peak_code = Compile(kPeak), tile_code = Compile(Tile(rows));
  const auto peak = Function<float*, int64_t>(*peak_code, "peak");
  const auto tile = Function<float*, float*, float*, int64_t>(*tile_code, "tile");
  constexpr int64_t kDepth = 256, kSteps = 300;
  std::vector<float> y(384, 0.5f), a(kDepth * rows, 0.1f), b(kDepth * 32, 0.1f), c(rows * 32);
  double best_peak = 0, best_tile = 0;
  for (int round = 0; round < 100; ++round) {
    const double peak_s = Seconds([&] { peak(y.data(), kDepth * kSteps); });
    const double tile_s = Seconds([&] {
      for (int i = 0; i < kSteps; ++i) tile(a.data(), b.data(), c.data(), kDepth);
    });
    const double peak_gflops = 2.0 * 384 * kDepth * kSteps / peak_s * 1e-9;
    const double tile_gflops = 2.0 * 32 * rows * kDepth * kSteps / tile_s * 1e-9;
    best_peak = std::max(best_peak, peak_gflops);
    best_tile = std::max(best_tile, tile_gflops);
  }
  std::printf("tile %2dx32       %7.1f GFLOP/s, peak %7.1f GFLOP/s: %.0f%%\n", rows, best_tile, best_peak,
              100 * best_tile / best_peak);
}

void BenchFunctions() {
  constexpr const char* kNames[] = {"exp", "exp2", "expm1", "log",   "log1p", "tanh",
                                    "erf", "sin",  "cos",   "rsqrt", "sqrt"};
  constexpr int64_t kElements = 2048;
  std::string text;
  for (const char* name : kNames) {
    text += Cat("func @", name, R"((x: f32[1], y: f32[1], n: i64) {
  for i in 0..tdiv(n, 64) {
    for j in 0..4 @unrolled {
      y[ramp(i * 64 + j * 16, 1, 16)] = )",
                name, R"((x[ramp(i * 64 + j * 16, 1, 16)])
    }
  }
}
)");
  }
  const auto c = Compile(text);
  std::vector<float> x(kElements), y(kElements);
  for (int64_t i = 0; i < kElements; ++i) x[i] = 0.01f + 3.0f * static_cast<float>(i) / kElements;
  for (const char* name : kNames) {
    const auto f = Function<float*, float*, int64_t>(*c, name);
    double best = 0;
    for (int round = 0; round < 20; ++round) {
      const double s = Seconds([&] {
        for (int i = 0; i < 200; ++i) f(x.data(), y.data(), kElements);
      });
      best = std::max(best, 200.0 * kElements / s * 1e-9);
    }
    std::printf("%-15s %7.2f Gelem/s\n", name, best);
  }
}

void BenchCompile() {
  const std::string tiny = "func @f(x: f32[1], n: i64) {\n  for i in 0..n {\n    x[i] = x[i] + 1.0\n  }\n}\n";
  Compile(tiny);
  double best = 1;
  for (int i = 0; i < 20; ++i) best = std::min(best, Seconds([&] { Compile(tiny); }));
  std::printf("compile, tiny    %6.2f ms\n", best * 1e3);
  best = 1;
  for (int i = 0; i < 5; ++i) best = std::min(best, Seconds([&] { Compile(Tile(12)); }));
  std::printf("compile, tile    %6.2f ms\n", best * 1e3);
}

}  // namespace
}  // namespace cinn_like

int main() {
  for (const int rows : {8, 12, 14}) cinn_like::BenchTile(rows);
  cinn_like::BenchFunctions();
  cinn_like::BenchCompile();
}
