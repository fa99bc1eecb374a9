// Extern calls of compiled functions: through the registry, against the interpreter, and of exported files.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "cinn_like/c_api.h"
#include "cinn_like/host_tensors.h"
#include "cinn_like/module_driver.h"
#include "ir/interpreter.h"
#include "runtime/function_registry.h"
#include "runtime/last_error.h"
#include "runtime/library.h"
#include "tests/opencl.h"
#include "tests/system_c.h"

namespace cinn_like {
namespace {

// Of every kind of argument; the rows of x lie apart.
constexpr char kText[] = R"(func @f(x: f32[n, 3] strides [4, 1], y: f64[n] out, z: i32[2, n] out) where n in 1..4096 {
  alloc t: f32[n, 3] @global
  for l_i in 0..n {
    for l_j in 0..3 {
      block b_t(i in 0..n = l_i, j in 0..3 = l_j) {
        t[i, j] = x[i, j] * 2.0
      }
    }
  }
  alloc u: f64[n] @global
  block b_u() {
    call "test.mix"(t, x, n + 1, f64(0.5), true, i8(-3), f16(1.5)) -> (u, z)
  }
  for l_p in 0..n {
    block b_y(p in 0..n = l_p) {
      y[p] = u[p] + f64(1.0)
    }
  }
}
)";

// u = row sums + the second column of x + scalars; z counts, in its second row backwards.
Status Mix(std::span<const CinnValue> args, CinnValue& result) {
  if (args.size() != 9) return InvalidArgument("expected 9 arguments, got ", args.size());
  constexpr int32_t kTags[] = {kCinnTensor, kCinnTensor, kCinnInt,    kCinnFloat, kCinnBool,
                               kCinnInt,    kCinnFloat,  kCinnTensor, kCinnTensor};
  for (size_t i = 0; i < 9; ++i) {
    if (args[i].tag != kTags[i]) return InvalidArgument("argument ", i, " has tag ", args[i].tag);
  }
  const DLTensor &t = *args[0].tensor, &x = *args[1].tensor, &u = *args[7].tensor, &z = *args[8].tensor;
  const int64_t n = t.shape[0];
  if (t.ndim != 2 || t.strides[0] != 3 || t.strides[1] != 1 || x.ndim != 2 || x.strides[0] != 4 || x.strides[1] != 1 ||
      x.shape[0] != n || x.shape[1] != 3 || args[2].i != n + 1 || z.shape[1] != n || z.dtype.code != kDLInt ||
      z.dtype.bits != 32 || u.dtype.bits != 64 || t.device.device_type != kDLCPU)
    return InvalidArgument("a tensor is not as it was written");
  for (int64_t i = 0; i < n; ++i) {
    const auto* row = static_cast<const float*>(t.data) + 3 * i;
    static_cast<double*>(u.data)[i] = double{row[0]} + row[1] + row[2] + static_cast<const float*>(x.data)[4 * i + 1] +
                                      static_cast<double>(args[2].i) + args[3].f + static_cast<double>(args[4].i) +
                                      static_cast<double>(args[5].i) + args[6].f;
    static_cast<int32_t*>(z.data)[i] = static_cast<int32_t>(i);
    static_cast<int32_t*>(z.data)[2 * n - 1 - i] = static_cast<int32_t>(i);
  }
  result = {kCinnInt, 0, {.i = 7}};  // nobody asks
  return absl::OkStatus();
}

// The registry for the interpreter.
Status CallByName(std::string_view name, const std::vector<ir::FunctionArg>& args) {
  ASSIGN_OR_RETURN(const auto f, FindFunction(name));
  std::vector<CinnValue> values;
  for (size_t i = 0; i < args.size(); ++i) {
    if (auto* const* t = std::get_if<DLTensor*>(&args[i]))
      values.push_back({kCinnTensor, 0, {.tensor = *t}});
    else if (const auto* v = std::get_if<int64_t>(&args[i]))
      values.push_back({i == 4 ? kCinnBool : kCinnInt, 0, {.i = *v}});
    else
      values.push_back({kCinnFloat, 0, {.f = std::get<double>(args[i])}});
  }
  return f->Call(values).status();
}

int32_t PackedMix(void*, const CinnValue* args, int32_t num_args, CinnValue* result) {
  return SetLastError(Mix({args, static_cast<size_t>(num_args)}, *result));
}

// Of the runtime that exported files and C text are linked with, whose symbols are there for what is loaded later.
std::pair<decltype(&CinnGlobalRegister), decltype(&CinnGlobalRemove)> RegistryOfFiles() {
  void* runtime = dlopen("libcinn_runtime.so.0", RTLD_NOW | RTLD_GLOBAL);
  EXPECT_NE(runtime, nullptr) << dlerror();
  return {reinterpret_cast<decltype(&CinnGlobalRegister)>(dlsym(runtime, "CinnGlobalRegister")),
          reinterpret_cast<decltype(&CinnGlobalRemove)>(dlsym(runtime, "CinnGlobalRemove"))};
}

class ExternTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(RegisterFunction("test.mix", &Mix).ok()); }
  void TearDown() override { RemoveFunction("test.mix").IgnoreError(); }

  static StatusOr<std::unique_ptr<CompiledFunction>> Compile(const std::string& schedule = "") {
    ASSIGN_OR_RETURN(auto f, LowerModuleText(kText, schedule, *Target::Parse("cpu"), CompileOptions{}));
    RETURN_IF_ERROR(f->Finish());
    return f;
  }

  Status Call(CinnFunctionPtr entry, void* self) {
    std::fill(y_.bytes.begin(), y_.bytes.end(), 0xff);
    std::fill(z_.bytes.begin(), z_.bytes.end(), 0xff);
    const std::vector<CinnValue> args = Arguments();
    CinnCallEnv env{};
    env.size = sizeof(env);
    env.device = {kDLCPU, 0};
    code_ = entry(self, args.data(), 3, &env);
    return LastErrorStatus(code_);
  }

  std::vector<CinnValue> Arguments() {
    std::vector<CinnValue> args;
    for (DLTensor& t : tensors_) args.push_back({kCinnTensor, 0, {.tensor = &t}});
    return args;
  }

  // As the interpreter computes them.
  void ExpectResults(const std::string& what = "") {
    if (expected_.empty()) {
      ir::HostArray y(DType::kF64, {kSize}), z(DType::kI32, {2, kSize});
      const Status judged = ir::Interpret(*ir::ParseFunc(kText), {&x_, &y, &z}, {}, {.functions = &CallByName});
      ASSERT_TRUE(judged.ok()) << judged;
      expected_ = {y.bytes, z.bytes};
    }
    EXPECT_EQ(y_.bytes, expected_[0]) << what;
    EXPECT_EQ(z_.bytes, expected_[1]) << what;
  }

  ir::HostArray x_ = [] {
    ir::HostArray x(DType::kF32, {kSize, 4});
    for (int64_t i = 0; i < x.NumElements(); ++i) x.Set(i, static_cast<double>(i * i % 11));
    return x;
  }();
  ir::HostArray y_{DType::kF64, {kSize}}, z_{DType::kI32, {2, kSize}};
  std::vector<int64_t> x_shape_ = {kSize, 3}, x_strides_ = {4, 1};
  DLTensor tensors_[3] = {{x_.bytes.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, x_shape_.data(), x_strides_.data(), 0},
                          {y_.bytes.data(), {kDLCPU, 0}, 1, {kDLFloat, 64, 1}, y_.shape.data(), nullptr, 0},
                          {z_.bytes.data(), {kDLCPU, 0}, 2, {kDLInt, 32, 1}, z_.shape.data(), nullptr, 0}};
  std::vector<std::vector<uint8_t>> expected_;
  int32_t code_ = 0;
  static constexpr int64_t kSize = 37;
};

TEST_F(ExternTest, RunsAsTheInterpreterDoes) {
  for (const char* schedule :
       {"", "split l_i 8 -> a b\nparallel a\nsplit l_p 8 -> c d\nvectorize d", "vectorize l_j"}) {
    const auto compiled = Compile(schedule);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const Status called = Call((*compiled)->entry(), (*compiled)->self());
    ASSERT_TRUE(called.ok()) << called;
    ExpectResults(schedule);
  }
}

// With memory of its own: copies, of which those of outputs come back.
TEST_F(ExternTest, RunsBetweenKernelsOfADevice) {
  SKIP_WITHOUT_OPENCL();
  CompileOptions options;
  options.disable_cache = true;
  auto f = LowerModuleText(kText, "bind l_i blockIdx.x\nbind l_j threadIdx.x\nbind l_p blockIdx.x",
                           *Target::Parse("opencl"), options);
  ASSERT_TRUE(f.ok()) << f.status();
  const auto on_host = TakeHostTensors(*std::move(f));
  const Status finished = on_host->Finish();
  ASSERT_TRUE(finished.ok()) << finished;
  const Status called = Call(on_host->entry(), on_host->self());
  ASSERT_TRUE(called.ok()) << called;
  ExpectResults();
  ASSERT_TRUE(RegisterFunction("test.mix", [](auto, auto&) { return absl::OutOfRangeError("too far"); }, true).ok());
  EXPECT_EQ(Call(on_host->entry(), on_host->self()), absl::OutOfRangeError("function 'test.mix': too far"));
}

TEST_F(ExternTest, WhatIsHandedOverIsThere) {
  std::string text = kText;
  text.replace(text.find("(t, x"), 5, "(t, &x[0, 0] as f32[n, 30]");
  EXPECT_EQ(Message(LowerModuleText(text, "", *Target::Parse("cpu"), CompileOptions{}).status()),
            "@f: function \"test.mix\" is given a part of x, expected all of it");
  text = kText;
  text.replace(text.find("(t, x"), 5, "(u, x");
  EXPECT_EQ(Message(LowerModuleText(text, "", *Target::Parse("cpu"), CompileOptions{}).status()),
            "@f: function \"test.mix\" is given u to read and to write, expected one of these");
}

TEST_F(ExternTest, FailuresAreTheCalls) {
  const auto f = Compile();
  ASSERT_TRUE(f.ok());
  ASSERT_TRUE(RegisterFunction("test.mix", [](auto, auto&) { return absl::OutOfRangeError("too far"); }, true).ok());
  EXPECT_EQ(Call((*f)->entry(), (*f)->self()), absl::OutOfRangeError("function 'test.mix': too far"));
  ASSERT_TRUE(RemoveFunction("test.mix").ok());
  const Status unknown = Call((*f)->entry(), (*f)->self());
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(Message(unknown), "no function 'test.mix' is registered")) << unknown;
  ASSERT_TRUE(RegisterFunction("test.mix", &Mix).ok());
  EXPECT_TRUE(Call((*f)->entry(), (*f)->self()).ok());
}

// The file's code asks the registry of the runtime that loads it.
TEST_F(ExternTest, Libraries) {
  const auto f = Compile();
  ASSERT_TRUE(f.ok());
  const std::string path = (std::filesystem::temp_directory_path() / "cinn_extern_test.so").string();
  const Status written = (*f)->ExportLibrary(path, {});
  ASSERT_TRUE(written.ok()) << written;
  CinnLibrary* library = nullptr;
  ASSERT_EQ(CinnLibraryOpen(path.c_str(), &library), 0) << CinnLibraryError();
  const CinnFunctionPtr entry = CinnLibraryLookup(library, "f");
  ASSERT_NE(entry, nullptr);
  EXPECT_FALSE(Call(entry, nullptr).ok());
  EXPECT_TRUE(absl::StrContains(CinnLibraryError(), "no function 'test.mix' is registered")) << CinnLibraryError();
  const auto [add, remove] = RegistryOfFiles();
  ASSERT_EQ(add("test.mix", &PackedMix, nullptr, nullptr, 0), 0) << CinnLibraryError();
  Call(entry, nullptr).IgnoreError();
  EXPECT_EQ(code_, 0) << CinnLibraryError();
  ExpectResults();
  EXPECT_EQ(remove("test.mix"), 0);
  CinnLibraryClose(library);
  std::filesystem::remove(path);
}

// So does C text, which is linked with it.
TEST_F(ExternTest, C) {
  SKIP_WITHOUT_C_COMPILER();
  const auto f = LowerModuleText(kText, "parallel l_i", *Target::Parse("c"), CompileOptions{});
  ASSERT_TRUE(f.ok()) << f.status();
  const auto text = (*f)->Source("c");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(absl::StrContains(*text, "with libm and libcinn_runtime")) << *text;
  const auto [add, remove] = RegistryOfFiles();
  SystemC c;
  for (const std::string& compiler : CCompilers()) {
    c.Load(compiler, {*text}, "-O2");
    auto* entry = c.Find<int32_t(void*, const CinnValue*, int32_t, const CinnCallEnv*)>("f");
    ASSERT_NE(entry, nullptr);
    Call(entry, nullptr).IgnoreError();
    EXPECT_EQ(code_, -static_cast<int>(absl::StatusCode::kNotFound));
    EXPECT_TRUE(absl::StrContains(CinnLibraryError(), "no function 'test.mix' is registered")) << CinnLibraryError();
    ASSERT_EQ(add("test.mix", &PackedMix, nullptr, nullptr, 0), 0) << CinnLibraryError();
    Call(entry, nullptr).IgnoreError();
    EXPECT_EQ(code_, 0) << CinnLibraryError();
    ExpectResults(compiler);
    EXPECT_EQ(remove("test.mix"), 0);
  }
}

TEST_F(ExternTest, PackedCallsOfCompiledFunctions) {
  CinnFunction* f = nullptr;
  ASSERT_EQ(CinnLowerModule(kText, "", "cpu", nullptr, &f), 0) << CinnLastError();
  CinnValue result{};
  EXPECT_EQ(CinnFunctionCallPacked(f, nullptr, 0, &result), -1);
  EXPECT_STREQ(CinnLastError(), "f: it is not finished (CinnFinish)");
  ASSERT_EQ(CinnFinish(f), 0);
  EXPECT_EQ(CinnFunctionCallPacked(f, nullptr, 0, &result), -1);
  EXPECT_STREQ(CinnLastError(),
               "f: expected 1 arguments, and none or 2 tensors for results, those of @f(x: f32[n,3]) -> "
               "f64[n], i32[2,n], got 0");
  EXPECT_EQ(CinnFunctionCallPacked(nullptr, nullptr, 0, &result), -1);
  // By name, and released with it.
  const auto release = [](void* fn) { CinnReleaseFunction(static_cast<CinnFunction*>(fn)); };
  ASSERT_EQ(CinnGlobalRegister("test.f", &CinnFunctionCallPacked, f, release, 0), 0) << CinnLastError();
  const auto packed = FindFunction("test.f");
  ASSERT_TRUE(packed.ok());
  const std::vector<CinnValue> args = Arguments();
  const auto called = (*packed)->Call(args);
  ASSERT_TRUE(called.ok()) << called.status();
  EXPECT_EQ(called->tag, kCinnNone);
  EXPECT_EQ(z_.GetInt(kSize - 1), kSize - 1);
  EXPECT_TRUE(absl::StrContains(Message((*packed)->Call({args.data(), 1}).status()), "function 'test.f': "));
  EXPECT_TRUE(RemoveFunction("test.f").ok());
}

}  // namespace
}  // namespace cinn_like
