#include "backends/compiled_code.h"

#include <sstream>

#include "backends/host_symbols.h"

namespace cinn_like {

void CompiledCode::AddTo(Artifact& artifact) const {
  std::string table;
  for (const auto& [function, symbol] : host.symbols) table += Cat(function, " ", symbol, "\n");
  artifact.sections["symbols"] = std::move(table);
  for (size_t i = 0; i < host.objects.size(); ++i) artifact.sections[Cat("object.", i)] = host.objects[i];
  kernels.AddTo(artifact);
}

StatusOr<CompiledCode> CompiledCode::From(const Artifact& artifact) {
  CompiledCode r;
  const std::string* table = artifact.Find("symbols");
  if (table == nullptr) return absl::DataLossError("artifact: no section 'symbols'");
  std::istringstream in(*table);
  for (std::string function, symbol; in >> function >> symbol;) r.host.symbols[function] = symbol;
  while (const std::string* object = artifact.Find(Cat("object.", r.host.objects.size()))) {
    r.host.objects.push_back(*object);
  }
  ASSIGN_OR_RETURN(r.kernels, KernelImages::From(artifact));
  return r;
}

StatusOr<CompiledCode> CompileModule(const ir::Module& module, const Target& target, const CompileOptions& options,
                                     DeviceCompiler* device, ObjectCache* cache, std::string_view device_source) {
  CompiledCode r;
  if (device != nullptr) {
    ASSIGN_OR_RETURN(r.kernels, device->Compile(module, device_source));
  } else if (!device_source.empty()) {
    return InvalidArgument("target '", target.Print(), "' takes no device source");
  } else {
    for (const ir::Func& f : module.funcs) {
      if (f.kind != ir::FuncKind::kKernel) continue;
      return InvalidArgument("target '", target.Print(), "' runs no device kernel @", f.name);
    }
  }
  ASSIGN_OR_RETURN(r.host, CompileHostModule(module, target, options, cache));
  return r;
}

StatusOr<std::unique_ptr<LoadedCode>> LoadedCode::Load(std::string_view name, const CompiledCode& code,
                                                       const RuntimeSymbols& runtime, const Device& device,
                                                       std::string_view listener) {
  auto r = std::make_unique<LoadedCode>();
  SymbolAddresses symbols = HostSymbols(runtime);
  ASSIGN_OR_RETURN(r->kernels_, LoadedKernels::Load(code.kernels, *device.runtime));
  // Nothing writes to it.
  symbols.emplace_back(Cat("cinn_device_", device.kind->name), const_cast<RuntimeDevice*>(device.runtime));
  for (const KernelImages::Kernel& k : code.kernels.kernels) {
    ASSIGN_OR_RETURN(void* kernel, r->kernels_->Kernel(k.name));
    symbols.emplace_back(Cat(k.name, "_kernel_ptr_"), &r->kernel_variables_.emplace_back(kernel));
  }
  ASSIGN_OR_RETURN(r->code_, JitCode::Load(name, code.host.objects, symbols, listener));
  r->symbols_ = code.host.symbols;
  return r;
}

void* LoadedCode::Lookup(std::string_view function) const {
  auto it = symbols_.find(std::string(function));
  return it == symbols_.end() ? nullptr : code_->Lookup(it->second);
}

}  // namespace cinn_like
