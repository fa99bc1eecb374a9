#include "backends/llvm_machine.h"

#include <mutex>

#include "backends/parallel_tasks.h"
#include "llvm/Analysis/BasicAliasAnalysis.h"
#include "llvm/Analysis/ScopedNoAliasAA.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Scalar.h"

namespace cinn_like {
namespace {

constexpr char kTriple[] = "x86_64-unknown-linux-gnu";

const llvm::Target* FindTarget() {
  static const llvm::Target* target = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // Ours alone: what a framework brings along of LLVM is another copy.
    const auto give_up = [](void*, const char* why, bool) { AbandonTask(Cat("LLVM gave up: ", why)); };
    llvm::install_fatal_error_handler(give_up);
    llvm::install_bad_alloc_error_handler(give_up);
    std::string error;
    return llvm::TargetRegistry::lookupTarget(kTriple, error);
  }();
  return target;
}

HostCpu DetectHostCpu() {
  const llvm::StringMap<bool> bits = llvm::sys::getHostCPUFeatures();
  HostCpu cpu{llvm::sys::getHostCPUName().str(), {}};
  // The name only tunes; what may be used comes from the bits.
  if (bits.lookup("amx-tile") && !llvm::StringRef(cpu.name).contains("rapids")) cpu.name = "sapphirerapids";
  // Only what the name does not imply: each feature costs time in every compilation.
  const std::unique_ptr<llvm::MCSubtargetInfo> implied(FindTarget()->createMCSubtargetInfo(kTriple, cpu.name, ""));
  std::vector<std::string> features;
  for (const auto& bit : bits) {
    std::string feature = Cat(bit.second ? "+" : "-", bit.first().str());
    if (!implied->checkFeatures(feature)) features.push_back(std::move(feature));
  }
  std::sort(features.begin(), features.end());
  for (const std::string& f : features) cpu.features += (cpu.features.empty() ? "" : ",") + f;
  return cpu;
}

}  // namespace

StatusOr<HostCpu> ResolveHostCpu(const Target& target) {
  if (FindTarget() == nullptr) return Internal("this LLVM generates no code for x86_64");
  static const HostCpu native = DetectHostCpu();
  HostCpu cpu = native;
  if (!target.mcpu.empty() && target.mcpu != "native") cpu = {target.mcpu, ""};
  for (const std::string& f : target.features) cpu.features += (cpu.features.empty() ? "" : ",") + f;
  const std::unique_ptr<llvm::MCSubtargetInfo> info(FindTarget()->createMCSubtargetInfo(kTriple, "", ""));
  if (!info->isCPUStringValid(cpu.name)) {
    return InvalidArgument("target '", target.Print(), "': LLVM knows no x86_64 CPU '", cpu.name, "'");
  }
  for (const std::string& f : target.features) {
    const auto known = info->getAllProcessorFeatures();
    if (std::none_of(known.begin(), known.end(), [&](const auto& k) { return f.substr(1) == k.Key; })) {
      return InvalidArgument("target '", target.Print(), "': LLVM knows no x86_64 feature '", f.substr(1), "'");
    }
    // Code of this process passes floats in SSE registers and has 64-bit pointers.
    for (std::string_view needed : {"-64bit", "-sse", "-sse2", "-x87", "-fxsr", "-cx8", "-cmov"}) {
      if (f == needed) return InvalidArgument("target '", target.Print(), "': x86_64 code needs '", f.substr(1), "'");
    }
  }
  return cpu;
}

void CollectErrors(llvm::LLVMContext& context, std::string* errors) {
  context.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* to) {
        if (info->getSeverity() != llvm::DS_Error) return;
        std::string text;
        llvm::raw_string_ostream out(text);
        llvm::DiagnosticPrinterRawOStream printer(out);
        info->print(printer);
        std::string& all = *static_cast<std::string*>(to);
        all += Cat(all.empty() ? "" : "; ", text);
      },
      errors);
}

StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const HostCpu& cpu) {
  llvm::TargetOptions options;
  // Small code with the position-independent model: the JIT places sections and runtime functions anywhere.
  std::unique_ptr<llvm::TargetMachine> machine(
      FindTarget()->createTargetMachine(kTriple, cpu.name, cpu.features, options, llvm::Reloc::PIC_,
                                        llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) return Internal("no LLVM target machine for CPU '", cpu.name, "'");
  return machine;
}

void OptimizeModule(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::legacy::PassManager passes;
  passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  passes.add(llvm::createScopedNoAliasAAWrapperPass());
  passes.add(llvm::createBasicAAWrapperPass());
  passes.add(llvm::createSROAPass());
  passes.add(llvm::createEarlyCSEPass(/*UseMemorySSA=*/true));
  passes.add(llvm::createLICMPass());
  passes.run(module);
}

StatusOr<std::string> GenerateHostCode(llvm::Module& module, llvm::TargetMachine& machine, HostCode kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  const auto type = kind == HostCode::kObject ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true)) {
    return Internal("LLVM emits no such file for ", machine.getTargetTriple().str());
  }
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

std::string PrintLlvm(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, nullptr);
  return text;
}

Status VerifyLlvm(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (!llvm::verifyModule(module, &out)) return absl::OkStatus();
  return Internal("malformed LLVM IR: ", text, "\n", PrintLlvm(module));
}

}  // namespace cinn_like
