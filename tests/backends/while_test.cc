// Loops that end when memory says so, prefetches and hints in every language: run where that can be here, else as text.
#include "backends/c_emitter.h"
#include "backends/host_compile.h"
#include "ir/lower.h"
#include "ir/passes/split_host_device.h"
#include "ir/schedule/schedule.h"
#include "tests/backends/jit_test_util.h"
#include "tests/backends/nvrtc_for_tests.h"
#include "tests/system_c.h"

namespace cinn_like::backends {
namespace {

// How often x is halved until it is below 1, summed over as many rows before as `back` says.
constexpr std::string_view kHalve =
    R"(func @halve(x: f32[n], back: i64[n], t: f32[n], times: i32[n], y: i32[n]) where n in 1..4096 {
  for i in 0..n {
    block b_t(vi in 0..n = i) {
      times[vi] = i32(0)
      t[vi] = x[vi]
      while 1.0 <= t[vi] {
        let half = t[vi] * 0.5
        t[vi] = half
        times[vi] = times[vi] + i32(1)
      }
    }
  }
  for k in 0..n {
    block b_y(wk in 0..n = k) {
      y[wk] = i32(0)
      for r in 0..min(max(back[wk], 0), wk + 1) {
        y[wk] = y[wk] + times[wk - r]
      }
    }
  }
}
)";
constexpr int64_t kN = 100;

struct Arrays {
  std::vector<float> x, t;
  std::vector<int64_t> back;
  std::vector<int32_t> times, y;
  Arrays() : x(kN), t(kN), back(kN), times(kN), y(kN) {
    for (int64_t i = 0; i < kN; ++i) {
      x[static_cast<size_t>(i)] = static_cast<float>((i * 37) % 91) - 5;
      back[static_cast<size_t>(i)] = (i * 13) % 7 - 1;
    }
  }
  void Expect(const std::string& of) const {
    for (int64_t i = 0; i < kN; ++i) {
      int32_t want = 0;
      for (int64_t r = 0; r < std::min(std::max<int64_t>(back[static_cast<size_t>(i)], 0), i + 1); ++r) {
        for (float v = x[static_cast<size_t>(i - r)]; 1 <= v; v /= 2) ++want;
      }
      ASSERT_EQ(y[static_cast<size_t>(i)], want) << of << ", at " << i;
    }
  }
};

// With n as a parameter of its own.
ir::Module Lowered(std::string_view text, std::string_view steps, const std::string& target) {
  const PassContext context{.options = {}, .target = *Target::Parse(target), .name = "test"};
  StatusOr<ir::Func> f = ir::ApplySchedule(*ir::ParseFunc(text), steps);
  EXPECT_TRUE(f.ok()) << f.status();
  f->params.push_back({.var = f->symbols[0].var});
  f = ir::LowerKernel(*std::move(f), context);
  EXPECT_TRUE(f.ok()) << f.status();
  ir::Module m{f->context, {*f}};
  return context.target.HasKernels() ? *ir::SplitHostDevice(std::move(m), context.target.device->limits) : m;
}
std::string Text(const ir::Module& m, const Dialect& d) {
  const StatusOr<std::string> r = EmitModule(m, d);
  EXPECT_TRUE(r.ok()) << r.status() << ir::Print(m);
  return r.value_or("");
}
bool Has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

constexpr std::string_view kHints = "prefetch x i 8\nannotate i unroll=4\nprefetch back k 3\nannotate k vectorize=off";

TEST(While, RunsOnThisMachine) {
  for (const std::string_view steps : {std::string_view(), std::string_view("parallel i\nparallel k"), kHints}) {
    const ir::Module m = Lowered(kHalve, steps, "cpu");
    const auto c = CompileForTest(m);
    Arrays a;
    EXPECT_EQ(CallInternal(*c, "halve", a.x.data(), a.back.data(), a.t.data(), a.times.data(), a.y.data(), kN), 0);
    a.Expect(ir::Print(m));
  }
}

TEST(While, TellsLlvm) {
  const ir::Module m = Lowered(kHalve, kHints, "cpu");
  const StatusOr<std::string> text = EmitHostModule(m, *Target::Parse("cpu"), {}, HostText::kLlvm);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(Has(*text, "call void @llvm.prefetch.p0(")) << *text;
  EXPECT_TRUE(Has(*text, "!{!\"llvm.loop.unroll.count\", i32 4}")) << *text;
  EXPECT_TRUE(Has(*text, "!{!\"llvm.loop.vectorize.enable\", i1 false}")) << *text;
}

TEST(While, RunsAsC) {
  SKIP_WITHOUT_C_COMPILER();
  const std::string text = Text(Lowered(kHalve, kHints, "c"), CDialect());
  EXPECT_TRUE(Has(text, "for (;;) {")) << text;
  EXPECT_TRUE(Has(text, "cinn_prefetch(p0 + (i0 + 8LL));")) << text;
  EXPECT_TRUE(Has(text, "cinn_unroll(4)")) << text;
  for (const std::string& compiler : CCompilers()) {
    SystemC c;
    c.Load(compiler, {text}, "-O2");
    Arrays a;
    auto* f = c.Find<void(const float*, const int64_t*, float*, int32_t*, int32_t*, int64_t)>("halve");
    ASSERT_NE(f, nullptr);
    f(a.x.data(), a.back.data(), a.t.data(), a.times.data(), a.y.data(), kN);
    a.Expect(text);
  }
}

TEST(While, KernelsOfDevices) {
  const std::string steps = "split i 32 -> io ii\nbind io blockIdx.x\nsplit k 32 -> ko ki\nbind ko blockIdx.x\n" +
                            std::string("prefetch x ii 2\nannotate ki unroll=2");
  const std::string cuda = Text(Lowered(kHalve, steps, "cuda -arch=sm_90a"), CudaDialect());
  EXPECT_TRUE(Has(cuda, "for (;;) {")) << cuda;
  EXPECT_TRUE(Has(cuda, "prefetch.global.L2")) << cuda;
  EXPECT_TRUE(Has(cuda, "#pragma unroll 2\n")) << cuda;
  const std::string opencl = Text(Lowered(kHalve, steps, "opencl"), OpenClDialect());
  EXPECT_TRUE(Has(opencl, "prefetch(p0 + (")) << opencl;
  EXPECT_TRUE(Has(opencl, "#pragma unroll 2\n")) << opencl;
  // Nothing does it there.
  EXPECT_FALSE(Has(Text(Lowered(kHalve, steps, "hip -arch=gfx90a"), HipDialect()), "prefetch"));
  EXPECT_FALSE(Has(Text(Lowered(kHalve, steps, "metal"), MetalDialect()), "prefetch"));
  SKIP_WITHOUT_NVRTC();
  const auto ptx = NvrtcForTests()->Compile({cuda}, {.arch = "sm_90a", .form = CudaForm::kPtx});
  ASSERT_TRUE(ptx.ok()) << ptx.status() << cuda;
  EXPECT_TRUE(Has((*ptx)[0].code, "prefetch.global.L2")) << (*ptx)[0].code;
}

}  // namespace
}  // namespace cinn_like::backends
