// Expressions of the lowered form -> LLVM values. Lanes are LLVM vectors. An expression that a statement uses twice is
// emitted once: call BeginStatement between statements, because loads are values only until the next store.
//
// Index forms: a scalar; a ramp of stride 1 (one contiguous access); lanes that are near each other (llvm_lanes.h: a
// few of them); any other vector (gather, scatter). Accesses of different buffers never alias, and say so to LLVM.
#pragma once
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/llvm_lanes.h"
#include "backends/vector_math.h"
#include "cinn_like/base/status.h"
#include "ir/stmt.h"

namespace llvm {
class IRBuilderBase;
class Instruction;
class LLVMContext;
class MDNode;
class Value;
}  // namespace llvm

namespace cinn_like {

// One alias scope per buffer of a function; shared by the functions outlined from it.
class AliasScopes {
 public:
  AliasScopes(llvm::LLVMContext& context, const ir::Func& func);
  void Annotate(llvm::Instruction* access, ir::Buffer buffer) const;

 private:
  struct Lists {
    llvm::MDNode* own;
    llvm::MDNode* others;
  };
  absl::flat_hash_map<ir::Buffer, Lists> lists_;
};

class ExprEmitter {
 public:
  ExprEmitter(llvm::IRBuilderBase& b, VectorMath& math, const AliasScopes& alias) : b_(b), math_(math), alias_(alias) {}

  void Bind(ir::Expr var, llvm::Value* value) { vars_[var] = value; }
  void Bind(ir::Buffer buffer, llvm::Value* pointer) { buffers_[buffer] = pointer; }
  // Null where unknown.
  llvm::Value* Find(ir::Expr var) const;
  llvm::Value* Find(ir::Buffer buffer) const;

  void BeginStatement() { memo_.clear(); }
  llvm::Value* Emit(ir::Expr e);
  // A kAddress as a pointer.
  llvm::Value* EmitAddress(ir::Expr e);
  void EmitStore(const ir::Store& store);

  // The first thing that could not be emitted; values are poison from there on.
  const Status& status() const { return status_; }

 private:
  llvm::Value* EmitNew(ir::Expr e);
  llvm::Value* EmitOperator(ir::Expr e);
  llvm::Value* EmitIntDivision(ir::Expr e, llvm::Value* x, llvm::Value* y);
  llvm::Value* DivideLanes(ir::Type t, llvm::Value* x, llvm::Value* y);
  llvm::Value* Floored(bool is_mod, llvm::Value* quotient, llvm::Value* rem, llvm::Value* y);
  llvm::Value* EmitConjunction(ir::Expr e);
  llvm::Value* EmitMinMax(ir::ExprOp op, DType t, llvm::Value* x, llvm::Value* y);
  llvm::Value* EmitLanes(ir::Expr e);
  llvm::Value* EmitLoad(ir::Expr e);
  llvm::Value* WantedOf(const NearLanes::Part& part, llvm::Value* mask);
  llvm::Value* EmitNearLoad(ir::Expr e, const NearLanes& near, llvm::Value* mask);
  void EmitNearStore(const ir::Store& s, const NearLanes& near, llvm::Value* value, llvm::Value* mask);
  llvm::Value* EmitPointer(ir::Buffer buffer, ir::Expr index);
  llvm::Value* EmitFirstPointer(ir::Buffer buffer, ir::Expr index);
  llvm::Value* Pointers(ir::Buffer buffer, ir::Expr index, int lanes);
  llvm::Value* Splat(llvm::Value* v, int lanes);
  bool IsOnStack(ir::Buffer buffer, ir::Expr first, int lanes);
  llvm::Value* Fail(ir::Expr e, std::string_view what);

  llvm::IRBuilderBase& b_;
  VectorMath& math_;
  const AliasScopes& alias_;
  absl::flat_hash_map<ir::Expr, llvm::Value*> vars_;
  absl::flat_hash_map<ir::Buffer, llvm::Value*> buffers_;
  absl::flat_hash_map<ir::Expr, llvm::Value*> memo_;
  Status status_;
};

}  // namespace cinn_like
