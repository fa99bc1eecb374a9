#include "backends/compiler.h"

#include "backends/c_program.h"
#include "backends/compiled_code.h"
#include "ir/lower.h"

namespace cinn_like {

// One Build.
struct Compiler::Loaded {
  ir::Module module;
  std::unique_ptr<LoadedCode> code;
};

Compiler::Compiler(Target target, CompileOptions options, ObjectCache* cache, Device device)
    : target_(std::move(target)), options_(std::move(options)), cache_(cache), device_(std::move(device)) {}
Compiler::~Compiler() = default;

StatusOr<std::unique_ptr<Compiler>> Compiler::Create(const Target& target, const CompileOptions& options,
                                                     ObjectCache* cache, const Devices& devices) {
  ASSIGN_OR_RETURN(const Device device, devices.Of(target));
  // Without a device there is still source code to be had.
  const Target resolved = ResolveTarget(target, *device.runtime).value_or(target);
  std::unique_ptr<Compiler> compiler(new Compiler(resolved, options, cache, device));
  ASSIGN_OR_RETURN(compiler->device_compiler_, MakeDeviceCompiler(device, resolved, options, cache));
  return compiler;
}

StatusOr<ir::Module> Compiler::Lower(const ir::Module& module) const {
  RETURN_IF_ERROR(ir::Verify(module));
  const std::string name = module.funcs.empty() ? "empty" : module.funcs[0].name;
  return ir::LowerModule(module, {options_, target_, name});
}

Status Compiler::Build(const ir::Module& input, std::string_view device_source) {
  ASSIGN_OR_RETURN(const ir::Module module, Lower(input));
  return BuildLowered(module, device_source);
}

Status Compiler::BuildLowered(const ir::Module& module, std::string_view device_source) {
  RETURN_IF_ERROR(CheckRunsHere(device_));
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel && Lookup(f.name) != nullptr) {
      return InvalidArgument("function @", f.name, " was built before by this compiler");
    }
  }
  ASSIGN_OR_RETURN(const CompiledCode code,
                   CompileModule(module, target_, options_, device_compiler_.get(), cache_, device_source));
  const std::string name = module.funcs.empty() ? "empty" : module.funcs[0].name;
  ASSIGN_OR_RETURN(auto loaded, LoadedCode::Load(name, code, symbols_, device_, options_.jit_listener));
  num_functions_ += code.host.functions;
  num_unique_ += code.host.unique;
  loaded_.push_back(std::make_unique<Loaded>(module, std::move(loaded)));
  return absl::OkStatus();
}

StatusOr<std::string> Compiler::GetSourceCode(const ir::Module& input) const {
  ASSIGN_OR_RETURN(const ir::Module module, Lower(input));
  if (device_compiler_ != nullptr) return device_compiler_->EmitSource(module);
  if (device_.kind->is_source) return backends::EmitCProgram(module, *device_.kind, "", "", device_.hooks);
  return EmitHostModule(module, target_, options_, HostText::kLlvm);
}

void* Compiler::Lookup(std::string_view function) const {
  for (const auto& loaded : loaded_) {
    if (void* address = loaded->code->Lookup(function); address != nullptr) return address;
  }
  return nullptr;
}

Status Compiler::ExportObject(const std::string& path) const {
  ir::Module all;
  for (const auto& loaded : loaded_) {
    all.funcs.insert(all.funcs.end(), loaded->module.funcs.begin(), loaded->module.funcs.end());
  }
  return ExportHostObject(all, target_, options_, path);
}

}  // namespace cinn_like
