// A lowered module as code: bytes that can be kept, and the same loaded into this process.
//
//   CompileModule(module, ...)  ->  CompiledCode  ->  an artifact, or LoadedCode  ->  Lookup("main")
#pragma once
#include <deque>
#include <memory>
#include <string_view>

#include "backends/device.h"
#include "backends/host_compile.h"
#include "backends/orc_engine.h"
#include "runtime/artifact.h"
#include "runtime/kernel_images.h"
#include "runtime/symbols.h"

namespace cinn_like {

struct CompiledCode {
  HostObjects host;
  KernelImages kernels;

  // Sections "symbols", "object.0", ... and those of KernelImages. The counts of HostObjects are not kept.
  void AddTo(Artifact& artifact) const;
  static StatusOr<CompiledCode> From(const Artifact& artifact);
};

// `device` is null for a host target, whose modules hold no kernels; `cache` may be null. `device_source` replaces the
// generated device source if it is not empty.
StatusOr<CompiledCode> CompileModule(const ir::Module& module, const Target& target, const CompileOptions& options,
                                     DeviceCompiler* device, ObjectCache* cache, std::string_view device_source = "");

// Host code and the kernels that it launches; freed with this.
class LoadedCode {
 public:
  static StatusOr<std::unique_ptr<LoadedCode>> Load(std::string_view name, const CompiledCode& code,
                                                    const RuntimeSymbols& runtime, const Device& device,
                                                    std::string_view listener = "");
  // The address of a host function of the module; null if there is none.
  void* Lookup(std::string_view function) const;

 private:
  // Freed from the last: host code goes before the kernels it launches.
  std::unique_ptr<LoadedKernels> kernels_;
  std::deque<void*> kernel_variables_;
  std::unique_ptr<JitCode> code_;
  CalleeNames symbols_;
};

}  // namespace cinn_like
