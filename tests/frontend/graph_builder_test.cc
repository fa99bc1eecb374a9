#include "frontend/graph_builder.h"

#include <gtest/gtest.h>

namespace cinn_like {
namespace {

TEST(GraphBuilder, BuildsWhatTheTextSays) {
  GraphBuilder b("mlp");
  const Dim n = b.Symbol("n", 1, 4096), k = b.Symbol("k", 0, 8, 2, true);
  const ValueRef x = b.Param("x", DType::kF32, {n, 256});
  const ValueRef w = b.StaticParam("w", DType::kF32, {256, 512}, Dims{1, 256});
  const ValueRef h = b.Softmax(b.Gelu(b.Matmul(x, w), "tanh"), -1);
  b.Return({b.ReduceMean(h, {-1}), b.Slice(h, 0, 0, n), b.Full(k, DType::kI64)});
  const StatusOr<hlir::Graph> g = std::move(b).Build();
  ASSERT_TRUE(g.ok()) << g.status();
  const StatusOr<hlir::Graph> parsed = hlir::Parse(hlir::Print(*g));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(*parsed == *g);
  const std::string text = hlir::Print(*g);
  for (const char* part : {"graph @mlp(k: i64, %x: f32[n,256], %w: f32[256,512] strides [1,256] static)",
                           "k in 0..8 multiple 2", "gelu(%0) {approximate=\"tanh\"}", "softmax(%1) {axis=1}",
                           "reduce_mean(%2) {axes=[1]}", "full() {value=k, dtype=i64}"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(GraphBuilder, EveryMethodMakesItsOp) {
  GraphBuilder b("all");
  const ValueRef x = b.Param("x", DType::kF32, {2, 3, 8, 8}), v = b.Param("v", DType::kF32, {3}),
                 i = b.Param("i", DType::kI64, {2, 1});
  const ValueRef w = b.StaticParam("w", DType::kF32, {4, 3, 3, 3}), row = b.Param("row", DType::kF32, {8});
  const ValueRef flat = b.Reshape(x, {2, 192});
  std::vector<ValueRef> r = {b.Neg(x),
                             b.Abs(x),
                             b.Exp(x),
                             b.Log(x),
                             b.Sqrt(x),
                             b.Rsqrt(x),
                             b.Tanh(x),
                             b.Erf(x),
                             b.Sigmoid(x),
                             b.Relu(x),
                             b.Sin(x),
                             b.Cos(x),
                             b.Floor(x),
                             b.Ceil(x),
                             b.Round(x),
                             b.Sign(x),
                             b.Reciprocal(x),
                             b.Log1p(x),
                             b.Expm1(x),
                             b.Silu(x),
                             b.Square(x),
                             b.Not(b.IsNan(x)),
                             b.Copy(x),
                             b.Add(x, x),
                             b.Sub(x, x),
                             b.Mul(x, x),
                             b.Div(x, x),
                             b.Pow(x, x),
                             b.Maximum(x, x),
                             b.Minimum(x, x),
                             b.Mod(x, x),
                             b.FloorDiv(x, x),
                             b.And(i, i),
                             b.Or(i, i),
                             b.Xor(i, i),
                             b.Select(b.Eq(x, x), x, x),
                             b.Ne(x, x),
                             b.Lt(x, x),
                             b.Le(x, x),
                             b.Gt(x, x),
                             b.Ge(x, x),
                             b.Cast(x, DType::kF16),
                             b.Iota(DType::kI32, {4}, 0),
                             b.BroadcastTo(v, {2, 3}),
                             b.Transpose(flat, {1, 0}),
                             b.Concat({flat, flat}, -1),
                             b.Pad(v, {1}, {1}, 0.5),
                             b.ReduceSum(x, {0}),
                             b.ReduceMax(x, {0}),
                             b.ReduceMin(x, {0}),
                             b.ReduceMean(x, {0}),
                             b.ArgMax(x, -1),
                             b.LogSoftmax(x, -1),
                             b.LayerNorm(x, row, row, {-1}),
                             b.RmsNorm(x, row, {-1}),
                             b.BatchNorm(x, v, v, v, v),
                             b.Gather(v, i),
                             b.TakeAlong(flat, i, 1),
                             b.Conv(x, w, {1, 1}, {1, 1}),
                             b.MaxPool(x, {2, 2}, {2, 2}, {0, 0})[1],
                             b.AvgPool(x, {2, 2}, {2, 2}, {0, 0})};
  b.Return(r);
  const StatusOr<hlir::Graph> g = std::move(b).Build();
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(g->results().size(), r.size());
}

TEST(GraphBuilder, TheFirstErrorIsReturnedByBuild) {
  GraphBuilder b("bad");
  const ValueRef x = b.Param("x", DType::kF32, {2, 3});
  const ValueRef y = b.Add(b.Matmul(x, x), x);
  b.Return({b.Exp(b.Softmax(y, 7))});
  EXPECT_EQ(Message(std::move(b).Build().status()),
            "op 'matmul': operand 'b': expected 3 rows as 'a' has columns, got 2 (f32[2,3] x f32[2,3])");
}

TEST(GraphBuilder, Errors) {
  auto error = [](const std::function<void(GraphBuilder&)>& f) {
    GraphBuilder b("bad");
    f(b);
    return Message(std::move(b).Build().status());
  };
  EXPECT_EQ(error([](GraphBuilder&) {}), "graph 'bad': expected at least one result");
  EXPECT_EQ(error([](GraphBuilder& b) { b.Return({{7}}); }), "result 0 is no value of this graph");
  EXPECT_EQ(error([](GraphBuilder& b) { b.Exp({}); }), "op 'exp': operand 0 is no value of this graph");
  EXPECT_EQ(error([](GraphBuilder& b) { b.Call("nope", {}); }), "unknown op 'nope'");
  EXPECT_EQ(error([](GraphBuilder& b) { b.Param("a b", DType::kF32, {}); }),
            "parameter 'a b': expected an identifier as its name");
  EXPECT_EQ(error([](GraphBuilder& b) { b.Param("x", DType::kF32, {Dim::Symbol("n")}); }),
            "parameter 'x': unknown symbol 'n', expected one declared after 'where'");
  EXPECT_EQ(error([](GraphBuilder& b) { b.Symbol("n", 5, 2); }),
            "symbol 'n': expected a range 0 <= first <= last, got 5..2");
  EXPECT_EQ(error([](GraphBuilder& b) {
              b.Symbol("n", 1, 2);
              b.Return({b.Param("x", DType::kF32, {2})});
            }),
            "graph 'bad': symbol 'n' is no parameter's dimension; pass it as a parameter 'n: i64'");
}

}  // namespace
}  // namespace cinn_like
