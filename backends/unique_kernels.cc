#include "backends/unique_kernels.h"

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "backends/c_emitter.h"
#include "backends/source_hooks.h"
#include "cinn_like/base/hash.h"

namespace cinn_like::backends {
namespace {

constexpr std::string_view kPlaceholder = "KERNEL_NAME";

}  // namespace

StatusOr<std::vector<UniqueKernel>> FindUniqueKernels(const ir::Module& module, const Dialect& dialect) {
  std::vector<UniqueKernel> r;
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel) continue;
    ASSIGN_OR_RETURN(std::string text, EmitFunc(f, dialect, kPlaceholder));
    auto it = std::find_if(r.begin(), r.end(), [&](const UniqueKernel& u) { return u.form == text; });
    if (it == r.end()) {
      std::string entry = Cat(dialect.entry, HashBytes(text).Hex().substr(0, 16));
      while (std::any_of(r.begin(), r.end(), [&](const UniqueKernel& u) { return u.entry == entry; })) entry += "_";
      std::string named = absl::StrReplaceAll(text, {{std::string(kPlaceholder), entry}});
      r.push_back({std::move(text), std::move(named), std::move(entry), {}, &f});
      it = r.end() - 1;
    }
    it->names.push_back(f.name);
  }
  return r;
}

StatusOr<std::vector<KernelInSource>> FindKernelsIn(std::string_view source, const ir::Module& module,
                                                    const Dialect& dialect) {
  // What can't be printed has a name of its own alone.
  const std::vector<UniqueKernel> printed = FindUniqueKernels(module, dialect).value_or(std::vector<UniqueKernel>());
  std::vector<KernelInSource> r;
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kKernel) continue;
    KernelInSource kernel{f.name, f.name, &f};
    for (const UniqueKernel& u : printed) {
      const bool is_it = std::find(u.names.begin(), u.names.end(), f.name) != u.names.end();
      if (is_it && HasFunction(source, u.entry)) kernel.entry = u.entry;
    }
    if (!HasFunction(source, kernel.entry)) return NoFunction(f.name);
    r.push_back(std::move(kernel));
  }
  return r;
}

std::string JoinForPeople(const Dialect& dialect, const std::vector<UniqueKernel>& kernels) {
  std::vector<std::string> texts;
  for (const UniqueKernel& k : kernels) {
    std::string names;
    for (const std::string& n : k.names) names += Cat(names.empty() ? "" : ", ", n);
    texts.push_back(Cat("// ", names, "\n", k.text));
  }
  return JoinSource(dialect, texts);
}

}  // namespace cinn_like::backends
