// What a caller can get wrong, through the whole compiler: an error that names the culprit, or the right result. The
// rows of docs/errors.md point here.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <numeric>

#include "backends/compiler.h"
#include "cinn_like/base/host_cpu.h"
#include "cinn_like/c_api.h"
#include "cinn_like/driver.h"
#include "hlir/pipeline.h"
#include "runtime/arg_spec.h"
#include "runtime/artifact.h"
#include "runtime/kernel_images.h"
#include "runtime/last_error.h"
#include "tests/backends/nvrtc_for_tests.h"
#include "tests/hlir/samples.h"
#include "tests/mutate.h"

namespace cinn_like {
namespace {

constexpr char kGraph[] = R"(graph @f(%x: f32[n,m], %w: f32[4] static) where n in 0..8, m in 1..8 multiple 2 {
  %0 = exp(%w) : f32[4]
  %1 = full() {value=1.0, dtype=f32, shape=[]} : f32[]
  %2 = add(%x, %1) : f32[n,m]
  %3 = reduce_sum(%2) {axes=[1], keepdims=false} : f32[n]
  return %2, %3, %0
}
)";

StatusOr<std::unique_ptr<CompiledFunction>> Compile(const std::string& text, const std::string& target = "cpu") {
  CompileOptions options;
  options.disable_cache = true;
  ASSIGN_OR_RETURN(const hlir::Graph graph, hlir::Parse(text));
  ASSIGN_OR_RETURN(const Target t, Target::Parse(target));
  return CompileGraph(graph, t, options);
}

CinnCallEnv HostEnv() {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCPU, 0};
  return env;
}

CinnValue ValueOf(DLTensor& t) {
  CinnValue v{};
  v.tag = kCinnTensor;
  v.tensor = &t;
  return v;
}

Status Call(const CompiledFunction& f, std::vector<DLTensor>& tensors) {
  std::vector<CinnValue> args;
  for (DLTensor& t : tensors) args.push_back(ValueOf(t));
  const CinnCallEnv env = HostEnv();
  const int32_t code = f.entry()(f.self(), args.data(), static_cast<int32_t>(args.size()), &env);
  return code == 0 ? absl::OkStatus() : LastErrorStatus(code);
}

TEST(BadInput, TextThroughTheCApi) {
  CinnFunction* f = nullptr;
  EXPECT_LT(CinnCompile("graph @f(%x: f32[2]) {\n  %0 = expp(%x) : f32[2]\n  return %0\n}\n", "cpu", &f), 0);
  EXPECT_STREQ(CinnLastError(), "line 2, column 8: unknown op 'expp'");
  EXPECT_LT(CinnCompile(kGraph, "cpu -fast", &f), 0);
  EXPECT_NE(std::string(CinnLastError()).find("'-fast'"), std::string::npos) << CinnLastError();
  for (const auto function : {&CinnCompile, &CinnBid}) {
    for (const int missing : {0, 1, 2}) {
      EXPECT_LT(function(missing == 0 ? nullptr : kGraph, missing == 1 ? nullptr : "cpu", missing == 2 ? nullptr : &f),
                0);
      EXPECT_STREQ(CinnLastError(), "graph_text, target and out must not be null");
    }
  }
  EXPECT_EQ(f, nullptr);
  for (const bool has_text : {false, true}) {
    EXPECT_LT(CinnCheck(has_text ? kGraph : nullptr, has_text ? nullptr : "cpu"), 0);
    EXPECT_STREQ(CinnLastError(), "graph_text and target must not be null");
  }
}

// Bids first, code later; what is lost, and what the cache holds, is done at once.
TEST(CApi, CompilesInTwoHalves) {
  ASSERT_EQ(CinnSetFlag("cinn_disable_cache", "true"), 0);
  CinnFunction* f = nullptr;
  ASSERT_EQ(CinnBid(kGraph, "cpu -framework=auto", &f), 0) << CinnLastError();
  EXPECT_EQ(CinnFunctionEntry(f), nullptr);
  EXPECT_NE(std::string(CinnFunctionInfo(f)).find("\"lost\":[]"), std::string::npos) << CinnFunctionInfo(f);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(CinnFinish(f), 0) << CinnLastError();
    EXPECT_NE(CinnFunctionEntry(f), nullptr);
  }
  EXPECT_LT(CinnFunctionPrepare(f, nullptr, 0, nullptr), 0);
  EXPECT_STREQ(CinnLastError(), "env must not be null");
  EXPECT_NE(std::string(CinnFunctionInfo(f)).find("\"tactics\":[\""), std::string::npos) << CinnFunctionInfo(f);
  CinnReleaseFunction(f);
  ASSERT_EQ(CinnBid(kGraph, "cpu", &f), 0) << CinnLastError();
  EXPECT_NE(CinnFunctionSource(f, "llvm"), nullptr) << CinnLastError();  // needs no code of its own
  CinnReleaseFunction(f);                                                // never finished

  // A transposed convolution: three in four of our products are of zeros.
  constexpr char kLost[] = R"(graph @f(%x: f32[1,64,28,28], %w: f32[64,64,4,4]) {
  %0 = conv_input_grad(%x, %w) {input_shape=[1,64,56,56], stride=[2,2], padding=[1,1]} : f32[1,64,56,56]
  return %0
}
)";
  ASSERT_EQ(CinnBid(kLost, "cpu -framework=amd-avx512", &f), 0) << CinnLastError();
  EXPECT_NE(std::string(CinnFunctionInfo(f)).find("\"lost\":[[0,"), std::string::npos) << CinnFunctionInfo(f);
  ASSERT_EQ(CinnFinish(f), 0) << CinnLastError();
  EXPECT_EQ(CinnFunctionEntry(f), nullptr);
  CinnReleaseFunction(f);
  ASSERT_EQ(CinnSetFlag("cinn_disable_cache", "false"), 0);
}

TEST(BadInput, NoDriver) {
  SKIP_WITHOUT_NVRTC();
  const auto f = Compile("graph @f(%x: f32[2]) {\n  %0 = exp(%x) : f32[2]\n  return %0\n}\n", "cuda -arch=sm_90a");
  if (f.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_NE(Message(f.status()).find("no CUDA driver"), std::string::npos) << f.status();
}

TEST(BadInput, ZeroSizeAndZeroDimensions) {
  const auto f = Compile(R"(graph @f(%x: f32[n,3], %y: f32[]) where n in 0..8 {
  %0 = mul(%x, %y) : f32[n,3]
  %1 = reduce_sum(%0) {axes=[0,1], keepdims=false} : f32[]
  return %0, %1
}
)");
  ASSERT_TRUE(f.ok()) << f.status();
  for (int64_t n : {0, 2}) {
    float x[] = {1, 2, 3, 4, 5, 6}, y = 2, product[6] = {}, sum = -1;
    int64_t shape[] = {n, 3};
    const DLDevice cpu = {kDLCPU, 0};
    const DLDataType f32 = {kDLFloat, 32, 1};
    // A tensor without elements may have no data.
    std::vector<DLTensor> tensors = {{n == 0 ? nullptr : x, cpu, 2, f32, shape, nullptr, 0},
                                     {&y, cpu, 0, f32, nullptr, nullptr, 0},
                                     {n == 0 ? nullptr : product, cpu, 2, f32, shape, nullptr, 0},
                                     {&sum, cpu, 0, f32, nullptr, nullptr, 0}};
    const Status s = Call(**f, tensors);
    ASSERT_TRUE(s.ok()) << s;
    EXPECT_EQ(sum, n == 0 ? 0 : 42);
    EXPECT_EQ(product[5], n == 0 ? 0 : 12);
  }
}

// What nobody reads any more once views are substituted: a product over nothing is a constant, and its operands are not
// computed. (The gradient of cholesky_inverse of an empty matrix; F.unfold of an empty batch.)
TEST(BadInput, ProductsAndGathersOfNothing) {
  for (const char* text : {R"(graph @f(%a: f32[0,0], %b: f32[0,0], %c: f32[0,0]) {
  %0 = transpose(%a) {perm=[1, 0]} : f32[0,0]
  %1 = add(%a, %0) : f32[0,0]
  %2 = matmul(%1, %b) : f32[0,0]
  %3 = matmul(%2, %c) : f32[0,0]
  %4 = neg(%3) : f32[0,0]
  return %4
}
)",
                           R"(graph @f(%x: f32[0,5], %i: i64[2]) {
  %0 = full() {value=5, dtype=i64, shape=[]} : i64[]
  %1 = add(%i, %0) : i64[2]
  %2 = transpose(%x) {perm=[1, 0]} : f32[5,0]
  %3 = gather(%2, %1) {axis=0} : f32[2,0]
  %4 = reshape(%3) {shape=[0, 2]} : f32[0,2]
  return %4
}
)"}) {
    const auto f = Compile(text);
    EXPECT_TRUE(f.ok()) << f.status() << text;
  }
}

// The kernel's text of loops, as machine code.
Status CompileLoops(const std::string& text, const std::string& target = "cpu") {
  ASSIGN_OR_RETURN(const Target t, Target::Parse(target));
  ASSIGN_OR_RETURN(const ir::Module module, ir::ParseModule(text));
  ASSIGN_OR_RETURN(const auto compiler, Compiler::Create(t));
  return compiler->Build(module);
}

// One local array of 1 MiB fits, and the second of two of 700 KiB is no memory of the stack.
TEST(BadInput, LocalMemoryIsLimitedInSum) {
  auto loops = [](int arrays, int64_t elements) {
    std::string text = "func @f(x: f32[8], y: f32[8] out) {\n";
    for (int i = 0; i < arrays; ++i) {
      text += Cat("  alloc t", i, ": f32[", elements, "] @local\n  for i", i, " in 0..", elements, " {\n    t", i, "[i",
                  i, "] = x[i", i, " % 8]\n  }\n  for j", i, " in 0..8 {\n    y[j", i, "] = t", i, "[", elements,
                  " - 1 - j", i, "]\n  }\n");
    }
    return text + "}\n";
  };
  EXPECT_TRUE(CompileLoops(loops(1, 256 * 1024)).ok()) << CompileLoops(loops(1, 256 * 1024));
  EXPECT_TRUE(CompileLoops(loops(4, 100)).ok());
  EXPECT_TRUE(CompileLoops(loops(2, 175 * 1024)).ok()) << CompileLoops(loops(2, 175 * 1024));
}

// What would be unrolled a million times, or spread over as many lanes, is a loop.
TEST(BadInput, GiantLoopsStayLoops) {
  for (const char* kind : {"unrolled", "vectorized"}) {
    const Status s = CompileLoops(Cat("func @f(x: f32[1000000], y: f32[1000000] out) {\n  for i in 0..1000000 @", kind,
                                      " {\n    y[i] = x[i] + 1.0\n  }\n}\n"));
    EXPECT_TRUE(s.ok()) << s;
  }
}

// Features that would end the process inside LLVM, or that nobody knows.
TEST(BadInput, FeaturesOfACpu) {
  const std::string graph = "graph @f(%x: f32[2]) {\n  %0 = exp(%x) : f32[2]\n  return %0\n}\n";
  for (const auto& [feature, what] : {std::pair("-64bit", "x86_64 code needs '64bit'"),
                                      {"-sse2", "x86_64 code needs 'sse2'"},
                                      {"+warp-drive", "LLVM knows no x86_64 feature 'warp-drive'"}}) {
    const Status s = Compile(graph, Cat("x86_64 -features=", feature)).status();
    EXPECT_NE(Message(s).find(what), std::string::npos) << s;
  }
  EXPECT_TRUE(Compile(graph, "x86_64 -mcpu=skylake-avx512 -features=-avx512f").ok());
  const Status tiles = Compile(graph, "cpu -features=+amx-int8").status();
  EXPECT_EQ(tiles.ok(), ThisCpu().has_amx);
  if (!tiles.ok()) {
    EXPECT_NE(Message(tiles).find("this machine has no 'amx-int8'"), std::string::npos) << tiles;
  }
}

// Expressions that walks could not come back from.
TEST(BadInput, DeepExpressions) {
  std::string lets = "func @f(y: i64[1] out) {\n  let $0 = 1 + 2\n";
  for (int i = 1; i < 100000; ++i) lets += Cat("  let $", i, " = $", i - 1, " * 3 + ", i, "\n");
  const Status s = CompileLoops(lets + "  y[0] = $99999\n}\n");
  EXPECT_NE(Message(s).find("is deeper than 2000"), std::string::npos) << s;
  // A chain of casts, each of which alone is a view of what comes before.
  std::string chain = "graph @f(%x: f32[4]) {\n  %0 = cast(%x) {dtype=i32} : i32[4]\n";
  constexpr int kOps = 1000;
  for (int i = 1; i < kOps; ++i) {
    const char* t = i % 2 == 0 ? "i32" : "f32";
    chain += Cat("  %", i, " = cast(%", i - 1, ") {dtype=", t, "} : ", t, "[4]\n");
  }
  const auto f = Compile(Cat(chain, "  return %", kOps - 1, "\n}\n"));
  EXPECT_TRUE(f.ok()) << f.status();
  // One op of many operands is one expression, too.
  std::string operands, params;
  for (int i = 0; i < 5000; ++i) {
    operands += Cat(i == 0 ? "" : ", ", "%x", i);
    params += Cat(i == 0 ? "" : ", ", "%x", i, ": f32[1]");
  }
  const auto g =
      Compile(Cat("graph @f(", params, ") {\n  %0 = concat(", operands, ") {axis=0} : f32[5000]\n  return %0\n}\n"));
  EXPECT_NE(Message(g.status()).find("op 'concat' with 5000 operands"), std::string::npos) << g.status();
}

// Bytes of zero that take no memory until they are written.
class Zeros {
 public:
  explicit Zeros(size_t size) : size_(size) {
    data_ = static_cast<uint8_t*>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ~Zeros() { munmap(data_, size_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_;
  size_t size_;
};

TEST(BadInput, MoreThanTwoToThe31Elements) {
  constexpr int64_t kSize = (int64_t{1} << 31) + 100;
  const auto f = Compile(Cat("graph @f(%x: u8[m]) where m in 1..", kSize, R"( {
  %0 = slice(%x) {axis=0, begin=2147483640, end=2147483660, step=1} : u8[20]
  return %0
}
)"));
  ASSERT_TRUE(f.ok()) << f.status();
  const Zeros x(kSize);
  ASSERT_NE(x.data(), MAP_FAILED);
  for (int64_t i = 0; i < 100; ++i) x.data()[kSize - 110 + i] = static_cast<uint8_t>(i);
  alignas(64) uint8_t y[20] = {};
  int64_t shape[] = {kSize}, small[] = {20};
  std::vector<DLTensor> tensors = {{x.data(), {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, shape, nullptr, 0},
                                   {y, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, small, nullptr, 0}};
  const Status s = Call(**f, tensors);
  ASSERT_TRUE(s.ok()) << s;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(y[i], i + 2);
}

TEST(BadInput, AFullDiskFailsAnExport) {
  const auto f = Compile("graph @f(%x: f32[2]) {\n  %0 = exp(%x) : f32[2]\n  return %0\n}\n");
  ASSERT_TRUE(f.ok()) << f.status();
  for (const char* path : {"/dev/full", "/no/such/folder/f.o"}) {
    const Status s = (*f)->ExportObject(path);
    EXPECT_NE(Message(s).find(path), std::string::npos) << s;
  }
}

TEST(NothingBreaks, GraphText) {
  Mutator mutator;
  for (const char* open : {"(", "-", "n*("}) {
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += open;
    EXPECT_FALSE(hlir::Parse(Cat("graph @f(%x: f32[", deep, "]) {\n  return %x\n}\n")).ok());
    EXPECT_FALSE(hlir::Parse(Cat("graph @f(%x: f32[2]) {\n  %0 = exp(%x) {a=", deep, "} : f32[2]\n}\n")).ok());
  }
  std::vector<std::string> seeds = {kGraph};
  for (const hlir::OpDef* def : hlir::OpRegistry::BuiltIn().All()) {
    for (const std::string& sample : def->samples) {
      const auto g = hlir::SampleGraph(*def, sample);
      ASSERT_TRUE(g.ok()) << def->name << sample << g.status();
      seeds.push_back(hlir::Print(*g));
    }
  }
  int accepted = 0;
  for (int round = 0; round < Rounds(20000); ++round) {
    const std::string text = mutator.Mutate(seeds[mutator.Pick(seeds.size())], seeds[mutator.Pick(seeds.size())]);
    const StatusOr<hlir::Graph> g = hlir::Parse(text);
    EXPECT_NE(g.status().code(), absl::StatusCode::kInternal) << g.status() << "\nseed " << mutator.seed() << "\n"
                                                              << text;
    if (!g.ok()) continue;
    ++accepted;
    const std::string printed = hlir::Print(*g);
    const StatusOr<hlir::Graph> again = hlir::Parse(printed);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << printed;
    EXPECT_EQ(hlir::Print(*again), printed);
    const StatusOr<hlir::Graph> optimized = hlir::OptimizeGraph(*g, {});
    EXPECT_TRUE(optimized.ok()) << optimized.status() << "\nseed " << mutator.seed() << "\n" << text;
  }
  EXPECT_GT(accepted, Rounds(20));
}

TEST(NothingBreaks, TargetText) {
  Mutator mutator;
  const std::string seeds[] = {"x86_64 -mcpu=skylake-avx512 -num-threads=2",
                               "cuda -arch=sm_90a -libs=cublas -sm-count=132 -bandwidth=4800"};
  for (int round = 0; round < Rounds(20000); ++round) {
    const std::string text = mutator.Mutate(seeds[mutator.Pick(2)], seeds[mutator.Pick(2)]);
    const StatusOr<Target> target = Target::Parse(text);
    if (!target.ok()) {
      EXPECT_EQ(target.status().code(), absl::StatusCode::kInvalidArgument) << target.status();
      continue;
    }
    const StatusOr<Target> again = Target::Parse(target->Print());
    ASSERT_TRUE(again.ok()) << again.status() << " " << text;
    EXPECT_EQ(again->Print(), target->Print());
  }
}

// Whatever bytes lie in a cache.
TEST(NothingBreaks, StoredBytes) {
  Mutator mutator;
  Artifact artifact;
  KernelImages images;
  images.images = {"image 1", std::string(100, '\1')};
  images.kernels = {{"a_kernel", 0, "k0"}, {"b_kernel", 1, "k1"}};
  images.AddTo(artifact);
  artifact.sections["code"] = std::string(300, '\2');
  const std::string bytes = artifact.Encode("key");
  ASSERT_TRUE(Artifact::Decode(bytes, "key").ok());
  for (int round = 0; round < Rounds(20000); ++round) {
    const std::string bad = mutator.Mutate(bytes, bytes);
    EXPECT_EQ(Artifact::Decode(bad, "key").ok(), bad == bytes) << "seed " << mutator.seed();
    // What a checksum would let pass.
    Artifact damaged = artifact;
    for (auto& [name, section] : damaged.sections) section = mutator.Mutate(section, bytes);
    const StatusOr<KernelImages> r = KernelImages::From(damaged);
    if (!r.ok()) continue;
    for (const KernelImages::Kernel& k : r->kernels) EXPECT_LT(k.image, r->images.size());
  }
}

// A call succeeds just where every tensor is what the graph says.
TEST(NothingBreaks, Tensors) {
  Mutator mutator;
  const auto f = Compile(kGraph);
  ASSERT_TRUE(f.ok()) << f.status();
  alignas(64) static float w[64], memory[3][1024];
  int64_t four[] = {4};
  DLTensor weight = {w, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, four, nullptr, 0};
  const CinnValue weight_value = ValueOf(weight);
  ASSERT_TRUE((*f)->Prepare({&weight_value, 1}, HostEnv()).ok());
  int called = 0;
  for (int round = 0; round < Rounds(20000); ++round) {
    const int64_t n = static_cast<int64_t>(mutator.Pick(9)), m = 2 * (1 + static_cast<int64_t>(mutator.Pick(4)));
    std::vector<std::vector<int64_t>> shapes = {{n, m}, {4}, {n, m}, {n}, {4}}, strides(5);
    constexpr size_t kRanks = 8;
    std::vector<DLTensor> tensors(5);
    for (size_t i = 0; i < 5; ++i) {
      // An extent is looked at only where another says what it is.
      float* data = i == 1 ? w : i == 4 ? w + 32 : memory[i == 0 ? 0 : i - 1];
      const auto rank = static_cast<int32_t>(shapes[i].size());
      // A wrong rank is to be seen, not to be read beyond.
      shapes[i].reserve(kRanks);
      strides[i].reserve(kRanks);
      tensors[i] = {data, {kDLCPU, 0}, rank, {kDLFloat, 32, 1}, shapes[i].data(), nullptr, 0};
      strides[i].resize(shapes[i].size());
      int64_t stride = 1;
      for (size_t d = shapes[i].size(); d-- > 0; stride *= shapes[i][d]) strides[i][d] = stride;
      if (mutator.Pick(2) == 0) tensors[i].strides = strides[i].data();
    }
    bool is_right = true;
    if (mutator.Pick(3) != 0) {
      // Not the weight: prepared, it is not looked at again.
      const size_t i = std::vector<size_t>{0, 2, 3, 4}[mutator.Pick(4)];
      DLTensor& t = tensors[i];
      const bool is_empty = i != 4 && n == 0;
      const size_t d = mutator.Pick(shapes[i].size());
      switch (mutator.Pick(8)) {
        case 0:
          t.data = nullptr;
          is_right = is_empty;
          break;
        case 1:
          t.ndim = static_cast<int32_t>(mutator.Pick(5)) - 1;
          t.ndim = t.ndim == static_cast<int32_t>(shapes[i].size()) ? 7 : t.ndim;
          is_right = false;
          break;
        case 2:
          shapes[i][d] += i == 0 ? 1000 : 1;
          is_right = false;
          break;
        case 3:
          t.dtype = mutator.Pick(2) == 0 ? DLDataType{kDLInt, 32, 1} : DLDataType{kDLFloat, 32, 4};
          is_right = false;
          break;
        case 4:
          t.device = {mutator.Pick(2) == 0 ? kDLCUDA : kDLVulkan, 3};
          is_right = false;
          break;
        case 5:
          t.byte_offset = 2;  // an argument is copied; its values are others then
          is_right = is_empty || i == 0;
          break;
        case 6:
          t.shape = nullptr;
          is_right = false;
          break;
        default:
          // A stride of a dimension of one element, or of no element, says nothing.
          t.strides = strides[i].data();
          strides[i][d] = std::vector<int64_t>{-1, 0, 1 << 20, INT64_MAX, INT64_MIN}[mutator.Pick(5)];
          is_right = is_empty || shapes[i][d] == 1;
      }
    }
    for (int64_t k = 0; k < n * m; ++k) memory[0][k] = static_cast<float>(mutator.Pick(100));
    const Status s = Call(**f, tensors);
    ASSERT_EQ(s.ok(), is_right) << s << " n " << n << " m " << m << " seed " << mutator.seed();
    if (!s.ok()) {
      EXPECT_NE(Message(s).find("f: "), std::string::npos) << s;
      continue;
    }
    ++called;
    if (tensors[0].byte_offset != 0) continue;
    for (int64_t i = 0; i < n; ++i) {
      const float sum = std::accumulate(memory[0] + i * m, memory[0] + (i + 1) * m, static_cast<float>(m));
      ASSERT_EQ(memory[2][i], sum);
      ASSERT_EQ(memory[1][i * m], memory[0][i * m] + 1);
    }
  }
  EXPECT_GT(called, Rounds(1000));
}

}  // namespace
}  // namespace cinn_like
