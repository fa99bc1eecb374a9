#include "backends/llvm_machine.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "backends/parallel_tasks.h"
#include "cinn_like/base/host_cpu.h"
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
  llvm::StringMap<bool> bits = llvm::sys::getHostCPUFeatures();
  if (bits.lookup("avx512f") && !ThisCpu().has_avx512) return {"x86-64-v3", ""};  // by CINN_LIKE_MAX_ISA
  if (!ThisCpu().has_amx) {
    for (const char* tiles : {"amx-tile", "amx-bf16", "amx-int8", "amx-fp16", "amx-complex"}) bits[tiles] = false;
  }
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
  RETURN_IF_ERROR(CheckMaxIsa());
  static const HostCpu native = DetectHostCpu();
  HostCpu cpu = native;
  if (!target.mcpu.empty() && target.mcpu != "native") cpu = {target.mcpu, ""};
  // Else they are the device's, and the host's part of the code runs here.
  const std::vector<std::string> features = target.HasKernels() ? std::vector<std::string>() : target.features;
  for (const std::string& f : features) cpu.features += (cpu.features.empty() ? "" : ",") + f;
  const std::unique_ptr<llvm::MCSubtargetInfo> info(FindTarget()->createMCSubtargetInfo(kTriple, "", ""));
  if (!info->isCPUStringValid(cpu.name)) {
    return InvalidArgument("target '", target.Print(), "': LLVM knows no x86_64 CPU '", cpu.name, "'");
  }
  for (const std::string& f : features) {
    const auto known = info->getAllProcessorFeatures();
    if (std::none_of(known.begin(), known.end(), [&](const auto& k) { return f.substr(1) == k.Key; })) {
      return InvalidArgument("target '", target.Print(), "': LLVM knows no x86_64 feature '", f.substr(1), "'");
    }
    if ((target.mcpu.empty() || target.mcpu == "native") && f.starts_with("+amx") && !ThisCpu().has_amx) {
      return InvalidArgument("target '", target.Print(), "': this machine has no '", f.substr(1),
                             "', or its system lets this process use none");
    }
    // Code of this process passes floats in SSE registers and has 64-bit pointers.
    for (std::string_view needed : {"-64bit", "-sse", "-sse2", "-x87", "-fxsr", "-cx8", "-cmov"}) {
      if (f == needed) return InvalidArgument("target '", target.Print(), "': x86_64 code needs '", f.substr(1), "'");
    }
  }
  return cpu;
}

std::vector<std::string> RequiredCpuFeatures(const HostCpu& cpu) {
  const std::unique_ptr<llvm::MCSubtargetInfo> info(
      FindTarget()->createMCSubtargetInfo(kTriple, cpu.name, cpu.features));
  std::vector<std::string> required;
  for (const CpuFeature& f : CpuFeatures()) {
    if (info->checkFeatures(Cat("+", f.name))) required.emplace_back(f.name);
  }
  return required;
}

bool HasFeatures(const llvm::TargetMachine& machine, std::string_view features) {
  return machine.getTargetTriple().isX86() && machine.getMCSubtargetInfo()->checkFeatures(std::string(features));
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

struct HostMachine::Impl {
  std::string key;  // of the CPU and the effort
  std::unique_ptr<llvm::TargetMachine> target;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out{bytes};
  llvm::legacy::PassManager cleanup, object;  // the latter writes to `out`

  Status AddCodeGeneration(llvm::legacy::PassManager& to, llvm::CodeGenFileType type) {
    if (!target->addPassesToEmitFile(to, out, nullptr, type, /*DisableVerify=*/true)) return absl::OkStatus();
    return Internal("LLVM emits no such file for ", target->getTargetTriple().str());
  }

  std::string Run(llvm::legacy::PassManager& passes, llvm::Module& module) {
    bytes.clear();
    passes.run(module);
    return std::string(bytes.data(), bytes.size());
  }
};

namespace {

// Machines that no thread uses. Never destroyed: compilations may run while the process exits.
struct IdleMachines {
  std::mutex mutex;
  std::vector<HostMachine*> machines;
};
IdleMachines& Idle() {
  static auto* idle = new IdleMachines;
  return *idle;
}
constexpr size_t kMaxIdle = 64;

}  // namespace

HostMachine::HostMachine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HostMachine::~HostMachine() = default;

StatusOr<HostMachine::Borrowed> HostMachine::Borrow(const HostCpu& cpu, HostEffort effort) {
  const bool is_fast = effort == HostEffort::kFast;
  std::string key = Cat(cpu.name, "|", cpu.features, "|", is_fast);
  {
    IdleMachines& idle = Idle();
    const std::lock_guard lock(idle.mutex);
    // The one that was used last.
    const auto it = std::find_if(idle.machines.rbegin(), idle.machines.rend(),
                                 [&](const HostMachine* m) { return m->impl_->key == key; });
    if (it != idle.machines.rend()) {
      Borrowed found(*it);
      idle.machines.erase(std::next(it).base());
      return found;
    }
  }
  auto impl = std::make_unique<Impl>();
  impl->key = std::move(key);
  llvm::TargetOptions options;
  // Small code with the position-independent model: the JIT places sections and runtime functions anywhere.
  impl->target.reset(FindTarget()->createTargetMachine(
      kTriple, cpu.name, cpu.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      is_fast ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None));
  if (impl->target == nullptr) return Internal("no LLVM target machine for CPU '", cpu.name, "'");
  if (is_fast) {
    llvm::legacy::PassManager& passes = impl->cleanup;
    passes.add(llvm::createTargetTransformInfoWrapperPass(impl->target->getTargetIRAnalysis()));
    passes.add(llvm::createScopedNoAliasAAWrapperPass());
    passes.add(llvm::createBasicAAWrapperPass());
    passes.add(llvm::createSROAPass());
    passes.add(llvm::createEarlyCSEPass(/*UseMemorySSA=*/true));
    passes.add(llvm::createLICMPass());
  }
  RETURN_IF_ERROR(impl->AddCodeGeneration(impl->object, llvm::CodeGenFileType::ObjectFile));
  return Borrowed(new HostMachine(std::move(impl)));
}

void HostMachine::GiveBack::operator()(HostMachine* machine) const {
  IdleMachines& idle = Idle();
  {
    const std::lock_guard lock(idle.mutex);
    idle.machines.push_back(machine);
    if (idle.machines.size() <= kMaxIdle) return;
    machine = idle.machines.front();
    idle.machines.erase(idle.machines.begin());
  }
  delete machine;
}

const llvm::TargetMachine& HostMachine::target() const { return *impl_->target; }

void HostMachine::Optimize(llvm::Module& module) { impl_->cleanup.run(module); }

StatusOr<std::string> HostMachine::Generate(llvm::Module& module, HostCode kind) {
  if (kind == HostCode::kObject) return impl_->Run(impl_->object, module);
  llvm::legacy::PassManager assembly;
  RETURN_IF_ERROR(impl_->AddCodeGeneration(assembly, llvm::CodeGenFileType::AssemblyFile));
  return impl_->Run(assembly, module);
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
