// Convolution of NC... by OI..., with one to three spatial dimensions, and its two gradients.
#include "hlir/ops/families.h"
#include "hlir/ops/window.h"

namespace cinn_like::hlir {
namespace {

std::vector<AttrSpec> ConvAttrs() {
  return {{"stride", AttrType::kInts, Dims{}},
          {"padding", AttrType::kInts, Dims{}},
          {"dilation", AttrType::kInts, Dims{}},
          {"groups", AttrType::kInt, Dim(1)}};
}

StatusOr<int64_t> ConstDim(std::string_view what, const Dim& d) {
  if (const auto c = d.AsConst()) return *c;
  return InvalidArgument(what, ": expected a constant, got ", d.ToString());
}

// The output shape of the convolution of `x` by `w`.
StatusOr<Dims> InferConv(const Dims& x, const Dims& w, const Attrs& attrs, const SymbolTable& symbols) {
  const int64_t groups = attrs.Int("groups");
  if (groups < 1) return InvalidArgument("attribute 'groups': expected a positive number, got ", groups);
  ASSIGN_OR_RETURN(Window window, WindowOf(attrs, x.size()));
  for (int i = 0; i < window.rank(); ++i) {
    ASSIGN_OR_RETURN(window.kernel[i], ConstDim("kernel size", w[2 + i]));
  }
  if (!ProvablyEqual(x[1], w[1] * Dim(groups), symbols)) {
    return InvalidArgument("expected ", (w[1] * Dim(groups)).ToString(), " input channels (", w[1].ToString(), " x ",
                           groups, " groups), got ", x[1].ToString());
  }
  if (!Divides(groups, w[0], symbols)) {
    return InvalidArgument("attribute 'groups': expected a divisor of ", w[0].ToString(), " output channels, got ",
                           groups);
  }
  Dims result = {x[0], w[0]};
  for (int i = 0; i < window.rank(); ++i) {
    ASSIGN_OR_RETURN(Dim size, CountPositions(window, i, x[2 + i], false, symbols));
    result.push_back(std::move(size));
  }
  return result;
}

Status CheckOperands(const OpCall& call, std::string_view first, std::string_view second) {
  RETURN_IF_ERROR(CheckSameDType(call));
  RETURN_IF_ERROR(CheckDType(first, call.operands[0].dtype, DTypeClass::kFloat));
  RETURN_IF_ERROR(CheckImageRank(first, call.operands[0]));
  if (call.operands[1].rank() == call.operands[0].rank()) return absl::OkStatus();
  return InvalidArgument("operand '", second, "': expected rank ", call.operands[0].rank(), " as '", first, "', got ",
                         call.operands[1].ToString());
}

using ir::Expr;

Expr Product(const TeCall& call, Expr a, Expr b) {
  return call.c.Make(ir::ExprOp::kMul, {Widened(call.c, a), Widened(call.c, b)});
}

// The spatial sizes of `dims` behind another one.
Dims WithSpatial(const Dim& first, const Dims& dims) {
  Dims r = {first};
  r.insert(r.end(), dims.begin() + 2, dims.end());
  return r;
}

// `first`, `second` and the iterators of `of` behind its first `skip`.
std::vector<Expr> At(Expr first, Expr second, ir::Indices of, size_t skip) {
  std::vector<Expr> r = {first, second};
  r.insert(r.end(), of.begin() + static_cast<std::ptrdiff_t>(skip), of.end());
  return r;
}

// y[n,o,p...] = sum over c, taps k... of x[n, first channel of o's group + c, place of p...] * w[o,c,k...]
std::vector<ir::Buffer> LowerConv(TeCall& call) {
  ir::Context& c = call.c;
  const Dims &x = call.operand_types[0].dims, &w = call.operand_types[1].dims;
  const Window window = CheckedWindowOf(call.attrs, x.size());
  const Expr outputs = call.ToExpr(w[0] / Dim(call.attrs.Int("groups"))), channels = call.ToExpr(w[1]);
  return {call.Reduce(ir::Combiner::kSum, WithSpatial(w[1], w), [&](ir::Indices i, ir::Indices r) {
    const Place place = InputPlace(call, window, &x[2], &i[2], &r[1]);
    const Expr channel = call.attrs.Int("groups") == 1 ? r[0] : c.Add(c.Mul(c.Div(i[1], outputs), channels), r[0]);
    return Product(call, call.At(0, place.Behind(i[0], channel), window.is_padded() ? place.mask : nullptr),
                   call.At(1, At(i[1], r[0], r, 1)));
  })};
}

// dx[n,c,p...] = sum over the group's outputs o, taps k... of dy[n, o, position that reads p... with k...] *
// w[o,c,k...]
std::vector<ir::Buffer> LowerInputGrad(TeCall& call) {
  ir::Context& c = call.c;
  const Dims &dy = call.operand_types[0].dims, &w = call.operand_types[1].dims;
  const Window window = CheckedWindowOf(call.attrs, dy.size());
  const Dim outputs = w[0] / Dim(call.attrs.Int("groups"));
  const Expr channels = call.ToExpr(w[1]);
  return {call.Reduce(ir::Combiner::kSum, WithSpatial(outputs, w), [&](ir::Indices i, ir::Indices r) {
    const Place place = PositionPlace(call, window, &dy[2], &i[2], &r[1]);
    const bool grouped = call.attrs.Int("groups") != 1;
    const Expr output = grouped ? c.Add(c.Mul(c.Div(i[1], channels), call.ToExpr(outputs)), r[0]) : r[0];
    const Expr channel = grouped ? c.Mod(i[1], channels) : i[1];
    return Product(call, call.At(0, place.Behind(i[0], output), place.mask), call.At(1, At(output, channel, r, 1)));
  })};
}

// dw[o,c,k...] = sum over n, positions p... of dy[n,o,p...] * x[n, first channel of o's group + c, place of p...]
std::vector<ir::Buffer> LowerWeightGrad(TeCall& call) {
  ir::Context& c = call.c;
  const Dims &dy = call.operand_types[0].dims, &x = call.operand_types[1].dims, &w = call.result_types[0].dims;
  const Window window = CheckedWindowOf(call.attrs, x.size());
  const Expr outputs = call.ToExpr(w[0] / Dim(call.attrs.Int("groups"))), channels = call.ToExpr(w[1]);
  return {call.Reduce(ir::Combiner::kSum, WithSpatial(dy[0], dy), [&](ir::Indices i, ir::Indices r) {
    const Place place = InputPlace(call, window, &x[2], &r[1], &i[2]);
    const Expr channel = call.attrs.Int("groups") == 1 ? i[1] : c.Add(c.Mul(c.Div(i[0], outputs), channels), i[1]);
    return Product(call, call.At(0, At(r[0], i[0], r, 1)),
                   call.At(1, place.Behind(r[0], channel), window.is_padded() ? place.mask : nullptr));
  })};
}

OpDef Conv() {
  OpDef def;
  def.name = "conv";
  def.framework_kernel = FrameworkKernel::kConvolution;
  def.doc =
      "cross-correlation of x (NC and 1 to 3 spatial dimensions) with w (OI and as many); 16-bit floats accumulate in "
      "f32";
  def.operands = {"x", "w"};
  def.attrs = ConvAttrs();
  def.lower = LowerConv;
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    RETURN_IF_ERROR(CheckOperands(call, "x", "w"));
    ASSIGN_OR_RETURN(Dims dims, InferConv(call.operands[0].dims, call.operands[1].dims, call.attrs, call.symbols));
    return std::vector<TensorType>{{call.operands[0].dtype, std::move(dims)}};
  };
  def.samples = {"(f32[n,3,8,9], f32[4,3,3,3])",
                 "(f32[n,4,9,7], f32[6,2,3,2]) {stride=[2,1], padding=[1,2], dilation=[1,2], groups=2}",
                 "(f32[2,6,n], f32[4,3,3]) {stride=[2], padding=[1], groups=2}",
                 "(f32[n,3,4,5,6], f32[4,3,2,3,1]) {stride=[1,2,1], padding=[1,0,0], dilation=[1,1,2]}"};
  return def;
}

// A gradient of conv: `shape_attr` gives the result's shape; dy must have the convolution's.
OpDef Gradient(std::string name, std::string doc, std::string other, std::string shape_attr) {
  OpDef def;
  def.name = std::move(name);
  def.framework_kernel = FrameworkKernel::kConvolution;
  def.doc = std::move(doc);
  def.operands = {"dy", other};
  def.attrs = ConvAttrs();
  def.attrs.insert(def.attrs.begin(), AttrSpec{shape_attr, AttrType::kDims, std::nullopt});
  def.infer = [other, shape_attr](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    RETURN_IF_ERROR(CheckOperands(call, "dy", other));
    const Dims& shape = call.attrs.AsDims(shape_attr);
    if (shape.size() != call.operands[0].dims.size())
      return InvalidArgument("attribute '", shape_attr, "': expected ", call.operands[0].rank(), " values, got ",
                             shape.size());
    const bool of_input = shape_attr == "input_shape";
    const Dims &x = of_input ? shape : call.operands[1].dims, &w = of_input ? call.operands[1].dims : shape;
    ASSIGN_OR_RETURN(const Dims dy, InferConv(x, w, call.attrs, call.symbols));
    if (!ProvablyEqual(dy, call.operands[0].dims, call.symbols)) {
      return InvalidArgument("operand 'dy': expected shape ", ToString(dy), ", got ", ToString(call.operands[0].dims));
    }
    return std::vector<TensorType>{{call.operands[0].dtype, shape}};
  };
  return def;
}

}  // namespace

std::vector<OpDef> ConvolutionOps() {
  OpDef input = Gradient("conv_input_grad", "gradient of conv in x", "w", "input_shape");
  input.lower = LowerInputGrad;
  input.samples = {
      "(f32[n,4,6,7], f32[4,3,3,3]) {input_shape=[n,3,8,9]}",
      "(f32[n,6,5,9], f32[6,2,3,2]) {input_shape=[n,4,9,7], stride=[2,1], padding=[1,2], dilation=[1,2], groups=2}",
      "(f32[n,4,5,2,6], f32[4,3,2,3,1]) {input_shape=[n,3,4,5,6], stride=[1,2,1], padding=[1,0,0]}"};
  OpDef weight = Gradient("conv_weight_grad", "gradient of conv in w", "x", "weight_shape");
  weight.lower = LowerWeightGrad;
  weight.samples = {
      "(f32[n,4,6,7], f32[n,3,8,9]) {weight_shape=[4,3,3,3]}",
      "(f32[n,6,5,9], f32[n,4,9,7]) {weight_shape=[6,2,3,2], stride=[2,1], padding=[1,2], dilation=[1,2], groups=2}",
      "(f32[2,4,7], f32[2,6,7]) {weight_shape=[4,3,3], padding=[1], groups=2}",
      "(f32[n,4,5,2,6], f32[n,3,4,5,6]) {weight_shape=[4,3,2,3,1], stride=[1,2,1], padding=[1,0,0]}"};
  return {Conv(), input, weight};
}

}  // namespace cinn_like::hlir
