#include "backends/library.h"

#include <algorithm>
#include <map>
#include <set>

#include "backends/data_object.h"
#include "backends/host_symbols.h"
#include "backends/llvm_machine.h"
#include "backends/parallel_tasks.h"
#include "backends/system_linker.h"
#include "cinn_like/base/build_id.h"
#include "cinn_like/base/hash.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/Binary.h"
#include "llvm/Object/ObjectFile.h"
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

// For the linker: it only looks at names. Those of a device that the program has are found in the same way.
StatusOr<std::string> RuntimeSymbolsObject(const std::set<std::string>& names, HostMachine& machine) {
  llvm::LLVMContext context;
  llvm::Module module("runtime", context);
  for (const std::string& name : names) {
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
    auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, module);
    llvm::IRBuilder<>(llvm::BasicBlock::Create(context, "", f)).CreateRetVoid();
  }
  return Generate(module, machine);
}

// The pointers that host code launches, under one symbol for the loader.
StatusOr<std::string> PointersObject(const std::string& symbol, const std::vector<std::string>& names,
                                     HostMachine& machine) {
  llvm::LLVMContext context;
  llvm::Module module("pointers", context);
  auto* pointer = llvm::PointerType::getUnqual(context);
  auto* type = llvm::ArrayType::get(pointer, names.size());
  auto* all = llvm::cast<llvm::GlobalVariable>(module.getOrInsertGlobal(symbol, type));
  all->setInitializer(llvm::Constant::getNullValue(type));
  for (size_t i = 0; i < names.size(); ++i) {
    auto* at = llvm::ConstantExpr::getInBoundsGetElementPtr(pointer, all,
                                                            llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), i));
    llvm::GlobalAlias::create(pointer, 0, llvm::GlobalValue::ExternalLinkage, names[i], at, &module);
  }
  return Generate(module, machine);
}

// The function as tvm-ffi calls it; `is_shared`: and itself, as the runtime calls its parts.
StatusOr<std::string> TvmFfiObject(const std::string& function, bool is_shared, HostMachine& machine) {
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
  if (is_shared) {
    auto* own = llvm::FunctionType::get(number, {pointer, pointer, number, pointer}, false);
    llvm::IRBuilder<> body(llvm::BasicBlock::Create(context, "", entry));
    const auto call_self = module.getOrInsertFunction(kCallSelf, own);
    body.CreateRet(
        body.CreateCall(call_self, {entry->getArg(0), entry->getArg(1), entry->getArg(2), entry->getArg(3)}));
  }
  return Generate(module, machine);
}

Status ObjectError(llvm::Error error) { return Internal("reading an object: ", llvm::toString(std::move(error))); }

// The global symbols of an object.
struct ObjectSymbols {
  std::vector<std::string> defined, used;
};
StatusOr<ObjectSymbols> SymbolsOf(const std::string& object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "object"));
  if (!file) return ObjectError(file.takeError());
  ObjectSymbols r;
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    if (!flags) return ObjectError(flags.takeError());
    auto name = symbol.getName();
    if (!name) return ObjectError(name.takeError());
    const bool is_used = (*flags & llvm::object::SymbolRef::SF_Undefined) != 0;
    if (is_used || (*flags & llvm::object::SymbolRef::SF_Global) != 0)
      (is_used ? r.used : r.defined).push_back(name->str());
  }
  return r;
}

// Other names, and one that need not be found when the file is loaded.
struct SymbolChanges {
  std::map<std::string, std::string> names;
  std::string weak;

  bool Concern(const std::string& symbol) const { return symbol == weak || names.contains(symbol); }
};
StatusOr<std::string> Change(const std::string& object, const SymbolChanges& changes) {
  llvm::objcopy::ConfigManager config;
  config.Common.OutputFilename = "object";  // for errors
  for (const auto& [from, to] : changes.names) config.Common.SymbolsToRename.insert({from, to});
  if (!changes.weak.empty()) {
    auto pattern = llvm::objcopy::NameOrPattern::create(changes.weak, llvm::objcopy::MatchStyle::Literal,
                                                        [](llvm::Error error) { return error; });
    if (llvm::Error error = config.Common.SymbolsToWeaken.addMatcher(std::move(pattern)))
      return ObjectError(std::move(error));
  }
  auto binary = llvm::object::createBinary(llvm::MemoryBufferRef(object, "object"));
  if (!binary) return ObjectError(binary.takeError());
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream out(bytes);
  if (llvm::Error error = llvm::objcopy::executeObjcopyOnBinary(config, **binary, out))
    return ObjectError(std::move(error));
  return std::string(bytes);
}

// What links parts: each symbol once, blocks that several have once.
class Linking {
 public:
  explicit Linking(HostMachine& machine) : machine_(machine) {
    info_.compiler = BuildIdText();
    exported_ = {kLibraryNoteSymbol};
#define X(name, signature, effects, workspace) runtime_.insert(#name);
#include "cinn_like/base/runtime_calls.def"
#undef X
    runtime_.insert({kTvmFfiCall, kCallSelf});
  }

  Status Add(LibraryPart part, bool is_part = false) {
    RETURN_IF_ERROR(CheckName(part.name));
    if (part.plan) {
      if (symbols_.insert(part.name).second) exported_.push_back(part.name);
      ASSIGN_OR_RETURN(LibraryFunction * whole, FunctionOf(part, is_part));
      whole->variants.push_back({.target = part.target.Print(),
                                 .device = part.target.device->name,
                                 .cpu_features = {},
                                 .symbol = "",
                                 .prepare = "",
                                 .kernels = {},
                                 .plan = std::move(part.plan)});
      for (LibraryPart& own : part.parts) RETURN_IF_ERROR(Add(std::move(own), true));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(LibraryFunction * function, FunctionOf(part, is_part));
    const int number = parts_++;
    SymbolChanges changes;
    const auto own = [&](const std::string& name, bool is_exported) {
      std::string symbol = name;
      if (!symbols_.insert(symbol).second) symbol = Cat(name, ".", number), changes.names[name] = symbol;
      if (is_exported) exported_.push_back(symbol);
      return symbol;
    };
    LibraryVariant v{.target = part.target.Print(),
                     .device = part.target.device->name,
                     .cpu_features = std::move(part.cpu_features),
                     .symbol = own(part.name, true),
                     .prepare = "",
                     .slots = part.slots,
                     .kernels = {},
                     .weights = std::move(part.description)};
    if (!part.prepare.empty()) {
      RETURN_IF_ERROR(CheckName(part.prepare));
      v.prepare = own(part.prepare, true);
    }
    const std::string device = *runtime_.insert(Cat("cinn_device_", v.device)).first;
    const bool is_known =
        std::find(std::begin(kLibraryDevices), std::end(kLibraryDevices), v.device) != std::end(kLibraryDevices);
    if (!is_known) changes.weak = device;
    for (const KernelImages& form : part.kernels) {
      const std::string bytes = form.Encode();
      v.kernels.push_back({AddData(kLibraryKernelsSymbol, bytes), static_cast<int64_t>(bytes.size())});
    }
    if (!part.kernels.empty()) {
      std::vector<std::string> pointers;
      for (const KernelImages::Kernel& k : part.kernels[0].kernels)
        pointers.push_back(own(Cat(k.name, "_kernel_ptr_"), false));
      v.pointers = number;
      exported_.push_back(Cat(kLibraryPointersSymbol, number));
      ASSIGN_OR_RETURN(std::string object, PointersObject(exported_.back(), pointers, machine_));
      objects_.push_back(std::move(object));
    }
    if (v.weights) v.weights_block = AddData(kLibraryWeightsSymbol, part.weights);
    RETURN_IF_ERROR(AddObjects(std::move(part.objects), number, std::move(changes)));
    function->variants.push_back(std::move(v));
    return absl::OkStatus();
  }

  StatusOr<std::string> Finish() {
    for (const LibraryFunction& f : info_.functions) {
      if (f.is_part) continue;
      ASSIGN_OR_RETURN(std::string object, TvmFfiObject(f.name, f.variants[0].plan.has_value(), machine_));
      objects_.push_back(std::move(object));
      exported_.push_back(kTvmFfiPrefix + f.name);
    }
    ASSIGN_OR_RETURN(std::string note, NoteObject(info_, machine_));
    objects_.push_back(std::move(note));
    ASSIGN_OR_RETURN(const std::string symbols, RuntimeSymbolsObject(runtime_, machine_));
    ASSIGN_OR_RETURN(std::string file, LinkSharedLibrary({objects_, exported_, kLibraryRuntime, symbols}));
    RETURN_IF_ERROR(SealLibrary(file));
    return file;
  }

 private:
  StatusOr<LibraryFunction*> FunctionOf(const LibraryPart& part, bool is_part) {
    for (LibraryFunction& f : info_.functions) {
      if (f.name != part.name) continue;
      if (is_part || f.is_part) return InvalidArgument("a library has two functions @", f.name);
      if (f.signature == part.signature && f.interface == part.interface) return &f;
      return InvalidArgument("a library's function @", f.name, " is ", f.signature, " for ", f.variants[0].target,
                             " and ", part.signature, " for ", part.target.Print());
    }
    return &info_.functions.emplace_back(LibraryFunction{
        part.name, part.signature, part.interface, part.params, part.results, part.statics, {}, is_part});
  }

  // An internal function is named by its text, so that several parts share it: unless it reaches what has another name
  // here, a kernel say.
  Status AddObjects(std::vector<std::string> objects, int number, SymbolChanges changes) {
    std::vector<ObjectSymbols> symbols;
    for (const std::string& object : objects) {
      ASSIGN_OR_RETURN(symbols.emplace_back(), SymbolsOf(object));
    }
    const auto is_renamed = [&](const std::string& name) { return changes.names.contains(name); };
    for (bool is_new = true; is_new;) {
      is_new = false;
      for (const ObjectSymbols& s : symbols) {
        if (std::none_of(s.used.begin(), s.used.end(), is_renamed)) continue;
        for (const std::string& name : s.defined) is_new |= changes.names.emplace(name, Cat(name, ".", number)).second;
      }
    }
    const auto concerns = [&](const std::string& name) { return changes.Concern(name); };
    for (size_t i = 0; i < objects.size(); ++i) {
      const auto& [defined, used] = symbols[i];
      if (std::any_of(defined.begin(), defined.end(), concerns) || std::any_of(used.begin(), used.end(), concerns)) {
        ASSIGN_OR_RETURN(objects[i], Change(objects[i], changes));
      }
      if (std::none_of(defined.begin(), defined.end(), is_renamed)) {
        bool is_new = defined.empty();
        for (const std::string& name : defined) is_new |= linked_.insert(name).second;
        if (!is_new) continue;
      }
      objects_.push_back(std::move(objects[i]));
    }
    return absl::OkStatus();
  }

  // The number of its symbol.
  int AddData(const std::string& prefix, const std::string& bytes) {
    const auto [known, is_new] = data_.emplace(prefix + HashBytes(bytes).Hex(), static_cast<int>(data_.size()));
    if (is_new) {
      exported_.push_back(Cat(prefix, known->second));
      objects_.push_back(MakeDataObject(exported_.back(), bytes));
    }
    return known->second;
  }

  HostMachine& machine_;
  LibraryInfo info_;
  int parts_ = 0;
  std::vector<std::string> objects_, exported_;
  std::set<std::string> symbols_, runtime_, linked_;
  std::map<std::string, int> data_;
};

}  // namespace

Status CompileForLibrary(const ir::Module& module, const Target& target, const CompileOptions& options,
                         DeviceCompiler* device, ObjectCache* cache, LibraryPart* part) {
  part->target = target;
  Target compiled = target;
  if (device != nullptr) compiled.mcpu = "x86-64";
  ASSIGN_OR_RETURN(const HostCpu cpu, ResolveHostCpu(compiled));
  part->cpu_features = RequiredCpuFeatures(cpu);
  ASSIGN_OR_RETURN(CompiledCode code, CompileModule(module, compiled, options, device, cache));
  part->objects = std::move(code.host.objects);
  if (code.kernels.kernels.empty()) return absl::OkStatus();
  part->kernels.push_back(std::move(code.kernels));
  ASSIGN_OR_RETURN(std::vector<KernelImages> others, device->CompileForOthers(module));
  for (KernelImages& form : others) part->kernels.push_back(std::move(form));
  return absl::OkStatus();
}

StatusOr<std::string> MakeLibrary(std::vector<LibraryPart> parts) {
  StatusOr<std::string> file;
  const auto link = [&]() -> Status {
    ASSIGN_OR_RETURN(const HostCpu cpu, ResolveHostCpu(*Target::Parse("x86_64 -mcpu=x86-64")));
    ASSIGN_OR_RETURN(const HostMachine::Borrowed machine, HostMachine::Borrow(cpu, HostEffort::kQuick));
    Linking linking(*machine);
    for (LibraryPart& part : parts) RETURN_IF_ERROR(linking.Add(std::move(part)));
    ASSIGN_OR_RETURN(file, linking.Finish());
    return absl::OkStatus();
  };
  Status status;
  RETURN_IF_ERROR(RunTasks({[&] { status = link(); }}, 1));
  RETURN_IF_ERROR(status);
  return file;
}

}  // namespace cinn_like
