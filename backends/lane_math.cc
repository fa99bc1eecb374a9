#include "backends/lane_math.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "backends/llvm_machine.h"
#include "backends/math_tables.h"
#include "cinn_like/base/status.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/xxhash.h"

namespace cinn_like {
namespace {

using llvm::Value;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kRoundingShiftD = 6755399441055744.0;  // 1.5 * 2^52
// (log((1 + q) / (1 - q)) - 2q - 2/3 q^3) / q^5 in q^2, |q| <= 0.1716.
constexpr double kLogInParts[] = {0.4,
                                  0.28571428571429364,
                                  0.22222222221656163,
                                  0.1818181833533008,
                                  0.15384594969220253,
                                  0.1333480432934243,
                                  0.11706246100734245,
                                  0.11723076547247843};
// log2((1 + s) / (1 - s)) / s in s^2, and 2^r, |r| <= 1/2: in f64, for results in f32.
constexpr double kLog2[] = {2.8853900817778486,  0.9617966941154005, 0.5770779417552728,
                            0.41220931595737403, 0.3199030051235063, 0.2829397889215998};
constexpr double kExp2[] = {0.9999999999997616,     0.693147180546493,     0.2402265069888564,
                            0.05550410939428138,    0.009618128542143958,  0.0013333451978540592,
                            0.00015403852027547071, 1.530975987573159e-05, 1.317583717406253e-06};

class LaneMath {
 public:
  // For arguments like x.
  LaneMath(llvm::IRBuilderBase& b, const llvm::TargetMachine& machine, const Value* x);

  Value* Exp(Value* x);
  Value* Exp2(Value* x);
  Value* Expm1(Value* x);
  Value* Log(Value* x);
  Value* Log1p(Value* x);
  Value* Tanh(Value* x);
  Value* Erf(Value* x);
  Value* Sqrt(Value* x);
  Value* Rsqrt(Value* x);
  // sin(x + quarter_turns * pi/2), for what is not too large.
  Value* SinCos(Value* x, int quarter_turns);
  Value* IsTooLargeForTrig(Value* x);
  Value* Pow(Value* x, Value* y);

 private:
  struct Reduced {
    Value* remainder;  // |remainder| <= ln(2) / 2
    Value* power;      // a whole number
  };
  struct Split {
    Value* mantissa;  // in [sqrt(1/2), sqrt(2))
    Value* power;     // a whole number
  };
  struct Parts {
    Value* high;
    Value* low;  // what the sum of both has beyond high
  };
  struct Turned {
    Value* remainder;  // |remainder| <= pi / 4
    Value* quadrant;   // a whole number, modulo 4
  };

  Value* F(double v) { return llvm::ConstantFP::get(float_, v); }
  Value* D(double v) { return llvm::ConstantFP::get(double_, v); }
  Value* I(int64_t v) { return llvm::ConstantInt::getSigned(int_, v); }
  Value* Add(Value* x, Value* y) { return b_.CreateFAdd(x, y); }
  Value* Sub(Value* x, Value* y) { return b_.CreateFSub(x, y); }
  Value* Mul(Value* x, Value* y) { return b_.CreateFMul(x, y); }
  Value* Div(Value* x, Value* y) { return b_.CreateFDiv(x, y); }
  Value* Abs(Value* x) { return Intrinsic(llvm::Intrinsic::fabs, x); }
  Value* Intrinsic(llvm::Intrinsic::ID id, Value* x) { return b_.CreateUnaryIntrinsic(id, x); }
  Value* Fma(Value* x, Value* y, Value* z) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  }
  Value* CopySign(Value* x, Value* sign) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign); }
  // NaN stays NaN: it is the second operand of the hardware's min and max.
  Value* ClampMax(Value* x, double v) { return b_.CreateSelect(b_.CreateFCmpOLT(F(v), x), F(v), x); }
  Value* ClampMin(Value* x, double v) { return b_.CreateSelect(b_.CreateFCmpOGT(F(v), x), F(v), x); }
  Value* Polynomial(Value* x, std::span<const double> coefficients);
  // table[index], 0 <= index < 16, for each lane: a permutation of registers where there is one.
  Value* LookUp(const MathTable& table, Value* index);

  Value* IntegerOfShifted(Value* shifted);
  Value* PowerOf2(Value* n);
  Value* ScaleByPowerOf2(Value* p, Value* n);
  Reduced ReduceForExp(Value* x);
  Value* ExpPolynomial(Value* r) { return Polynomial(r, t_.exp); }
  Value* Expm1Polynomial(Value* r);
  Split SplitAtSqrtHalf(Value* x);
  Split SplitNumber(Value* x);
  Value* ToFloat(Value* k);
  Value* LogFromParts(Value* f, Value* k);
  Value* LogSpecialCases(Value* y, Value* argument, Value* x);
  Turned ReduceTurns(Value* x);
  // x^y, x >= 0; y = 0 and x = 1 apart.
  Value* PowInDouble(Value* x, Value* y);
  Value* PowInParts(Value* x, Value* y);
  Value* Log2InDouble(Value* x);
  Value* Exp2FromDouble(Value* e);

  llvm::IRBuilderBase& b_;
  const llvm::TargetMachine& machine_;
  const MathTables& t_;
  const double rounding_shift_;  // adding it rounds to an integer, to even, and leaves that integer in the low bits
  llvm::Type* float_;
  llvm::Type* int_;  // as many bits as float_ has
  llvm::Type* double_;
  llvm::Type* long_;
};

LaneMath::LaneMath(llvm::IRBuilderBase& b, const llvm::TargetMachine& machine, const Value* x)
    : b_(b),
      machine_(machine),
      t_(MathTables::Of(x->getType()->getScalarType()->isDoubleTy())),
      rounding_shift_(std::ldexp(1.5, t_.mantissa_bits)),
      float_(x->getType()) {
  int_ = WithElement(float_, b.getIntNTy(float_->getScalarSizeInBits()));
  double_ = WithElement(float_, b.getDoubleTy());
  long_ = WithElement(float_, b.getInt64Ty());
}

Value* LaneMath::Exp(Value* x) {
  // NaN passes both bounds.
  x = ClampMin(ClampMax(x, t_.most_exp), t_.least_exp);
  const Reduced r = ReduceForExp(x);
  return ScaleByPowerOf2(ExpPolynomial(r.remainder), r.power);
}

Value* LaneMath::Exp2(Value* x) {
  x = ClampMin(ClampMax(x, t_.most_exp2), t_.least_exp2);
  Value* shifted = Add(x, F(rounding_shift_));
  Value* r = Sub(x, Sub(shifted, F(rounding_shift_)));
  return ScaleByPowerOf2(Polynomial(r, t_.exp2), IntegerOfShifted(shifted));
}

// 2^n * expm1(r) + (2^n - 1).
Value* LaneMath::Expm1(Value* x) {
  Value* sign_source = x;
  x = ClampMin(ClampMax(x, t_.most_exp), t_.least_expm1);
  const Reduced r = ReduceForExp(x);
  // 2^(bias + 1) is no number: one step less, and the result doubled.
  Value* is_top = b_.CreateICmpSGT(r.power, I(t_.exponent_bias));
  Value* scale = PowerOf2(b_.CreateSelect(is_top, I(t_.exponent_bias), r.power));
  Value* y = Fma(scale, Expm1Polynomial(r.remainder), Sub(scale, b_.CreateSelect(is_top, F(0.5), F(1.0))));
  return CopySign(Mul(y, b_.CreateSelect(is_top, F(2.0), F(1.0))), sign_source);
}

Value* LaneMath::Log(Value* x) {
  const Split s = SplitNumber(x);
  Value* y = LogFromParts(Sub(s.mantissa, F(1.0)), s.power);
  return LogSpecialCases(y, x, x);
}

// 1 + x = 2^k * (1 + f): one fma gives f from x without the error of 1 + x, which is harmless where x is large.
Value* LaneMath::Log1p(Value* x) {
  Value* u = Add(x, F(1.0));
  const Split s = SplitAtSqrtHalf(u);
  Value* scale = PowerOf2(b_.CreateNeg(s.power));
  Value* f = Fma(x, scale, Sub(scale, F(1.0)));
  f = b_.CreateSelect(b_.CreateICmpSGT(s.power, I(t_.mantissa_bits + 1)), Sub(s.mantissa, F(1.0)), f);
  Value* y = LogFromParts(f, s.power);
  return CopySign(LogSpecialCases(y, u, x), x);
}

// Below the edge: x + x^3 * P(x^2). Above, with e = exp(-2|x|): 1 - 2e / (1 + e).
Value* LaneMath::Tanh(Value* x) {
  Value* z = Mul(x, x);
  Value* small = Fma(Mul(z, Polynomial(z, t_.tanh)), x, x);
  Value* a = ClampMax(Abs(x), t_.most_tanh);
  const Reduced r = ReduceForExp(Mul(a, F(-2.0)));
  Value* e = Mul(ExpPolynomial(r.remainder), PowerOf2(r.power));
  Value* large = Sub(F(1.0), Div(Add(e, e), Add(e, F(1.0))));
  return b_.CreateSelect(b_.CreateFCmpOLT(a, F(t_.tanh_edge)), CopySign(small, x), CopySign(large, x));
}

// With the next of 16 places c to |x|, t = |x| - c: erf(c) + t * P_c(t). About the first, zero, |x| + |x| * P_0(|x|) is
// as exact for the smallest numbers.
Value* LaneMath::Erf(Value* x) {
  Value* a = ClampMax(Abs(x), t_.most_erf);
  Value* index = b_.CreateAnd(b_.CreateBitCast(Fma(a, F(1 / t_.erf_step), F(rounding_shift_)), int_), I(15));
  Value* t = Sub(a, LookUp(t_.erf_places, index));
  Value* p = LookUp(t_.erf.back(), index);
  for (size_t k = t_.erf.size() - 1; k-- > 0;) p = Fma(p, t, LookUp(t_.erf[k], index));
  Value* at_place = b_.CreateSelect(b_.CreateICmpEQ(index, I(0)), a, LookUp(t_.erf_at_places, index));
  return CopySign(Fma(p, t, at_place), x);
}

Value* LaneMath::Sqrt(Value* x) { return Intrinsic(llvm::Intrinsic::sqrt, x); }
Value* LaneMath::Rsqrt(Value* x) { return Div(F(1.0), Sqrt(x)); }

Value* LaneMath::SinCos(Value* x, int quarter_turns) {
  const Turned turned = ReduceTurns(x);
  Value* quadrant = b_.CreateAdd(turned.quadrant, I(quarter_turns));
  Value* r = turned.remainder;
  Value* z = Mul(r, r);
  Value* sin = Fma(Mul(z, Polynomial(z, t_.sin)), r, r);
  Value* cos = Fma(z, Polynomial(z, t_.cos), F(1.0));
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, I(1)), I(0));
  Value* y = b_.CreateBitCast(b_.CreateSelect(odd, cos, sin), int_);
  Value* sign = b_.CreateShl(b_.CreateAnd(quadrant, I(2)), float_->getScalarSizeInBits() - 2);
  y = b_.CreateBitCast(b_.CreateXor(y, sign), float_);
  // The polynomial loses the sign of a zero.
  return quarter_turns == 0 ? b_.CreateSelect(b_.CreateFCmpOEQ(x, F(0.0)), x, y) : y;
}
Value* LaneMath::IsTooLargeForTrig(Value* x) { return b_.CreateFCmpOGT(Abs(x), F(t_.most_trig)); }

// f32 in f64, where pi/2 has bits enough. f64 (Cody and Waite): pi/2 in parts of 33 bits, whose multiples are exact, as
// is what a close multiple of the first leaves; what rounding takes from the second difference comes back with the
// third.
LaneMath::Turned LaneMath::ReduceTurns(Value* x) {
  if (float_ != double_) {
    Value* wide = b_.CreateFPExt(x, double_);
    Value* shifted = Fma(wide, D(2 / M_PI), D(kRoundingShiftD));
    Value* turns = b_.CreateFSub(shifted, D(kRoundingShiftD));
    Value* r = Fma(turns, D(-1.5707963267948966), wide);
    r = b_.CreateFPTrunc(Fma(turns, D(-6.123233995736766e-17), r), float_);
    return {r, b_.CreateTrunc(b_.CreateBitCast(shifted, long_), int_)};
  }
  Value* shifted = Fma(x, F(2 / M_PI), F(rounding_shift_));
  Value* turns = Sub(shifted, F(rounding_shift_));
  const auto less = [&](double part, Value* from) { return Fma(turns, F(-part), from); };
  constexpr double kSecond = 0x1.0b4611a6p-34;
  Value* first = less(0x1.921fb544p+0, x);
  Value* second = less(kSecond, first);
  Value* lost = less(kSecond, Sub(first, second));
  Value* r = Add(second, less(0x1.3198a2ep-69, lost));
  return {less(0x1.b839a252049c1p-104, r), b_.CreateBitCast(shifted, int_)};
}

// exp(y * log|x|) with more bits than the type has, then the sign and the special cases.
Value* LaneMath::Pow(Value* x, Value* y) {
  Value* zero = F(0.0);
  Value* ax = Abs(x);
  Value* is_one = b_.CreateOr(b_.CreateFCmpOEQ(ax, F(1.0)), b_.CreateFCmpOEQ(y, zero));
  Value* magnitude = b_.CreateSelect(is_one, F(1.0), float_ == double_ ? PowInParts(ax, y) : PowInDouble(ax, y));
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

// f32: 2^(y * log2(x)) in f64.
Value* LaneMath::PowInDouble(Value* x, Value* y) {
  return Exp2FromDouble(b_.CreateFMul(b_.CreateFPExt(y, double_), Log2InDouble(x)));
}

// f64: the logarithm as a sum of two (Dekker). With q = (m - 1) / (m + 1), log(m) = 2q + 2/3 q^3 + q^5 * P(q^2), whose
// first two terms are such sums.
Value* LaneMath::PowInParts(Value* x, Value* y) {
  const auto multiply = [&](const Parts& p, const Parts& q) {
    Value* high = Mul(p.high, q.high);
    Value* low = Fma(p.high, q.high, b_.CreateFNeg(high));
    return Parts{high, Fma(p.low, q.high, Fma(p.high, q.low, low))};
  };
  // Where |x| >= |y|, or x is 0.
  const auto add = [&](Value* x, Value* y) {
    Value* high = Add(x, y);
    return Parts{high, Add(Sub(x, high), y)};
  };
  const Split s = SplitNumber(x);
  const Parts divisor = add(F(1.0), s.mantissa);
  Value* inverse = Div(F(1.0), divisor.high);
  Value* dividend = Sub(s.mantissa, F(1.0));
  Parts q = {Mul(dividend, inverse), nullptr};
  Value* minus_q = b_.CreateFNeg(q.high);
  q.low = Mul(Fma(minus_q, divisor.low, Fma(minus_q, divisor.high, dividend)), inverse);
  const Parts cube = multiply(q, multiply(q, q));
  const Parts second = multiply({F(0x1.5555555555555p-1), F(0x1.5555555555555p-55)}, cube);
  Value* z = Mul(q.high, q.high);
  Value* rest = Fma(Mul(cube.high, z), Polynomial(z, kLogInParts), Fma(q.low, F(2.0), second.low));
  const Parts log = add(Add(q.high, q.high), second.high);
  Value* n = ToFloat(s.power);
  const Parts sum = add(Mul(n, F(t_.ln2_high)), log.high);
  const Parts whole = add(sum.high, Add(sum.low, Fma(n, F(t_.ln2_low), Add(log.low, rest))));

  const Parts product = multiply({y, F(0.0)}, whole);
  // Of 0, infinity and NaN the logarithm has one part.
  Value* is_number = b_.CreateAnd(b_.CreateFCmpOGT(x, F(0.0)), b_.CreateFCmpOLT(x, F(kInf)));
  Value* special = Mul(y, b_.CreateSelect(b_.CreateFCmpOEQ(x, F(0.0)), F(-kInf), x));
  Value* high = b_.CreateSelect(is_number, product.high, special);
  Value* low = b_.CreateSelect(b_.CreateFCmpOLT(Abs(high), F(t_.most_exp - t_.least_exp)), product.low, F(0.0));
  const Reduced r = ReduceForExp(ClampMin(ClampMax(high, t_.most_exp), t_.least_exp));
  return ScaleByPowerOf2(ExpPolynomial(Add(r.remainder, low)), r.power);
}

Value* LaneMath::Polynomial(Value* x, std::span<const double> coefficients) {
  Value* r = llvm::ConstantFP::get(x->getType(), coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;)
    r = Fma(r, x, llvm::ConstantFP::get(x->getType(), coefficients[i]));
  return r;
}

Value* LaneMath::LookUp(const MathTable& table, Value* index) {
  const std::vector<float> floats(table.begin(), table.end());
  const auto part_of_table = [&](size_t first, size_t n, bool is_vector) -> llvm::Constant* {
    llvm::LLVMContext& c = b_.getContext();
    const llvm::ArrayRef<double> of_double(table.data() + first, n);
    const llvm::ArrayRef<float> of_float(floats.data() + first, n);
    if (!is_vector) {
      return float_ == double_ ? llvm::ConstantDataArray::get(c, of_double) : llvm::ConstantDataArray::get(c, of_float);
    }
    return float_ == double_ ? llvm::ConstantDataVector::get(c, of_double) : llvm::ConstantDataVector::get(c, of_float);
  };
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(float_);
  const unsigned lanes = vector == nullptr ? 1 : vector->getNumElements();
  const bool is_f64 = float_ == double_;
  const bool is_512 = HasFeatures(machine_, "+avx512f") && lanes % (is_f64 ? 8 : 16) == 0;
  if (!is_512 && (is_f64 || lanes % 8 != 0 || !HasFeatures(machine_, "+avx2"))) {
    llvm::Constant* values = part_of_table(0, 16, false);
    const llvm::StringRef bytes = llvm::cast<llvm::ConstantDataArray>(values)->getRawDataValues();
    auto* memory = llvm::cast<llvm::GlobalVariable>(b_.GetInsertBlock()->getModule()->getOrInsertGlobal(
        Cat("table.", llvm::xxh3_64bits(bytes)), values->getType()));
    memory->setInitializer(values);
    memory->setConstant(true);
    memory->setLinkage(llvm::GlobalValue::PrivateLinkage);
    memory->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    llvm::Type* element = float_->getScalarType();
    const auto load = [&](Value* i) {
      return b_.CreateLoad(element, b_.CreateInBoundsGEP(element, memory, b_.CreateZExt(i, b_.getInt64Ty())));
    };
    if (vector == nullptr) return load(index);
    Value* r = llvm::PoisonValue::get(float_);
    for (unsigned i = 0; i < lanes; ++i) r = b_.CreateInsertElement(r, load(b_.CreateExtractElement(index, i)), i);
    return r;
  }
  std::vector<Value*> parts;
  for (Value* i : SplitLanes(b_, index, is_512 && !is_f64 ? 16 : 8)) {
    const auto emit = [&](llvm::Intrinsic::ID id, llvm::ArrayRef<Value*> args) {
      return b_.CreateIntrinsic(id, {}, args);
    };
    if (is_f64) {
      parts.push_back(emit(llvm::Intrinsic::x86_avx512_vpermi2var_pd_512,
                           {part_of_table(0, 8, true), i, part_of_table(8, 8, true)}));
    } else if (is_512) {
      parts.push_back(emit(llvm::Intrinsic::x86_avx512_permvar_sf_512, {part_of_table(0, 16, true), i}));
    } else {
      Value* low = emit(llvm::Intrinsic::x86_avx2_permps, {part_of_table(0, 8, true), i});
      Value* high = emit(llvm::Intrinsic::x86_avx2_permps, {part_of_table(8, 8, true), i});
      parts.push_back(b_.CreateSelect(b_.CreateICmpUGT(i, llvm::ConstantInt::get(i->getType(), 7)), high, low));
    }
  }
  return llvm::concatenateVectors(b_, parts);
}

Value* LaneMath::IntegerOfShifted(Value* shifted) {
  return b_.CreateSub(b_.CreateBitCast(shifted, int_), b_.CreateBitCast(F(rounding_shift_), int_));
}
// 2^n for -bias < n <= bias.
Value* LaneMath::PowerOf2(Value* n) {
  return b_.CreateBitCast(b_.CreateShl(b_.CreateAdd(n, I(t_.exponent_bias)), t_.mantissa_bits), float_);
}
// p * 2^n in two exact-until-the-last steps, so that results may be denormal or infinite.
Value* LaneMath::ScaleByPowerOf2(Value* p, Value* n) {
  Value* half = b_.CreateAShr(n, 1);
  return Mul(Mul(p, PowerOf2(half)), PowerOf2(b_.CreateSub(n, half)));
}

LaneMath::Reduced LaneMath::ReduceForExp(Value* x) {
  Value* shifted = Fma(x, F(1 / M_LN2), F(rounding_shift_));
  Value* n = Sub(shifted, F(rounding_shift_));
  Value* r = Fma(n, F(-t_.ln2_low), Fma(n, F(-t_.ln2_high), x));
  return {r, IntegerOfShifted(shifted)};
}
Value* LaneMath::Expm1Polynomial(Value* r) { return Fma(Mul(r, r), Polynomial(r, t_.expm1), r); }

LaneMath::Split LaneMath::SplitAtSqrtHalf(Value* x) {
  const auto sqrt_half = static_cast<int64_t>(t_.sqrt_half_bits);
  Value* bits = b_.CreateSub(b_.CreateBitCast(x, int_), I(sqrt_half));
  Value* mantissa = b_.CreateAdd(b_.CreateAnd(bits, I((int64_t{1} << t_.mantissa_bits) - 1)), I(sqrt_half));
  return {b_.CreateBitCast(mantissa, float_), b_.CreateAShr(bits, t_.mantissa_bits)};
}
// The same of any number above 0.
LaneMath::Split LaneMath::SplitNumber(Value* x) {
  Value* is_denormal = b_.CreateFCmpOLT(x, F(std::ldexp(1.0, 1 - t_.exponent_bias)));
  const Split s = SplitAtSqrtHalf(b_.CreateSelect(is_denormal, Mul(x, F(std::ldexp(1.0, t_.mantissa_bits))), x));
  return {s.mantissa, b_.CreateSub(s.power, b_.CreateSelect(is_denormal, I(t_.mantissa_bits), I(0)))};
}
Value* LaneMath::ToFloat(Value* k) {
  return b_.CreateSIToFP(b_.CreateTrunc(k, WithElement(float_, b_.getInt32Ty())), float_);
}
// log(2^k * (1 + f)).
Value* LaneMath::LogFromParts(Value* f, Value* k) {
  Value* n = ToFloat(k);
  Value* z = Mul(f, f);
  Value* low = Fma(Mul(z, f), Polynomial(f, t_.log), Fma(n, F(t_.ln2_low), Mul(z, F(-0.5))));
  return Fma(n, F(t_.ln2_high), Add(low, f));
}
// `y` holds for 0 < argument < inf; `x` is what NaN and +inf come from.
Value* LaneMath::LogSpecialCases(Value* y, Value* argument, Value* x) {
  y = b_.CreateSelect(b_.CreateFCmpOLT(argument, F(kInf)), y, x);
  y = b_.CreateSelect(b_.CreateFCmpOEQ(argument, F(0.0)), F(-kInf), y);
  return b_.CreateSelect(b_.CreateFCmpOLT(argument, F(0.0)), F(std::nan("")), y);
}
// log2 of x >= 0 with about 2^-38 relative error; -inf at 0, inf and NaN kept.
Value* LaneMath::Log2InDouble(Value* x) {
  Value* wide = b_.CreateFPExt(x, double_);
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  auto l = [&](int64_t v) { return llvm::ConstantInt::get(long_, static_cast<uint64_t>(v)); };
  Value* bits = b_.CreateSub(b_.CreateBitCast(wide, long_), l(kSqrtHalf));
  Value* mantissa = b_.CreateBitCast(b_.CreateAdd(b_.CreateAnd(bits, l(0xfffffffffffff)), l(kSqrtHalf)), double_);
  Value* n = b_.CreateSIToFP(b_.CreateTrunc(b_.CreateAShr(bits, 52), int_), double_);
  Value* s = Div(Sub(mantissa, D(1.0)), Add(mantissa, D(1.0)));
  Value* p = Polynomial(Mul(s, s), kLog2);
  Value* r = Fma(s, p, n);
  r = b_.CreateSelect(b_.CreateFCmpOLT(wide, D(kInf)), r, wide);
  return b_.CreateSelect(b_.CreateFCmpOEQ(wide, D(0.0)), D(-kInf), r);
}
// 2^e as f32: the conversion at the end overflows and underflows as it should.
Value* LaneMath::Exp2FromDouble(Value* e) {
  e = b_.CreateSelect(b_.CreateFCmpOLT(D(200.0), e), D(200.0), e);
  e = b_.CreateSelect(b_.CreateFCmpOGT(D(-200.0), e), D(-200.0), e);
  Value* shifted = Add(e, D(kRoundingShiftD));
  Value* r = Sub(e, Sub(shifted, D(kRoundingShiftD)));
  Value* p = Polynomial(r, kExp2);
  Value* power = b_.CreateBitCast(
      b_.CreateShl(b_.CreateAdd(b_.CreateBitCast(shifted, long_), llvm::ConstantInt::get(long_, 1023)), 52), double_);
  return b_.CreateFPTrunc(Mul(p, power), float_);
}

}  // namespace

Value* EmitLaneMath(llvm::IRBuilderBase& b, const llvm::TargetMachine& machine, ir::ExprOp op, Value* x, Value* y,
                    Value** too_large) {
  LaneMath math(b, machine, x);
  *too_large = nullptr;
  switch (op) {
    case ir::ExprOp::kSqrt:
      return math.Sqrt(x);
    case ir::ExprOp::kRsqrt:
      return math.Rsqrt(x);
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
      *too_large = math.IsTooLargeForTrig(x);
      return math.SinCos(x, op == ir::ExprOp::kCos ? 1 : 0);
  }
}

llvm::Type* WithElement(llvm::Type* like, llvm::Type* element) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like);
  return vector == nullptr ? element : llvm::FixedVectorType::get(element, vector->getNumElements());
}

std::vector<Value*> SplitLanes(llvm::IRBuilderBase& b, Value* x, unsigned lanes) {
  std::vector<Value*> parts;
  for (unsigned first = 0; first < llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements(); first += lanes) {
    std::vector<int> mask(lanes);
    std::iota(mask.begin(), mask.end(), static_cast<int>(first));
    parts.push_back(b.CreateShuffleVector(x, mask));
  }
  return parts;
}

}  // namespace cinn_like
