// The elementary functions on the lanes of an f32 or f64 value, scalar or vector, without a branch: numbers and
// polynomials are those of its MathTables; an fma is always one rounding.
#pragma once
#include <vector>

#include "ir/expr.h"

namespace llvm {
class IRBuilderBase;
class TargetMachine;
class Type;
class Value;
}  // namespace llvm

namespace cinn_like {

// op: one that expr_ops.def says to be Math; y for kPow only. `*too_large`, where it is not null then, says of which
// lanes the result is not one: arguments beyond the reach of a reduction.
llvm::Value* EmitLaneMath(llvm::IRBuilderBase& b, const llvm::TargetMachine& machine, ir::ExprOp op, llvm::Value* x,
                          llvm::Value* y, llvm::Value** too_large);

// `like` with other elements.
llvm::Type* WithElement(llvm::Type* like, llvm::Type* element);
// x in vectors of `lanes`, which divide its own.
std::vector<llvm::Value*> SplitLanes(llvm::IRBuilderBase& b, llvm::Value* x, unsigned lanes);

}  // namespace cinn_like
