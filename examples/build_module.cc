// One level below graphs: a module of loops, scheduled by hand and built by the Compiler. Exits with 1 if it is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <vector>

#include "backends/compiler.h"
#include "glog/logging.h"
#include "ir/schedule/schedule.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

// Internal functions compute; an entry checks a framework's arguments and calls them.
constexpr char kModule[] = R"(
func @rows(x: f32[n,256], y: f32[n], n: i64) where n in 1..4096 {
  for i in 0..n {
    for k in 0..256 {
      block sum_(vi in 0..n = i, vk reduce 0..256 = k) init { y[vi] = 0.0 } {
        y[vi] = y[vi] + x[vi, vk] * x[vi, vk]
      }
    }
  }
}
func @square_sum entry(x: f32[n,256], y: f32[n] out) where n in 1..4096 {
  call @rows(&x[0, 0], &y[0], n)
}
)";

// Eight rows side by side in a vector, groups of rows over threads.
constexpr char kSchedule[] = R"(
split i 8 -> io ii
reorder io k ii
split_init sum_ k -> start   // else every k would ask whether it is the first
parallel io
vectorize ii
)";

Status Main() {
  ASSIGN_OR_RETURN(const Target target, Target::Parse("cpu"));
  ASSIGN_OR_RETURN(ir::Module module, ir::ParseModule(kModule));
  ASSIGN_OR_RETURN(module.funcs[0], ir::ApplySchedule(module.funcs[0], kSchedule));
  std::printf("%s\n", ir::Print(module).c_str());

  ASSIGN_OR_RETURN(const auto compiler, Compiler::Create(target));
  RETURN_IF_ERROR(compiler->Build(module));
  ASSIGN_OR_RETURN(const std::string source, compiler->GetSourceCode(module));
  const std::string object = (std::filesystem::temp_directory_path() / "cinn_like_build_module.o").string();
  RETURN_IF_ERROR(compiler->ExportObject(object));
  std::printf("%zu bytes of LLVM IR, an object of %zu bytes\n", source.size(),
              static_cast<size_t>(std::filesystem::file_size(object)));
  std::filesystem::remove(object);

  const auto square_sum = reinterpret_cast<CinnFunctionPtr>(compiler->Lookup("square_sum"));
  if (square_sum == nullptr) return Internal("no @square_sum");
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t rows : {1, 8, 1003}) {
    std::vector<float> x(rows * 256), y(rows);
    for (float& v : x) v = normal(random);
    int64_t x_shape[] = {rows, 256}, y_shape[] = {rows};
    DLTensor tensors[] = {{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, x_shape, nullptr, 0},
                          {y.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, y_shape, nullptr, 0}};
    CinnValue args[2] = {};
    for (int i = 0; i < 2; ++i) {
      args[i].tag = kCinnTensor;
      args[i].tensor = &tensors[i];
    }
    if (const int32_t code = square_sum(nullptr, args, 2, &env); code != 0) return LastErrorStatus(code);
    double worst = 0;
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < 256; ++k) sum += double{x[i * 256 + k]} * x[i * 256 + k];
      worst = std::max(worst, std::abs(y[i] - sum) / sum);
    }
    std::printf("%4ld rows: largest relative error %.1e\n", static_cast<long>(rows), worst);
    if (!(worst < 1e-5)) return Internal("a result is off by ", worst);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cinn_like

int main(int, char** argv) {
  google::InitGoogleLogging(argv[0]);
  const cinn_like::Status status = cinn_like::Main();
  if (!status.ok()) std::fprintf(stderr, "build_module: %s\n", cinn_like::Message(status).c_str());
  return status.ok() ? 0 : 1;
}
