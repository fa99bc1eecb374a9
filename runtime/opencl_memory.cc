#include "runtime/opencl_memory.h"

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <shared_mutex>

#include "absl/container/flat_hash_map.h"
#include "cinn_like/base/tensor.h"
#include "runtime/opencl_driver.h"

namespace cinn_like::opencl {
namespace {

constexpr int64_t kPage = 4096;

struct Range {
  Mem memory;
  Context context;
  int64_t bytes, reserved;
  void* base;  // of what is reserved
};

class Ranges {
 public:
  StatusOr<void*> Add(Mem memory, Context context, int64_t bytes, int64_t misaligned) {
    // One page more, so that the end of one is not the start of another.
    const int64_t reserved = ((bytes + misaligned) / kPage + 2) * kPage;
    void* base =
        mmap(nullptr, static_cast<size_t>(reserved), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return absl::ResourceExhaustedError(Cat("opencl: no addresses for ", bytes, " bytes"));
    char* address = static_cast<char*>(base) + misaligned;
    const std::unique_lock lock(mutex_);
    const auto [known, is_new] = of_memory_.try_emplace(memory, address);
    if (!is_new) {  // another thread was first
      munmap(base, static_cast<size_t>(reserved));
      return known->second;
    }
    ranges_[address] = {memory, context, bytes, reserved, base};
    return address;
  }

  Mem Remove(char* address) {
    const std::unique_lock lock(mutex_);
    const auto it = ranges_.find(address);
    if (it == ranges_.end()) return nullptr;
    const Range range = it->second;
    munmap(range.base, static_cast<size_t>(range.reserved));
    of_memory_.erase(range.memory);
    ranges_.erase(it);
    return range.memory;
  }

  bool Find(const char* address, Place* place) {
    const std::shared_lock lock(mutex_);
    auto it = ranges_.upper_bound(const_cast<char*>(address));
    if (it == ranges_.begin()) return false;
    --it;
    if (address - it->first > it->second.bytes) return false;
    *place = {it->second.memory, it->second.context, address - it->first};
    return true;
  }

  char* Find(Mem memory) {
    const std::shared_lock lock(mutex_);
    const auto it = of_memory_.find(memory);
    return it == of_memory_.end() ? nullptr : it->second;
  }

 private:
  std::shared_mutex mutex_;
  std::map<char*, Range> ranges_;
  absl::flat_hash_map<Mem, char*> of_memory_;
};

Ranges& TheRanges() {
  static auto* ranges = new Ranges;
  return *ranges;
}

// The first address of a memory object that the framework made.
StatusOr<char*> AddressOfCallers(Mem memory) {
  if (char* known = TheRanges().Find(memory)) return known;
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  size_t bytes = 0;
  Bits flags = 0;
  void* host = nullptr;
  Context context = nullptr;
  const auto get = [&](MemInfo what, auto* value) {
    return driver->Check(driver->clGetMemObjectInfo(memory, what, sizeof(*value), value, nullptr),
                         "clGetMemObjectInfo");
  };
  RETURN_IF_ERROR(get(kMemSize, &bytes));
  RETURN_IF_ERROR(get(kMemFlags, &flags));
  RETURN_IF_ERROR(get(kMemHostPtr, &host));
  RETURN_IF_ERROR(get(kMemContext, &context));
  // Where the caller's own memory is behind it, it is aligned as that is.
  const bool is_host = (flags & kUseHostPtr) != 0;
  const int64_t misaligned = is_host ? static_cast<int64_t>(reinterpret_cast<uintptr_t>(host) % kPage) : 0;
  ASSIGN_OR_RETURN(void* address, TheRanges().Add(memory, context, static_cast<int64_t>(bytes), misaligned));
  RETURN_IF_ERROR(driver->Check(driver->clSetMemObjectDestructorCallback(
                                    memory, [](Mem, void* at) { RemoveAddress(at); }, address),
                                "clSetMemObjectDestructorCallback"));
  return static_cast<char*>(address);
}

}  // namespace

StatusOr<void*> AddAddress(Mem memory, Context context, int64_t bytes) {
  return TheRanges().Add(memory, context, bytes, 0);
}

Mem RemoveAddress(void* address) { return TheRanges().Remove(static_cast<char*>(address)); }

bool FindPlace(const void* address, Place* place) { return TheRanges().Find(static_cast<const char*>(address), place); }

void* AddressOf(const DLTensor& tensor) {
  Place place;
  if (FindPlace(tensor.data, &place)) return DataOf(tensor);
  const StatusOr<char*> address = AddressOfCallers(static_cast<Mem>(tensor.data));
  return address.ok() ? *address + tensor.byte_offset : nullptr;
}

}  // namespace cinn_like::opencl
