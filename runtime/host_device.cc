#include <cstdlib>
#include <cstring>

#include "runtime/device_api.h"

namespace cinn_like {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxCached = int64_t{256} << 20;

void* Allocate(int64_t bytes) {
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return std::aligned_alloc(kAlignment, static_cast<size_t>(rounded == 0 ? kAlignment : rounded));
}

// The last workspace of this thread: calls repeat, and fresh pages cost more than most kernels.
struct Cached {
  char* block = nullptr;  // with header
  ~Cached() { std::free(block); }
};
thread_local Cached cached;

// Workspaces carry their size in front, in a cache line of its own.
int64_t& SizeOf(char* block) { return *reinterpret_cast<int64_t*>(block); }

class HostDevice final : public DeviceApi {
 public:
  StatusOr<int> Count() override { return 1; }
  StatusOr<Target> Detect(int) override { return Target::Parse("cpu"); }

  StatusOr<void*> Alloc(int, int64_t bytes) override {
    void* data = bytes < 0 || bytes > INT64_MAX - kAlignment ? nullptr : Allocate(bytes);
    if (data == nullptr) return absl::ResourceExhaustedError(Cat("cpu: can't allocate ", bytes, " bytes"));
    return data;
  }
  void Free(int, void* data) override { std::free(data); }

  StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void*) override {
    if (cached.block != nullptr && SizeOf(cached.block) >= bytes) {
      return std::exchange(cached.block, nullptr) + kAlignment;
    }
    if (bytes < 0 || bytes > INT64_MAX - 2 * kAlignment) return Alloc(device, bytes).status();
    ASSIGN_OR_RETURN(void* block, Alloc(device, bytes + kAlignment));
    SizeOf(static_cast<char*>(block)) = bytes;
    return static_cast<char*>(block) + kAlignment;
  }
  void FreeWorkspace(int, void* data, void*) override {
    if (data == nullptr) return;
    char* block = static_cast<char*>(data) - kAlignment;
    const bool keep = SizeOf(block) <= kMaxCached && (cached.block == nullptr || SizeOf(cached.block) < SizeOf(block));
    if (keep) std::swap(block, cached.block);
    std::free(block);
  }

  Status Copy(int, void* to, const void* from, int64_t bytes, void*) override {
    if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
};

}  // namespace

StatusOr<DeviceApi*> GetHostDevice() {
  static auto* device = new HostDevice;
  return device;
}

}  // namespace cinn_like
