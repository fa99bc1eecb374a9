#include "cinn_like/kernel_memo.h"

#include <deque>
#include <mutex>

#include "absl/container/flat_hash_map.h"

namespace cinn_like {
namespace {

constexpr size_t kMaxKernels = 128;

struct Memo {
  std::mutex mutex;
  absl::flat_hash_map<std::string, std::shared_ptr<const LoweredKernel>> kernels;
  std::deque<std::string> keys;  // the oldest first
};
// Never destroyed: compilations may run while the process exits.
Memo& TheMemo() {
  static auto* memo = new Memo;
  return *memo;
}

}  // namespace

std::shared_ptr<const LoweredKernel> FindLoweredKernel(const std::string& key) {
  Memo& memo = TheMemo();
  const std::lock_guard lock(memo.mutex);
  auto it = memo.kernels.find(key);
  return it == memo.kernels.end() ? nullptr : it->second;
}

void KeepLoweredKernel(const std::string& key, LoweredKernel kernel) {
  // Intermediate forms stay behind in the context of the passes.
  kernel.func = ir::CloneInto(kernel.func, std::make_shared<ir::Context>());
  auto kept = std::make_shared<const LoweredKernel>(std::move(kernel));
  Memo& memo = TheMemo();
  const std::lock_guard lock(memo.mutex);
  if (!memo.kernels.emplace(key, std::move(kept)).second) return;
  memo.keys.push_back(key);
  if (memo.keys.size() <= kMaxKernels) return;
  memo.kernels.erase(memo.keys.front());
  memo.keys.pop_front();
}

}  // namespace cinn_like
