#include "runtime/symbols.h"

#include "runtime/bind_args.h"
#include "runtime/call_function.h"
#include "runtime/cublas.h"
#include "runtime/device_api.h"
#include "runtime/parallel_for.h"
#include "runtime/range_error.h"
#include "runtime/workspace.h"

namespace cinn_like {

RuntimeSymbols::RuntimeSymbols() {
#define X(name, signature, effects, workspace) symbols_.emplace(#name, reinterpret_cast<void*>(&name));
#include "cinn_like/base/runtime_calls.def"
#undef X
}

Status RuntimeSymbols::Add(std::string_view name, void* address) {
  const std::unique_lock lock(mutex_);
  const auto [at, added] = symbols_.emplace(name, address);
  if (!added && at->second != address) return absl::AlreadyExistsError(Cat("runtime symbol '", name, "' exists"));
  return absl::OkStatus();
}

void RuntimeSymbols::Remove(std::string_view name) {
  const std::unique_lock lock(mutex_);
  if (const auto at = symbols_.find(name); at != symbols_.end()) symbols_.erase(at);
}

void* RuntimeSymbols::Find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto at = symbols_.find(name);
  return at == symbols_.end() ? nullptr : at->second;
}

std::vector<std::pair<std::string, void*>> RuntimeSymbols::All() const {
  const std::shared_lock lock(mutex_);
  return {symbols_.begin(), symbols_.end()};
}

}  // namespace cinn_like
