#include "hlir/op_builder.h"

namespace cinn_like::hlir {
namespace {
Dims ToDims(const std::vector<int64_t>& values) { return Dims(values.begin(), values.end()); }
}  // namespace

const TensorType& OpBuilder::TypeOf(ValueRef v) const {
  static const TensorType kInvalid;
  return v.id < 0 || v.id >= graph_->num_values() ? kInvalid : graph_->TypeOf(v.id);
}

std::vector<ValueRef> OpBuilder::Call(std::string_view op, const std::vector<ValueRef>& operands, const Attrs& attrs,
                                      size_t num_results) {
  std::vector<ValueRef> results(num_results);
  if (!status_.ok()) return results;
  std::vector<ValueId> ids;
  for (ValueRef v : operands) {
    if (v.id < 0 || v.id >= graph_->num_values()) {
      Record(InvalidArgument("op '", op, "': operand ", ids.size(), " is no value of this graph"));
      return results;
    }
    ids.push_back(v.id);
  }
  const StatusOr<std::vector<ValueId>> made = graph_->AddOp(op, std::move(ids), attrs);
  if (!made.ok()) {
    Record(made.status());
    return results;
  }
  results.clear();
  for (ValueId v : *made) results.push_back({v});
  return results;
}

Dims OpBuilder::NormalizeAxes(ValueRef x, const std::vector<int64_t>& axes) const {
  Dims dims;
  for (int64_t a : axes) dims.push_back(NormalizeAxis(x, a));
  return dims;
}

ValueRef OpBuilder::Cast(ValueRef x, DType dtype) {
  return DTypeOf(x) == dtype && x.id >= 0 ? x : Call("cast", {x}, {{"dtype", dtype}});
}

ValueRef OpBuilder::Full(Attr value, DType dtype, Dims shape) {
  return Call("full", {}, {{"value", std::move(value)}, {"dtype", dtype}, {"shape", std::move(shape)}});
}

ValueRef OpBuilder::Transpose(ValueRef x, const std::vector<int64_t>& perm) {
  return Call("transpose", {x}, {{"perm", NormalizeAxes(x, perm)}});
}

ValueRef OpBuilder::Slice(ValueRef x, int64_t axis, Dim begin, Dim end, int64_t step) {
  return Call("slice", {x},
              {{"axis", Dim(NormalizeAxis(x, axis))},
               {"begin", std::move(begin)},
               {"end", std::move(end)},
               {"step", Dim(step)}});
}

ValueRef OpBuilder::Concat(const std::vector<ValueRef>& xs, int64_t axis) {
  return Call("concat", xs, {{"axis", Dim(xs.empty() ? axis : NormalizeAxis(xs[0], axis))}});
}

ValueRef OpBuilder::Pad(ValueRef x, Dims low, Dims high, Attr value) {
  return Call("pad", {x}, {{"low", std::move(low)}, {"high", std::move(high)}, {"value", std::move(value)}});
}

ValueRef OpBuilder::Reduce(std::string_view op, ValueRef x, const std::vector<int64_t>& axes, bool keepdims) {
  return Call(op, {x}, {{"axes", NormalizeAxes(x, axes)}, {"keepdims", keepdims}});
}

ValueRef OpBuilder::ArgMax(ValueRef x, int64_t axis, bool keepdims) {
  return Call("argmax", {x}, {{"axis", Dim(NormalizeAxis(x, axis))}, {"keepdims", keepdims}});
}

ValueRef OpBuilder::Softmax(ValueRef x, int64_t axis) {
  return Call("softmax", {x}, {{"axis", Dim(NormalizeAxis(x, axis))}});
}

ValueRef OpBuilder::LogSoftmax(ValueRef x, int64_t axis) {
  return Call("log_softmax", {x}, {{"axis", Dim(NormalizeAxis(x, axis))}});
}

ValueRef OpBuilder::LayerNorm(ValueRef x, ValueRef w, ValueRef b, const std::vector<int64_t>& axes, double epsilon) {
  return Call("layer_norm", {x, w, b}, {{"axes", NormalizeAxes(x, axes)}, {"epsilon", epsilon}});
}

ValueRef OpBuilder::RmsNorm(ValueRef x, ValueRef w, const std::vector<int64_t>& axes, double epsilon) {
  return Call("rms_norm", {x, w}, {{"axes", NormalizeAxes(x, axes)}, {"epsilon", epsilon}});
}

ValueRef OpBuilder::BatchNorm(ValueRef x, ValueRef w, ValueRef b, ValueRef mean, ValueRef var, double epsilon) {
  return Call("batch_norm", {x, w, b, mean, var}, {{"epsilon", epsilon}});
}

ValueRef OpBuilder::Gather(ValueRef x, ValueRef idx, int64_t axis) {
  return Call("gather", {x, idx}, {{"axis", Dim(NormalizeAxis(x, axis))}});
}

ValueRef OpBuilder::TakeAlong(ValueRef x, ValueRef idx, int64_t axis) {
  return Call("take_along", {x, idx}, {{"axis", Dim(NormalizeAxis(x, axis))}});
}

ValueRef OpBuilder::Conv(ValueRef x, ValueRef w, const std::vector<int64_t>& stride,
                         const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation, int64_t groups) {
  return Call("conv", {x, w},
              {{"stride", ToDims(stride)},
               {"padding", ToDims(padding)},
               {"dilation", ToDims(dilation)},
               {"groups", Dim(groups)}});
}

std::vector<ValueRef> OpBuilder::MaxPool(ValueRef x, const std::vector<int64_t>& kernel,
                                         const std::vector<int64_t>& stride, const std::vector<int64_t>& padding) {
  return Call("max_pool", {x}, {{"kernel", ToDims(kernel)}, {"stride", ToDims(stride)}, {"padding", ToDims(padding)}},
              2);
}

ValueRef OpBuilder::AvgPool(ValueRef x, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                            const std::vector<int64_t>& padding) {
  return Call("avg_pool", {x}, {{"kernel", ToDims(kernel)}, {"stride", ToDims(stride)}, {"padding", ToDims(padding)}});
}

}  // namespace cinn_like::hlir
