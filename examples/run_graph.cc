// Graphs from C++ and from text, compiled for this CPU and run on DLTensors. Exits with 1 if a result is wrong.
//
//   run_graph [FILE of graph text with the parameters of examples/mlp.graph]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "cinn_like/driver.h"
#include "frontend/graph_builder.h"
#include "glog/logging.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

constexpr int64_t kIn = 64, kOut = 128;

// A contiguous f32 tensor of the host.
struct Tensor {
  explicit Tensor(std::vector<int64_t> s) : shape(std::move(s)) {
    dl = {nullptr, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), {kDLFloat, 32, 1}, shape.data(), nullptr, 0};
    int64_t size = 1;
    for (int64_t d : shape) size *= d;
    values.resize(static_cast<size_t>(size));
    dl.data = values.data();
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  CinnValue AsValue() {
    CinnValue v{};
    v.tag = kCinnTensor;
    v.tensor = &dl;
    return v;
  }
  void Fill(std::mt19937& random) {
    std::normal_distribution<float> normal(0.0f, 0.5f);
    for (float& v : values) v = normal(random);
  }

  std::vector<int64_t> shape;
  std::vector<float> values;
  DLTensor dl;
};

StatusOr<hlir::Graph> BuildMlp() {
  GraphBuilder b("built");
  const Dim n = b.Symbol("n", 1, 4096);
  const ValueRef x = b.Param("x", DType::kF32, {n, kIn});
  const ValueRef w = b.StaticParam("w", DType::kF32, {kIn, kOut}), gain = b.StaticParam("g", DType::kF32, {kOut});
  const ValueRef bias = b.StaticParam("b", DType::kF32, {kOut});
  b.Return({b.Softmax(b.Gelu(b.Add(b.Matmul(x, b.Mul(w, gain)), bias), "tanh"), -1)});
  return std::move(b).Build();
}

StatusOr<hlir::Graph> ReadMlp(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(Cat("can't read '", path, "'"));
  return hlir::Parse(std::string(std::istreambuf_iterator<char>(in), {}));
}

// The largest relative difference from the same in doubles.
double Check(const Tensor& x, const Tensor& w, const Tensor& g, const Tensor& b, const Tensor& y) {
  double worst = 0;
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    std::vector<double> row(kOut);
    double max = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < kOut; ++j) {
      double a = b.values[j];
      for (int64_t k = 0; k < kIn; ++k) a += double{x.values[i * kIn + k]} * w.values[k * kOut + j] * g.values[j];
      row[j] = 0.5 * a * (1 + std::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
      max = std::max(max, row[j]);
    }
    for (double& v : row) sum += v = std::exp(v - max);
    for (int64_t j = 0; j < kOut; ++j) worst = std::max(worst, std::abs(y.values[i * kOut + j] * sum / row[j] - 1));
  }
  return worst;
}

Status CompileAndRun(const hlir::Graph& graph) {
  ASSIGN_OR_RETURN(const Target target, Target::Parse("cpu"));
  ASSIGN_OR_RETURN(const CompileOptions options, CompileOptions::FromFlags());
  ASSIGN_OR_RETURN(const auto fn, CompileGraph(graph, target, options));
  const CompileReport& report = fn->report();
  std::printf("@%s: %d ops in %d kernels, compiled in %.1f ms\n", graph.name().c_str(), report.ops, report.kernels,
              report.total_seconds * 1e3);

  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  std::mt19937 random(1);
  Tensor w({kIn, kOut}), g({kOut}), b({kOut});
  w.Fill(random);
  g.Fill(random);
  b.Fill(random);
  // What depends on weights alone is computed once.
  const CinnValue weights[] = {w.AsValue(), g.AsValue(), b.AsValue()};
  RETURN_IF_ERROR(fn->Prepare(weights, env));

  // One function for every number of rows.
  for (int64_t rows : {1, 7, 128, 1000}) {
    Tensor x({rows, kIn}), y({rows, kOut});
    x.Fill(random);
    const CinnValue args[] = {x.AsValue(), w.AsValue(), g.AsValue(), b.AsValue(), y.AsValue()};
    constexpr int kTimes = 20;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) {
      if (const int32_t code = fn->entry()(fn->self(), args, 5, &env); code != 0) return LastErrorStatus(code);
    }
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kTimes;
    const double error = Check(x, w, g, b, y);
    std::printf("  %4ld rows: %8.1f us, largest relative error %.1e\n", static_cast<long>(rows), us, error);
    // Sums of 64 products, rounded to f32 each.
    if (!(error < 1e-5)) return Internal("a result is off by ", error);
  }
  return absl::OkStatus();
}

Status Main(int argc, char** argv) {
  ASSIGN_OR_RETURN(const hlir::Graph built, BuildMlp());
  RETURN_IF_ERROR(CompileAndRun(built));
  ASSIGN_OR_RETURN(const hlir::Graph read, ReadMlp(argc > 1 ? argv[1] : "examples/mlp.graph"));
  return CompileAndRun(read);
}

}  // namespace
}  // namespace cinn_like

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  const cinn_like::Status status = cinn_like::Main(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "run_graph: %s\n", cinn_like::Message(status).c_str());
  return status.ok() ? 0 : 1;
}
