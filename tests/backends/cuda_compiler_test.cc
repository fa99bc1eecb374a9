#include "backends/cuda_compiler.h"

#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "ir/passes/split_host_device.h"
#include "runtime/cuda_driver.h"
#include "runtime/waiting_kernels.h"
#include "tests/backends/nvrtc_for_tests.h"

namespace cinn_like {
namespace {

class MapCache : public ObjectCache {
 public:
  std::optional<std::string> Get(const std::string& key) override {
    ++gets;
    auto it = map.find(key);
    if (it == map.end()) return std::nullopt;
    return it->second;
  }
  void Put(const std::string& key, const std::string& object) override { map[key] = object; }
  std::map<std::string, std::string> map;
  int gets = 0;
};

// Three kernels, of which two are equal but for names.
ir::Module ThreeKernels(std::string_view factor = "2.0") {
  auto kernel = [](std::string_view f, std::string_view x, std::string_view y, std::string_view scale) {
    return Cat("func @", f, "(", x, ": f32[n * 256] align 16, ", y,
               ": f32[n * 256] align 16, n: i64) where n in 1..99 {\n", "for b", f, " in 0..n @blockIdx.x { for t", f,
               " in 0..64 @threadIdx.x {\n", y, "[ramp(b", f, " * 256 + t", f, " * 4, 1, 4)] = ", x, "[ramp(b", f,
               " * 256 + t", f, " * 4, 1, 4)] * broadcast(", scale, ", 4) } } }\n");
  };
  auto m = ir::ParseModule(
      Cat(kernel("a", "x", "y", "2.0"), kernel("b", "u", "v", "2.0"), kernel("c", "x", "y", Cat(factor, " + 1.0"))));
  EXPECT_TRUE(m.ok()) << m.status();
  auto split = ir::SplitHostDevice(*m);
  EXPECT_TRUE(split.ok()) << split.status();
  return *split;
}

std::string OwnKernels(std::string_view body) {
  std::string r;
  for (const char* name : {"a", "b", "c"})
    r += Cat("extern \"C\" __global__ void ", name, "_kernel(float* x) { ", body, " }\n");
  return r;
}

std::unique_ptr<DeviceCompiler> MakeCompiler(ObjectCache* cache = nullptr, CompileOptions options = {},
                                             std::string arch = "sm_90a") {
  Target t;
  t.device = &CudaKind();
  t.arch = std::move(arch);
  auto flags = CompileOptions::FromFlags();
  if (flags.ok()) options.nvrtc = flags->nvrtc;
  return MakeCudaCompiler(t, options, cache);
}

bool IsElf(const std::string& s) { return s.substr(0, 4) == "\177ELF"; }

TEST(CudaCompiler, SourceHasEqualKernelsOnce) {
  const auto source = MakeCompiler()->EmitSource(ThreeKernels());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(absl::StrContains(*source, "// a_kernel, b_kernel\n")) << *source;
  EXPECT_TRUE(absl::StrContains(*source, "// c_kernel\n"));
}

TEST(CudaCompiler, EqualKernelsCompileOnceToCubin) {
  SKIP_WITHOUT_NVRTC();
  const auto r = MakeCompiler()->Compile(ThreeKernels(), "");
  ASSERT_TRUE(r.ok()) << r.status();
  ASSERT_EQ(r->kernels.size(), 3u);
  std::map<std::string, KernelImages::Kernel> by_name;
  for (const auto& k : r->kernels) {
    by_name[k.name] = k;
    ASSERT_LT(k.image, r->images.size());
    EXPECT_TRUE(IsElf(r->images[k.image]));
    EXPECT_TRUE(absl::StrContains(r->images[k.image], k.entry));
  }
  EXPECT_EQ(by_name["a_kernel"].entry, by_name["b_kernel"].entry);
  EXPECT_NE(by_name["a_kernel"].entry, by_name["c_kernel"].entry);
  // The same text gives the same bytes.
  const auto again = MakeCompiler()->Compile(ThreeKernels(), "");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->images, r->images);
}

TEST(CudaCompiler, CacheServesKernelsOfOtherModules) {
  SKIP_WITHOUT_NVRTC();
  MapCache cache;
  const auto cold = MakeCompiler(&cache)->Compile(ThreeKernels(), "");
  ASSERT_TRUE(cold.ok()) << cold.status();
  const auto size = cache.map.size();
  const auto warm = MakeCompiler(&cache)->Compile(ThreeKernels(), "");
  ASSERT_TRUE(warm.ok());
  EXPECT_EQ(cache.map.size(), size);
  EXPECT_EQ(warm->images.size(), cold->images.size());
  // @a and @b are known, @c is new.
  const auto mixed = MakeCompiler(&cache)->Compile(ThreeKernels("5.0"), "");
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(cache.map.size(), size + 2);
  // Other arch, other numerics: nothing is shared.
  CompileOptions exact;
  exact.numerics = "exact";
  ASSERT_TRUE(MakeCompiler(&cache, exact)->Compile(ThreeKernels(), "").ok());
  EXPECT_EQ(cache.map.size(), 2 * size + 2);
  ASSERT_TRUE(MakeCompiler(&cache, {}, "sm_80")->Compile(ThreeKernels(), "").ok());
  EXPECT_EQ(cache.map.size(), 3 * size + 2);
  // A program that was evicted is a miss of its kernels.
  std::erase_if(cache.map, [](const auto& e) { return IsElf(e.second); });
  const auto after = MakeCompiler(&cache)->Compile(ThreeKernels(), "");
  ASSERT_TRUE(after.ok());
  for (const auto& k : after->kernels) EXPECT_TRUE(IsElf(after->images[k.image]));
}

TEST(CudaCompiler, PtxByFlagAndOwnSource) {
  SKIP_WITHOUT_NVRTC();
  CompileOptions options;
  options.emit_ptx = true;
  const auto r = MakeCompiler(nullptr, options)->Compile(ThreeKernels(), "");
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(absl::StrContains(r->images[0], ".target sm_90a"));
  const auto own = MakeCompiler(nullptr, options)->Compile(ThreeKernels(), OwnKernels("*x = 7.0f;"));
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->kernels[0].entry, "a_kernel");
  EXPECT_TRUE(absl::StrContains(own->images[0], "a_kernel"));
}

// From sm_90 on kernels wait for those before them, and say so by their names.
TEST(CudaCompiler, KernelsThatStartEarlyWait) {
  const std::pair<const char*, bool> archs[] = {{"sm_80", false}, {"sm_89", false},  {"sm_90", true},
                                                {"sm_90a", true}, {"sm_100a", true}, {"sm_120", true}};
  for (const auto& [arch, waits] : archs) {
    const auto source = MakeCompiler(nullptr, {}, arch)->EmitSource(ThreeKernels());
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(absl::StrContains(*source, "griddepcontrol.wait"), waits) << arch;
    EXPECT_EQ(absl::StrContains(*source, Cat(" ", kWaitingKernel)), waits) << arch;
  }
  // A caller's text has kernels of those names wait, too.
  std::string source = *MakeCompiler()->EmitSource(ThreeKernels());
  source.erase(source.rfind("  cinn_wait_for_grids();\n"), 25);
  const auto hurries = MakeCompiler()->Compile(ThreeKernels(), source);
  EXPECT_EQ(hurries.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(Message(hurries.status()), "expected its first line to be cinn_wait_for_grids();"))
      << hurries.status();
  SKIP_WITHOUT_NVRTC();
  CompileOptions options;
  options.emit_ptx = true;
  const auto r = MakeCompiler(nullptr, options)->Compile(ThreeKernels(), "");
  ASSERT_TRUE(r.ok()) << r.status();
  int kernels = 0;
  for (const std::string& image : r->images) {
    for (size_t entry = image.find(".entry"); entry != image.npos; entry = image.find(".entry", entry + 1)) {
      EXPECT_TRUE(image.substr(entry).starts_with(Cat(".entry ", kWaitingKernel))) << image;
      EXPECT_LT(image.find("griddepcontrol.wait", entry), image.find("ld.global", entry)) << image;
      ++kernels;
    }
  }
  EXPECT_EQ(kernels, 2);
}

TEST(CudaCompiler, Errors) {
  SKIP_WITHOUT_NVRTC();
  const auto unknown = MakeCompiler(nullptr, {}, "sm_42")->Compile(ThreeKernels(), "");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(Message(unknown.status()), "arch 'sm_42' is not known to NVRTC")) << unknown.status();
  EXPECT_TRUE(absl::StrContains(Message(unknown.status()), "sm_90"));
  const auto native = MakeCompiler(nullptr, {}, "native")->Compile(ThreeKernels(), "");
  EXPECT_TRUE(absl::StrContains(Message(native.status()), "names no arch"));
  const auto bad = MakeCompiler()->Compile(ThreeKernels(), OwnKernels("nonsense;"));
  EXPECT_TRUE(absl::StrContains(Message(bad.status()), "identifier \"nonsense\" is undefined")) << bad.status();
}

TEST(CudaCompiler, LoadingWithoutADriverSaysSo) {
  SKIP_WITHOUT_NVRTC();
  if (cuda::GetDriver().ok()) GTEST_SKIP() << "this machine has a driver";
  const auto images = MakeCompiler()->Compile(ThreeKernels(), "");
  ASSERT_TRUE(images.ok()) << images.status();
  const auto r = LoadedKernels::Load(*images, cinn_device_cuda);
  ASSERT_FALSE(r.ok());
  EXPECT_TRUE(absl::StrContains(Message(r.status()), "no CUDA driver")) << r.status();
}

TEST(Nvrtc, MissingLibraryIsNamed) {
  const auto r = backends::Nvrtc::Open("/nonexistent/libnvrtc.so.13");
  ASSERT_FALSE(r.ok());
  EXPECT_TRUE(absl::StrContains(Message(r.status()), "/nonexistent/libnvrtc.so.13")) << r.status();
}

TEST(Nvrtc, ManyProgramsInParallel) {
  SKIP_WITHOUT_NVRTC();
  std::vector<std::string> sources;
  for (int i = 0; i < 12; ++i)
    sources.push_back(Cat("extern \"C\" __global__ void f", i, "(float* x) { x[threadIdx.x] *= ", i, ".0f; }"));
  const auto r =
      backends::NvrtcForTests()->Compile(sources, {.arch = "sm_90a", .form = backends::CudaForm::kPtx, .threads = 4});
  ASSERT_TRUE(r.ok()) << r.status();
  for (int i = 0; i < 12; ++i)
    EXPECT_TRUE(absl::StrContains((*r)[static_cast<size_t>(i)].code, Cat(".entry f", i, "(")));
}

}  // namespace
}  // namespace cinn_like
