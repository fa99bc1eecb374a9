#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "runtime/device_api.h"

namespace cinn_like {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLeastPooled = int64_t{1} << 20;  // smaller blocks malloc keeps itself
constexpr int64_t kLeastLent = int64_t{64} << 20;   // of what is kept, to the kernel

void* Allocate(int64_t bytes, int64_t alignment = kAlignment) {
  const int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded == 0 ? alignment : rounded));
}

// Workspaces of calls. Calls repeat, and fresh pages cost more than most kernels: malloc gives blocks of more than 32
// MB back to the kernel each time. So blocks are kept, never more than were in use at one time, in huge pages where the
// kernel has them; of large ones it may take the pages back when memory runs short.
class WorkspacePool {
 public:
  // Null: there is no memory.
  void* Take(int64_t bytes) {
    if (bytes < kLeastPooled) return Allocate(bytes);
    const std::lock_guard lock(mutex_);
    auto it = kept_.lower_bound(bytes);
    if (it != kept_.end()) {
      void* block = it->second;
      in_use_.emplace(block, it->first);
      kept_.erase(it);
      return block;
    }
    if (!kept_.empty()) {  // the largest is outgrown
      std::free(std::prev(kept_.end())->second);
      kept_.erase(std::prev(kept_.end()));
    }
    void* block = Allocate(bytes, kHugePage);
    if (block == nullptr) return nullptr;
    madvise(block, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    in_use_.emplace(block, bytes);
    return block;
  }

  void Give(void* block) {
    const std::lock_guard lock(mutex_);
    const auto it = in_use_.find(block);
    if (it == in_use_.end()) return std::free(block);
    if (it->second >= kLeastLent) madvise(block, static_cast<size_t>(it->second), MADV_FREE);
    kept_.emplace(it->second, block);
    in_use_.erase(it);
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_map<void*, int64_t> in_use_;  // bytes
  std::multimap<int64_t, void*> kept_;
};

class HostDevice final : public DeviceApi {
 public:
  StatusOr<int> Count() override { return 1; }
  StatusOr<Target> Detect(int) override { return Target::Parse("cpu"); }

  StatusOr<void*> Alloc(int, int64_t bytes, void*) override {
    void* data = bytes < 0 || bytes > INT64_MAX - kAlignment ? nullptr : Allocate(bytes);
    if (data == nullptr) return CantAllocate(bytes);
    return data;
  }
  void Free(int, void* data) override { std::free(data); }

  StatusOr<void*> AllocWorkspace(int, int64_t bytes, void*) override {
    void* data = bytes < 0 || bytes > INT64_MAX - kHugePage ? nullptr : pool_.Take(bytes);
    if (data == nullptr) return CantAllocate(bytes);
    return data;
  }
  void FreeWorkspace(int, void* data, void*) override { pool_.Give(data); }

  Status Copy(int, void* to, const void* from, int64_t bytes, void*) override {
    if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

 private:
  static Status CantAllocate(int64_t bytes) {
    return absl::ResourceExhaustedError(Cat("cpu: can't allocate ", bytes, " bytes"));
  }

  WorkspacePool pool_;
};

}  // namespace

StatusOr<DeviceApi*> GetHostDevice() {
  static auto* device = new HostDevice;
  return device;
}

}  // namespace cinn_like

// Pinned host memory is CPU memory.
extern "C" const cinn_like::RuntimeDevice cinn_device_x86_64 = {kDLCPU, kDLCUDAHost, cinn_like::GetHostDevice};
