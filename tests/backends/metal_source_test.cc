// The Metal source of lowered kernels: golden text; and the text of each operator and cast on each dtype, compiled for
// the CPU with a stand-in for Metal's header and run thread by thread, against the interpreter. Apple's compiler has
// seen none of it.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "backends/c_emitter.h"
#include "tests/backends/kernels_on_cpu.h"
#include "tests/golden_file.h"

namespace cinn_like::backends {
namespace {

// Of the first function of loop text.
StatusOr<std::string> SourceOf(const std::string& loops) {
  ASSIGN_OR_RETURN(ir::Module m, ir::ParseModule(loops));
  m.funcs.resize(1);
  return EmitModule(m, MetalDialect());
}

// Vectors of bf16; memory of a block at the start of the kernel, barriers and half floats.
TEST(MetalSource, Golden) {
  for (const char* name : {"pointwise_bf16", "rows_shared"}) {
    const std::string base = Cat("tests/backends/golden/", name);
    const StatusOr<std::string> source = SourceOf(ReadFile(base + ".loops"));
    ASSERT_TRUE(source.ok()) << source.status();
    ExpectGolden(base + ".metal", *source);
  }
}

TEST(MetalSource, WhatItHasNot) {
  const auto error = [](const std::string& params, const std::string& body) {
    return Message(
        SourceOf(Cat("func @k kernel (", params, ") {\nfor t in 0..64 @threadIdx.x {\n", body, "\n}\n}\n")).status());
  };
  EXPECT_EQ(error("x: f32[64]", "call cinn_range_error(\"index\", t, 0, 9)"),
            "function k: no metal text for the call of cinn_range_error");
  EXPECT_EQ(error("x: f32[64]", "x[t] = shuffle_xor(x[t], i32(1))"),
            "function k: no metal text for shuffle_xor of f32 in shuffle_xor(x[t], i32(1))");
  EXPECT_EQ(error("x: f64[64]", "x[t] = x[t]"), "function k: no metal text for a parameter of f64");
  EXPECT_EQ(error("x: f32[64]", "x[t] = f32(exp(f64(x[t])))").substr(0, 37), "function k: no metal text for f64 in ");
  std::string many;
  for (int i = 0; i < 32; ++i) many += Cat(i == 0 ? "" : ", ", "x", i, ": f32[64]");
  EXPECT_EQ(error(many, "x0[t] = x1[t]"), "function k: no metal text for 32 parameters: a kernel has at most 31");
}

constexpr char kHeaderOfHost[] = R"(#include <math.h>
#define device
#define constant const
#define threadgroup
#define kernel
using uchar = unsigned char;
using half = _Float16;
struct uint2 { unsigned int x, y; };
struct uint3 { unsigned int x, y, z; };
struct uint4 { unsigned int x, y, z, w; };
template <class To, class From> To as_type(From v) { return __builtin_bit_cast(To, v); }
namespace metal {
inline float rsqrt(float a) { return 1 / sqrtf(a); }
}
)";

TEST(MetalOnCpu, EveryOperatorAndCast) {
  std::vector<KernelCase> cases = EveryOperatorAndCast();
  std::erase_if(cases, [](const KernelCase& c) { return c.in == DType::kF64 || c.out == DType::kF64; });
  RunOnCpu(cases, MetalDialect(), ".", "metal_stdlib", kHeaderOfHost, "$K($A, {b, 0, 0}, {t, 0, 0})");
}

}  // namespace
}  // namespace cinn_like::backends
