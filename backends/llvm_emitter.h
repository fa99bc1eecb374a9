// Host functions of the lowered form -> an LLVM module.
//
//   func @row(x: f32[8], y: f32[8]) {...}   ->  i32 @row(ptr x, ptr y, ptr env)              0, or a failed call's code
//   func @f(x: f32[n,8], y: f32[n,8] out) @entry {...}  ->  i32 @f(ptr self, ptr args, i32 num_args, ptr env)
//
// A parallel loop becomes a function of a range and of captured values, run by cinn_parallel_for. Local memory becomes
// registers where its indices are constant. Called functions, <kernel>_kernel_ptr_ variables and cinn_device_<name> are
// external symbols.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "cinn_like/base/device_kind.h"
#include "cinn_like/base/status.h"
#include "ir/stmt.h"

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
}  // namespace llvm

namespace cinn_like {

// `device`: of entries. `contract`: a * b + c may round once. `threads`: of parallel loops; 0: as many as the process
// may use.
StatusOr<std::unique_ptr<llvm::Module>> EmitLlvm(llvm::LLVMContext& context, const llvm::TargetMachine& machine,
                                                 std::string_view name, std::span<const ir::Func> funcs, bool contract,
                                                 int64_t threads, const DeviceKind& device);

}  // namespace cinn_like
