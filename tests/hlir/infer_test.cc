// Shape inference: what each op gives, and what it says to bad operands and attributes.
#include <gtest/gtest.h>

#include "hlir/graph.h"
#include "tests/hlir/samples.h"

namespace cinn_like::hlir {
namespace {

// "add(f32[3,n], f32[n])" -> "f32[3,n]", or the error.
std::string Infer(std::string_view use) {
  const size_t open = use.find('(');
  const OpDef* def = OpRegistry::BuiltIn().Find(use.substr(0, open));
  if (!def) return "no such op";
  const StatusOr<Graph> g = SampleGraph(*def, use.substr(open));
  if (!g.ok()) return Message(g.status());
  std::string types;
  for (ValueId v : g->results()) types += Cat(types.empty() ? "" : ", ", g->TypeOf(v).ToString());
  return types;
}

struct Case {
  std::string use, expected;
};

TEST(Infer, Types) {
  for (const Case& c : std::vector<Case>{
           {"neg(i8[n,2])", "i8[n,2]"},
           {"isnan(f16[n])", "bool[n]"},
           {"add(f32[3,1,n], f32[4,1])", "f32[3,4,n]"},
           {"lt(f32[n], f32[])", "bool[n]"},
           {"select(bool[n,1], f32[5], f32[])", "f32[n,5]"},
           {"cast(f32[n]) {dtype=bool}", "bool[n]"},
           {"full() {value=1, dtype=i32, shape=[n,2]}", "i32[n,2]"},
           {"iota() {shape=[4]}", "i64[4]"},
           {"reshape(f32[n,12]) {shape=[n*3,4]}", "f32[n*3,4]"},
           {"transpose(f32[2,n,3]) {perm=[2,0,1]}", "f32[3,2,n]"},
           {"broadcast_to(f32[n,1]) {shape=[2,n,7]}", "f32[2,n,7]"},
           {"slice(f32[9]) {axis=0, begin=2, end=9, step=3}", "f32[3]"},
           {"slice(f32[n]) {axis=0, begin=n/2, end=n}", "f32[n-n/2]"},
           {"concat(f32[n,2], f32[n,3]) {axis=1}", "f32[n,5]"},
           {"pad(f32[n,5]) {low=[1,-1], high=[2,-1]}", "f32[n+3,3]"},
           {"gather(f32[11,5], i64[n,3])", "f32[n,3,5]"},
           {"take_along(f32[5,9], i32[5,n]) {axis=1}", "f32[5,n]"},
           {"check_index(i32[5,n]) {size=2*n, from_end=true}", "i32[5,n]"},
           {"reduce_sum(f16[2,n,3]) {axes=[0,2]}", "f16[n]"},
           {"reduce_max(f32[2,n]) {axes=[1], keepdims=true}", "f32[2,1]"},
           {"argmax(f32[2,n]) {axis=1}", "i64[2]"},
           {"matmul(f32[2,1,3,4], f32[5,4,n])", "f32[2,5,3,n]"},
           {"softmax(f32[n,3]) {axis=1}", "f32[n,3]"},
           {"layer_norm(f16[n,3], f32[3], f32[3]) {axes=[1]}", "f16[n,3]"},
           {"conv(f32[n,4,9,7], f32[6,2,3,2]) {stride=[2,1], padding=[1,2], dilation=[1,2], groups=2}", "f32[n,6,5,9]"},
           {"conv(f32[1,3,n,n], f32[4,3,3,3]) {stride=[2,2], padding=[1,1]}", "f32[1,4,(n+1)/2,(n+1)/2]"},
           {"max_pool(f32[n,2,9,8]) {kernel=[2,3], stride=[2,2], ceil_mode=true}", "f32[n,2,5,4], i64[n,2,5,4]"},
           {"avg_pool(f32[n,2,9,8]) {kernel=[3,2], stride=[2,1], padding=[1,1]}", "f32[n,2,5,9]"},
           {"avg_pool(f32[1,1,4,4]) {kernel=[1,1], stride=[3,3], padding=[0,0], ceil_mode=true}", "f32[1,1,2,2]"},
           {"max_pool(f32[1,1,5,5]) {kernel=[2,2], stride=[4,4], padding=[1,1], ceil_mode=true}",
            "f32[1,1,2,2], i64[1,1,2,2]"},
       }) {
    EXPECT_EQ(Infer(c.use), c.expected) << c.use;
  }
}

TEST(Infer, Errors) {
  for (const Case& c : std::vector<Case>{
           {"exp(i32[n])", "op 'exp': operand 'x': expected a float dtype, got i32"},
           {"neg(bool[n])", "op 'neg': operand 'x': expected a number dtype, got bool"},
           {"not(f32[n])", "op 'not': operand 'x': expected bool or an integer dtype, got f32"},
           {"add(f32[n])", "op 'add': expected 2 operands, got 1"},
           {"add(f32[n], f64[n])", "op 'add': operands have one dtype: expected f32 for operand 1, got f64"},
           {"add(f32[n], f32[7])", "op 'add': shapes [n] and [7] do not broadcast: expected n or 1, got 7"},
           {"select(f32[n], f32[n], f32[n])", "op 'select': operand 'c': expected bool, got f32"},
           {"select(bool[n], f32[n], i32[n])",
            "op 'select': operands have one dtype: expected f32 for operand 2, got i32"},
           {"cast(f32[n])", "op 'cast': attribute 'dtype' is missing, expected a dtype"},
           {"cast(f32[n]) {dtype=f31}", "attribute 'dtype': expected a dtype (bool"},
           {"full() {value=\"1\", dtype=f32}", "attribute 'value': expected a number, got '1'"},
           {"full() {value=m, dtype=f32}",
            "op 'full': attribute 'value': unknown symbol 'm', expected one declared after 'where'"},
           {"full() {value=1, dtype=f32, shape=[-1]}", "op 'full': result: dimension -1 of f32[-1] is negative"},
           {"iota() {shape=[]}", "op 'iota': attribute 'axis': expected an axis in [0, 0), got 0"},
           {"iota() {shape=[2], dtype=bool}", "op 'iota': operand 'result': expected a number dtype, got bool"},
           {"reshape(f32[n,12]) {shape=[n,13]}",
            "op 'reshape': attribute 'shape': expected n*12 elements as in f32[n,12], got n*13"},
           {"reshape(f32[4]) {shape=4}", "attribute 'shape': expected a list of dimensions, got '4'"},
           {"transpose(f32[n,2]) {perm=[0]}", "op 'transpose': attribute 'perm': expected 2 values, got 1"},
           {"transpose(f32[n,2]) {perm=[0,2]}", "op 'transpose': attribute 'perm': expected an axis in [0, 2), got 2"},
           {"transpose(f32[n,2]) {perm=[1,1]}",
            "op 'transpose': attribute 'perm': expected distinct axes, got 1 twice"},
           {"transpose(f32[n,2]) {perm=[n,1]}", "attribute 'perm': expected a list of integers, got [n,1]"},
           {"broadcast_to(f32[n,2]) {shape=[n,3]}",
            "op 'broadcast_to': attribute 'shape': expected a shape that f32[n,2] broadcasts to, got [n,3]"},
           {"slice(f32[9]) {axis=0, begin=-2, end=9}", "op 'slice': attribute 'begin': expected at least 0, got -2"},
           {"slice(f32[9]) {axis=0, begin=5, end=3}", "op 'slice': attribute 'end': expected at least 5, got 3"},
           {"slice(f32[9]) {axis=0, begin=5, end=10}", "op 'slice': attribute 'end': expected at most 9, got 10"},
           {"slice(f32[9]) {axis=0, begin=5, end=9, step=0}",
            "op 'slice': attribute 'step': expected a positive step, got 0"},
           {"slice(f32[9]) {axis=1, begin=5, end=9}",
            "op 'slice': attribute 'axis': expected an axis in [0, 1), got 1"},
           {"concat() {axis=0}", "op 'concat': expected at least 1 operand, got 0"},
           {"concat(f32[n,2], f32[n]) {axis=0}",
            "op 'concat': operand 1: expected shape [n,2] outside axis 0, got [n]"},
           {"concat(f32[n,2], f32[n,3]) {axis=0}",
            "op 'concat': operand 1: expected shape [n,2] outside axis 0, got [n,3]"},
           {"pad(f32[n]) {low=[1,2], high=[0]}", "op 'pad': attribute 'low': expected 1 values, got 2"},
           {"pad(f32[3]) {low=[-2], high=[-2]}", "op 'pad': result: dimension -1 of f32[-1] is negative"},
           {"gather(f32[n], f32[3])", "op 'gather': operand 'idx': expected an integer dtype, got f32"},
           {"gather(f32[n], i64[3]) {axis=1}", "op 'gather': attribute 'axis': expected an axis in [0, 1), got 1"},
           {"take_along(f32[n,9], i64[9]) {axis=1}", "op 'take_along': operand 'idx': expected rank 2, got i64[9]"},
           {"take_along(f32[3,9], i64[4,9]) {axis=1}",
            "op 'take_along': operand 'idx': expected at most 3 along axis 0, got 4"},
           {"check_index(f32[n]) {size=3}", "op 'check_index': operand 'idx': expected an integer dtype, got f32"},
           {"reduce_sum(bool[n]) {axes=[0]}", "op 'reduce_sum': operand 'x': expected a number dtype, got bool"},
           {"reduce_any(f32[n]) {axes=[0]}", "op 'reduce_any': operand 'x': expected bool, got f32"},
           {"reduce_sum(f32[n]) {axes=[-1]}", "op 'reduce_sum': attribute 'axes': expected an axis in [0, 1), got -1"},
           {"reduce_sum(f32[n]) {keepdims=1, axes=[0]}", "attribute 'keepdims': expected true or false, got '1'"},
           {"argmax(f32[0,n]) {axis=0}", "op 'argmax': attribute 'axis': expected an axis with elements, got f32[0,n]"},
           {"argmax(f32[n]) {axis=[0]}", "attribute 'axis': expected an integer, got '['"},
           {"argmax(f32[n]) {axis=n}", "attribute 'axis': expected an integer, got n"},
           {"matmul(f32[4], f32[4,2])", "op 'matmul': operand 'a': expected rank of at least 2, got f32[4]"},
           {"matmul(f32[n,4], f32[5,2])",
            "op 'matmul': operand 'b': expected 4 rows as 'a' has columns, got 5 (f32[n,4] x f32[5,2])"},
           {"matmul(f32[2,n,4], f32[3,4,2])",
            "op 'matmul': shapes [2] and [3] do not broadcast: expected 2 or 1, got 3"},
           {"softmax(f32[n,3]) {axis=2}", "op 'softmax': attribute 'axis': expected an axis in [0, 2), got 2"},
           {"softmax(i32[n,3]) {axis=1}", "op 'softmax': operand 'x': expected a float dtype, got i32"},
           {"layer_norm(f32[n,3], f32[3], f32[3]) {axes=[0]}",
            "op 'layer_norm': attribute 'axes': expected the trailing axes in order, got [0]"},
           {"layer_norm(f32[n,3], f32[4], f32[3]) {axes=[1]}",
            "op 'layer_norm': operand 'w': expected shape [3], got [4]"},
           {"layer_norm(f32[n,3], f32[3], f32[3]) {axes=[1], epsilon=\"x\"}",
            "attribute 'epsilon': expected a float, got 'x'"},
           {"batch_norm(f32[n,3], f32[3], f32[3], f32[2], f32[3])",
            "op 'batch_norm': operand 'mean': expected shape [3], got [2]"},
           {"conv(f32[n,3,8], f32[4,3,3,3])", "op 'conv': operand 'w': expected rank 3 as 'x', got f32[4,3,3,3]"},
           {"conv(f32[n,3], f32[4,3])", "op 'conv': operand 'x': expected rank 3 to 5, got f32[n,3]"},
           {"conv(f32[1,3,4,4,4,4], f32[4,3,1,1,1,1])",
            "op 'conv': operand 'x': expected rank 3 to 5, got f32[1,3,4,4,4,4]"},
           {"conv(f32[n,3,8,8], f32[4,2,3,3])", "op 'conv': expected 2 input channels (2 x 1 groups), got 3"},
           {"conv(f32[n,4,8,8], f32[3,2,3,3]) {groups=2}",
            "op 'conv': attribute 'groups': expected a divisor of 3 output channels, got 2"},
           {"conv(f32[n,3,8,8], f32[4,3,3,3]) {stride=[1]}", "op 'conv': attribute 'stride': expected 2 values, got 1"},
           {"conv(f32[n,3,8,8], f32[4,3,3,3]) {stride=[0,1]}",
            "op 'conv': attribute 'stride': expected values of at least 1, got 0"},
           {"conv(f32[n,3,8,8], f32[4,3,3,3]) {dilation=[1,4294967295]}",
            "op 'conv': attribute 'dilation': expected values of at most 2147483648, got 4294967295"},
           {"conv(f32[n,3,8,8], f32[4,3,18014398509481984,1]) {dilation=[1024,1]}",
            "op 'conv': window of 18014398509481984 (dilation 1024) does not fit: expected at most 8 along axis 2"},
           {"conv(f32[n,3,2,8], f32[4,3,3,3])",
            "op 'conv': window of 3 (dilation 1) does not fit: expected at most 2 along axis 2"},
           {"conv(f32[n,3,8,8], f32[4,3,n,3])", "op 'conv': kernel size: expected a constant, got n"},
           {"conv_input_grad(f32[n,4,6,6], f32[4,3,3,3]) {input_shape=[n,3,8,9]}",
            "op 'conv_input_grad': operand 'dy': expected shape [n,4,6,7], got [n,4,6,6]"},
           {"conv_weight_grad(f32[n,4,6,7], f32[n,3,8,9]) {weight_shape=[4,3,3]}",
            "op 'conv_weight_grad': attribute 'weight_shape': expected 4 values, got 3"},
           {"max_pool(f32[n,1,4,4]) {kernel=[2,2], stride=[2,2], padding=[2,0]}",
            "op 'max_pool': attribute 'padding': expected at most half of the kernel 2, got 2"},
           {"max_pool(f32[1,1,n,4]) {kernel=[2,2], stride=[2,2], ceil_mode=true}",
            "op 'max_pool': attribute 'ceil_mode': expected false where axis 2 is symbolic, got size n"},
           {"max_pool_grad(f32[n,3,4,4], i64[n,3,4,5]) {input_shape=[n,3,8,9], kernel=[2,2], stride=[2,2]}",
            "op 'max_pool_grad': operand 'indices': expected shape [n,3,4,4], got [n,3,4,5]"},
           {"avg_pool_grad(f32[n,3,3,4]) {input_shape=[n,3,8,9], kernel=[2,2], stride=[2,2]}",
            "op 'avg_pool_grad': operand 'dy': expected shape [n,3,4,4], got [n,3,3,4]"},
       }) {
    const std::string got = Infer(c.use);
    EXPECT_NE(got.find(c.expected), std::string::npos)
        << c.use << "\n     got: " << got << "\nexpected: " << c.expected;
  }
}

// Every attribute without a default is missed by name.
TEST(Infer, MissingAttributes) {
  for (const OpDef* def : OpRegistry::BuiltIn().All()) {
    for (const AttrSpec& spec : def->attrs) {
      if (spec.default_value) {
        EXPECT_TRUE(CoerceAttr(spec, *spec.default_value).ok()) << def->name;
        continue;
      }
      const Status s = CompleteAttrs(*def, {}).status();
      EXPECT_NE(Message(s).find("is missing, expected "), std::string::npos) << def->name << ": " << s;
    }
  }
}

}  // namespace
}  // namespace cinn_like::hlir
