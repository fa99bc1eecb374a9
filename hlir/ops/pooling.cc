// Pooling of NC... over one to three spatial dimensions, and its gradients.
#include <limits>

#include "hlir/ops/families.h"
#include "hlir/ops/widen.h"
#include "hlir/ops/window.h"
#include "ir/join.h"

namespace cinn_like::hlir {
namespace {

Status CheckPadding(const Window& w) {
  for (int i = 0; i < w.rank(); ++i) {
    if (2 * w.padding[i] > w.kernel[i]) {
      return InvalidArgument("attribute 'padding': expected at most half of the kernel ", w.kernel[i], ", got ",
                             w.padding[i]);
    }
  }
  return absl::OkStatus();
}

// The pooled shape of `x`.
StatusOr<Dims> InferPool(const Dims& x, const Attrs& attrs, bool ceil_mode, const SymbolTable& symbols) {
  ASSIGN_OR_RETURN(const Window window, WindowOf(attrs, x.size()));
  RETURN_IF_ERROR(CheckPadding(window));
  Dims result = {x[0], x[1]};
  for (int i = 0; i < window.rank(); ++i) {
    ASSIGN_OR_RETURN(Dim size, CountPositions(window, i, x[2 + i], ceil_mode, symbols));
    result.push_back(std::move(size));
  }
  return result;
}

OpDef Pool(std::string name, std::string doc, std::vector<AttrSpec> attrs, bool with_indices) {
  OpDef def;
  def.name = std::move(name);
  def.framework_kernel = FrameworkKernel::kPooling;
  def.doc = std::move(doc);
  def.operands = {"x"};
  def.attrs = std::move(attrs);
  def.infer = [with_indices](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    RETURN_IF_ERROR(CheckImageRank("x", x));
    RETURN_IF_ERROR(CheckDType("x", x.dtype, DTypeClass::kFloat));
    ASSIGN_OR_RETURN(const Dims dims, InferPool(x.dims, call.attrs, call.attrs.Bool("ceil_mode"), call.symbols));
    std::vector<TensorType> results = {{x.dtype, dims}};
    if (with_indices) results.push_back({DType::kI64, dims});
    return results;
  };
  return def;
}

// `input_shape` is the pooled op's operand; its positions must match dy in floor or ceil mode.
OpDef PoolGrad(std::string name, std::string doc, std::vector<std::string> operands, std::vector<AttrSpec> attrs) {
  OpDef def;
  def.name = std::move(name);
  def.framework_kernel = FrameworkKernel::kPooling;
  def.doc = std::move(doc);
  def.operands = std::move(operands);
  def.attrs = std::move(attrs);
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& dy = call.operands[0];
    RETURN_IF_ERROR(CheckImageRank("dy", dy));
    RETURN_IF_ERROR(CheckDType("dy", dy.dtype, DTypeClass::kFloat));
    if (call.operands.size() == 2) {
      RETURN_IF_ERROR(CheckDType("indices", call.operands[1].dtype, DTypeClass::kInt));
      if (!ProvablyEqual(call.operands[1].dims, dy.dims, call.symbols)) {
        return InvalidArgument("operand 'indices': expected shape ", ToString(dy.dims), ", got ",
                               ToString(call.operands[1].dims));
      }
    }
    const Dims& shape = call.attrs.AsDims("input_shape");
    if (shape.size() != dy.dims.size())
      return InvalidArgument("attribute 'input_shape': expected ", dy.rank(), " values, got ", shape.size());
    ASSIGN_OR_RETURN(const Dims pooled, InferPool(shape, call.attrs, false, call.symbols));
    const StatusOr<Dims> ceiled = InferPool(shape, call.attrs, true, call.symbols);
    if (!ProvablyEqual(pooled, dy.dims, call.symbols) &&
        !(ceiled.ok() && ProvablyEqual(*ceiled, dy.dims, call.symbols))) {
      return InvalidArgument("operand 'dy': expected shape ", ToString(pooled), ", got ", ToString(dy.dims));
    }
    return std::vector<TensorType>{{dy.dtype, shape}};
  };
  return def;
}

using ir::Expr;
using ir::ExprOp;

Dims Taps(const Window& window) { return {window.kernel.begin(), window.kernel.end()}; }

// The number of the place `at` in an image of the spatial sizes `sizes`, rows first.
Expr FlatPlace(const TeCall& call, ir::Indices at, const Dim* sizes) {
  Expr r = at[0];
  for (size_t i = 1; i < at.size(); ++i) r = call.c.Add(call.c.Mul(r, call.ToExpr(sizes[i])), at[i]);
  return r;
}

// (value, flat index) by an order-independent rule: NaN beats numbers, then the larger value, then the lower index.
std::vector<ir::Buffer> LowerMaxPool(TeCall& call) {
  ir::Context& c = call.c;
  const Dims& x = call.operand_types[0].dims;
  const Window window = CheckedWindowOf(call.attrs, x.size());
  const DType wide = WideOf(call.result_types[0].dtype);
  const Expr lowest = ir::Identity(c, ir::Combiner::kMax, wide), nowhere = c.Int(std::numeric_limits<int64_t>::max());
  const std::vector<ir::Buffer> best = call.te.ReduceTuple(
      call.name, {wide, DType::kI64}, call.ToExprs(call.result_types[0].dims), call.ToExprs(Taps(window)),
      {lowest, nowhere}, [&](ir::Indices i, ir::Indices r, ir::Indices running) -> std::vector<Expr> {
        const Place place = InputPlace(call, window, &x[2], &i[2], &r[0]);
        const Expr value =
            c.Make(ExprOp::kSelect, {place.mask, Widened(c, call.At(0, place.Behind(i[0], i[1]), place.mask)), lowest});
        const Expr flat = c.Make(ExprOp::kSelect, {place.mask, FlatPlace(call, place.at, &x[2]), nowhere});
        const Expr first = ir::ComesFirst(c, true, value, flat, running[0], running[1]);
        return {c.Make(ExprOp::kSelect, {first, value, running[0]}),
                c.Make(ExprOp::kSelect, {first, flat, running[1]})};
      });
  return {call.Stored(0, best[0]), best[1]};
}

// dx[n,c,p...] = sum of dy over the window positions whose index is p...
std::vector<ir::Buffer> LowerMaxPoolGrad(TeCall& call) {
  ir::Context& c = call.c;
  const Dims &dy = call.operand_types[0].dims, &x = call.result_types[0].dims;
  const Window window = CheckedWindowOf(call.attrs, x.size());
  return {call.Reduce(ir::Combiner::kSum, Taps(window), [&](ir::Indices i, ir::Indices r) {
    const Place place = PositionPlace(call, window, &dy[2], &i[2], &r[0]);
    const std::vector<Expr> at = place.Behind(i[0], i[1]);
    const Expr index = Converted(c, DType::kI64, call.At(1, at, place.mask));
    const Expr here = c.Eq(index, FlatPlace(call, {i.begin() + 2, i.end()}, &x[2]));
    return call.At(0, at, c.And(place.mask, here));
  })};
}

// How many elements the mean at window position `position` divides by. The last windows of ceil mode may reach over the
// high padding, which counts never.
Expr CountOf(const TeCall& call, const Window& window, const Dim* input, const Expr* position) {
  ir::Context& c = call.c;
  const bool include_pad = call.attrs.Bool("count_include_pad");
  Expr count = c.Int(1);
  for (int i = 0; i < window.rank(); ++i) {
    const Expr first = c.Sub(c.Mul(position[i], c.Int(window.stride[i])), c.Int(window.padding[i]));
    const Expr last = c.Add(first, c.Int(window.kernel[i]));
    const Expr high = call.ToExpr(input[i] + Dim(include_pad ? window.padding[i] : 0));
    count = c.Mul(count, c.Sub(c.Min(last, high), include_pad ? first : c.Max(first, c.Int(0))));
  }
  return count;
}

std::vector<ir::Buffer> LowerAvgPool(TeCall& call) {
  ir::Context& c = call.c;
  const Dims& x = call.operand_types[0].dims;
  const Window window = CheckedWindowOf(call.attrs, x.size());
  const DType wide = WideOf(call.result_types[0].dtype);
  const ir::Buffer sum = call.te.Reduce(call.name, ir::Combiner::kSum, wide, call.ToExprs(call.result_types[0].dims),
                                        call.ToExprs(Taps(window)), [&](ir::Indices i, ir::Indices r) {
                                          const Place place = InputPlace(call, window, &x[2], &i[2], &r[0]);
                                          return Widened(c, call.At(0, place.Behind(i[0], i[1]), place.mask));
                                        });
  return {call.Compute([&](ir::Indices i) {
    return c.Make(ExprOp::kDiv, {call.te.At(sum, i), c.Cast(wide, CountOf(call, window, &x[2], &i[2]))});
  })};
}

std::vector<ir::Buffer> LowerAvgPoolGrad(TeCall& call) {
  ir::Context& c = call.c;
  const Dims &dy = call.operand_types[0].dims, &x = call.result_types[0].dims;
  const Window window = CheckedWindowOf(call.attrs, x.size());
  const DType wide = WideOf(call.result_types[0].dtype);
  return {call.Reduce(ir::Combiner::kSum, Taps(window), [&](ir::Indices i, ir::Indices r) {
    const Place place = PositionPlace(call, window, &dy[2], &i[2], &r[0]);
    const Expr share = Widened(c, call.At(0, place.Behind(i[0], i[1]), place.mask));
    const Expr count = CountOf(call, window, &x[2], place.at.data());
    return c.Select(place.mask, c.Make(ExprOp::kDiv, {share, c.Cast(wide, count)}), c.Const(0, wide));
  })};
}

}  // namespace

std::vector<OpDef> PoolingOps() {
  const AttrSpec kernel{"kernel", AttrType::kInts, std::nullopt}, stride{"stride", AttrType::kInts, std::nullopt},
      padding{"padding", AttrType::kInts, Dims{}}, dilation{"dilation", AttrType::kInts, Dims{}},
      ceil_mode{"ceil_mode", AttrType::kBool, false}, include_pad{"count_include_pad", AttrType::kBool, true},
      input_shape{"input_shape", AttrType::kDims, std::nullopt};

  OpDef max = Pool("max_pool", "largest of each window (NaN wins) and its flat index in the image",
                   {kernel, stride, padding, dilation, ceil_mode}, true);
  max.lower = LowerMaxPool;
  max.samples = {"(f32[n,3,8,9]) {kernel=[2,2], stride=[2,2]}",
                 "(f32[n,2,9,8]) {kernel=[3,2], stride=[2,1], padding=[1,1], dilation=[1,2]}",
                 "(f32[n,2,9,8]) {kernel=[2,3], stride=[2,2], ceil_mode=true}",
                 "(f32[n,2,4,5,6]) {kernel=[2,3,2], stride=[2,1,2], padding=[0,1,0]}"};
  OpDef max_grad = PoolGrad("max_pool_grad", "gradient of max_pool in x", {"dy", "indices"},
                            {input_shape, kernel, stride, padding, dilation});
  max_grad.framework_kernel = FrameworkKernel::kScatter;
  max_grad.lower = LowerMaxPoolGrad;
  max_grad.samples = {"(f32[n,3,4,4], i64[n,3,4,4]) {input_shape=[n,3,8,9], kernel=[2,2], stride=[2,2]}",
                      "(f32[n,2,5,8], i64[n,2,5,8]) {input_shape=[n,2,9,8], kernel=[3,2], stride=[2,1], padding=[1,1], "
                      "dilation=[1,2]}",
                      "(f32[n,2,2,5,3], i64[n,2,2,5,3]) {input_shape=[n,2,4,5,6], kernel=[2,3,2], stride=[2,1,2], "
                      "padding=[0,1,0]}"};
  OpDef avg = Pool("avg_pool", "mean of each window", {kernel, stride, padding, include_pad, ceil_mode}, false);
  avg.lower = LowerAvgPool;
  avg.samples = {"(f32[n,3,8,9]) {kernel=[2,2], stride=[2,2]}",
                 "(f32[n,2,9,8]) {kernel=[3,2], stride=[2,1], padding=[1,1]}",
                 "(f32[n,2,9,8]) {kernel=[3,2], stride=[2,1], padding=[1,1], count_include_pad=false}",
                 "(f32[n,2,9,8]) {kernel=[2,3], stride=[2,2], ceil_mode=true}",
                 "(f32[n,2,9]) {kernel=[3], stride=[2], padding=[1]}",
                 "(f32[n,2,4,5,6]) {kernel=[2,3,2], stride=[2,1,2], padding=[0,1,0]}"};
  OpDef avg_grad = PoolGrad("avg_pool_grad", "gradient of avg_pool in x", {"dy"},
                            {input_shape, kernel, stride, padding, include_pad});
  avg_grad.lower = LowerAvgPoolGrad;
  avg_grad.samples = {
      "(f32[n,3,4,4]) {input_shape=[n,3,8,9], kernel=[2,2], stride=[2,2]}",
      "(f32[n,2,5,9]) {input_shape=[n,2,9,8], kernel=[3,2], stride=[2,1], padding=[1,1], count_include_pad=false}",
      "(f32[n,2,2,5,3]) {input_shape=[n,2,4,5,6], kernel=[2,3,2], stride=[2,1,2], padding=[0,1,0]}"};
  return {max, max_grad, avg, avg_grad};
}

}  // namespace cinn_like::hlir
