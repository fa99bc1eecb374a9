// Layouts of values between kernels: whatever is chosen, the numbers stay; what is chosen is what takes less time.
#include <gtest/gtest.h>

#include <random>

#include "hlir/choose_layouts.h"
#include "hlir/lower_graph.h"
#include "hlir/lower_te.h"
#include "hlir/pipeline.h"
#include "hlir/stage_analysis.h"
#include "ir/interpreter.h"

namespace cinn_like::hlir {
namespace {

const char kTarget[] = "x86_64 -mcpu=znver5 -cores=2";

// Convolutions of all kinds, pools, scales of channels, sums and concatenations over images of one size.
std::string RandomImages(std::mt19937& rng) {
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  const std::string n = pick(2) == 0 ? "n" : "2";
  const int h = 3 + pick(4), w = 3 + pick(4);
  const auto type = [&](int channels) { return Cat("f32[", n, ",", channels, ",", h, ",", w, "]"); };
  std::string params, ops;
  int results = 0, weights = 0;
  const auto add = [&](const std::string& value, const std::string& type) {
    ops += Cat("  %", results, " = ", value, " : ", type, "\n");
    return Cat("%", results++);
  };
  const auto param = [&](const std::string& type) {
    params += Cat(", %w", weights, ": ", type);
    return Cat("%w", weights++);
  };
  std::vector<std::pair<std::string, int>> values = {{"%x", 4}};
  for (int i = 0; i < 8; ++i) {
    const auto [x, c] = values[static_cast<size_t>(pick(static_cast<int>(values.size())))];
    const int kernel = 1 + 2 * pick(2), kind = pick(7);
    const auto convolve = [&](int out, int groups) {
      const std::string weight = param(Cat("f32[", out, ",", c / groups, ",", kernel, ",", kernel, "]"));
      return add(
          Cat("conv2d(", x, ", ", weight, ") {padding=[", kernel / 2, ",", kernel / 2, "], groups=", groups, "}"),
          type(out));
    };
    if (kind < 2) {
      const int out = 2 * (1 + pick(4));
      values.emplace_back(convolve(out, 1), out);
    } else if (kind == 2) {
      values.emplace_back(convolve(c, pick(2) == 0 ? c : 2), c);
    } else if (kind == 3) {
      values.emplace_back(add(Cat("max_pool2d(", x, ") {kernel=[3,3], stride=[1,1], padding=[1,1]}"), type(c)), c);
      ops.replace(ops.rfind(" = max_pool2d"), 3, Cat(", %", results, " = "));
      ops.insert(ops.size() - 1, Cat(", i64[", n, ",", c, ",", h, ",", w, "]"));
      ++results;
    } else if (kind == 4) {
      const std::string scale = param(Cat("f32[", c, ",1,1]"));
      values.emplace_back(add(Cat("mul(", x, ", ", scale, ")"), type(c)), c);
    } else {
      const auto [y, d] = values[static_cast<size_t>(pick(static_cast<int>(values.size())))];
      if (c == d && kind == 5)
        values.emplace_back(add(Cat("add(", x, ", ", y, ")"), type(c)), c);
      else if (c + d <= 16)
        values.emplace_back(add(Cat("concat(", x, ", ", y, ") {axis=1}"), type(c + d)), c + d);
    }
  }
  const std::string last = values.back().first == "%x" ? add("relu(%x)", type(4)) : values.back().first;
  return Cat("graph @images(%x: ", type(4), params, ")", n == "n" ? " where n in 1..4" : "", " {\n", ops, "  return ",
             last, "\n}\n");
}

// The results of all stages as they stand.
StatusOr<std::vector<uint8_t>> Results(const ir::TeProgram& program) {
  ASSIGN_OR_RETURN(const ir::Func loops, ir::ToLoops(program));
  std::mt19937 rng(5);
  std::vector<ir::HostArray> arrays;
  for (const ir::Param& p : program.params) {
    std::vector<int64_t> shape;
    for (ir::Expr e : p.buffer->shape) shape.push_back(ir::IsInt(e) ? e->int_value : 3);
    ir::HostArray& a = arrays.emplace_back(p.buffer->dtype, shape);
    if (p.role == ir::ParamRole::kResult) continue;
    for (int64_t i = 0; i < a.NumElements(); ++i) a.Set(i, static_cast<double>(rng() % 64) / 32 - 1);
  }
  std::vector<ir::InterpretArg> args;
  for (ir::HostArray& a : arrays) args.emplace_back(&a);
  RETURN_IF_ERROR(ir::Interpret(loops, args, {}));
  return arrays.back().bytes;
}

StatusOr<FusionPlan> Plan(const std::string& text) {
  const PassContext context{.options = {}, .target = *Target::Parse(kTarget), .name = "test"};
  ASSIGN_OR_RETURN(Graph graph, Parse(text));
  ASSIGN_OR_RETURN(graph, OptimizeGraph(std::move(graph), context));
  ASSIGN_OR_RETURN(ir::TeProgram te, LowerToTe(graph));
  return PlanFusion(std::move(te), true, context.target);
}

TEST(Layouts, AnyChoiceComputesTheSame) {
  std::mt19937 rng(11);
  int moved = 0;
  for (int round = 0; round < 16; ++round) {
    const std::string text = RandomImages(rng);
    const StatusOr<FusionPlan> given = Plan(text);
    ASSERT_TRUE(given.ok()) << given.status() << text;
    const auto any = [](const ir::TeProgram& group) {
      return 1 + static_cast<double>(std::hash<std::string>()(ir::Print(*ir::ToLoops(group))) % 1000);
    };
    const StatusOr<FusionPlan> chosen = ChooseLayouts(*given, any);
    ASSERT_TRUE(chosen.ok()) << chosen.status() << text;
    moved += ir::Print(*ir::ToLoops(given->program)) != ir::Print(*ir::ToLoops(chosen->program)) ? 1 : 0;
    const auto before = Results(given->program), after = Results(chosen->program);
    ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status() << text;
    EXPECT_EQ(*before, *after) << text;
    // The groups still are what becomes kernels.
    for (const FusionPlan::Group& group : chosen->groups) {
      const StatusOr<ExtractedGroup> e = ExtractGroup(chosen->program, group);
      ASSERT_TRUE(e.ok()) << e.status() << text;
      EXPECT_FALSE(group.outputs.empty()) << text;
    }
  }
  EXPECT_GT(moved, 4);
}

// A block of ResNet-50 behind the pool that nothing vectorises as given: all between is stored with channels last, and
// no kernel does nothing but copy.
TEST(Layouts, NoCopiesInABlock) {
  const auto conv = [](const char* x, const char* w, int kernel, int stride) {
    const int p = kernel / 2;
    return Cat("conv2d(", x, ", ", w, ") {stride=[", stride, ",", stride, "], padding=[", p, ",", p, "]}");
  };
  const std::string small = "f32[1,64,56,56]", large = "f32[1,256,56,56]";
  const std::string text =
      Cat("graph @block(%x: f32[1,3,224,224], %w0: f32[64,3,7,7], %w1: f32[64,64,1,1], %w2: f32[64,64,3,3], "
          "%w3: f32[256,64,1,1], %w4: f32[256,64,1,1]) {\n  %0 = ",
          conv("%x", "%w0", 7, 2), " : f32[1,64,112,112]\n  %1 = relu(%0) : f32[1,64,112,112]\n",
          "  %2, %3 = max_pool2d(%1) {kernel=[3,3], stride=[2,2], padding=[1,1]} : ", small, ", i64[1,64,56,56]\n",
          "  %4 = ", conv("%2", "%w1", 1, 1), " : ", small, "\n  %5 = relu(%4) : ", small,
          "\n  %6 = ", conv("%5", "%w2", 3, 1), " : ", small, "\n  %7 = relu(%6) : ", small,
          "\n  %8 = ", conv("%7", "%w3", 1, 1), " : ", large, "\n  %9 = ", conv("%2", "%w4", 1, 1), " : ", large,
          "\n  %10 = add(%8, %9) : ", large, "\n  %11 = relu(%10) : ", large, "\n  return %11\n}\n");
  const StatusOr<Graph> graph = Parse(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  PassContext context{.options = {}, .target = *Target::Parse(kTarget), .name = "test"};
  std::vector<std::string> texts[2];
  for (const bool off : {false, true}) {
    context.options.disable_passes = off ? "choose_layouts" : "";
    const StatusOr<LoweredGraph> lowered = LowerGraph(*OptimizeGraph(*graph, context), context);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    for (const LoweredGraph::Kernel& k : lowered->kernels) {
      const std::vector<ir::Stage>& stages = k.group.stages;
      EXPECT_FALSE(std::all_of(stages.begin(), stages.end(), IsView)) << k.text;
      texts[off ? 1 : 0].push_back(k.text);
    }
  }
  EXPECT_NE(texts[0], texts[1]);
  EXPECT_EQ(texts[0].size(), texts[1].size());
}

}  // namespace
}  // namespace cinn_like::hlir
