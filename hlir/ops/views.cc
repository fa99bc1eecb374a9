// Ops whose result elements are operand elements found by an index map.
#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {
namespace {

using ir::Expr;
using Exprs = std::vector<Expr>;
// The operand's indices of a result's.
using IndexMap = std::function<Exprs(const TeCall&, ir::Indices)>;

void SetIndexMap(OpDef* def, IndexMap map) {
  def->lower = [map = std::move(map)](TeCall& call) -> std::vector<ir::Buffer> {
    return {call.Compute([&](ir::Indices i) { return call.At(0, map(call, i)); })};
  };
}

OpDef View(std::string name, std::string doc, std::vector<AttrSpec> attrs) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.operands = {"x"};
  def.attrs = std::move(attrs);
  def.is_view = true;
  return def;
}

// Both shapes are cut into the shortest runs of axes with equal sizes, and each run is flattened and unflattened by
// itself, so that axes which the reshape leaves alone keep their index. Axes of size 1 take no part.
Exprs ReshapeIndices(const TeCall& call, ir::Indices to_index) {
  ir::Context& c = call.c;
  const Dims &from = call.operand_types[0].dims, &to = call.result_types[0].dims;
  Exprs result(from.size(), c.Int(0));
  if (ProductOf(from) == Dim(0)) return result;  // never read
  std::vector<size_t> from_axes, to_axes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != Dim(1)) from_axes.push_back(i);
  }
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] != Dim(1)) to_axes.push_back(i);
  }
  size_t f = 0, t = 0;
  while (f < from_axes.size()) {
    size_t f_end = from_axes.size(), t_end = to_axes.size();
    Dim f_size = 1;
    bool found = false;
    for (size_t i = f; i < from_axes.size() && !found; ++i) {
      f_size = f_size * from[from_axes[i]];
      Dim t_size = 1;
      for (size_t j = t; j < to_axes.size() && !found; ++j) {
        t_size = t_size * to[to_axes[j]];
        if (ProvablyEqual(f_size, t_size, call.symbols)) f_end = i + 1, t_end = j + 1, found = true;
      }
    }
    Expr flat = c.Int(0);
    for (size_t j = t; j < t_end; ++j) flat = c.Add(c.Mul(flat, call.ToExpr(to[to_axes[j]])), to_index[to_axes[j]]);
    Dim inner = 1;
    for (size_t i = f_end; i-- > f;) {
      const Dim& size = from[from_axes[i]];
      const Expr outer = c.Div(flat, call.ToExpr(inner));
      result[from_axes[i]] = i == f ? outer : c.Mod(outer, call.ToExpr(size));
      inner = inner * size;
    }
    f = f_end;
    t = t_end;
  }
  return result;
}

OpDef Reshape() {
  OpDef def = View("reshape", "the same elements in row-major order under another shape",
                   {{"shape", AttrType::kDims, std::nullopt}});
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    const Dims& shape = call.attrs.AsDims("shape");
    const Dim have = ProductOf(x.dims), want = ProductOf(shape);
    if (!ProvablyEqual(have, want, call.symbols)) {
      return InvalidArgument("attribute 'shape': expected ", have.ToString(), " elements as in ", x.ToString(),
                             ", got ", want.ToString());
    }
    return std::vector<TensorType>{{x.dtype, shape}};
  };
  SetIndexMap(&def, ReshapeIndices);
  def.samples = {"(f32[n,12]) {shape=[n,3,4]}", "(f32[n,3,4]) {shape=[n*12]}", "(f32[6,4]) {shape=[3,8]}",
                 "(f32[1]) {shape=[]}"};
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
  SetIndexMap(&def, [](const TeCall& call, ir::Indices i) {
    const std::vector<int64_t> perm = call.attrs.Ints("perm");
    Exprs at(perm.size());
    for (size_t k = 0; k < perm.size(); ++k) at[perm[k]] = i[k];
    return at;
  });
  def.samples = {"(f32[n,5]) {perm=[1,0]}", "(f32[2,n,3,4]) {perm=[0,2,1,3]}"};
  return def;
}

OpDef BroadcastTo() {
  OpDef def = View("broadcast_to", "x repeated along axes of size 1 and new leading axes",
                   {{"shape", AttrType::kDims, std::nullopt}});
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    const TensorType& x = call.operands[0];
    const Dims& shape = call.attrs.AsDims("shape");
    const StatusOr<Dims> both = BroadcastShapes(x.dims, shape, call.symbols);
    if (!both.ok() || !ProvablyEqual(*both, shape, call.symbols)) {
      return InvalidArgument("attribute 'shape': expected a shape that ", x.ToString(), " broadcasts to, got ",
                             ToString(shape));
    }
    return std::vector<TensorType>{{x.dtype, shape}};
  };
  def.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
    return {call.Compute([&](ir::Indices i) { return call.AtBroadcast(0, i); })};
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
    if (!never_negative(begin))
      return InvalidArgument("attribute 'begin': expected at least 0, got ", begin.ToString());
    if (!never_negative(end - begin)) {
      return InvalidArgument("attribute 'end': expected at least ", begin.ToString(), ", got ", end.ToString());
    }
    if (!never_negative(dim - end)) {
      return InvalidArgument("attribute 'end': expected at most ", dim.ToString(), ", got ", end.ToString());
    }
    dim = (end - begin + Dim(step - 1)) / Dim(step);
    return std::vector<TensorType>{result};
  };
  def.requires_at_call = [](const OpCall& call) -> std::vector<OpDef::Requirement> {
    const Dim begin = call.attrs.AsDim("begin"), end = call.attrs.AsDim("end");
    return {{"attribute 'begin'", begin, 0, end},
            {"attribute 'end'", end, begin, call.operands[0].dims[call.attrs.Int("axis")]}};
  };
  SetIndexMap(&def, [](const TeCall& call, ir::Indices i) {
    Exprs at = i;
    Expr& k = at[call.attrs.Int("axis")];
    k = call.c.Add(call.c.Mul(k, call.c.Int(call.attrs.Int("step"))), call.ToExpr(call.attrs.AsDim("begin")));
    return at;
  });
  def.samples = {"(f32[9,n]) {axis=0, begin=2, end=9, step=3}", "(f32[3,n]) {axis=1, begin=n/2, end=n}",
                 "(f32[4]) {axis=0, begin=1, end=1}"};
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
        return InvalidArgument("operand ", i, ": expected shape ", ToString(expected), " outside axis ", axis, ", got ",
                               ToString(got));
      }
      result.dims[axis] = result.dims[axis] + got[axis];
    }
    return std::vector<TensorType>{result};
  };
  def.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
    ir::Context& c = call.c;
    const int64_t axis = call.attrs.Int("axis");
    return {call.Compute([&](ir::Indices i) {
      // Operand k holds [begin, begin + size) of the axis; each read is masked, so none leaves its operand.
      Dim begin = 0;
      std::vector<Expr> reads, ends;
      for (size_t k = 0; k < call.operands.size(); ++k) {
        const Dim size = call.operand_types[k].dims[axis];
        Exprs at = i;
        at[axis] = c.Sub(i[axis], call.ToExpr(begin));
        const Expr below = c.Lt(i[axis], call.ToExpr(begin + size)), above = c.Le(call.ToExpr(begin), i[axis]);
        const bool first = k == 0, last = k + 1 == call.operands.size();
        const Expr mask = first && last ? nullptr : first ? below : last ? above : c.And(above, below);
        reads.push_back(call.At(k, std::move(at), mask));
        ends.push_back(below);
        begin = begin + size;
      }
      Expr value = reads.back();
      for (size_t k = reads.size() - 1; k-- > 0;) value = c.Make(ir::ExprOp::kSelect, {ends[k], reads[k], value});
      return value;
    })};
  };
  def.samples = {"(f32[n,2], f32[n,3], f32[n,1]) {axis=1}", "(f32[2], f32[n]) {axis=0}", "(f32[n]) {axis=0}"};
  return def;
}

OpDef Pad() {
  OpDef def;
  def.name = "pad";
  def.doc = "x with low[i] elements of value before and high[i] behind axis i; negative pads crop";
  def.operands = {"x"};
  def.attrs = {{"low", AttrType::kDims, std::nullopt},
               {"high", AttrType::kDims, std::nullopt},
               {"value", AttrType::kNumber, Dim(0)}};
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
  def.lower = [](TeCall& call) -> std::vector<ir::Buffer> {
    ir::Context& c = call.c;
    const Dims &low = call.attrs.AsDims("low"), &high = call.attrs.AsDims("high");
    const DType dtype = call.result_types[0].dtype;
    return {call.Compute([&](ir::Indices i) {
      Exprs at;
      Expr inside = c.Bool(true);
      for (size_t k = 0; k < low.size(); ++k) {
        at.push_back(c.Sub(i[k], call.ToExpr(low[k])));
        if (RangeOf(low[k], call.symbols).hi > 0) inside = c.And(inside, c.Le(c.Int(0), at[k]));
        if (RangeOf(high[k], call.symbols).hi > 0)
          inside = c.And(inside, c.Lt(at[k], call.ToExpr(call.operand_types[0].dims[k])));
      }
      if (ir::IsTrue(inside)) return call.At(0, at);
      const Expr value = ToConst(call, call.attrs.Number("value"), dtype);
      return c.Make(ir::ExprOp::kSelect, {inside, call.At(0, at, inside), value});
    })};
  };
  def.samples = {"(f32[n,5]) {low=[1,0], high=[2,3], value=0.5}", "(f32[7]) {low=[-2], high=[-1]}",
                 "(f32[6]) {low=[-2], high=[3]}"};
  return def;
}

OpDef Copy() {
  OpDef def = View("copy", "x in memory of its own", {});
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> { return call.operands; };
  SetIndexMap(&def, [](const TeCall&, ir::Indices i) { return i; });
  def.samples = {"(f32[n,3])"};
  return def;
}

}  // namespace

std::vector<OpDef> ViewOps() { return {Reshape(), Transpose(), BroadcastTo(), Slice(), Concat(), Pad(), Copy()}; }

}  // namespace cinn_like::hlir
