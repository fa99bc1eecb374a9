// Exported libraries: the same results as the JIT's, bit for bit, through the C runtime alone; what a file says of
// itself is checked before it is loaded, and whatever is wrong with it is an error.
#include "runtime/library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "backends/llvm_machine.h"
#include "cinn_like/base/host_cpu.h"
#include "cinn_like/driver.h"
#include "ir/host_array.h"
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

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / "library_test_XXXXXX") { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~Folder() { fs::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
    return File(name);
  }

 private:
  std::string path_;
};

CinnCallEnv Env() {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  return env;
}

// Random tensors and the values that stand for them.
struct Tensors {
  explicit Tensors(const std::vector<std::pair<DType, std::vector<int64_t>>>& types, unsigned seed = 1) {
    std::mt19937 rng(seed);
    std::uniform_real_distribution<double> random(-1, 1);
    for (const auto& [dtype, shape] : types) arrays.emplace_back(dtype, shape);
    for (ir::HostArray& a : arrays) {
      for (int64_t i = 0; i < a.NumElements(); ++i) a.Set(i, random(rng));
      const DLDataType type = {InfoOf(a.dtype).dlpack_code, static_cast<uint8_t>(InfoOf(a.dtype).bits), 1};
      views.push_back(
          {a.bytes.data(), {kDLCPU, 0}, static_cast<int32_t>(a.shape.size()), type, a.shape.data(), nullptr, 0});
    }
    for (DLTensor& t : views) {
      CinnValue v{};
      v.tag = kCinnTensor;
      v.tensor = &t;
      args.push_back(v);
    }
  }
  Tensors(const Tensors&) = delete;
  int count() const { return static_cast<int>(args.size()); }

  std::vector<ir::HostArray> arrays;
  std::vector<DLTensor> views;
  std::vector<CinnValue> args;
};

struct Library {
  explicit Library(const std::string& path) { code = CinnLibraryOpen(path.c_str(), &lib); }
  ~Library() { CinnLibraryClose(lib); }
  Library(const Library&) = delete;
  int32_t code = 0;
  CinnLibrary* lib = nullptr;
};

std::string OpenError(const std::string& path) {
  const Library library(path);
  EXPECT_LT(library.code, 0) << path;
  EXPECT_EQ(library.lib, nullptr);
  return CinnLibraryError();
}

Tensors MlpTensors(int64_t n, unsigned seed = 1) {
  return Tensors({{DType::kF32, {n, 64}},
                  {DType::kF32, {64, 128}},
                  {DType::kF32, {128}},
                  {DType::kF32, {128}},
                  {DType::kF32, {n, 128}}},
                 seed);
}

TEST(Library, IsTheJitBitForBit) {
  const Folder folder;
  const CinnCallEnv env = Env();
  for (const char* text : {"cpu", "cpu -num-threads=2", "x86_64 -mcpu=x86-64"}) {
    SCOPED_TRACE(text);
    const Target target = *Target::Parse(text);
    const auto jit = CompileGraph(Mlp(), target, Options());
    ASSERT_TRUE(jit.ok()) << jit.status();
    const std::string own = folder.File("own.so"), other = folder.File("other.so");
    ASSERT_TRUE((*jit)->ExportLibrary(own, {}).ok());
    const Status exported = ExportLibrary(Mlp(), target, Options(), other);
    ASSERT_TRUE(exported.ok()) << exported;
    EXPECT_EQ(ReadFile(own), ReadFile(other));
    Tensors weights = MlpTensors(1);
    ASSERT_TRUE((*jit)->Prepare({&weights.args[1], 3}, env).ok());

    const Library library(own);
    ASSERT_EQ(library.code, 0) << CinnLibraryError();
    const CinnFunctionPtr mlp = CinnLibraryLookup(library.lib, "mlp");
    ASSERT_NE(mlp, nullptr) << CinnLibraryError();
    void* self = nullptr;
    ASSERT_EQ(CinnLibraryPrepare(library.lib, "mlp", &weights.args[1], 3, &env, &self), 0) << CinnLibraryError();
    for (const int64_t n : {1, 7, 64, 1000}) {
      Tensors a = MlpTensors(n), b = MlpTensors(n);
      // The weights that were prepared.
      for (int i = 1; i < 4; ++i) a.args[i] = b.args[i] = weights.args[i];
      std::fill(b.arrays[4].bytes.begin(), b.arrays[4].bytes.end(), 0xff);
      ASSERT_EQ((*jit)->entry()((*jit)->self(), a.args.data(), a.count(), &env), 0);
      ASSERT_EQ(mlp(self, b.args.data(), b.count(), &env), 0) << CinnLibraryError();
      EXPECT_EQ(a.arrays[4].bytes, b.arrays[4].bytes) << n;
    }
    CinnLibraryRelease(self);
  }
}

// One library, several sets of weights, callers of any thread, loops on more than one.
TEST(Library, ThreadsCallWithWeightsOfTheirOwn) {
  const Folder folder;
  const CinnCallEnv env = Env();
  const std::string path = folder.File("mlp.so");
  ASSERT_TRUE(ExportLibrary(Mlp(), *Target::Parse("cpu -num-threads=2"), Options(), path).ok());
  const auto jit = CompileGraph(Mlp(), *Target::Parse("cpu -num-threads=2"), Options());
  ASSERT_TRUE(jit.ok()) << jit.status();
  const Library library(path);
  ASSERT_EQ(library.code, 0) << CinnLibraryError();
  CinnLibrarySetThreads(2);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    void* jit_self = (*jit)->AddSelf();
    threads.emplace_back([&, seed, jit_self] {
      Tensors a = MlpTensors(700, seed), b = MlpTensors(700, seed);
      void* self = nullptr;
      EXPECT_TRUE((*jit)->PrepareSelf(jit_self, {&a.args[1], 3}, env).ok());
      EXPECT_EQ(CinnLibraryPrepare(library.lib, "mlp", &b.args[1], 3, &env, &self), 0) << CinnLibraryError();
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ((*jit)->entry()(jit_self, a.args.data(), a.count(), &env), 0);
        EXPECT_EQ(CinnLibraryLookup(library.lib, "mlp")(self, b.args.data(), b.count(), &env), 0);
        EXPECT_EQ(a.arrays[4].bytes, b.arrays[4].bytes);
      }
      CinnLibraryRelease(self);
    });
  }
  for (std::thread& t : threads) t.join();
}

// What code of the oldest CPU calls of the C library and of the compiler's is there, and gives the same.
TEST(Library, EveryFunctionThatCodeCalls) {
  const Folder folder;
  const CinnCallEnv env = Env();
  const Target target = *Target::Parse("x86_64 -mcpu=x86-64");
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const std::string type = Cat(Name(dtype), "[50]");
    std::string ops, results;
    std::vector<std::pair<DType, std::vector<int64_t>>> types(2, {dtype, {50}});
    for (const char* op : {"exp(%x)", "expm1(%x)", "log(%x)", "log1p(%x)", "tanh(%x)", "erf(%x)", "sin(%x)", "cos(%x)",
                           "floor(%x)", "ceil(%x)", "round(%x)", "pow(%x, %y)", "mod(%x, %y)"}) {
      results += Cat(results.empty() ? "" : ", ", "%", types.size() - 2);
      ops += Cat("  %", types.size() - 2, " = ", op, " : ", type, "\n");
      types.push_back({dtype, {50}});
    }
    const hlir::Graph graph =
        GraphOf(Cat("graph @all(%x: ", type, ", %y: ", type, ") {\n", ops, "  return ", results, "\n}\n"));
    const std::string path = folder.File(Cat(Name(dtype), ".so"));
    const Status exported = ExportLibrary(graph, target, Options(), path);
    ASSERT_TRUE(exported.ok()) << exported;
    const auto jit = CompileGraph(graph, target, Options());
    ASSERT_TRUE(jit.ok()) << jit.status();
    const Library library(path);
    ASSERT_EQ(library.code, 0) << CinnLibraryError();
    Tensors a(types), b(types, 1);
    ASSERT_EQ((*jit)->entry()((*jit)->self(), a.args.data(), a.count(), &env), 0);
    ASSERT_EQ(CinnLibraryLookup(library.lib, "all")(nullptr, b.args.data(), b.count(), &env), 0) << CinnLibraryError();
    for (size_t i = 2; i < types.size(); ++i) EXPECT_EQ(a.arrays[i].bytes, b.arrays[i].bytes) << Name(dtype) << i;
  }
}

// Of a graph that came from the cache, with nothing but its code.
TEST(Library, IsTheSameFromTheCache) {
  const Folder folder;
  CompileOptions options;
  options.cache_dir = folder.File("cache");
  for (const bool hit : {false, true}) {
    const auto jit = CompileGraph(Mlp(), *Target::Parse("cpu"), options);
    ASSERT_TRUE(jit.ok()) << jit.status();
    EXPECT_EQ((*jit)->report().cache_hit, hit);
    ASSERT_TRUE((*jit)->ExportLibrary(folder.File(hit ? "hit.so" : "miss.so"), {}).ok());
  }
  EXPECT_EQ(ReadFile(folder.File("hit.so")), ReadFile(folder.File("miss.so")));
}

constexpr char kTake[] = R"(graph @take(%x: f16[n,24], %i: i64[5]) where n in 1..64 multiple 2 {
  %0 = exp(%x) : f16[n,24]
  %1 = check_index(%i) {size=10} : i64[5]
  %2 = gather(%0, %1) {axis=0} : f16[5,24]
  %3 = reduce_sum(%0) {axes=[1]} : f16[n]
  return %2, %3
}
)";

// Half floats of the oldest CPU need the compiler's support library. Nothing is static, results come from the caller's
// allocator, and errors are those of the calling convention.
TEST(Library, CallingConvention) {
  const Folder folder;
  const std::string path = folder.File("take.so");
  const Target target = *Target::Parse("x86_64 -mcpu=x86-64");
  const Status exported = ExportLibrary(GraphOf(kTake), target, Options(), path);
  ASSERT_TRUE(exported.ok()) << exported;
  const auto jit = CompileGraph(GraphOf(kTake), target, Options());
  ASSERT_TRUE(jit.ok()) << jit.status();
  const Library library(path);
  ASSERT_EQ(library.code, 0) << CinnLibraryError();
  EXPECT_TRUE(StrContains(CinnLibraryDescription(library.lib),
                          "\n@take(%x: f16[n,24], %i: i64[5]) where n in 1..64 multiple 2 -> f16[5,24], f16[n]\n"))
      << CinnLibraryDescription(library.lib);
  const CinnFunctionPtr take = CinnLibraryLookup(library.lib, "take");
  ASSERT_NE(take, nullptr) << CinnLibraryError();
  CinnCallEnv env = Env();
  void* self = &env;
  EXPECT_EQ(CinnLibraryPrepare(library.lib, "take", nullptr, 0, &env, &self), 0);
  EXPECT_EQ(self, nullptr);

  using Results = std::vector<std::vector<uint8_t>>;
  env.alloc = [](void* context, int32_t index, DLTensor* spec) -> int32_t {
    auto& results = *static_cast<Results*>(context);
    int64_t bytes = spec->dtype.bits / 8;
    for (int32_t d = 0; d < spec->ndim; ++d) bytes *= spec->shape[d];
    results[index].resize(bytes + 64);
    spec->data = results[index].data() + (64 - reinterpret_cast<uintptr_t>(results[index].data()) % 64);
    return 0;
  };
  Tensors t({{DType::kF16, {10, 24}}, {DType::kI64, {5}}});
  for (int64_t i = 0; i < 5; ++i) t.arrays[1].SetInt(i, 9 - 2 * i);
  t.args.resize(4, CinnValue{});
  std::vector<std::vector<uint8_t>> bytes;
  for (const auto& [call, its_self] : {std::pair{(*jit)->entry(), (*jit)->self()}, {take, nullptr}}) {
    Results results(2);
    env.context = &results;
    ASSERT_EQ(call(its_self, t.args.data(), 4, &env), 0) << CinnLibraryError();
    for (const auto& r : results) {
      const size_t skip = 64 - reinterpret_cast<uintptr_t>(r.data()) % 64;
      bytes.emplace_back(r.begin() + skip, r.end() - (64 - skip));
    }
  }
  EXPECT_EQ(bytes[0], bytes[2]);
  EXPECT_EQ(bytes[1], bytes[3]);

  Results results(2);
  env.context = &results;
  EXPECT_EQ(take(nullptr, t.args.data(), 3, &env), -3);
  EXPECT_STREQ(CinnLibraryError(), "take: expected 4 arguments (x, i, gather, reduce_sum_1), got 3");
  t.arrays[1].SetInt(3, 10);
  EXPECT_EQ(take(nullptr, t.args.data(), 4, &env), -11);
  EXPECT_TRUE(StrContains(CinnLibraryError(), "expected 0 to 9, got 10")) << CinnLibraryError();
  t.arrays[0].shape[0] = 9;
  EXPECT_EQ(take(nullptr, t.args.data(), 4, &env), -3);
  EXPECT_STREQ(CinnLibraryError(), "take: argument 'x': dimension 0: n = 9 is not a multiple of 2");

  EXPECT_EQ(CinnLibraryLookup(library.lib, "mlp"), nullptr);
  EXPECT_STREQ(CinnLibraryError(), "the library has no function 'mlp'; there are take");
  EXPECT_LT(CinnLibraryPrepare(library.lib, "mlp", nullptr, 0, &env, &self), 0);
  EXPECT_LT(CinnLibraryPrepare(library.lib, "take", nullptr, 0, nullptr, &self), 0);
  EXPECT_LT(CinnLibraryOpen(nullptr, nullptr), 0);
  CinnLibraryClose(nullptr);
  CinnLibraryRelease(nullptr);
}

TEST(Library, IsPreparedBeforeItIsCalled) {
  const Folder folder;
  const CinnCallEnv env = Env();
  const std::string path = folder.File("mlp.so");
  ASSERT_TRUE(ExportLibrary(Mlp(), *Target::Parse("cpu"), Options(), path).ok());
  const Library library(path);
  ASSERT_EQ(library.code, 0) << CinnLibraryError();
  Tensors t = MlpTensors(3);
  EXPECT_LT(CinnLibraryLookup(library.lib, "mlp")(nullptr, t.args.data(), t.count(), &env), 0);
  EXPECT_TRUE(StrContains(CinnLibraryError(), "is not prepared")) << CinnLibraryError();
  void* self = &t;
  EXPECT_LT(CinnLibraryPrepare(library.lib, "mlp", t.args.data(), 3, &env, &self), 0);
  EXPECT_TRUE(StrContains(CinnLibraryError(), "mlp_prepare: argument 'w'")) << CinnLibraryError();
  EXPECT_EQ(self, nullptr);
}

// What a CPU has is said by cpuid and by LLVM, apart from each other.
TEST(Library, SaysWhatTheCpuNeeds) {
  const Folder folder;
  const StatusOr<HostCpu> native = ResolveHostCpu(*Target::Parse("cpu"));
  ASSERT_TRUE(native.ok()) << native.status();
  EXPECT_TRUE(CheckCpu(RequiredCpuFeatures(*native)).ok()) << CheckCpu(RequiredCpuFeatures(*native));

  const std::string v3 = folder.File("v3.so");
  ASSERT_TRUE(ExportLibrary(Mlp(), *Target::Parse("x86_64 -mcpu=x86-64-v3"), Options(), v3).ok());
  const StatusOr<LibraryFile> file = ReadLibrary(ReadFile(v3));
  ASSERT_TRUE(file.ok()) << file.status();
  const LibraryVariant& variant = file->info.functions[0].variants[0];
  EXPECT_EQ(variant.cpu_features, (std::vector<std::string>{"sse3", "ssse3", "fma", "sse4.1", "sse4.2", "movbe",
                                                            "popcnt", "avx", "f16c", "lzcnt", "bmi", "avx2", "bmi2"}));
  EXPECT_EQ(variant.target, "x86_64 -mcpu=x86-64-v3");
  EXPECT_EQ(CheckCpu(variant.cpu_features).ok(), Library(v3).code == 0);

  const auto features = CpuFeatures();
  const auto missing =
      std::find_if(features.begin(), features.end(), [](const CpuFeature& f) { return !f.is_present; });
  if (missing == features.end()) GTEST_SKIP() << "this CPU has everything";
  const std::string path = folder.File("other.so");
  const Target target = *Target::Parse(Cat("x86_64 -mcpu=x86-64 -features=+", missing->name));
  ASSERT_TRUE(ExportLibrary(Mlp(), target, Options(), path).ok());
  const std::string error = OpenError(path);
  EXPECT_TRUE(absl::StartsWith(error, Cat("library '", path, "' needs "))) << error;
  EXPECT_TRUE(StrContains(error, std::string(missing->name))) << error;
  EXPECT_TRUE(StrContains(error, "; this CPU has sse3, ")) << error;
}

// Nothing of a file is loaded before it is known to be whole.
TEST(Library, DamageIsAnError) {
  const Folder folder;
  const std::string path = folder.File("mlp.so");
  ASSERT_TRUE(ExportLibrary(Mlp(), *Target::Parse("cpu"), Options(), path).ok());
  const std::string good = ReadFile(path);
  ASSERT_TRUE(ReadLibrary(good).ok());
  const auto expect = [&](const std::string& bytes, std::string_view why) {
    const std::string bad = folder.Write("bad.so", bytes), error = OpenError(bad);
    EXPECT_EQ(error, Cat("library '", bad, "' ", why));
  };
  expect("", "is no ELF file");
  expect("#include <math.h>", "is no ELF file");
  expect(
      "\x7f"
      "ELF",
      "is cut short");
  expect(good.substr(0, good.size() / 2), "is cut short");
  expect(good.substr(0, good.size() - 1), "is cut short");
  EXPECT_TRUE(StrContains(OpenError(folder.File("none.so")), "can't be read: No such file")) << CinnLibraryError();
  EXPECT_TRUE(StrContains(OpenError("/"), "is no file"));
  EXPECT_TRUE(StrContains(OpenError("/dev/zero"), "is no file"));
  const std::string sparse = folder.Write("sparse.so", good);
  fs::resize_file(sparse, int64_t{1} << 40);
  EXPECT_EQ(OpenError(sparse), Cat("library '", sparse, "' is too large"));
  std::string other = good;
  other[18] = 62 + 1;  // the machine
  expect(other, "is for another machine than x86_64");

  Dl_info libc;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&getpid), &libc), 0);
  EXPECT_TRUE(StrContains(OpenError(libc.dli_fname), "was not written by ExportLibrary")) << CinnLibraryError();

  const size_t owner = good.find(std::string("cinn_like\0\0\0", 12));
  ASSERT_NE(owner, good.npos);
  std::string later = good;
  later[owner - 4] = kLibraryFormat + 1;
  expect(later, Cat("has format ", kLibraryFormat + 1, ", expected ", kLibraryFormat,
                    ": export it again, or load it with its runtime"));

  // Nothing that is loaded can change, nor can the file be shorter.
  for (size_t size = 0; size < good.size(); size += 97) EXPECT_FALSE(ReadLibrary(good.substr(0, size)).ok()) << size;
  std::mt19937 rng(7);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[rng() % bad.size()] ^= static_cast<char>(1 << rng() % 8);
    refused += !ReadLibrary(bad).ok();
    if (SealLibrary(bad).ok()) (void)ReadLibrary(bad);  // what only somebody who wants to do so can write
  }
  EXPECT_GT(refused, 500);  // the rest are names and headers of sections, which nobody loads

  std::string code = good;
  const size_t at = code.size() / 3;
  code[at] = static_cast<char>(~code[at]);
  if (!ReadLibrary(code).ok()) expect(code, "is damaged: it does not match its checksum");
}

TEST(Library, StripLeavesItWhole) {
  if (std::system("command -v strip > /dev/null") != 0) GTEST_SKIP() << "no strip";
  const Folder folder;
  const std::string path = folder.File("mlp.so");
  ASSERT_TRUE(ExportLibrary(Mlp(), *Target::Parse("cpu"), Options(), path).ok());
  const size_t size = fs::file_size(path);
  ASSERT_EQ(std::system(Cat("strip ", path).c_str()), 0);
  EXPECT_LT(fs::file_size(path), size);
  EXPECT_EQ(Library(path).code, 0) << CinnLibraryError();
}

// The system's loader gives the earlier file again for a path that it has loaded.
TEST(Library, AChangedFileIsNotTheOneThatIsLoaded) {
  const Folder folder;
  const std::string path = folder.File("f.so");
  ASSERT_TRUE(ExportLibrary(Mlp(), *Target::Parse("cpu"), Options(), path).ok());
  {
    const Library first(path), again(path);
    ASSERT_EQ(first.code, 0) << CinnLibraryError();
    ASSERT_EQ(again.code, 0) << CinnLibraryError();
    ASSERT_TRUE(ExportLibrary(GraphOf(kTake), *Target::Parse("cpu"), Options(), path).ok());
    EXPECT_TRUE(StrContains(OpenError(path), "has changed since it was loaded")) << CinnLibraryError();
  }
  const Library second(path);
  ASSERT_EQ(second.code, 0) << CinnLibraryError();
  EXPECT_NE(CinnLibraryLookup(second.lib, "take"), nullptr);
}

TEST(Library, NeedsTheRuntimeAlone) {
  const Folder folder;
  const std::string path = folder.File("mlp.so");
  ASSERT_TRUE(ExportLibrary(Mlp(), *Target::Parse("cpu"), Options(), path).ok());
  Dl_info runtime;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&CinnLibraryOpen), &runtime), 0);
  EXPECT_TRUE(StrContains(runtime.dli_fname, "libcinn_runtime.so")) << runtime.dli_fname;
  void* handle = dlopen(runtime.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(handle, nullptr);
#define X(name, signature, effects, workspace) EXPECT_NE(dlsym(handle, #name), nullptr) << #name;
#include "cinn_like/base/runtime_calls.def"
#undef X
  for (const char* name : kLibraryDevices) EXPECT_NE(dlsym(handle, Cat("cinn_device_", name).c_str()), nullptr) << name;
  EXPECT_NE(dlsym(handle, kTvmFfiCall), nullptr);
  const std::string search = fs::path(runtime.dli_fname).parent_path();
  for (const std::string& file : {path, std::string(runtime.dli_fname)}) {
    EXPECT_EQ(std::system(Cat("LD_LIBRARY_PATH=", search, " ldd ", file, " > ", folder.File("ldd")).c_str()), 0);
    const std::string needed = ReadFile(folder.File("ldd"));
    EXPECT_TRUE(StrContains(needed, "libc.so.6")) << needed;
    for (const char* name : {"LLVM", "python", "glog", "gflags"}) EXPECT_FALSE(StrContains(needed, name)) << needed;
  }
}

std::string ExportError(const std::string& graph, const std::string& target, const std::string& path) {
  const Status status = ExportLibrary(GraphOf(graph), *Target::Parse(target), Options(), path);
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(fs::exists(path));
  return Message(status);
}

TEST(Library, WhatIsRefused) {
  const Folder folder;
  const std::string path = folder.File("f.so");
  const std::string mlp = ReadFile("examples/mlp.graph");
  for (const std::string device : {"metal", "c"}) {
    EXPECT_EQ(
        ExportError(mlp, device, path),
        Cat("target '", device, "': its functions leave as source text (EmitGraph, cinn_compile) and don't run here"));
  }
  // A transposed convolution: three in four of our products are of zeros.
  EXPECT_EQ(ExportError(R"(graph @f(%x: f32[1,64,28,28], %w: f32[64,64,4,4]) {
  %0 = conv_input_grad(%x, %w) {input_shape=[1,64,56,56], stride=[2,2], padding=[1,1]} : f32[1,64,56,56]
  return %0
}
)",
                        "cpu -framework=amd-avx512", path),
            "graph @f: a library has no framework, to which x86_64 -mcpu=native -framework=amd-avx512 leaves "
            "conv_input_grad; leave out -framework to have them compiled");
  for (const std::string name : {"expf", "_init", "cinn_bind_args"}) {
    const std::string graph = Cat("graph @", name, "(%x: f32[4]) {\n  %0 = exp(%x) : f32[4]\n  return %0\n}\n");
    const std::string error = ExportError(graph, "cpu", path);
    EXPECT_TRUE(StrContains(error, Cat("function @", name, ": a library's functions can't"))) << error;
  }
  EXPECT_TRUE(StrContains(ExportError(mlp, "cpu", folder.File("none/f.so")), "No such file or directory"));

  const std::string search = std::getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  EXPECT_EQ(ExportError(mlp, "cpu", path), "no linker: there is no cc, gcc, clang, ld or ld.lld in PATH");
  const std::string broken = folder.Write("cc", "#!/bin/sh\necho 'out of luck' >&2\nexit 3\n");
  fs::permissions(broken, fs::perms::owner_all);
  setenv("PATH", folder.File("").c_str(), 1);
  EXPECT_EQ(ExportError(mlp, "cpu", path), "linker 'cc' failed: out of luck\n");
  setenv("PATH", search.c_str(), 1);
}

// Where there is no compiler the linker does, the system's or LLVM's.
TEST(Library, LinkersAloneLinkToo) {
  for (const std::string linker : {"ld", "ld.lld-19"}) {
    const Folder folder;
    const std::string path = folder.File("mlp.so"), search = std::getenv("PATH");
    if (std::system(Cat("p=$(command -v ", linker, ") && ln -s $p ", folder.File(linker)).c_str()) != 0) {
      std::printf("no %s\n", linker.c_str());
      continue;
    }
    setenv("PATH", folder.File("").c_str(), 1);
    const Status exported = ExportLibrary(Mlp(), *Target::Parse("cpu"), Options(), path);
    setenv("PATH", search.c_str(), 1);
    ASSERT_TRUE(exported.ok()) << linker << ": " << exported;
    EXPECT_EQ(Library(path).code, 0) << linker << ": " << CinnLibraryError();
  }
}

}  // namespace
}  // namespace cinn_like
