// Ops that combine the elements along axes.
#include <algorithm>

#include "hlir/op_builder.h"
#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/ops/widen.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {
namespace {

using Refs = std::vector<ValueRef>;

using ir::Expr;

// The operand's indices: `r` along `axes`, the result's elsewhere.
std::vector<Expr> MergeIndices(const TeCall& call, const std::vector<int64_t>& axes, ir::Indices i, ir::Indices r) {
  const bool keepdims = call.attrs.Bool("keepdims");
  std::vector<Expr> at;
  size_t next = 0;
  for (int64_t k = 0; k < call.operand_types[0].rank(); ++k) {
    const auto axis = std::find(axes.begin(), axes.end(), k);
    if (axis != axes.end()) {
      at.push_back(r[axis - axes.begin()]);
      next += keepdims;
    } else {
      at.push_back(i[next++]);
    }
  }
  return at;
}

Dims Extents(const TeCall& call, const std::vector<int64_t>& axes) {
  Dims extents;
  for (int64_t a : axes) extents.push_back(call.operand_types[0].dims[a]);
  return extents;
}

OpDef Reduction(std::string name, std::string doc, DTypeClass dtypes) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.operands = {"x"};
  def.attrs = {{"axes", AttrType::kInts, std::nullopt}, {"keepdims", AttrType::kBool, false}};
  def.infer = [dtypes](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    const std::vector<int64_t> axes = call.attrs.Ints("axes");
    RETURN_IF_ERROR(CheckDType("x", x.dtype, dtypes));
    RETURN_IF_ERROR(CheckAxes("axes", axes, x.rank()));
    return std::vector<TensorType>{{x.dtype, DropAxes(x.dims, axes, call.attrs.Bool("keepdims"))}};
  };
  const std::string t = dtypes == DTypeClass::kBool ? "bool" : "f32";
  def.samples = {"(" + t + "[n,37]) {axes=[1]}", "(" + t + "[3,n,5]) {axes=[0,2], keepdims=true}",
                 "(" + t + "[4,n]) {axes=[0,1]}"};
  return def;
}

OpDef Reduction(std::string name, std::string doc, DTypeClass dtypes, ir::Combiner combiner) {
  OpDef def = Reduction(std::move(name), std::move(doc), dtypes);
  def.lower = [combiner](TeCall& call) -> std::vector<ir::Buffer> {
    const std::vector<int64_t> axes = call.attrs.Ints("axes");
    return {call.Reduce(combiner, Extents(call, axes),
                        [&](ir::Indices i, ir::Indices r) { return call.At(0, MergeIndices(call, axes, i, r)); })};
  };
  return def;
}

OpDef ReduceMean() {
  OpDef def = Reduction("reduce_mean", "mean along axes", DTypeClass::kFloat);
  def.decompose = [](OpBuilder* b, const Refs& x, const Attrs& attrs) -> Refs {
    Dim count = 1;
    for (int64_t a : attrs.Ints("axes")) count = count * b->DimsOf(x[0])[a];
    const DType dtype = b->DTypeOf(x[0]);
    const ValueRef sum = b->ReduceSum(Widen(b, x[0]), attrs.Ints("axes"), attrs.Bool("keepdims"));
    return {b->Cast(b->Div(sum, b->Full(count, b->DTypeOf(sum))), dtype)};
  };
  return def;
}

std::vector<ir::Buffer> LowerArg(TeCall& call, bool max) {
  const int64_t axis = call.attrs.Int("axis");
  const DType wide = WideOf(call.operand_types[0].dtype);
  const std::vector<ir::Buffer> pair = call.te.ReduceArg(
      call.name, max, wide, call.ToExprs(call.result_types[0].dims), call.ToExprs(Extents(call, {axis})),
      [&](ir::Indices i, ir::Indices r) { return Widened(call.c, call.At(0, MergeIndices(call, {axis}, i, r))); });
  return {pair[1]};
}

OpDef ArgReduction(std::string name, std::string doc) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.operands = {"x"};
  def.attrs = {{"axis", AttrType::kInt, std::nullopt}, {"keepdims", AttrType::kBool, false}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    const int64_t axis = call.attrs.Int("axis");
    RETURN_IF_ERROR(CheckDType("x", x.dtype, DTypeClass::kNumber));
    RETURN_IF_ERROR(CheckAxis("axis", axis, x.rank()));
    if (x.dims[axis] == Dim(0))
      return InvalidArgument("attribute 'axis': expected an axis with elements, got ", x.ToString());
    return std::vector<TensorType>{{DType::kI64, DropAxes(x.dims, {axis}, call.attrs.Bool("keepdims"))}};
  };
  def.lower = [max = def.name == "argmax"](TeCall& call) { return LowerArg(call, max); };
  def.samples = {"(f32[n,37]) {axis=1}", "(f32[5,n]) {axis=0, keepdims=true}"};
  return def;
}

}  // namespace

std::vector<OpDef> ReductionOps() {
  return {
      Reduction("reduce_sum", "sum along axes; 16-bit floats accumulate in f32", DTypeClass::kNumber,
                ir::Combiner::kSum),
      Reduction("reduce_max", "largest along axes; NaN wins", DTypeClass::kNumber, ir::Combiner::kMax),
      Reduction("reduce_min", "smallest along axes; NaN wins", DTypeClass::kNumber, ir::Combiner::kMin),
      Reduction("reduce_prod", "product along axes; 16-bit floats accumulate in f32", DTypeClass::kNumber,
                ir::Combiner::kProd),
      Reduction("reduce_any", "whether any is true", DTypeClass::kBool, ir::Combiner::kAny),
      Reduction("reduce_all", "whether all are true", DTypeClass::kBool, ir::Combiner::kAll),
      ReduceMean(),
      ArgReduction("argmax", "index of the first largest along axis; NaN wins"),
      ArgReduction("argmin", "index of the first smallest along axis; NaN wins"),
  };
}

}  // namespace cinn_like::hlir
