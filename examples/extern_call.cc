// A stage that a function of the program computes: rows are scaled by generated code, sorted by std::sort, and summed
// with weights by generated code again. Exits with 1 if that is wrong.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "cinn_like/module_driver.h"
#include "ir/te.h"
#include "runtime/function_registry.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

Status SortRows(std::span<const CinnValue> args, CinnValue&) {
  if (args.size() != 2 || args[0].tag != kCinnTensor || args[1].tag != kCinnTensor)
    return InvalidArgument("expected two tensors");
  const DLTensor &from = *args[0].tensor, &to = *args[1].tensor;
  for (int64_t i = 0; i < from.shape[0]; ++i) {
    const auto* row = static_cast<const float*>(from.data) + i * from.strides[0];
    auto* sorted = static_cast<float*>(to.data) + i * to.strides[0];
    std::copy_n(row, from.shape[1], sorted);
    std::sort(sorted, sorted + from.shape[1]);
  }
  return absl::OkStatus();
}

// y[i] = sum over k of k * (the kth smallest of 2 * x[i]), for x: f32[n, m].
StatusOr<ir::Func> RankedSums() {
  const auto context = std::make_shared<ir::Context>();
  ir::Context& c = *context;
  const ir::Expr n = c.Var("n"), m = c.Var("m");
  const ir::Buffer x = c.MakeBuffer({.name = "x", .shape = {n, m}});
  ir::Te te(c);
  const ir::Buffer twice = te.Compute("twice", DType::kF32, {n, m},
                                      [&](ir::Indices i) { return c.Mul(te.At(x, {i[0], i[1]}), c.Float(2)); });
  const ir::Buffer sorted = te.Extern("sorted", {DType::kF32}, {{n, m}}, {twice}, "sort_rows")[0];
  const ir::Buffer y = te.Reduce("y", ir::Combiner::kSum, DType::kF32, {n}, {m}, [&](ir::Indices i, ir::Indices k) {
    return c.Mul(te.At(sorted, {i[0], k[0]}), c.Cast(DType::kF32, k[0]));
  });
  ir::TeProgram program;
  program.name = "ranked_sums";
  program.context = context;
  program.params = {{.buffer = x}, {.buffer = y, .role = ir::ParamRole::kResult}};
  program.symbols = {{.var = n, .hi = 4096}, {.var = m, .hi = 4096}};
  program.stages = std::move(te.stages());
  return ir::ToLoops(program);
}

Status Main() {
  RETURN_IF_ERROR(RegisterFunction("sort_rows", &SortRows));
  ASSIGN_OR_RETURN(const ir::Func loops, RankedSums());
  std::printf("%s\n", ir::Print(loops).c_str());
  ASSIGN_OR_RETURN(const auto f,
                   LowerModule({loops.context, {loops}}, "parallel l_i", *Target::Parse("cpu"), CompileOptions{}));
  RETURN_IF_ERROR(f->Finish());
  int64_t shape[] = {3, 4};
  std::vector<float> x = {3, 1, 2, 0, 0, 0, 0, 1, -1, 5, 4, 2}, y(3);
  DLTensor tensors[] = {{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0},
                        {y.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0}};
  CinnValue args[] = {{kCinnTensor, 0, {.tensor = &tensors[0]}}, {kCinnTensor, 0, {.tensor = &tensors[1]}}};
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  if (const int32_t code = f->entry()(f->self(), args, 2, &env); code != 0) return LastErrorStatus(code);
  std::printf("%g %g %g\n", y[0], y[1], y[2]);
  return y == std::vector<float>{28, 6, 50} ? absl::OkStatus() : Internal("expected 28 6 50");
}

}  // namespace
}  // namespace cinn_like

int main() {
  const cinn_like::Status status = cinn_like::Main();
  if (!status.ok()) std::fprintf(stderr, "extern_call: %s\n", cinn_like::Message(status).c_str());
  return status.ok() ? 0 : 1;
}
