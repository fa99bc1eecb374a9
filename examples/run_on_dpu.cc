// A graph shared out between this CPU and a device that none of our files knows (examples/dpu, docs/new_device.md).
// Exits with 1 if a result is wrong.
//
//   run_on_dpu [rows]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cinn_like/partition.h"
#include "examples/dpu/dpu.h"
#include "glog/logging.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

// Two products, which the dpu is better at, and a softmax, for which it has no schedule.
constexpr char kGraph[] = R"(
graph @mlp(%x: f32[n,500], %w: f32[500,500] static, %b: f32[500] static,
           %v: f32[500,100] static) where n in 1..4096 hint 1000 {
  %0 = matmul(%x, %w) : f32[n,500]
  %1 = add(%0, %b) : f32[n,500]
  %2 = relu(%1) : f32[n,500]
  %3 = matmul(%2, %v) : f32[n,100]
  %4 = softmax(%3) {axis=1} : f32[n,100]
  return %4
}
)";

struct Tensor {
  explicit Tensor(std::vector<int64_t> s) : shape(std::move(s)) {
    int64_t size = 1;
    for (int64_t d : shape) size *= d;
    values.resize(static_cast<size_t>(size));
    dl = {values.data(), {kDLCPU, 0}, static_cast<int32_t>(shape.size()), {kDLFloat, 32, 1}, shape.data(), nullptr, 0};
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  CinnValue AsValue() { return {kCinnTensor, 0, {.tensor = &dl}}; }
  void Fill(std::mt19937& random) {
    std::normal_distribution<float> normal(0.0f, 0.1f);
    for (float& v : values) v = normal(random);
  }
  std::vector<int64_t> shape;
  std::vector<float> values;
  DLTensor dl;
};

Status CompileAndRun(int64_t rows) {
  ASSIGN_OR_RETURN(const hlir::Graph graph, hlir::Parse(kGraph));
  ASSIGN_OR_RETURN(const CompileOptions options, CompileOptions::FromFlags());
  ASSIGN_OR_RETURN(const Target cpu, Target::Parse("cpu"));
  ASSIGN_OR_RETURN(const Target dpu, dpu::Devices().ParseTarget("dpu -arch=dpu2"));
  const Target targets[] = {cpu, dpu};
  ASSIGN_OR_RETURN(const auto shared_out, CompileOnTargets(graph, targets, options, dpu::Devices()));
  ASSIGN_OR_RETURN(const auto on_cpu, CompileGraph(graph, cpu, options));
  for (const std::string& tactic : shared_out->report().tactics) std::printf("  kernel %s\n", tactic.c_str());

  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  std::mt19937 random(1);
  Tensor x({rows, 500}), w({500, 500}), b({500}), v({500, 100}), y({rows, 100}), expected({rows, 100});
  for (Tensor* t : {&x, &w, &b, &v}) t->Fill(random);
  const CinnValue weights[] = {w.AsValue(), b.AsValue(), v.AsValue()};
  const auto call = [&](CompiledFunction& f, Tensor& result) -> Status {
    RETURN_IF_ERROR(f.Prepare(weights, env));
    const CinnValue args[] = {x.AsValue(), weights[0], weights[1], weights[2], result.AsValue()};
    const int32_t code = f.entry()(f.self(), args, 5, &env);
    return code == 0 ? absl::OkStatus() : LastErrorStatus(code);
  };
  RETURN_IF_ERROR(call(*shared_out, y));
  RETURN_IF_ERROR(call(*on_cpu, expected));
  float worst = 0;
  for (size_t i = 0; i < y.values.size(); ++i) worst = std::max(worst, std::fabs(y.values[i] - expected.values[i]));
  const dpu::Counts counts = dpu::CountsSoFar();
  std::printf("%ld rows: %ld launches and %ld copies of the dpu, largest difference from the CPU %.1e\n",
              static_cast<long>(rows), static_cast<long>(counts.launches), static_cast<long>(counts.copies), worst);
  if (counts.launches == 0) return Internal("the dpu computed nothing");
  if (!(worst < 1e-5f)) return Internal("a result is off by ", worst);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cinn_like

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  const cinn_like::Status status = cinn_like::CompileAndRun(argc > 1 ? std::atoi(argv[1]) : 333);
  if (!status.ok()) std::fprintf(stderr, "run_on_dpu: %s\n", cinn_like::Message(status).c_str());
  return status.ok() ? 0 : 1;
}
