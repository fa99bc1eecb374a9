// A device that comes from outside: a "dpu" that no other file knows. Its memory is out of the host's reach, its
// kernels are C text in a dialect of its own, compiled by the system's compiler, and a launch runs the threads of a
// grid in turn. Graphs compile for it and run on it as on the devices of this project.
#include "backends/device.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_replace.h"
#include "backends/c_emitter.h"
#include "backends/compiler.h"
#include "cinn_like/driver.h"
#include "cinn_like/host_tensors.h"
#include "runtime/last_error.h"
#include "runtime/prepared_state.h"

namespace cinn_like {
namespace {
namespace fs = std::filesystem;

// ---- base: what targets, passes and cost models know of it ----
// No shared memory, no barriers, no shuffles, small blocks: what is written for GPUs does not fit.
const DeviceKind& DpuKind() {
  static const auto* kind = [] {
    auto* k = new DeviceKind;
    k->name = "dpu";
    k->type = kDLExtDev;
    k->has_kernels = true;
    k->limits = {.grid = {1 << 20, 1, 1}, .block = {64, 1, 1}, .threads = 64, .warp = 1, .shared_bytes = 0};
    k->rows = {{"native", {4, 16, 1 << 15, 1 << 20, 20, 0, 32, 1}}, {"dpu2", {16, 16, 1 << 15, 1 << 20, 40, 0, 32, 1}}};
    k->options = {"arch", "cores", "bandwidth"};
    return k;
  }();
  return *kind;
}

// ---- runtime: memory, images and launches ----
// Addresses of its memory have a bit that no address of the host has: whoever follows one on the host faults.
constexpr uintptr_t kMark = uintptr_t{1} << 52;
bool IsDpu(const void* p) { return (reinterpret_cast<uintptr_t>(p) & kMark) != 0; }
char* Unmarked(const void* p) { return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(p) & ~kMark); }

using Entry = void (*)(void** params, const int64_t* grid, const int64_t* block);

class DpuModule : public DeviceModule {
 public:
  static StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view image) {
    std::string folder = fs::temp_directory_path() / "dpu_XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return Internal("no folder");
    std::ofstream(folder + "/image.so", std::ios::binary) << image;
    void* handle = dlopen((folder + "/image.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    fs::remove_all(folder);
    if (handle == nullptr) return InvalidArgument("no dpu image: ", dlerror());
    return std::unique_ptr<DeviceModule>(new DpuModule(handle));
  }
  ~DpuModule() override { dlclose(handle_); }
  StatusOr<void*> Kernel(const std::string& name) override {
    void* kernel = dlsym(handle_, name.c_str());
    if (kernel == nullptr) return absl::NotFoundError(Cat("no dpu kernel '", name, "'"));
    return kernel;
  }

 private:
  explicit DpuModule(void* handle) : handle_(handle) {}
  void* handle_;
};

class Dpu : public DeviceApi {
 public:
  StatusOr<int> Count() override { return 2; }
  StatusOr<Target> Detect(int) override {
    const DeviceKind* kinds[] = {&DpuKind()};
    return Target::Parse("dpu -arch=dpu2 -cores=3", kinds);
  }
  StatusOr<void*> Alloc(int device, int64_t bytes, void*) override {
    void* p =
        device < 2 && bytes < 1 << 30 ? std::aligned_alloc(256, (static_cast<size_t>(bytes) / 256 + 1) * 256) : nullptr;
    if (p == nullptr) return absl::ResourceExhaustedError(Cat("dpu: no ", bytes, " bytes"));
    ++live;
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) | kMark);
  }
  void Free(int, void* data) override {
    EXPECT_TRUE(IsDpu(data));
    std::free(Unmarked(data));
    --live;
  }
  StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void* stream) override {
    ++workspaces;
    return Alloc(device, bytes, stream);
  }
  void FreeWorkspace(int device, void* data, void*) override { Free(device, data); }
  Status Copy(int, void* to, const void* from, int64_t bytes, void*) override {
    ++copies;
    memmove(Unmarked(to), Unmarked(from), static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view image) override { return DpuModule::Load(image); }
  Status Launch(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env) override {
    EXPECT_EQ(env.device.device_type, kDLExtDev);
    EXPECT_LE(shape.block[0] * shape.block[1] * shape.block[2], 64);
    EXPECT_EQ(shape.shared_bytes, 0);
    ++launches;
    reinterpret_cast<Entry>(kernel)(params, shape.grid.data(), shape.block.data());
    return absl::OkStatus();
  }
  int live = 0, workspaces = 0, copies = 0, launches = 0;
};

Dpu& TheDpu() {
  static auto* dpu = new Dpu;
  return *dpu;
}
constexpr RuntimeDevice kDpuRuntime = {kDLExtDev, kDLExtDev, []() -> StatusOr<DeviceApi*> { return &TheDpu(); }};

// ---- backends: its language and the compiler of its kernels ----
const backends::Dialect& DpuDialect() {
  static const auto* dialect = [] {
    auto* d = new backends::Dialect(backends::CDialect());
    d->name = "dpu";
    static const std::string header = Cat(d->header, "static _Thread_local long long dpu_block[3], dpu_thread[3];\n");
    d->header = header;
    d->kernel = "static void";
    d->axes = {"dpu_block[0]", "dpu_block[1]", "dpu_block[2]", "dpu_thread[0]", "dpu_thread[1]", "dpu_thread[2]"};
    d->parallel = "";
    d->assertion = "abort();";
    d->spellings.push_back({ir::ExprOp::kExp, backends::SetOf(DType::kF32), "cinn_dpu_exp($0)", backends::kAtom});
    d->helpers.push_back({"cinn_dpu_exp", 0, "$F float cinn_dpu_exp(float a) { return expf(a); }\n"});
    return d;
  }();
  return *dialect;
}

class DpuCompiler : public DeviceCompiler {
 public:
  StatusOr<std::string> EmitSource(const ir::Module& module) override {
    return backends::EmitModule(module, DpuDialect());
  }

  StatusOr<KernelImages> Compile(const ir::Module& module, std::string_view given) override {
    std::string source(given);
    if (given.empty()) {
      ASSIGN_OR_RETURN(source, EmitSource(module));
    }
    KernelImages r;
    for (const ir::Func& f : module.funcs) {
      if (f.kind != ir::FuncKind::kKernel) continue;
      // run_<kernel> is what a launch calls: every thread of every block.
      std::string args;
      for (size_t i = 0; i < f.params.size(); ++i) {
        const ir::Param& p = f.params[i];
        const DType t = p.buffer != nullptr ? p.buffer->dtype : p.var->type.dtype;
        const std::string at = Cat("p[", i, "]");
        args += Cat(i == 0 ? "" : ", ", p.buffer == nullptr
                                            ? Cat("*(", DpuDialect().value_types[static_cast<size_t>(t)], "*)", at)
                                            : Cat("(void*)(*(uintptr_t*)", at, " & ~((uintptr_t)1 << 52))"));
      }
      source += Cat("\nvoid run_", f.name, "(void** p, const int64_t* grid, const int64_t* block) {\n");
      for (const char* axes : {"block[2] grid[2]", "block[1] grid[1]", "block[0] grid[0]", "thread[2] block[2]",
                               "thread[1] block[1]", "thread[0] block[0]"}) {
        const std::string text = axes, i = "dpu_" + text.substr(0, text.find(' '));
        source += Cat("  for (", i, " = 0; ", i, " < ", text.substr(text.find(' ') + 1), "; ++", i, ")\n");
      }
      source += Cat("    ", f.name, "(", args, ");\n}\n");
      r.kernels.push_back({f.name, 0, "run_" + f.name});
    }
    if (r.kernels.empty()) return r;
    std::string folder = fs::temp_directory_path() / "dpu_XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return Internal("no folder");
    std::ofstream(folder + "/k.c") << source;
    const int code = system(Cat("cc -std=c11 -w -O1 -fPIC -shared -o ", folder, "/k.so ", folder, "/k.c -lm").c_str());
    std::ifstream file(folder + "/k.so", std::ios::binary);
    r.images.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    fs::remove_all(folder);
    if (code != 0) return InvalidArgument("the dpu's compiler fails for\n", source);
    return r;
  }

  std::vector<std::string> Forms() const override { return {"dpu"}; }
};

const Devices& WithDpu() {
  static const auto* devices = [] {
    auto* d = new Devices(Devices::BuiltIn());
    const Status added = d->Add({&DpuKind(), &kDpuRuntime, [](const Target&, const CompileOptions&, ObjectCache*) {
                                   return std::make_unique<DpuCompiler>();
                                 }});
    EXPECT_TRUE(added.ok()) << added;
    return d;
  }();
  return *devices;
}

// ---- graphs ----
constexpr char kGraph[] = R"(graph @g(%x: f32[n,40], %w: f32[40] static) where n in 1..300 {
  %0 = exp(%w) : f32[40]
  %1 = mul(%x, %0) : f32[n,40]
  %2 = softmax(%1) {axis=1} : f32[n,40]
  %3 = relu(%1) : f32[n,40]
  %4 = reduce_sum(%3) {axes=[0]} : f32[40]
  return %2, %4
}
)";

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

// A tensor on the host or a dpu.
struct Tensor {
  Tensor(DLDevice device, std::vector<int64_t> dims, const std::vector<float>& values, int64_t offset = 0)
      : shape(std::move(dims)), host(values) {
    t = {host.data(), device, static_cast<int>(shape.size()), {kDLFloat, 32, 1}, shape.data(), nullptr, 0};
    if (device.device_type != kDLExtDev) return;
    const auto bytes = static_cast<int64_t>(host.size() * 4);
    memory = *TheDpu().Alloc(device.device_id, bytes + offset, nullptr);
    t.data = static_cast<char*>(memory) + offset;
    EXPECT_TRUE(TheDpu().Copy(device.device_id, t.data, host.data(), bytes, nullptr).ok());
  }
  ~Tensor() {
    if (memory != nullptr) TheDpu().Free(0, memory);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  const std::vector<float>& Read() {
    if (memory != nullptr) memcpy(host.data(), Unmarked(t.data), host.size() * 4);
    return host;
  }
  CinnValue Value() { return {kCinnTensor, 0, {.tensor = &t}}; }
  std::vector<int64_t> shape;
  std::vector<float> host;
  void* memory = nullptr;
  DLTensor t;
};

std::vector<float> Random(size_t count) {
  static std::mt19937 random(3);
  std::vector<float> r(count);
  for (float& v : r) v = std::normal_distribution<float>()(random);
  return r;
}

struct Results {
  std::vector<float> softmax, sums;
};

// No callbacks: workspaces and what is prepared are the device's own.
Results CallGraph(CompiledFunction& f, DLDevice device, int64_t n, const std::vector<float>& x,
                  const std::vector<float>& w, int64_t offset = 0) {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = device;
  Tensor tx(device, {n, 40}, x, offset), tw(device, {40}, w);
  Tensor softmax(device, {n, 40}, std::vector<float>(x.size())), sums(device, {40}, std::vector<float>(40));
  const CinnValue weights[] = {tw.Value()};
  const Status prepared = f.Prepare(weights, env);
  EXPECT_TRUE(prepared.ok()) << prepared;
  const CinnValue args[] = {tx.Value(), CinnValue{}, softmax.Value(), sums.Value()};
  EXPECT_EQ(f.entry()(f.self(), args, 4, &env), 0) << LastError();
  return {softmax.Read(), sums.Read()};
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5 * (1 + std::fabs(expected[i]))) << i;
}

TEST(OutsideDevice, CompilesAndRunsGraphs) {
  const StatusOr<Target> target = WithDpu().ParseTarget("dpu -arch=dpu2");
  ASSERT_TRUE(target.ok()) << target.status();
  const StatusOr<hlir::Graph> graph = hlir::Parse(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status();
  {
    const auto on_dpu = CompileGraph(*graph, *target, Options(), WithDpu());
    ASSERT_TRUE(on_dpu.ok()) << on_dpu.status();
    const auto on_cpu = CompileGraph(*graph, *Target::Parse("cpu"), Options());
    ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
    EXPECT_TRUE((*on_dpu)->report().refused.empty()) << (*on_dpu)->report().refused[0];
    const Dpu before = TheDpu();
    for (const int64_t n : {1, 7, 300}) {
      const std::vector<float> x = Random(static_cast<size_t>(n) * 40), w = Random(40);
      const Results expected = CallGraph(**on_cpu, {kDLCPU, 0}, n, x, w);
      for (const int id : {0, 1}) {
        // The last is aligned worse than wide accesses would need.
        for (const int64_t offset : {0, 4}) {
          const Results got = CallGraph(**on_dpu, {kDLExtDev, id}, n, x, w, offset);
          ExpectNear(got.softmax, expected.softmax);
          ExpectNear(got.sums, expected.sums);
        }
      }
    }
    EXPECT_GT(TheDpu().launches, before.launches);
    EXPECT_GT(TheDpu().workspaces, before.workspaces);
    EXPECT_GT(TheDpu().live, before.live);  // what is prepared
  }
  EXPECT_EQ(TheDpu().live, 0);
}

TEST(OutsideDevice, TakesHostTensors) {
  const hlir::Graph graph = *hlir::Parse(kGraph);
  const DLDevice host{kDLCPU, 0};
  {
    auto made = CompileGraph(graph, *WithDpu().ParseTarget("dpu -arch=dpu2"), Options(), WithDpu());
    ASSERT_TRUE(made.ok()) << made.status();
    const std::unique_ptr<CompiledFunction> on_dpu = TakeHostTensors(*std::move(made), 1);
    const auto on_cpu = CompileGraph(graph, *Target::Parse("cpu"), Options());
    ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
    for (const int64_t n : {1, 7, 300}) {
      const std::vector<float> x = Random(static_cast<size_t>(n) * 40), w = Random(40);
      const Results expected = CallGraph(**on_cpu, host, n, x, w);
      const int before = TheDpu().live;
      const Results got = CallGraph(*on_dpu, host, n, x, w);
      ExpectNear(got.softmax, expected.softmax);
      ExpectNear(got.sums, expected.sums);
      // What it was prepared with and what that gave; nothing of the call.
      EXPECT_EQ(TheDpu().live, n == 1 ? before + 2 : before);
    }

    // Results of the caller's allocator; what is static is read where it was prepared, for each `self` its own.
    std::vector<float> x = Random(80), w = Random(40);
    const Results expected = CallGraph(**on_cpu, host, 2, x, w);
    Tensor tx(host, {2, 40}, x), tw(host, {40}, w), other(host, {40}, Random(40));
    const CinnValue weights[] = {tw.Value()}, others[] = {other.Value()};
    struct Allocator {
      std::vector<float> of[2];
    } memory;
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = host;
    env.context = &memory;
    env.alloc = [](void* context, int32_t index, DLTensor* spec) {
      EXPECT_EQ(spec->device.device_type, kDLCPU);
      std::vector<float>& values = static_cast<Allocator*>(context)->of[index];
      values.resize(spec->ndim == 2 ? 80 : 40);
      spec->data = values.data();
      return 0;
    };
    void* added = on_dpu->AddSelf();
    ASSERT_TRUE(on_dpu->PrepareSelf(on_dpu->self(), weights, env).ok());
    ASSERT_TRUE(on_dpu->PrepareSelf(added, others, env).ok());
    std::fill(tw.host.begin(), tw.host.end(), 0.0f);
    CinnValue args[] = {tx.Value(), tw.Value(), CinnValue{}, CinnValue{}};
    ASSERT_EQ(on_dpu->entry()(on_dpu->self(), args, 4, &env), 0) << LastError();
    ExpectNear(memory.of[0], expected.softmax);
    ExpectNear(memory.of[1], expected.sums);
    ASSERT_EQ(on_dpu->entry()(added, args, 4, &env), 0) << LastError();
    ExpectNear(memory.of[1], CallGraph(**on_cpu, host, 2, x, other.host).sums);

    const auto error = [&](int32_t count, const CinnCallEnv* with) {
      EXPECT_LT(on_dpu->entry()(on_dpu->self(), args, count, with), 0);
      return std::string(LastError());
    };
    EXPECT_EQ(error(3, &env), "g: expected 4 arguments (x, w, div, reduce_sum_1), got 3");
    EXPECT_EQ(error(4, nullptr), "g: the call's environment is null or older than this library");
    CinnCallEnv bad = env;
    bad.device = {kDLExtDev, 1};
    EXPECT_EQ(error(4, &bad), "@g: expected tensors of the host, called on dlpack_device_12:1");
    bad = env;
    bad.alloc = [](void*, int32_t, DLTensor*) { return -7; };
    EXPECT_EQ(error(4, &bad), "g: result 'div': the caller's allocator failed with -7 for f32[n,40]");
    Tensor there({kDLExtDev, 1}, {2, 40}, x), large(host, {301, 40}, Random(301 * 40));
    args[0] = there.Value();
    EXPECT_EQ(error(4, &env), "@g: argument 0: expected a tensor of the host, got f32[2,40] on dlpack_device_12:1");
    args[0] = large.Value();
    EXPECT_EQ(error(4, &env), "g: argument 'x': dimension 0: n = 301 is outside 1..300");
    args[0] = {kCinnInt, 0, {.i = 3}};
    EXPECT_EQ(error(4, &env), "g: argument 'x': expected a tensor f32[n,40], got an integer");
    EXPECT_EQ(Message(on_dpu->PrepareSelf(added, {}, env)), "@g: expected 1 static arguments, got 0");
  }
  EXPECT_EQ(TheDpu().live, 0);
}

TEST(OutsideDevice, ItsTextsAreThere) {
  const hlir::Graph graph = *hlir::Parse(kGraph);
  const Target target = *WithDpu().ParseTarget("dpu -arch=dpu2");
  const auto emit = [&](std::string_view kind) { return EmitGraph(graph, target, Options(), kind, WithDpu()); };
  const StatusOr<std::string> source = emit("dpu"), loops = emit("loops"), llvm = emit("llvm");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_NE(source->find("static void g_k0_kernel("), source->npos) << *source;
  EXPECT_NE(source->find("static inline float cinn_dpu_exp(float a)"), source->npos) << *source;
  EXPECT_NE(loops->find("func @g entry dpu ("), loops->npos) << *loops;
  EXPECT_NE(llvm->find("@cinn_device_dpu = external"), llvm->npos) << *llvm;
  EXPECT_NE(llvm->find("@cinn_launch("), llvm->npos) << *llvm;
  EXPECT_EQ(llvm->find("cuda"), llvm->npos) << *llvm;
  const std::string error = Message(emit("ptx").status());
  EXPECT_TRUE(error.starts_with("no source of kind 'ptx'; there are graph, ")) << error;
  EXPECT_TRUE(error.ends_with(", asm, object, dpu, kernels")) << error;
}

TEST(OutsideDevice, CompilesLoopsAndGivenSource) {
  constexpr char kLoops[] = R"(func @f entry (x: f32[n], y: f32[n] out) where n in 1..1000 {
  call @double(&x[0], &y[0], n)
}
func @double(x: f32[n], y: f32[n], n: i64) where n in 1..1000 {
  for b in 0..(n + 63) / 64 @blockIdx.x {
    for t in 0..64 @threadIdx.x {
      if b * 64 + t < n {
        y[b * 64 + t] = x[b * 64 + t] * 2.0
      }
    }
  }
}
)";
  const ir::Module module = *ir::ParseModule(kLoops);
  for (const float factor : {2.0f, 3.0f}) {
    const auto compiler = Compiler::Create(*WithDpu().ParseTarget("dpu"), {}, nullptr, WithDpu());
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    std::string source = *(*compiler)->GetSourceCode(module);
    if (factor == 3) source.replace(source.find("2.0"), 3, "3.0");
    const Status built = (*compiler)->Build(module, factor == 3 ? source : "");
    ASSERT_TRUE(built.ok()) << built;
    const DLDevice device{kDLExtDev, 0};
    const std::vector<float> values = Random(77);
    Tensor x(device, {77}, values), y(device, {77}, std::vector<float>(77));
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = device;
    const CinnValue args[] = {x.Value(), y.Value()};
    ASSERT_EQ(reinterpret_cast<CinnFunctionPtr>((*compiler)->Lookup("f"))(nullptr, args, 2, &env), 0) << LastError();
    for (size_t i = 0; i < 77; ++i) ASSERT_EQ(y.Read()[i], values[i] * factor);
    env.device = {kDLCPU, 0};
    EXPECT_LT(reinterpret_cast<CinnFunctionPtr>((*compiler)->Lookup("f"))(nullptr, args, 2, &env), 0);
    EXPECT_STREQ(LastError(), "f: compiled for dlpack_device_12:0 devices, called on cpu");
  }
  // Hooks are around any device's compiler.
  Devices hooked = WithDpu();
  const auto rewrite = [](std::string_view language, std::string_view source) -> StatusOr<std::string> {
    return absl::StrReplaceAll(std::string(source), {{"2.0", Cat(language.size(), ".0")}});
  };
  ASSERT_TRUE(hooked.SetHooks("dpu", {"", rewrite, nullptr}).ok());
  const auto rewriting = Compiler::Create(*hooked.ParseTarget("dpu"), {}, nullptr, hooked);
  EXPECT_NE((*rewriting)->GetSourceCode(module)->find("* 3.0"), std::string::npos);
  EXPECT_TRUE((*rewriting)->Build(module).ok());
  // Its limits hold for whoever writes loops for it.
  std::string wide = kLoops;
  absl::StrReplaceAll({{"..64", "..65"}, {" 64", " 65"}, {" 63", " 64"}}, &wide);
  const auto compiler = Compiler::Create(*WithDpu().ParseTarget("dpu"), {}, nullptr, WithDpu());
  EXPECT_EQ(Message((*compiler)->Build(*ir::ParseModule(wide))),
            "function double: the extent of threadIdx.x is at most 64, got 65");
}

TEST(OutsideDevice, NativeIsWhatIsThere) {
  const StatusOr<Target> native = WithDpu().ParseTarget("dpu");
  EXPECT_EQ(native->Print(), "dpu -arch=native");
  EXPECT_EQ(ResolveTarget(*native, kDpuRuntime)->Print(), "dpu -arch=dpu2 -cores=3");
}

// A device without kernels needs no compiler: its functions are host functions, made for one of its rows, on tensors
// that it calls its own.
TEST(OutsideDevice, WithoutKernelsIsHostCode) {
  DeviceKind kind;
  kind.name = "board";
  kind.type = kDLVPI;
  kind.rows = {{"x86-64-v2", {2, 16, 1 << 15, 1 << 18, 10, 0, 16, 1}}};
  kind.options = {"mcpu", "cores"};
  const RuntimeDevice runtime = {kDLVPI, kDLVPI, GetHostDevice};
  Devices devices = WithDpu();
  ASSERT_TRUE(devices.Add({&kind, &runtime}).ok());
  const hlir::Graph graph = *hlir::Parse(kGraph);
  const StatusOr<Target> target = devices.ParseTarget("board -cores=1");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->Print(), "board -mcpu=x86-64-v2 -cores=1");
  const auto on_board = CompileGraph(graph, *target, Options(), devices);
  ASSERT_TRUE(on_board.ok()) << on_board.status();
  const auto on_cpu = CompileGraph(graph, *Target::Parse("cpu"), Options(), devices);
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
  EXPECT_NE((*on_board)->Source("loops")->find("func @g entry board ("), std::string::npos);
  const std::vector<float> x = Random(30 * 40), w = Random(40);
  const Results got = CallGraph(**on_board, {kDLVPI, 0}, 30, x, w);
  const Results expected = CallGraph(**on_cpu, {kDLCPU, 0}, 30, x, w);
  ExpectNear(got.softmax, expected.softmax);
  ExpectNear(got.sums, expected.sums);
}

// What is registered here is registered nowhere else.
TEST(OutsideDevice, WhereItIsNotRegisteredItIsAnError) {
  EXPECT_EQ(Message(Devices::BuiltIn().ParseTarget("dpu").status()),
            "target: unknown kind 'dpu'; known: cpu, x86_64, cuda, opencl, hip, metal, c");
  EXPECT_EQ(Message(WithDpu().ParseTarget("npu").status()),
            "target: unknown kind 'npu'; known: cpu, x86_64, cuda, opencl, hip, metal, c, dpu");
  const Target target = *WithDpu().ParseTarget("dpu -arch=dpu2");
  constexpr char kError[] =
      "target 'dpu -arch=dpu2': no device 'dpu' is registered; registered: x86_64, cuda, opencl, hip, metal, c";
  const hlir::Graph graph = *hlir::Parse(kGraph);
  EXPECT_EQ(Message(CompileGraph(graph, target, Options()).status()), kError);
  EXPECT_EQ(Message(EmitGraph(graph, target, Options(), "loops").status()), kError);
  EXPECT_EQ(Message(Compiler::Create(target).status()), kError);
  EXPECT_EQ(Message(WithDpu().Find("npu").status()),
            "no device 'npu' is registered; registered: x86_64, cuda, opencl, hip, metal, c, dpu");
}

TEST(Devices, OfThisProject) {
  for (const DeviceKind* kind : BuiltInKinds()) EXPECT_EQ(Devices::BuiltIn().Find(kind->name)->kind, kind);
  EXPECT_EQ(Devices::BuiltIn().ParseTarget("cpu")->device, &HostKind());
}

TEST(Devices, WhatIsWrongWithARegistration) {
  const auto error = [](const DeviceKind& kind, const RuntimeDevice* runtime, bool compiles) {
    Devices devices = Devices::BuiltIn();
    Device d{&kind, runtime};
    if (compiles) d.make_compiler = [](const auto&...) { return std::make_unique<DpuCompiler>(); };
    return Message(devices.Add(d));
  };
  DeviceKind kind = DpuKind();
  EXPECT_EQ(error(kind, nullptr, true), "device 'dpu': it has no runtime");
  EXPECT_EQ(error(kind, &kDpuRuntime, false), "device 'dpu': it has kernels and no compiler");
  EXPECT_EQ(error(kind, &cinn_device_cuda, true),
            "device 'dpu': its tensors are of DLPack type 12, for the runtime of 2");
  kind.alias = "cpu";
  EXPECT_EQ(error(kind, &kDpuRuntime, true), "device 'dpu': there is a device 'cpu'");
  kind.alias = "";
  kind.type = kDLCUDA;
  EXPECT_EQ(error(kind, &cinn_device_cuda, true), "device 'dpu': DLPack type 2 is that of device 'cuda'");
  kind.name = "a dpu";
  EXPECT_EQ(error(kind, &cinn_device_cuda, true), "device: expected an identifier for a name, got 'a dpu'");
  kind = DpuKind();
  kind.limits.warp = 12;
  EXPECT_EQ(error(kind, &kDpuRuntime, true), "device 'dpu': expected a power of 2 for the width of a warp, got 12");
  kind.rows.clear();
  EXPECT_EQ(error(kind, &kDpuRuntime, true), "device 'dpu': it has no rows");
}

}  // namespace
}  // namespace cinn_like
