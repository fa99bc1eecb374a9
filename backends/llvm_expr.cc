#include "backends/llvm_expr.h"

#include "backends/llvm_cast.h"
#include "ir/join.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

namespace cinn_like {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::ExprOp;

std::vector<Buffer> AllBuffers(const ir::Func& func) {
  std::vector<Buffer> buffers;
  for (const ir::Param& p : func.params) {
    if (p.buffer != nullptr) buffers.push_back(p.buffer);
  }
  ir::VisitStmts(func.body, [&](const ir::Stmt& s) {
    if (const auto* alloc = ir::As<ir::Alloc>(s)) buffers.push_back(alloc->buffer);
    return true;
  });
  return buffers;
}

int LanesOf(llvm::Value* v) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector == nullptr ? 1 : static_cast<int>(vector->getNumElements());
}

constexpr size_t kMostTurns = 4;  // masks that are joined for one

// A comparison of places in lanes with a number that all of them share.
bool HasSharedBound(Expr e) {
  return e->op == ExprOp::kLt && e->type.lanes > 1 && IsSigned(e->args[0]->type.dtype) &&
         !IsFloat(e->args[0]->type.dtype) &&
         (e->args[0]->op == ExprOp::kBroadcast) != (e->args[1]->op == ExprOp::kBroadcast);
}

bool IsUnitRamp(Expr index) { return index->op == ExprOp::kRamp && ir::IsInt(index->args[1], 1); }
}  // namespace

AliasScopes::AliasScopes(llvm::LLVMContext& context, const ir::Func& func) {
  llvm::MDBuilder md(context);
  llvm::MDNode* domain = md.createAnonymousAliasScopeDomain(func.name);
  const std::vector<Buffer> buffers = AllBuffers(func);
  std::vector<llvm::Metadata*> scopes;
  for (Buffer b : buffers) scopes.push_back(md.createAnonymousAliasScope(domain, b->name));
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::vector<llvm::Metadata*> others = scopes;
    others.erase(others.begin() + static_cast<int64_t>(i));
    lists_[buffers[i]] = {llvm::MDNode::get(context, scopes[i]), llvm::MDNode::get(context, others)};
  }
}

void AliasScopes::Annotate(llvm::Instruction* access, Buffer buffer) const {
  auto it = lists_.find(buffer);
  if (it == lists_.end()) return;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, it->second.own);
  access->setMetadata(llvm::LLVMContext::MD_noalias, it->second.others);
}

llvm::Value* ExprEmitter::Find(Expr var) const {
  auto it = vars_.find(var);
  return it == vars_.end() ? nullptr : it->second;
}
llvm::Value* ExprEmitter::Find(Buffer buffer) const {
  auto it = buffers_.find(buffer);
  return it == buffers_.end() ? nullptr : it->second;
}

llvm::Value* ExprEmitter::Fail(Expr e, std::string_view what) {
  if (status_.ok()) status_ = Internal("LLVM emitter: ", what, " in '", ir::Print(e), "'");
  return llvm::PoisonValue::get(ValueType(b_.getContext(), e->type));
}

llvm::Value* ExprEmitter::Splat(llvm::Value* v, int lanes) {
  return lanes == 1 || LanesOf(v) == lanes ? v : b_.CreateVectorSplat(lanes, v);
}

llvm::Value* ExprEmitter::Emit(Expr e) {
  if (e->op == ExprOp::kVar) {
    llvm::Value* v = Find(e);
    return v == nullptr ? Fail(e, "unknown variable") : v;
  }
  auto it = memo_.find(e);
  if (it != memo_.end()) return it->second;
  llvm::Value* v = EmitNew(e);
  memo_[e] = v;
  return v;
}

llvm::Value* ExprEmitter::EmitNew(Expr e) {
  llvm::Type* type = ValueType(b_.getContext(), e->type);
  switch (e->op) {
    case ExprOp::kInt:
      return llvm::ConstantInt::get(type, static_cast<uint64_t>(e->int_value));
    case ExprOp::kFloat:
      if (IsHalf(e->type.dtype)) {
        llvm::Value* f = llvm::ConstantFP::get(b_.getFloatTy(), e->float_value);
        return EmitCast(b_, DType::kF32, e->type.dtype, f);
      }
      return llvm::ConstantFP::get(type, e->float_value);
    case ExprOp::kLoad:
      return EmitLoad(e);
    case ExprOp::kAddress:
      return b_.CreatePtrToInt(EmitAddress(e), type);
    case ExprOp::kCast:
      return EmitCast(b_, e->args[0]->type.dtype, e->type.dtype, Emit(e->args[0]));
    case ExprOp::kBroadcast:
      return Splat(Emit(e->args[0]), e->type.lanes);
    case ExprOp::kRamp: {
      std::vector<llvm::Constant*> steps;
      for (int i = 0; i < e->type.lanes; ++i) steps.push_back(llvm::ConstantInt::get(type->getScalarType(), i));
      llvm::Value* stride = Splat(Emit(e->args[1]), e->type.lanes);
      llvm::Value* offsets = b_.CreateMul(llvm::ConstantVector::get(steps), stride);
      return b_.CreateAdd(Splat(Emit(e->args[0]), e->type.lanes), offsets);
    }
    default:
      return EmitOperator(e);
  }
}

llvm::Value* ExprEmitter::EmitIntDivision(Expr e, llvm::Value* x, llvm::Value* y) {
  const bool is_signed = IsSigned(e->type.dtype);
  const bool is_mod = e->op == ExprOp::kTruncMod || e->op == ExprOp::kMod;
  const Expr divisor = e->args[1]->op == ExprOp::kBroadcast ? e->args[1]->args[0] : e->args[1];
  if (!ir::IsInt(divisor) || divisor->int_value == 0 || divisor->int_value == -1) {
    // x / 0 and the overflowing min / -1 trap in hardware: they give x and min here.
    llvm::Value* bad = b_.CreateICmpEQ(y, llvm::Constant::getNullValue(y->getType()));
    if (is_signed) {
      const unsigned bits = y->getType()->getScalarSizeInBits();
      llvm::Value* is_min =
          b_.CreateICmpEQ(x, llvm::ConstantInt::get(x->getType(), llvm::APInt::getSignedMinValue(bits)));
      llvm::Value* is_minus_1 = b_.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType()));
      bad = b_.CreateOr(bad, b_.CreateAnd(is_min, is_minus_1));
    }
    y = b_.CreateSelect(bad, llvm::ConstantInt::get(y->getType(), 1), y);
    if (y->getType()->isVectorTy()) {
      // No processor divides integers in lanes, or has a remainder beside a quotient there.
      llvm::Value* q = DivideLanes(e->type, x, y);
      const bool floors = is_signed && (e->op == ExprOp::kDiv || e->op == ExprOp::kMod);
      if (!is_mod && !floors) return q;
      llvm::Value* rem = b_.CreateSub(x, b_.CreateMul(q, y));
      return floors ? Floored(is_mod, q, rem, y) : rem;
    }
  }
  if (!is_signed) return is_mod ? b_.CreateURem(x, y) : b_.CreateUDiv(x, y);
  if (e->op == ExprOp::kTruncDiv) return b_.CreateSDiv(x, y);
  llvm::Value* rem = b_.CreateSRem(x, y);
  if (e->op == ExprOp::kTruncMod) return rem;
  return Floored(is_mod, is_mod ? nullptr : b_.CreateSDiv(x, y), rem, y);
}

// Truncated. Through floats where these hold more than the integers do: a quotient that is no integer is further from
// one than they err.
llvm::Value* ExprEmitter::DivideLanes(ir::Type t, llvm::Value* x, llvm::Value* y) {
  const bool is_signed = IsSigned(t.dtype);
  const unsigned bits = y->getType()->getScalarSizeInBits();
  if (bits > 32) return is_signed ? b_.CreateSDiv(x, y) : b_.CreateUDiv(x, y);
  llvm::Type* number = ValueType(b_.getContext(), {bits <= 16 ? DType::kF32 : DType::kF64, t.lanes});
  if (is_signed)
    return b_.CreateFPToSI(b_.CreateFDiv(b_.CreateSIToFP(x, number), b_.CreateSIToFP(y, number)), x->getType());
  return b_.CreateFPToUI(b_.CreateFDiv(b_.CreateUIToFP(x, number), b_.CreateUIToFP(y, number)), x->getType());
}

// A remainder of the other sign than the divisor moves by one divisor.
llvm::Value* ExprEmitter::Floored(bool is_mod, llvm::Value* quotient, llvm::Value* rem, llvm::Value* y) {
  llvm::Value* zero = llvm::Constant::getNullValue(rem->getType());
  llvm::Value* wrong = b_.CreateAnd(b_.CreateICmpNE(rem, zero), b_.CreateICmpSLT(b_.CreateXor(rem, y), zero));
  if (is_mod) return b_.CreateAdd(rem, b_.CreateSelect(wrong, y, zero));
  return b_.CreateAdd(quotient, b_.CreateSExt(wrong, rem->getType()));
}

// Conditions that all lanes share are a part of the number that some lanes are compared with, where there is one: else
// they would be vectors of bits, of whatever width these have without registers for masks.
//   broadcast(a) && x < broadcast(n)  ->  x < broadcast(a ? n : the lowest number)
llvm::Value* ExprEmitter::EmitConjunction(Expr e) {
  const std::vector<Expr> parts = ir::ConjunctsOf(e);
  const auto bounded = std::find_if(parts.begin(), parts.end(), HasSharedBound);
  const auto join = [&](llvm::Value* x, llvm::Value* y) { return x == nullptr ? y : b_.CreateAnd(x, y); };
  llvm::Value *shared = nullptr, *r = nullptr;
  for (Expr part : parts) {
    if (bounded != parts.end() && part->op == ExprOp::kBroadcast)
      shared = join(shared, Emit(part->args[0]));
    else if (bounded == parts.end() || part != *bounded)
      r = join(r, Emit(part));
  }
  if (bounded == parts.end()) return r;
  if (shared == nullptr) return join(r, Emit(*bounded));
  const bool is_above = (*bounded)->args[0]->op == ExprOp::kBroadcast;
  const Expr number = (*bounded)->args[is_above ? 0 : 1]->args[0];
  const auto bits = static_cast<unsigned>(InfoOf(number->type.dtype).bits);
  llvm::Value* n = Emit(number);
  llvm::Value* never = llvm::ConstantInt::get(
      n->getType(), is_above ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getSignedMinValue(bits));
  llvm::Value* bound = Splat(b_.CreateSelect(shared, n, never), e->type.lanes);
  llvm::Value* at = Emit((*bounded)->args[is_above ? 1 : 0]);
  return join(r, is_above ? b_.CreateICmpSLT(bound, at) : b_.CreateICmpSLT(at, bound));
}

llvm::Value* ExprEmitter::EmitMinMax(ExprOp op, DType t, llvm::Value* x, llvm::Value* y) {
  const bool is_min = op == ExprOp::kMin || op == ExprOp::kLaneMin;
  if (!IsFloat(t)) {
    const bool is_signed = IsSigned(t);
    llvm::Value* less = is_signed ? b_.CreateICmpSLT(x, y) : b_.CreateICmpULT(x, y);
    return is_min ? b_.CreateSelect(less, x, y) : b_.CreateSelect(less, y, x);
  }
  // The hardware's min and max give the second operand if either is NaN. So the first one, which an accumulation writes
  // back, goes second: then only the other one needs a look, off the critical path. A constant needs none.
  if (!llvm::isa<llvm::Constant>(x)) std::swap(x, y);
  llvm::Value* r = b_.CreateSelect(is_min ? b_.CreateFCmpOLT(x, y) : b_.CreateFCmpOGT(x, y), x, y);
  return llvm::isa<llvm::Constant>(x) ? r : b_.CreateSelect(b_.CreateFCmpUNO(x, x), x, r);
}

llvm::Value* ExprEmitter::EmitLanes(Expr e) {
  llvm::Value* v = Emit(e->args[0]);
  const DType t = e->type.dtype;
  // NaN in any lane, looked for once.
  const bool is_extreme = IsFloat(t) && (e->op == ExprOp::kLaneMin || e->op == ExprOp::kLaneMax);
  llvm::Value* nan = is_extreme && LanesOf(v) > 1 ? b_.CreateOrReduce(b_.CreateFCmpUNO(v, v)) : nullptr;
  auto combine = [&](llvm::Value* x, llvm::Value* y) -> llvm::Value* {
    if (e->op == ExprOp::kLaneAdd) return IsFloat(t) ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y);
    if (e->op == ExprOp::kLaneMul) return IsFloat(t) ? b_.CreateFMul(x, y) : b_.CreateMul(x, y);
    if (!is_extreme) return EmitMinMax(e->op, t, x, y);
    return b_.CreateSelect(e->op == ExprOp::kLaneMin ? b_.CreateFCmpOLT(x, y) : b_.CreateFCmpOGT(x, y), x, y);
  };
  int lanes = LanesOf(v);
  for (; lanes > 1 && lanes % 2 == 0; lanes /= 2) {
    std::vector<int> low, high;
    for (int i = 0; i < lanes / 2; ++i) {
      low.push_back(i);
      high.push_back(i + lanes / 2);
    }
    v = combine(b_.CreateShuffleVector(v, low), b_.CreateShuffleVector(v, high));
  }
  llvm::Value* r = v;
  if (v->getType()->isVectorTy()) {
    r = b_.CreateExtractElement(v, uint64_t{0});
    for (int i = 1; i < lanes; ++i) r = combine(r, b_.CreateExtractElement(v, i));
  }
  return nan == nullptr ? r : b_.CreateSelect(nan, llvm::ConstantFP::getNaN(r->getType()), r);
}

llvm::Value* ExprEmitter::EmitOperator(Expr e) {
  const DType t = e->args[0]->type.dtype;
  const bool is_float = IsFloat(t), is_signed = IsSigned(t);
  if (e->op >= ExprOp::kLaneAdd && e->op <= ExprOp::kLaneMax) return EmitLanes(e);
  if (e->op == ExprOp::kLaneLast) {
    llvm::Value* v = Emit(e->args[0]);
    return v->getType()->isVectorTy() ? b_.CreateExtractElement(v, uint64_t(LanesOf(v) - 1)) : v;
  }
  if (e->op == ExprOp::kLaneShift) {
    llvm::Value* v = Emit(e->args[0]);
    const std::optional<int> n = ir::LanesMoved(e);
    if (!n) return Fail(e, "lanes moved by no constant");
    std::vector<int> from;
    for (int i = 0; i < e->type.lanes; ++i) from.push_back(i < *n ? i : i - *n);
    return v->getType()->isVectorTy() ? b_.CreateShuffleVector(v, from) : v;
  }
  if (IsHalf(t) && e->op != ExprOp::kSelect) return Fail(e, "arithmetic on a 16-bit float");
  if (!is_float && e->op >= ExprOp::kExp && e->op <= ExprOp::kIsNan) return Fail(e, "a function of floats on integers");
  if (e->op == ExprOp::kAnd && e->type.lanes > 1) return EmitConjunction(e);
  std::vector<llvm::Value*> v;
  for (Expr a : e->args) v.push_back(Emit(a));
  llvm::Value* x = v[0];
  llvm::Value* y = v.size() > 1 ? v[1] : nullptr;
  auto unary = [&](llvm::Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, x); };
  auto shift_count = [&] {
    llvm::Value* count = b_.CreateIntCast(y, x->getType(), false);
    return b_.CreateAnd(count, llvm::ConstantInt::get(x->getType(), InfoOf(t).bits - 1));
  };
  switch (e->op) {
    case ExprOp::kAdd:
      return is_float ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y);
    case ExprOp::kSub:
      return is_float ? b_.CreateFSub(x, y) : b_.CreateSub(x, y);
    case ExprOp::kMul:
      return is_float ? b_.CreateFMul(x, y) : b_.CreateMul(x, y);
    case ExprOp::kDiv:
      return is_float ? b_.CreateFDiv(x, y) : EmitIntDivision(e, x, y);
    case ExprOp::kTruncDiv:
      if (is_float) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b_.CreateFDiv(x, y));
      return EmitIntDivision(e, x, y);
    case ExprOp::kTruncMod:
      return is_float ? math_.EmitRemainder(b_, x, y) : EmitIntDivision(e, x, y);
    case ExprOp::kMod: {
      if (!is_float) return EmitIntDivision(e, x, y);
      llvm::Value* rem = math_.EmitRemainder(b_, x, y);
      llvm::Value* zero = llvm::Constant::getNullValue(x->getType());
      llvm::Value* signs_differ = b_.CreateXor(b_.CreateFCmpOLT(rem, zero), b_.CreateFCmpOLT(y, zero));
      llvm::Value* wrong = b_.CreateAnd(b_.CreateFCmpONE(rem, zero), signs_differ);
      return b_.CreateSelect(wrong, b_.CreateFAdd(rem, y), rem);
    }
    case ExprOp::kMin:
    case ExprOp::kMax:
      return EmitMinMax(e->op, t, x, y);
    case ExprOp::kEq:
      return is_float ? b_.CreateFCmpOEQ(x, y) : b_.CreateICmpEQ(x, y);
    case ExprOp::kNe:
      return is_float ? b_.CreateFCmpUNE(x, y) : b_.CreateICmpNE(x, y);
    case ExprOp::kLt:
      return is_float ? b_.CreateFCmpOLT(x, y) : is_signed ? b_.CreateICmpSLT(x, y) : b_.CreateICmpULT(x, y);
    case ExprOp::kLe:
      return is_float ? b_.CreateFCmpOLE(x, y) : is_signed ? b_.CreateICmpSLE(x, y) : b_.CreateICmpULE(x, y);
    case ExprOp::kAnd:
    case ExprOp::kBitAnd:
      return b_.CreateAnd(x, y);
    case ExprOp::kOr:
    case ExprOp::kBitOr:
      return b_.CreateOr(x, y);
    case ExprOp::kBitXor:
      return b_.CreateXor(x, y);
    case ExprOp::kNot:
      return b_.CreateNot(x);
    case ExprOp::kShl:
      return b_.CreateShl(x, shift_count());
    case ExprOp::kShr:
      return is_signed ? b_.CreateAShr(x, shift_count()) : b_.CreateLShr(x, shift_count());
    case ExprOp::kNeg:
      return is_float ? b_.CreateFNeg(x) : b_.CreateNeg(x);
    case ExprOp::kAbs:
      if (is_signed) return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse());
      return is_float ? unary(llvm::Intrinsic::fabs) : x;
    case ExprOp::kSelect:
      return b_.CreateSelect(x, y, v[2]);
    case ExprOp::kFma:
      if (!is_float) return b_.CreateAdd(b_.CreateMul(x, y), v[2]);
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, v[2]});
    case ExprOp::kFloor:
      return unary(llvm::Intrinsic::floor);
    case ExprOp::kCeil:
      return unary(llvm::Intrinsic::ceil);
    case ExprOp::kRound:
      return unary(llvm::Intrinsic::roundeven);
    case ExprOp::kTrunc:
      return unary(llvm::Intrinsic::trunc);
    case ExprOp::kIsNan:
      return b_.CreateFCmpUNO(x, x);
    default:
      if (RowOf(e->op)->cost == ir::OpRow::kMath) return math_.Emit(b_, e->op, x, y);
      return Fail(e, "an operator that host code can't have");
  }
}

llvm::Value* ExprEmitter::EmitPointer(Buffer buffer, Expr index) {
  llvm::Value* base = Find(buffer);
  if (base == nullptr) {
    Fail(index, Cat("unknown buffer '", buffer->name, "'"));
    return llvm::PoisonValue::get(b_.getPtrTy());
  }
  llvm::Type* type = MemoryType(b_.getContext(), {buffer->dtype, 1});
  if (index->op == ExprOp::kAdd && ir::IsInt(index->args[1])) {
    // Neighbours share what varies, and a constant is part of the access: less for LLVM to find. What varies alone need
    // not lie inside the buffer.
    llvm::Value* shared = b_.CreateGEP(type, base, Emit(index->args[0]));
    return b_.CreateGEP(type, shared, b_.getInt64(static_cast<uint64_t>(index->args[1]->int_value)));
  }
  return b_.CreateInBoundsGEP(type, base, Emit(index));
}

llvm::Value* ExprEmitter::EmitAddress(Expr e) {
  const Buffer buffer = e->buffer;
  if (e->args.size() == 1 && buffer->strides.empty()) return EmitPointer(buffer, e->args[0]);
  // Only parameters of entry functions still have dimensions.
  llvm::Value* offset = b_.getInt64(0);
  llvm::Value* stride = b_.getInt64(1);
  for (size_t d = e->args.size(); d-- > 0;) {
    if (!buffer->strides.empty()) stride = Emit(buffer->strides[d]);
    offset = b_.CreateAdd(offset, b_.CreateMul(Emit(e->args[d]), stride));
    if (buffer->strides.empty()) stride = b_.CreateMul(stride, Emit(buffer->shape[d]));
  }
  llvm::Value* base = Find(buffer);
  if (base == nullptr) return b_.CreateIntToPtr(Fail(e, Cat("unknown buffer '", buffer->name, "'")), b_.getPtrTy());
  return b_.CreateInBoundsGEP(MemoryType(b_.getContext(), {buffer->dtype, 1}), base, offset);
}

// A vector of addresses. A ramp of constant stride gets constant 32-bit offsets, for which gathers are twice as wide.
llvm::Value* ExprEmitter::Pointers(Buffer buffer, Expr index, int lanes) {
  if (index->op == ExprOp::kRamp && ir::IsInt(index->args[1])) {
    const int64_t stride = index->args[1]->int_value, most = (int64_t{1} << 30) / lanes;
    if (-most < stride && stride < most) {
      std::vector<llvm::Constant*> offsets;
      for (int i = 0; i < lanes; ++i) offsets.push_back(b_.getInt32(static_cast<uint32_t>(i * stride)));
      return b_.CreateInBoundsGEP(MemoryType(b_.getContext(), {buffer->dtype, 1}), EmitPointer(buffer, index->args[0]),
                                  llvm::ConstantVector::get(offsets));
    }
  }
  llvm::Value* p = EmitPointer(buffer, index);
  return Splat(p, lanes);
}

// Whether all lanes from a constant index on lie on the stack, whether or not they are wanted: LLVM keeps in registers
// what is stored whole, but nothing that is stored under a mask.
bool ExprEmitter::IsOnStack(Buffer buffer, Expr first, int lanes) {
  const auto* memory = llvm::dyn_cast_or_null<llvm::AllocaInst>(Find(buffer));
  if (memory == nullptr || !ir::IsInt(first) || first->int_value < 0) return false;
  const auto* array = llvm::dyn_cast<llvm::ArrayType>(memory->getAllocatedType());
  return array != nullptr && first->int_value + lanes <= static_cast<int64_t>(array->getNumElements());
}

llvm::Value* ExprEmitter::EmitLoad(Expr e) {
  const std::vector<Expr> indices = ir::IndicesOf(e);
  if (indices.size() != 1) return Fail(e, "a load without exactly one index");
  llvm::Type* type = MemoryType(b_.getContext(), e->type);
  const llvm::Align align(BytesOf(e->type.dtype));
  const int lanes = e->type.lanes;
  const Expr mask = ir::MaskOf(e);
  llvm::Value* m = mask == nullptr ? nullptr : Emit(mask);
  llvm::Value* zero = llvm::Constant::getNullValue(type);
  llvm::Instruction* load = nullptr;
  llvm::Value* r = nullptr;
  if (lanes == 1) {
    llvm::Value* pointer = EmitPointer(e->buffer, indices[0]);
    if (m == nullptr) {
      r = load = b_.CreateAlignedLoad(type, pointer, align);
    } else {
      llvm::Function* function = b_.GetInsertBlock()->getParent();
      llvm::BasicBlock* before = b_.GetInsertBlock();
      auto* then = llvm::BasicBlock::Create(b_.getContext(), "load", function);
      auto* after = llvm::BasicBlock::Create(b_.getContext(), "", function);
      b_.CreateCondBr(m, then, after);
      b_.SetInsertPoint(then);
      load = b_.CreateAlignedLoad(type, pointer, align);
      b_.CreateBr(after);
      b_.SetInsertPoint(after);
      llvm::PHINode* phi = b_.CreatePHI(type, 2);
      phi->addIncoming(load, then);
      phi->addIncoming(zero, before);
      r = phi;
    }
  } else if (IsUnitRamp(indices[0])) {
    llvm::Value* pointer = EmitPointer(e->buffer, indices[0]->args[0]);
    // A load of no lane from a page that isn't there takes a processor hundreds of cycles; where one condition decides
    // for all lanes, it reads none of the buffer's first instead.
    llvm::Value* base = Find(e->buffer);
    const bool whole = m == nullptr || IsOnStack(e->buffer, indices[0]->args[0], lanes);
    if (!whole && !m->getType()->isVectorTy() && base != nullptr) pointer = b_.CreateSelect(m, pointer, base);
    r = load = whole ? static_cast<llvm::Instruction*>(b_.CreateAlignedLoad(type, pointer, align))
                     : b_.CreateMaskedLoad(type, pointer, align, Splat(m, lanes), zero);
    if (whole && m != nullptr) r = b_.CreateSelect(Splat(m, lanes), load, zero);
  } else if (const auto near = FindNearLanes(indices[0], m == nullptr ? static_cast<size_t>(lanes) : kMostTurns)) {
    r = EmitNearLoad(e, *near, m);
  } else {
    llvm::Value* all = llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), lanes));
    r = load = b_.CreateMaskedGather(type, Pointers(e->buffer, indices[0], lanes), align,
                                     m == nullptr ? all : Splat(m, lanes), zero);
  }
  if (load != nullptr) alias_.Annotate(load, e->buffer);
  return e->type.dtype == DType::kBool ? b_.CreateICmpNE(r, zero) : r;
}

// To the element of lane 0, which need not be in the buffer where a mask says that it is absent.
llvm::Value* ExprEmitter::EmitFirstPointer(Buffer buffer, Expr index) {
  llvm::Value* base = Find(buffer);
  if (index->op == ExprOp::kRamp || base == nullptr)
    return EmitPointer(buffer, index->op == ExprOp::kRamp ? index->args[0] : index);
  return b_.CreateGEP(MemoryType(b_.getContext(), {buffer->dtype, 1}), base,
                      b_.CreateExtractElement(Emit(index), uint64_t{0}));
}

// Of a part's elements, those that some lane of `mask` wants.
llvm::Value* ExprEmitter::WantedOf(const NearLanes::Part& part, llvm::Value* mask) {
  const int none = LanesOf(mask);
  llvm::Value* wanted = nullptr;
  for (const std::vector<int>& turn : part.lanes) {
    std::vector<int> from;
    for (int lane : turn) from.push_back(lane < 0 ? none : lane);
    llvm::Value* v = b_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), from);
    wanted = wanted == nullptr ? v : b_.CreateOr(wanted, v);
  }
  return wanted;
}

// Elements between those of lanes are read too, if no mask says that lanes are absent.
llvm::Value* ExprEmitter::EmitNearLoad(Expr e, const NearLanes& near, llvm::Value* m) {
  const int lanes = e->type.lanes;
  const llvm::Align align(BytesOf(e->type.dtype));
  llvm::Type* element = MemoryType(b_.getContext(), {e->type.dtype, 1});
  llvm::Value* base = EmitFirstPointer(e->buffer, ir::IndicesOf(e)[0]);
  llvm::Value* r = nullptr;
  bool shares = false;
  for (size_t k = 0; k < near.parts.size(); ++k) {
    const NearLanes::Part& part = near.parts[k];
    if (part.lanes.empty()) continue;
    llvm::Value* pointer = b_.CreateConstGEP1_64(element, base, static_cast<uint64_t>(part.first));
    auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(part.elements));
    llvm::Instruction* load = m == nullptr ? static_cast<llvm::Instruction*>(b_.CreateAlignedLoad(type, pointer, align))
                                           : b_.CreateMaskedLoad(type, pointer, align, WantedOf(part, Splat(m, lanes)),
                                                                 llvm::Constant::getNullValue(type));
    alias_.Annotate(load, e->buffer);
    // Lanes of this part from it, those of others as they are.
    std::vector<int> from, both;
    for (int i = 0; i < lanes; ++i) {
      const auto lane = static_cast<size_t>(i);
      const bool here = near.part_of[lane] == static_cast<int>(k);
      from.push_back(here ? near.element_of[lane] : -1);
      both.push_back(here ? lanes + i : i);
    }
    llvm::Value* v = b_.CreateShuffleVector(load, from);
    r = r == nullptr ? v : b_.CreateShuffleVector(r, v, both);
    shares |= part.lanes.size() > 1;
  }
  // An element that one lane wants is none for another.
  return m == nullptr || !shares ? r : b_.CreateSelect(Splat(m, lanes), r, llvm::Constant::getNullValue(r->getType()));
}

// What lies between lanes stays as it is.
void ExprEmitter::EmitNearStore(const ir::Store& s, const NearLanes& near, llvm::Value* value, llvm::Value* m) {
  const llvm::Align align(BytesOf(s.buffer->dtype));
  llvm::Type* element = MemoryType(b_.getContext(), {s.buffer->dtype, 1});
  llvm::Value* base = EmitFirstPointer(s.buffer, s.indices[0]);
  llvm::Value* all = llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), LanesOf(value)));
  for (const NearLanes::Part& part : near.parts) {
    if (part.lanes.empty()) continue;
    llvm::Value* pointer = b_.CreateConstGEP1_64(element, base, static_cast<uint64_t>(part.first));
    const std::vector<int>& from = part.lanes[0];
    llvm::Value* v = b_.CreateShuffleVector(value, from);
    const bool whole = m == nullptr && std::count(from.begin(), from.end(), -1) == 0;
    alias_.Annotate(
        whole ? static_cast<llvm::Instruction*>(b_.CreateAlignedStore(v, pointer, align))
              : b_.CreateMaskedStore(v, pointer, align, WantedOf(part, m == nullptr ? all : Splat(m, LanesOf(value)))),
        s.buffer);
  }
}

void ExprEmitter::EmitStore(const ir::Store& s) {
  if (s.indices.size() != 1) {
    Fail(s.value, "a store without exactly one index");
    return;
  }
  const Expr index = s.indices[0];
  int lanes = std::max(index->type.lanes, s.value->type.lanes);
  if (s.mask != nullptr) lanes = std::max(lanes, s.mask->type.lanes);
  llvm::Value* value = Splat(Emit(s.value), lanes);
  if (s.buffer->dtype == DType::kBool) value = b_.CreateZExt(value, MemoryType(b_.getContext(), {DType::kBool, lanes}));
  llvm::Value* m = s.mask == nullptr ? nullptr : Emit(s.mask);
  const llvm::Align align(BytesOf(s.buffer->dtype));
  if (lanes == 1) {
    llvm::Value* pointer = EmitPointer(s.buffer, index);
    if (m == nullptr) {
      alias_.Annotate(b_.CreateAlignedStore(value, pointer, align), s.buffer);
      return;
    }
    llvm::Function* function = b_.GetInsertBlock()->getParent();
    auto* then = llvm::BasicBlock::Create(b_.getContext(), "store", function);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "", function);
    b_.CreateCondBr(m, then, after);
    b_.SetInsertPoint(then);
    alias_.Annotate(b_.CreateAlignedStore(value, pointer, align), s.buffer);
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  } else if (IsUnitRamp(index)) {
    llvm::Value* pointer = EmitPointer(s.buffer, index->args[0]);
    if (m != nullptr && IsOnStack(s.buffer, index->args[0], lanes)) {
      llvm::LoadInst* old = b_.CreateAlignedLoad(value->getType(), pointer, align);
      alias_.Annotate(old, s.buffer);
      value = b_.CreateSelect(Splat(m, lanes), value, old);
      m = nullptr;
    }
    alias_.Annotate(m == nullptr ? static_cast<llvm::Instruction*>(b_.CreateAlignedStore(value, pointer, align))
                                 : b_.CreateMaskedStore(value, pointer, align, Splat(m, lanes)),
                    s.buffer);
  } else if (const auto near = FindNearLanes(index, 1)) {
    EmitNearStore(s, *near, value, m);
  } else {
    alias_.Annotate(b_.CreateMaskedScatter(value, Pointers(s.buffer, index, lanes), align,
                                           m == nullptr ? nullptr : Splat(m, lanes)),
                    s.buffer);
  }
}

}  // namespace cinn_like
