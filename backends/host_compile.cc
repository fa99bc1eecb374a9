#include "backends/host_compile.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>

#include "backends/llvm_emitter.h"
#include "backends/llvm_machine.h"
#include "backends/parallel_tasks.h"
#include "cinn_like/base/build_id.h"
#include "cinn_like/base/hash.h"
#include "cinn_like/base/pass_pipeline.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace cinn_like {
namespace {

// Of parallel loops: the function's own, which no later compilation changes.
int64_t ThreadsOf(const Target& target, const CompileOptions& options) {
  return target.num_threads > 0 ? target.num_threads : options.num_threads;
}

StatusOr<std::string> Compile(std::string_view name, std::span<const ir::Func> funcs, const HostCpu& cpu,
                              const Target& target, const CompileOptions& options, HostText kind) {
  std::string errors;
  const bool is_entry =
      std::all_of(funcs.begin(), funcs.end(), [](const auto& f) { return f.kind == ir::FuncKind::kEntry; });
  ASSIGN_OR_RETURN(const HostMachine::Borrowed machine,
                   HostMachine::Borrow(cpu, is_entry ? HostEffort::kQuick : HostEffort::kFast));
  llvm::LLVMContext context;
  CollectErrors(context, &errors);
  ASSIGN_OR_RETURN(const auto module, EmitLlvm(context, machine->target(), name, funcs, options.numerics != "exact",
                                               ThreadsOf(target, options), *target.device));
  RETURN_IF_ERROR(VerifyLlvm(*module));
  machine->Optimize(*module);
  if (kind == HostText::kLlvm || options.dump_llvm) {
    const std::string text = PrintLlvm(*module);
    if (options.dump_llvm) Dump(options, name, "ll", text);
    if (kind == HostText::kLlvm) return text;
  }
  if (kind == HostText::kAssembly || options.dump_asm) {
    // Generating code uses a module up.
    const std::unique_ptr<llvm::Module> twin = llvm::CloneModule(*module);
    ASSIGN_OR_RETURN(std::string text, machine->Generate(*twin, HostCode::kAssembly));
    if (!errors.empty()) return Internal("LLVM: ", errors);
    if (options.dump_asm) Dump(options, name, "s", text);
    if (kind == HostText::kAssembly) return text;
  }
  ASSIGN_OR_RETURN(std::string object, machine->Generate(*module, HostCode::kObject));
  if (!errors.empty()) return Internal("LLVM: ", errors);
  return object;
}

// The symbols of a module's internal functions, and one function for each symbol.
class Canonicalizer {
 public:
  Canonicalizer(const ir::Module& module, std::string key) : module_(module), key_(std::move(key)) {}

  Status Add(const ir::Func& func) {
    if (names_.contains(func.name)) return absl::OkStatus();
    if (!open_.insert(func.name).second) return Internal("host function @", func.name, " calls itself");
    RETURN_IF_ERROR(AddCallees(func));
    ir::Func canonical = RenameCallees(CanonicalFunc(func), names_);
    const std::string text = ir::Print(canonical);
    // The name is that of the symbol in the object, wherever it is linked; the text decides.
    canonical.name = Cat("f", HashParts({text, key_}).Hex());
    const auto [it, is_new] = texts_.emplace(canonical.name, text);
    if (it->second != text) return Internal("two host functions have the hash ", canonical.name);
    names_[func.name] = canonical.name;
    if (is_new) funcs_.push_back({text.size(), std::move(canonical), Cat(key_, "\n", text)});
    return absl::OkStatus();
  }

  Status AddCallees(const ir::Func& func) {
    Status status;
    ir::VisitStmts(func.body, [&](const ir::Stmt& s) {
      const auto* call = ir::As<ir::Call>(s);
      if (call == nullptr || call->is_runtime || !status.ok()) return true;
      const ir::Func* callee = module_.Find(call->callee);
      status =
          callee == nullptr ? Internal("@", func.name, " calls the unknown function @", call->callee) : Add(*callee);
      return true;
    });
    return status;
  }

  struct Sized {
    size_t size;
    ir::Func func;
    std::string key;  // all that its object depends on
  };
  std::vector<Sized> TakeFuncs() { return std::move(funcs_); }
  const CalleeNames& names() const { return names_; }

 private:
  const ir::Module& module_;
  const std::string key_;
  CalleeNames names_;
  absl::flat_hash_set<std::string> open_;
  absl::flat_hash_map<std::string, std::string> texts_;  // by symbol
  std::vector<Sized> funcs_;
};

// Functions that some thread compiles for the cache now: others do something else first, and find them there.
class Claims {
 public:
  bool Take(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return keys_.insert(key).second;
  }
  void Release(const std::string& key) {
    const std::lock_guard lock(mutex_);
    keys_.erase(key);
  }
  static Claims& OfProcess() {
    static auto* claims = new Claims;
    return *claims;
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_set<std::string> keys_;
};

}  // namespace

StatusOr<HostObjects> CompileHostModule(const ir::Module& module, const Target& target, const CompileOptions& options,
                                        ObjectCache* cache) {
  ASSIGN_OR_RETURN(const HostCpu cpu, ResolveHostCpu(target));
  Canonicalizer canonicalizer(module, Cat(BuildId(), "|", cpu.name, "|", cpu.features, "|", options.numerics, "|",
                                          ThreadsOf(target, options), "|", target.device->name));
  HostObjects r;
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kInternal) continue;
    RETURN_IF_ERROR(canonicalizer.Add(f));
    ++r.functions;
  }
  auto funcs = canonicalizer.TakeFuncs();
  r.symbols = canonicalizer.names();
  r.unique = static_cast<int>(funcs.size());
  // The longest first, so that no thread is left with it at the end.
  std::stable_sort(funcs.begin(), funcs.end(), [](const auto& a, const auto& b) { return a.size > b.size; });
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kEntry) continue;
    r.symbols[f.name] = f.name;
    funcs.push_back({0, ir::CloneInto(RenameCallees(f, canonicalizer.names()), std::make_shared<ir::Context>()), ""});
  }

  std::vector<StatusOr<std::string>> results(funcs.size());
  std::vector<char> claimed(funcs.size(), false);  // by others
  std::atomic<int> cached = 0;
  const auto compile = [&](size_t i, bool waits) {
    const auto& [size, f, key] = funcs[i];
    const bool cacheable = cache != nullptr && f.kind == ir::FuncKind::kInternal;
    if (cacheable) {
      if (std::optional<std::string> object = cache->Get(key)) {
        results[i] = *std::move(object);
        ++cached;
        return;
      }
      claimed[i] = !Claims::OfProcess().Take(key);
      if (claimed[i] && waits) return;
    }
    results[i] = Compile(f.name, {&f, 1}, cpu, target, options, HostText::kObject);
    if (cacheable && results[i].ok()) cache->Put(key, *results[i]);
    if (cacheable && !claimed[i]) Claims::OfProcess().Release(key);
  };
  std::vector<std::function<void()>> tasks, late;
  for (size_t i = 0; i < funcs.size(); ++i) tasks.push_back([&, i] { compile(i, true); });
  RETURN_IF_ERROR(RunTasks(tasks, options.compile_threads));
  for (size_t i = 0; i < funcs.size(); ++i) {
    if (claimed[i]) late.push_back([&, i] { compile(i, false); });
  }
  RETURN_IF_ERROR(RunTasks(late, options.compile_threads));
  for (auto& result : results) {
    if (!result.ok()) return result.status();
    r.objects.push_back(*std::move(result));
  }
  r.cached = cached;
  return r;
}

StatusOr<std::string> EmitHostModule(const ir::Module& module, const Target& target, const CompileOptions& options,
                                     HostText kind) {
  ASSIGN_OR_RETURN(const HostCpu cpu, ResolveHostCpu(target));
  std::vector<ir::Func> funcs;
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel) funcs.push_back(f);
  }
  StatusOr<std::string> r;
  RETURN_IF_ERROR(RunTasks({[&] { r = Compile("module", funcs, cpu, target, options, kind); }}, 1));
  return r;
}

Status ExportHostObject(const ir::Module& module, const Target& target, const CompileOptions& options,
                        const std::string& path) {
  ASSIGN_OR_RETURN(const std::string object, EmitHostModule(module, target, options, HostText::kObject));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(object.data(), static_cast<std::streamsize>(object.size()));
  file.close();
  if (!file) return absl::UnavailableError(Cat("can't write object file '", path, "'"));
  return absl::OkStatus();
}

}  // namespace cinn_like
