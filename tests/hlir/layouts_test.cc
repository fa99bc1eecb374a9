// Layouts of values between stages: the numbers stay, images lie as those do that they are computed from.
#include <gtest/gtest.h>

#include <random>

#include "hlir/lower_graph.h"
#include "hlir/lower_te.h"
#include "hlir/pipeline.h"
#include "hlir/propagate_layouts.h"
#include "hlir/stage_analysis.h"
#include "ir/interpreter.h"

namespace cinn_like::hlir {
namespace {

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
      return add(Cat("conv(", x, ", ", weight, ") {padding=[", kernel / 2, ",", kernel / 2, "], groups=", groups, "}"),
                 type(out));
    };
    if (kind < 2) {
      const int out = 2 * (1 + pick(4));
      values.emplace_back(convolve(out, 1), out);
    } else if (kind == 2) {
      values.emplace_back(convolve(c, pick(2) == 0 ? c : 2), c);
    } else if (kind == 3) {
      values.emplace_back(add(Cat("max_pool(", x, ") {kernel=[3,3], stride=[1,1], padding=[1,1]}"), type(c)), c);
      ops.replace(ops.rfind(" = max_pool"), 3, Cat(", %", results, " = "));
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
  return Cat("graph @images(%x: ", type(4), " strides [", 4 * h * w, ",1,", 4 * w, ",4]", params, ")",
             n == "n" ? " where n in 1..4" : "", " {\n", ops, "  return ", last, "\n}\n");
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

StatusOr<ir::TeProgram> Stages(const std::string& text) {
  const PassContext context{.options = {}, .target = *Target::Parse("cpu"), .name = "test"};
  ASSIGN_OR_RETURN(Graph graph, Parse(text));
  ASSIGN_OR_RETURN(graph, OptimizeGraph(std::move(graph), context));
  return LowerToTe(graph);
}

TEST(Layouts, TheNumbersStay) {
  std::mt19937 rng(11);
  int changed = 0;
  for (int round = 0; round < 16; ++round) {
    const std::string text = RandomImages(rng);
    const StatusOr<ir::TeProgram> given = Stages(text);
    ASSERT_TRUE(given.ok()) << given.status() << text;
    const ir::TeProgram moved = PropagateLayouts(*given);
    changed += ir::Print(*ir::ToLoops(*given)) != ir::Print(*ir::ToLoops(moved)) ? 1 : 0;
    const auto before = Results(*given), after = Results(moved);
    ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status() << text;
    EXPECT_EQ(*before, *after) << text;
  }
  EXPECT_GT(changed, 8);
}

// Nothing between two convolutions of channels-last images lies otherwise, and a GPU copies none of it.
TEST(Layouts, ImagesLieAsTheirs) {
  const auto image = [](const char* t, int channels) { return Cat(t, "[8,", channels, ",14,14]"); };
  const std::string text =
      Cat("graph @block(%x: ", image("bf16", 256), " strides [50176,1,3584,256], %w0: bf16[64,256,1,1], %w1: ",
          "bf16[256,64,1,1], %s: bf16[64,1,1]) {\n  %0 = conv(%x, %w0) : ", image("bf16", 64),
          "\n  %1 = mul(%0, %s) : ", image("bf16", 64), "\n  %2, %3 = max_pool(%1) {kernel=[3,3], stride=[1,1], ",
          "padding=[1,1]} : ", image("bf16", 64), ", ", image("i64", 64),
          "\n  %4 = conv(%2, %w1) : ", image("bf16", 256), "\n  %5 = add(%4, %x) : ", image("bf16", 256),
          "\n  %6 = transpose(%5) {perm=[0,2,3,1]} : bf16[8,14,14,256]\n  return %6\n}\n");
  const StatusOr<ir::TeProgram> given = Stages(text);
  ASSERT_TRUE(given.ok()) << given.status();
  for (const ir::Stage& s : PropagateLayouts(*given).stages) {
    const std::vector<ir::Expr>& shape = s.outputs[0]->shape;
    if (shape.size() != 4) continue;
    EXPECT_TRUE(ir::IsInt(shape[1], 14) && ir::IsInt(shape[2], 14)) << s.name;
  }
  const PassContext context{.options = {}, .target = *Target::Parse("cuda -arch=sm_90a -libs=cublas"), .name = "test"};
  const StatusOr<LoweredGraph> lowered = LowerGraph(*OptimizeGraph(*Parse(text), context), context);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  for (const LoweredGraph::Kernel& k : lowered->kernels)
    EXPECT_FALSE(std::all_of(k.group.stages.begin(), k.group.stages.end(), IsView)) << k.text;
}

// Heads of attention lie in the caller's rows, scores and results as they are asked for.
TEST(Layouts, HeadsAreNoImages) {
  const StatusOr<ir::TeProgram> given = Stages(R"(graph @scores(%q: f32[2,4,8,16] strides [512,16,64,1],
                                                                %k: f32[2,4,16,8] strides [512,16,1,64]) {
  %0 = matmul(%q, %k) : f32[2,4,8,8]
  %1 = relu(%0) : f32[2,4,8,8]
  return %1
}
)");
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(ir::Print(*ir::ToLoops(*given)), ir::Print(*ir::ToLoops(PropagateLayouts(*given))));
}

}  // namespace
}  // namespace cinn_like::hlir
