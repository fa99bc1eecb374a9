// Ops whose result element depends on the operands' elements at the same (broadcast) place.
#include <cmath>

#include "hlir/op_builder.h"
#include "hlir/ops/families.h"
#include "hlir/ops/infer_util.h"
#include "hlir/ops/widen.h"
#include "hlir/te_call.h"

namespace cinn_like::hlir {
namespace {

using ir::Expr;
using ir::ExprOp;
using Refs = std::vector<ValueRef>;
using Exprs = std::vector<Expr>;
// One element of the result out of one of each operand; 16-bit floats arrive as f32.
using Element = std::function<Expr(ir::Context&, const Exprs&)>;

void SetElement(OpDef* def, Element element) {
  def->lower = [element = std::move(element)](TeCall& call) -> std::vector<ir::Buffer> {
    return {call.Compute([&](ir::Indices i) {
      Exprs x;
      for (size_t k = 0; k < call.operands.size(); ++k) x.push_back(Widened(call.c, call.AtBroadcast(k, i)));
      return element(call.c, x);
    })};
  };
}

// The operator of ir with this meaning.
Element Operator(ExprOp op) {
  return [op](ir::Context& c, const Exprs& x) { return c.Make(op, x); };
}
// One operator for bool, another for integers.
Element Operator(ExprOp of_bool, ExprOp of_int) {
  return [=](ir::Context& c, const Exprs& x) { return c.Make(x[0]->type.dtype == DType::kBool ? of_bool : of_int, x); };
}
// (b, a) for (a, b).
Element Swapped(ExprOp op) {
  return [op](ir::Context& c, const Exprs& x) { return c.Make(op, {x[1], x[0]}); };
}

Expr Zero(ir::Context& c, Expr like) { return c.Const(0, like->type.dtype); }

// A divisor that the machine can't trap on: 0 and -1 (which overflows for the lowest integer) become 1.
Expr SafeDivisor(ir::Context& c, Expr b) {
  const Expr one = c.Const(1, b->type.dtype);
  Expr bad = c.Make(ExprOp::kEq, {b, Zero(c, b)});
  if (IsSigned(b->type.dtype)) bad = c.Or(bad, c.Make(ExprOp::kEq, {b, c.Const(-1, b->type.dtype)}));
  return c.Make(ExprOp::kSelect, {bad, one, b});
}

Expr ModElement(ir::Context& c, const Exprs& x) {
  const Expr a = x[0], b = x[1];
  if (!IsFloat(a->type.dtype)) return c.Make(ExprOp::kMod, {a, SafeDivisor(c, b)});
  const Expr r = c.Make(ExprOp::kTruncMod, {a, b}), zero = Zero(c, a);
  const Expr other_sign = c.Make(ExprOp::kNe, {c.Make(ExprOp::kLt, {r, zero}), c.Make(ExprOp::kLt, {b, zero})});
  const Expr adjust = c.And(c.Make(ExprOp::kNe, {r, zero}), other_sign);
  return c.Make(ExprOp::kSelect, {adjust, c.Make(ExprOp::kAdd, {r, b}), r});
}

// Integers divided by 0 give a.
Expr FloorDivElement(ir::Context& c, const Exprs& x) {
  const Expr a = x[0], b = x[1];
  if (!IsFloat(a->type.dtype)) {
    const Expr quotient = c.Make(ExprOp::kDiv, {a, SafeDivisor(c, b)});
    if (!IsSigned(a->type.dtype)) return quotient;
    const Expr minus_one = c.Make(ExprOp::kEq, {b, c.Const(-1, b->type.dtype)});
    return c.Make(ExprOp::kSelect, {minus_one, c.Make(ExprOp::kNeg, {a}), quotient});
  }
  // a - mod(a, b) is nearly a multiple of b: no rounding error can cross an integer.
  const Expr whole = c.Make(ExprOp::kDiv, {c.Make(ExprOp::kSub, {a, ModElement(c, x)}), b});
  const Expr by_zero = c.Make(ExprOp::kEq, {b, Zero(c, b)});
  return c.Make(ExprOp::kSelect, {by_zero, c.Make(ExprOp::kDiv, {a, b}), c.Make(ExprOp::kRound, {whole})});
}

// The operands broadcast; `dtypes` constrains all of them; the result has their dtype, or bool.
OpDef Pointwise(std::string name, std::string doc, std::vector<std::string> operands, DTypeClass dtypes,
                Element element, bool to_bool = false) {
  OpDef def;
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.operands = std::move(operands);
  def.is_pointwise = true;
  if (element) SetElement(&def, std::move(element));
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
    def.samples = {"(" + t + "[n,5], " + t + "[n,5])", "(" + t + "[3,1,n], " + t + "[4,1])",
                   "(" + t + "[n], " + t + "[])"};
  }
  return def;
}

// Without an element the caller gives a decomposition.
OpDef Unary(std::string name, std::string doc, DTypeClass dtypes, Element element = nullptr) {
  return Pointwise(std::move(name), std::move(doc), {"x"}, dtypes, std::move(element));
}
OpDef Binary(std::string name, std::string doc, DTypeClass dtypes, Element element) {
  return Pointwise(std::move(name), std::move(doc), {"a", "b"}, dtypes, std::move(element));
}
OpDef Comparison(std::string name, std::string doc, Element element) {
  return Pointwise(std::move(name), std::move(doc), {"a", "b"}, DTypeClass::kAny, std::move(element), true);
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

// A call's arguments are built in no fixed order, so decompositions build at most one op per argument list: the order
// of ops must not depend on the compiler.
ValueRef HalfTimesOnePlus(OpBuilder* b, ValueRef x, ValueRef f) {
  const ValueRef one_plus = b->Add(f, Like(b, x, 1.0));
  const ValueRef half = b->Mul(x, Like(b, x, 0.5));
  return b->Mul(half, one_plus);
}

ValueRef GeluTanh(OpBuilder* b, ValueRef x) {
  const ValueRef cube = b->Mul(b->Mul(x, x), x);
  const ValueRef cubic = b->Mul(cube, Like(b, x, 0.044715));
  const ValueRef sum = b->Add(x, cubic);
  return HalfTimesOnePlus(b, x, b->Tanh(b->Mul(sum, Like(b, x, std::sqrt(2.0 / M_PI)))));
}

ValueRef GeluErf(OpBuilder* b, ValueRef x) {
  return HalfTimesOnePlus(b, x, b->Erf(b->Mul(x, Like(b, x, std::sqrt(0.5)))));
}

OpDef Gelu() {
  OpDef def =
      Unary("gelu", "x * Phi(x), Phi the normal distribution function or its tanh approximation", DTypeClass::kFloat);
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
  def.decompose = [](OpBuilder* b, const Refs& x, const Attrs&) -> Refs {
    return {b->Maximum(x[0], Like(b, x[0], 0))};
  };
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
    const ValueRef zero = Like(b, x[0], 0), one = Like(b, x[0], 1), minus_one = b->Neg(one);
    const ValueRef positive = b->Select(b->Gt(x[0], zero), one, zero);
    return {b->Select(b->Lt(x[0], zero), minus_one, positive)};
  };
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
  SetElement(&def, Operator(ExprOp::kSelect));
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
  SetElement(&def, [](ir::Context&, const Exprs& x) { return x[0]; });  // TeCall::Compute converts
  def.samples = {"(f32[n,5]) {dtype=f16}", "(f32[n,5]) {dtype=i32}", "(i64[n,5]) {dtype=f32}", "(f32[n]) {dtype=bool}",
                 "(bool[n]) {dtype=f32}",  "(f16[n]) {dtype=f32}",   "(bf16[n]) {dtype=f32}"};
  return def;
}

}  // namespace

std::vector<OpDef> PointwiseOps() {
  using C = DTypeClass;
  std::vector<OpDef> ops = {
      Unary("neg", "-x", C::kNumber, Operator(ExprOp::kNeg)),
      Unary("abs", "|x|", C::kNumber, Operator(ExprOp::kAbs)),
      Unary("exp", "e to the x", C::kFloat, Operator(ExprOp::kExp)),
      Unary("log", "natural logarithm", C::kFloat, Operator(ExprOp::kLog)),
      Unary("sqrt", "square root", C::kFloat, Operator(ExprOp::kSqrt)),
      Unary("rsqrt", "1 / sqrt(x)", C::kFloat, Operator(ExprOp::kRsqrt)),
      Unary("tanh", "hyperbolic tangent", C::kFloat, Operator(ExprOp::kTanh)),
      Unary("erf", "error function", C::kFloat, Operator(ExprOp::kErf)),
      Unary("sin", "sine", C::kFloat, Operator(ExprOp::kSin)),
      Unary("cos", "cosine", C::kFloat, Operator(ExprOp::kCos)),
      Unary("floor", "largest integer not above x", C::kFloat, Operator(ExprOp::kFloor)),
      Unary("ceil", "smallest integer not below x", C::kFloat, Operator(ExprOp::kCeil)),
      Unary("round", "nearest integer, halves to even", C::kFloat, Operator(ExprOp::kRound)),
      Unary("log1p", "log(1 + x)", C::kFloat, Operator(ExprOp::kLog1p)),
      Unary("expm1", "exp(x) - 1", C::kFloat, Operator(ExprOp::kExpm1)),
      Unary("not", "bitwise complement; logical for bool", C::kBoolOrInt, Operator(ExprOp::kNot)),
      Pointwise("isnan", "whether x is NaN", {"x"}, C::kFloat, Operator(ExprOp::kIsNan), true),
      FloatComposite("reciprocal", "1 / x", [](OpBuilder* b, ValueRef x) { return b->Div(Like(b, x, 1.0), x); }),
      FloatComposite("sigmoid", "1 / (1 + exp(-x))",
                     [](OpBuilder* b, ValueRef x) {
                       const ValueRef one = Like(b, x, 1.0);
                       return b->Div(one, b->Add(b->Exp(b->Neg(x)), one));
                     }),
      FloatComposite("silu", "x * sigmoid(x)",
                     [](OpBuilder* b, ValueRef x) { return b->Div(x, b->Add(b->Exp(b->Neg(x)), Like(b, x, 1.0))); }),
      Gelu(),
      Relu(),
      Square(),
      Sign(),
      Binary("add", "a + b", C::kNumber, Operator(ExprOp::kAdd)),
      Binary("sub", "a - b", C::kNumber, Operator(ExprOp::kSub)),
      Binary("mul", "a * b", C::kNumber, Operator(ExprOp::kMul)),
      Binary("div", "a / b", C::kFloat, Operator(ExprOp::kDiv)),
      Binary("pow", "a to the b", C::kFloat, Operator(ExprOp::kPow)),
      Binary("maximum", "the larger; NaN if either is", C::kNumber, Operator(ExprOp::kMax)),
      Binary("minimum", "the smaller; NaN if either is", C::kNumber, Operator(ExprOp::kMin)),
      Binary("mod", "a - b * floor(a / b): has the sign of b; 0 for an integer b = 0", C::kNumber, ModElement),
      Binary("floor_div", "the largest integer not above a / b; a for an integer b = 0", C::kNumber, FloorDivElement),
      Binary("and", "bitwise and; logical for bool", C::kBoolOrInt, Operator(ExprOp::kAnd, ExprOp::kBitAnd)),
      Binary("or", "bitwise or; logical for bool", C::kBoolOrInt, Operator(ExprOp::kOr, ExprOp::kBitOr)),
      Binary("xor", "bitwise exclusive or; logical for bool", C::kBoolOrInt, Operator(ExprOp::kNe, ExprOp::kBitXor)),
      Comparison("eq", "a == b", Operator(ExprOp::kEq)),
      Comparison("ne", "a != b; true for NaN", Operator(ExprOp::kNe)),
      Comparison("lt", "a < b", Operator(ExprOp::kLt)),
      Comparison("le", "a <= b", Operator(ExprOp::kLe)),
      Comparison("gt", "a > b", Swapped(ExprOp::kLt)),
      Comparison("ge", "a >= b", Swapped(ExprOp::kLe)),
      Select(),
      Cast(),
  };
  return ops;
}

}  // namespace cinn_like::hlir
