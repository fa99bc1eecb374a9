#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {

namespace {

// What products of `t` are summed in. Of short integers, which wrap, the low bits are the same.
DType SumOf(DType t) { return IsHalf(t) ? DType::kF32 : IsInt(t) && BytesOf(t) < 4 ? DType::kI32 : t; }

// Operand `k` at the (broadcast) batch indices in front of the result's and the two given.
ir::Expr ElementOf(const TeCall& call, size_t k, ir::Indices i, ir::Expr row, ir::Expr column) {
  const TensorType& type = call.operand_types[k];
  const size_t skipped = i.size() - type.dims.size();
  std::vector<ir::Expr> at;
  for (int a = 0; a + 2 < type.rank(); ++a) at.push_back(type.dims[a] == Dim(1) ? call.c.Int(0) : i[skipped + a]);
  at.push_back(row);
  at.push_back(column);
  return call.c.Cast(SumOf(type.dtype), call.At(k, std::move(at)));
}

std::vector<ir::Buffer> Lower(TeCall& call) {
  const TensorType& a = call.operand_types[0];
  const auto element = [&](ir::Indices i, ir::Indices r) {
    const size_t n = i.size();
    return call.c.Make(ir::ExprOp::kMul,
                       {ElementOf(call, 0, i, i[n - 2], r[0]), ElementOf(call, 1, i, r[0], i[n - 1])});
  };
  return {call.Reduce(ir::Combiner::kSum, {a.dims.back()}, element, SumOf(a.dtype))};
}

}  // namespace

std::vector<OpDef> MatmulOps() {
  OpDef def;
  def.name = "matmul";
  def.framework_kernel = FrameworkKernel::kProduct;
  def.doc =
      "matrix product over the last two axes; leading axes broadcast; 16-bit floats accumulate in f32, 8- and 16-bit "
      "integers in "
      "i32, and wide=true leaves the result so";
  def.operands = {"a", "b"};
  def.attrs = {{"wide", AttrType::kBool, false}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType &a = call.operands[0], &b = call.operands[1];
    RETURN_IF_ERROR(CheckSameDType(call));
    RETURN_IF_ERROR(CheckDType("a", a.dtype, DTypeClass::kNumber));
    for (const TensorType* t : {&a, &b}) {
      if (t->rank() < 2) {
        return InvalidArgument("operand '", t == &a ? "a" : "b", "': expected rank of at least 2, got ", t->ToString());
      }
    }
    const Dim &k = a.dims[a.rank() - 1], &kb = b.dims[b.rank() - 2];
    if (!ProvablyEqual(k, kb, call.symbols)) {
      return InvalidArgument("operand 'b': expected ", k.ToString(), " rows as 'a' has columns, got ", kb.ToString(),
                             " (", a.ToString(), " x ", b.ToString(), ")");
    }
    ASSIGN_OR_RETURN(Dims dims, BroadcastShapes(Dims(a.dims.begin(), a.dims.end() - 2),
                                                Dims(b.dims.begin(), b.dims.end() - 2), call.symbols));
    dims.push_back(a.dims[a.rank() - 2]);
    dims.push_back(b.dims[b.rank() - 1]);
    return std::vector<TensorType>{{call.attrs.Bool("wide") ? SumOf(a.dtype) : a.dtype, std::move(dims)}};
  };
  def.lower = Lower;
  def.samples = {"(f32[n,8], f32[8,5])",       "(f32[2,3,n,4], f32[2,3,4,n])",   "(f32[n,4], f32[3,4,2])",
                 "(f32[2,1,3,4], f32[5,4,n])", "(i8[n,9], i8[9,5]) {wide=true}", "(u8[3,n], u8[n,5])"};
  return {def};
}

}  // namespace cinn_like::hlir
