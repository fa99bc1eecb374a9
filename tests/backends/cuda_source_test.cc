// The CUDA text of lowered kernels: golden files (re-blessed with CINN_BLESS=1), and what NVRTC makes of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "backends/c_emitter.h"
#include "tests/backends/nvrtc_for_tests.h"

namespace cinn_like::backends {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

std::string CudaSourceOf(const std::string& loops) {
  auto m = ir::ParseModule(loops);
  EXPECT_TRUE(m.ok()) << m.status();
  if (!m.ok()) return "";
  auto s = EmitModule(*m, CudaDialect());
  EXPECT_TRUE(s.ok()) << s.status();
  return s.ok() ? *s : "";
}

std::string Ptx(const std::string& source, const std::string& arch = "sm_90a") {
  auto r = NvrtcForTests()->Compile({source}, {.arch = arch, .ptx = true});
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
  const std::string source = CudaSourceOf(ReadFile(base + ".loops"));
  if (getenv("CINN_BLESS") != nullptr) std::ofstream(base + ".cu") << source;
  EXPECT_EQ(source, ReadFile(base + ".cu"));
}

TEST(CudaSource, GoldenPointwise) { CheckGolden("pointwise_bf16"); }
TEST(CudaSource, GoldenSoftmax) { CheckGolden("softmax_bf16"); }

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

}  // namespace
}  // namespace cinn_like::backends
