#include "backends/library.h"

#include "backends/data_object.h"
#include "backends/host_symbols.h"
#include "backends/llvm_machine.h"
#include "backends/parallel_tasks.h"
#include "backends/system_linker.h"
#include "cinn_like/base/build_id.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace cinn_like {
namespace {

// The library's own names stand before those of the C library and of the runtime.
Status CheckName(const std::string& name) {
  bool taken = name.starts_with("_") || name.starts_with("cinn_");
  for (const auto& [symbol, address] : HostSymbols(RuntimeSymbols())) taken |= symbol == name;
  if (!taken) return absl::OkStatus();
  return InvalidArgument("function @", name,
                         ": a library's functions can't begin with '_' or 'cinn_', nor have the name of a function "
                         "that generated code calls");
}

// As `readelf -n` prints it.
std::string BuildIdText() {
  std::string text;
  for (const char c : BuildId()) text += Cat(absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
  return text;
}

StatusOr<std::string> Generate(llvm::Module& module, HostMachine& machine) {
  module.setDataLayout(machine.target().createDataLayout());
  module.setTargetTriple(machine.target().getTargetTriple().str());
  return machine.Generate(module, HostCode::kObject);
}

StatusOr<std::string> NoteObject(const LibraryInfo& info, HostMachine& machine) {
  llvm::LLVMContext context;
  llvm::Module module("note", context);
  const std::string note = EncodeLibraryNote(info);
  auto* bytes = llvm::ConstantDataArray::getString(context, {note.data(), note.size()}, /*AddNull=*/false);
  auto* variable = llvm::cast<llvm::GlobalVariable>(module.getOrInsertGlobal(kLibraryNoteSymbol, bytes->getType()));
  variable->setInitializer(bytes);
  variable->setConstant(true);
  variable->setSection(kLibraryNoteSection);
  variable->setAlignment(llvm::Align(4));
  return Generate(module, machine);
}

// For the linker: it only looks at names.
StatusOr<std::string> RuntimeSymbolsObject(HostMachine& machine) {
  llvm::LLVMContext context;
  llvm::Module module("runtime", context);
  for (const char* name : kLibraryRuntimeSymbols) {
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
    auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, module);
    llvm::IRBuilder<>(llvm::BasicBlock::Create(context, "", f)).CreateRetVoid();
  }
  return Generate(module, machine);
}

// The function as tvm-ffi calls it.
StatusOr<std::string> TvmFfiObject(const std::string& function, HostMachine& machine) {
  llvm::LLVMContext context;
  llvm::Module module("tvm_ffi", context);
  module.setPICLevel(llvm::PICLevel::BigPIC);
  llvm::Type *pointer = llvm::PointerType::getUnqual(context), *number = llvm::Type::getInt32Ty(context);
  auto* type = llvm::FunctionType::get(number, {pointer, pointer, number, pointer}, false);
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, kTvmFfiPrefix + function, module);
  const auto call = module.getOrInsertFunction("cinn_tvm_ffi_call", type);
  auto* entry = llvm::cast<llvm::Function>(module.getOrInsertFunction(function, type).getCallee());
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", f));
  b.CreateRet(b.CreateCall(call, {entry, f->getArg(1), f->getArg(2), f->getArg(3)}));
  return Generate(module, machine);
}

}  // namespace

StatusOr<std::string> MakeLibrary(const LibraryFunction& function, std::vector<std::string> objects,
                                  std::string_view weights, const Target& target) {
  ASSIGN_OR_RETURN(const HostCpu cpu, ResolveHostCpu(target));
  const LibraryInfo info{BuildIdText(), target.Print(), RequiredCpuFeatures(cpu), {function}};
  std::vector<std::string> exported = {kLibraryNoteSymbol, kTvmFfiPrefix + function.name};
  for (const std::string& name : {function.name, function.prepare}) {
    if (name.empty()) continue;
    RETURN_IF_ERROR(CheckName(name));
    exported.push_back(name);
  }
  StatusOr<std::string> note, symbols, tvm_ffi;
  const auto generate = [&]() -> Status {
    ASSIGN_OR_RETURN(const HostMachine::Borrowed machine, HostMachine::Borrow(cpu, HostEffort::kQuick));
    note = NoteObject(info, *machine);
    symbols = RuntimeSymbolsObject(*machine);
    tvm_ffi = TvmFfiObject(function.name, *machine);
    return absl::OkStatus();
  };
  Status status;
  RETURN_IF_ERROR(RunTasks({[&] { status = generate(); }}, 1));
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(note.status());
  RETURN_IF_ERROR(symbols.status());
  RETURN_IF_ERROR(tvm_ffi.status());
  objects.push_back(*std::move(note));
  objects.push_back(*std::move(tvm_ffi));
  if (function.weights) {
    objects.push_back(MakeDataObject(kLibraryWeightsSymbol, weights));
    exported.push_back(kLibraryWeightsSymbol);
  }
  ASSIGN_OR_RETURN(std::string file, LinkSharedLibrary({objects, exported, kLibraryRuntime, *symbols}));
  RETURN_IF_ERROR(SealLibrary(file));
  return file;
}

}  // namespace cinn_like
