// What examples/te does from Python, in C++: a product of matrices of any size from tensor expressions, scheduled step
// by step, for this CPU and as source for a GPU. Exits with 1 if it is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "cinn_like/module_driver.h"
#include "glog/logging.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

// y[i, j] = sum over k of a[i, k] * b[k, j], for a: f32[n, k] and b: f32[k, m].
StatusOr<ir::Func> Product() {
  const auto context = std::make_shared<ir::Context>();
  ir::Context& c = *context;
  const ir::Expr n = c.Var("n"), m = c.Var("m"), k = c.Var("k");
  const ir::Buffer a = c.MakeBuffer({.name = "a", .shape = {n, k}}), b = c.MakeBuffer({.name = "b", .shape = {k, m}});
  ir::Te te(c);
  const ir::Buffer y = te.Reduce("y", ir::Combiner::kSum, DType::kF32, {n, m}, {k}, [&](ir::Indices i, ir::Indices r) {
    return c.Mul(te.At(a, {i[0], r[0]}), te.At(b, {r[0], i[1]}));
  });
  ir::TeProgram program;
  program.name = "product";
  program.context = context;
  program.params = {{.buffer = a}, {.buffer = b}, {.buffer = y, .role = ir::ParamRole::kResult}};
  program.symbols = {{.var = n, .hi = 4096}, {.var = m, .hi = 4096}, {.var = k, .hi = 4096}};
  program.stages = std::move(te.stages());
  return ir::ToLoops(program);
}

// Rows by fours and columns by 32 as vectors, over threads.
StatusOr<std::string> OnCpu(const ir::Func& product) {
  ir::Schedule s(product);
  const std::vector<std::string> loops = s.LoopsAround("b_y");
  s.Step("split ", loops[0], " 4 -> io ii").Step("split ", loops[1], " 32 -> jo ji");
  s.Step("reorder io jo ", loops[2], " ii ji").Step("split_init b_y ", loops[2], " -> start");
  s.Run("parallel io").Run("vectorize ji").Step("vectorize ", s.LoopsAround("start").back());
  RETURN_IF_ERROR(s.status());
  std::printf("%s\n%s\n", ir::Print(s.func()).c_str(), s.Diff().c_str());  // the last step: before and after
  return s.text();
}

// An element a thread, 16 by 16 a block.
constexpr char kOnGpu[] = R"(
split l_i 16 -> by ty
split l_i_1 16 -> bx tx
reorder by bx ty tx
bind by blockIdx.y
bind bx blockIdx.x
bind ty threadIdx.y
bind tx threadIdx.x
)";

Status Check(const CompiledFunction& f, int64_t n, int64_t m, int64_t k) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> a(n * k), b(k * m), y(n * m);
  for (float& v : a) v = normal(random);
  for (float& v : b) v = normal(random);
  int64_t shapes[3][2] = {{n, k}, {k, m}, {n, m}};
  float* data[] = {a.data(), b.data(), y.data()};
  DLTensor tensors[3];
  CinnValue args[3] = {};
  for (int i = 0; i < 3; ++i) {
    tensors[i] = {data[i], {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shapes[i], nullptr, 0};
    args[i].tag = kCinnTensor;
    args[i].tensor = &tensors[i];
  }
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  if (const int32_t code = f.entry()(f.self(), args, 3, &env); code != 0) return LastErrorStatus(code);
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < k; ++r) sum += double{a[i * k + r]} * b[r * m + j];
      worst = std::max(worst, std::abs(y[i * m + j] - sum));
    }
  }
  std::printf("%ld x %ld x %ld: largest error %.1e\n", static_cast<long>(n), static_cast<long>(m), static_cast<long>(k),
              worst);
  return worst < 1e-3 ? absl::OkStatus() : Internal("a result is off by ", worst);
}

Status Main() {
  ASSIGN_OR_RETURN(const ir::Func product, Product());
  std::printf("%s\n", ir::Print(product).c_str());
  const ir::Module module{product.context, {product}};
  ASSIGN_OR_RETURN(const std::string schedule, OnCpu(product));
  ASSIGN_OR_RETURN(const auto f, LowerModule(module, schedule, *Target::Parse("cpu"), CompileOptions{}));
  RETURN_IF_ERROR(f->Finish());
  for (const auto& [n, m, k] : {std::tuple{1, 1, 1}, {64, 64, 64}, {77, 33, 130}}) RETURN_IF_ERROR(Check(*f, n, m, k));
  // Source is there for any device; Finish would need it.
  ASSIGN_OR_RETURN(const auto gpu, LowerModule(module, kOnGpu, *Target::Parse("cuda -arch=sm_90a"), CompileOptions{}));
  ASSIGN_OR_RETURN(const std::string source, gpu->Source("cuda"));
  std::printf("%s\n", source.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace cinn_like

int main(int, char** argv) {
  google::InitGoogleLogging(argv[0]);
  const cinn_like::Status status = cinn_like::Main();
  if (!status.ok()) std::fprintf(stderr, "tensor_expressions: %s\n", cinn_like::Message(status).c_str());
  return status.ok() ? 0 : 1;
}
