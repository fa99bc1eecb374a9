// examples/te/reduction.py and opencl.py in C++: sums of rows in parts (rfactor) as the lanes of a vector, and across
// the threads of a block, where OpenCL has a device; places of largest elements, a reducer of one's own over two
// values, and running sums. Exits with 1 if a result is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "cinn_like/host_tensors.h"
#include "cinn_like/module_driver.h"
#include "glog/logging.h"
#include "ir/schedule/schedule.h"
#include "ir/te.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

// Of x: f32[n, m], m a multiple of 16, what `outputs` computes.
StatusOr<ir::Schedule> Rows(const char* name,
                            const std::function<std::vector<ir::Buffer>(ir::Te&, ir::Buffer x)>& outputs) {
  const auto context = std::make_shared<ir::Context>();
  ir::Context& c = *context;
  const ir::Expr n = c.Var("n"), m = c.Var("m");
  const ir::Buffer x = c.MakeBuffer({.name = "x", .shape = {n, m}});
  ir::Te te(c);
  ir::TeProgram program;
  program.name = name;
  program.context = context;
  program.params = {{.buffer = x}};
  for (const ir::Buffer y : outputs(te, x)) program.params.push_back({.buffer = y, .role = ir::ParamRole::kResult});
  program.symbols = {{.var = n, .lo = 1, .hi = 4096}, {.var = m, .lo = 16, .hi = 4096, .divisor = 16}};
  program.stages = std::move(te.stages());
  return ir::Schedule::Of(std::move(program));
}

StatusOr<ir::Schedule> Sums() {
  return Rows("sums", [](ir::Te& te, ir::Buffer x) -> std::vector<ir::Buffer> {
    return {te.Reduce("y", ir::Combiner::kSum, DType::kF32, {x->shape[0]}, {x->shape[1]},
                      [&](ir::Indices i, ir::Indices r) { return te.At(x, {i[0], r[0]}); })};
  });
}

// The largest element of each row and its place; sums of elements and of squares, in one pass; running sums, in f64.
StatusOr<ir::Schedule> Others() {
  return Rows("others", [](ir::Te& te, ir::Buffer x) {
    ir::Context& c = te.context();
    const std::vector<ir::Expr> rows = {x->shape[0]}, columns = {x->shape[1]};
    const auto element = [&](ir::Indices i, ir::Indices r) { return te.At(x, {i[0], r[0]}); };
    std::vector<ir::Buffer> all = te.ReduceArg("best", true, DType::kF32, rows, columns, element);
    const ir::Expr zero = c.Float(0, DType::kF64);
    const auto add = [&](std::vector<ir::Buffer> more) { all.insert(all.end(), more.begin(), more.end()); };
    add(te.ReduceTuple("moments", {DType::kF64, DType::kF64}, rows, columns, {zero, zero},
                       [&](ir::Indices i, ir::Indices r, ir::Indices old) -> std::vector<ir::Expr> {
                         const ir::Expr e = c.Cast(DType::kF64, element(i, r));
                         return {c.Add(old[0], e), c.Add(old[1], c.Mul(e, e))};
                       }));
    add(te.Scan("running", {DType::kF32}, {DType::kF64}, x->shape, 1, {zero},
                [&](ir::Indices i, ir::Indices before) -> std::vector<ir::Expr> {
                  return {c.Add(before[0], c.Cast(DType::kF64, te.At(x, i)))};
                }));
    return all;
  });
}

// The function on tensors of the host; not loaded: why.
StatusOr<std::unique_ptr<CompiledFunction>> Build(const ir::Schedule& s, const std::string& target) {
  RETURN_IF_ERROR(s.status());
  const ir::Func& stages = s.history()[0].func;
  ASSIGN_OR_RETURN(auto f, LowerModule({stages.context, {stages}}, s.text(), *Target::Parse(target), CompileOptions{}));
  RETURN_IF_ERROR(f->Finish());
  return TakeHostTensors(std::move(f));
}

Status Call(const CompiledFunction& f, std::span<DLTensor> tensors) {
  std::vector<CinnValue> args;
  for (DLTensor& t : tensors) args.push_back({kCinnTensor, 0, {.tensor = &t}});
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  const int32_t code = f.entry()(f.self(), args.data(), static_cast<int32_t>(args.size()), &env);
  return code == 0 ? absl::OkStatus() : LastErrorStatus(code);
}

constexpr int64_t kRows = 33, kColumns = 208;

struct Data {
  Data() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& v : x) v = normal(random);
  }
  DLTensor X() { return Tensor(x.data(), {kDLFloat, 32, 1}, 2); }
  DLTensor Tensor(void* data, DLDataType type, int32_t rank = 1) {
    return {data, {kDLCPU, 0}, rank, type, shape, nullptr, 0};
  }
  int64_t shape[2] = {kRows, kColumns};
  std::vector<float> x = std::vector<float>(kRows * kColumns);
};

Status CheckSums(const CompiledFunction& f, const char* what) {
  Data d;
  std::vector<float> y(kRows);
  DLTensor tensors[] = {d.X(), d.Tensor(y.data(), {kDLFloat, 32, 1})};
  RETURN_IF_ERROR(Call(f, tensors));
  for (int64_t i = 0; i < kRows; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < kColumns; ++k) sum += d.x[i * kColumns + k];
    if (std::abs(y[i] - sum) > 1e-4) return Internal(what, ": the sum of row ", i, " is ", y[i], ", expected ", sum);
  }
  std::printf("%s: right\n", what);
  return absl::OkStatus();
}

Status CheckOthers(const CompiledFunction& f) {
  Data d;
  std::vector<float> best(kRows), running(kRows * kColumns);
  std::vector<int64_t> place(kRows);
  std::vector<double> sums(kRows), squares(kRows);
  const DLDataType f32{kDLFloat, 32, 1}, f64{kDLFloat, 64, 1};
  DLTensor tensors[] = {d.X(),
                        d.Tensor(best.data(), f32),
                        d.Tensor(place.data(), {kDLInt, 64, 1}),
                        d.Tensor(sums.data(), f64),
                        d.Tensor(squares.data(), f64),
                        d.Tensor(running.data(), f32, 2)};
  RETURN_IF_ERROR(Call(f, tensors));
  for (int64_t i = 0; i < kRows; ++i) {
    const float* row = &d.x[i * kColumns];
    const int64_t largest = std::max_element(row, row + kColumns) - row;
    double sum = 0, square = 0;
    for (int64_t k = 0; k < kColumns; ++k) {
      sum += row[k];
      square += double{row[k]} * row[k];
      if (running[i * kColumns + k] != static_cast<float>(sum)) return Internal("a running sum of row ", i);
    }
    if (place[i] != largest || best[i] != row[largest]) return Internal("the largest of row ", i);
    if (std::abs(sums[i] - sum) > 1e-12 || std::abs(squares[i] - square) > 1e-12) return Internal("sums of row ", i);
  }
  return absl::OkStatus();
}

Status Main() {
  // 16 sums for one, in the lanes of a vector, and a stage that adds them.
  ASSIGN_OR_RETURN(ir::Schedule lanes, Sums());
  lanes.Run("unfold y r 16 -> step lane").Run("rfactor y lane -> part").Run("compute_at b_part l_i");
  const std::vector<std::string> loops = lanes.LoopsAround("b_part");  // rows, and of a row lanes and steps
  lanes.Step("reorder ", loops[2], " ", loops[1]).Step("split_init b_part ", loops[2], " -> start");
  lanes.Step("vectorize ", loops[1]).Run("scope part local").Run("parallel l_i");
  ASSIGN_OR_RETURN(const auto on_cpu, Build(lanes, "cpu"));
  std::printf("%s\n%s\n", lanes.text().c_str(), lanes.Diff(0, -1).c_str());
  RETURN_IF_ERROR(CheckSums(*on_cpu, "cpu"));

  // A row for each block, whose 64 threads have a part of its sum each.
  ASSIGN_OR_RETURN(ir::Schedule threads, Sums());
  threads.Run("split l_r 64 -> step thread").Run("reorder l_i thread step");
  threads.Run("bind l_i blockIdx.x").Run("bind thread threadIdx.x");
  const auto on_gpu = Build(threads, "opencl");
  if (on_gpu.ok()) {
    ASSIGN_OR_RETURN(const std::string source, (*on_gpu)->Source("opencl"));
    std::printf("%s\n", source.c_str());
    RETURN_IF_ERROR(CheckSums(**on_gpu, "opencl"));
  } else {
    std::printf("opencl: not run: %s\n", Message(on_gpu.status()).c_str());
  }

  ASSIGN_OR_RETURN(ir::Schedule others, Others());
  std::printf("%s\n", ir::Print(others.func()).c_str());
  ASSIGN_OR_RETURN(const auto f, Build(others, "cpu"));
  return CheckOthers(*f);
}

}  // namespace
}  // namespace cinn_like

int main(int, char** argv) {
  google::InitGoogleLogging(argv[0]);
  const cinn_like::Status status = cinn_like::Main();
  if (!status.ok()) std::fprintf(stderr, "reductions: %s\n", cinn_like::Message(status).c_str());
  return status.ok() ? 0 : 1;
}
