#include "cinn_like/emit_code.h"

#include <algorithm>

#include "backends/c_program.h"
#include "backends/host_compile.h"
#include "runtime/kernel_images.h"

namespace cinn_like {

StatusOr<std::string> EmitCode(const EntryModule& code, const PassContext& context, const Device& device,
                               std::string_view kind, std::string kinds) {
  if (!context.target.HasKernels()) {
    if (kind == "c") {
      return backends::EmitCProgram(code.module, *device.kind, code.main, code.prepare, device.hooks);
    }
    kinds += ", c";
  }
  if (!device.kind->is_source) {
    if (kind == "llvm") return EmitHostModule(code.module, context.target, context.options, HostText::kLlvm);
    if (kind == "asm") return EmitHostModule(code.module, context.target, context.options, HostText::kAssembly);
    if (kind == "object") return EmitHostModule(code.module, context.target, context.options, HostText::kObject);
    kinds += ", llvm, asm, object";
  }
  ASSIGN_OR_RETURN(const auto compiler, MakeDeviceCompiler(device, context.target, context.options, nullptr));
  if (compiler != nullptr) {
    const std::vector<std::string> forms = compiler->Forms();
    for (const std::string& form : forms) kinds += ", " + form;
    if (!device.kind->is_source) kinds += ", kernels";
    if (!device.kind->is_source && kind == "kernels") {
      ASSIGN_OR_RETURN(const KernelImages images, compiler->Compile(code.module, ""));
      return images.Encode();
    }
    if (kind == forms[0]) return compiler->EmitSource(code.module);
    if (std::find(forms.begin(), forms.end(), kind) != forms.end()) {
      StatusOr<std::string> emitted = compiler->Emit(code.module, kind, "");
      return emitted.ok() ? std::move(emitted) : Annotate(emitted.status(), Cat("@", code.main));
    }
  }
  return absl::NotFoundError(Cat("no source of kind '", kind, "'; there are ", kinds));
}

}  // namespace cinn_like
