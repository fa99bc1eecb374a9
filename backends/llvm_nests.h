// Nests of ir/vector_nests.h -> vector instructions.
//   @dot2_bf16  ->  llvm.x86.avx512bf16.dpbf16ps, where the processor has it for so many lanes; else each lane widens
//                   its pairs to f32 and adds two products
//   @dot4_i8    ->  llvm.x86.avx512.vpdpbusd (u8 x i8), where the processor has it; else each lane widens its fours
//   @transpose  ->  rows are loaded, shuffled in pairs log2(rows) times, and stored
#pragma once
#include "backends/llvm_expr.h"

namespace llvm {
class TargetMachine;
}  // namespace llvm

namespace cinn_like {

// `contract`: of EmitLlvm; else bf16 is always widened, which rounds as the loops do and flushes nothing. False where
// `nest` is no such nest any more: then its loops are to run.
// With the statement before it, `zeros`: where both are sums of a matrix unit's tiles that start from zero, which then
// never are in memory as zeros. False where they are not; then nothing is emitted.
bool EmitNest(llvm::IRBuilderBase& b, ExprEmitter& exprs, ir::Context& c, const llvm::TargetMachine& machine,
              bool contract, const ir::For& nest, const ir::Stmt* zeros = nullptr);

}  // namespace cinn_like
