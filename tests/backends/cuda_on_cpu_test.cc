// Kernels as CUDA text, compiled for the CPU with stand-ins for what CUDA provides and run thread by thread, against
// the C text of the same loops: wide accesses, masks and packing give what element-by-element access gives.
#include <cstring>
#include <random>

#include "absl/strings/str_replace.h"
#include "tests/backends/c_program.h"

namespace cinn_like::backends {
namespace {

constexpr std::string_view kShim = R"(
#include <math.h>
#include <string.h>
#include <utility>
#define __global__
#define __launch_bounds__(n)
struct uint2 { unsigned int x, y; };
struct uint4 { unsigned int x, y, z, w; };
static uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
static uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
struct Index { unsigned int x = 0, y = 0, z = 0; };
static Index blockIdx, threadIdx;
static unsigned int Aligned(const void* p, size_t n) { if ((size_t)p % n != 0) __builtin_trap(); return 0; }
static unsigned int cinn_load4(const void* p) { Aligned(p, 4); unsigned int r; memcpy(&r, p, 4); return r; }
static uint2 cinn_load8(const void* p) { Aligned(p, 8); uint2 r; memcpy(&r, p, 8); return r; }
static uint4 cinn_load16(const void* p) { Aligned(p, 16); uint4 r; memcpy(&r, p, 16); return r; }
static void cinn_store8(void* p, uint2 v) { Aligned(p, 8); memcpy(p, &v, 8); }
static void cinn_store16(void* p, uint4 v) { Aligned(p, 16); memcpy(p, &v, 16); }
static unsigned long long cinn_bits_f64(double a) { unsigned long long r; memcpy(&r, &a, 8); return r; }
static double cinn_f64_bits(unsigned long long a) { double r; memcpy(&r, &a, 8); return r; }
)";
constexpr std::string_view kPack = R"(
static unsigned int cinn_pack_bf16(float a, float b) { return cinn_bf16_f32(a) | (unsigned int)cinn_bf16_f32(b) << 16; }
static unsigned int cinn_pack_f16(float a, float b) { return cinn_f16_f32(a) | (unsigned int)cinn_f16_f32(b) << 16; }
template <class... A, size_t... I>
static void Call(void (*k)(A...), void** a, std::index_sequence<I...>) { k(*(A*)a[I]...); }
template <class... A>
static void Run(void (*k)(A...), void** a, int blocks, int threads) {
  for (int b = 0; b < blocks; ++b) for (int t = 0; t < threads; ++t) {
    blockIdx.x = b; threadIdx.x = t;
    Call(k, a, std::make_index_sequence<sizeof...(A)>());
  }
}
)";

// Kernels of a module as one library; run(name, ...) runs every thread of every block in turn.
class Kernels {
 public:
  explicit Kernels(const std::string& loops) {
    auto m = ir::ParseModule(loops);
    EXPECT_TRUE(m.ok()) << m.status() << loops;
    if (!m.ok()) return;
    std::string runs;
    for (const ir::Func& f : m->funcs) {
      auto t = EmitFunc(f, CudaDialect(), f.name);
      EXPECT_TRUE(t.ok()) << t.status();
      text_ += *t;
      runs += Cat("extern \"C\" void run_", f.name, "(void** a, int b, int t) { Run(", f.name, ", a, b, t); }\n");
    }
    std::string helpers = HelpersFor(CDialect(), Cat(text_, " cinn_bf16_f32 cinn_f16_f32 "));
    absl::StrReplaceAll({{"static inline double cinn_f64_bits", "static inline double unused_f64_bits"}}, &helpers);
    std::string folder = std::filesystem::temp_directory_path() / "kernels_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    std::ofstream(folder + "/k.cc") << kShim << helpers << kPack << text_ << runs;
    const std::string cc =
        Cat("c++ -std=c++17 -O0 -fno-strict-aliasing -w -fPIC -shared -o ", folder, "/k.so ", folder, "/k.cc");
    EXPECT_EQ(system(cc.c_str()), 0) << text_;
    handle_ = dlopen((folder + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << dlerror();
    std::filesystem::remove_all(folder);
  }
  template <class... Args>
  void Run(const std::string& name, int blocks, int threads, Args... args) const {
    auto run = reinterpret_cast<void (*)(void**, int, int)>(dlsym(handle_, Cat("run_", name).c_str()));
    ASSERT_NE(run, nullptr);
    void* a[] = {&args...};
    run(a, blocks, threads);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  void* handle_ = nullptr;
};

struct Case {
  DType dtype;
  int lanes, align;
  int mask;  // 0: none, 1: scalar, 2: a lane each
  int shift;
};
constexpr int kBlocks = 3, kThreads = 8;

TEST(CudaOnCpu, WideAccessesAgreeWithElements) {
  std::mt19937 random(std::random_device{}());
  std::vector<Case> cases;
  std::string kernels, functions;
  for (int d = 0; d < kNumDTypes; ++d) {
    for (int k = 0; k < 12; ++k) {
      const DType t = static_cast<DType>(d);
      const int lanes = k < 3 ? 2 : 2 << random() % 4;
      const Case c{t, lanes, std::max<int>(BytesOf(t), 1 << (2 + random() % 3)), k % 3,
                   k < 3 ? 1 : static_cast<int>(random() % 3) * lanes / 2};
      const std::string name = Cat("f", cases.size());
      const std::string size = Cat(kBlocks * kThreads * lanes + 64);
      const std::string index = Cat("ramp((b * ", kThreads, " + t) * ", lanes, " + ", c.shift, ", 1, ", lanes, ")");
      const std::string mask = c.mask == 0 ? ""
                               : c.mask == 1
                                   ? "; b * 8 + t < m"
                                   : Cat("; ", index, " < broadcast(m, ", lanes, ") || broadcast(t == 3, ", lanes, ")");
      // Two loads of x, one of z; values that go through f32 for 16-bit floats.
      const std::string x = Cat("x[", index, mask, "]"), z = Cat("z[", index, mask, "]");
      std::string value;
      if (t == DType::kBool)
        value = Cat(x, " && not(", z, ")");
      else if (IsHalf(t))
        value = Cat(Name(t), "(f32(", x, ") + f32(", z, "))");
      else
        value = Cat(x, " + ", z);
      if (IsHalf(t) && k % 2 == 1) value = Cat("select(f32(", x, ") < f32(", z, "), ", x, ", ", z, ")");
      const std::string params = Cat("x: ", Name(t), "[", size, "] align ", c.align, ", z: ", Name(t), "[", size,
                                     "] align ", c.align, ", y: ", Name(t), "[", size, "] align ", c.align, ", m: i64");
      const std::string body = Cat("y[", index, mask, "] = ", value);
      kernels += Cat("func @", name, " kernel (", params, ") { for b in 0..", kBlocks, " @blockIdx.x { for t in 0..",
                     kThreads, " @threadIdx.x { ", body, " } } }\n");
      functions += Cat("func @", name, "(", params, ") { for b in 0..", kBlocks, " { for t in 0..", kThreads, " { ",
                       body, " } } }\n");
      cases.push_back(c);
    }
  }
  const Kernels cuda(kernels);
  const CProgram plain(functions, "-O0");
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const size_t bytes = static_cast<size_t>((kBlocks * kThreads * c.lanes + 64) * BytesOf(c.dtype));
    auto* x = static_cast<unsigned char*>(aligned_alloc(64, 64 + bytes / 64 * 64 + 64));
    auto* z = static_cast<unsigned char*>(aligned_alloc(64, 64 + bytes / 64 * 64 + 64));
    for (size_t k = 0; k < bytes; ++k) {
      x[k] = static_cast<unsigned char>(c.dtype == DType::kBool ? random() % 2 : random());
      z[k] = static_cast<unsigned char>(c.dtype == DType::kBool ? random() % 2 : random());
    }
    auto* got = static_cast<unsigned char*>(aligned_alloc(64, 64 + bytes / 64 * 64 + 64));
    std::vector<unsigned char> want(bytes, 0x5a);
    memset(got, 0x5a, bytes);
    const int64_t m = static_cast<int64_t>(random() % (kBlocks * kThreads * (c.mask == 2 ? c.lanes : 1)));
    cuda.Run(Cat("f", i), kBlocks, kThreads, x, z, got, m);
    ASSERT_EQ(plain.Call(Cat("f", i), x, z, want.data(), m), 0);
    EXPECT_EQ(memcmp(got, want.data(), bytes), 0)
        << Name(c.dtype) << " lanes " << c.lanes << " align " << c.align << " mask " << c.mask << " shift " << c.shift;
    free(x);
    free(z);
    free(got);
  }
  // All three widths, and accesses by elements where nothing wider is safe.
  for (const char* s : {"uint4", "uint2", "unsigned int*)", "cinn_load16", "cinn_store8", "cinn_store16", "p2["}) {
    EXPECT_NE(cuda.text().find(s), std::string::npos) << s;
  }
}

}  // namespace
}  // namespace cinn_like::backends
