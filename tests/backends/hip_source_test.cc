// The HIP C++ of lowered kernels: golden text; code objects for gfx90a and gfx942 of each operator and cast on each
// dtype, where clang and its linker are; and the same text, compiled for the CPU with a stand-in for HIP's header and
// run thread by thread, against the interpreter. No test needs a GPU.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "backends/hip_compiler.h"
#include "tests/backends/kernels_on_cpu.h"
#include "tests/golden_file.h"

namespace cinn_like::backends {
namespace {

StatusOr<std::string> SourceOf(const std::string& loops) {
  ASSIGN_OR_RETURN(const ir::Module m, ir::ParseModule(loops));
  return EmitModule(m, HipDialect());
}

std::string LoopsOfFile(const std::string& name) { return ReadFile("tests/backends/golden/" + name + ".loops"); }

TEST(HipSource, Golden) {
  for (const char* name : {"pointwise_bf16", "softmax_bf16"}) {
    const StatusOr<std::string> source = SourceOf(LoopsOfFile(name));
    ASSERT_TRUE(source.ok()) << source.status();
    ExpectGolden(Cat("tests/backends/golden/", name, ".hip"), *source);
  }
}

TEST(HipSource, WhatItHasNot) {
  const auto error = [](const std::string& body) {
    return Message(
        SourceOf(Cat("func @k kernel (x: f32[64]) {\nfor t in 0..64 @threadIdx.x {\n", body, "\n}\n}\n")).status());
  };
  EXPECT_EQ(error("call cinn_bounds_error(\"@k loads x\", t, 64)"),
            "function k: no hip text for the call of cinn_bounds_error");
  EXPECT_EQ(error("call cinn_range_error(\"index\", t, 0, 9)"),
            "function k: no hip text for the call of cinn_range_error");
}

StatusOr<std::string> Compile(const std::string& loops, const std::string& arch, const CompileOptions& options = {}) {
  ASSIGN_OR_RETURN(const ir::Module m, ir::ParseModule(loops));
  ASSIGN_OR_RETURN(const Target target, Target::Parse(Cat("hip -arch=", arch)));
  ASSIGN_OR_RETURN(KernelImages r, MakeHipCompiler(target, options, nullptr)->Compile(m, ""));
  RET_CHECK(r.images.size() == 1, r.images.size());
  return std::move(r.images[0]);
}

constexpr char kCopy[] = "func @k kernel (x: f32[64]) {\nfor t in 0..64 @threadIdx.x {\nx[t] = VALUE\n}\n}\n";

std::string Kernel(const std::string& value) { return absl::StrReplaceAll(kCopy, {{"VALUE", value}}); }

// Skips what follows where there is no clang, or no linker of its.
#define SKIP_WITHOUT_CLANG()                                                                                    \
  if (const auto made = Compile(Kernel("exp(x[t])"), "gfx90a"); !made.ok()) {                                   \
    ASSERT_TRUE(absl::IsNotFound(made.status()) || absl::IsFailedPrecondition(made.status())) << made.status(); \
    GTEST_SKIP() << made.status();                                                                              \
  }

TEST(HipCompiler, CodeObjectsForBothArchs) {
  SKIP_WITHOUT_CLANG();
  for (const auto& [arch, machine] : {std::pair{"gfx90a", 0x3f}, {"gfx942", 0x4c}}) {
    for (const char* numerics : {"fused", "exact"}) {
      CompileOptions options;
      options.numerics = numerics;
      const StatusOr<std::string> code = Compile(LoopsOfFile("softmax_bf16"), arch, options);
      ASSERT_TRUE(code.ok()) << code.status();
      // An ELF shared object of AMDGPU, for that processor, with a kernel descriptor.
      ASSERT_GT(code->size(), 64u);
      EXPECT_EQ(code->substr(0, 4), "\177ELF");
      EXPECT_EQ((*code)[16], 3);
      EXPECT_EQ(static_cast<unsigned char>((*code)[18]), 0xe0);
      EXPECT_EQ(static_cast<unsigned char>((*code)[48]), machine);
      EXPECT_TRUE(absl::StrContains(*code, ".kd"));
    }
  }
}

TEST(HipCompiler, EveryOperatorAndCast) {
  SKIP_WITHOUT_CLANG();
  const StatusOr<std::string> needs_ocml = Compile(Kernel("sin(x[t])"), "gfx90a");
  if (!needs_ocml.ok()) {
    EXPECT_EQ(needs_ocml.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(Message(needs_ocml.status()), "device library ocml.bc")) << needs_ocml.status();
    GTEST_SKIP() << "no ocml.bc";
  }
  for (const char* arch : {"gfx90a", "gfx942"}) {
    const StatusOr<std::string> code = Compile(LoopsOf(EveryOperatorAndCast()), arch);
    EXPECT_TRUE(code.ok()) << code.status();
  }
}

TEST(HipCompiler, GivenSourceAndAssembly) {
  SKIP_WITHOUT_CLANG();
  const auto compiler = MakeHipCompiler(*Target::Parse("hip -arch=gfx90a"), {}, nullptr);
  const ir::Module m = *ir::ParseModule(Kernel("x[t] * 2.0"));
  const std::string own =
      "#include <hip/hip_runtime.h>\nextern \"C\" __global__ void k(float* x) { x[threadIdx.x] = 7.0f; }\n";
  const StatusOr<KernelImages> images = compiler->Compile(m, own);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ(images->kernels[0].entry, "k");
  const StatusOr<std::string> text = compiler->Emit(m, "gcn", own);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(absl::StrContains(*text, ".amdhsa_kernel k")) << *text;
  const Status wrong = compiler->Compile(m, absl::StrReplaceAll(own, {{"7.0f", "nonsense"}})).status();
  EXPECT_TRUE(absl::StrContains(Message(wrong), "use of undeclared identifier 'nonsense'")) << wrong;
  EXPECT_EQ(Message(compiler->Compile(m, "void f() {}").status()),
            "the source has no function 'k(...)'; what is generated shows its parameters");
}

constexpr char kHeaderOfHost[] = R"(#include <math.h>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
struct uint2 { unsigned int x, y; };
struct uint4 { unsigned int x, y, z, w; };
struct Index { unsigned int x = 0, y = 0, z = 0; };
static Index blockIdx, threadIdx;
)";

TEST(HipOnCpu, EveryOperatorAndCast) {
  RunOnCpu(EveryOperatorAndCast(), HipDialect(), "hip", "hip_runtime.h", kHeaderOfHost,
           "blockIdx.x = b, threadIdx.x = t, $K($A)");
}

}  // namespace
}  // namespace cinn_like::backends
