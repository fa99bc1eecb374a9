// A caller's source for kernels, functions that rewrite it, and compilers of one's own (backends/source_hooks.h), from
// C++ and through the C API. OpenCL runs where there is a device, C where there is a compiler; of CUDA code is made.
#include "backends/source_hooks.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "backends/compiler.h"
#include "backends/nvcc.h"
#include "cinn_like/c_api.h"
#include "cinn_like/host_tensors.h"
#include "cinn_like/module_driver.h"
#include "runtime/last_error.h"
#include "tests/backends/nvrtc_for_tests.h"
#include "tests/opencl.h"
#include "tests/system_c.h"

namespace cinn_like {
namespace {

constexpr char kScale[] = R"(func @scale(x: f32[n], y: f32[n] out) where n in 1..4096 {
  for l_i in 0..n {
    block b_y(i in 0..n = l_i) {
      y[i] = x[i] * 2.0
    }
  }
}
)";
constexpr char kBind[] = "split l_i 8 -> a b\nbind a blockIdx.x\nbind b threadIdx.x";

constexpr char kOpenCl[] = R"(__kernel void scale_k0_kernel(long n, __global const float* x, long x_at,
                              __global float* y, long y_at) {
  const long i = get_global_id(0);
  x += x_at / 4, y += y_at / 4;
  if (i < n) y[i] = x[i] * 2.0f + 1;
}
)";
constexpr char kCuda[] = R"(extern "C" __global__ void scale_k0_kernel(long long n, const float* x, float* y) {
  const int i = blockIdx.x * 8 + threadIdx.x;
  if (i < n) y[i] = x[i] * 2 + 1;
}
)";

CompileOptions Options() {
  CompileOptions options;
  options.disable_cache = true;
  options.nvrtc = GetFlag("cinn_nvrtc").value_or("");
  return options;
}

StatusOr<std::unique_ptr<CompiledFunction>> Lower(const std::string& target, const SourceHooks& hooks,
                                                  const CompileOptions& options = Options()) {
  ASSIGN_OR_RETURN(const Target t, Target::Parse(target));
  Devices devices = Devices::BuiltIn();
  RETURN_IF_ERROR(devices.SetHooks(t.device->name, hooks));
  return LowerModuleText(kScale, t.HasKernels() ? kBind : "", t, options, devices);
}

std::string ErrorOf(const std::string& target, const SourceHooks& hooks, const std::string& kind) {
  const auto f = Lower(target, hooks);
  if (!f.ok()) return Message(f.status());
  return Message((*f)->Source(kind).status());
}

SourceHooks Source(std::string text) { return {std::move(text), nullptr, nullptr}; }
SourceHooks Replacing(std::string from, std::string to) {
  const auto rewrite = [=](std::string_view, std::string_view source) -> StatusOr<std::string> {
    return absl::StrReplaceAll(std::string(source), {{from, to}});
  };
  return {"", rewrite, nullptr};
}

// y of x = 1, 2, ... 20.
std::vector<float> Call(CinnFunctionPtr entry, void* self) {
  int64_t n = 20;
  std::vector<float> x(20), y(20, -1);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i + 1);
  DLTensor tensors[] = {{x.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, nullptr, 0},
                        {y.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, nullptr, 0}};
  CinnValue args[2] = {};
  for (int i = 0; i < 2; ++i) {
    args[i].tag = kCinnTensor;
    args[i].tensor = &tensors[i];
  }
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  EXPECT_EQ(entry(self, args, 2, &env), 0) << LastError();
  return y;
}

std::vector<float> Expected(float factor, float term = 0) {
  std::vector<float> r;
  for (int i = 1; i <= 20; ++i) r.push_back(factor * static_cast<float>(i) + term);
  return r;
}

std::vector<float> CallOnHost(StatusOr<std::unique_ptr<CompiledFunction>> made) {
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return {};
  const std::unique_ptr<CompiledFunction> f = TakeHostTensors(*std::move(made));
  const Status finished = f->Finish();
  EXPECT_TRUE(finished.ok()) << finished;
  return finished.ok() ? Call(f->entry(), f->self()) : std::vector<float>();
}

TEST(SourceHooks, OpenClRunsIt) {
  SKIP_WITHOUT_OPENCL();
  EXPECT_EQ(CallOnHost(Lower("opencl", {})), Expected(2));
  EXPECT_EQ(CallOnHost(Lower("opencl", Source(kOpenCl))), Expected(2, 1));
  EXPECT_EQ(CallOnHost(Lower("opencl", Replacing("2.0f", "3.0f"))), Expected(3));
  // Generated text is a start, names as they stand; what is given is rewritten, too.
  const std::string generated = *(*Lower("opencl", {}))->Source("opencl");
  EXPECT_EQ(CallOnHost(Lower("opencl", Source(absl::StrReplaceAll(generated, {{"2.0f", "5.0f"}})))), Expected(5));
  SourceHooks both = Replacing("2.0f", "4.0f");
  both.source = kOpenCl;
  EXPECT_EQ(CallOnHost(Lower("opencl", both)), Expected(4, 1));
  const auto wrong = Lower("opencl", Replacing("2.0f", "nonsense"));
  ASSERT_TRUE(wrong.ok());
  EXPECT_EQ((*wrong)->Source("opencl")->find("2.0f"), std::string::npos);
}

TEST(SourceHooks, CRunsIt) {
  SKIP_WITHOUT_C_COMPILER();
  constexpr char kOwn[] = R"(static int32_t scale_k0(const float* restrict x, float* restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = cinn_max_f32(x[i] * 2, 6);
  return 0;
}
)";
  std::vector<float> clamped = Expected(2);
  clamped[0] = clamped[1] = 6;
  for (const auto& [hooks, expected] : {std::pair{Source(kOwn), clamped}, {Replacing("2.0f", "3.0f"), Expected(3)}}) {
    const auto f = Lower("c", hooks);
    ASSERT_TRUE(f.ok()) << f.status();
    const StatusOr<std::string> text = (*f)->Source("c");
    ASSERT_TRUE(text.ok()) << text.status();
    SystemC c;
    c.Load(CCompilers()[0], {*text}, "-O1");
    EXPECT_EQ(Call(c.Find<int32_t(void*, const CinnValue*, int32_t, const CinnCallEnv*)>("scale"), nullptr), expected);
  }
}

TEST(SourceHooks, SeeAndShowWhatIsCompiled) {
  for (const std::string target : {"cuda -arch=sm_90a", "opencl", "c"}) {
    const std::string kind = target.substr(0, target.find(' '));
    std::string seen, language;
    const SourceHooks hooks = {"",
                               [&](std::string_view l, std::string_view s) -> StatusOr<std::string> {
                                 seen = s, language = l;
                                 return Cat("// mine\n", s);
                               },
                               nullptr};
    const StatusOr<std::string> shown = (*Lower(target, hooks))->Source(kind),
                                plain = (*Lower(target, {}))->Source(kind);
    ASSERT_TRUE(shown.ok()) << shown.status();
    EXPECT_EQ(language, kind);
    EXPECT_TRUE(absl::StrContains(*plain, seen)) << seen;
    EXPECT_EQ(absl::StrReplaceAll(*shown, {{"// mine\n", ""}}), *plain);
    EXPECT_TRUE(absl::StrContains(*shown, Cat("// mine\n", seen)));
  }
}

TEST(SourceHooks, Errors) {
  const auto failing = [](std::string_view, std::string_view) -> StatusOr<std::string> {
    return absl::UnavailableError("no more today");
  };
  const auto silent = [](std::string_view, std::string_view) -> StatusOr<std::string> { return std::string(); };
  const auto compile = [](const CompileRequest&) -> StatusOr<std::string> { return std::string("code"); };
  for (const std::string kind : {"cuda", "opencl", "c"}) {
    const std::string target = kind == "cuda" ? "cuda -arch=sm_90a" : kind;
    EXPECT_EQ(ErrorOf(target, {"", failing, nullptr}, kind), Cat("rewriting the source (", kind, "): no more today"));
    EXPECT_EQ(ErrorOf(target, {"", silent, nullptr}, kind), Cat("rewriting the source (", kind, "): it gave no text"));
  }
  constexpr char kMissing[] =
      "the source has no function 'scale_k0_kernel(...)'; what is generated shows its parameters";
  EXPECT_EQ(ErrorOf("cuda -arch=sm_90a", Source("// scale_k0_kernel\nvoid scale_k0_kernels() {}"), "ptx"),
            Cat("@scale: ", kMissing));
  const auto f = Lower("opencl", Source("__kernel void other() {}"));
  ASSERT_TRUE(f.ok());
  if (GetOpenClDevice().ok()) {
    EXPECT_EQ(Message((*f)->Finish()), kMissing);
  }
  EXPECT_EQ(ErrorOf("c", Source("static int32_t my_scale_k0() {}"), "c"),
            absl::StrReplaceAll(kMissing, {{"scale_k0_kernel", "scale_k0"}}));
  EXPECT_EQ(ErrorOf("cpu", Source("int x;"), "llvm"),
            "device 'x86_64': its functions have no source text that is compiled");
  EXPECT_EQ(ErrorOf("opencl", {"", nullptr, compile}, "opencl"),
            "device 'opencl': there is no compiler of opencl source to replace");
  EXPECT_EQ(ErrorOf("c", {"", nullptr, compile}, "c"), "device 'c': there is no compiler of c source to replace");
  Devices devices = Devices::BuiltIn();
  EXPECT_EQ(Message(devices.SetHooks("tpu", {})),
            "no device 'tpu' is registered; registered: x86_64, cuda, opencl, hip, metal, c");
  EXPECT_TRUE(devices.SetHooks("cpu", {}).code() == absl::StatusCode::kInvalidArgument);  // an alias names targets
}

// A whole graph is not in the disk cache then; its kernels are, under what they have become.
TEST(SourceHooks, TheCacheSeesTheRewrittenText) {
  SKIP_WITHOUT_OPENCL();
  std::string folder = std::filesystem::temp_directory_path() / "source_hooks_test_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  CompileOptions options;
  options.cache_dir = folder;
  const auto graph = hlir::Parse(R"(graph @f(%x: f32[n]) where n in 1..64 {
  %0 = full() {value=2, dtype=f32} : f32[]
  %1 = mul(%x, %0) : f32[n]
  return %1
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const char* factor : {"2.0f", "3.0f", "4.0f", "2.0f"}) {
    Devices devices = Devices::BuiltIn();
    if (factor[0] != '2') {
      ASSERT_TRUE(devices.SetHooks("opencl", Replacing("2.0f", factor)).ok());
    }
    auto made = CompileGraph(*graph, *Target::Parse("opencl"), options, devices);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(CallOnHost(std::move(made)), Expected(static_cast<float>(factor[0] - '0')));
  }
  std::filesystem::remove_all(folder);
}

class MapCache : public ObjectCache {
 public:
  std::optional<std::string> Get(const std::string& key) override {
    const auto it = map.find(key);
    if (it == map.end()) return std::nullopt;
    ++hits;
    return it->second;
  }
  void Put(const std::string& key, const std::string& object) override { map[key] = object; }
  std::map<std::string, std::string> map;
  int hits = 0;
};

Status BuildCuda(MapCache* cache, const SourceHooks& hooks, const CompileOptions& options = Options()) {
  ASSIGN_OR_RETURN(Device device, Devices::BuiltIn().Find("cuda"));
  device.hooks = hooks;
  ASSIGN_OR_RETURN(const Target target, Target::Parse("cuda -arch=sm_90a"));
  ASSIGN_OR_RETURN(const auto compiler, MakeDeviceCompiler(device, target, options, cache));
  ASSIGN_OR_RETURN(const ir::Module module, ir::ParseModule(R"(func @f_kernel kernel (x: f32[8], y: f32[8]) {
  for t in 0..8 @threadIdx.x { y[t] = x[t] * 2.0 }
}
)"));
  ASSIGN_OR_RETURN(const KernelImages images, compiler->Compile(module, ""));
  EXPECT_EQ(images.kernels.size(), 1u);
  return absl::OkStatus();
}

TEST(SourceHooks, CudaImagesAreKeptUnderTheRewrittenText) {
  SKIP_WITHOUT_NVRTC();
  MapCache cache;
  for (const auto& [factor, size, hits] : {std::tuple{"3.0f", 1u, 0}, {"4.0f", 2u, 0}, {"3.0f", 2u, 1}}) {
    const Status s = BuildCuda(&cache, Replacing("2.0f", factor));
    ASSERT_TRUE(s.ok()) << s;
    EXPECT_EQ(cache.map.size(), size);
    EXPECT_EQ(cache.hits, hits);
  }
}

TEST(SourceHooks, CudaCompilesIt) {
  SKIP_WITHOUT_NVRTC();
  const auto f = Lower("cuda -arch=sm_90a", Source(kCuda));
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_EQ(*(*f)->Source("cuda"), kCuda);
  EXPECT_TRUE(absl::StrContains(*(*f)->Source("ptx"), ".entry scale_k0_kernel("));
  EXPECT_TRUE(
      absl::StrContains(*(*Lower("cuda -arch=sm_90a", Replacing("2.0f", "3.0f")))->Source("ptx"), "0f40400000"));
}

TEST(SourceHooks, ACompilerOfOnesOwn) {
  const std::string elf("\177ELF of sm_90a"), fat("\x50\xed\x55\xba..."), ptx(".version 8.0\n");
  std::vector<std::string> requests;
  std::string answer = elf;
  const SourceHooks hooks = {"", nullptr, [&](const CompileRequest& r) -> StatusOr<std::string> {
                               std::string options;
                               for (const std::string& o : r.options) options += " " + o;
                               requests.push_back(Cat(r.arch, options));
                               EXPECT_NE(r.source.find("__global__"), r.source.npos);
                               if (answer.empty()) return absl::UnavailableError("out of order");
                               return answer;
                             }};
  MapCache cache;
  for (const std::string& code : {elf, fat, ptx}) {
    answer = code;
    EXPECT_TRUE(BuildCuda(&cache, hooks).ok()) << code;
  }
  EXPECT_TRUE(cache.map.empty());
  EXPECT_EQ(requests[0], "sm_90a -cubin --fmad=true --prec-div=false --prec-sqrt=false");
  CompileOptions exact = Options();
  exact.numerics = "exact";
  EXPECT_TRUE(BuildCuda(&cache, hooks, exact).ok());
  EXPECT_EQ(requests[3], "sm_90a -cubin --fmad=false --prec-div=true --prec-sqrt=true");
  constexpr char kTarget[] = "cuda -arch=sm_90a", kWhere[] = "@scale: compiling CUDA C++ by the caller's function: ";
  for (const auto& [kind, code] : {std::pair{"cubin", elf}, {"fatbin", fat}, {"ptx", ptx}}) {
    answer = code;
    EXPECT_EQ(*(*Lower(kTarget, hooks))->Source(kind), code);
    EXPECT_TRUE(absl::StartsWith(requests.back(), Cat("sm_90a -", kind, " "))) << requests.back();
  }
  EXPECT_EQ(ErrorOf(kTarget, hooks, "cubin"), Cat(kWhere, "asked for -cubin, got what -ptx makes"));
  answer = "nonsense";
  EXPECT_EQ(ErrorOf(kTarget, hooks, "ptx"),
            Cat(kWhere, "expected a cubin, a fatbin or PTX, got 8 bytes that are none of them"));
  answer = "";
  EXPECT_EQ(ErrorOf(kTarget, hooks, "ptx"), Cat(kWhere, "out of order"));
  // Code must still tell of what is out of bounds.
  answer = fat;
  SourceHooks asks = hooks;
  asks.source = Cat("struct R { int taken; }; __device__ R cinn_bounds_report;\n", kCuda);
  EXPECT_EQ(ErrorOf(kTarget, asks, "fatbin"),
            Cat(kWhere,
                "code that is to report accesses out of bounds has no symbol cinn_bounds_report in sight; a "
                "fatbin must not be compressed"));
}

TEST(SourceHooks, Nvcc) {
  if (const auto nvcc = backends::Nvcc::Open("nvcc"); !nvcc.ok()) GTEST_SKIP() << nvcc.status();
  CompileOptions options = Options();
  options.cuda_compiler = "nvcc";
  options.check_bounds = true;  // the report's name must be there
  for (const SourceHooks& hooks : {SourceHooks(), Source(kCuda)}) {
    const auto f = Lower("cuda -arch=sm_90a", hooks, options);
    ASSERT_TRUE(f.ok()) << f.status();
    const StatusOr<std::string> cubin = (*f)->Source("cubin"), fatbin = (*f)->Source("fatbin"),
                                ptx = (*f)->Source("ptx");
    ASSERT_TRUE(cubin.ok()) << cubin.status();
    ASSERT_TRUE(fatbin.ok()) << fatbin.status();
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    EXPECT_TRUE(absl::StartsWith(*cubin, "\177ELF"));
    EXPECT_TRUE(absl::StartsWith(*fatbin, "\x50\xed\x55\xba"));
    EXPECT_TRUE(absl::StrContains(*fatbin, "\177ELF"));
    EXPECT_TRUE(absl::StrContains(*fatbin, ".target sm_90a"));
    EXPECT_TRUE(absl::StrContains(*ptx, ".target sm_90a"));
  }
  MapCache cache;
  for (const int hits : {0, 2}) {
    EXPECT_TRUE(BuildCuda(&cache, {}, options).ok());
    EXPECT_EQ(cache.hits, hits);
  }
  options.cuda_compiler = (*backends::Nvcc::Open("nvcc"))->path();
  const auto wrong = (*Lower("cuda -arch=sm_90a", Replacing("2.0f", "nonsense"), options))->Source("cubin");
  EXPECT_TRUE(absl::StrContains(Message(wrong.status()), "identifier \"nonsense\" is undefined")) << wrong.status();
  const auto arch = (*backends::Nvcc::Open("nvcc"))->Compile({kCuda}, {.arch = "sm_42"});
  EXPECT_TRUE(absl::StrContains(Message(arch.status()), "arch 'sm_42' is not known to ")) << arch.status();
}

TEST(SourceHooks, NvccThatIsNotThere) {
  CompileOptions options = Options();
  options.cuda_compiler = "/no/such/nvcc";
  EXPECT_EQ(Message((*Lower("cuda -arch=sm_90a", {}, options))->Source("cubin").status()),
            "@scale: nvcc was not found: there is no '/no/such/nvcc'");
  options.cuda_compiler = "clang";
  EXPECT_EQ(Message(options.Check()), "flag 'cinn_cuda_compiler': expected nvrtc, nvcc or a path, got 'clang'");
}

TEST(SourceHooks, CApi) {
  struct Seen {
    int calls = 0;
    std::string language;
    bool fails = false;
  } seen;
  CinnSourceHooks hooks{};
  hooks.size = sizeof(hooks);
  hooks.context = &seen;
  hooks.rewrite = [](void* context, const char* language, const char* source, CinnBytes* out) -> int32_t {
    auto& s = *static_cast<Seen*>(context);
    ++s.calls;
    s.language = language;
    const std::string text = s.fails ? "mine: not this one" : absl::StrReplaceAll(source, {{"2.0f", "3.0f"}});
    CinnGiveBytes(out, text.data(), text.size());
    return s.fails ? -5 : 0;
  };
  CinnFunction* f = nullptr;
  ASSERT_EQ(CinnLowerModule(kScale, "", "c", &hooks, &f), 0) << CinnLastError();
  const char* text = CinnFunctionSource(f, "c");
  ASSERT_NE(text, nullptr) << CinnLastError();
  EXPECT_TRUE(absl::StrContains(text, "3.0f") && !absl::StrContains(text, "2.0f"));
  EXPECT_EQ(seen.language, "c");
  seen.fails = true;
  EXPECT_EQ(CinnFunctionSource(f, "c"), nullptr);
  EXPECT_STREQ(CinnLastError(), "rewriting the source (c): mine: not this one");
  CinnReleaseFunction(f);

  hooks = {};
  hooks.size = sizeof(hooks);
  hooks.compile = [](void*, const char* source, const char* arch, const char* options, CinnBytes* out) -> int32_t {
    const std::string code = Cat(".version ", arch, options, strlen(source) > 0 ? "" : "?");
    CinnGiveBytes(out, code.data(), code.size());
    return 0;
  };
  ASSERT_EQ(CinnLowerModule(kScale, kBind, "cuda -arch=sm_80", &hooks, &f), 0) << CinnLastError();
  EXPECT_STREQ(CinnFunctionSource(f, "ptx"), ".version sm_80-ptx --fmad=true --prec-div=false --prec-sqrt=false");
  CinnReleaseFunction(f);
  EXPECT_LT(CinnLowerModule(kScale, kBind, "opencl", &hooks, &f), 0);
  EXPECT_STREQ(CinnLastError(), "device 'opencl': there is no compiler of opencl source to replace");
  hooks.size = 4;
  EXPECT_LT(CinnLowerModule(kScale, kBind, "opencl", &hooks, &f), 0);
  EXPECT_STREQ(CinnLastError(), "hooks are older than this library");
}

}  // namespace
}  // namespace cinn_like
