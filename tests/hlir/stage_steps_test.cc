// Random steps on the stages of kernels: what is accepted computes the same, by the interpreter: bit by bit, but for
// sums of parts.
#include "ir/schedule/stage_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/match.h"
#include "ir/analyzer.h"
#include "ir/interpreter.h"
#include "ir/schedule/schedule.h"
#include "tests/hlir/kernels.h"
#include "tests/mutate.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

constexpr int64_t kSymbol = 5;           // the value of each symbol
constexpr int64_t kMostElements = 4000;  // that a kernel computes
constexpr size_t kMostText = 300;        // of an expression in a step

int64_t ValueOf(const ir::TeProgram& p, ir::Expr extent) {
  ir::VarMap symbols;
  for (const ir::SymbolFact& s : p.symbols) symbols[s.var] = p.context->Int(kSymbol);
  ir::Analyzer a(*p.context);
  const ir::Expr e = a.Simplify(ir::Substitute(*p.context, extent, symbols));
  return ir::IsInt(e) ? e->int_value : INT64_MAX / 2;
}

bool IsSmall(const ir::TeProgram& p) {
  int64_t elements = 0;
  for (const ir::Stage& s : p.stages) {
    int64_t n = 1;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const ir::StageIter& i : *list)
        n = std::min(n, kMostElements) * std::min(ValueOf(p, i.extent), kMostElements);
    }
    elements += std::min(n, kMostElements);
  }
  return elements < kMostElements;
}

class RandomSteps {
 public:
  explicit RandomSteps(unsigned seed) : rng_(seed) {}

  size_t Pick(size_t n) { return rng_() % n; }

  std::string Step(const ir::TeProgram& p) {
    const auto stage = [&]() -> const ir::Stage& { return p.stages[Pick(p.stages.size())]; };
    switch (Pick(12)) {
      case 11:
        return Cat("compensate ", stage().name, Pick(2) == 0 ? " lhs" : " rhs", " -> totals", names_++);
      case 10:
        return Cat("exp2 ", stage().name);
      case 8:
        return Cat("separate ", stage().name, " -> place", names_++);
      case 9: {
        for (const ir::Stage& s : p.stages) {
          if (s.IsReduction() && Pick(2) == 0) return Cat("hoist ", s.name, " -> sum", folds_++);
        }
        return Cat("hoist ", stage().name, " -> sum", folds_++);
      }
      case 0:
        switch (Pick(4)) {
          case 0:
            return Cat("inline_stage ", stage().name);
          case 1:
            return Cat("rescale ", stage().name);
          case 2: {
            const ir::Stage *sum = &stage(), *squares = &stage();
            for (const ir::Stage& x : p.stages) {
              for (const ir::Stage& y : p.stages) {
                if (ir::FindDistances(p, x, y).ok() && Pick(2) == 0) squares = &x, sum = &y;
              }
            }
            return Cat("recenter ", squares->name, " ", sum->name, " -> pivot", names_++);
          }
          default:
            return Cat("align ", stage().name, " ", stage().name);
        }
      case 3:
      case 4:
      case 5: {
        const ir::Stage& s = stage();
        std::vector<ir::StageIter> iters = s.iters;
        for (size_t k = 0; k < 2; ++k) iters.insert(iters.end(), s.reduce_iters.begin(), s.reduce_iters.end());
        if (iters.empty()) return Cat("align ", s.name, " ", s.name);
        const std::string of = Cat(s.name, " ", iters[Pick(iters.size())].var->name, " ");
        const size_t factor = 1 + Pick(5), number = folds_++;
        switch (Pick(4)) {
          case 2:
            return Cat("shift ", of, Pick(3), " + ", iters[Pick(iters.size())].var->name, " * ", 1 + Pick(3), " % ",
                       factor);
          case 0:
            return Cat("unfold ", of, factor, " -> d", number, "a d", number, "b");
          case 1:
            return Cat("round_up ", of, factor);
          default:
            return Cat("rfactor ", of, "-> part", number, s.outputs.size() > 1 ? Cat(" more", number) : "");
        }
      }
      case 1: {
        const ir::Stage& s = stage();
        return Cat("keep ", s.outputs[Pick(s.outputs.size())]->name, " -> kept", names_++);
      }
      case 2:
        return Fold(stage());
      default:
        return Define(p, stage(), stage().name);
    }
  }

  // Results, or what the interpreter says.
  StatusOr<std::vector<ir::HostArray>> Run(const ir::TeProgram& p, const ir::Func& f) {
    std::mt19937 values(7);
    std::vector<ir::HostArray> arrays;
    for (const ir::Param& q : f.params) {
      if (q.buffer == nullptr) continue;
      std::vector<int64_t> shape;
      for (ir::Expr e : q.buffer->shape) shape.push_back(ValueOf(p, e));
      ir::HostArray& a = arrays.emplace_back(q.buffer->dtype, shape);
      for (int64_t i = 0; i < a.NumElements() && q.role != ir::ParamRole::kResult; ++i) {
        if (IsFloat(a.dtype))
          a.Set(i, static_cast<double>(values() % 4000) / 1000 - 2);
        else
          a.SetInt(i, values() % 2);
      }
    }
    std::vector<ir::InterpretArg> args;
    size_t next = 0;
    absl::flat_hash_map<std::string, int64_t> symbols;
    for (const ir::SymbolFact& s : f.symbols) symbols[s.var->name] = kSymbol;
    for (const ir::Param& q : f.params)
      args.push_back(q.buffer != nullptr ? ir::InterpretArg(&arrays[next++]) : ir::InterpretArg(kSymbol));
    RETURN_IF_ERROR(ir::Interpret(f, args, symbols));
    return arrays;
  }

 private:
  std::string Fold(const ir::Stage& s) {
    std::vector<std::string> iters, brackets(1 + Pick(3));
    for (const ir::StageIter& i : s.iters) {
      if (!ir::IsInt(i.extent, 1) || Pick(2) == 0) iters.push_back(i.var->name);
    }
    if (Pick(2) == 0) std::shuffle(iters.begin(), iters.end(), rng_);
    for (const std::string& i : iters) {
      std::string& bracket = brackets[Pick(brackets.size())];
      bracket += Cat(bracket.empty() ? "" : ", ", i);
    }
    // Neighbours among what is reduced, in order.
    size_t reduced = 0;
    while (reduced < s.reduce_iters.size() && Pick(2) == 0) {
      const size_t end = reduced + 1 + Pick(s.reduce_iters.size() - reduced);
      std::string& bracket = brackets.emplace_back();
      for (; reduced < end; ++reduced) bracket += Cat(bracket.empty() ? "" : ", ", s.reduce_iters[reduced].var->name);
    }
    std::string step = Cat("fold ", s.name, " ->");
    for (const std::string& bracket : brackets) step += Cat(" f", folds_++, "[", bracket, "]");
    return step;
  }

  std::string Define(const ir::TeProgram& p, const ir::Stage& s, const std::string& before) {
    std::vector<ir::Expr> parts;
    for (ir::Expr v : s.values) {
      ir::Visit(v, [&](ir::Expr e) {
        if (!e->args.empty()) parts.push_back(e);
        return true;
      });
    }
    if (parts.empty()) return Cat("align ", s.name, " ", s.name);
    const ir::Expr e = parts[Pick(parts.size())];
    std::vector<std::string> iters;
    for (const auto* list : {&s.iters, &s.reduce_iters}) {
      for (const ir::StageIter& i : *list) {
        if (ir::Uses(e, i.var) || Pick(8) == 0) iters.push_back(i.var->name);
      }
    }
    if (Pick(3) == 0) std::shuffle(iters.begin(), iters.end(), rng_);
    std::string list;
    for (const std::string& i : iters) list += Cat(list.empty() ? "" : ", ", i);
    // Often one that is there, for another reader.
    const bool again = names_ > 0 && Pick(3) == 0;
    const std::string text = ir::Print(e);
    if (text.size() > kMostText) return Cat("align ", s.name, " ", p.stages[0].name);
    return Cat("define new", again ? Pick(names_) : names_++, "[", list, "] = ", text,
               again || Pick(2) == 0 ? "" : Cat(" before ", before));
  }

  std::mt19937 rng_;
  size_t names_ = 0, folds_ = 0;
};

// Sums of parts are rounded elsewhere than sums.
double ToleranceOf(DType t) {
  return t == DType::kF16 ? 4e-3 : t == DType::kBF16 ? 3.2e-2 : t == DType::kF32 ? 1e-4 : t == DType::kF64 ? 1e-10 : 0;
}

bool IsSame(const std::vector<ir::HostArray>& a, const std::vector<ir::HostArray>& b, bool exactly) {
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].bytes == b[k].bytes) continue;
    if (exactly) return false;
    const double tolerance = ToleranceOf(a[k].dtype);
    for (int64_t i = 0; i < a[k].NumElements(); ++i) {
      const double x = a[k].Get(i), y = b[k].Get(i);
      if (x != y && !(std::isnan(x) && std::isnan(y)) && !(std::abs(x - y) <= tolerance * (std::abs(x) + 1)))
        return false;
    }
  }
  return true;
}

TEST(StageSteps, ComputeTheSame) {
  const unsigned seed = Mutator().seed();
  SCOPED_TRACE(Cat("CINN_TEST_SEED=", seed));
  RandomSteps random(seed);
  std::map<std::string, int> accepted;
  int number = 0;
  ForEachKernel(*Target::Parse("cpu"), [&](const std::string& name, const ir::TeProgram& group) {
    if (testing::Test::HasFailure() || !IsSmall(group) || !IsTried(number++)) return;
    const auto expected = random.Run(group, *ir::ToLoops(group));
    if (!expected.ok()) return;  // an index that the values here are none of
    for (int round = 0; round < 8; ++round) {
      StatusOr<ir::Schedule> s = ir::Schedule::Of(group);
      ASSERT_TRUE(s.ok()) << s.status();
      for (int k = 0; k < 5; ++k) {
        const std::string step = random.Step(*s->stages());
        if (!s->Try(step)) continue;
        ++accepted[step.substr(0, step.find(' '))];
      }
      if (s->text().empty()) continue;
      const Status valid = ir::Verify(s->func());
      ASSERT_TRUE(valid.ok()) << valid << name << "\n" << s->text() << ir::Print(s->func());
      const auto got = random.Run(group, s->func());
      ASSERT_TRUE(got.ok()) << got.status() << name << "\n" << s->text() << ir::Print(s->func());
      const bool exactly = !absl::StrContains(s->text(), "rfactor ") && !absl::StrContains(s->text(), "hoist ") &&
                           !absl::StrContains(s->text(), "rescale ") && !absl::StrContains(s->text(), "recenter ") &&
                           !absl::StrContains(s->text(), "exp2 ");
      ASSERT_TRUE(IsSame(*expected, *got, exactly)) << name << "\n" << s->text() << ir::Print(s->func());
      // The text alone does it, too.
      const auto replayed = ir::ApplySchedule(*ir::ParseFunc(ir::Print(*ir::ToLoops(group))), s->text());
      ASSERT_TRUE(replayed.ok()) << replayed.status() << s->text();
      EXPECT_EQ(ir::Print(*replayed), ir::Print(s->func())) << s->text();
    }
  });
  if (kRoundsDivisor > 1) return;  // too few of what few graphs have
  for (const char* step : {"align", "keep", "fold", "unfold", "round_up", "shift", "rfactor", "separate", "define",
                           "exp2", "inline_stage", "recenter"})
    EXPECT_GT(accepted[step], 0) << step;
  for (const auto& [step, count] : accepted) printf("%s: %d accepted\n", step.c_str(), count);
}

// What checks read is computed although no stage reads it.
TEST(StageSteps, InlineStageKeepsWhatChecksNeed) {
  const auto loops = ir::ParseFunc(R"(
func @f(x: f32[8], y: f32[8] out) {
  alloc t: f32[8] @global
  for l_i in 0..8 {
    block b_t(i in 0..8 = l_i) { t[i] = exp(x[i]) }
  }
  for l_j in 0..8 {
    block b_y(j in 0..8 = l_j) { y[j] = t[j] + 1.0 }
  }
})");
  ASSERT_TRUE(loops.ok()) << loops.status();
  StatusOr<ir::TeProgram> p = ir::ToStages(*loops);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_TRUE(ir::InlineStage(*p, "t").ok());
  p->kept = {p->stages[0].outputs[0]};
  EXPECT_EQ(ir::InlineStage(*p, "t").status().message(), "stage t writes t, which others than stages need");
}

// Of NaN, equals and infinities too, which random values seldom are.
TEST(StageSteps, SeparatePairsFindTheSamePlaces) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<double>> rows = {
      {1, 7, 7, -2, 7},          {1, kNan, 9, kNan, kInf},           {kNan, 1, 2, 3, 4},
      {0, 0, 0, 0, 0},           {-kInf, -kInf, -kInf, -1, -1},      {kInf, kInf, 1, 2, 3},
      {-0.0, 0.0, -0.0, -1, -3}, {-kInf, -kInf, -kInf, -kInf, -kInf}};
  for (const char* op : {"argmax", "argmin"}) {
    for (const char* dtype : {"f32", "bf16", "i32"}) {
      const std::string type = Cat(dtype, "[8,5]");
      const PassContext context{.options = {}, .target = *Target::Parse("cpu"), .name = "test"};
      const StatusOr<Graph> graph =
          Parse(Cat("graph @best(%x: ", type, ") {\n  %0 = ", op, "(%x) {axis=1} : i64[8]\n  return %0\n}\n"));
      ASSERT_TRUE(graph.ok()) << graph.status();
      const StatusOr<LoweredGraph> lowered = LowerGraph(*OptimizeGraph(*graph, context), context);
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      const ir::TeProgram& group = lowered->kernels.at(0).group;
      StatusOr<ir::Schedule> s = ir::Schedule::Of(group);
      ASSERT_TRUE(s.ok()) << s.status();
      s->Run(Cat("separate ", group.stages[0].name, " -> place"));
      ASSERT_TRUE(s->status().ok()) << s->status();
      for (const ir::Stage& stage : s->stages()->stages) EXPECT_EQ(stage.outputs.size(), 1);
      std::vector<ir::HostArray> found;
      for (const ir::Func& f : {*ir::ToLoops(group), s->func()}) {
        ir::HostArray x(group.params[0].buffer->dtype, {8, 5});
        ir::HostArray& places = found.emplace_back(DType::kI64, std::vector<int64_t>{8});
        for (int64_t i = 0; i < x.NumElements(); ++i) {
          const double v = rows[i / 5][i % 5];
          if (IsFloat(x.dtype))
            x.Set(i, v);
          else
            x.SetInt(i, std::isfinite(v) ? static_cast<int64_t>(v) : v > 0 ? 9 : -9);
        }
        const Status run = ir::Interpret(f, {&x, &places}, {});
        ASSERT_TRUE(run.ok()) << run;
      }
      EXPECT_EQ(found[0].bytes, found[1].bytes) << op << " " << dtype;
    }
  }
}

}  // namespace
}  // namespace cinn_like::hlir
