#include "backends/vector_math.h"

#include <cmath>
#include <limits>
#include <vector>

#include "backends/lane_math.h"
#include "cinn_like/base/status.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"

namespace cinn_like {
namespace {

using llvm::Value;

constexpr double kInf = std::numeric_limits<double>::infinity();

// |x| less multiples of |y| in f64, until in each lane less than |y| is left, of either sign. A multiple is the nearest
// of 26 bits, so that what it leaves is at most half of its last bit times y, which f64 has exactly.
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
  const auto integer = [&](uint64_t v) { return llvm::ConstantInt::get(bits, v); };
  const auto abs = [&](Value* v) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  // No remainder: of infinity and NaN, by zero and NaN.
  Value *ax = abs(b.CreateFPExt(x, wide)), *ay = abs(b.CreateFPExt(y, wide));
  Value* is_number = b.CreateAnd(b.CreateFCmpOLT(ax, number(kInf)), b.CreateFCmpOGT(ay, number(0)));
  Value* first = b.CreateSelect(is_number, ax, number(0));
  Value* divisor = b.CreateSelect(is_number, ay, number(1));
  b.CreateBr(test);

  b.SetInsertPoint(test);
  llvm::PHINode* left = b.CreatePHI(wide, 2);
  left->addIncoming(first, entry);
  Value* is_over = b.CreateFCmpOGE(abs(left), divisor);
  b.CreateCondBr(b.CreateOrReduce(is_over), step, done);

  b.SetInsertPoint(step);
  Value* unit = divisor;
  if (x->getType()
          ->getScalarType()
          ->isDoubleTy()) {  // So much larger that the quotient is none: less so by powers of 2^600.
    Value* exponents = b.CreateSub(b.CreateBitCast(abs(left), bits), b.CreateBitCast(divisor, bits));
    for (const uint64_t large : {900, 1500}) {
      unit =
          b.CreateSelect(b.CreateICmpSGT(exponents, integer(large << 52)), b.CreateFMul(unit, number(0x1p600)), unit);
    }
  }
  Value* quotient = b.CreateFDiv(left, unit);
  constexpr uint64_t kDropped = (uint64_t{1} << 27) - 1;
  Value* half = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, number(0.5), quotient);
  Value* whole = b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b.CreateFAdd(quotient, half));
  whole = b.CreateBitCast(whole, bits);
  whole = b.CreateAnd(b.CreateAdd(whole, integer(kDropped / 2 + 1)), integer(~kDropped));
  Value* less =
      b.CreateIntrinsic(llvm::Intrinsic::fma, {wide}, {b.CreateFNeg(b.CreateBitCast(whole, wide)), unit, left});
  left->addIncoming(b.CreateSelect(is_over, less, left), step);
  b.CreateBr(test);

  b.SetInsertPoint(done);
  Value* r = b.CreateSelect(b.CreateFCmpOLT(left, number(0)), b.CreateFAdd(left, divisor), left);
  r = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, b.CreateFPTrunc(r, x->getType()), x);
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
  if (vector == nullptr) return b.CreateFRem(x, y);
  // Of more lanes than a register's it would keep too much at once.
  constexpr unsigned kMostLanes = 16;
  const unsigned lanes = vector->getNumElements();
  if (lanes > kMostLanes && lanes % kMostLanes == 0) {
    std::vector<Value*> parts = SplitLanes(b, x, kMostLanes);
    const std::vector<Value*> divisors = SplitLanes(b, y, kMostLanes);
    for (size_t i = 0; i < parts.size(); ++i) parts[i] = EmitRemainder(b, parts[i], divisors[i]);
    return llvm::concatenateVectors(b, parts);
  }
  bool is_new = false;
  const std::string_view name = vector->getElementType()->isFloatTy() ? "remainderf" : "remainder";
  llvm::Function* helper = Helper(b, name, x, 2, &is_new);
  if (is_new) WriteRemainder(helper);
  return b.CreateCall(helper, {x, y});
}

Value* VectorMath::Emit(llvm::IRBuilderBase& b, ir::ExprOp op, Value* x, Value* y) {
  Value* too_large;
  Value* fast = EmitLaneMath(b, machine_, op, x, y, &too_large);
  if (too_large == nullptr) return fast;
  // They are rare, and libm's.
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
