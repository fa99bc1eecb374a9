// What fusion costs, near-linear in the number of ops, whatever they are; and what symbols change about its choices.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "absl/strings/str_replace.h"
#include "hlir/lower_graph.h"
#include "hlir/lower_te.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/lower.h"
#include "tests/hlir/large_graph.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

// Processor seconds from a graph to kernels that are not scheduled yet, the fewest of a few runs.
double SecondsToLower(const StatusOr<Graph>& graph, const Target& target) {
  double best = 1e9;
  EXPECT_TRUE(graph.ok()) << graph.status();
  for (int run = 0; graph.ok() && run < 3; ++run) {
    const clock_t begin = clock();
    const PassContext context{.options = {}, .target = target, .name = "test"};
    const StatusOr<Graph> optimized = OptimizeGraph(*graph, {});
    EXPECT_TRUE(optimized.ok()) << optimized.status();
    const StatusOr<LoweredGraph> lowered = LowerGraph(*optimized, context);
    EXPECT_TRUE(lowered.ok()) << lowered.status();
    best = std::min(best, static_cast<double>(clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

// Twice the ops may cost 2.2 times the time, so four times the ops 4.8 times; a quadratic step would make it 16.
// Between the two lies what a busy machine adds.
TEST(Fusion, FourTimesTheOpsCostFourTimesTheTime) {
  if (kRoundsDivisor > 1) GTEST_SKIP() << "times under a sanitizer say nothing";
  constexpr double kMost = 8;
  for (const char* text : {"x86_64 -mcpu=skylake", "cuda -arch=sm_90a"}) {
    const Target target = *Target::Parse(text);
    for (bool symbolic : {false, true}) {
      const double few = SecondsToLower(LargeGraph(500, symbolic), target);
      const double many = SecondsToLower(LargeGraph(2000, symbolic), target);
      EXPECT_LE(many, kMost * few) << text << " blocks: " << few << " s, then " << many << " s";
    }
    const double few = SecondsToLower(LongChain(500), target), many = SecondsToLower(LongChain(2000), target);
    EXPECT_LE(many, kMost * few) << text << " chain: " << few << " s, then " << many << " s";
  }
}

// On the stack of a caller, which may be small; who reads whom of more is too large a table.
TEST(Fusion, ChainsOfAnyLength) {
  const Target target = *Target::Parse("x86_64 -mcpu=skylake");
  for (const auto& [ops, runs] : {std::pair(100000 / kRoundsDivisor, true), {140000, false}}) {
    const StatusOr<Graph> graph = LongChain(ops);
    ASSERT_TRUE(graph.ok()) << graph.status();
    StatusOr<ir::TeProgram> te = LowerToTe(*graph);
    ASSERT_TRUE(te.ok()) << te.status();
    const StatusOr<FusionPlan> plan = PlanFusion(*std::move(te), false, target);
    EXPECT_EQ(plan.ok(), runs) << plan.status();
    if (runs)
      EXPECT_GT(plan->groups.size(), 90000u / kRoundsDivisor);
    else
      EXPECT_NE(Message(plan.status()).find("expected a graph of at most 131072 operations"), std::string::npos);
  }
}

// Each step reads what comes before at two places: written out whole it would double with each of them.
TEST(Fusion, RollsOfRolls) {
  Graph g("rolls");
  OpBuilder b(&g);
  ValueRef x = {*g.AddParam("x", {DType::kF32, {64, 64}})};
  for (int i = 0; i < 60; ++i) x = b.Concat({b.Slice(x, i % 2, 3, 64), b.Slice(x, i % 2, 0, 3)}, i % 2);
  ASSERT_TRUE(b.status().ok()) << b.status();
  ASSERT_TRUE(g.SetResults({x.id}).ok());
  for (const char* text : {"x86_64 -mcpu=skylake", "cuda -arch=sm_90a"}) {
    const StatusOr<LoweredGraph> lowered =
        LowerGraph(g, {.options = {}, .target = *Target::Parse(text), .name = "test"});
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_LT(lowered->kernels.size(), 30u);
  }
}

// Kernels and, for each, what it is cut into.
std::vector<std::string> KernelsOf(const std::string& text, const Target& target) {
  std::vector<std::string> r;
  const StatusOr<Graph> graph = Parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return r;
  const StatusOr<LoweredGraph> lowered = LowerGraph(*graph, {.options = {}, .target = target, .name = "test"});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  for (const LoweredGraph::Kernel& k : lowered->kernels) {
    const StatusOr<Choice> p = ChooseSchedule(k.group, target);
    EXPECT_TRUE(p.ok()) << p.status();
    std::string loops = p->proposal.tactic;
    for (const ir::Stage& s : k.group.stages) loops += Cat(" ", s.iters.size(), "/", s.reduce_iters.size());
    r.push_back(loops);
  }
  return r;
}

// Sums of different tensors to single numbers, of which one more number is made, share a loop where that is as long.
TEST(Fusion, NumbersThatAreNeededTogether) {
  for (const char* device : {"x86_64 -mcpu=sapphirerapids -num-threads=16", "cuda -arch=sm_90a -bandwidth=4800"}) {
    for (const auto& [size, kernels] : {std::pair("1000", 1u), {"999", 2u}}) {
      const std::string text =
          Cat("graph @f(%x: f32[1000], %y: f32[", size, "]) {\n",
              "  %0 = reduce_sum(%x) {axes=[0]} : f32[]\n  %1 = reduce_max(%y) {axes=[0]} : f32[]\n"
              "  %2 = div(%0, %1) : f32[]\n  return %2\n}\n");
      EXPECT_EQ(KernelsOf(text, *Target::Parse(device)).size(), kernels) << device << text;
    }
  }
}

// A symbol whose hint is a constant's value is scheduled as that constant is, but for what only divisors allow
// (neighbours of columns that fill no vector).
TEST(Fusion, HintsCountAsConstants) {
  for (const char* device : {"x86_64 -mcpu=sapphirerapids -num-threads=16", "cuda -arch=sm_90a -bandwidth=4800"}) {
    const Target target = *Target::Parse(device);
    for (const auto& [size, rest] : {std::pair(1 << 28, ""), {1 << 16, ",2048"}, {1 << 20, ",64"}, {64, ",2048"}}) {
      const auto text = [&](const std::string& n, const std::string& where) {
        const std::string x = Cat("f32[", n, rest, "]"), r = Cat("f32[", rest[0] == ',' ? rest + 1 : "", "]");
        return Cat("graph @f(%x: ", x, ")", where, " {\n  %0 = mul(%x, %x) : ", x,
                   "\n  %1 = reduce_sum(%0) {axes=[0]} : ", r, "\n  return %1\n}\n");
      };
      const std::string where = Cat(" where n in 2..2147483647 hint ", size);
      EXPECT_EQ(KernelsOf(text(Cat(size), ""), target), KernelsOf(text("n", where), target)) << device << size << rest;
    }
    const std::vector<std::string> squares = KernelsOf(
        "graph @f(%x: f32[n]) where n in 2..2147483647 {\n  %0 = mul(%x, %x) : f32[n]\n  %1 = reduce_sum(%0) "
        "{axes=[0]} : f32[]\n  return %1\n}\n",
        target);
    EXPECT_EQ(squares.size(), 2) << device;  // nobody said that it is short
  }
}

// How many tensors of rows * columns elements the kernels of a graph write.
int MatricesWritten(const std::string& text, const std::string& device, int rows, int columns) {
  const StatusOr<Graph> graph = Parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return -1;
  const StatusOr<LoweredGraph> lowered =
      LowerGraph(*graph, {.options = {}, .target = *Target::Parse(device), .name = "f"});
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  int written = 0;
  for (const LoweredGraph::Kernel& k : lowered->kernels) {
    for (const ir::Param& p : k.group.params) {
      if (p.role != ir::ParamRole::kResult || p.buffer == nullptr) continue;
      int64_t elements = 1;
      for (ir::Expr e : p.buffer->shape) elements *= e->int_value;
      written += elements == int64_t{rows} * columns;
    }
  }
  return written;
}

// The gradient of a cross entropy: one-hot rows are computed where they are read, by the row sums and by the result,
// and take no memory.
// Two products with reductions between them are one kernel, which keeps nothing of rows times keys; where numerics are
// exact, or the weights are a result, too, they are three.
TEST(Fusion, ReductionsBetweenProductsAreOneKernel) {
  constexpr const char* kGraph = R"(graph @weights(%q: f32[1,8,1024,64], %k: f32[1,8,1024,64], %v: f32[1,8,1024,64]) {
    %0 = transpose(%k) {perm=[0,1,3,2]} : f32[1,8,64,1024]
    %1 = matmul(%q, %0) : f32[1,8,1024,1024]
    %2 = softmax(%1) {axis=3} : f32[1,8,1024,1024]
    %3 = matmul(%2, %v) : f32[1,8,1024,64]
    return RESULTS
  })";
  for (const auto& [results, numerics, kernels] :
       {std::tuple("%3", "fused", 1u), {"%3", "exact", 3u}, {"%3, %2", "fused", 3u}}) {
    const auto graph = Parse(absl::StrReplaceAll(kGraph, {{"RESULTS", results}}));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const PassContext context{
        .options = {.numerics = numerics}, .target = *Target::Parse("x86_64 -mcpu=znver5"), .name = "t"};
    const auto optimized = OptimizeGraph(*graph, context);
    ASSERT_TRUE(optimized.ok()) << optimized.status();
    const auto lowered = LowerGraph(*optimized, context);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    ASSERT_EQ(lowered->kernels.size(), kernels) << numerics;
    if (kernels != 1) continue;
    const auto choice = ChooseSchedule(lowered->kernels[0].group, context.target);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->proposal.tactic, "chain_cpu");
    const auto loops = ir::LowerKernel(choice->proposal.func, context);
    ASSERT_TRUE(loops.ok()) << loops.status();
    ir::VisitStmts(loops->body, [&](const ir::Stmt& s) {
      if (const ir::Alloc* a = ir::As<ir::Alloc>(s)) {
        EXPECT_EQ(a->buffer->scope, ir::Scope::kLocal) << a->buffer->name;
        EXPECT_LE(a->buffer->shape[0]->int_value, 64 * 64) << a->buffer->name;
      }
      return true;
    });
  }
}

// Softmax of 16-bit floats whose results are read in another shape rounds them itself: no f32 goes through memory.
TEST(Fusion, RoundingsStayWithWhatTheyRound) {
  const auto graph = Parse(R"(graph @reshaped(%x: bf16[4,32,64,64], %v: bf16[128,64,32]) {
  %0 = softmax(%x) {axis=3} : bf16[4,32,64,64]
  %1 = reshape(%0) {shape=[128,64,64]} : bf16[128,64,64]
  %2 = matmul(%1, %v) : bf16[128,64,32]
  return %2
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const char* device : {"x86_64 -mcpu=sapphirerapids", "cuda -arch=sm_90a -libs=cublas"}) {
    const PassContext context{.options = {}, .target = *Target::Parse(device), .name = "t"};
    const auto optimized = OptimizeGraph(*graph, context);
    ASSERT_TRUE(optimized.ok()) << optimized.status();
    const auto lowered = LowerGraph(*optimized, context);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    ASSERT_EQ(lowered->kernels.size(), 2u) << device;
    for (const ir::Param& p : lowered->kernels[0].group.params) EXPECT_EQ(p.buffer->dtype, DType::kBF16) << device;
  }
}

// Whatever their sizes, and whether these are known; but few rows of many keys, which fill no vectors, are three
// kernels.
TEST(Fusion, ReductionsBetweenProductsOfAnySizes) {
  constexpr const char* kGraph = R"(graph @g(%q: f32[2,16,ROWS,64], %k: f32[2,16,KEYS,64], %v: f32[2,16,KEYS,64])WHERE {
    %0 = transpose(%k) {perm=[0,1,3,2]} : f32[2,16,64,KEYS]
    %1 = matmul(%q, %0) : f32[2,16,ROWS,KEYS]
    %2 = softmax(%1) {axis=3} : f32[2,16,ROWS,KEYS]
    %3 = matmul(%2, %v) : f32[2,16,ROWS,64]
    return %3
  })";
  for (const auto& [rows, keys, kernels] : {std::tuple(512, 512, 1u),
                                            {577, 577, 1u},
                                            {1024, 300, 1u},
                                            {32, 4096, 1u},
                                            {64, 77, 1u},
                                            {8, 4096, 3u},
                                            {2, 4096, 3u}}) {
    const std::string hints = Cat(" where n in 2..2147483647 hint ", rows, ", m in 2..2147483647 hint ", keys),
                      bounds = Cat(" where n in 1..", rows, " hint ", rows, ", m in 1..", keys, " hint ", keys);
    for (const char* device : {"x86_64 -mcpu=znver5 -num-threads=2", "x86_64 -mcpu=sapphirerapids -num-threads=16"}) {
      for (const auto& [n, m, where] :
           {std::tuple(Cat(rows), Cat(keys), std::string()), {"n", "m", hints}, {"n", "m", bounds}}) {
        const PassContext context{.options = {}, .target = *Target::Parse(device), .name = "t"};
        const auto graph = Parse(absl::StrReplaceAll(kGraph, {{"ROWS", n}, {"KEYS", m}, {"WHERE", where}}));
        ASSERT_TRUE(graph.ok()) << graph.status();
        const auto optimized = OptimizeGraph(*graph, context);
        ASSERT_TRUE(optimized.ok()) << optimized.status();
        const auto lowered = LowerGraph(*optimized, context);
        ASSERT_TRUE(lowered.ok()) << lowered.status();
        const auto near = std::count_if(lowered->kernels.begin(), lowered->kernels.end(),
                                        [](const LoweredGraph::Kernel& k) { return k.name.ends_with("_near"); });
        EXPECT_EQ(lowered->kernels.size() - static_cast<size_t>(near), kernels)
            << device << where << " " << rows << " " << keys;
      }
    }
  }
}

// Of a cache what is read of it counts, not what it could hold.
TEST(Fusion, ReductionsBetweenProductsOfSlices) {
  constexpr const char* kGraph = R"(graph @g(%q: f32[8,16,128], %k: f32[32,4096,128], %v: f32[32,4096,128]) {
    %0 = slice(%k) {axis=0, begin=0, end=8, step=1} : f32[8,4096,128]
    %1 = slice(%v) {axis=0, begin=0, end=8, step=1} : f32[8,4096,128]
    %2 = transpose(%0) {perm=[0,2,1]} : f32[8,128,4096]
    %3 = matmul(%q, %2) : f32[8,16,4096]
    %4 = softmax(%3) {axis=2} : f32[8,16,4096]
    %5 = matmul(%4, %1) : f32[8,16,128]
    return %5
  })";
  const PassContext context{.options = {}, .target = *Target::Parse("x86_64 -mcpu=znver5 -num-threads=2"), .name = "t"};
  const auto graph = Parse(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto optimized = OptimizeGraph(*graph, context);
  ASSERT_TRUE(optimized.ok()) << optimized.status();
  const auto lowered = LowerGraph(*optimized, context);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->kernels.size(), 1u);
}

// Steps of a stencil: one that was written into the next would be computed for each of its five neighbours; what the
// next one takes of a step at its own place is computed there.
TEST(Fusion, StepsOfAStencilAreKernels) {
  Graph g("steps");
  OpBuilder b(&g);
  ValueRef x = {*g.AddParam("x", {DType::kF32, {256, 256}})};
  const auto roll = [&](ValueRef v, int axis, int64_t by) {
    return b.Concat({b.Slice(v, axis, by, 256), b.Slice(v, axis, 0, by)}, axis);
  };
  for (int i = 0; i < 3; ++i) {
    const ValueRef around = b.Add(b.Add(roll(x, 0, 1), roll(x, 0, 255)), b.Add(roll(x, 1, 1), roll(x, 1, 255)));
    const ValueRef step =
        b.Add(b.Mul(b.Full(0.1 + i, DType::kF32, {}), b.Sub(around, b.Mul(x, b.Full(4.0, DType::kF32, {})))),
              b.Mul(x, b.Sub(b.Full(1.0, DType::kF32, {}), b.Mul(x, x))));
    x = b.Add(x, step);
  }
  ASSERT_TRUE(b.status().ok()) << b.status();
  ASSERT_TRUE(g.SetResults({x.id}).ok());
  for (const char* device : {"x86_64 -mcpu=sapphirerapids", "cuda -arch=sm_90a"}) {
    EXPECT_EQ(KernelsOf(Print(g), *Target::Parse(device)).size(), 3u) << device;
    EXPECT_EQ(MatricesWritten(Print(g), device, 256, 256), 3) << device;
  }
}

TEST(Fusion, SpreadValuesAreComputedAgainRatherThanKept) {
  for (const char* device : {"x86_64 -mcpu=sapphirerapids", "cuda -arch=sm_90a"}) {
    EXPECT_EQ(MatricesWritten(R"(graph @f(%p: f32[256,5000], %t: i64[256,1], %g: f32[256,1]) {
  %0 = iota() {dtype=i64, shape=[5000], axis=0} : i64[5000]
  %1 = reshape(%0) {shape=[1,5000]} : i64[1,5000]
  %2 = eq(%1, %t) : bool[256,5000]
  %3 = full() {value=0.0, dtype=f32, shape=[]} : f32[]
  %4 = select(%2, %g, %3) : f32[256,5000]
  %5 = reduce_sum(%4) {axes=[1], keepdims=true} : f32[256,1]
  %6 = exp(%p) : f32[256,5000]
  %7 = mul(%6, %5) : f32[256,5000]
  %8 = sub(%4, %7) : f32[256,5000]
  %9 = reduce_sum(%8) {axes=[0]} : f32[5000]
  return %8, %9
}
)",
                              device, 256, 5000),
              1)
        << device;
  }
}

// The gradients of a layer norm in bf16: what is normalised is f32, read by the row sums, the column sum and the
// result.
TEST(Fusion, WideValuesOfNarrowOnesAreComputedAgainRatherThanKept) {
  for (const char* device : {"x86_64 -mcpu=sapphirerapids", "cuda -arch=sm_90a"}) {
    EXPECT_EQ(MatricesWritten(R"(graph @f(%x: bf16[512,1024], %m: f32[512,1], %r: f32[512,1], %g: bf16[512,1024]) {
  %0 = cast(%x) {dtype=f32} : f32[512,1024]
  %1 = sub(%0, %m) : f32[512,1024]
  %2 = mul(%1, %r) : f32[512,1024]
  %3 = cast(%g) {dtype=f32} : f32[512,1024]
  %4 = mul(%3, %2) : f32[512,1024]
  %5 = reduce_sum(%4) {axes=[1], keepdims=true} : f32[512,1]
  %6 = reduce_sum(%2) {axes=[0]} : f32[1024]
  %7 = mul(%2, %5) : f32[512,1024]
  %8 = sub(%3, %7) : f32[512,1024]
  %9 = cast(%8) {dtype=bf16} : bf16[512,1024]
  return %9, %6
}
)",
                              device, 512, 1024),
              1)
        << device;
  }
}

// The gradients of a layer norm behind a product in bf16, as training has them: the product's rounded sums are what
// lies in memory, the normalised rows do not; the gradient, its 16-bit copy of another shape and both row sums, of
// which one is a product of a matrix and a vector, are one kernel.
TEST(Fusion, NormGradientsBehindAProductAreOneKernel) {
  const std::string graph =
      R"(graph @f(%a: bf16[512,256], %w: bf16[256,768], %x: f32[8,64,768], %m: f32[8,64,1], %r: f32[8,64,1], %g: f32[768], %p: f32[8,64,768]) {
  %0 = matmul(%a, %w) : bf16[512,768]
  %1 = cast(%0) {dtype=f32} : f32[512,768]
  %2 = reshape(%1) {shape=[8,64,768]} : f32[8,64,768]
  %3 = sub(%x, %m) : f32[8,64,768]
  %4 = mul(%3, %r) : f32[8,64,768]
  %5 = mul(%2, %g) : f32[8,64,768]
  %6 = reduce_sum(%5) {axes=[2], keepdims=true} : f32[8,64,1]
  %7 = sub(%5, %6) : f32[8,64,768]
  %8 = mul(%5, %4) : f32[8,64,768]
  %9 = reduce_sum(%8) {axes=[2], keepdims=true} : f32[8,64,1]
  %10 = mul(%4, %9) : f32[8,64,768]
  %11 = sub(%7, %10) : f32[8,64,768]
  %12 = add(%p, %11) : f32[8,64,768]
  %13 = cast(%12) {dtype=bf16} : bf16[8,64,768]
  %14 = reshape(%13) {shape=[512,768]} : bf16[512,768]
  %15 = mul(%2, %4) : f32[8,64,768]
  %16 = reduce_sum(%15) {axes=[0,1]} : f32[768]
  return %12, %14, %16
}
)";
  for (const char* device : {"x86_64 -mcpu=sapphirerapids", "cuda -arch=sm_90a -libs=cublas"}) {
    // And the column sum: of as few columns, where there are many cores, two.
    EXPECT_EQ(KernelsOf(graph, *Target::Parse(device)).size(), device[0] == 'x' ? 4 : 3) << device;
    EXPECT_EQ(MatricesWritten(graph, device, 512, 768), 3) << device;  // the product, the gradient, its copy
  }
}

// What training saves of a product, the pre-activation beside the activation, a mask, or a sum beside what it is of, is
// a result of the same kernel, as long as loops of their own would not take less time than the lines of more results.
TEST(Fusion, ProductsLeaveSeveralResults) {
  for (const char* dtype : {"f32", "bf16"}) {
    for (const auto& [rows, kernels] : {std::pair("16", 1u), {"n", 1u}, {"2048", 2u}}) {
      for (const auto& [last, type] : {std::pair("tanh(%1)", "D"), {"gt(%1, %z)", "bool"}, {"add(%1, %r)", "D"}}) {
        const std::string graph = absl::StrReplaceAll(
            "graph @f(%x: D[M,96], %w: D[96,64], %b: D[64], %r: D[M,64]) where n in 1..100 {\n"
            "  %z = full() {value=0.0, dtype=D, shape=[]} : D[]\n  %0 = matmul(%x, %w) : D[M,64]\n"
            "  %1 = add(%0, %b) : D[M,64]\n  %2 = LAST : TYPE[M,64]\n  return %1, %2\n}\n",
            {{"LAST", last}, {"TYPE", type}});
        const std::string text = absl::StrReplaceAll(
            graph, {{"D", dtype}, {"M", rows}, {" where n in 1..100", rows[0] == 'n' ? " where n in 1..100" : ""}});
        const std::vector<std::string> got =
            KernelsOf(text, *Target::Parse("x86_64 -mcpu=sapphirerapids -num-threads=16"));
        EXPECT_EQ(got.size(), kernels) << text;
      }
    }
  }
}

// What only the caller has in f32 is written so by the product itself.
TEST(Fusion, RoundingsThatTheCallerDoesNotSeeTakeNoKernel) {
  const std::string graph = R"(graph @f(%a: bf16[512,256], %w: bf16[256,768]) {
  %0 = matmul(%a, %w) : bf16[512,768]
  %1 = cast(%0) {dtype=f32} : f32[512,768]
  return %1
}
)";
  EXPECT_EQ(KernelsOf(graph, *Target::Parse("cuda -arch=sm_90a -libs=cublas")).size(), 1);
}

// 64 blocks leave half of an H200 idle; of 16-bit elements a block takes twice the columns.
TEST(Fusion, ColumnSumsFillTheDevice) {
  const Target h200 = *Target::Parse("cuda -arch=sm_90a -sm-count=132 -bandwidth=4814");
  for (const char* type : {"f32", "bf16"}) {
    for (const auto& [rows, where] : {std::pair("65536", ""), {"n", " where n in 2..2147483647 hint 65536"}}) {
      const std::string text = Cat("graph @f(%x: ", type, "[", rows, ",2048])", where,
                                   " {\n  %0 = reduce_sum(%x) {axes=[0]} : ", type, "[2048]\n  return %0\n}\n");
      EXPECT_EQ(KernelsOf(text, h200).size(), 2) << type << rows;
    }
  }
}

// Tables that are made of places alone are one kernel where they have as many elements.
TEST(Fusion, TablesOfPlacesAreOneKernel) {
  for (const char* device : {"x86_64 -mcpu=sapphirerapids -num-threads=16", "cuda -arch=sm_90a -bandwidth=4800"}) {
    for (const auto& [other, kernels] : {std::pair("n", 1u), {"m", 2u}}) {
      const std::string text = absl::StrReplaceAll(
          "graph @f(n: i64, m: i64) where n in 1..1000000 hint 96, m in 1..1000000 hint 96 {\n"
          "  %0 = iota() {shape=[n]} : i64[n]\n  %1 = cast(%0) {dtype=f32} : f32[n]\n  %2 = sin(%1) : f32[n]\n"
          "  %3 = iota() {shape=[M,1]} : i64[M,1]\n  %4 = cast(%3) {dtype=f32} : f32[M,1]\n  %5 = exp(%4) : f32[M,1]\n"
          "  return %2, %5\n}\n",
          {{"M", other}});
      EXPECT_EQ(KernelsOf(text, *Target::Parse(device)).size(), kernels) << device << text;
    }
  }
}

// What is normalised by groups of channels is one kernel with what the groups are reduced to, though it is written in
// another shape; several where that is predicted to take less time: groups that are lines of few channels, on a CPU,
// whose channels are added up first, and groups of which a GPU has fewer than cores.
TEST(Fusion, GroupsAreNormalisedWhereTheyAreReduced) {
  const std::string cpu = "x86_64 -mcpu=sapphirerapids -num-threads=2",
                    gpu = "cuda -arch=sm_90a -sm-count=132 -bandwidth=4800 -l2-bytes=62914560";
  const auto norm_of = [](const std::string& n, int channels, const std::string& side, bool channels_last) {
    return absl::StrReplaceAll(
        Cat("graph @f(%p: f32[IN], %w: f32[C])",
            n == "n" ? " where n in 2..2147483647 hint 2, s in 2..2147483647 hint 64" : "", " {\n",
            channels_last ? "  %x = transpose(%p) {perm=[0,3,1,2]} : f32[N,C,S,S]\n" : "",
            "  %0 = reshape(X) {shape=[N,32,G,S*S]} : f32[N,32,G,S*S]\n"
            "  %1 = reduce_sum(%0) {axes=[2,3], keepdims=true} : f32[N,32,1,1]\n  %2 = sub(%0, %1) : f32[N,32,G,S*S]\n"
            "  %3 = mul(%2, %2) : f32[N,32,G,S*S]\n"
            "  %4 = reduce_sum(%3) {axes=[2,3], keepdims=true} : f32[N,32,1,1]\n  %5 = rsqrt(%4) : f32[N,32,1,1]\n"
            "  %6 = mul(%2, %5) : f32[N,32,G,S*S]\n  %7 = reshape(%6) {shape=[N,C,S,S]} : f32[N,C,S,S]\n"
            "  %8 = reshape(%w) {shape=[1,C,1,1]} : f32[1,C,1,1]\n  %9 = mul(%7, %8) : f32[N,C,S,S]\n"
            "  %10 = tanh(%9) : f32[N,C,S,S]\n",
            channels_last ? "  %11 = transpose(%10) {perm=[0,2,3,1]} : f32[IN]\n  return %11\n}\n"
                          : "  return %10\n}\n"),
        {{"IN",
          channels_last ? Cat(n, ",", side, ",", side, ",", channels) : Cat(n, ",", channels, ",", side, ",", side)},
         {"X", channels_last ? "%x" : "%p"},
         {"N", n},
         {"S", side},
         {"C", Cat(channels)},
         {"G", Cat(channels / 32)}});
  };
  for (const std::string& device : {cpu, gpu}) {
    const Target target = *Target::Parse(device);
    const auto kinds = [&](const std::string& text) {  // a kernel for sizes near the hints counts as that for all
      const std::vector<std::string> r = KernelsOf(text, target);
      return std::set<std::string>(r.begin(), r.end()).size();
    };
    EXPECT_EQ(kinds(norm_of("2", 320, "64", false)), 1) << device;
    EXPECT_EQ(kinds(norm_of("n", 320, "s", false)), 1) << device;
    EXPECT_EQ(kinds(norm_of("2", 320, "64", true)), device == cpu ? 4 : 1) << device;
    EXPECT_EQ(kinds(norm_of("1", 128, "512", false)), device == gpu ? 2 : 1) << device;
  }
}

// A quotient in each lane of a CPU's vectors takes time where it is by no constant.
TEST(Fusion, QuotientsBySizesArePriced) {
  const Target target = *Target::Parse("x86_64 -mcpu=sapphirerapids -num-threads=2");
  const auto seconds = [&](const std::string& where, const std::string& m, const std::string& g) {
    const StatusOr<Graph> graph = Parse(absl::StrReplaceAll(
        "graph @f(%x: f32[4096,M], %s: f32[4096,32])WHERE {\n  %0 = reshape(%s) {shape=[4096,32,1]} : f32[4096,32,1]\n"
        "  %1 = broadcast_to(%0) {shape=[4096,32,G]} : f32[4096,32,G]\n  %2 = reshape(%1) {shape=[4096,M]} : "
        "f32[4096,M]\n"
        "  %3 = mul(%x, %2) : f32[4096,M]\n  return %3\n}\n",
        {{"M", m}, {"G", g}, {"WHERE", where}}));
    EXPECT_TRUE(graph.ok()) << graph.status();
    const StatusOr<LoweredGraph> lowered = LowerGraph(*graph, {.options = {}, .target = target, .name = "f"});
    EXPECT_TRUE(lowered.ok()) << lowered.status();
    return CollectBids(lowered->kernels.at(0).group, target).seconds();
  };
  const double constant = seconds("", "320", "10"),
               symbolic = seconds(" where m in 32..65536 multiple 32 hint 320", "m", "m/32");
  EXPECT_GT(symbolic, 1.5 * constant);
  EXPECT_LT(symbolic, 10 * constant);
}

// Results that move the same elements in different orders: on a CPU a kernel each, where tiles for one of them take
// less time than loops for all; on a GPU one that reads them once, but for a third order, for which it has no tile.
// Those of one order share what they read.
TEST(Fusion, ResultsOfDifferentOrdersArePriced) {
  constexpr char kCpu[] = "x86_64 -mcpu=sapphirerapids -num-threads=2",
                 kGpu[] = "cuda -arch=sm_90a -sm-count=132 -bandwidth=4800";
  for (const auto& [n, where] : {std::pair("2048", ""), {"n", " where n in 1..65536 hint 2048"}}) {
    const auto kernels = [&](const char* results, const char* target) {
      const std::string text =
          Cat("graph @f(%x: f32[N,N], %y: f32[N,N])WHERE {\n  %0 = cast(%x) {dtype=bf16} : bf16[N,N]\n"
              "  %1 = transpose(%x) {perm=[1,0]} : f32[N,N]\n  %2 = cast(%1) {dtype=bf16} : bf16[N,N]\n"
              "  %3 = exp(%x) : f32[N,N]\n  %4 = tanh(%1) : f32[N,N]\n"
              "  %5 = transpose(%y) {perm=[1,0]} : f32[N,N]\n  %6 = add(%x, %5) : f32[N,N]\n"
              "  %7 = add(%y, %1) : f32[N,N]\n  return ",
              results, "\n}\n");
      return KernelsOf(absl::StrReplaceAll(text, {{"WHERE", where}, {"N", n}}), *Target::Parse(target)).size();
    };
    const bool is_constant = *where == '\0';
    const size_t forms = is_constant ? 1 : 2;  // of a GPU's kernel: near the hint, and for all sizes
    for (const char* orders : {"%0, %2", "%2, %0", "%0, %2, %3, %4"}) {
      EXPECT_EQ(kernels(orders, kCpu), 2) << n << orders;
      EXPECT_EQ(kernels(orders, kGpu), forms) << n << orders;
    }
    EXPECT_EQ(kernels("%6, %7", kGpu), forms) << n;
    for (const char* one_order : {"%0, %3", "%2, %4"}) EXPECT_EQ(kernels(one_order, kCpu), 1) << n << one_order;
    EXPECT_EQ(kernels("%2, %4", kGpu), forms) << n;
  }
  EXPECT_EQ(KernelsOf("graph @f(%x: f32[256,256,256]) {\n  %0 = exp(%x) : f32[256,256,256]\n"
                      "  %1 = transpose(%x) {perm=[0,2,1]} : f32[256,256,256]\n  %2 = tanh(%1) : f32[256,256,256]\n"
                      "  %3 = transpose(%x) {perm=[2,1,0]} : f32[256,256,256]\n  %4 = sin(%3) : f32[256,256,256]\n"
                      "  return %0, %2, %4\n}\n",
                      *Target::Parse(kGpu))
                .size(),
            2);
}

// Of a table no more is read than the rows that are gathered: a gather and the library's product cost less than a
// product of ours that gathers.
TEST(Fusion, GatheredRowsArePricedAsRows) {
  const std::string text =
      "graph @f(%i: i64[256], %t: f32[30000,512], %w: f32[512,512]) {\n  %0 = gather(%t, %i) : f32[256,512]\n"
      "  %1 = matmul(%0, %w) : f32[256,512]\n  return %1\n}\n";
  const std::vector<std::string> kernels =
      KernelsOf(text, *Target::Parse("cuda -arch=sm_90a -libs=cublas -sm-count=132 -bandwidth=3350"));
  ASSERT_EQ(kernels.size(), 2);
  EXPECT_TRUE(kernels[1].starts_with("matmul_library")) << kernels[1];
}

}  // namespace
}  // namespace cinn_like::hlir
