#include "backends/compiler.h"

#include <deque>
#include <fstream>

#include "backends/host_symbols.h"
#include "backends/orc_engine.h"
#include "ir/lower.h"

namespace cinn_like {

// One Build. Members are freed from the last: host code goes before the kernels it launches.
struct Compiler::Loaded {
  ir::Module module;
  std::unique_ptr<LoadedKernels> kernels;
  std::deque<void*> kernel_variables;
  std::unique_ptr<JitCode> code;
  CalleeNames symbols;
};

Compiler::Compiler(Target target, CompileOptions options, ObjectCache* cache)
    : target_(std::move(target)), options_(std::move(options)), cache_(cache) {}
Compiler::~Compiler() = default;

StatusOr<std::unique_ptr<Compiler>> Compiler::Create(const Target& target, const CompileOptions& options,
                                                     ObjectCache* cache) {
  std::unique_ptr<Compiler> compiler(new Compiler(target, options, cache));
  ASSIGN_OR_RETURN(compiler->device_, MakeDeviceCompiler(target, options, cache));
  return compiler;
}

StatusOr<ir::Module> Compiler::Lower(const ir::Module& module) const {
  RETURN_IF_ERROR(ir::Verify(module));
  const std::string name = module.funcs.empty() ? "empty" : module.funcs[0].name;
  return ir::LowerModule(module, {options_, target_, name});
}

Status Compiler::Build(const ir::Module& input, std::string_view device_source) {
  ASSIGN_OR_RETURN(const ir::Module module, Lower(input));
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel && Lookup(f.name) != nullptr) {
      return InvalidArgument("function @", f.name, " was built before by this compiler");
    }
  }
  auto loaded = std::make_unique<Loaded>();
  SymbolAddresses symbols = HostSymbols(symbols_);
  if (device_ != nullptr) {
    ASSIGN_OR_RETURN(loaded->kernels, device_->Build(module, device_source));
  } else if (!device_source.empty()) {
    return InvalidArgument("target '", target_.Print(), "' takes no device source");
  }
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel) continue;
    if (device_ == nullptr) return InvalidArgument("target '", target_.Print(), "' runs no device kernel @", f.name);
    ASSIGN_OR_RETURN(void* kernel, loaded->kernels->Kernel(f.name));
    symbols.emplace_back(Cat(f.name, "_kernel_ptr_"), &loaded->kernel_variables.emplace_back(kernel));
  }
  ASSIGN_OR_RETURN(HostObjects host, CompileHostModule(module, target_, options_, cache_));
  const std::string name = module.funcs.empty() ? "empty" : module.funcs[0].name;
  ASSIGN_OR_RETURN(loaded->code, JitCode::Load(name, host.objects, symbols, options_.jit_listener));
  loaded->module = module;
  loaded->symbols = std::move(host.symbols);
  num_functions_ += host.functions;
  num_unique_ += host.unique;
  loaded_.push_back(std::move(loaded));
  return absl::OkStatus();
}

StatusOr<std::string> Compiler::GetSourceCode(const ir::Module& input) const {
  ASSIGN_OR_RETURN(const ir::Module module, Lower(input));
  if (device_ != nullptr) return device_->EmitSource(module);
  return EmitHostModule(module, target_, options_, HostText::kLlvm);
}

void* Compiler::Lookup(std::string_view function) const {
  for (const auto& loaded : loaded_) {
    auto it = loaded->symbols.find(std::string(function));
    if (it != loaded->symbols.end()) return loaded->code->Lookup(it->second);
  }
  return nullptr;
}

Status Compiler::ExportObject(const std::string& path) const {
  ir::Module all;
  for (const auto& loaded : loaded_) {
    all.funcs.insert(all.funcs.end(), loaded->module.funcs.begin(), loaded->module.funcs.end());
  }
  ASSIGN_OR_RETURN(const std::string object, EmitHostModule(all, target_, options_, HostText::kObject));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(object.data(), static_cast<std::streamsize>(object.size()));
  file.close();
  if (!file) return absl::UnavailableError(Cat("can't write object file '", path, "'"));
  return absl::OkStatus();
}

}  // namespace cinn_like
