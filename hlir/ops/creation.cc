// Ops without operands.
#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {

std::vector<OpDef> CreationOps() {
  OpDef full;
  full.name = "full";
  full.doc = "a tensor of one value, which may be an expression of symbols";
  full.attrs = {{"value", AttrType::kNumber, std::nullopt},
                {"dtype", AttrType::kDType, std::nullopt},
                {"shape", AttrType::kDims, Dims{}}};
  full.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    return std::vector<TensorType>{{call.attrs.AsDType("dtype"), call.attrs.AsDims("shape")}};
  };
  full.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
    return {call.Compute(
        [&](ir::Indices) { return ToConst(call, call.attrs.Number("value"), call.result_types[0].dtype); })};
  };
  full.samples = {"() {value=0.5, dtype=f32, shape=[3,7]}", "() {value=-3, dtype=i64}",
                  "() {value=1, dtype=bool, shape=[2]}"};

  OpDef iota;
  iota.name = "iota";
  iota.doc = "the index along axis";
  iota.attrs = {{"dtype", AttrType::kDType, DType::kI64},
                {"shape", AttrType::kDims, std::nullopt},
                {"axis", AttrType::kInt, Dim(0)}};
  iota.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    TensorType result{call.attrs.AsDType("dtype"), call.attrs.AsDims("shape")};
    RETURN_IF_ERROR(CheckAxis("axis", call.attrs.Int("axis"), result.rank()));
    RETURN_IF_ERROR(CheckDType("result", result.dtype, DTypeClass::kNumber));
    return std::vector<TensorType>{result};
  };
  iota.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
    return {call.Compute([&](ir::Indices i) { return i[call.attrs.Int("axis")]; })};
  };
  iota.samples = {"() {shape=[3,7], axis=1}", "() {dtype=f32, shape=[5]}"};
  return {full, iota};
}

}  // namespace cinn_like::hlir
