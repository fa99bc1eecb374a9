#include "backends/kernel_resources.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "cinn_like/module_driver.h"
#include "tests/backends/nvrtc_for_tests.h"

namespace cinn_like::backends {
namespace {

constexpr char kLog[] = R"(kernels.cu(3): warning #177-D: variable "i" was declared but never referenced
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k12' for 'sm_80'
ptxas info    : Function properties for k12
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 2048 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'k34' for 'sm_80'
ptxas info    : Function properties for k34
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 372 bytes cmem[0]
)";

// Launches @b_kernel twice.
constexpr char kModule[] = R"(
func @a_kernel kernel (x: f32[64]) {
  for t in 0..64 @threadIdx.x { x[t] = 1.0 }
}
func @b_kernel kernel (x: f32[64]) {
  for t in 0..32 @threadIdx.x { x[t] = 1.0 }
}
func @f(x: f32[64], n: i64) where n in 1..99 {
  launch @a_kernel grid(1, 1, 1) block(64, 1, 1) shared n * 64 (&x[0])
  launch @b_kernel grid(1, 1, 1) block(32, 1, 1) shared 0 (&x[0])
  launch @b_kernel grid(2, 1, 1) block(32, 1, 1) shared 0 (&x[0])
}
)";

TEST(KernelResources, AreATable) {
  const auto m = ir::ParseModule(kModule);
  ASSERT_TRUE(m.ok()) << m.status();
  const auto text = DescribeKernelResources(*m, {{"a_kernel", "k12"}, {"b_kernel", "k34"}}, kLog);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            "kernel    threads     registers  spilled  stack  static shared  dynamic shared\n"
            "a_kernel  64 x 1 x 1        255       20     16           2048          n * 64\n"
            "b_kernel  32 x 1 x 1          8        0      0              0               0\n");
}

TEST(KernelResources, WhatTheLogLacks) {
  const auto m = ir::ParseModule(kModule);
  EXPECT_EQ(Message(DescribeKernelResources(*m, {{"a_kernel", "k56"}}, kLog).status()),
            "kernel a_kernel: its compiler says nothing of 'k56'");
  EXPECT_EQ(Message(ParseKernelResources("ptxas info : Compiling entry function 'k' for 'sm_80'\n").status()),
            "the compiler's log has no registers of 'k'");
  EXPECT_TRUE(ParseKernelResources("")->empty());
}

// 64 KiB are more than a kernel has without asking.
constexpr char kStaged[] = R"(
func @turn(x: f32[128, 128], y: f32[128, 128] out) {
  alloc t: f32[128, 128] @ROOM
  for b in 0..1 @blockIdx.x {
    for i in 0..128 @threadIdx.x {
      for j in 0..128 { block b_t(vi in 0..128 = i, vj in 0..128 = j) { t[vi, vj] = x[vi, vj] } }
    }
    for p in 0..128 @threadIdx.x {
      for q in 0..128 { block b_y(vp in 0..128 = p, vq in 0..128 = q) { y[vp, vq] = t[vq, vp] } }
    }
  }
}
)";

StatusOr<std::string> Resources(SourceHooks hooks = {}) {
  std::string text = kStaged;
  text.replace(text.find("ROOM"), 4, "shared");
  Devices devices = Devices::BuiltIn();
  if (!hooks.source.empty() || hooks.compile) RETURN_IF_ERROR(devices.SetHooks("cuda", std::move(hooks)));
  ASSIGN_OR_RETURN(const CompileOptions options, CompileOptions::FromFlags());
  ASSIGN_OR_RETURN(const auto f, LowerModuleText(text, "", *Target::Parse("cuda -arch=sm_80"), options, devices));
  return f->Source("resources");
}

TEST(KernelResources, OfWhatNvrtcMakes) {
  SKIP_WITHOUT_NVRTC();
  const auto text = Resources();
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(absl::StrContains(*text, "turn_k0_kernel  128 x 1 x 1")) << *text;
  EXPECT_TRUE(absl::StrContains(*text, " 65536\n")) << *text;
  SourceHooks hooks;
  hooks.source =
      "extern \"C\" __global__ void turn_k0_kernel(const float* x, float* y) {\n"
      "  __shared__ float t[100];\n  t[threadIdx.x % 100] = x[0];\n  __syncthreads();\n"
      "  y[threadIdx.x] = t[(threadIdx.x + 1) % 100];\n}\n";
  const auto own = Resources(hooks);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_TRUE(absl::StrContains(*own, " 400 ")) << *own;
}

TEST(KernelResources, ACallersCompilerTellsNone) {
  SourceHooks hooks;
  hooks.compile = [](const CompileRequest& request) -> StatusOr<std::string> {
    EXPECT_EQ(request.options.back(), "--ptxas-options=-v");
    return "\177ELF";
  };
  const auto text = Resources(hooks);
  EXPECT_TRUE(absl::StrContains(Message(text.status()), "kernel turn_k0_kernel: its compiler says nothing of 'k"))
      << text.status();
}

}  // namespace
}  // namespace cinn_like::backends
