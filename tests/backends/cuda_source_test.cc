// The CUDA text of lowered kernels: golden files, and what NVRTC makes of them.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "backends/c_emitter.h"
#include "tests/backends/nvrtc_for_tests.h"
#include "tests/golden_file.h"

namespace cinn_like::backends {
namespace {

std::string CudaSourceOf(const std::string& loops) {
  auto m = ir::ParseModule(loops);
  EXPECT_TRUE(m.ok()) << m.status();
  if (!m.ok()) return "";
  auto s = EmitModule(*m, CudaDialect());
  EXPECT_TRUE(s.ok()) << s.status();
  return s.ok() ? *s : "";
}

std::string Ptx(const std::string& source, const std::string& arch = "sm_90a") {
  auto r = NvrtcForTests()->Compile({source}, {.arch = arch, .form = CudaForm::kPtx});
  EXPECT_TRUE(r.ok()) << r.status();
  return r.ok() ? (*r)[0].code : "";
}

int CountOf(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t i = text.find(part); i != text.npos; i = text.find(part, i + 1)) ++n;
  return n;
}

void CheckGolden(const std::string& name) {
  const std::string base = "tests/backends/golden/" + name;
  ExpectGolden(base + ".cu", CudaSourceOf(ReadFile(base + ".loops")));
}

TEST(CudaSource, GoldenPointwise) { CheckGolden("pointwise_bf16"); }
TEST(CudaSource, GoldenSoftmax) { CheckGolden("softmax_bf16"); }

TEST(CudaSource, GoldenMma) {
  CheckGolden("mma_bf16");
  SKIP_WITHOUT_NVRTC();
  const std::string ptx = Ptx(ReadFile("tests/backends/golden/mma_bf16.cu"), "sm_80");
  EXPECT_EQ(CountOf(ptx, "mma.sync.aligned.m16n8k16"), 4) << ptx;
  EXPECT_GE(CountOf(ptx, "ldmatrix"), 3);
}

TEST(CudaSource, PointwiseUsesWideAccesses) {
  SKIP_WITHOUT_NVRTC();
  const std::string ptx = Ptx(ReadFile("tests/backends/golden/pointwise_bf16.cu"));
  EXPECT_EQ(CountOf(ptx, "ld.global.nc.L1::no_allocate.v4"), 2) << ptx;
  EXPECT_EQ(CountOf(ptx, "st.global.v4"), 2);
  EXPECT_EQ(CountOf(ptx, "ld.global.nc.v4"), 2);  // the bias is read by every row: it may stay in L1
  EXPECT_EQ(CountOf(ptx, "cvt.rn.bf16x2.f32"), 8);
}

TEST(CudaSource, SoftmaxKeepsItsRowInRegisters) {
  SKIP_WITHOUT_NVRTC();
  const std::string ptx = Ptx(ReadFile("tests/backends/golden/softmax_bf16.cu"));
  EXPECT_EQ(CountOf(ptx, "ld.global.nc.L1::no_allocate.v4"), 2) << ptx;
  EXPECT_EQ(CountOf(ptx, "st.global.v4"), 2);
  EXPECT_EQ(CountOf(ptx, ".local"), 0);
  EXPECT_GE(CountOf(ptx, "max.NaN.f32"), 16);
}

TEST(CudaSource, HotFunctionsDoNotBranch) {
  SKIP_WITHOUT_NVRTC();
  const std::string ptx = Ptx(ReadFile("tests/backends/golden/pointwise_bf16.cu"));
  EXPECT_EQ(CountOf(ptx, "bra"), 0) << ptx;
}

// Every operator, cast and shuffle on every dtype, for the oldest and a new arch.
TEST(CudaSource, EverythingCompiles) {
  SKIP_WITHOUT_NVRTC();
  const std::string all = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64";
  std::string text;
  int count = 0;
  auto kernel = [&](std::string_view in, std::string_view out, std::string_view value) {
    text += Cat("func @k", count++, " kernel (x: ", in, "[64], z: ", in, "[64], y: ", out,
                "[64]) {\nfor t in 0..64 @threadIdx.x {\n", "let a = x[t]\nlet b = z[t]\ny[t] = ", value, "\n}\n}\n");
  };
  const std::vector<std::string> dtypes = absl::StrSplit(all, ' ');
  for (const std::string& t : dtypes) {
    for (const std::string& u : dtypes) kernel(t, u, Cat(u, "(a)"));
    kernel(t, t, "shuffle_xor(a, i32(1))");
    kernel(t, t, "select(t < 5, a, b)");
    if (t == "f16" || t == "bf16" || t == "bool") continue;
    for (const char* v :
         {"a + b", "a - b", "a * b", "tdiv(a, b)", "tmod(a, b)", "min(a, b)", "max(a, b)", "neg(a)", "abs(a)"})
      kernel(t, t, v);
    for (const char* v : {"a == b", "a != b", "a < b", "a <= b"}) kernel(t, "bool", v);
    if (t[0] == 'f') {
      for (const char* v : {"a / b", "a % b", "fma(a, b, a)", "exp(a)", "exp2(a)", "expm1(a)", "log(a)", "log1p(a)",
                            "sqrt(a)", "rsqrt(a)", "tanh(a)", "erf(a)", "sin(a)", "cos(a)", "pow(a, b)", "floor(a)",
                            "ceil(a)", "round(a)", "trunc(a)"}) {
        kernel(t, t, v);
      }
      kernel(t, t, Cat("max(a, ", t, "(-inf))"));
      kernel(t, "bool", "isnan(a)");
    } else {
      for (const char* v : {"a | b", "a & b", "a ^ b", "not(a)", "a << b", "a >> b"}) kernel(t, t, v);
    }
  }
  const std::string source = CudaSourceOf(text);
  for (const char* arch : {"sm_75", "sm_90a"}) {
    const std::string ptx = Ptx(source, arch);
    EXPECT_EQ(CountOf(ptx, ".entry k"), count);
  }
}

// A thread that skips a shuffle leaves its partners with an undefined value.
TEST(CudaSource, ShufflesAreNotConditional) {
  std::string text;
  for (const char* v : {"a | shuffle_xor(a, i32(4))", "a & shuffle_xor(a, i32(4))",
                        "select(a, shuffle_xor(a, i32(2)), false)", "select(a, false, shuffle_xor(a, i32(2)))"}) {
    text += Cat("func @k", text.size(), " kernel (x: bool[64], y: bool[64]) {\nfor t in 0..64 @threadIdx.x {\n",
                "let a = x[t]\ny[t] = ", v, "\n}\n}\n");
  }
  int shuffles = 0;
  for (absl::string_view line : absl::StrSplit(CudaSourceOf(text), '\n')) {
    if (!absl::StrContains(line, "__shfl")) continue;
    ++shuffles;
    EXPECT_FALSE(absl::StrContains(line, "||") || absl::StrContains(line, "&&") || absl::StrContains(line, "?"))
        << line;
  }
  EXPECT_EQ(shuffles, 4);
}

// A load that is kept inside by the condition under which its value is taken is read before that is asked; the rest of
// a loop takes no registers for being unrolled.
TEST(CudaSource, LoadsKeptInsideDoNotWait) {
  const std::string source = CudaSourceOf(R"(func @k kernel (x: f32[64], y: f32[64], n: i64) {
    for t in 0..64 @threadIdx.x {
      if n < 64 {
        y[t] = x[t]
      } else {
        for k in 0..4 {
          y[t] = y[t] + select(t + k < n, x[select(t + k < n, t + k, n - 1)], 0.0)
        }
      }
    }
  })");
  EXPECT_TRUE(absl::StrContains(source, "const float t2 = p0[t1 ? t0 : n0 - 1LL];")) << source;
  EXPECT_FALSE(absl::StrContains(source, "? p0[")) << source;
  EXPECT_TRUE(absl::StrContains(source, "#pragma unroll 1\n")) << source;
}

// What a kernel writes is read as it is: a read-only load of whichever of two is chosen may be older.
TEST(CudaSource, ChoicesBetweenWhatIsReadAndWhatIsWritten) {
  const std::string source = CudaSourceOf(R"(func @k kernel (x: f32[64], y: f32[32]) {
    for t in 0..32 @threadIdx.x {
      y[t] = 1.0
      let first = y[t] < x[t]
      y[t] = select(first, x[t], y[t])
      let second = y[t] < x[t + 32]
      y[t] = select(second, x[t + 32], y[t])
    }
  })");
  EXPECT_TRUE(absl::StrContains(source, "(const float* p0, float* p1)")) << source;
  SKIP_WITHOUT_NVRTC();
  const std::string ptx = Ptx(source);
  EXPECT_EQ(CountOf(ptx, "ld.global.nc"), 0) << ptx;
  EXPECT_TRUE(absl::StrContains(CudaSourceOf(R"(func @k kernel (x: f32[64], y: f32[32]) {
    for t in 0..32 @threadIdx.x {
      y[t] = y[t] + x[t]
    }
  })"),
                                "(const float* __restrict__ p0, float* __restrict__ p1)"));
}

// The only thread of a block waits for nobody; PoCL's compiler ends the process at some loops of such barriers.
TEST(CudaSource, OneThreadNeedsNoBarriers) {
  const auto source = [](int threads) {
    return CudaSourceOf(Cat("func @k kernel (x: f32[64]) {\n  for t in 0..", threads, R"( @threadIdx.x {
    alloc s: f32[1] @shared
    s[0] = x[0]
    barrier
    x[1] = s[0]
  }
})"));
  };
  EXPECT_FALSE(absl::StrContains(source(1), "__syncthreads"));
  EXPECT_TRUE(absl::StrContains(source(2), "__syncthreads"));
}

TEST(CudaSource, MuchSharedMemoryIsDynamic) {
  const std::string source = CudaSourceOf(R"(func @k kernel (x: f32[64]) {
    for t in 0..64 @threadIdx.x {
      alloc a: f32[8192] @shared
      alloc b: bf16[16384] @shared
      a[t] = x[t]
      b[ramp(t * 8, 1, 8)] = bf16(a[ramp(t * 8, 1, 8)])
      barrier
      x[t] = f32(b[t])
    }
  })");
  EXPECT_TRUE(absl::StrContains(source, "extern __shared__ __align__(16) unsigned char cinn_shared[];")) << source;
  EXPECT_TRUE(absl::StrContains(source, "unsigned short* const s1 = (unsigned short*)(cinn_shared + 32768);"));
  EXPECT_TRUE(absl::StrContains(source, "*(uint4*)(s1 + ")) << source;
  SKIP_WITHOUT_NVRTC();
  EXPECT_FALSE(Ptx(source).empty());
}

}  // namespace
}  // namespace cinn_like::backends
