// Ops that read where another tensor says.
#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {
namespace {

using ir::Expr;

// Operand 0 at `at`, whose entry of `axis` is clamped into range; 0 if that axis is empty.
Expr ReadClamped(const TeCall& call, std::vector<Expr> at, int64_t axis) {
  ir::Context& c = call.c;
  const Dim& size = call.operand_types[0].dims[axis];
  at[axis] = c.Max(c.Int(0), c.Min(Converted(c, DType::kI64, at[axis]), call.ToExpr(size - Dim(1))));
  const bool may_be_empty = RangeOf(size, call.symbols).lo < 1;
  return call.At(0, std::move(at), may_be_empty ? c.Lt(c.Int(0), call.ToExpr(size)) : nullptr);
}

OpDef Gather() {
  OpDef def;
  def.name = "gather";
  def.doc = "x at the indices idx of axis; an index out of range is clamped";
  def.operands = {"x", "idx"};
  def.attrs = {{"axis", AttrType::kInt, Dim(0)}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType &x = call.operands[0], &idx = call.operands[1];
    const int64_t axis = call.attrs.Int("axis");
    RETURN_IF_ERROR(CheckDType("idx", idx.dtype, DTypeClass::kInt));
    RETURN_IF_ERROR(CheckAxis("axis", axis, x.rank()));
    TensorType result{x.dtype, Dims(x.dims.begin(), x.dims.begin() + axis)};
    result.dims.insert(result.dims.end(), idx.dims.begin(), idx.dims.end());
    result.dims.insert(result.dims.end(), x.dims.begin() + axis + 1, x.dims.end());
    return std::vector<TensorType>{result};
  };
  def.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
    const int64_t axis = call.attrs.Int("axis"), idx_rank = call.operand_types[1].rank();
    return {call.Compute([&](ir::Indices i) {
      const auto inner = i.begin() + axis, outer = inner + idx_rank;
      std::vector<Expr> at(i.begin(), inner);
      at.push_back(call.At(1, {inner, outer}));
      at.insert(at.end(), outer, i.end());
      return ReadClamped(call, std::move(at), axis);
    })};
  };
  def.samples = {"(f32[11,5], i64[n,3])", "(f32[2,7,n], i32[4]) {axis=1}", "(f32[7], i64[])"};
  return def;
}

OpDef TakeAlong() {
  OpDef def;
  def.name = "take_along";
  def.doc = "element [.., idx[..], ..] of x: idx replaces the index of axis; clamped";
  def.operands = {"x", "idx"};
  def.attrs = {{"axis", AttrType::kInt, std::nullopt}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType &x = call.operands[0], &idx = call.operands[1];
    const int64_t axis = call.attrs.Int("axis");
    RETURN_IF_ERROR(CheckDType("idx", idx.dtype, DTypeClass::kInt));
    RETURN_IF_ERROR(CheckAxis("axis", axis, x.rank()));
    if (idx.rank() != x.rank())
      return InvalidArgument("operand 'idx': expected rank ", x.rank(), ", got ", idx.ToString());
    for (int i = 0; i < x.rank(); ++i) {
      if (i != axis && RangeOf(x.dims[i] - idx.dims[i], call.symbols).hi < 0) {
        return InvalidArgument("operand 'idx': expected at most ", x.dims[i].ToString(), " along axis ", i, ", got ",
                               idx.dims[i].ToString());
      }
    }
    return std::vector<TensorType>{{x.dtype, idx.dims}};
  };
  def.requires_at_call = [](const OpCall& call) {
    std::vector<OpDef::Requirement> r;
    const Dims &x = call.operands[0].dims, &idx = call.operands[1].dims;
    for (size_t i = 0; i < x.size(); ++i) {
      if (static_cast<int64_t>(i) != call.attrs.Int("axis"))
        r.push_back({Cat("dimension ", i, " of operand 'idx'"), idx[i], 0, x[i]});
    }
    return r;
  };
  def.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
    return {call.Compute([&](ir::Indices i) {
      std::vector<Expr> at = i;
      const int64_t axis = call.attrs.Int("axis");
      at[axis] = call.At(1, i);
      return ReadClamped(call, std::move(at), axis);
    })};
  };
  def.samples = {"(f32[n,9], i64[n,1]) {axis=1}", "(f32[5,3], i32[4,2]) {axis=0}"};
  return def;
}

OpDef CheckIndex() {
  OpDef def;
  def.name = "check_index";
  def.doc = "idx; the call fails unless all of it is in 0..size, or in -size..size with from_end";
  def.operands = {"idx"};
  def.attrs = {{"size", AttrType::kDim, std::nullopt}, {"from_end", AttrType::kBool, false}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    RETURN_IF_ERROR(CheckDType("idx", call.operands[0].dtype, DTypeClass::kInt));
    return std::vector<TensorType>{call.operands[0]};
  };
  def.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
    ir::Context& c = call.c;
    const Dim size = call.attrs.AsDim("size");
    const std::vector<TensorType> number = {{DType::kI64, {}}};
    const TeCall numbers{call.te, c,          call.name,    call.operands, call.operand_types,
                         number,  call.attrs, call.symbols, call.symbol,   call.checks};
    const auto wide = [&](ir::Indices at) { return Converted(c, DType::kI64, call.At(0, at)); };
    const auto reduce = [&](ir::Combiner combiner) {
      const Dims& dims = call.operand_types[0].dims;
      return dims.empty() ? numbers.Compute(wide)
                          : numbers.Reduce(combiner, dims, [&](ir::Indices, ir::Indices r) { return wide(r); });
    };
    const ir::Buffer low = reduce(ir::Combiner::kMin), high = reduce(ir::Combiner::kMax);
    const ir::Buffer values = call.Compute([&](ir::Indices i) { return call.At(0, i); });
    call.checks.push_back({"check_index: index out of range", values, low, high,
                           call.ToExpr(call.attrs.Bool("from_end") ? Dim(0) - size : Dim(0)), call.ToExpr(size)});
    return {values};
  };
  def.samples = {"(i64[n,3]) {size=1000000, from_end=true}", "(i32[]) {size=1000000, from_end=true}"};
  return def;
}

}  // namespace

std::vector<OpDef> IndexingOps() { return {Gather(), TakeAlong(), CheckIndex()}; }

}  // namespace cinn_like::hlir
