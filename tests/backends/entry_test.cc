// Entry functions: called as a framework does, with tensors, symbols and an allocator.
#include <dlpack/dlpack.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "runtime/last_error.h"
#include "tests/backends/jit_test_util.h"

namespace cinn_like {
namespace {

constexpr char kModule[] = R"(
func @row(x: f32[1], y: f32[1], n: i64) {
  for i in 0..n @parallel {
    for j in 0..4 {
      y[i * 4 + j] = x[i * 4 + j] * 2.0
    }
  }
}
func @row_again(a: f32[1], b: f32[1], m: i64) {
  for k in 0..m @parallel {
    for l in 0..4 {
      b[k * 4 + l] = a[k * 4 + l] * 2.0
    }
  }
}
func @scale entry(x: f32[n,4], y: f32[n,4] out) where n in 1..1000 {
  alloc arena: u8[n * 16] @global
  call @row(&x[0, 0], &arena[0], n)
  call @row_again(&arena[0], &y[0, 0], n)
}
)";

struct Tensor {
  explicit Tensor(std::vector<int64_t> s, DLDataType dtype = {kDLFloat, 32, 1}) : shape(std::move(s)) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    values.resize(n);
    dl = {values.data(), {kDLCPU, 0}, static_cast<int>(shape.size()), dtype, shape.data(), nullptr, 0};
  }
  CinnValue AsValue() {
    CinnValue v = {};
    v.tag = kCinnTensor;
    v.tensor = &dl;
    return v;
  }
  std::vector<int64_t> shape;
  std::vector<float> values;
  DLTensor dl;
};

TEST(Entry, ChecksBindsAndRuns) {
  const auto c = CompileForTest(kModule);
  EXPECT_EQ(c->num_functions(), 2);
  EXPECT_EQ(c->num_unique_functions(), 1);
  auto* fn = reinterpret_cast<CinnFunctionPtr>(c->Lookup("scale"));
  ASSERT_NE(fn, nullptr);
  const CinnCallEnv env = HostEnv();
  for (int64_t n : {1, 7, 1000}) {
    Tensor x({n, 4}), y({n, 4});
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = static_cast<float>(i);
    const CinnValue args[] = {x.AsValue(), y.AsValue()};
    ASSERT_EQ(fn(nullptr, args, 2, &env), 0) << LastError();
    for (size_t i = 0; i < x.values.size(); ++i) ASSERT_EQ(y.values[i], 4 * static_cast<float>(i));
  }
  Tensor x({3, 5}), y({3, 4});
  const CinnValue args[] = {x.AsValue(), y.AsValue()};
  EXPECT_LT(fn(nullptr, args, 2, &env), 0);
  EXPECT_NE(std::string(LastError()).find("'x'"), std::string::npos) << LastError();
  EXPECT_LT(fn(nullptr, args, 1, &env), 0);
}

// Blocks, dimensions, vectorized loops and intermediates: what schedules leave.
TEST(Entry, LowersModules) {
  const auto c = CompileForTest(std::string(R"(
func @shift(x: f32[n,8], y: f32[n,8], n: i64) where n in 1..1000 {
  for i in 0..n @parallel {
    for j in 0..8 @vectorized {
      block shift(vi in 0..n = i, vj in 0..8 = j) {
        y[vi, vj] = x[vi, vj] + f32(vj)
      }
    }
  }
}
func @sum(x: f32[n,8], y: f32[n], n: i64) where n in 1..1000 {
  for i in 0..n {
    for j in 0..8 {
      block sum(vi in 0..n = i, vj reduce 0..8 = j) init { y[vi] = 0.0 } {
        y[vi] = y[vi] + x[vi, vj]
      }
    }
  }
}
func @f entry(x: f32[n,8], y: f32[n] out) where n in 1..1000 {
  alloc t: f32[n,8] @global
  call @shift(&x[0, 0], &t[0, 0], n)
  call @sum(&t[0, 0], &y[0], n)
}
)"));
  auto* fn = reinterpret_cast<CinnFunctionPtr>(c->Lookup("f"));
  ASSERT_NE(fn, nullptr);
  const CinnCallEnv env = HostEnv();
  Tensor x({37, 8}), y({37});
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = static_cast<float>(i);
  const CinnValue args[] = {x.AsValue(), y.AsValue()};
  ASSERT_EQ(fn(nullptr, args, 2, &env), 0) << LastError();
  for (int64_t i = 0; i < 37; ++i) EXPECT_EQ(y.values[i], static_cast<float>(64 * i + 56));
}

TEST(Entry, CodeIsFreedAndReplaced) {
  for (int i = 0; i < 50; ++i) {
    const auto c = CompileForTest(kModule);
    ASSERT_NE(c->Lookup("scale"), nullptr);
    EXPECT_EQ(c->Lookup("nothing"), nullptr);
  }
}

TEST(Entry, CompilesAndRunsInManyThreads) {
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      const auto c = CompileForTest(kModule);
      auto* fn = reinterpret_cast<CinnFunctionPtr>(c->Lookup("scale"));
      const CinnCallEnv env = HostEnv();
      Tensor x({9, 4}), y({9, 4});
      x.values[35] = 3;
      const CinnValue args[] = {x.AsValue(), y.AsValue()};
      right += fn(nullptr, args, 2, &env) == 0 && y.values[35] == 12;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 6);
}

TEST(Entry, BuildsMoreIntoOneCompilerButNoNameTwice) {
  const auto c = CompileForTest(kModule);
  EXPECT_TRUE(c->Build(*ir::ParseModule("func @other(x: i64[1]) {\n  x[0] = 5\n}\n")).ok());
  int64_t x = 0;
  EXPECT_EQ(CallInternal(*c, "other", &x), 0);
  EXPECT_EQ(x, 5);
  const Status s = c->Build(*ir::ParseModule("func @other(x: i64[1]) {\n  x[0] = 6\n}\n"));
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(Message(s).find("@other"), std::string::npos);
}

TEST(Entry, EmitsTextAndObjects) {
  const auto module = ir::ParseModule(kModule);
  const auto c = CompileForTest(*module);
  const auto llvm = c->GetSourceCode(*module);
  ASSERT_TRUE(llvm.ok()) << llvm.status();
  EXPECT_NE(llvm->find("define i32 @scale("), std::string::npos);
  const auto assembly = EmitHostModule(*module, *Target::Parse("cpu"), {}, HostText::kAssembly);
  ASSERT_TRUE(assembly.ok()) << assembly.status();
  EXPECT_NE(assembly->find("scale:"), std::string::npos);

  const std::string path = ::testing::TempDir() + "/scale.o";
  ASSERT_TRUE(c->ExportObject(path).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string object((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(object.substr(1, 3), "ELF");
  EXPECT_NE(object.find("cinn_bind_args"), std::string::npos);
  EXPECT_FALSE(c->ExportObject("/nonexistent/folder/x.o").ok());
}

TEST(Entry, ListenersAreToldOfCode) {
  CompileOptions options;
  options.jit_listener = "gdb";
  const auto c = CompileForTest(std::string("func @f(x: i64[1]) {\n  x[0] = 7\n}\n"), "cpu", options);
  int64_t x = 0;
  EXPECT_EQ(CallInternal(*c, "f", &x), 0);
  EXPECT_EQ(x, 7);
  options.jit_listener = "vtune";
  auto other = Compiler::Create(*Target::Parse("cpu"), options);
  const Status s = (*other)->Build(*ir::ParseModule("func @f(x: i64[1]) {\n  x[0] = 7\n}\n"));
  EXPECT_NE(Message(s).find("'vtune'"), std::string::npos) << s;
}

class MapCache : public ObjectCache {
 public:
  std::optional<std::string> Get(const std::string& key) override {
    const std::lock_guard lock(mutex);
    auto it = objects.find(key);
    return it == objects.end() ? std::nullopt : std::optional(it->second);
  }
  void Put(const std::string& key, const std::string& object) override {
    const std::lock_guard lock(mutex);
    objects[key] = object;
  }
  std::mutex mutex;
  std::map<std::string, std::string> objects;
};

TEST(Entry, ObjectsComeFromTheCache) {
  const auto module = ir::ParseModule(kModule);
  MapCache cache;
  const Target target = *Target::Parse("cpu");
  const auto first = CompileHostModule(*module, target, {}, &cache);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->cached, 0);
  ASSERT_EQ(cache.objects.size(), 1u);
  // Under its text, not a hash of it.
  const std::string& key = cache.objects.begin()->first;
  EXPECT_NE(key.find("func @"), std::string::npos) << key;
  EXPECT_NE(key.find("fused"), std::string::npos) << key;
  const auto second = CompileHostModule(*module, target, {}, &cache);
  EXPECT_EQ(second->cached, 1);
  EXPECT_EQ(first->objects, second->objects);
  // Another CPU, other code.
  const auto third = CompileHostModule(*module, *Target::Parse("x86_64 -mcpu=x86-64-v3"), {}, &cache);
  EXPECT_EQ(third->cached, 0);
}

TEST(Entry, BadTargetsAndModulesAreErrors) {
  Target unknown = *Target::Parse("cpu");
  unknown.mcpu = "pentium99";
  const auto bad_cpu = EmitHostModule(*ir::ParseModule(kModule), unknown, {}, HostText::kLlvm);
  EXPECT_NE(Message(bad_cpu.status()).find("pentium99"), std::string::npos) << bad_cpu.status();
  const auto compiler = Compiler::Create(*Target::Parse("cpu"));
  const auto module = ir::ParseModule("func @k kernel(x: f32[1]) {\n  x[0] = 1.0\n}\n");
  EXPECT_NE(Message((*compiler)->Build(*module)).find("@k"), std::string::npos);
  const auto callee = ir::ParseModule("func @f(x: f32[1]) {\n  call @nothing(&x[0])\n}\n");
  EXPECT_NE(Message((*compiler)->Build(*callee)).find("@nothing"), std::string::npos);
  const auto self = ir::ParseModule("func @f(x: f32[1]) {\n  call @f(&x[0])\n}\n");
  EXPECT_NE(Message((*compiler)->Build(*self)).find("calls itself"), std::string::npos);
}

}  // namespace
}  // namespace cinn_like
