#include "backends/llvm_cast.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Triple.h"

namespace cinn_like {
namespace {

llvm::Type* ScalarType(llvm::LLVMContext& c, DType t) {
  if (t == DType::kF32) return llvm::Type::getFloatTy(c);
  if (t == DType::kF64) return llvm::Type::getDoubleTy(c);
  return llvm::IntegerType::get(c, t == DType::kBool ? 1 : InfoOf(t).bits);
}

llvm::Type* WithLanes(llvm::Type* scalar, int lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
}

// The width of the signed integer that a float passes through on its way to `to`, as in eager PyTorch.
int WideOf(DType to) { return InfoOf(to).bits == 64 || to == DType::kU32 || to == DType::kU8 ? 64 : 32; }

class Caster {
 public:
  Caster(llvm::IRBuilderBase& b, llvm::Value* v) : b_(b) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    lanes_ = vector == nullptr ? 1 : static_cast<int>(vector->getNumElements());
  }

  llvm::Value* HalfToFloat(DType from, llvm::Value* v) {
    if (from == DType::kF16) return b_.CreateFPExt(b_.CreateBitCast(v, Like(b_.getHalfTy())), Like(b_.getFloatTy()));
    llvm::Value* wide = b_.CreateZExt(v, Like(b_.getInt32Ty()));
    return b_.CreateBitCast(b_.CreateShl(wide, 16), Like(b_.getFloatTy()));
  }

  // Integer rounding, because vcvtneps2bf16 flushes denormals.
  llvm::Value* FloatToHalf(DType to, llvm::Value* v) {
    if (to == DType::kF16) return b_.CreateBitCast(b_.CreateFPTrunc(v, Like(b_.getHalfTy())), Like(b_.getInt16Ty()));
    llvm::Type* i32 = Like(b_.getInt32Ty());
    llvm::Value* bits = b_.CreateBitCast(v, i32);
    llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), Const(i32, 1));
    llvm::Value* rounded = b_.CreateAdd(b_.CreateAdd(bits, Const(i32, 0x7fff)), odd);
    llvm::Value* quiet_nan = b_.CreateOr(bits, Const(i32, 0x400000));
    llvm::Value* word = b_.CreateSelect(b_.CreateFCmpUNO(v, v), quiet_nan, rounded);
    return b_.CreateTrunc(b_.CreateLShr(word, 16), Like(b_.getInt16Ty()));
  }

  // f64 to f32 rounding to odd: a later rounding to 16 bits then gives what one rounding would.
  llvm::Value* DoubleToOddFloat(llvm::Value* v) {
    llvm::Type* i32 = Like(b_.getInt32Ty());
    llvm::Value* f = b_.CreateFPTrunc(v, Like(b_.getFloatTy()));
    llvm::Value* back = b_.CreateFPExt(f, v->getType());
    llvm::Value* bits = b_.CreateBitCast(f, i32);
    llvm::Value* above = b_.CreateFCmpOGT(Abs(back), Abs(v));
    llvm::Value* odd = b_.CreateOr(b_.CreateSub(bits, b_.CreateZExt(above, i32)), Const(i32, 1));
    llvm::Value* exact = b_.CreateFCmpUEQ(back, v);
    return b_.CreateBitCast(b_.CreateSelect(exact, bits, odd), f->getType());
  }

  llvm::Value* FloatToInt(DType to, llvm::Value* v) {
    const int bits = InfoOf(to).bits;
    if (to == DType::kU64) {
      llvm::Value* half = llvm::ConstantFP::get(v->getType(), 0x1p63);
      llvm::Value* low = FloatToSigned(64, v);
      llvm::Value* high = b_.CreateXor(FloatToSigned(64, b_.CreateFSub(v, half)), Const(low->getType(), 1ULL << 63));
      return b_.CreateSelect(b_.CreateFCmpOGE(v, half), high, low);
    }
    const int wide = WideOf(to);
    llvm::Value* r = FloatToSigned(wide, v);
    return wide == bits ? r : b_.CreateTrunc(r, Like(b_.getIntNTy(bits)));
  }

  // What x86's conversions give, and so eager PyTorch there: the lowest integer where the value does not fit. Other
  // machines' conversions saturate.
  llvm::Value* FloatToSigned(int bits, llvm::Value* v) {
    llvm::Type* type = Like(b_.getIntNTy(bits));
    if (!llvm::Triple(b_.GetInsertBlock()->getModule()->getTargetTriple()).isX86()) {
      return b_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {type, v->getType()}, {v});
    }
    const double end = bits == 32 ? 0x1p31 : 0x1p63;
    llvm::Value* fits = b_.CreateAnd(b_.CreateFCmpOGE(v, llvm::ConstantFP::get(v->getType(), -end)),
                                     b_.CreateFCmpOLT(v, llvm::ConstantFP::get(v->getType(), end)));
    return b_.CreateSelect(fits, b_.CreateFPToSI(v, type), Const(type, bits == 32 ? 1ULL << 31 : 1ULL << 63));
  }

  llvm::Value* IntToFloat(DType from, llvm::Type* scalar, llvm::Value* v) {
    llvm::Type* type = Like(scalar);
    if (from == DType::kBool) return b_.CreateSIToFP(b_.CreateZExt(v, Like(b_.getInt32Ty())), type);
    return IsSigned(from) ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
  }

  llvm::Type* Like(llvm::Type* scalar) const { return WithLanes(scalar, lanes_); }

 private:
  llvm::Constant* Const(llvm::Type* t, uint64_t v) { return llvm::ConstantInt::get(t, v); }
  llvm::Value* Abs(llvm::Value* v) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); }

  llvm::IRBuilderBase& b_;
  int lanes_;
};

}  // namespace

llvm::Type* ValueType(llvm::LLVMContext& c, ir::Type t) { return WithLanes(ScalarType(c, t.dtype), t.lanes); }

llvm::Type* MemoryType(llvm::LLVMContext& c, ir::Type t) {
  return t.dtype == DType::kBool ? WithLanes(llvm::Type::getInt8Ty(c), t.lanes) : ValueType(c, t);
}

llvm::Value* EmitCast(llvm::IRBuilderBase& b, DType from, DType to, llvm::Value* v) {
  if (from == to) return v;
  Caster cast(b, v);
  if (IsHalf(from)) {
    v = cast.HalfToFloat(from, v);
    return EmitCast(b, DType::kF32, to, v);
  }
  if (to == DType::kBool) {
    llvm::Constant* zero = llvm::Constant::getNullValue(v->getType());
    return IsFloat(from) ? b.CreateFCmpUNE(v, zero) : b.CreateICmpNE(v, zero);
  }
  if (IsHalf(to)) {
    if (from == DType::kF32) return cast.FloatToHalf(to, v);
    if (!IsFloat(from) && InfoOf(from).bits <= 16)  // f32 holds it
      return cast.FloatToHalf(to, cast.IntToFloat(from, b.getFloatTy(), v));
    if (from != DType::kF64) v = cast.IntToFloat(from, b.getDoubleTy(), v);
    return cast.FloatToHalf(to, cast.DoubleToOddFloat(v));
  }
  llvm::Type* type = cast.Like(ScalarType(b.getContext(), to));
  if (IsFloat(from)) return IsFloat(to) ? b.CreateFPCast(v, type) : cast.FloatToInt(to, v);
  if (IsFloat(to)) return cast.IntToFloat(from, type->getScalarType(), v);
  return b.CreateIntCast(v, type, IsSigned(from));
}

}  // namespace cinn_like
