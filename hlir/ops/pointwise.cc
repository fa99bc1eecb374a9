// Ops whose result element depends on the operands' elements at the same (broadcast) place.
#include <cmath>

#include "hlir/op_builder.h"
#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/ops/widen.h"

namespace cinn_like::hlir {
namespace {

using Refs = std::vector<ValueRef>;

// The operands broadcast; `dtypes` constrains all of them; the result has their dtype, or bool.
OpDef Pointwise(std::string name, std::string doc, std::vector<std::string> operands, DTypeClass dtypes, bool to_bool = false) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.operands = std::move(operands);
  def.is_pointwise = true;
  def.infer = [names = def.operands, dtypes, to_bool](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    RETURN_IF_ERROR(CheckSameDType(call));
    RETURN_IF_ERROR(CheckDType(names[0], call.operands[0].dtype, dtypes));
    TensorType result = call.operands[0];
    for (size_t i = 1; i < call.operands.size(); ++i) {
      ASSIGN_OR_RETURN(result.dims, BroadcastShapes(result.dims, call.operands[i].dims, call.symbols));
    }
    if (to_bool) result.dtype = DType::kBool;
    return std::vector<TensorType>{result};
  };
  const bool only_ints = dtypes == DTypeClass::kInt || dtypes == DTypeClass::kBoolOrInt;
  const std::string t = only_ints ? "i32" : "f32";
  if (def.operands.size() == 1) {
    def.samples = {"(" + t + "[7,n])", "(" + t + "[])"};
  } else {
    def.samples = {"(" + t + "[n,5], " + t + "[n,5])", "(" + t + "[3,1,n], " + t + "[4,1])", "(" + t + "[n], " + t + "[])"};
  }
  return def;
}

OpDef Unary(std::string name, std::string doc, DTypeClass dtypes) {
  return Pointwise(std::move(name), std::move(doc), {"x"}, dtypes);
}

// A unary op of floats defined by simpler ones, computed in f32 for 16-bit operands.
OpDef FloatComposite(std::string name, std::string doc, std::function<ValueRef(OpBuilder*, ValueRef)> body) {
  OpDef def = Unary(std::move(name), std::move(doc), DTypeClass::kFloat);
  def.decompose = [body](OpBuilder* b, const Refs& x, const Attrs&) -> Refs {
    const DType dtype = b->DTypeOf(x[0]);
    return {b->Cast(body(b, Widen(b, x[0])), dtype)};
  };
  return def;
}

ValueRef Like(OpBuilder* b, ValueRef x, Attr value) { return b->Full(std::move(value), b->DTypeOf(x)); }

ValueRef GeluTanh(OpBuilder* b, ValueRef x) {
  const ValueRef cube = b->Mul(b->Mul(x, x), x);
  const ValueRef inner = b->Mul(b->Add(x, b->Mul(cube, Like(b, x, 0.044715))), Like(b, x, std::sqrt(2.0 / M_PI)));
  return b->Mul(b->Mul(x, Like(b, x, 0.5)), b->Add(b->Tanh(inner), Like(b, x, 1.0)));
}

ValueRef GeluErf(OpBuilder* b, ValueRef x) {
  const ValueRef erf = b->Erf(b->Mul(x, Like(b, x, std::sqrt(0.5))));
  return b->Mul(b->Mul(x, Like(b, x, 0.5)), b->Add(erf, Like(b, x, 1.0)));
}

OpDef Gelu() {
  OpDef def = Unary("gelu", "x * Phi(x), Phi the normal distribution function or its tanh approximation", DTypeClass::kFloat);
  def.attrs = {{"approximate", AttrType::kString, "none", {"none", "tanh"}}};
  def.decompose = [](OpBuilder* b, const Refs& x, const Attrs& attrs) -> Refs {
    const DType dtype = b->DTypeOf(x[0]);
    const ValueRef wide = Widen(b, x[0]);
    return {b->Cast(attrs.String("approximate") == "tanh" ? GeluTanh(b, wide) : GeluErf(b, wide), dtype)};
  };
  def.samples.push_back("(f32[n]) {approximate=\"tanh\"}");
  return def;
}

OpDef Relu() {
  OpDef def = Unary("relu", "maximum(x, 0)", DTypeClass::kNumber);
  def.decompose = [](OpBuilder* b, const Refs& x, const Attrs&) -> Refs { return {b->Maximum(x[0], Like(b, x[0], 0))}; };
  return def;
}

OpDef Square() {
  OpDef def = Unary("square", "x * x", DTypeClass::kNumber);
  def.decompose = [](OpBuilder* b, const Refs& x, const Attrs&) -> Refs { return {b->Mul(x[0], x[0])}; };
  return def;
}

OpDef Sign() {
  OpDef def = Unary("sign", "-1, 0 or 1; 0 for NaN", DTypeClass::kNumber);
  def.decompose = [](OpBuilder* b, const Refs& x, const Attrs&) -> Refs {
    const ValueRef zero = Like(b, x[0], 0), one = Like(b, x[0], 1);
    const ValueRef positive = b->Select(b->Gt(x[0], zero), one, zero);
    return {b->Select(b->Lt(x[0], zero), b->Neg(one), positive)};
  };
  return def;
}

OpDef FloorDivide() {
  OpDef def = Pointwise("floor_div", "the largest integer not above a / b", {"a", "b"}, DTypeClass::kNumber);
  return def;
}

OpDef Select() {
  OpDef def;
  def.name = "select";
  def.doc = "a where c, else b";
  def.operands = {"c", "a", "b"};
  def.is_pointwise = true;
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    RETURN_IF_ERROR(CheckDType("c", call.operands[0].dtype, DTypeClass::kBool));
    RETURN_IF_ERROR(CheckSameDType(call, 1));
    TensorType result = call.operands[1];
    for (int i : {0, 2}) {
      ASSIGN_OR_RETURN(result.dims, BroadcastShapes(result.dims, call.operands[i].dims, call.symbols));
    }
    return std::vector<TensorType>{result};
  };
  def.samples = {"(bool[n,5], f32[n,5], f32[n,5])", "(bool[n,1], f32[5], f32[])"};
  return def;
}

OpDef Cast() {
  OpDef def;
  def.name = "cast";
  def.doc = "x in another dtype: floats round to nearest even, and to integers toward zero; to bool: x != 0";
  def.operands = {"x"};
  def.is_pointwise = true;
  def.attrs = {{"dtype", AttrType::kDType, std::nullopt}};
  def.infer = [](const OpCall& call) -> StatusOr<std::vector<TensorType>> {
    return std::vector<TensorType>{{call.attrs.AsDType("dtype"), call.operands[0].dims}};
  };
  def.samples = {"(f32[n,5]) {dtype=f16}", "(f32[n,5]) {dtype=i32}", "(i64[n,5]) {dtype=f32}", "(f32[n]) {dtype=bool}",
                 "(bool[n]) {dtype=f32}",  "(f16[n]) {dtype=f32}",   "(bf16[n]) {dtype=f32}"};
  return def;
}

}  // namespace

std::vector<OpDef> PointwiseOps() {
  using C = DTypeClass;
  std::vector<OpDef> ops = {
      Unary("neg", "-x", C::kNumber),
      Unary("abs", "|x|", C::kNumber),
      Unary("exp", "e to the x", C::kFloat),
      Unary("log", "natural logarithm", C::kFloat),
      Unary("sqrt", "square root", C::kFloat),
      Unary("rsqrt", "1 / sqrt(x)", C::kFloat),
      Unary("tanh", "hyperbolic tangent", C::kFloat),
      Unary("erf", "error function", C::kFloat),
      Unary("sin", "sine", C::kFloat),
      Unary("cos", "cosine", C::kFloat),
      Unary("floor", "largest integer not above x", C::kFloat),
      Unary("ceil", "smallest integer not below x", C::kFloat),
      Unary("round", "nearest integer, halves to even", C::kFloat),
      Unary("log1p", "log(1 + x)", C::kFloat),
      Unary("expm1", "exp(x) - 1", C::kFloat),
      Unary("not", "bitwise complement; logical for bool", C::kBoolOrInt),
      Pointwise("isnan", "whether x is NaN", {"x"}, C::kFloat, true),
      FloatComposite("reciprocal", "1 / x", [](OpBuilder* b, ValueRef x) { return b->Div(Like(b, x, 1.0), x); }),
      FloatComposite("sigmoid", "1 / (1 + exp(-x))",
                     [](OpBuilder* b, ValueRef x) {
                       const ValueRef one = Like(b, x, 1.0);
                       return b->Div(one, b->Add(b->Exp(b->Neg(x)), one));
                     }),
      FloatComposite("silu", "x * sigmoid(x)",
                     [](OpBuilder* b, ValueRef x) {
                       return b->Div(x, b->Add(b->Exp(b->Neg(x)), Like(b, x, 1.0)));
                     }),
      Gelu(),
      Relu(),
      Square(),
      Sign(),
      Pointwise("add", "a + b", {"a", "b"}, C::kNumber),
      Pointwise("sub", "a - b", {"a", "b"}, C::kNumber),
      Pointwise("mul", "a * b", {"a", "b"}, C::kNumber),
      Pointwise("div", "a / b", {"a", "b"}, C::kFloat),
      Pointwise("pow", "a to the b", {"a", "b"}, C::kFloat),
      Pointwise("maximum", "the larger; NaN if either is", {"a", "b"}, C::kNumber),
      Pointwise("minimum", "the smaller; NaN if either is", {"a", "b"}, C::kNumber),
      Pointwise("mod", "a - b * floor(a / b): has the sign of b", {"a", "b"}, C::kNumber),
      FloorDivide(),
      Pointwise("and", "bitwise and; logical for bool", {"a", "b"}, C::kBoolOrInt),
      Pointwise("or", "bitwise or; logical for bool", {"a", "b"}, C::kBoolOrInt),
      Pointwise("xor", "bitwise exclusive or; logical for bool", {"a", "b"}, C::kBoolOrInt),
      Pointwise("eq", "a == b", {"a", "b"}, C::kAny, true),
      Pointwise("ne", "a != b; true for NaN", {"a", "b"}, C::kAny, true),
      Pointwise("lt", "a < b", {"a", "b"}, C::kAny, true),
      Pointwise("le", "a <= b", {"a", "b"}, C::kAny, true),
      Pointwise("gt", "a > b", {"a", "b"}, C::kAny, true),
      Pointwise("ge", "a >= b", {"a", "b"}, C::kAny, true),
      Select(),
      Cast(),
  };
  return ops;
}

}  // namespace cinn_like::hlir
