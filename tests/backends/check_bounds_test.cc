// --cinn_check_bounds: loops that are wrong on purpose fail with function, buffer, index and bounds, and touch nothing.
#include <array>
#include <vector>

#include "absl/strings/match.h"
#include "backends/cuda_compiler.h"
#include "ir/lower.h"
#include "runtime/device_api.h"
#include "runtime/last_error.h"
#include "tests/backends/jit_test_util.h"
#include "tests/backends/nvrtc_for_tests.h"

namespace cinn_like {
namespace {

CompileOptions Checked() {
  CompileOptions options;
  options.check_bounds = true;
  return options;
}

// What a call of the only function fails with; "" where it does not.
std::string FailureOf(const std::string& body, std::vector<float>& x, std::vector<float>& y) {
  const auto c = CompileForTest(Cat("func @f(x: f32[64], y: f32[64], n: i64) {\n", body, "\n}\n"), "cpu", Checked());
  const int32_t code = CallInternal(*c, "f", x.data(), y.data(), int64_t{64});
  return code == 0 ? "" : Message(LastErrorStatus(code));
}

TEST(CheckBounds, WrongLoopsFailAndTouchNothing) {
  struct Case {
    const char* body;
    const char* error;
  };
  for (const Case& c : {
           Case{"for i in 0..n { y[i] = x[i] }", ""},
           {"for i in 0..n + 1 { y[i] = 1.0 }", "@f stores to y[i] outside of it: expected 0 to 63, got 64"},
           {"for i in 0..n { y[i] = x[i - 1] }", "@f loads x[i - 1] outside of it: expected 0 to 63, got -1"},
           {"for i in 0..n { y[i] = x[i - 1; 0 < i] }", ""},
           {"for i in 0..n { y[i + 1; i < n] = x[i] }",
            "@f stores to y[i + 1] outside of it: expected 0 to 63, got 64"},
           {"for i in 0..n { if i < n - 1 { y[i + 1] = x[i] } }", ""},
           // The index is itself loaded: it is asked first.
           {"for i in 0..n { y[i] = x[i64(x[i - 1])] }", "@f loads x[i - 1] outside of it: expected 0 to 63, got -1"},
           {"for i in 0..n { y[i] = x[i64(x[i])] }", "@f loads x[i64(x[i])] outside of it: expected 0 to 63, got 64"},
           // Vectors, at their ends and under their masks.
           {"for i in 0..n / 16 { for j in 0..16 @vectorized { y[i * 16 + j + 8] = x[i * 16 + j] } }",
            "@f stores to y[ramp(i * 16 + 8, 1, 16)] outside of it: expected 0 to 63, got 71"},
           {"for i in 0..n / 16 { for j in 0..16 @vectorized { if i * 16 + j < n - 8 {"
            "y[i * 16 + j + 8] = x[i * 16 + j] } } }",
            ""},
           {"for i in 0..n / 16 { for j in 0..16 @vectorized { y[i * 16 + j] = x[i * 16 + 14 - j] } }",
            "@f loads x[ramp(i * 16 + 14, -1, 16)] outside of it: expected 0 to 63, got -1"},
           {"for i in 0..n / 16 { for j in 0..16 @vectorized { y[i * 16 + j] = x[i64(x[i * 16 + j])] } }",
            "outside of it: expected 0 to 63, got 64"},
           // The text reaches the caller from a parallel loop, too.
           {"for i in 0..n @parallel { y[i + 32] = x[i] }",
            "@f stores to y[i + 32] outside of it: expected 0 to 63, got 64"},
           // Scratch memory.
           {"alloc t: f32[8] @local\nfor i in 0..n { t[i64(x[i])] = x[i]\ny[i] = t[0] }",
            "@f stores to t[i64(x[i])] outside of it: expected 0 to 7, got 8"},
       }) {
    SCOPED_TRACE(c.body);
    std::vector<float> x(64), y(128, 7);
    for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i < 40 ? i : 64);
    const std::string error = FailureOf(c.body, x, y);
    EXPECT_EQ(error.empty(), std::string_view(c.error).empty()) << error;
    EXPECT_TRUE(absl::StrContains(error, c.error)) << error;
    for (int i = 64; i < 128; ++i) ASSERT_EQ(y[i], 7);
  }
}

// What is known to stay inside costs nothing, and without the flag nothing is asked.
TEST(CheckBounds, AsksOnlyWhatIsNotKnown) {
  const auto lowered = [](const CompileOptions& options) {
    const auto m = ir::ParseModule(R"(
func @f(x: f32[64], y: f32[64], n: i64) {
  for i in 0..8 { for j in 0..8 { y[i * 8 + j] = x[i * 8 + 7 - j] } }
}
func @g(x: f32[64], y: f32[64], n: i64) {
  for k in 0..n { y[k] = x[k] }
}
)");
    EXPECT_TRUE(m.ok()) << m.status();
    const auto r = ir::LowerModule(*m, {options, *Target::Parse("cpu"), "test"});
    EXPECT_TRUE(r.ok()) << r.status();
    return *r;
  };
  const ir::Module with = lowered(Checked()), without = lowered({});
  EXPECT_EQ(ir::Print(with.funcs[0]), ir::Print(without.funcs[0]));
  EXPECT_TRUE(absl::StrContains(ir::Print(with.funcs[1]), "cinn_bounds_error"));
  EXPECT_FALSE(absl::StrContains(ir::Print(without), "cinn_bounds_error"));
}

constexpr char kOnGpu[] = R"(
func @shift(x: f32[256], y: f32[256]) {
  for b in 0..4 @blockIdx.x { for t in 0..64 @threadIdx.x { y[b * 64 + t] = x[b * 64 + t + 3] } }
}
func @wrong entry cuda (x: f32[256], y: f32[256] out) {
  call @shift(&x[0], &y[0])
}
func @copy(u: f32[256], v: f32[256]) {
  for b in 0..4 @blockIdx.x { for t in 0..64 @threadIdx.x { v[b * 64 + t] = u[b * 64 + t; b * 64 + t < 250] } }
}
func @right entry cuda (u: f32[256], v: f32[256] out) {
  call @copy(&u[0], &v[0])
}
)";

TEST(CheckBounds, KernelsOfAGpuReport) {
  const auto m = ir::ParseModule(kOnGpu);
  ASSERT_TRUE(m.ok()) << m.status();
  const Target target = *Target::Parse("cuda -arch=sm_90a");
  const auto lowered = ir::LowerModule(*m, {Checked(), target, "test"});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const auto compiler = MakeCudaCompiler(target, Checked(), nullptr);
  const auto source = compiler->EmitSource(*lowered);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(absl::StrContains(*source, "cinn_bounds_error(\"@shift loads x[b * 64 + t + 3] outside of it\", "))
      << *source;
  EXPECT_FALSE(absl::StrContains(*source, "@copy")) << *source;
  SKIP_WITHOUT_NVRTC();
  const auto images = compiler->Compile(*lowered, "");
  EXPECT_TRUE(images.ok()) << images.status();
}

TEST(CheckBounds, ReportsBecomeErrorsOnAGpu) {
  SKIP_WITHOUT_NVRTC();
  const auto api = GetCudaDevice();
  if (!api.ok()) GTEST_SKIP() << api.status();
  const auto compiler = CompileForTest(kOnGpu, "cuda", Checked());
  constexpr int64_t kBytes = 256 * sizeof(float);
  std::array<void*, 2> memory = {*(*api)->Alloc(0, kBytes, nullptr), *(*api)->Alloc(0, kBytes, nullptr)};
  int64_t shape[] = {256};
  std::array<DLTensor, 2> tensors;
  std::array<CinnValue, 2> args = {};
  for (size_t i = 0; i < 2; ++i) {
    tensors[i] = {memory[i], {kDLCUDA, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    args[i].tag = kCinnTensor;
    args[i].tensor = &tensors[i];
  }
  CinnCallEnv env = {};
  env.size = sizeof(env);
  env.device = {kDLCUDA, 0};
  const auto call = [&](const char* name) {
    return reinterpret_cast<CinnFunctionPtr>(compiler->Lookup(name))(nullptr, args.data(), 2, &env);
  };
  for (int round = 0; round < 2; ++round) {
    const int32_t code = call("wrong");
    ASSERT_EQ(code, -static_cast<int32_t>(absl::StatusCode::kOutOfRange)) << LastError();
    const std::string error = LastError();
    EXPECT_TRUE(absl::StrContains(error, "@shift loads x[b * 64 + t + 3] outside of it: expected 0 to 255, got 25"))
        << error;
    EXPECT_TRUE(absl::StrContains(error, "in block (3, 0, 0), thread (6")) << error;
    // The context lives, and the report is cleared.
    EXPECT_EQ(call("right"), 0) << LastError();
  }
  for (void* p : memory) (*api)->Free(0, p);
}

}  // namespace
}  // namespace cinn_like
