#include "hlir/bids.h"

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "backends/device.h"
#include "cinn_like/driver.h"
#include "gtest/gtest.h"
#include "hlir/tactics/tactic.h"
#include "ir/pass_table.h"
#include "runtime/device_api.h"

namespace cinn_like {
namespace {

// Every other window of three channels: ours come to their panels under a mask, one by one.
constexpr char kConvolution[] = R"(graph @f(%x: f32[1,3,224,224], %w: f32[64,3,7,7]) {
  %0 = tanh(%x) : f32[1,3,224,224]
  %1 = conv(%0, %w) {padding=[3,3], stride=[2,2]} : f32[1,64,112,112]
  %2 = relu(%1) : f32[1,64,112,112]
  return %2
}
)";

CompileOptions Uncached() {
  CompileOptions options;
  options.disable_cache = true;
  return options;
}

std::vector<int> LostOps(const char* graph, const std::string& target, const CompileOptions& options = Uncached(),
                         const Devices& devices = Devices::BuiltIn()) {
  const auto compiled = CompileGraph(*hlir::Parse(graph), *devices.ParseTarget(target), options, devices);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return {};
  std::vector<int> r;
  for (const hlir::LostOp& l : (*compiled)->report().lost) {
    EXPECT_LT(l.framework_seconds, l.own_seconds);
    r.push_back(l.op);
  }
  EXPECT_EQ((*compiled)->entry() == nullptr, !r.empty());
  return r;
}

TEST(Bids, OpsAreNamedByTheirPlaceInTheGraphThatWasGiven) {
  EXPECT_EQ(LostOps(kConvolution, "cpu -mcpu=znver4 -num-threads=2 -framework=amd-avx512"), std::vector<int>{1});
  EXPECT_EQ(LostOps(kConvolution, "cpu -mcpu=znver4 -num-threads=2 -framework=intel-amx"), std::vector<int>{1});
  EXPECT_EQ(LostOps(kConvolution, "cpu -mcpu=znver4 -num-threads=2 -framework=auto"), std::vector<int>{1});
}

// Three in four products of a transposed window are of zeros, on neither side of the bids.
TEST(Bids, TransposedWindowsStay) {
  constexpr char kTransposed[] = R"(graph @f(%x: f32[16,128,16,16], %w: f32[128,64,4,4]) {
  %0 = conv_input_grad(%x, %w) {input_shape=[16,64,32,32], stride=[2,2], padding=[1,1]} : f32[16,64,32,32]
  return %0
}
)";
  EXPECT_TRUE(LostOps(kTransposed, "cpu -mcpu=znver4 -num-threads=1 -framework=amd-avx512").empty());
}

TEST(Bids, NothingIsLostWithoutAFrameworkOrWhenItIsTurnedOff) {
  EXPECT_TRUE(LostOps(kConvolution, "cpu").empty());
  CompileOptions options = Uncached();
  options.leave_to_framework = false;
  EXPECT_TRUE(LostOps(kConvolution, "cpu -mcpu=znver4 -num-threads=2 -framework=auto", options).empty());
}

// Eager adds one element after the other; lanes go across rows or along them.
TEST(Bids, ScansStayOnCpus) {
  for (const char* scan : {"f32[64,4096]) {\n  %0 = cumsum(%x) {axis=1} : f32[64,4096]",
                           "f32[4096,64]) {\n  %0 = cumsum(%x) {axis=0} : f32[4096,64]",
                           "f32[8,512,128]) {\n  %0 = cumprod(%x) {axis=1} : f32[8,512,128]",
                           "i64[32,512]) {\n  %0 = cumsum(%x) {axis=1} : i64[32,512]",
                           "f32[1,1000000]) {\n  %0 = cumsum(%x) {axis=1} : f32[1,1000000]"}) {
    const std::string graph = Cat("graph @f(%x: ", scan, "\n  return %0\n}\n");
    EXPECT_TRUE(LostOps(graph.c_str(), "cpu -mcpu=znver4 -num-threads=1 -framework=amd-avx512").empty()) << graph;
  }
}

// One kernel of ours is weighed against the framework's products and what then lies between them.
TEST(Bids, WhatJoinsTwoProductsIsWeighedWithWhatIsBetween) {
  constexpr char kWindows[] =
      R"(graph @f(%q: f32[64,4,49,32], %k: f32[64,4,49,32], %v: f32[64,4,49,32]) {
  %0 = transpose(%k) {perm=[0,1,3,2]} : f32[64,4,32,49]
  %1 = matmul(%q, %0) : f32[64,4,49,49]
  %2 = softmax(%1) {axis=3} : f32[64,4,49,49]
  %3 = matmul(%2, %v) : f32[64,4,49,32]
  return %3
}
)";
  EXPECT_TRUE(LostOps(kWindows, "cpu -mcpu=znver4 -num-threads=2 -framework=amd-avx512").empty());
}

// Vectors run along images or channels, whichever lie next to each other. Where channels do, the framework has vectors,
// too, and finds places as fast; gradients of the largest are a scatter there.
TEST(Bids, PoolsStay) {
  constexpr char kWindow[] = "kernel=[3,3], stride=[2,2], padding=[1,1]", kPooled[] = "[8,64,56,56]";
  constexpr char kTarget[] = "cpu -mcpu=znver4 -num-threads=1 -framework=amd-avx512";
  for (const bool channels_last : {false, true}) {
    const std::string head =
        Cat("graph @f(%x: f32[8,64,112,112]", channels_last ? " strides [802816,1,7168,64]" : "", ") {\n  %a");
    // Results lie as operands do.
    const auto laid_out = [&](const char* from, const char* to, const char* type) {
      const std::string x = Cat("\n  %", to, " = transpose(%", from, ") {perm=");
      return channels_last ? Cat(x, "[0,2,3,1]} : ", type, "[8,56,56,64]") : Cat(x, "[0,1,2,3]} : ", type, kPooled);
    };
    const std::string value = laid_out("a", "0", "f32"), place = laid_out("b", "1", "i64");
    const std::string max = Cat(head, ", %b = max_pool(%x) {", kWindow, "} : f32", kPooled, ", i64", kPooled, value);
    EXPECT_TRUE(LostOps(Cat(max, "\n  return %0\n}\n").c_str(), kTarget).empty()) << channels_last;
    EXPECT_EQ(LostOps(Cat(max, place, "\n  return %0, %1\n}\n").c_str(), kTarget).empty(), !channels_last);
    const std::string mean = Cat(head, " = avg_pool(%x) {", kWindow, "} : f32", kPooled, value, "\n  return %0\n}\n");
    EXPECT_TRUE(LostOps(mean.c_str(), kTarget).empty()) << channels_last;
  }
  const std::string gradient =
      Cat("graph @f(%dy: f32", kPooled, ", %i: i64", kPooled, ") {\n  %0 = max_pool_grad(%dy, %i) {", kWindow,
          ", input_shape=[8,64,112,112]} : f32[8,64,112,112]\n  return %0\n}\n");
  EXPECT_EQ(LostOps(gradient.c_str(), kTarget), std::vector<int>{0});
}

// Which tools/contraction_bench.py measures.
TEST(Bids, ConvolutionsThatPanelsMakeFasterStay) {
  const std::string target = "cpu -mcpu=znver4 -num-threads=1 -framework=amd-avx512";
  for (const auto& [x, w, y, attributes] : {std::tuple("1,64,56,56", "64,64,3,3", "1,64,56,56", "padding=[1,1]"),
                                            {"1,64,56,56", "256,64,1,1", "1,256,56,56", "stride=[1,1]"},
                                            {"1,256,28,28", "256,8,3,3", "1,256,28,28", "padding=[1,1], groups=32"},
                                            {"1,72,56,56", "72,1,3,3", "1,72,56,56", "padding=[1,1], groups=72"}}) {
    const std::string graph = Cat("graph @f(%x: f32[", x, "], %w: f32[", w, "]) {\n  %0 = conv(%x, %w) {", attributes,
                                  "} : f32[", y, "]\n  return %0\n}\n");
    EXPECT_TRUE(LostOps(graph.c_str(), target).empty()) << graph;
    const auto text = EmitGraph(*hlir::Parse(graph), *Target::Parse(target), Uncached(), "schedule");
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_TRUE(absl::StrContains(*text, "by matmul_cpu")) << *text;
  }
}

TEST(Bids, WhatTheCacheHoldsIsOfTheSameFlag) {
  CompileOptions options;
  options.cache_dir = testing::TempDir() + "/cinn_like_bids";
  EXPECT_EQ(LostOps(kConvolution, "cpu -mcpu=znver4 -num-threads=2 -framework=auto", options), std::vector<int>{1});
  EXPECT_EQ(LostOps(kConvolution, "cpu -mcpu=znver4 -num-threads=2 -framework=auto", options),
            std::vector<int>{1});  // from the cache
  options.leave_to_framework = false;
  EXPECT_TRUE(LostOps(kConvolution, "cpu -mcpu=znver4 -num-threads=2 -framework=auto", options).empty());
}

TEST(Bids, EveryCallOfASharedKernelIsLost) {
  EXPECT_EQ(LostOps(R"(graph @f(%x: bf16[256,512], %w: bf16[512,512], %v: bf16[512,512]) {
  %0 = matmul(%x, %w) : bf16[256,512]
  %1 = tanh(%0) : bf16[256,512]
  %2 = matmul(%1, %v) : bf16[256,512]
  return %2
}
)",
                    "cpu -framework=intel-amx -features=-amx-bf16"),
            (std::vector<int>{0, 2}));
}

// What the framework's product takes to lay out its right-hand side is much beside few rows, and nothing for one.
TEST(Bids, ProductsOfFewRowsPayForLayingOutTheirWeights) {
  const auto product = [](int rows) {
    return Cat("graph @f(%x: f32[", rows,
               ",384], %w: f32[384,384]) {\n  %0 = transpose(%w) {perm=[1,0]} : f32[384,384]\n",
               "  %1 = matmul(%x, %0) : f32[", rows, ",384]\n  return %1\n}\n");
  };
  for (int rows : {32, 128, 512}) {
    EXPECT_TRUE(LostOps(product(rows).c_str(), "cpu -mcpu=znver4 -num-threads=2 -framework=amd-avx512").empty())
        << rows;
  }
}

// A tuned product of what is computed finds it in memory, written first and read again; of f16 and integers there is
// none.
TEST(Bids, ProductsOfComputedOperandsAndOfOtherTypesStay) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    for (int rows : {1, 8, 128}) {
      const std::string w = Cat(type, "[2816,1024]");
      EXPECT_TRUE(LostOps(Cat("graph @f(%x: ", type, "[", rows, ",1024], %w: i8[2816,1024], %s: ", type,
                              "[2816,1]) {\n  %0 = cast(%w) {dtype=", type, "} : ", w, "\n  %1 = mul(%0, %s) : ", w,
                              "\n  %2 = transpose(%1) {perm=[1,0]} : ", type,
                              "[1024,2816]\n  %3 = matmul(%x, %2) : ", type, "[", rows, ",2816]\n  return %3\n}\n")
                              .c_str(),
                          "cpu -mcpu=znver5 -num-threads=2 -bandwidth=25 -framework=amd-avx512")
                      .empty())
          << type << " " << rows;
    }
  }
  for (const char* type : {"f16", "i8", "i32", "i64"}) {
    EXPECT_TRUE(LostOps(Cat("graph @f(%x: ", type, "[256,256], %w: ", type,
                            "[256,256]) {\n  %0 = matmul(%x, %w) : ", type, "[256,256]\n  return %0\n}\n")
                            .c_str(),
                        "cpu -mcpu=znver5 -num-threads=2 -bandwidth=25 -framework=amd-avx512")
                    .empty())
        << type;
  }
}

// The framework has a tuned kernel for bytes summed in i32, which few rows pay for laying out weights for; what is
// written as casts and a product it computes in i32.
TEST(Bids, ProductsOfBytesMeetTheirOwnKernel) {
  const auto lost = [](const std::string& ops, int rows, int columns) {
    return !LostOps(Cat("graph @f(%x: i8[", rows, ",512], %w: i8[512,", columns, "]) {\n", ops, " : i32[", rows, ",",
                        columns, "]\n  return %0\n}\n")
                        .c_str(),
                    "cpu -mcpu=znver4 -num-threads=1 -bandwidth=25 -framework=amd-avx512")
                .empty();
  };
  const std::string product = "  %0 = matmul(%x, %w) {wide=true}";
  EXPECT_TRUE(lost(product, 512, 512));
  EXPECT_FALSE(lost(product, 16, 5632));
  EXPECT_FALSE(lost(
      "  %a = cast(%x) {dtype=i32} : i32[512,512]\n  %b = cast(%w) {dtype=i32} : i32[512,512]\n  %0 = matmul(%a, %b)",
      512, 512));
}

TEST(Bids, WhatTheFrameworkHasNoKernelForStays) {
  EXPECT_TRUE(LostOps(R"(graph @f(%x: f32[64,4096], %y: f32[64,4096]) {
  %0 = mul(%x, %y) : f32[64,4096]
  %1 = reduce_sum(%0) {axes=[1]} : f32[64]
  return %1
}
)",
                      "cpu -framework=auto")
                  .empty());
}

TEST(Bids, SmallProductsCostLessThanTheBordersTheyWouldMake) {
  EXPECT_TRUE(LostOps(R"(graph @f(%x: f32[4,16], %w: f32[16,16]) {
  %0 = matmul(%x, %w) : f32[4,16]
  %1 = tanh(%0) : f32[4,16]
  return %1
}
)",
                      "cpu -framework=intel-amx")
                  .empty());
}

TEST(Bids, UnknownRowsAreAnErrorThatListsTheKnown) {
  EXPECT_EQ(Target::Parse("cpu -framework=vax").status().message(),
            "target: option -framework: unknown row 'vax'; known: auto, intel-amx, intel-avx512, amd-avx512, avx2, "
            "sm_70, sm_80, sm_90");
}

// As products their rows would start at 8 bytes; the framework's kernels make no rows.
TEST(Bids, ConvolutionsOfChannelsLastGoBackOnAGpu) {
  const std::string graph = R"(graph @f(%x: bf16[64,256,14,14] strides [50176,1,3584,256],
         %w: bf16[256,256,3,3] strides [2304,1,768,256]) {
  %0 = conv(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1], groups=1} : bf16[64,256,14,14]
  %1 = relu(%0) : bf16[64,256,14,14]
  return %1
}
)";
  const std::string target = "cuda -arch=sm_90a -sm-count=132 -bandwidth=4800 -libs=cublas -framework=auto";
  const auto compiled = CompileGraph(*hlir::Parse(graph), *Target::Parse(target), Uncached());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ((*compiled)->report().lost.size(), 1u);
}

// A row alone, which the framework's kernel cuts into parts for the whole machine, is ours where it is short; so are
// rows that threads share, and columns. Pairs take longer.
TEST(Bids, LongRowsAloneOfScansAreTheFrameworksOnAGpu) {
  const Target target = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=3350 -libs=cublas -framework=auto");
  struct {
    const char *op, *type;
    int axis;
    bool ours;
  } cases[] = {{"cumsum", "f32[64,4096]", 1, true},    {"cumsum", "f32[64,4096]", 0, true},
               {"cumsum", "f32[4096,64]", 0, true},    {"cumsum", "bf16[1024,1024]", 1, true},
               {"cumsum", "f32[8,512,128]", 1, true},  {"cumsum", "f32[100000,7]", 1, true},
               {"cumsum", "f32[8]", 0, true},          {"cumsum", "f32[1000000]", 0, false},
               {"cumsum", "f32[16384,4096]", 1, true}, {"cumprod", "f32[4096,1001]", 1, true},
               {"cumsum", "f32[16,100000]", 1, true},  {"cumsum", "f32[4096]", 0, true},
               {"cumsum", "f32[1,65536]", 1, false},   {"cummax", "f32[64,4096]", 1, true},
               {"cummax", "f32[16384,4096]", 1, true}};
  for (const auto& c : cases) {
    const std::string t = c.type, places = Cat(", i64", t.substr(t.find('[')));
    const bool is_pair = std::string_view(c.op) == "cummax";
    const auto compiled =
        CompileGraph(*hlir::Parse(Cat("graph @f(%x: ", t, ") {\n  %0 = exp(%x) : ", t, "\n  %1", is_pair ? ", %2" : "",
                                      " = ", c.op, "(%0) {axis=", c.axis, "} : ", t, is_pair ? places : "",
                                      "\n  return %1", is_pair ? ", %2" : "", "\n}\n")),
                     target, Uncached());
    if (c.ours) {
      EXPECT_TRUE(!compiled.ok() || (*compiled)->report().lost.empty()) << t;  // without NVRTC an error
      continue;
    }
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    ASSERT_EQ((*compiled)->report().lost.size(), 1u) << t;
    EXPECT_EQ((*compiled)->report().lost[0].op, 1);
  }
}

// A sum behind a product, as a kernel of its own, reads the product and what is added, and writes the sum.
TEST(Bids, WhatAnEpilogueMovesCountsOnAGpu) {
  const std::string graph = R"(graph @f(%x: bf16[16384,4096], %w: bf16[4096,4096], %r: bf16[16384,4096]) {
  %0 = transpose(%w) {perm=[1,0]} : bf16[4096,4096]
  %1 = matmul(%x, %0) : bf16[16384,4096]
  %2 = add(%1, %r) : bf16[16384,4096]
  return %2
}
)";
  const std::string target = "cuda -arch=sm_90a -sm-count=132 -bandwidth=3350 -libs=cublas -framework=auto";
  const auto compiled = CompileGraph(*hlir::Parse(graph), *Target::Parse(target), Uncached());
  EXPECT_TRUE(!compiled.ok() || (*compiled)->report().lost.empty());  // without NVRTC an error
}

// The framework's kernel is fed from rows of any alignment; ours reads padded copies, and keeps the product.
TEST(Bids, TheFrameworkReadsRowsAsTheyAre) {
  const auto head = [](const std::string& n) {
    return absl::StrReplaceAll(R"(graph @f(%x: bf16[8192,768], %w: bf16[N,768]) {
  %0 = transpose(%w) {perm=[1,0]} : bf16[768,N]
  %1 = matmul(%x, %0) : bf16[8192,N]
  %2 = reshape(%1) {shape=[8,1024,N]} : bf16[8,1024,N]
  %3 = cast(%2) {dtype=f32} : f32[8,1024,N]
  %4 = reduce_max(%3) {axes=[2]} : f32[8,1024]
  return %2, %4
}
)",
                               {{"N", n}});
  };
  const std::string target = "cuda -arch=sm_90a -sm-count=132 -bandwidth=4800 -libs=cublas -framework=auto";
  for (const char* n : {"30522", "50257"}) {
    const auto text = EmitGraph(*hlir::Parse(head(n)), *Target::Parse(target), Uncached(), "schedule");
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_TRUE(absl::StrContains(*text, n[0] == '3' ? " 30528, " : " 50264, ")) << *text;
    // Without NVRTC there is an error instead, of what is left to be compiled.
    const auto compiled = CompileGraph(*hlir::Parse(head(n)), *Target::Parse(target), Uncached());
    EXPECT_TRUE(!compiled.ok() || (*compiled)->report().lost.empty()) << (*compiled)->report().lost[0].own_seconds;
  }
}

// A CPU that differs from the built-in one in what bids and passes it has beside ours: its tactic promises more than it
// keeps, its pass refuses whatever is not loops as they stand.
StatusOr<std::vector<hlir::Proposal>> Boast(const ir::TeProgram&, const Target&, hlir::Until until, hlir::Point&) {
  if (until == hlir::Until::kSchedule) return Internal("no");
  return std::vector<hlir::Proposal>{{"boast", {}, "", 1e-9}};
}
StatusOr<ir::Func> RefuseVectors(ir::Func f, const PassContext&) {
  if (absl::StrContains(ir::Print(f), "ramp(") || absl::StrContains(ir::Print(f), "parallel")) return Internal("no");
  return f;
}
StatusOr<ir::Func> RefuseTanh(ir::Func f, const PassContext&) {
  if (absl::StrContains(ir::Print(f), "tanh(")) return Internal("it has a tanh");
  return f;
}
constexpr RuntimeDevice kRuntime = {kDLExtDev, kDLExtDev, GetHostDevice};

struct OtherCpu {
  OtherCpu(const std::vector<hlir::Tactic>* tactics, const std::vector<ir::HookedPass>* passes) : kind(HostKind()) {
    kind.name = "other", kind.alias = "", kind.type = kDLExtDev;
    kind.tactics = tactics, kind.passes = passes;
    EXPECT_TRUE(devices.Add({&kind, &kRuntime}).ok());
  }
  DeviceKind kind;
  Devices devices = Devices::BuiltIn();
};

// What runs in its place is weighed once more, when all of it is known.
TEST(Bids, ACheapTacticThatIsRefusedLoses) {
  const std::vector<hlir::Tactic> tactics = {{"boast", Boast}};
  const OtherCpu other(&tactics, nullptr);
  const Target target = *other.devices.ParseTarget("other -mcpu=znver4 -num-threads=2 -framework=amd-avx512");
  const auto bid = BidOnGraph(*hlir::Parse(kConvolution), target, Uncached(), other.devices);
  ASSERT_TRUE(bid.ok()) << bid.status();
  EXPECT_TRUE((*bid)->report().lost.empty());
  ASSERT_TRUE((*bid)->Finish().ok());
  ASSERT_EQ((*bid)->report().lost.size(), 1u);
  EXPECT_EQ((*bid)->report().lost[0].op, 1);
  EXPECT_EQ((*bid)->entry(), nullptr);
}

// A kernel that can't be compiled costs its own ops alone: where there is a framework, whose they are, and else an
// error.
TEST(Bids, WhatCannotBeCompiledGoesBack) {
  constexpr char kOps[] = R"(graph @f(%x: f32[64,40], %y: f32[30,7]) {
  %0 = exp(%x) : f32[64,40]
  %1 = add(%0, %x) : f32[64,40]
  %2 = tanh(%y) : f32[30,7]
  return %1, %2
}
)";
  const std::vector<ir::HookedPass> passes = {{"flatten", {"refuse_tanh", RefuseTanh}}};
  const OtherCpu other(nullptr, &passes);
  const auto bid = BidOnGraph(*hlir::Parse(kOps), *other.devices.ParseTarget("other -framework=amd-avx512"), Uncached(),
                              other.devices);
  ASSERT_TRUE(bid.ok()) << bid.status();
  EXPECT_TRUE((*bid)->report().lost.empty());
  ASSERT_TRUE((*bid)->Finish().ok());
  ASSERT_EQ((*bid)->report().lost.size(), 1u);
  EXPECT_EQ((*bid)->report().lost[0].op, 2);
  EXPECT_TRUE(absl::StrContains((*bid)->report().lost[0].failure, "tactic naive: pass 'refuse_tanh': it has a tanh"))
      << (*bid)->report().lost[0].failure;
  const auto alone = CompileGraph(*hlir::Parse(kOps), *other.devices.ParseTarget("other"), Uncached(), other.devices);
  ASSERT_FALSE(alone.ok());
  EXPECT_TRUE(absl::StrContains(alone.status().message(), "it has a tanh")) << alone.status();
}

// Loops as they stand lose to the framework's of one op after the other, where it has no tuned kernel either.
TEST(Bids, LoopsAsTheyStandLose) {
  constexpr char kSoftmax[] = R"(graph @f(%x: f32[64,4096], %y: f32[64,4096]) {
  %0 = add(%x, %y) : f32[64,4096]
  %1 = softmax(%0) {axis=1} : f32[64,4096]
  return %1
}
)";
  const std::vector<ir::HookedPass> passes = {{"vectorize", {"refuse_vectors", RefuseVectors}}};
  const OtherCpu other(nullptr, &passes);
  EXPECT_EQ(LostOps(kSoftmax, "other -mcpu=znver4 -num-threads=1 -framework=amd-avx512", Uncached(), other.devices),
            std::vector<int>{1});  // and the sum, which was part of it, is compiled by itself
  EXPECT_TRUE(LostOps(kSoftmax, "cpu -mcpu=znver4 -num-threads=1 -framework=amd-avx512").empty());
  const auto text = EmitGraph(*hlir::Parse(kSoftmax), *other.devices.ParseTarget("other -mcpu=znver4"), Uncached(),
                              "schedule", other.devices);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(absl::StrContains(*text, "by naive")) << *text;
}

}  // namespace
}  // namespace cinn_like
