// Every op, over its samples, dtypes and several sizes: its tensor expressions run by the loop interpreter against the
// independent evaluator.
#include <gtest/gtest.h>

#include "hlir/lower_te.h"
#include "hlir/pipeline.h"
#include "ir/interpreter.h"
#include "tests/hlir/evaluate.h"
#include "tests/hlir/samples.h"
#include "tests/rounds.h"

namespace cinn_like::hlir {
namespace {

StatusOr<std::vector<Tensor>> Interpret(const Graph& g, const std::vector<Tensor>& inputs, const Evaluator& evaluator,
                                        int64_t n) {
  ASSIGN_OR_RETURN(const Graph primitives, Decompose(g, {}));
  ASSIGN_OR_RETURN(const ir::TeProgram program, LowerToTe(primitives));
  ASSIGN_OR_RETURN(const ir::Func loops, ir::ToLoops(program));
  RETURN_IF_ERROR(Annotate(ir::Verify(loops), ir::Print(loops)));
  std::vector<ir::HostArray> arrays;
  for (const Tensor& t : inputs) {
    arrays.emplace_back(t.dtype, t.shape);
    for (size_t i = 0; i < t.data.size(); ++i) arrays.back().Set(static_cast<int64_t>(i), t.data[i]);
  }
  for (ValueId v : g.results()) arrays.emplace_back(g.TypeOf(v).dtype, evaluator.ValueOf(g.TypeOf(v).dims));
  std::vector<ir::InterpretArg> args;
  size_t next = 0;
  for (const ir::Param& p : program.params) {
    if (p.buffer) {
      args.emplace_back(&arrays[next++]);
    } else {
      args.emplace_back(n);
    }
  }
  RETURN_IF_ERROR(Annotate(ir::Interpret(loops, args, {{"n", n}}), ir::Print(loops)));
  std::vector<Tensor> results;
  for (size_t k = inputs.size(); k < arrays.size(); ++k) {
    results.emplace_back(arrays[k].dtype, arrays[k].shape);
    for (size_t i = 0; i < results.back().data.size(); ++i)
      results.back().data[i] = arrays[k].Get(static_cast<int64_t>(i));
  }
  return results;
}

double ToleranceOf(DType t) {
  return t == DType::kF16 ? 2e-3 : t == DType::kBF16 ? 1.6e-2 : t == DType::kF32 ? 2e-5 : t == DType::kF64 ? 1e-11 : 0;
}

void ExpectMeaning(const Graph& g, const std::vector<Tensor>& inputs, int64_t n) {
  const Evaluator evaluator({{"n", n}});
  const std::vector<Tensor> expected = evaluator.Run(g, inputs);
  const StatusOr<std::vector<Tensor>> got = Interpret(g, inputs, evaluator, n);
  ASSERT_TRUE(got.ok()) << Print(g) << got.status();
  for (size_t k = 0; k < expected.size(); ++k) {
    for (size_t i = 0; i < expected[k].data.size(); ++i) {
      const double a = (*got)[k].data[i], b = expected[k].data[i];
      const double tolerance = ToleranceOf(expected[k].dtype);
      const bool same =
          a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * (std::abs(b) + 0.5);
      ASSERT_TRUE(same) << Print(g) << "n = " << n << ", result " << k << ", element " << i << ": " << a
                        << ", expected " << b;
    }
  }
}

TEST(Meaning, EveryOpSampleAndDType) {
  std::mt19937 rng(21);
  int cases = 0;
  for (const OpDef* def : OpRegistry::BuiltIn().All()) {
    for (const std::string& sample : def->samples) {
      for (std::string_view dtype : {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"}) {
        std::string text = sample;
        for (size_t at = 0; (at = text.find("f32", at)) != text.npos; at += dtype.size()) text.replace(at, 3, dtype);
        if (text == sample && dtype != "f32") continue;
        const StatusOr<Graph> g = SampleGraph(*def, text);
        if (!g.ok()) {
          EXPECT_NE(dtype, "f32") << def->name << " " << text << g.status();
          continue;
        }
        for (int64_t n : {1, 7}) {
          if (!IsTried(cases++)) continue;
          // Domains: log and sqrt want positive values; others see both signs.
          const bool positive = def->name == "log" || def->name.ends_with("sqrt") || def->name == "pow" ||
                                def->name == "log1p" || def->name == "batch_norm";
          ExpectMeaning(*g, RandomSampleInputs(*g, Evaluator({{"n", n}}), rng, positive ? 0.1 : -2, 2), n);
        }
      }
    }
  }
  EXPECT_GT(cases, 500);
}

TEST(Meaning, RandomGraphs) {
  std::mt19937 rng(22);
  for (int i = 0; i < 20; ++i) {
    const StatusOr<Graph> g = RandomGraph(rng, 1 + i % 8);
    ASSERT_TRUE(g.ok());
    const int64_t n = 1 + i % 4;
    ExpectMeaning(*g, RandomInputs(*g, Evaluator({{"n", n}}), rng), n);
  }
}

// What the page promises at the edges: NaN, infinities, ties, divisors that trap, indices out of range.
TEST(Meaning, Edges) {
  const double inf = INFINITY, nan = NAN;
  struct Case {
    std::string use;
    std::vector<std::vector<double>> inputs;
    std::vector<double> expected;
  };
  for (const Case& c : std::vector<Case>{
           {"maximum(f32[3], f32[3])", {{nan, 1, -inf}, {1, nan, inf}}, {nan, nan, inf}},
           {"minimum(f16[3], f16[3])", {{nan, 1, -inf}, {1, nan, inf}}, {nan, nan, -inf}},
           {"relu(f32[3])", {{nan, -inf, inf}}, {nan, 0, inf}},
           {"sign(f32[4])", {{nan, -0.0, -3, 5}}, {0, 0, -1, 1}},
           {"round(f32[6])", {{0.5, 1.5, 2.5, -0.5, -1.5, 2.6}}, {0, 2, 2, -0.0, -2, 3}},
           {"mod(f32[4], f32[4])", {{5, -5, 5, -5}, {3, 3, -3, -3}}, {2, 1, -1, -2}},
           {"mod(i32[5], i32[5])", {{5, -5, 5, -2147483648., 7}, {3, 3, -3, -1, 0}}, {2, 1, -1, 0, 0}},
           {"floor_div(i32[5], i32[5])",
            {{5, -5, 5, -2147483648., 7}, {3, 3, -3, -1, 0}},
            {1, -2, -2, -2147483648., 7}},
           {"floor_div(f32[4], f32[4])", {{5, -5, 1, -1}, {3, 3, 0, 0}}, {1, -2, inf, -inf}},
           {"reduce_max(f32[4]) {axes=[0]}", {{1, nan, 3, 2}}, {nan}},
           {"reduce_min(f32[2]) {axes=[0]}", {{inf, inf}}, {inf}},
           {"reduce_sum(f32[0]) {axes=[0]}", {{}}, {0}},
           {"reduce_max(f32[0]) {axes=[0]}", {{}}, {-inf}},
           {"reduce_sum(f32[2]) {axes=[]}", {{3, 4}}, {3, 4}},
           {"reduce_sum(f16[3000]) {axes=[0]}", {std::vector<double>(3000, 1)}, {3000}},
           {"argmax(f32[5]) {axis=0}", {{1, 7, 7, -inf, 2}}, {1}},
           {"argmax(f32[5]) {axis=0}", {{1, 7, nan, nan, 2}}, {2}},
           {"argmin(f32[5]) {axis=0}", {{3, -inf, 7, -inf, 2}}, {1}},
           {"argmax(f32[2]) {axis=0}", {{-inf, -inf}}, {0}},
           {"softmax(f32[2]) {axis=0}", {{1000, 1000}}, {0.5, 0.5}},
           {"softmax(f16[2]) {axis=0}", {{-inf, 0}}, {0, 1}},
           {"log_softmax(f32[2]) {axis=0}", {{-1000, 0}}, {-1000, 0}},
           {"silu(f32[2])", {{-200, 200}}, {0, 200}},
           {"gather(f32[3], i64[4])", {{5, 6, 7}, {-1, 0, 2, 9}}, {5, 5, 7, 7}},
           {"take_along(f32[1,2], i32[1,3]) {axis=1}", {{5, 6}, {-7, 1, 2}}, {5, 6, 6}},
           {"cast(f32[3]) {dtype=bool}", {{0, nan, 0.1}}, {0, 1, 1}},
           {"cast(f32[2]) {dtype=i32}", {{-1.9, 1.9}}, {-1, 1}},
           {"isnan(bf16[3])", {{0, nan, inf}}, {0, 1, 0}},
           {"ne(f32[1], f32[1])", {{nan}, {nan}}, {1}},
           {"max_pool(f32[1,1,2,2]) {kernel=[2,2], stride=[2,2], padding=[1,1]}", {{-inf, 1, 2, 3}}, {-inf, 1, 2, 3}},
       }) {
    const size_t open = c.use.find('(');
    const StatusOr<Graph> g = SampleGraph(*OpRegistry::BuiltIn().Find(c.use.substr(0, open)), c.use.substr(open));
    ASSERT_TRUE(g.ok()) << g.status();
    const Evaluator evaluator({{"n", 1}});
    std::vector<Tensor> inputs;
    for (const Param& p : g->params()) {
      if (p.is_symbol()) continue;
      inputs.emplace_back(g->TypeOf(p.value).dtype, evaluator.ValueOf(g->TypeOf(p.value).dims));
      inputs.back().data = c.inputs[inputs.size() - 1];
    }
    const StatusOr<std::vector<Tensor>> got = Interpret(*g, inputs, evaluator, 1);
    ASSERT_TRUE(got.ok()) << c.use << got.status();
    for (size_t i = 0; i < c.expected.size(); ++i) {
      const double a = (*got)[0].data[i], b = c.expected[i];
      EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
          << c.use << " element " << i << ": " << a << ", expected " << b;
    }
  }
}

TEST(Meaning, EmptyTensors) {
  const Graph g = *Parse(R"(graph @f(%x: f32[n,2], %y: f32[2,n]) where n in 0..9 {
  %0 = matmul(%y, %x) : f32[2,2]
  %1 = reduce_max(%x) {axes=[0]} : f32[2]
  %2 = exp(%x) : f32[n,2]
  %3 = softmax(%x) {axis=1} : f32[n,2]
  %4 = concat(%x, %x) {axis=0} : f32[n*2,2]
  return %0, %1, %2, %3, %4
})");
  std::mt19937 rng(1);
  for (int64_t n : {0, 3}) ExpectMeaning(g, RandomInputs(g, Evaluator({{"n", n}}), rng), n);
}

TEST(Meaning, ResultsThatAreParametersOrRepeatedAreCopies) {
  const Graph g = *Parse("graph @f(%x: f32[n]) where n in 1..9 {\n  %0 = neg(%x) : f32[n]\n  return %x, %0, %0\n}\n");
  const Evaluator evaluator({{"n", 3}});
  std::mt19937 rng(1);
  ExpectMeaning(g, RandomInputs(g, evaluator, rng), 3);
}

TEST(Meaning, CompositesMustBeDecomposed) {
  const Graph g = *Parse("graph @f(%x: f32[2]) {\n  %0 = relu(%x) : f32[2]\n  return %0\n}\n");
  EXPECT_EQ(Message(LowerToTe(g).status()), "op 'relu' has no meaning as loops: run 'decompose' first");
}

}  // namespace
}  // namespace cinn_like::hlir
