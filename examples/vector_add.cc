// examples/te/vector_add.py in C++: y[i] = a[i] + b[i] of any length, where a's elements may lie apart. Split by 64 for
// a CPU, and for the blocks and threads of a GPU, whose source is there without one and which runs where OpenCL has a
// device; saved, loaded by the runtime that has no compiler, and called again. Exits with 1 if a result is wrong.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <random>
#include <vector>

#include "cinn_like/host_tensors.h"
#include "cinn_like/module_driver.h"
#include "glog/logging.h"
#include "ir/te.h"
#include "runtime/last_error.h"
#include "runtime/library.h"

namespace cinn_like {
namespace {

// The stride is an argument of calls: @add(a, b, stride, y).
StatusOr<ir::Module> Add() {
  const auto context = std::make_shared<ir::Context>();
  ir::Context& c = *context;
  const ir::Expr n = c.Var("n"), stride = c.Var("stride");
  const ir::Buffer a = c.MakeBuffer({.name = "a", .shape = {n}, .strides = {stride}});
  const ir::Buffer b = c.MakeBuffer({.name = "b", .shape = {n}});
  ir::Te te(c);
  const ir::Buffer y =
      te.Compute("y", DType::kF32, {n}, [&](ir::Indices i) { return c.Add(te.At(a, i), te.At(b, i)); });
  ir::TeProgram program;
  program.name = "add";
  program.context = context;
  program.params = {{.buffer = a}, {.buffer = b}, {.var = stride}, {.buffer = y, .role = ir::ParamRole::kResult}};
  program.symbols = {{.var = n, .lo = 1, .hi = 1 << 20}, {.var = stride, .lo = 1, .hi = 1 << 10}};
  program.stages = std::move(te.stages());
  ASSIGN_OR_RETURN(const ir::Func loops, ir::ToLoops(program));
  return ir::Module{context, {loops}};
}

constexpr char kOnCpu[] = "split l_i 64 -> outer inner\nparallel outer\nvectorize inner\n";
constexpr char kOnGpu[] = "split l_i 64 -> block thread\nbind block blockIdx.x\nbind thread threadIdx.x\n";

Status Check(const char* what, CinnFunctionPtr entry, void* self, int64_t n, int64_t stride) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> a(n * stride), b(n), y(n);
  for (float& v : a) v = normal(random);
  for (float& v : b) v = normal(random);
  DLTensor tensors[] = {{a.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, &stride, 0},
                        {b.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, nullptr, 0},
                        {y.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, nullptr, 0}};
  CinnValue args[4] = {};
  for (int i = 0; i < 3; ++i) {
    args[i < 2 ? i : 3].tag = kCinnTensor;
    args[i < 2 ? i : 3].tensor = &tensors[i];
  }
  args[2].tag = kCinnInt;
  args[2].i = stride;
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  if (entry(self, args, 4, &env) != 0) return Internal(what, ": ", LastError(), CinnLibraryError());
  for (int64_t i = 0; i < n; ++i) {
    if (y[i] != a[i * stride] + b[i]) return Internal(what, ": y[", i, "] is ", y[i]);
  }
  std::printf("%s: %ld elements, stride %ld: right\n", what, static_cast<long>(n), static_cast<long>(stride));
  return absl::OkStatus();
}

Status CheckSaved(const CompiledFunction& f) {
  const std::string path = std::filesystem::temp_directory_path() / Cat("vector_add_", getpid(), ".so");
  RETURN_IF_ERROR(f.ExportLibrary(path, {}));
  CinnLibrary* library = nullptr;
  const int32_t code = CinnLibraryOpen(path.c_str(), &library);
  std::filesystem::remove(path);
  if (code != 0) return Internal(CinnLibraryError());
  const Status status = Check("loaded", CinnLibraryLookup(library, "add"), nullptr, 130, 3);
  CinnLibraryClose(library);
  return status;
}

Status Main() {
  ASSIGN_OR_RETURN(const ir::Module add, Add());
  std::printf("%s\n", ir::Print(add).c_str());
  ASSIGN_OR_RETURN(const auto f, LowerModule(add, kOnCpu, *Target::Parse("cpu"), CompileOptions{}));
  RETURN_IF_ERROR(f->Finish());
  for (const int64_t n : {1, 64, 1000}) RETURN_IF_ERROR(Check("cpu", f->entry(), f->self(), n, n % 5 + 1));
  RETURN_IF_ERROR(CheckSaved(*f));
  for (const char* language : {"cuda", "opencl"}) {
    const Target target = *Target::Parse(language == std::string("cuda") ? "cuda -arch=sm_90a" : language);
    ASSIGN_OR_RETURN(auto gpu, LowerModule(add, kOnGpu, target, CompileOptions{}));
    ASSIGN_OR_RETURN(const std::string source, gpu->Source(language));
    std::printf("%s\n", source.c_str());
    if (const Status loaded = gpu->Finish(); !loaded.ok()) {
      std::printf("%s: not run: %s\n", language, Message(loaded).c_str());
      continue;
    }
    gpu = TakeHostTensors(std::move(gpu));
    for (const int64_t n : {1, 64, 1000}) RETURN_IF_ERROR(Check(language, gpu->entry(), gpu->self(), n, 2));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cinn_like

int main(int, char** argv) {
  google::InitGoogleLogging(argv[0]);
  const cinn_like::Status status = cinn_like::Main();
  if (!status.ok()) std::fprintf(stderr, "vector_add: %s\n", cinn_like::Message(status).c_str());
  return status.ok() ? 0 : 1;
}
