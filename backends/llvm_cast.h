// Conversions between element types, scalar or vector. 16-bit floats are held as i16: they are only moved and
// converted, and so no target has to know them as a type.
//
// Float to float rounds to nearest even (once, from f64 too); float to integer truncates, and what does not fit becomes
// what eager PyTorch gives on the machine (docs/numerics.md); to bool is x != 0.
#pragma once
#include "cinn_like/base/dtype.h"
#include "ir/expr.h"

namespace llvm {
class IRBuilderBase;
class LLVMContext;
class Type;
class Value;
}  // namespace llvm

namespace cinn_like {

// The type of a value: bool is i1, f16 and bf16 are i16.
llvm::Type* ValueType(llvm::LLVMContext& context, ir::Type t);
// The type in memory: bool is i8.
llvm::Type* MemoryType(llvm::LLVMContext& context, ir::Type t);

llvm::Value* EmitCast(llvm::IRBuilderBase& b, DType from, DType to, llvm::Value* value);

}  // namespace cinn_like
