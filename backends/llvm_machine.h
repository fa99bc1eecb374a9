// The CPU that host code is made for, and LLVM's two services for it: clean up a module, turn a module into bytes.
//
//   Target "x86_64 -mcpu=native"  ->  HostCpu {"znver5", "+avx512f,+fma,..."}  ->  HostMachine  ->  object
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
// What code for it may use, of CpuFeatures() (base/host_cpu.h).
std::vector<std::string> RequiredCpuFeatures(const HostCpu& cpu);

// Has `machine` all of an x86 processor's "+avx512f,+avx512vl"?
bool HasFeatures(const llvm::TargetMachine& machine, std::string_view features);

// What is reported as an error of code in `context` is added to `errors`; by default it would end the process. What
// LLVM calls fatal abandons the task (backends/parallel_tasks.h), so code is generated in tasks only.
void CollectErrors(llvm::LLVMContext& context, std::string* errors);

enum class HostCode { kObject, kAssembly };

// What code is worth: its run time, or, where it runs once a call and only checks and calls, its compile time.
enum class HostEffort { kFast, kQuick };

// A target machine and its passes, for modules one after another: setting them up takes as long as a small kernel does.
class HostMachine {
 public:
  struct GiveBack {
    void operator()(HostMachine* machine) const;
  };
  using Borrowed = std::unique_ptr<HostMachine, GiveBack>;
  // The caller's alone until it goes out of scope: one that was given back, or a new one.
  static StatusOr<Borrowed> Borrow(const HostCpu& cpu, HostEffort effort);

  ~HostMachine();
  const llvm::TargetMachine& target() const;
  // Scalars and constant-indexed local arrays into registers, common subexpressions, loop-invariant code. Nothing for
  // kQuick.
  void Optimize(llvm::Module& module);
  // Consumes the module's instructions: print its IR before.
  StatusOr<std::string> Generate(llvm::Module& module, HostCode kind);

 private:
  struct Impl;
  explicit HostMachine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The IR as text; empty message from the IR verifier means that it is well-formed.
std::string PrintLlvm(const llvm::Module& module);
Status VerifyLlvm(const llvm::Module& module);

}  // namespace cinn_like
