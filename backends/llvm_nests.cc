#include "backends/llvm_nests.h"

#include <utility>

#include "ir/vector_nests.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Target/TargetMachine.h"

namespace cinn_like {
namespace {

using ir::Buffer;
using ir::Expr;

class NestEmitter {
 public:
  NestEmitter(llvm::IRBuilderBase& b, ExprEmitter& exprs, ir::Context& c, const llvm::TargetMachine& machine,
              bool contract)
      : b_(b), exprs_(exprs), c_(c), machine_(machine), contract_(contract) {}

  void EmitDot2(const ir::Dot2Nest& n) {
    llvm::Value* acc = LoadRun(n.acc, n.acc_base, n.lanes);
    llvm::Value *lhs = Pairs(n.lhs, n.lanes), *rhs = Pairs(n.rhs, n.lanes);
    if (const auto id = Dot2Instruction(n.lanes); id != llvm::Intrinsic::not_intrinsic) {
      llvm::Type* type = llvm::FixedVectorType::get(b_.getBFloatTy(), 2 * static_cast<unsigned>(n.lanes));
      acc = b_.CreateIntrinsic(id, {}, {acc, b_.CreateBitCast(lhs, type), b_.CreateBitCast(rhs, type)});
    } else {
      for (const bool second : {false, true}) {
        llvm::Value* product = b_.CreateFMul(Half(lhs, second), Half(rhs, second));
        acc = b_.CreateFAdd(acc, product);
      }
    }
    StoreRun(n.acc, n.acc_base, acc);
  }

  void EmitTranspose(const ir::TransposeNest& n) {
    const int bits = n.unit * static_cast<int>(BytesOf(n.src->dtype)) * 8;
    llvm::Type* type = llvm::FixedVectorType::get(b_.getIntNTy(bits), static_cast<unsigned>(n.columns));
    std::vector<llvm::Value*> v;
    for (int r = 0; r < n.rows; ++r)
      v.push_back(
          b_.CreateBitCast(LoadRun(n.src, At(n.src_offset, {{n.column, 0}, {n.row, r}}), n.columns * n.unit), type));
    // What all hold, one after the other, is interleaved with its second half: each time a digit of the row moves from
    // the front to the back.
    std::vector<int> low, high;
    for (int i = 0; i < n.columns; ++i) {
      low.push_back(i / 2 + i % 2 * n.columns);
      high.push_back(low.back() + n.columns / 2);
    }
    for (int done = 1; done < n.rows; done *= 2) {
      std::vector<llvm::Value*> next;
      for (size_t i = 0; i < v.size() / 2; ++i) {
        next.push_back(b_.CreateShuffleVector(v[i], v[i + v.size() / 2], low));
        next.push_back(b_.CreateShuffleVector(v[i], v[i + v.size() / 2], high));
      }
      v = std::move(next);
    }
    // A vector holds a part of a run, or several.
    const int part = std::min(n.columns, n.rows);
    llvm::Type* elements = n.src->dtype == DType::kF32   ? b_.getFloatTy()
                           : n.src->dtype == DType::kF64 ? b_.getDoubleTy()
                                                         : llvm::Type::getIntNTy(b_.getContext(), bits / n.unit);
    for (int i = 0; i < n.rows; ++i) {
      for (int k = 0; k < n.columns; k += part) {
        std::vector<int> lanes;
        for (int x = 0; x < part; ++x) lanes.push_back(k + x);
        llvm::Value* run = part == n.columns ? v[i] : b_.CreateShuffleVector(v[i], lanes);
        const int first = i * n.columns + k;
        StoreRun(n.dst, At(n.dst_offset, {{n.column, first / n.rows}, {n.row, first % n.rows}}),
                 b_.CreateBitCast(run, llvm::FixedVectorType::get(elements, static_cast<unsigned>(part * n.unit))));
      }
    }
  }

 private:
  llvm::Intrinsic::ID Dot2Instruction(int lanes) const {
    const llvm::MCSubtargetInfo& cpu = *machine_.getMCSubtargetInfo();
    if (!contract_ || !machine_.getTargetTriple().isX86() || !cpu.checkFeatures("+avx512bf16"))
      return llvm::Intrinsic::not_intrinsic;
    if (lanes == 16) return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512;
    if ((lanes != 8 && lanes != 4) || !cpu.checkFeatures("+avx512vl")) return llvm::Intrinsic::not_intrinsic;
    return lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256 : llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128;
  }

  Expr At(Expr offset, std::initializer_list<std::pair<Expr, int>> values) {
    ir::VarMap map;
    for (const auto& [var, value] : values) map[var] = c_.Int(value, var->type.dtype);
    return ir::Substitute(c_, offset, map);
  }

  Expr Run(Expr base, int elements) { return c_.Ramp(base, c_.Int(1, base->type.dtype), elements); }
  llvm::Value* LoadRun(Buffer from, Expr base, int elements) {
    return exprs_.Emit(c_.Load(from, {Run(base, elements)}));
  }
  void StoreRun(Buffer to, Expr base, llvm::Value* value) {
    const auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements());
    const Expr run = c_.Var("run", {to->dtype, lanes});
    exprs_.Bind(run, value);
    exprs_.EmitStore({to, {Run(base, lanes)}, run, nullptr});
  }

  // A pair in each lane, as 32 bits.
  llvm::Value* Pairs(const ir::Dot2Nest::Operand& o, int lanes) {
    const auto type = [&](int n) { return llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(n)); };
    if (!o.is_for_all) return b_.CreateBitCast(LoadRun(o.buffer, o.base, 2 * lanes), type(lanes));
    return b_.CreateVectorSplat(lanes, b_.CreateBitCast(LoadRun(o.buffer, o.base, 2), b_.getInt32Ty()));
  }
  // The first or second of each pair as f32: its bits are the upper ones.
  llvm::Value* Half(llvm::Value* pairs, bool second) {
    llvm::Value* bits = second ? b_.CreateAnd(pairs, llvm::ConstantInt::get(pairs->getType(), 0xffff0000u))
                               : b_.CreateShl(pairs, llvm::ConstantInt::get(pairs->getType(), 16));
    return b_.CreateBitCast(bits, llvm::cast<llvm::VectorType>(pairs->getType())->getWithNewType(b_.getFloatTy()));
  }

  llvm::IRBuilderBase& b_;
  ExprEmitter& exprs_;
  ir::Context& c_;
  const llvm::TargetMachine& machine_;
  const bool contract_;
};

}  // namespace

bool EmitNest(llvm::IRBuilderBase& b, ExprEmitter& exprs, ir::Context& c, const llvm::TargetMachine& machine,
              bool contract, const ir::For& nest) {
  ir::Analyzer a(c);
  NestEmitter emitter(b, exprs, c, machine, contract);
  if (nest.kind == ir::ForKind::kDot2) {
    const StatusOr<ir::Dot2Nest> n = ir::MatchDot2(a, nest);
    if (n.ok()) emitter.EmitDot2(*n);
    return n.ok();
  }
  const StatusOr<ir::TransposeNest> n = ir::MatchTranspose(a, nest);
  if (n.ok()) emitter.EmitTranspose(*n);
  return n.ok();
}

}  // namespace cinn_like
