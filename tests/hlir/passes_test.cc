// Passes keep what a graph computes, by the independent evaluator.
#include <gtest/gtest.h>

#include "hlir/pipeline.h"
#include "tests/hlir/evaluate.h"
#include "tests/hlir/samples.h"

namespace cinn_like::hlir {
namespace {

void ExpectClose(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].shape, expected[k].shape) << what;
    for (size_t i = 0; i < got[k].data.size(); ++i) {
      const double a = got[k].data[i], b = expected[k].data[i];
      const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-6 * (1 + std::abs(b));
      ASSERT_TRUE(same) << what << "\nresult " << k << " element " << i << ": " << a << ", expected " << b;
    }
  }
}

TEST(Passes, EachKeepsWhatRandomGraphsCompute) {
  std::mt19937 rng(11);
  int changed = 0;
  for (int i = 0; i < 60; ++i) {
    const StatusOr<Graph> g = RandomGraph(rng, 2 + i % 12);
    ASSERT_TRUE(g.ok()) << g.status();
    const Evaluator evaluator({{"n", 1 + i % 5}});
    const std::vector<Tensor> inputs = RandomInputs(*g, evaluator, rng);
    const std::vector<Tensor> expected = evaluator.Run(*g, inputs);
    for (const Pass<Graph>& pass : GraphPasses()) {
      const StatusOr<Graph> h = pass.run(*g, {});
      ASSERT_TRUE(h.ok()) << pass.name << ": " << h.status() << "\n" << Print(*g);
      EXPECT_TRUE(Verify(*h).ok()) << pass.name;
      changed += !(*h == *g);
      ExpectClose(evaluator.Run(*h, inputs), expected, Cat(pass.name, "\n", Print(*g), Print(*h)));
    }
    const StatusOr<Graph> all = OptimizeGraph(*g, {});
    ASSERT_TRUE(all.ok()) << all.status();
    ExpectClose(evaluator.Run(*all, inputs), expected, Cat(Print(*g), Print(*all)));
    for (const Op& op : all->ops()) EXPECT_TRUE(op.def->lower) << op.def->name;
  }
  EXPECT_GT(changed, 100);
}

TEST(Passes, EachKeepsWhatEverySampleComputes) {
  std::mt19937 rng(12);
  for (const OpDef* def : OpRegistry::BuiltIn().All()) {
    for (const std::string& sample : def->samples) {
      const StatusOr<Graph> g = SampleGraph(*def, sample);
      ASSERT_TRUE(g.ok()) << g.status();
      const Evaluator evaluator({{"n", 4}});
      const std::vector<Tensor> inputs = RandomSampleInputs(*g, evaluator, rng, 0.1, 2);
      const std::vector<Tensor> expected = evaluator.Run(*g, inputs);
      const StatusOr<Graph> h = OptimizeGraph(*g, {});
      ASSERT_TRUE(h.ok()) << def->name << sample << h.status();
      ExpectClose(evaluator.Run(*h, inputs), expected, Cat(Print(*g), Print(*h)));
    }
  }
}

TEST(Passes, PrepareAndMainComputeTheWhole) {
  std::mt19937 rng(13);
  int split_graphs = 0;
  for (int i = 0; i < 60; ++i) {
    const StatusOr<Graph> g = RandomGraph(rng, 4 + i % 16);
    ASSERT_TRUE(g.ok()) << g.status();
    const StatusOr<Graph> optimized = OptimizeGraph(*g, {});
    ASSERT_TRUE(optimized.ok()) << optimized.status();
    const StatusOr<StaticSplit> split = SplitStatic(*optimized);
    ASSERT_TRUE(split.ok()) << split.status();
    ASSERT_TRUE(Verify(split->main).ok()) << Print(split->main);
    const Evaluator evaluator({{"n", 3}});
    std::vector<Tensor> inputs = RandomInputs(*g, evaluator, rng);
    const std::vector<Tensor> expected = evaluator.Run(*g, inputs);
    if (split->prepare) {
      ++split_graphs;
      ASSERT_TRUE(Verify(*split->prepare).ok()) << Print(*split->prepare);
      for (Tensor& t : evaluator.Run(*split->prepare, {inputs[2]})) inputs.push_back(std::move(t));
    }
    ExpectClose(evaluator.Run(split->main, inputs), expected, Cat(Print(*g), Print(split->main)));
  }
  EXPECT_GT(split_graphs, 3);
}

// Weights in every position that a product can read them from, of widths that do and don't fill their panels.
TEST(Passes, PackedWeightsComputeTheSame) {
  std::mt19937 rng(14);
  for (int i = 0; i < 40; ++i) {
    const int64_t k = 1 + rng() % 9, columns = 5 + rng() % 30, batch = 1 + rng() % 3;
    const bool transposed = rng() % 2, batched = rng() % 2, strided = rng() % 2;
    Graph g("linear");
    OpBuilder b(&g);
    ASSERT_TRUE(g.AddSymbol({"n", 1, 64, 1}).ok());
    const DType dtype = i % 3 == 0 ? DType::kBF16 : i % 3 == 1 ? DType::kF32 : DType::kF64;
    const ValueRef x{*g.AddParam("x", {dtype, {Dim(batch), Dim::Symbol("n"), Dim(k)}})};
    Dims dims = transposed ? Dims{columns, k} : Dims{k, columns};
    if (batched) dims.insert(dims.begin(), Dim(batch));
    const std::optional<Dims> strides =
        strided && !batched ? std::optional(Dims{dims[1] * Dim(2), Dim(2)}) : std::nullopt;
    ValueRef w{*g.AddParam("w", {dtype, dims}, ParamRole::kStatic, strides)};
    if (transposed) w = b.Transpose(w, batched ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{1, 0});
    const ValueRef y = b.Matmul(x, w);
    ASSERT_TRUE(b.status().ok()) << b.status();
    ASSERT_TRUE(g.SetResults({b.Add(y, y).id, y.id}).ok());
    const StatusOr<Graph> optimized = OptimizeGraph(g, {});
    ASSERT_TRUE(optimized.ok()) << optimized.status();
    const StatusOr<StaticSplit> split = SplitStatic(*optimized);
    ASSERT_TRUE(split.ok()) << split.status();
    const Evaluator evaluator({{"n", 1 + i % 5}});
    std::vector<Tensor> inputs = RandomInputs(g, evaluator, rng);
    const std::vector<Tensor> expected = evaluator.Run(g, inputs);
    // Panels and nothing else are read of the weight.
    ASSERT_TRUE(split->prepare.has_value()) << Print(*optimized);
    ASSERT_EQ(split->prepare->results().size(), 1u) << Print(*split->prepare);
    EXPECT_EQ(split->prepare->ProducerOf(split->prepare->results()[0])->def->name, "copy");
    EXPECT_EQ(split->main.CountUses()[split->main.params()[1].value], 0);
    inputs.push_back(evaluator.Run(*split->prepare, {inputs[1]})[0]);
    ExpectClose(evaluator.Run(split->main, inputs), expected, Cat(Print(g), Print(split->main)));
  }
}

TEST(Passes, WeightsArePackedForRegisterTilesOnly) {
  const Graph g =
      *Parse(R"(graph @f(%x: f32[n,8], %w: f32[8,32] static, %i: i32[n,8], %v: i32[8,32] static) where n in 1..9 {
  %0 = matmul(%x, %w) : f32[n,32]
  %1 = matmul(%i, %v) : i32[n,32]
  return %0, %1
})");
  PassContext context;
  EXPECT_EQ(PackWeights(g, context)->ops().size(), g.ops().size() + 10);
  context.target = *Target::Parse("cuda -arch=sm_90a");
  EXPECT_EQ(*PackWeights(g, context), g);
}

TEST(Passes, ExactNumericsKeepRoundings) {
  const Graph g = *Parse(R"(graph @f(%x: f32[n]) where n in 1..9 {
  %0 = cast(%x) {dtype=f16} : f16[n]
  %1 = cast(%0) {dtype=f32} : f32[n]
  %2 = full() {value=0, dtype=f32} : f32[]
  %3 = add(%1, %2) : f32[n]
  return %3
})");
  PassContext context;
  EXPECT_EQ(OptimizeGraph(g, context)->ops().size(), 0u);
  context.options.numerics = "exact";
  EXPECT_EQ(OptimizeGraph(g, context)->ops().size(), 4u);
}

TEST(Passes, AnOpThatDecomposesIntoItselfIsAnError) {
  OpRegistry registry = OpRegistry::BuiltIn();
  OpDef loop;
  loop.name = "loop";
  loop.operands = {"x"};
  loop.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> { return call.operands; };
  loop.decompose = [](OpBuilder* b, const std::vector<ValueRef>& x, const Attrs&) -> std::vector<ValueRef> {
    return {b->Call("loop", {b->Neg(x[0])})};
  };
  ASSERT_TRUE(registry.Add(loop).ok());
  const Graph g = *Parse("graph @f(%x: f32[2]) {\n  %0 = loop(%x) : f32[2]\n  return %0\n}\n", registry);
  const Status s = OptimizeGraph(g, {}).status();
  EXPECT_NE(Message(s).find("an op decomposes into itself"), std::string::npos) << s;
}

}  // namespace
}  // namespace cinn_like::hlir
