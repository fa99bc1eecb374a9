// Elementary functions as inlined code: polynomials on whole vectors (backends/lane_math.h), the error bounds of
// docs/numerics.md, infinities, NaN, signed zeros and denormals as C's libm has them.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "ir/expr.h"

namespace llvm {
class Function;
class FunctionType;
class IRBuilderBase;
class Module;
class TargetMachine;
class Value;
}  // namespace llvm

namespace cinn_like {

class VectorMath {
 public:
  VectorMath(llvm::Module& module, const llvm::TargetMachine& machine) : module_(module), machine_(machine) {}

  // op: one that expr_ops.def says to be Math, on f32 or f64, scalar or vector; y for kPow only.
  llvm::Value* Emit(llvm::IRBuilderBase& b, ir::ExprOp op, llvm::Value* x, llvm::Value* y = nullptr);
  // What x leaves when divided by y, exactly, with the sign of x; f32 or f64.
  llvm::Value* EmitRemainder(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y);

 private:
  // `name`: a function of two vectors like x, its body yet to be written if that is `is_new`.
  llvm::Function* Helper(llvm::IRBuilderBase& b, std::string_view name, llvm::Value* x, size_t num_args, bool* is_new);
  // A call of libm's `name` for each lane.
  llvm::Value* CallLibm(llvm::IRBuilderBase& b, std::string_view name, llvm::Value* x, llvm::Value* y);

  llvm::Module& module_;
  const llvm::TargetMachine& machine_;
};

}  // namespace cinn_like
