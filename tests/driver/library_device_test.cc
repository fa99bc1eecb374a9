// Exported libraries with functions for other devices than the host, for several, and of several functions: the same
// results as the JIT's, bit for bit, through the C runtime alone.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "cinn_like/base/host_cpu.h"
#include "cinn_like/driver.h"
#include "cinn_like/host_tensors.h"
#include "cinn_like/module_driver.h"
#include "cinn_like/partition.h"
#include "examples/dpu/dpu.h"
#include "ir/host_array.h"
#include "runtime/library.h"
#include "runtime/library_format.h"
#include "tests/golden_file.h"

namespace cinn_like {
namespace {
namespace fs = std::filesystem;

using absl::StrContains;

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

hlir::Graph GraphOf(const std::string& text) {
  const StatusOr<hlir::Graph> g = hlir::Parse(text);
  EXPECT_TRUE(g.ok()) << g.status();
  return *g;
}
hlir::Graph Mlp() { return GraphOf(ReadFile("examples/mlp.graph")); }

constexpr char kDouble[] = R"(graph @twice(%x: f32[n]) where n in 1..5000 {
  %0 = add(%x, %x) : f32[n]
  return %0
}
)";

CinnCallEnv Env(DLDevice device = {kDLCPU, 0}) {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = device;
  return env;
}

// Random tensors of the host, or memory of a device.
struct Tensors {
  explicit Tensors(const std::vector<std::vector<int64_t>>& shapes, unsigned seed = 1) {
    std::mt19937 rng(seed);
    std::uniform_real_distribution<double> random(-1, 1);
    for (const auto& shape : shapes) arrays.emplace_back(DType::kF32, shape);
    for (ir::HostArray& a : arrays) {
      for (int64_t i = 0; i < a.NumElements(); ++i) a.Set(i, random(rng));
      views.push_back({a.bytes.data(),
                       {kDLCPU, 0},
                       static_cast<int32_t>(a.shape.size()),
                       {kDLFloat, 32, 1},
                       a.shape.data(),
                       nullptr,
                       0});
    }
    for (DLTensor& t : views) {
      CinnValue& v = args.emplace_back();
      v = {};
      v.tag = kCinnTensor;
      v.tensor = &t;
    }
  }
  Tensors(const Tensors&) = delete;
  int count() const { return static_cast<int>(args.size()); }
  CinnValue* begin() { return args.data(); }

  std::vector<ir::HostArray> arrays;
  std::vector<DLTensor> views;
  std::vector<CinnValue> args;
};
std::vector<std::vector<int64_t>> MlpShapes(int64_t n) { return {{n, 64}, {64, 128}, {128}, {128}, {n, 128}}; }

struct Library {
  explicit Library(const std::string& path) { code = CinnLibraryOpen(path.c_str(), &lib); }
  ~Library() {
    CinnLibraryRelease(self);
    CinnLibraryClose(lib);
  }
  Library(const Library&) = delete;
  // Its only function, ready.
  CinnFunctionPtr Prepare(const char* name, std::span<const CinnValue> weights, const CinnCallEnv& env = Env()) {
    EXPECT_EQ(code, 0) << CinnLibraryError();
    CinnLibraryRelease(self);
    if (CinnLibraryPrepare(lib, name, weights.data(), static_cast<int32_t>(weights.size()), &env, &self) != 0)
      return nullptr;
    return CinnLibraryLookup(lib, name);
  }

  int32_t code = 0;
  CinnLibrary* lib = nullptr;
  void* self = nullptr;
};

class LibraryDevice : public testing::TestWithParam<const char*> {
 protected:
  LibraryDevice() : path_(fs::temp_directory_path() / "library_test_XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~LibraryDevice() override { fs::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, std::string_view bytes) const { std::ofstream(File(name)) << bytes; }

  // The device that the test is for, where there is one.
  void SetUp() override {
    device_ = *Devices().Find(GetParam());
    const auto api = device_.runtime->api();
    if (!api.ok()) GTEST_SKIP() << api.status();
    const auto target = ResolveTarget(*Devices().ParseTarget(GetParam()), *device_.runtime);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *target;
  }
  static const cinn_like::Devices& Devices() { return dpu::Devices(); }
  std::unique_ptr<CompiledFunction> Jit(const hlir::Graph& graph) {
    auto jit = CompileGraph(graph, target_, Options(), Devices());
    EXPECT_TRUE(jit.ok()) << jit.status();
    return TakeHostTensors(*std::move(jit));
  }

  std::string path_;
  Device device_;
  Target target_;
};

TEST_P(LibraryDevice, IsTheJitBitForBit) {
  const std::string own = File("own.so"), other = File("other.so");
  const auto jit = Jit(Mlp());
  ASSERT_TRUE(jit->ExportLibrary(own, {}).ok());
  ASSERT_TRUE(ExportLibrary(Mlp(), target_, Options(), other, Devices()).ok());
  EXPECT_EQ(ReadFile(own), ReadFile(other));
  Tensors weights(MlpShapes(1));
  const CinnCallEnv env = Env();
  ASSERT_TRUE(jit->Prepare({&weights.args[1], 3}, env).ok());
  Library library(own);
  const CinnFunctionPtr mlp = library.Prepare("mlp", {&weights.args[1], 3});
  ASSERT_NE(mlp, nullptr) << CinnLibraryError();
  EXPECT_TRUE(StrContains(CinnLibraryDescription(library.lib), Cat("\n  target ", target_.Print(), "\n  cpu \n")))
      << CinnLibraryDescription(library.lib);
  DLDeviceType type{};
  EXPECT_EQ(CinnLibraryDevice(library.lib, "mlp", &type), 0);
  EXPECT_EQ(type, device_.runtime->type);
  for (const int64_t n : {1, 7, 64, 1000}) {
    Tensors a(MlpShapes(n)), b(MlpShapes(n));
    for (int i = 1; i < 4; ++i) a.args[i] = b.args[i] = weights.args[i];
    std::fill(b.arrays[4].bytes.begin(), b.arrays[4].bytes.end(), 0xff);
    EXPECT_EQ(jit->entry()(jit->self(), a.begin(), a.count(), &env), 0);
    EXPECT_EQ(mlp(library.self, b.begin(), b.count(), &env), 0) << CinnLibraryError();
    EXPECT_EQ(a.arrays[4].bytes, b.arrays[4].bytes) << n;
  }

  Tensors t(MlpShapes(3));
  EXPECT_LT(mlp(nullptr, t.begin(), t.count(), &env), 0);
  EXPECT_STREQ(CinnLibraryError(), "the function is not prepared");
  EXPECT_LT(mlp(library.self, t.begin(), 4, &env), 0);
  EXPECT_STREQ(CinnLibraryError(), "mlp: expected 5 arguments (x, w, g, b, div), got 4");
  EXPECT_EQ(library.Prepare("mlp", {&t.args[1], 2}), nullptr);
  EXPECT_STREQ(CinnLibraryError(), "mlp: expected 3 static arguments, got 2");
}

// What lies on the device already, on a stream of the caller's.
TEST_P(LibraryDevice, TensorsOfTheDevice) {
  const std::string path = File("mlp.so");
  ASSERT_TRUE(ExportLibrary(Mlp(), target_, Options(), path, Devices()).ok());
  Library library(path);
  // The runtime's own: memory of ours may be nothing to it.
  Dl_info runtime;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&CinnLibraryOpen), &runtime), 0);
  void* handle = dlopen(runtime.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  const void* own = dlsym(handle, Cat("cinn_device_", device_.kind->name).c_str());
  const RuntimeDevice* device = own != nullptr ? static_cast<const RuntimeDevice*>(own) : device_.runtime;
  DeviceApi* api = *device->api();
  void* stream = *api->CreateStream(0);
  Tensors host(MlpShapes(33)), there(MlpShapes(33));
  for (size_t i = 0; i < there.views.size(); ++i) {
    DLTensor& t = there.views[i];
    const auto bytes = static_cast<int64_t>(host.arrays[i].bytes.size());
    t.device = {device->type, 0};
    const auto memory = api->Alloc(0, bytes, stream);
    ASSERT_TRUE(memory.ok()) << memory.status();
    t.data = *memory;
    ASSERT_TRUE(api->Copy(0, t.data, host.views[i].data, bytes, stream).ok());
  }
  CinnCallEnv env = Env({device->type, 0});
  env.stream = stream;
  const CinnFunctionPtr mlp = library.Prepare("mlp", {&there.args[1], 3}, env);
  ASSERT_NE(mlp, nullptr) << CinnLibraryError();
  ASSERT_EQ(mlp(library.self, there.begin(), there.count(), &env), 0) << CinnLibraryError();
  std::vector<uint8_t> got(host.arrays[4].bytes.size());
  ASSERT_TRUE(api->Copy(0, got.data(), there.views[4].data, static_cast<int64_t>(got.size()), stream).ok());
  ASSERT_TRUE(api->Synchronize(0, stream).ok());
  const auto jit = Jit(Mlp());
  const CinnCallEnv here = Env();
  ASSERT_TRUE(jit->Prepare({&host.args[1], 3}, here).ok());
  ASSERT_EQ(jit->entry()(jit->self(), host.begin(), host.count(), &here), 0);
  EXPECT_EQ(got, host.arrays[4].bytes);
  CinnLibraryRelease(library.self);
  library.self = nullptr;
  for (DLTensor& t : there.views) api->Free(0, t.data);
  api->DestroyStream(0, stream);
}

// They are prepared where the file is loaded.
TEST_P(LibraryDevice, WeightsInTheFile) {
  Tensors t(MlpShapes(50)), expected(MlpShapes(50));
  const auto jit = Jit(Mlp());
  const CinnCallEnv env = Env();
  ASSERT_TRUE(jit->Prepare({&expected.args[1], 3}, env).ok());
  ASSERT_EQ(jit->entry()(jit->self(), expected.begin(), expected.count(), &env), 0);
  const Status exported = jit->ExportLibrary(File("mlp.so"), {&t.args[1], 3});
  ASSERT_TRUE(exported.ok()) << exported;
  Library library(File("mlp.so"));
  const CinnFunctionPtr mlp = library.Prepare("mlp", {});
  ASSERT_NE(mlp, nullptr) << CinnLibraryError();
  EXPECT_TRUE(StrContains(CinnLibraryInfo(library.lib), R"("functions":[{"name":"mlp","params":[{"name":"x",)"))
      << CinnLibraryInfo(library.lib);
  CinnValue args[] = {t.args[0], t.args[4]};
  for (int i = 0; i < 2; ++i) {
    std::fill(t.arrays[4].bytes.begin(), t.arrays[4].bytes.end(), 0xff);
    ASSERT_EQ(mlp(library.self, args, 2, &env), 0) << CinnLibraryError();
    EXPECT_EQ(t.arrays[4].bytes, expected.arrays[4].bytes);
  }
  EXPECT_LT(mlp(library.self, t.begin(), 5, &env), 0);
  EXPECT_TRUE(StrContains(CinnLibraryError(), "mlp: expected 1 arguments and 1 results")) << CinnLibraryError();
}

TEST_P(LibraryDevice, TheFirstThatRuns) {
  const auto features = CpuFeatures();
  const auto missing =
      std::find_if(features.begin(), features.end(), [](const CpuFeature& f) { return !f.is_present; });
  std::vector<Target> targets = {target_, *Target::Parse("cpu")};
  if (missing != features.end())
    targets.insert(targets.begin(), *Target::Parse(Cat("x86_64 -mcpu=x86-64 -features=+", missing->name)));
  const auto run = [&](const std::string& path) {
    Library library(path);
    const CinnFunctionPtr twice = library.Prepare("twice", {});
    EXPECT_NE(twice, nullptr) << CinnLibraryError();
    DLDeviceType type{};
    EXPECT_EQ(CinnLibraryDevice(library.lib, "twice", &type), 0);
    const std::vector<std::vector<int64_t>> shapes = {{4000}, {4000}};
    Tensors t(shapes);
    const CinnCallEnv env = Env();
    EXPECT_EQ(twice(library.self, t.begin(), 2, &env), 0) << CinnLibraryError();
    for (int64_t i = 0; i < 4000; ++i) EXPECT_EQ(t.arrays[1].Get(i), 2 * t.arrays[0].Get(i));
    return type;
  };
  ASSERT_TRUE(ExportLibrary(GraphOf(kDouble), targets, Options(), File("a.so"), Devices()).ok());
  EXPECT_EQ(run(File("a.so")), device_.runtime->type);
  std::swap(targets[targets.size() - 1], targets[targets.size() - 2]);
  ASSERT_TRUE(ExportLibrary(GraphOf(kDouble), targets, Options(), File("b.so"), Devices()).ok());
  EXPECT_EQ(run(File("b.so")), kDLCPU);
}

// A GPU that is newer than any in the file compiles the PTX.
TEST_P(LibraryDevice, PtxIsTheLastResort) {
  if (device_.kind != &CudaKind() || target_.arch == "sm_80") GTEST_SKIP() << "no newer GPU";
  const Target older = *Target::Parse("cuda -arch=sm_80");
  ASSERT_TRUE(ExportLibrary(Mlp(), older, Options(), File("mlp.so"), Devices()).ok());
  Library library(File("mlp.so"));
  Tensors t(MlpShapes(50)), expected(MlpShapes(50));
  const CinnFunctionPtr mlp = library.Prepare("mlp", {&t.args[1], 3});
  ASSERT_NE(mlp, nullptr) << CinnLibraryError();
  const CinnCallEnv env = Env();
  ASSERT_EQ(mlp(library.self, t.begin(), t.count(), &env), 0) << CinnLibraryError();
  const auto jit = Jit(Mlp());
  ASSERT_TRUE(jit->Prepare({&expected.args[1], 3}, env).ok());
  ASSERT_EQ(jit->entry()(jit->self(), expected.begin(), expected.count(), &env), 0);
  for (int64_t i = 0; i < t.arrays[4].NumElements(); ++i)
    EXPECT_NEAR(t.arrays[4].Get(i), expected.arrays[4].Get(i), 1e-4);
}

// Of several devices, from graphs and loops; names of kernels are each function's own.
TEST_P(LibraryDevice, FunctionsSideBySide) {
  const std::string loops = R"(func @twice(x: f32[n], y: f32[n] out) where n in 1..5000 {
  for i in 0..n { block b(j in 0..n = i) { y[j] = x[j] + x[j] } }
})";
  const auto bind = target_.IsGpu() ? "split i 64 -> o t\nbind o blockIdx.x\nbind t threadIdx.x\n" : "";
  const auto jit = Jit(Mlp());
  auto twice = LowerModuleText(loops, bind, target_, Options(), Devices());
  ASSERT_TRUE(twice.ok()) << twice.status();
  const auto on_cpu = CompileGraph(GraphOf(absl::StrReplaceAll(kDouble, {{"@twice", "@host_twice"}})),
                                   *Target::Parse("cpu"), Options());
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
  Tensors t(MlpShapes(50)), expected(MlpShapes(50));
  std::vector<LibraryPart> parts;
  parts.push_back(*jit->MakePart({&t.args[1], 3}));
  parts.push_back(*(*twice)->MakePart({}));
  parts.push_back(*(*on_cpu)->MakePart({}));
  const Status written = WriteLibrary(std::move(parts), File("all.so"));
  ASSERT_TRUE(written.ok()) << written;

  const CinnCallEnv env = Env();
  ASSERT_TRUE(jit->Prepare({&expected.args[1], 3}, env).ok());
  ASSERT_EQ(jit->entry()(jit->self(), expected.begin(), expected.count(), &env), 0);
  Library library(File("all.so"));
  const CinnFunctionPtr mlp = library.Prepare("mlp", {});
  ASSERT_NE(mlp, nullptr) << CinnLibraryError();
  CinnValue args[] = {t.args[0], t.args[4]};
  ASSERT_EQ(mlp(library.self, args, 2, &env), 0) << CinnLibraryError();
  EXPECT_EQ(t.arrays[4].bytes, expected.arrays[4].bytes);
  for (const char* name : {"twice", "host_twice"}) {
    Library again(File("all.so"));
    const CinnFunctionPtr f = again.Prepare(name, {});
    ASSERT_NE(f, nullptr) << CinnLibraryError();
    const std::vector<std::vector<int64_t>> shapes = {{4000}, {4000}};
    Tensors v(shapes);
    EXPECT_EQ(f(again.self, v.begin(), 2, &env), 0) << CinnLibraryError();
    for (int64_t i = 0; i < 4000; ++i) EXPECT_EQ(v.arrays[1].Get(i), 2 * v.arrays[0].Get(i)) << name;
  }

  parts.clear();
  parts.push_back(*jit->MakePart({}));
  parts.push_back(*jit->MakePart({&t.args[1], 3}));
  EXPECT_TRUE(
      StrContains(Message(WriteLibrary(std::move(parts), File("bad.so"))), "a library's function @mlp is @mlp("));
}

// The object and the kernels that it launches, by themselves.
TEST_P(LibraryDevice, LoadedFromParts) {
  if (std::system("command -v cc > /dev/null") != 0) GTEST_SKIP() << "no cc";
  const auto object = EmitGraph(GraphOf(kDouble), target_, Options(), "object", Devices());
  ASSERT_TRUE(object.ok()) << object.status();
  const auto bytes = EmitGraph(GraphOf(kDouble), target_, Options(), "kernels", Devices());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  Write("twice.o", *object);
  const std::string pointer = "twice_k0_kernel_kernel_ptr_";
  Write("main.c", Cat("void* ", pointer, ";\n"));
  Dl_info runtime;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&CinnLibraryOpen), &runtime), 0);
  std::string command = "cc -shared -fPIC -o";
  for (const char* file : {"twice.so", "twice.o", "main.c"}) command += " " + File(file);
  ASSERT_EQ(std::system(Cat(command, " ", runtime.dli_fname).c_str()), 0);
  void* handle = dlopen(File("twice.so").c_str(), RTLD_NOW);
  ASSERT_NE(handle, nullptr) << dlerror();
  const auto twice = reinterpret_cast<CinnFunctionPtr>(dlsym(handle, "twice"));
  ASSERT_NE(twice, nullptr);

  const std::string name(target_.device->name);
  CinnKernels* kernels = nullptr;
  EXPECT_NE(CinnKernelsLoad(name.c_str(), bytes->data(), bytes->size() - 1, &kernels), 0);
  EXPECT_TRUE(StrContains(CinnLibraryError(), Cat("kernels for ", name, ": "))) << CinnLibraryError();
  ASSERT_EQ(CinnKernelsLoad(name.c_str(), bytes->data(), bytes->size(), &kernels), 0) << CinnLibraryError();
  EXPECT_EQ(CinnKernelsFind(kernels, "nothing"), nullptr);
  EXPECT_STREQ(CinnLibraryError(), "no kernel 'nothing'");
  void* kernel = CinnKernelsFind(kernels, "twice_k0_kernel");
  ASSERT_NE(kernel, nullptr) << CinnLibraryError();
  *static_cast<void**>(dlsym(handle, pointer.c_str())) = kernel;

  // The runtime's own.
  const void* own = dlsym(dlopen(runtime.dli_fname, RTLD_NOW | RTLD_NOLOAD), Cat("cinn_device_", name).c_str());
  const RuntimeDevice* device = own != nullptr ? static_cast<const RuntimeDevice*>(own) : device_.runtime;
  DeviceApi* api = *device->api();
  void* stream = *api->CreateStream(0);
  const std::vector<std::vector<int64_t>> shapes = {{4000}, {4000}};
  Tensors host(shapes), there(shapes);
  for (DLTensor& t : there.views) {
    t.device = {device->type, 0};
    t.data = *api->Alloc(0, 16000, stream);
  }
  ASSERT_TRUE(api->Copy(0, there.views[0].data, host.views[0].data, 16000, stream).ok());
  CinnCallEnv env = Env({device->type, 0});
  env.stream = stream;
  ASSERT_EQ(twice(nullptr, there.begin(), 2, &env), 0) << CinnLibraryError();
  ASSERT_TRUE(api->Copy(0, host.views[1].data, there.views[1].data, 16000, stream).ok());
  ASSERT_TRUE(api->Synchronize(0, stream).ok());
  for (int64_t i = 0; i < 4000; ++i) ASSERT_EQ(host.arrays[1].Get(i), 2 * host.arrays[0].Get(i));
  for (DLTensor& t : there.views) api->Free(0, t.data);
  api->DestroyStream(0, stream);
  CinnKernelsRelease(kernels);
  dlclose(handle);
}

TEST(LibraryElsewhere, KernelsThatAreNone) {
  CinnKernels* kernels = nullptr;
  EXPECT_NE(CinnKernelsLoad("nowhere", "x", 1, &kernels), 0);
  EXPECT_STREQ(CinnLibraryError(),
               "kernels for nowhere: needs device 'nowhere', which the program has not (a symbol cinn_device_nowhere)");
  EXPECT_NE(CinnKernelsLoad("opencl", "no program", 10, &kernels), 0);
  EXPECT_EQ(kernels, nullptr);
  EXPECT_TRUE(StrContains(CinnLibraryError(), "kernels for opencl: ")) << CinnLibraryError();
  EXPECT_NE(CinnKernelsLoad("opencl", nullptr, 0, &kernels), 0);
  CinnKernelsRelease(nullptr);
}

// One function of parts on two devices, with what both read of its weights.
TEST_P(LibraryDevice, WhatDevicesShare) {
  const hlir::Graph graph =
      GraphOf(absl::StrReplaceAll(R"(graph @g(%x: f32[n,24], %w: f32[24,24] static) where n in 1..256 {
  %0 = add(%x, %x) on DEVICE : f32[n,24]
  %1 = matmul(%0, %w) on cpu : f32[n,24]
  %2 = matmul(%1, %w) on DEVICE : f32[n,24]
  %3 = tanh(%2) on cpu : f32[n,24]
  return %3, %1
}
)",
                                  {{"DEVICE", device_.kind->name}}));
  const Target targets[] = {*Target::Parse("cpu"), target_};
  const auto jit = CompileOnTargets(graph, targets, Options(), Devices());
  ASSERT_TRUE(jit.ok()) << jit.status();
  const CinnCallEnv env = Env();
  const std::vector<std::vector<int64_t>> shapes = {{50, 24}, {24, 24}, {50, 24}, {50, 24}};
  Tensors t(shapes), expected(shapes);
  ASSERT_TRUE((*jit)->Prepare({&expected.args[1], 1}, env).ok());
  ASSERT_EQ((*jit)->entry()((*jit)->self(), expected.begin(), 4, &env), 0);
  for (const bool has_weights : {false, true}) {
    const std::string path = File(has_weights ? "weights.so" : "bare.so");
    const std::span<const CinnValue> weights(&t.args[1], 1);
    const Status exported = (*jit)->ExportLibrary(path, has_weights ? weights : std::span<const CinnValue>());
    ASSERT_TRUE(exported.ok()) << exported;
    Library library(path);
    const CinnFunctionPtr g = library.Prepare("g", has_weights ? std::span<const CinnValue>() : weights);
    ASSERT_NE(g, nullptr) << CinnLibraryError();
    std::vector<CinnValue> args = t.args;
    if (has_weights) args.erase(args.begin() + 1);
    for (const int i : {2, 3}) std::fill(t.arrays[i].bytes.begin(), t.arrays[i].bytes.end(), 0xff);
    ASSERT_EQ(g(library.self, args.data(), static_cast<int>(args.size()), &env), 0) << CinnLibraryError();
    for (const int i : {2, 3}) EXPECT_EQ(t.arrays[i].bytes, expected.arrays[i].bytes) << i;
    EXPECT_LT(g(library.self, args.data(), 1, &env), 0);
    EXPECT_TRUE(absl::StartsWith(CinnLibraryError(), "@g: expected ")) << CinnLibraryError();
    EXPECT_EQ(CinnLibraryLookup(library.lib, "nothing"), nullptr);
    EXPECT_STREQ(CinnLibraryError(), "the library has no function 'nothing'; there are g");
    EXPECT_TRUE(StrContains(CinnLibraryInfo(library.lib), R"("functions":[{"name":"g",)"));
    EXPECT_TRUE(StrContains(CinnLibraryDescription(library.lib), "\npart @g_")) << CinnLibraryDescription(library.lib);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LibraryDevice, testing::Values("opencl", "cuda", "dpu"),
                         [](const auto& info) { return std::string(info.param); });

// Compiled here for what is elsewhere.
TEST(LibraryElsewhere, ADeviceThatNobodyHas) {
  const std::string path = fs::temp_directory_path() / "library_elsewhere.so";
  DeviceKind kind = dpu::Kind();
  kind.name = "npu";
  RuntimeDevice runtime = cinn_device_dpu;
  kind.type = runtime.type = runtime.also = kDLVulkan;
  Devices devices = Devices::BuiltIn();
  ASSERT_TRUE(devices.Add({&kind, &runtime, [](const auto&...) { return dpu::MakeCompiler(); }}).ok());
  const Status exported =
      ExportLibrary(GraphOf(kDouble), *devices.ParseTarget("npu -arch=dpu2"), Options(), path, devices);
  ASSERT_TRUE(exported.ok()) << exported;
  const Library library(path);
  ASSERT_EQ(library.code, 0) << CinnLibraryError();
  EXPECT_EQ(CinnLibraryLookup(library.lib, "twice"), nullptr);
  EXPECT_STREQ(CinnLibraryError(), "twice: needs device 'npu', which the program has not (a symbol cinn_device_npu)");
}

TEST(LibraryElsewhere, SaysWhatIsMissing) {
  if (cinn_device_cuda.api().ok()) GTEST_SKIP() << "this machine has a CUDA device";
  const std::string path = fs::temp_directory_path() / "library_elsewhere.so";
  for (const auto& [arch, forms] : {std::pair{"sm_90a", 1u}, {"sm_80", 2u}}) {
    const Status exported = ExportLibrary(GraphOf(kDouble), *Target::Parse(Cat("cuda -arch=", arch)), Options(), path);
    if (!exported.ok() && StrContains(Message(exported), "NVRTC")) GTEST_SKIP() << "NVRTC is not on this machine";
    ASSERT_TRUE(exported.ok()) << exported;
    EXPECT_EQ(ReadLibrary(ReadFile(path))->info.functions[0].variants[0].kernels.size(), forms);
    const Library library(path);
    ASSERT_EQ(library.code, 0) << CinnLibraryError();
    EXPECT_EQ(CinnLibraryLookup(library.lib, "twice"), nullptr);
    EXPECT_TRUE(absl::StartsWith(CinnLibraryError(), "twice: no CUDA driver: ")) << CinnLibraryError();
  }
  const Target targets[] = {*Target::Parse("cuda -arch=sm_80"), *Target::Parse("cuda -arch=sm_90a"),
                            *Target::Parse("cpu")};
  ASSERT_TRUE(ExportLibrary(GraphOf(kDouble), {targets, 2}, Options(), path).ok());
  {
    const Library library(path);
    EXPECT_EQ(CinnLibraryLookup(library.lib, "twice"), nullptr);
    EXPECT_TRUE(absl::StartsWith(CinnLibraryError(), "twice: none of its variants runs: for cuda -arch=sm_80: no CUDA"))
        << CinnLibraryError();
  }
  ASSERT_TRUE(ExportLibrary(GraphOf(kDouble), targets, Options(), path).ok());
  DLDeviceType type{};
  const Library library(path);
  EXPECT_EQ(CinnLibraryDevice(library.lib, "twice", &type), 0) << CinnLibraryError();
  EXPECT_EQ(type, kDLCPU);
}

}  // namespace
}  // namespace cinn_like
