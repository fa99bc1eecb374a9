// Ops whose result elements are operand elements found by an index map.
#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"

namespace cinn_like::hlir {
namespace {

OpDef View(std::string name, std::string doc, std::vector<AttrSpec> attrs) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.operands = {"x"};
  def.attrs = std::move(attrs);
  def.is_view = true;
  return def;
}

OpDef Reshape() {
  OpDef def = View("reshape", "the same elements in row-major order under another shape", {{"shape", AttrType::kDims, std::nullopt}});
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    const Dims& shape = call.attrs.AsDims("shape");
    const Dim have = ProductOf(x.dims), want = ProductOf(shape);
    if (!ProvablyEqual(have, want, call.symbols)) {
      return InvalidArgument("attribute 'shape': expected ", have.ToString(), " elements as in ", x.ToString(), ", got ",
                             want.ToString());
    }
    return std::vector<TensorType>{{x.dtype, shape}};
  };
  def.samples = {"(f32[n,12]) {shape=[n,3,4]}", "(f32[n,3,4]) {shape=[n*12]}", "(f32[6,4]) {shape=[3,8]}", "(f32[1]) {shape=[]}"};
  return def;
}

OpDef Transpose() {
  OpDef def = View("transpose", "axis i of the result is axis perm[i] of x", {{"perm", AttrType::kInts, std::nullopt}});
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    const std::vector<int64_t> perm = call.attrs.Ints("perm");
    RETURN_IF_ERROR(CheckInts("perm", perm, x.dims.size(), 0));
    RETURN_IF_ERROR(CheckAxes("perm", perm, x.rank()));
    TensorType result{x.dtype, {}};
    for (int64_t p : perm) result.dims.push_back(x.dims[p]);
    return std::vector<TensorType>{result};
  };
  def.samples = {"(f32[n,5]) {perm=[1,0]}", "(f32[2,n,3,4]) {perm=[0,2,1,3]}"};
  return def;
}

OpDef BroadcastTo() {
  OpDef def = View("broadcast_to", "x repeated along axes of size 1 and new leading axes", {{"shape", AttrType::kDims, std::nullopt}});
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    const Dims& shape = call.attrs.AsDims("shape");
    const StatusOr<Dims> both = BroadcastShapes(x.dims, shape, call.symbols);
    if (!both.ok() || !ProvablyEqual(*both, shape, call.symbols)) {
      return InvalidArgument("attribute 'shape': expected a shape that ", x.ToString(), " broadcasts to, got ", ToString(shape));
    }
    return std::vector<TensorType>{{x.dtype, shape}};
  };
  def.samples = {"(f32[n,1]) {shape=[3,n,4]}", "(f32[]) {shape=[2,3]}"};
  return def;
}

OpDef Slice() {
  OpDef def = View("slice", "elements begin, begin + step, ... below end of one axis",
                   {{"axis", AttrType::kInt, std::nullopt},
                    {"begin", AttrType::kDim, std::nullopt},
                    {"end", AttrType::kDim, std::nullopt},
                    {"step", AttrType::kInt, Dim(1)}});
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    TensorType result = call.operands[0];
    const int64_t axis = call.attrs.Int("axis"), step = call.attrs.Int("step");
    const Dim begin = call.attrs.AsDim("begin"), end = call.attrs.AsDim("end");
    RETURN_IF_ERROR(CheckAxis("axis", axis, result.rank()));
    if (step < 1) return InvalidArgument("attribute 'step': expected a positive step, got ", step);
    Dim& dim = result.dims[axis];
    auto never_negative = [&](const Dim& d) { return RangeOf(d, call.symbols).hi >= 0; };
    if (!never_negative(begin)) return InvalidArgument("attribute 'begin': expected at least 0, got ", begin.ToString());
    if (!never_negative(end - begin)) {
      return InvalidArgument("attribute 'end': expected at least ", begin.ToString(), ", got ", end.ToString());
    }
    if (!never_negative(dim - end)) {
      return InvalidArgument("attribute 'end': expected at most ", dim.ToString(), ", got ", end.ToString());
    }
    dim = (end - begin + Dim(step - 1)) / Dim(step);
    return std::vector<TensorType>{result};
  };
  def.samples = {"(f32[9,n]) {axis=0, begin=2, end=9, step=3}", "(f32[3,n]) {axis=1, begin=n/2, end=n}", "(f32[4]) {axis=0, begin=1, end=1}"};
  return def;
}

OpDef Concat() {
  OpDef def;
  def.name = "concat";
  def.doc = "the operands one after another along axis";
  def.operands = {"xs..."};
  def.attrs = {{"axis", AttrType::kInt, std::nullopt}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    TensorType result = call.operands[0];
    const int64_t axis = call.attrs.Int("axis");
    RETURN_IF_ERROR(CheckAxis("axis", axis, result.rank()));
    RETURN_IF_ERROR(CheckSameDType(call));
    for (size_t i = 1; i < call.operands.size(); ++i) {
      Dims expected = result.dims;
      const Dims& got = call.operands[i].dims;
      if (got.size() == expected.size()) expected[axis] = got[axis];
      if (!ProvablyEqual(expected, got, call.symbols)) {
        return InvalidArgument("operand ", i, ": expected shape ", ToString(expected), " outside axis ", axis, ", got ", ToString(got));
      }
      result.dims[axis] = result.dims[axis] + got[axis];
    }
    return std::vector<TensorType>{result};
  };
  def.samples = {"(f32[n,2], f32[n,3], f32[n,1]) {axis=1}", "(f32[2], f32[n]) {axis=0}", "(f32[n]) {axis=0}"};
  return def;
}

OpDef Pad() {
  OpDef def;
  def.name = "pad";
  def.doc = "x with low[i] elements of value before and high[i] behind axis i; negative pads crop";
  def.operands = {"x"};
  def.attrs = {{"low", AttrType::kDims, std::nullopt}, {"high", AttrType::kDims, std::nullopt}, {"value", AttrType::kNumber, Dim(0)}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    TensorType result = call.operands[0];
    for (const char* name : {"low", "high"}) {
      const Dims& pads = call.attrs.AsDims(name);
      if (pads.size() != result.dims.size()) {
        return InvalidArgument("attribute '", name, "': expected ", result.rank(), " values, got ", pads.size());
      }
      for (int i = 0; i < result.rank(); ++i) result.dims[i] = result.dims[i] + pads[i];
    }
    return std::vector<TensorType>{result};
  };
  def.samples = {"(f32[n,5]) {low=[1,0], high=[2,3], value=0.5}", "(f32[7]) {low=[-2], high=[-1]}", "(f32[6]) {low=[-2], high=[3]}"};
  return def;
}

OpDef Copy() {
  OpDef def = View("copy", "x in memory of its own", {});
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> { return call.operands; };
  def.samples = {"(f32[n,3])"};
  return def;
}

}  // namespace

std::vector<OpDef> ViewOps() { return {Reshape(), Transpose(), BroadcastTo(), Slice(), Concat(), Pad(), Copy()}; }

}  // namespace cinn_like::hlir
