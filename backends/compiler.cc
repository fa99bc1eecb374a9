#include "backends/compiler.h"

#include <algorithm>

#include "backends/c_program.h"
#include "backends/compiled_code.h"
#include "ir/lower.h"

namespace cinn_like {

// One Build.
struct Compiler::Loaded {
  ir::Module module;
  std::unique_ptr<LoadedCode> code;
};

Compiler::Compiler(CompileOptions options, ObjectCache* cache) : options_(std::move(options)), cache_(cache) {}
Compiler::~Compiler() = default;

StatusOr<std::unique_ptr<Compiler>> Compiler::Create(const Target& target, const CompileOptions& options,
                                                     ObjectCache* cache, const Devices& devices) {
  return Create({&target, 1}, options, cache, devices);
}

StatusOr<std::unique_ptr<Compiler>> Compiler::Create(std::span<const Target> targets, const CompileOptions& options,
                                                     ObjectCache* cache, const Devices& devices) {
  if (targets.empty()) return InvalidArgument("a compiler needs a target");
  std::unique_ptr<Compiler> compiler(new Compiler(options, cache));
  for (const Target& target : targets) {
    for (const Part& other : compiler->parts_) {
      if (other.device.kind == target.device)
        return InvalidArgument("targets '", other.target.Print(), "' and '", target.Print(), "' are of one device");
    }
    ASSIGN_OR_RETURN(const Device device, devices.Of(target));
    // Without a device there is still source to be had.
    const Target resolved = ResolveTarget(target, *device.runtime).value_or(target);
    ASSIGN_OR_RETURN(auto device_compiler, MakeDeviceCompiler(device, resolved, options, cache));
    compiler->parts_.push_back({resolved, device, std::move(device_compiler)});
  }
  return compiler;
}

StatusOr<std::vector<ir::Module>> Compiler::ShareOut(const ir::Module& module) const {
  std::vector<ir::Module> shares(parts_.size(), {module.context, {}});
  if (parts_.size() == 1) {
    shares[0] = module;
    return shares;
  }
  std::vector<std::vector<bool>> is_in(parts_.size(), std::vector<bool>(module.funcs.size()));
  const auto add = [&](const auto& self, size_t part, const ir::Func* f) -> void {
    if (f == nullptr || is_in[part][f - module.funcs.data()]) return;
    is_in[part][f - module.funcs.data()] = true;
    ir::VisitStmts(f->body, [&](const ir::Stmt& s) {
      if (const auto* call = ir::As<ir::Call>(s)) self(self, part, module.Find(call->callee));
      if (const auto* launch = ir::As<ir::Launch>(s)) self(self, part, module.Find(launch->kernel));
      return true;
    });
  };
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kEntry) continue;
    std::string known;
    size_t part = parts_.size();
    for (size_t k = parts_.size(); k-- > 0;) {
      if (f.device.empty() ? k == 0 : f.device == parts_[k].device.kind->name) part = k;
      known = Cat(parts_[k].device.kind->name, known.empty() ? "" : ", ", known);
    }
    if (part == parts_.size())
      return InvalidArgument("entry function @", f.name, " is for device '", f.device, "', the targets are of ", known);
    add(add, part, &f);
  }
  for (size_t i = 0; i < module.funcs.size(); ++i) {
    if (std::none_of(is_in.begin(), is_in.end(), [&](const auto& part) { return part[i]; }))
      add(add, 0, &module.funcs[i]);
  }
  for (size_t k = 0; k < parts_.size(); ++k) {
    for (size_t i = 0; i < module.funcs.size(); ++i) {
      if (is_in[k][i]) shares[k].funcs.push_back(module.funcs[i]);
    }
  }
  return shares;
}

StatusOr<ir::Module> Compiler::Lower(const Part& part, const ir::Module& module) const {
  const std::string name = module.funcs.empty() ? "empty" : module.funcs[0].name;
  return ir::LowerModule(module, {options_, part.target, name});
}

Status Compiler::Build(const ir::Module& module, std::string_view device_source) {
  RETURN_IF_ERROR(ir::Verify(module));
  return BuildParts(module, false, device_source);
}

Status Compiler::BuildLowered(const ir::Module& module, std::string_view device_source) {
  return BuildParts(module, true, device_source);
}

Status Compiler::BuildParts(const ir::Module& module, bool is_lowered, std::string_view device_source) {
  if (!device_source.empty() && parts_.size() > 1)
    return InvalidArgument("source of kernels is of one target, this compiler has ", parts_.size());
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel && Lookup(f.name) != nullptr)
      return InvalidArgument("function @", f.name, " was built before by this compiler");
  }
  ASSIGN_OR_RETURN(const std::vector<ir::Module> shares, ShareOut(module));
  std::vector<std::unique_ptr<Loaded>> all;
  for (size_t k = 0; k < parts_.size(); ++k) {
    const Part& part = parts_[k];
    if (shares[k].funcs.empty() && parts_.size() > 1) continue;
    ir::Module lowered = shares[k];
    if (!is_lowered) {
      ASSIGN_OR_RETURN(lowered, Lower(part, lowered));
    }
    RETURN_IF_ERROR(CheckRunsHere(part.device));
    ASSIGN_OR_RETURN(const CompiledCode code,
                     CompileModule(lowered, part.target, options_, part.compiler.get(), cache_, device_source));
    const std::string name = lowered.funcs.empty() ? "empty" : lowered.funcs[0].name;
    ASSIGN_OR_RETURN(auto loaded, LoadedCode::Load(name, code, symbols_, part.device, options_.jit_listener));
    num_functions_ += code.host.functions;
    num_unique_ += code.host.unique;
    all.push_back(std::make_unique<Loaded>(std::move(lowered), std::move(loaded)));
  }
  for (auto& loaded : all) loaded_.push_back(std::move(loaded));
  return absl::OkStatus();
}

StatusOr<std::string> Compiler::GetSourceCode(const ir::Module& module) const {
  RETURN_IF_ERROR(ir::Verify(module));
  ASSIGN_OR_RETURN(const std::vector<ir::Module> shares, ShareOut(module));
  if (parts_.size() == 1) return SourceOf(parts_[0], shares[0]);
  std::string all;
  for (size_t k = 0; k < parts_.size(); ++k) {
    if (shares[k].funcs.empty()) continue;
    ASSIGN_OR_RETURN(const std::string source, SourceOf(parts_[k], shares[k]));
    all += Cat("// ---- ", parts_[k].target.Print(), "\n", source);
  }
  return all;
}

StatusOr<std::string> Compiler::SourceOf(const Part& part, const ir::Module& input) const {
  ASSIGN_OR_RETURN(const ir::Module module, Lower(part, input));
  if (part.compiler != nullptr) return part.compiler->EmitSource(module);
  if (part.device.kind->is_source) return backends::EmitCProgram(module, *part.device.kind, "", "", part.device.hooks);
  return EmitHostModule(module, part.target, options_, HostText::kLlvm);
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
  if (parts_.size() > 1) return InvalidArgument("an object is of one target, this compiler has ", parts_.size());
  return ExportHostObject(all, parts_[0].target, options_, path);
}

}  // namespace cinn_like
