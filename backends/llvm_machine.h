// The CPU that host code is made for, and LLVM's two services for it: clean up a module, turn a module into bytes.
//
//   Target "x86_64 -mcpu=native"  ->  HostCpu {"znver5", "+avx512f,+fma,..."}  ->  TargetMachine  ->  object
//
// A TargetMachine serves one thread at a time; making one takes about 0.1 ms.
#pragma once
#include <memory>
#include <string>

#include "cinn_like/base/status.h"
#include "cinn_like/base/target.h"

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
}  // namespace llvm

namespace cinn_like {

// A CPU name that LLVM knows and its feature string. Everything that can change code, so good for cache keys.
struct HostCpu {
  std::string name;
  std::string features;
};
// "native" is this machine, by its feature bits: virtual machines report models that don't match them.
StatusOr<HostCpu> ResolveHostCpu(const Target& target);

// What is reported as an error of code in `context` is added to `errors`; by default it would end the process. What
// LLVM calls fatal abandons the task (backends/parallel_tasks.h), so code is generated in tasks only.
void CollectErrors(llvm::LLVMContext& context, std::string* errors);

StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const HostCpu& cpu);

// Scalars and constant-indexed local arrays into registers, common subexpressions, loop-invariant code.
void OptimizeModule(llvm::Module& module, llvm::TargetMachine& machine);

enum class HostCode { kObject, kAssembly };
// Consumes the module's instructions: print its IR before.
StatusOr<std::string> GenerateHostCode(llvm::Module& module, llvm::TargetMachine& machine, HostCode kind);

// The IR as text; empty message from the IR verifier means that it is well-formed.
std::string PrintLlvm(const llvm::Module& module);
Status VerifyLlvm(const llvm::Module& module);

}  // namespace cinn_like
