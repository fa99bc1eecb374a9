#include "backends/vector_math.h"

#include <cmath>
#include <initializer_list>
#include <limits>

#include "cinn_like/base/status.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"

namespace cinn_like {
namespace {

using llvm::Value;

constexpr double kLn2 = 0.693147180559945309417232;
constexpr double kInf = std::numeric_limits<double>::infinity();
// ln 2 = high + low; n * high is exact for |n| < 2^15.
constexpr double kLn2High = 0.693359375, kLn2Low = kLn2 - kLn2High;

llvm::Type* WithElement(llvm::Type* like, llvm::Type* element) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like);
  return vector == nullptr ? element : llvm::FixedVectorType::get(element, vector->getNumElements());
}

// The functions on f32 lanes. Polynomials are minimax fits; an fma is always one rounding.
class FloatMath {
 public:
  FloatMath(llvm::IRBuilderBase& b, Value* x) : b_(b), float_(x->getType()) {
    int_ = WithElement(float_, b.getInt32Ty());
    double_ = WithElement(float_, b.getDoubleTy());
    long_ = WithElement(float_, b.getInt64Ty());
  }

  Value* Exp(Value* x) {
    // Beyond these bounds the result is inf or 0 anyway; NaN passes both.
    x = ClampMin(ClampMax(x, 89.0), -104.0);
    const Reduced r = ReduceForExp(x);
    return ScaleByPowerOf2(ExpPolynomial(r.remainder), r.power);
  }

  Value* Exp2(Value* x) {
    x = ClampMin(ClampMax(x, 129.0), -151.0);
    Value* shifted = Add(x, F(kRoundingShift));
    Value* r = Sub(x, Sub(shifted, F(kRoundingShift)));
    Value* p =
        Polynomial(r, {1.0, 0.693147182, 0.240226477, 0.0555035956, 0.00961850304, 0.00133909972, 0.00015327803});
    return ScaleByPowerOf2(p, IntegerOfShifted(shifted));
  }

  // 2^n * expm1(r) + (2^n - 1).
  Value* Expm1(Value* x) {
    Value* sign_source = x;
    x = ClampMin(ClampMax(x, 89.0), -80.0);
    const Reduced r = ReduceForExp(x);
    // 2^128 is no f32: one step less, and the result doubled.
    Value* is_top = b_.CreateICmpSGT(r.power, I(127));
    Value* scale = PowerOf2(b_.CreateSelect(is_top, I(127), r.power));
    Value* y = Fma(scale, Expm1Polynomial(r.remainder), Sub(scale, b_.CreateSelect(is_top, F(0.5), F(1.0))));
    return CopySign(Mul(y, b_.CreateSelect(is_top, F(2.0), F(1.0))), sign_source);
  }

  Value* Log(Value* x) {
    Value* is_denormal = b_.CreateFCmpOLT(x, F(0x1p-126));
    Value* normal = b_.CreateSelect(is_denormal, Mul(x, F(0x1p23)), x);
    const Split s = SplitAtSqrtHalf(normal);
    Value* k = b_.CreateSub(s.power, b_.CreateSelect(is_denormal, I(23), I(0)));
    Value* y = LogFromParts(Sub(s.mantissa, F(1.0)), k);
    return LogSpecialCases(y, x, x);
  }

  // 1 + x = 2^k * (1 + f): one fma gives f from x without the error of 1 + x, which is harmless where x is large.
  Value* Log1p(Value* x) {
    Value* u = Add(x, F(1.0));
    const Split s = SplitAtSqrtHalf(u);
    Value* scale = PowerOf2(b_.CreateNeg(s.power));
    Value* f = Fma(x, scale, Sub(scale, F(1.0)));
    f = b_.CreateSelect(b_.CreateICmpSGT(s.power, I(24)), Sub(s.mantissa, F(1.0)), f);
    Value* y = LogFromParts(f, s.power);
    return CopySign(LogSpecialCases(y, u, x), x);
  }

  // Below 0.55: x + x^3 * P(x^2). Above, with e = exp(-2|x|): 1 - 2e / (1 + e).
  Value* Tanh(Value* x) {
    Value* z = Mul(x, x);
    Value* p = Polynomial(z, {-0.333333164, 0.133325458, -0.0538478568, 0.0210525393, -0.00624614116});
    Value* small = Fma(Mul(z, p), x, x);
    Value* a = ClampMax(Abs(x), 10.0);
    const Reduced r = ReduceForExp(Mul(a, F(-2.0)));
    Value* e = Mul(ExpPolynomial(r.remainder), PowerOf2(r.power));
    Value* large = Sub(F(1.0), Div(Add(e, e), Add(e, F(1.0))));
    return b_.CreateSelect(b_.CreateFCmpOLT(a, F(0.55)), CopySign(small, x), CopySign(large, x));
  }

  // Below 1: x + x * P(x^2). Above: 1 - exp(Q(|x|)), where Q approximates log(erfc).
  Value* Erf(Value* x) {
    Value* a = ClampMax(Abs(x), 4.0);
    Value* z = Mul(x, x);
    Value* p = Polynomial(
        z, {0.128379166, -0.37612626, 0.112835787, -0.0268533472, 0.0051871622, -0.00079978531, 7.80690389e-05});
    Value* small = Fma(x, p, x);
    Value* q = Polynomial(
        a, {-0.000244713272, -1.12747502, -0.637516856, -0.103640571, 0.0220878348, -0.00300861034, 0.000192436666});
    const Reduced r = ReduceForExp(q);
    Value* large = Sub(F(1.0), Mul(ExpPolynomial(r.remainder), PowerOf2(r.power)));
    return b_.CreateSelect(b_.CreateFCmpOLT(a, F(1.0)), small, CopySign(large, x));
  }

  // sin(x + quarter_turns * pi/2), for |x| <= kMaxTrigArgument; reduced in f64, where pi/2 has bits enough.
  Value* SinCos(Value* x, int quarter_turns) {
    Value* wide = b_.CreateFPExt(x, double_);
    Value* shifted = FmaD(wide, D(2 / M_PI), D(kRoundingShiftD));
    Value* turns = b_.CreateFSub(shifted, D(kRoundingShiftD));
    Value* r = FmaD(turns, D(-1.5707963267948966), wide);
    r = b_.CreateFPTrunc(FmaD(turns, D(-6.123233995736766e-17), r), float_);
    Value* quadrant = b_.CreateAdd(b_.CreateTrunc(b_.CreateBitCast(shifted, long_), int_), I(quarter_turns));
    Value* z = Mul(r, r);
    Value* sin = Polynomial(z, {-0.166666672, 0.0083333794, -0.000198530703, 2.83268992e-06});
    sin = Fma(Mul(z, sin), r, r);
    Value* cos = Polynomial(z, {-0.5, 0.0416666679, -0.00138889824, 2.48229844e-05, -2.89772998e-07});
    cos = Fma(z, cos, F(1.0));
    Value* odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, I(1)), I(0));
    Value* y = b_.CreateBitCast(b_.CreateSelect(odd, cos, sin), int_);
    Value* sign = b_.CreateShl(b_.CreateAnd(quadrant, I(2)), 30);
    y = b_.CreateBitCast(b_.CreateXor(y, sign), float_);
    // The polynomial loses the sign of a zero.
    return quarter_turns == 0 ? b_.CreateSelect(b_.CreateFCmpOEQ(x, F(0.0)), x, y) : y;
  }
  static constexpr double kMaxTrigArgument = 0x1p28;

  // 2^(y * log2|x|) in f64, then the sign and the special cases.
  Value* Pow(Value* x, Value* y) {
    Value* zero = F(0.0);
    Value* ax = Abs(x);
    Value* exponent = b_.CreateFMul(b_.CreateFPExt(y, double_), Log2InDouble(ax));
    Value* is_one = b_.CreateOr(b_.CreateFCmpOEQ(ax, F(1.0)), b_.CreateFCmpOEQ(y, zero));
    Value* magnitude = Exp2FromDouble(b_.CreateSelect(is_one, D(0.0), exponent));
    Value* half = Mul(y, F(0.5));
    Value* is_integer = b_.CreateFCmpOEQ(Intrinsic(llvm::Intrinsic::trunc, y), y);
    Value* is_odd = b_.CreateAnd(is_integer, b_.CreateFCmpONE(Intrinsic(llvm::Intrinsic::trunc, half), half));
    Value* r = b_.CreateSelect(is_odd, CopySign(magnitude, x), magnitude);
    // A finite negative base has no root; -inf has (it is a limit), and NaN to the power 0 is 1.
    Value* is_negative = b_.CreateAnd(b_.CreateFCmpOLT(x, zero), b_.CreateFCmpOGT(x, F(-kInf)));
    Value* no_root = b_.CreateAnd(is_negative, b_.CreateNot(is_integer));
    r = b_.CreateSelect(no_root, F(std::nan("")), r);
    Value* minus_one_to_nan = b_.CreateAnd(b_.CreateFCmpUNO(y, y), b_.CreateFCmpUNE(x, F(1.0)));
    return b_.CreateSelect(minus_one_to_nan, y, r);
  }

  Value* Sqrt(Value* x) { return Intrinsic(llvm::Intrinsic::sqrt, x); }
  Value* Rsqrt(Value* x) { return Div(llvm::ConstantFP::get(x->getType(), 1.0), Sqrt(x)); }
  Value* IsTooLargeForTrig(Value* x) { return b_.CreateFCmpOGT(Abs(x), F(kMaxTrigArgument)); }

 private:
  // Adding it rounds to an integer, to even, and leaves that integer in the low bits.
  static constexpr double kRoundingShift = 12582912.0;           // 1.5 * 2^23
  static constexpr double kRoundingShiftD = 6755399441055744.0;  // 1.5 * 2^52

  struct Reduced {
    Value* remainder;  // |remainder| <= ln(2) / 2
    Value* power;      // i32
  };
  struct Split {
    Value* mantissa;  // in [sqrt(1/2), sqrt(2))
    Value* power;     // i32
  };

  Value* F(double v) { return llvm::ConstantFP::get(float_, v); }
  Value* D(double v) { return llvm::ConstantFP::get(double_, v); }
  Value* I(int32_t v) { return llvm::ConstantInt::get(int_, static_cast<uint32_t>(v)); }
  Value* Add(Value* x, Value* y) { return b_.CreateFAdd(x, y); }
  Value* Sub(Value* x, Value* y) { return b_.CreateFSub(x, y); }
  Value* Mul(Value* x, Value* y) { return b_.CreateFMul(x, y); }
  Value* Div(Value* x, Value* y) { return b_.CreateFDiv(x, y); }
  Value* Neg(Value* x) { return b_.CreateFNeg(x); }
  Value* Abs(Value* x) { return Intrinsic(llvm::Intrinsic::fabs, x); }
  Value* Intrinsic(llvm::Intrinsic::ID id, Value* x) { return b_.CreateUnaryIntrinsic(id, x); }
  Value* Fma(Value* x, Value* y, Value* z) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  }
  Value* FmaD(Value* x, Value* y, Value* z) { return Fma(x, y, z); }
  Value* CopySign(Value* x, Value* sign) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign); }
  // NaN stays NaN: it is the second operand of the hardware's min and max.
  Value* ClampMax(Value* x, double v) { return b_.CreateSelect(b_.CreateFCmpOLT(F(v), x), F(v), x); }
  Value* ClampMin(Value* x, double v) { return b_.CreateSelect(b_.CreateFCmpOGT(F(v), x), F(v), x); }

  Value* Polynomial(Value* x, std::initializer_list<double> coefficients) {
    auto it = std::rbegin(coefficients);
    Value* r = llvm::ConstantFP::get(x->getType(), *it);
    for (++it; it != std::rend(coefficients); ++it) r = Fma(r, x, llvm::ConstantFP::get(x->getType(), *it));
    return r;
  }

  Value* IntegerOfShifted(Value* shifted) {
    return b_.CreateSub(b_.CreateBitCast(shifted, int_), b_.CreateBitCast(F(kRoundingShift), int_));
  }
  // 2^n for -127 < n < 128.
  Value* PowerOf2(Value* n) { return b_.CreateBitCast(b_.CreateShl(b_.CreateAdd(n, I(127)), 23), float_); }
  // p * 2^n in two exact-until-the-last steps, so that results may be denormal or infinite.
  Value* ScaleByPowerOf2(Value* p, Value* n) {
    Value* half = b_.CreateAShr(n, 1);
    return Mul(Mul(p, PowerOf2(half)), PowerOf2(b_.CreateSub(n, half)));
  }

  Reduced ReduceForExp(Value* x) {
    Value* shifted = Fma(x, F(1 / kLn2), F(kRoundingShift));
    Value* n = Sub(shifted, F(kRoundingShift));
    Value* r = Fma(n, F(-kLn2Low), Fma(n, F(-kLn2High), x));
    return {r, IntegerOfShifted(shifted)};
  }
  Value* ExpPolynomial(Value* r) {
    return Polynomial(r, {1.0, 1.0, 0.49999994, 0.166665211, 0.0416682735, 0.00836868584, 0.00138201378});
  }
  Value* Expm1Polynomial(Value* r) {
    Value* p = Polynomial(r, {0.5, 0.166666657, 0.0416664928, 0.00833354425, 0.00139323424, 0.000197633883});
    return Fma(Mul(r, r), p, r);
  }

  Split SplitAtSqrtHalf(Value* x) {
    constexpr int32_t kSqrtHalf = 0x3f3504f3;
    Value* bits = b_.CreateSub(b_.CreateBitCast(x, int_), I(kSqrtHalf));
    Value* mantissa = b_.CreateAdd(b_.CreateAnd(bits, I(0x7fffff)), I(kSqrtHalf));
    return {b_.CreateBitCast(mantissa, float_), b_.CreateAShr(bits, 23)};
  }
  // log(2^k * (1 + f)).
  Value* LogFromParts(Value* f, Value* k) {
    Value* n = b_.CreateSIToFP(k, float_);
    Value* z = Mul(f, f);
    Value* p = Polynomial(
        f, {0.333333313, -0.250008196, 0.200012416, -0.166234091, 0.1420158, -0.131596103, 0.127622128, -0.0763642788});
    Value* low = Fma(Mul(z, f), p, Fma(n, F(kLn2Low), Mul(z, F(-0.5))));
    return Fma(n, F(kLn2High), Add(low, f));
  }
  // `y` holds for 0 < argument < inf; `x` is what NaN and +inf come from.
  Value* LogSpecialCases(Value* y, Value* argument, Value* x) {
    Value* zero = F(0.0);
    y = b_.CreateSelect(b_.CreateFCmpOLT(argument, F(kInf)), y, x);
    y = b_.CreateSelect(b_.CreateFCmpOEQ(argument, zero), F(-kInf), y);
    return b_.CreateSelect(b_.CreateFCmpOLT(argument, zero), F(std::nan("")), y);
  }
  // log2 of x >= 0 with about 2^-38 relative error; -inf at 0, inf and NaN kept.
  Value* Log2InDouble(Value* x) {
    Value* wide = b_.CreateFPExt(x, double_);
    constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
    auto l = [&](int64_t v) { return llvm::ConstantInt::get(long_, static_cast<uint64_t>(v)); };
    Value* bits = b_.CreateSub(b_.CreateBitCast(wide, long_), l(kSqrtHalf));
    Value* mantissa = b_.CreateBitCast(b_.CreateAdd(b_.CreateAnd(bits, l(0xfffffffffffff)), l(kSqrtHalf)), double_);
    Value* n = b_.CreateSIToFP(b_.CreateTrunc(b_.CreateAShr(bits, 52), int_), double_);
    Value* s = Div(Sub(mantissa, D(1.0)), Add(mantissa, D(1.0)));
    Value* p = Polynomial(Mul(s, s), {2.8853900817778486, 0.9617966941154005, 0.5770779417552728, 0.41220931595737403,
                                      0.3199030051235063, 0.2829397889215998});
    Value* r = Fma(s, p, n);
    r = b_.CreateSelect(b_.CreateFCmpOLT(wide, D(kInf)), r, wide);
    return b_.CreateSelect(b_.CreateFCmpOEQ(wide, D(0.0)), D(-kInf), r);
  }
  // 2^e as f32: the conversion at the end overflows and underflows as it should.
  Value* Exp2FromDouble(Value* e) {
    e = b_.CreateSelect(b_.CreateFCmpOLT(D(200.0), e), D(200.0), e);
    e = b_.CreateSelect(b_.CreateFCmpOGT(D(-200.0), e), D(-200.0), e);
    Value* shifted = Add(e, D(kRoundingShiftD));
    Value* r = Sub(e, Sub(shifted, D(kRoundingShiftD)));
    Value* p = Polynomial(
        r, {0.9999999999997616, 0.693147180546493, 0.2402265069888564, 0.05550410939428138, 0.009618128542143958,
            0.0013333451978540592, 0.00015403852027547071, 1.530975987573159e-05, 1.317583717406253e-06});
    Value* power = b_.CreateBitCast(
        b_.CreateShl(b_.CreateAdd(b_.CreateBitCast(shifted, long_), llvm::ConstantInt::get(long_, 1023)), 52), double_);
    return b_.CreateFPTrunc(Mul(p, power), float_);
  }

  llvm::IRBuilderBase& b_;
  llvm::Type* float_;
  llvm::Type* int_;
  llvm::Type* double_;
  llvm::Type* long_;
};

// |x| less multiples of |y| in f64, until no lane has a whole one left. A multiple has 28 bits, so that its product
// with y is exact, and is never more than what is left, so that the difference is exact too and not negative; each step
// takes 2^27 off the quotient, which is below 2^28 in all but strange cases.
void WriteRemainder(llvm::Function* f) {
  llvm::LLVMContext& c = f->getContext();
  llvm::BasicBlock* entry = llvm::BasicBlock::Create(c, "entry", f);
  llvm::BasicBlock* test = llvm::BasicBlock::Create(c, "test", f);
  llvm::BasicBlock* step = llvm::BasicBlock::Create(c, "step", f);
  llvm::BasicBlock* done = llvm::BasicBlock::Create(c, "done", f);
  llvm::IRBuilder<> b(entry);
  Value *x = f->getArg(0), *y = f->getArg(1);
  llvm::Type* wide = WithElement(x->getType(), b.getDoubleTy());
  llvm::Type* bits = WithElement(x->getType(), b.getInt64Ty());
  const auto number = [&](double v) { return llvm::ConstantFP::get(wide, v); };
  const auto abs = [&](Value* v) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, b.CreateFPExt(v, wide)); };
  // No remainder: of infinity and NaN, by zero and NaN.
  Value *ax = abs(x), *ay = abs(y);
  Value* is_number = b.CreateAnd(b.CreateFCmpOLT(ax, number(kInf)), b.CreateFCmpOGT(ay, number(0)));
  Value* first = b.CreateSelect(is_number, ax, number(0));
  Value* divisor = b.CreateSelect(is_number, ay, number(1));
  b.CreateBr(test);

  b.SetInsertPoint(test);
  llvm::PHINode* left = b.CreatePHI(wide, 2);
  left->addIncoming(first, entry);
  Value* is_over = b.CreateFCmpOGE(left, divisor);
  b.CreateCondBr(b.CreateOrReduce(is_over), step, done);

  b.SetInsertPoint(step);
  Value* quotient = b.CreateFMul(b.CreateFDiv(left, divisor), number(1 - 0x1p-52));
  Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, quotient);
  constexpr uint64_t kHighBits = ~((uint64_t{1} << 25) - 1);
  whole = b.CreateBitCast(b.CreateAnd(b.CreateBitCast(whole, bits), llvm::ConstantInt::get(bits, kHighBits)), wide);
  Value* less = b.CreateFSub(left, b.CreateFMul(whole, divisor));
  // What the last quotient lacked; of more, a divisor would be rounded off.
  Value* is_one = b.CreateAnd(b.CreateFCmpOGE(less, divisor), b.CreateFCmpOLT(less, b.CreateFAdd(divisor, divisor)));
  less = b.CreateSelect(is_one, b.CreateFSub(less, divisor), less);
  left->addIncoming(b.CreateSelect(is_over, less, left), step);
  b.CreateBr(test);

  b.SetInsertPoint(done);
  Value* r = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, b.CreateFPTrunc(left, x->getType()), x);
  b.CreateRet(b.CreateSelect(is_number, r, llvm::ConstantFP::get(x->getType(), std::nan(""))));
}

std::string_view LibmName(ir::ExprOp op) { return ir::RowOf(op)->text; }

}  // namespace

llvm::Function* VectorMath::Helper(llvm::IRBuilderBase& b, std::string_view name, Value* x, size_t num_args,
                                   bool* is_new) {
  const auto* vector = llvm::cast<llvm::FixedVectorType>(x->getType());
  const std::string full_name = Cat(name, ".x", vector->getNumElements());
  llvm::Function* f = module_.getFunction(full_name);
  *is_new = f == nullptr;
  if (f != nullptr) return f;
  const std::vector<llvm::Type*> types(num_args, x->getType());
  f = llvm::Function::Create(llvm::FunctionType::get(x->getType(), types, false), llvm::GlobalValue::InternalLinkage,
                             full_name, module_);
  f->addFnAttrs(llvm::AttrBuilder(module_.getContext(), b.GetInsertBlock()->getParent()->getAttributes().getFnAttrs()));
  f->addFnAttr(llvm::Attribute::NoInline);
  return f;
}

// One out-of-line loop over the lanes per function and lane count keeps the inlined code small.
Value* VectorMath::CallLibm(llvm::IRBuilderBase& b, std::string_view name, Value* x, Value* y) {
  llvm::Type* type = x->getType();
  llvm::Type* scalar = type->getScalarType();
  const std::string symbol = Cat(name, scalar->isFloatTy() ? "f" : "");
  std::vector<Value*> args = {x};
  if (y != nullptr) args.push_back(y);
  const std::vector<llvm::Type*> scalars(args.size(), scalar);
  const llvm::FunctionCallee libm =
      module_.getOrInsertFunction(symbol, llvm::FunctionType::get(scalar, scalars, false));
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (vector == nullptr) return b.CreateCall(libm, args);

  bool is_new = false;
  llvm::Function* helper = Helper(b, symbol, x, args.size(), &is_new);
  if (is_new) {
    llvm::LLVMContext& c = module_.getContext();
    llvm::BasicBlock* entry = llvm::BasicBlock::Create(c, "entry", helper);
    llvm::BasicBlock* loop = llvm::BasicBlock::Create(c, "loop", helper);
    llvm::BasicBlock* done = llvm::BasicBlock::Create(c, "done", helper);
    llvm::IRBuilder<> h(entry);
    std::vector<Value*> memory;
    for (llvm::Argument& a : helper->args()) {
      memory.push_back(h.CreateAlloca(type));
      h.CreateStore(&a, memory.back());
    }
    h.CreateBr(loop);
    h.SetInsertPoint(loop);
    llvm::PHINode* i = h.CreatePHI(h.getInt64Ty(), 2);
    i->addIncoming(h.getInt64(0), entry);
    std::vector<Value*> lanes;
    for (Value* m : memory) lanes.push_back(h.CreateLoad(scalar, h.CreateInBoundsGEP(scalar, m, i)));
    h.CreateStore(h.CreateCall(libm, lanes), h.CreateInBoundsGEP(scalar, memory[0], i));
    Value* next = h.CreateAdd(i, h.getInt64(1));
    i->addIncoming(next, loop);
    h.CreateCondBr(h.CreateICmpULT(next, h.getInt64(vector->getNumElements())), loop, done);
    h.SetInsertPoint(done);
    h.CreateRet(h.CreateLoad(type, memory[0]));
  }
  return b.CreateCall(helper, args);
}

Value* VectorMath::EmitRemainder(llvm::IRBuilderBase& b, Value* x, Value* y) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (vector == nullptr || !vector->getElementType()->isFloatTy()) return b.CreateFRem(x, y);
  // Of more lanes than a register's it would keep too much at once.
  constexpr unsigned kMostLanes = 16;
  const unsigned lanes = vector->getNumElements();
  if (lanes > kMostLanes && lanes % kMostLanes == 0) {
    Value* r = nullptr;
    for (unsigned first = 0; first < lanes; first += kMostLanes) {
      std::vector<int> part, joined;
      for (unsigned i = 0; i < kMostLanes; ++i) part.push_back(static_cast<int>(first + i));
      Value* v = EmitRemainder(b, b.CreateShuffleVector(x, part), b.CreateShuffleVector(y, part));
      for (unsigned i = 0; i < lanes; ++i)
        joined.push_back(static_cast<int>(i / kMostLanes == first / kMostLanes ? lanes + i - first : i));
      std::vector<int> widened(lanes, -1);
      for (unsigned i = 0; i < kMostLanes; ++i) widened[i] = static_cast<int>(i);
      Value* wide = b.CreateShuffleVector(v, widened);
      r = r == nullptr ? wide : b.CreateShuffleVector(r, wide, joined);
    }
    return r;
  }
  bool is_new = false;
  llvm::Function* helper = Helper(b, "remainder", x, 2, &is_new);
  if (is_new) WriteRemainder(helper);
  return b.CreateCall(helper, {x, y});
}

Value* VectorMath::Emit(llvm::IRBuilderBase& b, ir::ExprOp op, Value* x, Value* y) {
  FloatMath math(b, x);
  if (op == ir::ExprOp::kSqrt) return math.Sqrt(x);
  if (op == ir::ExprOp::kRsqrt) return math.Rsqrt(x);
  if (!x->getType()->getScalarType()->isFloatTy()) return CallLibm(b, LibmName(op), x, y);
  switch (op) {
    case ir::ExprOp::kExp:
      return math.Exp(x);
    case ir::ExprOp::kExp2:
      return math.Exp2(x);
    case ir::ExprOp::kExpm1:
      return math.Expm1(x);
    case ir::ExprOp::kLog:
      return math.Log(x);
    case ir::ExprOp::kLog1p:
      return math.Log1p(x);
    case ir::ExprOp::kTanh:
      return math.Tanh(x);
    case ir::ExprOp::kErf:
      return math.Erf(x);
    case ir::ExprOp::kPow:
      return math.Pow(x, y);
    default:
      break;
  }
  // sin and cos: arguments beyond the reduction's reach are rare, and libm's.
  Value* fast = math.SinCos(x, op == ir::ExprOp::kCos ? 1 : 0);
  Value* too_large = math.IsTooLargeForTrig(x);
  if (too_large->getType()->isVectorTy()) too_large = b.CreateOrReduce(too_large);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* rare = llvm::BasicBlock::Create(b.getContext(), "rare", before->getParent());
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "", before->getParent());
  b.CreateCondBr(too_large, rare, after, llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(rare);
  Value* slow = CallLibm(b, LibmName(op), x, y);
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* r = b.CreatePHI(x->getType(), 2);
  r->addIncoming(fast, before);
  r->addIncoming(slow, rare);
  return r;
}

}  // namespace cinn_like
