// Modules of functions -> functions that can be called.
//
//   ASSIGN_OR_RETURN(auto compiler, Compiler::Create(target));
//   RETURN_IF_ERROR(compiler->Build(module));
//   auto* f = reinterpret_cast<CinnFunctionPtr>(compiler->Lookup("f"));
//
// Modules may hold blocks and schedules' loop kinds: they are lowered first (ir/lower.h); lowered ones stay as they
// are. Host functions become machine code of this process. For a device target the module's kernels are compiled for
// the device and the host functions launch them through the symbols <kernel>_kernel_ptr_. Everything is freed with the
// Compiler. Build may be called again, for other functions. One thread at a time; code may run in any number.
//
// Functions for several devices lie side by side in a module whose entries say which (`func @f entry opencl (...)`):
//
//   const Target targets[] = {cpu, opencl};
//   ASSIGN_OR_RETURN(auto compiler, Compiler::Create(targets));
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device.h"
#include "backends/host_compile.h"
#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "ir/stmt.h"
#include "runtime/symbols.h"

namespace cinn_like {

class Compiler {
 public:
  // InvalidArgument where `devices` has not the target's.
  static StatusOr<std::unique_ptr<Compiler>> Create(const Target& target, const CompileOptions& options = {},
                                                    ObjectCache* cache = nullptr,
                                                    const Devices& devices = Devices::BuiltIn());
  // Each entry is built for the target whose device it names, or, where it names none, for the first, together with
  // what it calls; what no entry calls is built for the first. Targets are of different devices.
  static StatusOr<std::unique_ptr<Compiler>> Create(std::span<const Target> targets, const CompileOptions& options = {},
                                                    ObjectCache* cache = nullptr,
                                                    const Devices& devices = Devices::BuiltIn());
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  // `device_source` replaces the generated device source, of one target, if it is not empty. A name that was built
  // before is an error.
  Status Build(const ir::Module& module, std::string_view device_source = "");

  // What later Builds may call besides runtime_calls.def: int32_t name(..., const CinnCallEnv*).
  RuntimeSymbols& symbols() { return symbols_; }

  // The same for a module that LowerModule has already seen.
  Status BuildLowered(const ir::Module& module, std::string_view device_source = "");

  // The generated source: of the kernels for a device target, else LLVM IR; of several targets one behind the other.
  StatusOr<std::string> GetSourceCode(const ir::Module& module) const;

  // The address of an entry or internal function; null if no Build had it.
  void* Lookup(std::string_view function) const;

  // All host functions so far as one relocatable object; of one target.
  Status ExportObject(const std::string& path) const;

  // Of all Builds.
  int num_functions() const { return num_functions_; }
  int num_unique_functions() const { return num_unique_; }

 private:
  // One target's.
  struct Part {
    Target target;
    Device device;
    std::unique_ptr<DeviceCompiler> compiler;  // null: the device is the host
  };
  struct Loaded;
  Compiler(CompileOptions options, ObjectCache* cache);
  // Of each part the functions that are built for it.
  StatusOr<std::vector<ir::Module>> ShareOut(const ir::Module& module) const;
  StatusOr<ir::Module> Lower(const Part& part, const ir::Module& module) const;
  StatusOr<std::string> SourceOf(const Part& part, const ir::Module& module) const;
  Status BuildParts(const ir::Module& module, bool is_lowered, std::string_view device_source);

  CompileOptions options_;
  ObjectCache* cache_;
  RuntimeSymbols symbols_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Loaded>> loaded_;
  int num_functions_ = 0, num_unique_ = 0;
};

}  // namespace cinn_like
