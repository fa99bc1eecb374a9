#include <gtest/gtest.h>

#include <random>

#include "hlir/graph.h"
#include "hlir/op_builder.h"
#include "tests/hlir/samples.h"

namespace cinn_like::hlir {
namespace {

constexpr char kMlp[] =
    R"(graph @mlp(%x: f32[n,256], %w: f32[256,512] strides [1,256] static, %b: f32[512] static) where n in 1..4096 {
  %0 = matmul(%x, %w) : f32[n,512]
  %1 = add(%0, %b) : f32[n,512]
  %2 = gelu(%1) {approximate="tanh"} : f32[n,512]
  return %2
}
)";

void ExpectRoundTrip(const Graph& g) {
  const std::string text = Print(g);
  const StatusOr<Graph> again = Parse(text);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_TRUE(*again == g) << text;
  EXPECT_EQ(Print(*again), text);
}

TEST(GraphText, FixedPoint) {
  const StatusOr<Graph> g = Parse(kMlp);
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(Print(*g), kMlp);
  ExpectRoundTrip(*g);
}

TEST(GraphText, NamesSpacingAndDefaultsDoNotCount) {
  const StatusOr<Graph> g = Parse(R"(
    graph @f ( %x : f32[ 2*n , m ], m: i64, k: i64 ) where n in 2..10, m in 8..64 multiple 8 hint 16, k in 0..9 {  // a comment
      %half, %ix = max_pool(%v) {kernel=[2,2], stride=[2,2], padding=[0,0], ceil_mode=false} : f32[1,1,n,m/2], i64[1,1,n,m/2]
      return %half, %ix, %x
    })");
  EXPECT_FALSE(g.ok());  // %v is not defined
  const StatusOr<Graph> h = Parse(R"(
    graph @f ( %x : f32[ 2*n , m ], n: i64, k: i64 ) where n in 2..10, m in 8..64 multiple 8 hint 16, k in 0..9 {
      %v = reshape(%x) {shape=[1, 1, n*2, m]} : f32[1,1,n*2,m]
      %half, %ix = max_pool(%v) {stride=[2,2], kernel=[2,2], padding=[], ceil_mode=false} : f32[1,1,n,(m-2)/2+1], i64[1,1,n,(m-2)/2+1]
      return %half, %ix, %x
    })");
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_EQ(Print(*h),
            R"(graph @f(%x: f32[n*2,m], n: i64, k: i64) where n in 2..10, m in 8..64 multiple 8 hint 16, k in 0..9 {
  %0 = reshape(%x) {shape=[1,1,n*2,m]} : f32[1,1,n*2,m]
  %1, %2 = max_pool(%0) {kernel=[2,2], stride=[2,2]} : f32[1,1,n,m/2], i64[1,1,n,m/2]
  return %1, %2, %x
}
)");
  ExpectRoundTrip(*h);
}

TEST(GraphText, SpecialNumbers) {
  for (const char* value :
       {"inf", "-inf", "nan", "-0.0", "0", "1e-45", "0.1", "-9223372036854775808", "9223372036854775807", "n*2"}) {
    const StatusOr<Graph> g = Parse(Cat("graph @f(%x: f32[n]) where n in 1..9 {\n  %0 = full() {value=", value,
                                        ", dtype=f64} : f64[]\n  return %0, %x\n}\n"));
    ASSERT_TRUE(g.ok()) << g.status();
    EXPECT_NE(Print(*g).find(Cat("value=", value, ",")), std::string::npos) << Print(*g);
    ExpectRoundTrip(*g);
  }
}

TEST(GraphText, EverySampleRoundTrips) {
  for (const OpDef* def : OpRegistry::BuiltIn().All()) {
    EXPECT_FALSE(def->samples.empty()) << def->name;
    EXPECT_FALSE(def->doc.empty()) << def->name;
    for (const std::string& sample : def->samples) {
      const StatusOr<Graph> g = SampleGraph(*def, sample);
      ASSERT_TRUE(g.ok()) << def->name << " " << sample << ": " << g.status();
      ExpectRoundTrip(*g);
    }
  }
}

TEST(GraphText, RandomGraphs) {
  std::mt19937 rng(3);
  for (int i = 0; i < 200; ++i) {
    const StatusOr<Graph> g = RandomGraph(rng, 1 + i % 20);
    ASSERT_TRUE(g.ok()) << g.status();
    ExpectRoundTrip(*g);
  }
}

TEST(GraphText, TruncatedAndMutatedTextIsAnErrorOrAGraph) {
  const std::string text = kMlp;
  for (size_t n = 0; n + 2 < text.size(); ++n) {
    if (text.substr(n).find('}') == std::string::npos) continue;
    EXPECT_FALSE(Parse(text.substr(0, n)).ok()) << text.substr(0, n);
  }
  std::mt19937 rng(5);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = text;
    for (int k = 0; k < 2; ++k) bad[rng() % bad.size()] = "[](){}%,:=xn0123456789-+*/\" "[rng() % 28];
    const StatusOr<Graph> g = Parse(bad);
    if (!g.ok()) continue;
    ++accepted;
    ExpectRoundTrip(*g);
  }
  EXPECT_LT(accepted, 1500);
}

TEST(GraphText, DifferentGraphsDiffer) {
  const Graph g = *Parse(kMlp);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"@mlp", "@mlq"},
                                                        {"%b: f32[512] static", "%b: f32[512]"},
                                                        {"1..4096", "1..4095"},
                                                        {"\"tanh\"", "\"none\""},
                                                        {"return %2", "return %1"},
                                                        {"add(%0, %b)", "sub(%0, %b)"},
                                                        {"add(%0, %b)", "add(%0, %0)"},
                                                        {"add(%0, %b)", "add(%0, %b) on opencl"},
                                                        {"[1,256] ", "[1,257] "}}) {
    std::string text = kMlp;
    text.replace(text.find(from), from.size(), to);
    const StatusOr<Graph> h = Parse(text);
    ASSERT_TRUE(h.ok()) << h.status();
    EXPECT_FALSE(*h == g) << text;
    ExpectRoundTrip(*h);
  }
}

struct BadCase {
  std::string from, to, message;
};

TEST(GraphText, Errors) {
  const std::vector<BadCase> cases = {
      {"graph", "grph", "line 1, column 1: expected 'graph', got 'grph'"},
      {"gelu(%1)", "gelo(%1)", "line 4, column 8: unknown op 'gelo'"},
      {"approximate=", "approx=", "line 4, column 18: op 'gelu': unknown attribute 'approx', expected approximate"},
      {"\"tanh\"", "\"tan\"", "attribute 'approximate': expected \"none\" or \"tanh\", got \"tan\" (op 'gelu')"},
      {"\"tanh\"", "3", "attribute 'approximate': expected a string, got '3' (op 'gelu')"},
      {"add(%0, %b)", "add(%0, %c)", "line 3, column 16: unknown value '%c'"},
      {"add(%0, %b)", "add(%0)", "line 3, column 8: op 'add': expected 2 operands, got 1"},
      {"add(%0, %b)", "add(%0, %b) on 3", "line 3, column 23: expected a device's name, got '3'"},
      {"%1 = add", "%0 = add", "line 3, column 3: value '%0' is defined twice"},
      {"%1 = add", "%1, %3 = add", "op 'add' has 1 results, got 2 names and 1 types"},
      {"%x: f32[n,256]", "%x: f31[n,256]", "expected a dtype (bool, i8,"},
      {"%x: f32[n,256]", "%x: f32[n,255]", "op 'matmul': operand 'b': expected 255 rows as 'a' has columns, got 256"},
      {"%x: f32[n,256]", "%x: f32[k,256]", "line 1, column 12: parameter 'x': unknown symbol 'k'"},
      {"%b: f32[512]", "%x: f32[512]", "parameter 'x' is declared twice"},
      {"%b: f32[512]", "%b: f64[512]", "op 'add': operands have one dtype: expected f32 for operand 1, got f64"},
      {"%b: f32[512]", "%b: f32[511]",
       "op 'add': shapes [n,512] and [511] do not broadcast: expected 512 or 1, got 511"},
      {"%b: f32[512]", "%b: f32[-512]", "dimension -512 of f32[-512] is negative"},
      {"%b: f32[512]", "%b: f32[999999999,999999999,99]", "is too large"},
      {"[1,256] ", "[256] ", "parameter 'w': expected 2 strides, got 1"},
      {"1..4096", "9..4", "symbol 'n': expected a range 0 <= first <= last, got 9..4"},
      {"1..4096", "1..4096 hint 5000", "symbol 'n': expected a hint in 1..4096, got 5000"},
      {"1..4096", "1..4096 multiple 0", "symbol 'n': expected a positive divisor, got 0"},
      {"1..4096", "1..4096, n in 1..2", "symbol 'n' is declared twice"},
      {"1..4096", "1..4096, k in 1..2", "symbol 'k' is no parameter's dimension; pass it as a parameter 'k: i64'"},
      {"gelu(%1) {approximate=\"tanh\"} : f32[n,512]", "gelu(%1) : f32[n,511]",
       "line 4, column 8: op 'gelu': type written for '%2': expected f32[n,512], got f32[n,511]"},
      {"return %2", "return", "graph 'mlp': expected at least one result"},
      {"return %2\n}", "return %2\n} x", "expected nothing after the graph, got 'x'"},
      {"return %2", "", "line 6, column 1: expected '%', got '}'"},
  };
  for (const BadCase& c : cases) {
    std::string text = kMlp;
    const size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    text.replace(at, c.from.size(), c.to);
    const StatusOr<Graph> g = Parse(text);
    ASSERT_FALSE(g.ok()) << text;
    EXPECT_EQ(g.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(Message(g.status()).find(c.message), std::string::npos) << g.status() << "\nexpected: " << c.message;
  }
}

TEST(GraphText, CallersRegistry) {
  OpRegistry registry = OpRegistry::BuiltIn();
  OpDef twice;
  twice.name = "twice";
  twice.doc = "2 * x";
  twice.operands = {"x"};
  twice.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> { return call.operands; };
  EXPECT_EQ(Message(registry.Add(twice)), "op 'twice': needs either 'lower' or 'decompose'");
  twice.decompose = [](OpBuilder* b, const std::vector<ValueRef>& x, const Attrs&) -> std::vector<ValueRef> {
    return {b->Add(x[0], x[0])};
  };
  EXPECT_TRUE(registry.Add(twice).ok());
  EXPECT_EQ(Message(registry.Add(twice)), "op 'twice' is registered already");
  twice.name = "add";
  EXPECT_FALSE(registry.Add(twice).ok());
  twice.name = "";
  EXPECT_FALSE(registry.Add(twice).ok());
  const std::string text = "graph @f(%x: f32[2]) {\n  %0 = twice(%x) : f32[2]\n  return %0\n}\n";
  EXPECT_EQ(Print(*Parse(text, registry)), text);
  EXPECT_FALSE(Parse(text).ok());
}

}  // namespace
}  // namespace cinn_like::hlir
