// Transposed windows of random strides, kernels, paddings and dilations, in phases, compute the same as under their
// masks, by the interpreter: the steps alone, and the schedules that tactics make of them.
#include "hlir/phases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "hlir/lower_graph.h"
#include "hlir/pipeline.h"
#include "hlir/tactics/tactic.h"
#include "ir/interpreter.h"
#include "ir/lower.h"
#include "tests/hlir/group.h"
#include "tests/mutate.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

StatusOr<ir::HostArray> RunLoops(const ir::Func& f) {
  std::mt19937 values(7);
  std::vector<ir::HostArray> arrays;
  for (const ir::Param& q : f.params) {
    std::vector<int64_t> shape;
    for (ir::Expr e : q.buffer->shape) shape.push_back(e->int_value);
    ir::HostArray& a = arrays.emplace_back(q.buffer->dtype, shape);
    for (int64_t i = 0; i < a.NumElements() && q.role != ir::ParamRole::kResult; ++i) {
      if (IsFloat(a.dtype))
        a.Set(i, static_cast<double>(values() % 4000) / 1000 - 2);
      else
        a.SetInt(i, values() % 12);
    }
  }
  std::vector<ir::InterpretArg> args;
  for (ir::HostArray& a : arrays) args.emplace_back(&a);
  RETURN_IF_ERROR(ir::Interpret(f, args, {}));
  return arrays.back();
}

void ExpectNear(const ir::HostArray& got, const ir::HostArray& want, const std::string& what) {
  ASSERT_EQ(got.NumElements(), want.NumElements());
  for (int64_t i = 0; i < want.NumElements(); ++i)
    ASSERT_NEAR(got.Get(i), want.Get(i), 1e-4 * (std::abs(want.Get(i)) + 1)) << what << "\nat " << i;
}

struct Case {
  std::string text;
  bool has_phases;
};

Case RandomCase(std::mt19937& rng) {
  const auto pick = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(rng() % (to - from + 1)); };
  const int64_t kind = pick(0, 3);  // of pools: 2, 3
  int64_t stride[2], kernel[2], padding[2], dilation[2], size[2], positions[2];
  bool phases = false;
  for (int d = 0; d < 2; ++d) {
    stride[d] = pick(1, 4);
    kernel[d] = pick(1, 5);
    dilation[d] = kind == 3 ? 1 : pick(1, 3);
    padding[d] = pick(0, kernel[d] / 2);
    const int64_t reach = dilation[d] * (kernel[d] - 1) + 1;
    size[d] = std::max<int64_t>(reach - 2 * padding[d], 1) + pick(0, 9);
    positions[d] = (size[d] + 2 * padding[d] - reach) / stride[d] + 1;
    phases |= stride[d] > 1 && size[d] > 1;
  }
  const int64_t batch = pick(1, 2), groups = kind == 1 ? 2 : 1, in = groups * pick(1, 3), out = groups * pick(1, 3);
  const auto two = [](const int64_t* v) { return Cat("[", v[0], ",", v[1], "]"); };
  const auto tensor = [](int64_t n, int64_t c, const int64_t* v) {
    return Cat("[", n, ",", c, ",", v[0], ",", v[1], "]");
  };
  const std::string window = Cat("stride=", two(stride), ", padding=", two(padding));
  const std::string x = tensor(batch, in, size), dy = tensor(batch, kind < 2 ? out : in, positions);
  std::string op, more;
  if (kind < 2) {
    more = Cat(", %w: f32", tensor(out, in / groups, kernel));
    op = Cat("conv_input_grad(%dy, %w) {input_shape=", x, ", ", window, ", dilation=", two(dilation),
             ", groups=", groups);
  } else if (kind == 2) {
    more = Cat(", %at: i64", dy);
    op = Cat("max_pool_grad(%dy, %at) {input_shape=", x, ", kernel=", two(kernel), ", ", window,
             ", dilation=", two(dilation));
  } else {
    op = Cat("avg_pool_grad(%dy) {input_shape=", x, ", kernel=", two(kernel), ", ", window);
  }
  return {Cat("graph @g(%dy: f32", dy, more, ") {\n  %0 = ", op, "} : f32", x, "\n  %1 = exp(%0) : f32", x,
              "\n  return %", pick(0, 1), "\n}\n"),
          phases};
}

TEST(Phases, ComputeTheSame) {
  const unsigned seed = Mutator().seed();
  SCOPED_TRACE(Cat("CINN_TEST_SEED=", seed));
  std::mt19937 rng(seed);
  const Target target = *Target::Parse("x86_64 -mcpu=skylake-avx512 -num-threads=2");
  int cut = 0, guarded = 0;
  for (int round = 0; round < Rounds(60); ++round) {
    const Case random = RandomCase(rng);
    const StatusOr<ir::TeProgram> group = GroupOf(random.text, target);
    ASSERT_TRUE(group.ok()) << group.status() << random.text;
    const StatusOr<ir::HostArray> want = RunLoops(*ir::ToLoops(*group));
    ASSERT_TRUE(want.ok()) << want.status() << random.text;
    const ir::Stage& first = group->stages[0];
    const std::vector<Phase> phases = FindPhases(*group->context, first);
    EXPECT_EQ(!phases.empty(), random.has_phases) << random.text;
    EXPECT_EQ(DensityOf(*group->context, first) < 1, random.has_phases) << random.text;
    for (const Bid& bid : CollectBids(*group, target).bids) {
      Point point;
      const auto proposals = bid.tactic->propose(*group, target, Until::kSchedule, point);
      ASSERT_TRUE(proposals.ok()) << proposals.status() << random.text;
      for (const Proposal& p : *proposals) {
        const StatusOr<ir::Func> lowered = ir::LowerKernel(p.func, {.options = {}, .target = target, .name = "test"});
        ASSERT_TRUE(lowered.ok()) << lowered.status() << random.text << p.schedule;
        const StatusOr<ir::HostArray> got = RunLoops(*lowered);
        ASSERT_TRUE(got.ok()) << got.status() << random.text << p.schedule << ir::Print(p.func);
        ExpectNear(*got, *want, random.text + p.schedule);
        guarded += absl::StrContains(p.schedule, "guard ");
      }
    }
    if (phases.empty() || HasFailure()) continue;
    StatusOr<ir::Schedule> s = ir::Schedule::Of(*group);
    ASSERT_TRUE(s.ok()) << s.status();
    if (group->stages.size() == 1) s->Step("keep ", first.outputs[0]->name, " -> kept");
    const auto digits = SplitPhases(*s, phases, {first.name});
    ASSERT_TRUE(digits.ok()) << digits.status() << random.text << s->text();
    for (const Phase& left : FindPhases(*group->context, s->stages()->stages[0]))
      EXPECT_EQ(left.tap, -1) << random.text << ir::Print(s->func());
    const StatusOr<ir::HostArray> got = RunLoops(s->func());
    ASSERT_TRUE(got.ok()) << got.status() << random.text << s->text() << ir::Print(s->func());
    ExpectNear(*got, *want, random.text + s->text());
    ++cut;
  }
  if (kRoundsDivisor > 1) return;
  EXPECT_GT(cut, 20);
  EXPECT_GT(guarded, 0);
}

}  // namespace
}  // namespace cinn_like::hlir
