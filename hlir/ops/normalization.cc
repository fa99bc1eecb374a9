// Softmax and the norms: composites, computed in at least f32 whatever the operands.
#include <algorithm>

#include "hlir/op_builder.h"
#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/ops/widen.h"

namespace cinn_like::hlir {
namespace {

using Refs = std::vector<ValueRef>;

StatusOr<std::vector<TensorType>> InferAlongAxis(const OpCall& call) {
  RETURN_IF_ERROR(CheckDType("x", call.operands[0].dtype, DTypeClass::kFloat));
  RETURN_IF_ERROR(CheckAxis("axis", call.attrs.Int("axis"), call.operands[0].rank()));
  return call.operands;
}

// x - max(x): exp can't overflow.
ValueRef SubtractMax(OpBuilder* b, ValueRef x, int64_t axis) { return b->Sub(x, b->ReduceMax(x, {axis}, true)); }

OpDef Softmax() {
  OpDef def;
  def.name = "softmax";
  def.doc = "exp(x) / sum(exp(x)) along axis, without overflow";
  def.operands = {"x"};
  def.attrs = {{"axis", AttrType::kInt, std::nullopt}};
  def.infer = InferAlongAxis;
  def.decompose = [](OpBuilder* b, const Refs& x, const Attrs& attrs) -> Refs {
    const int64_t axis = attrs.Int("axis");
    const ValueRef e = b->Exp(SubtractMax(b, Widen(b, x[0]), axis));
    return {b->Cast(b->Div(e, b->ReduceSum(e, {axis}, true)), b->DTypeOf(x[0]))};
  };
  def.samples = {"(f32[n,37]) {axis=1}", "(f32[3,n,4]) {axis=1}", "(f32[5,1]) {axis=1}"};
  return def;
}

OpDef LogSoftmax() {
  OpDef def = Softmax();
  def.name = "log_softmax";
  def.doc = "log(softmax(x)) along axis, without overflow";
  def.decompose = [](OpBuilder* b, const Refs& x, const Attrs& attrs) -> Refs {
    const int64_t axis = attrs.Int("axis");
    const ValueRef shifted = SubtractMax(b, Widen(b, x[0]), axis);
    const ValueRef sum = b->ReduceSum(b->Exp(shifted), {axis}, true);
    return {b->Cast(b->Sub(shifted, b->Log(sum)), b->DTypeOf(x[0]))};
  };
  return def;
}

// Scale and shift have the shape of the trailing axes, and any float dtype.
StatusOr<std::vector<TensorType>> InferTrailingNorm(const OpCall& call) {
  const TensorType& x = call.operands[0];
  RETURN_IF_ERROR(CheckDType("x", x.dtype, DTypeClass::kFloat));
  const std::vector<int64_t> axes = call.attrs.Ints("axes");
  RETURN_IF_ERROR(CheckAxes("axes", axes, x.rank()));
  const int64_t first = x.rank() - static_cast<int64_t>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != first + static_cast<int64_t>(i)) {
      return InvalidArgument("attribute 'axes': expected the trailing axes in order, got ",
                             ToString(call.attrs.AsDims("axes")));
    }
  }
  const Dims trailing(x.dims.begin() + first, x.dims.end());
  for (size_t i = 1; i < call.operands.size(); ++i) {
    const TensorType& w = call.operands[i];
    RETURN_IF_ERROR(CheckDType(i == 1 ? "w" : "b", w.dtype, DTypeClass::kFloat));
    if (!ProvablyEqual(w.dims, trailing, call.symbols)) {
      return InvalidArgument("operand '", i == 1 ? "w" : "b", "': expected shape ", ToString(trailing), ", got ",
                             ToString(w.dims));
    }
  }
  return std::vector<TensorType>{x};
}

ValueRef InverseDeviation(OpBuilder* b, ValueRef variance, double epsilon) {
  return b->Rsqrt(b->Add(variance, b->Full(epsilon, b->DTypeOf(variance))));
}

OpDef LayerNorm() {
  OpDef def;
  def.name = "layer_norm";
  def.doc = "(x - mean) / sqrt(variance + epsilon) * w + b over the trailing axes";
  def.operands = {"x", "w", "b"};
  def.attrs = {{"axes", AttrType::kInts, std::nullopt}, {"epsilon", AttrType::kFloat, 1e-5}};
  def.infer = InferTrailingNorm;
  def.decompose = [](OpBuilder* b, const Refs& in, const Attrs& attrs) -> Refs {
    const std::vector<int64_t> axes = attrs.Ints("axes");
    const ValueRef x = Widen(b, in[0]);
    const DType wide = b->DTypeOf(x);
    // The variance of the differences, in a second pass: no cancellation.
    const ValueRef centered = b->Sub(x, b->ReduceMean(x, axes, true));
    const ValueRef variance = b->ReduceMean(b->Mul(centered, centered), axes, true);
    const ValueRef normal = b->Mul(centered, InverseDeviation(b, variance, attrs.Float("epsilon")));
    const ValueRef scaled = b->Mul(normal, b->Cast(in[1], wide));
    return {b->Cast(b->Add(scaled, b->Cast(in[2], wide)), b->DTypeOf(in[0]))};
  };
  def.samples = {"(f32[n,37], f32[37], f32[37]) {axes=[1]}",
                 "(f32[2,n,4], f32[n,4], f32[n,4]) {axes=[1,2], epsilon=1e-3}"};
  return def;
}

OpDef RmsNorm() {
  OpDef def = LayerNorm();
  def.name = "rms_norm";
  def.doc = "x / sqrt(mean(x * x) + epsilon) * w over the trailing axes";
  def.operands = {"x", "w"};
  def.decompose = [](OpBuilder* b, const Refs& in, const Attrs& attrs) -> Refs {
    const ValueRef x = Widen(b, in[0]);
    const ValueRef mean = b->ReduceMean(b->Mul(x, x), attrs.Ints("axes"), true);
    const ValueRef normal = b->Mul(x, InverseDeviation(b, mean, attrs.Float("epsilon")));
    return {b->Cast(b->Mul(normal, b->Cast(in[1], b->DTypeOf(x))), b->DTypeOf(in[0]))};
  };
  def.samples = {"(f32[n,37], f32[37]) {axes=[1]}", "(f32[2,n,4], f32[n,4]) {axes=[1,2]}"};
  return def;
}

OpDef BatchNorm() {
  OpDef def;
  def.name = "batch_norm";
  def.doc = "(x - mean) / sqrt(var + epsilon) * w + b with statistics per index of axis";
  def.operands = {"x", "w", "b", "mean", "var"};
  def.attrs = {{"epsilon", AttrType::kFloat, 1e-5}, {"axis", AttrType::kInt, Dim(1)}};
  def.infer = [names = def.operands](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    const int64_t axis = call.attrs.Int("axis");
    RETURN_IF_ERROR(CheckDType("x", x.dtype, DTypeClass::kFloat));
    RETURN_IF_ERROR(CheckAxis("axis", axis, x.rank()));
    for (size_t i = 1; i < call.operands.size(); ++i) {
      RETURN_IF_ERROR(CheckDType(names[i], call.operands[i].dtype, DTypeClass::kFloat));
      if (!ProvablyEqual(call.operands[i].dims, {x.dims[axis]}, call.symbols)) {
        return InvalidArgument("operand '", names[i], "': expected shape ", ToString(Dims{x.dims[axis]}), ", got ",
                               ToString(call.operands[i].dims));
      }
    }
    return std::vector<TensorType>{x};
  };
  def.decompose = [](OpBuilder* b, const Refs& in, const Attrs& attrs) -> Refs {
    const ValueRef x = Widen(b, in[0]);
    const int64_t axis = attrs.Int("axis");
    Dims along(b->TypeOf(in[0]).rank(), Dim(1));
    along[axis] = b->DimsOf(in[0])[axis];
    const DType wide = b->DTypeOf(x);
    auto per_channel = [&](ValueRef v) { return b->Reshape(v, along); };
    // One scale and one shift per channel: with static statistics they are computed once.
    const ValueRef deviation = InverseDeviation(b, b->Cast(in[4], wide), attrs.Float("epsilon"));
    const ValueRef scale = b->Mul(b->Cast(in[1], wide), deviation);
    const ValueRef moved = b->Mul(b->Cast(in[3], wide), scale);
    const ValueRef shift = b->Sub(b->Cast(in[2], wide), moved);
    const ValueRef scaled = b->Mul(x, per_channel(scale));
    return {b->Cast(b->Add(scaled, per_channel(shift)), b->DTypeOf(in[0]))};
  };
  def.samples = {"(f32[n,3,4,5], f32[3], f32[3], f32[3], f32[3])",
                 "(f32[n,3], f32[3], f32[3], f32[3], f32[3]) {epsilon=1e-3}"};
  return def;
}

}  // namespace

std::vector<OpDef> NormalizationOps() { return {Softmax(), LogSoftmax(), LayerNorm(), RmsNorm(), BatchNorm()}; }

}  // namespace cinn_like::hlir
