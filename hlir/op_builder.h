// Appends ops to a graph, one method per op. The first error sticks: later calls do nothing and return an invalid
// reference, so that callers check status() once. Used by decompositions, passes and frontends.
#pragma once
#include <string>
#include <vector>

#include "hlir/graph.h"

namespace cinn_like::hlir {

// A value of the graph under construction; invalid after an error.
struct ValueRef {
  ValueId id = -1;
};

class OpBuilder {
 public:
  explicit OpBuilder(Graph* graph) : graph_(graph) {}

  const Status& status() const { return status_; }
  const Graph& graph() const { return *graph_; }
  // `f32[]` for an invalid reference.
  const TensorType& TypeOf(ValueRef v) const;
  DType DTypeOf(ValueRef v) const { return TypeOf(v).dtype; }
  const Dims& DimsOf(ValueRef v) const { return TypeOf(v).dims; }

  // Any op by name: all its results, or as many invalid references as `num_results` after an error.
  std::vector<ValueRef> Call(std::string_view op, const std::vector<ValueRef>& operands, const Attrs& attrs,
                             size_t num_results);
  ValueRef Call(std::string_view op, const std::vector<ValueRef>& operands, const Attrs& attrs = {}) {
    return Call(op, operands, attrs, 1)[0];
  }

  // clang-format off
#define UNARY(Method, op) ValueRef Method(ValueRef x) { return Call(op, {x}); }
#define BINARY(Method, op) ValueRef Method(ValueRef a, ValueRef b) { return Call(op, {a, b}); }
  UNARY(Neg, "neg"); UNARY(Abs, "abs"); UNARY(Exp, "exp"); UNARY(Log, "log"); UNARY(Sqrt, "sqrt"); UNARY(Rsqrt, "rsqrt");
  UNARY(Tanh, "tanh"); UNARY(Erf, "erf"); UNARY(Sigmoid, "sigmoid"); UNARY(Relu, "relu"); UNARY(Sin, "sin");
  UNARY(Cos, "cos"); UNARY(Floor, "floor"); UNARY(Ceil, "ceil"); UNARY(Round, "round"); UNARY(Sign, "sign");
  UNARY(Reciprocal, "reciprocal"); UNARY(Log1p, "log1p"); UNARY(Expm1, "expm1"); UNARY(Silu, "silu");
  UNARY(Square, "square"); UNARY(Not, "not"); UNARY(IsNan, "isnan"); UNARY(Copy, "copy");
  BINARY(Add, "add"); BINARY(Sub, "sub"); BINARY(Mul, "mul"); BINARY(Div, "div"); BINARY(Pow, "pow");
  BINARY(Maximum, "maximum"); BINARY(Minimum, "minimum"); BINARY(Mod, "mod"); BINARY(FloorDiv, "floor_div");
  BINARY(And, "and"); BINARY(Or, "or"); BINARY(Xor, "xor"); BINARY(Eq, "eq"); BINARY(Ne, "ne"); BINARY(Lt, "lt");
  BINARY(Le, "le"); BINARY(Gt, "gt"); BINARY(Ge, "ge"); BINARY(Matmul, "matmul");
#undef UNARY
#undef BINARY
  // clang-format on

  ValueRef Gelu(ValueRef x, const std::string& approximate = "none") {
    return Call("gelu", {x}, {{"approximate", approximate}});
  }
  ValueRef Select(ValueRef c, ValueRef a, ValueRef b) { return Call("select", {c, a, b}); }
  // `x` itself if it has that dtype.
  ValueRef Cast(ValueRef x, DType dtype);

  ValueRef Full(Attr value, DType dtype, Dims shape = {});
  ValueRef Iota(DType dtype, Dims shape, int64_t axis) {
    return Call("iota", {}, {{"dtype", dtype}, {"shape", std::move(shape)}, {"axis", Dim(axis)}});
  }

  ValueRef Reshape(ValueRef x, Dims shape) { return Call("reshape", {x}, {{"shape", std::move(shape)}}); }
  ValueRef BroadcastTo(ValueRef x, Dims shape) { return Call("broadcast_to", {x}, {{"shape", std::move(shape)}}); }
  ValueRef Transpose(ValueRef x, const std::vector<int64_t>& perm);
  ValueRef Slice(ValueRef x, int64_t axis, Dim begin, Dim end, int64_t step = 1);
  ValueRef Concat(const std::vector<ValueRef>& xs, int64_t axis);
  ValueRef Pad(ValueRef x, Dims low, Dims high, Attr value);

  // Negative axes count from the end.
  ValueRef Reduce(std::string_view op, ValueRef x, const std::vector<int64_t>& axes, bool keepdims = false);
  ValueRef ReduceSum(ValueRef x, const std::vector<int64_t>& axes, bool keepdims = false) {
    return Reduce("reduce_sum", x, axes, keepdims);
  }
  ValueRef ReduceMax(ValueRef x, const std::vector<int64_t>& axes, bool keepdims = false) {
    return Reduce("reduce_max", x, axes, keepdims);
  }
  ValueRef ReduceMin(ValueRef x, const std::vector<int64_t>& axes, bool keepdims = false) {
    return Reduce("reduce_min", x, axes, keepdims);
  }
  ValueRef ReduceMean(ValueRef x, const std::vector<int64_t>& axes, bool keepdims = false) {
    return Reduce("reduce_mean", x, axes, keepdims);
  }
  ValueRef ArgMax(ValueRef x, int64_t axis, bool keepdims = false);
  ValueRef Softmax(ValueRef x, int64_t axis);
  ValueRef LogSoftmax(ValueRef x, int64_t axis);

  ValueRef LayerNorm(ValueRef x, ValueRef w, ValueRef b, const std::vector<int64_t>& axes, double epsilon = 1e-5);
  ValueRef RmsNorm(ValueRef x, ValueRef w, const std::vector<int64_t>& axes, double epsilon = 1e-5);
  ValueRef BatchNorm(ValueRef x, ValueRef w, ValueRef b, ValueRef mean, ValueRef var, double epsilon = 1e-5);

  ValueRef Gather(ValueRef x, ValueRef idx, int64_t axis = 0);
  ValueRef TakeAlong(ValueRef x, ValueRef idx, int64_t axis);

  ValueRef Conv(ValueRef x, ValueRef w, const std::vector<int64_t>& stride, const std::vector<int64_t>& padding,
                const std::vector<int64_t>& dilation = {1, 1}, int64_t groups = 1);
  // Values and flat indices.
  std::vector<ValueRef> MaxPool(ValueRef x, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                                const std::vector<int64_t>& padding);
  ValueRef AvgPool(ValueRef x, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                   const std::vector<int64_t>& padding);

 protected:
  void Record(const Status& s) {
    if (status_.ok()) status_ = s;
  }
  int64_t NormalizeAxis(ValueRef x, int64_t axis) const { return axis < 0 ? axis + TypeOf(x).rank() : axis; }
  Dims NormalizeAxes(ValueRef x, const std::vector<int64_t>& axes) const;

 private:
  Graph* graph_;
  Status status_;
};

}  // namespace cinn_like::hlir
