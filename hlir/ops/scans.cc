// Ops that combine the elements up to each place along an axis.
#include <limits>

#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/ops/widen.h"
#include "hlir/te_call.h"
#include "ir/join.h"

namespace cinn_like::hlir {
namespace {

using ir::Expr;
using ir::ExprOp;

OpDef Scan(std::string name, std::string doc) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.operands = {"x"};
  def.attrs = {{"axis", AttrType::kInt, std::nullopt}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    RETURN_IF_ERROR(CheckDType("x", x.dtype, DTypeClass::kNumber));
    RETURN_IF_ERROR(CheckAxis("axis", call.attrs.Int("axis"), x.rank()));
    return std::vector<TensorType>{x};
  };
  def.framework_kernel = FrameworkKernel::kScan;
  def.samples = {"(f32[n,37]) {axis=1}", "(f32[3,n,5]) {axis=1}", "(f32[n,4]) {axis=0}", "(f32[n]) {axis=0}"};
  return def;
}

// f32 runs in f64: rounding errors add up along the axis.
DType RunningType(DType t) { return t == DType::kF32 ? DType::kF64 : WideOf(t); }

OpDef RunningFold(std::string name, std::string doc, ir::Combiner combiner) {
  OpDef def = Scan(std::move(name), std::move(doc));
  def.lower = [combiner](TeCall& call) {
    const DType wide = RunningType(call.result_types[0].dtype);
    return call.te.Scan(call.name, {call.result_types[0].dtype}, {wide}, call.ToExprs(call.result_types[0].dims),
                        static_cast<size_t>(call.attrs.Int("axis")), {ir::Identity(call.c, combiner, wide)},
                        [&](ir::Indices i, ir::Indices running) -> std::vector<Expr> {
                          return {ir::Combine(call.c, combiner, running[0], call.c.Cast(wide, call.At(0, i)))};
                        });
  };
  return def;
}

// Pairs of a value and its place, of equals the last: places run as their negatives, the lower of which comes first.
OpDef RunningBest(std::string name, std::string doc, bool max) {
  OpDef def = Scan(std::move(name), std::move(doc));
  def.infer = [infer = def.infer](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    ASSIGN_OR_RETURN(std::vector<TensorType> r, infer(call));
    r.push_back({DType::kI64, r[0].dims});
    return r;
  };
  def.lower = [max](TeCall& call) -> std::vector<ir::Buffer> {
    ir::Context& c = call.c;
    const auto axis = static_cast<size_t>(call.attrs.Int("axis"));
    const DType t = call.result_types[0].dtype, wide = WideOf(t);
    const std::vector<Expr> shape = call.ToExprs(call.result_types[0].dims);
    const std::vector<ir::Buffer> pair = call.te.Scan(
        call.name, {t, DType::kI64}, {wide, DType::kI64}, shape, axis,
        {ir::Identity(c, max ? ir::Combiner::kMax : ir::Combiner::kMin, wide),
         c.Int(std::numeric_limits<int64_t>::max())},
        [&](ir::Indices i, ir::Indices best) -> std::vector<Expr> {
          const Expr x = Widened(c, call.At(0, i)), place = c.Sub(c.Int(0), i[axis]);
          const Expr take = ir::ComesFirst(c, max, x, place, best[0], best[1]);
          return {c.Make(ExprOp::kSelect, {take, x, best[0]}), c.Make(ExprOp::kSelect, {take, place, best[1]})};
        });
    return {pair[0], call.te.Compute(call.name, DType::kI64, shape,
                                     [&](ir::Indices i) { return c.Sub(c.Int(0), call.te.At(pair[1], i)); })};
  };
  return def;
}

}  // namespace

std::vector<OpDef> ScanOps() {
  return {
      RunningFold("cumsum", "sums of the elements up to each along axis; f32 accumulates in f64, 16-bit floats in f32",
                  ir::Combiner::kSum),
      RunningFold("cumprod", "products of the elements up to each along axis; accumulates as cumsum does",
                  ir::Combiner::kProd),
      RunningBest("cummax", "largest of the elements up to each along axis, and the index of the last such; NaN wins",
                  true),
      RunningBest("cummin", "smallest of the elements up to each along axis, and the index of the last such; NaN wins",
                  false),
  };
}

}  // namespace cinn_like::hlir
