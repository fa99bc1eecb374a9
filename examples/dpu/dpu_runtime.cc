// Memory, images and launches. A vendor's runtime calls its driver here; this one is the device as well.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "examples/dpu/dpu.h"

namespace dpu {
namespace {
namespace fs = std::filesystem;

// Its memory has addresses that nothing on the host has: whoever follows one there faults.
constexpr uint64_t kFirstAddress = uint64_t{0xd} << 52;
constexpr int64_t kBytes = int64_t{256} << 20;
constexpr int64_t kAlignment = 256;

bool IsDpu(const void* p) { return (reinterpret_cast<uint64_t>(p) & kFirstAddress) == kFirstAddress; }

// First fit.
class Memory {
 public:
  StatusOr<void*> Alloc(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!bytes_) bytes_.reset(new char[kBytes]);
    const int64_t size = bytes < kBytes ? (bytes / kAlignment + 1) * kAlignment : kBytes + 1;
    int64_t at = 0;
    for (const auto& [begin, taken] : taken_) {
      if (begin - at >= size) break;
      at = begin + taken;
    }
    if (kBytes - at < size) return absl::ResourceExhaustedError(Cat("dpu: out of memory: no ", bytes, " bytes"));
    taken_[at] = size;
    used_ += size;
    return reinterpret_cast<void*>(kFirstAddress + static_cast<uint64_t>(at));
  }

  void Free(void* data) {
    if (!IsDpu(data)) return;
    const std::lock_guard lock(mutex_);
    const auto found = taken_.find(static_cast<int64_t>(reinterpret_cast<uint64_t>(data) - kFirstAddress));
    if (found == taken_.end()) return;
    used_ -= found->second;
    taken_.erase(found);
  }

  // Where the host finds what the device has at `p`; what is the host's stays. Null: it is outside of the memory.
  char* At(const void* p, int64_t bytes) {
    if (!IsDpu(p)) return static_cast<char*>(const_cast<void*>(p));
    const uint64_t at = reinterpret_cast<uint64_t>(p) - kFirstAddress;
    return bytes_ == nullptr || bytes < 0 || at > static_cast<uint64_t>(kBytes - bytes) ? nullptr : bytes_.get() + at;
  }

  char* begin() { return bytes_.get(); }
  int64_t used() {
    const std::lock_guard lock(mutex_);
    return used_;
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<char[]> bytes_;
  std::map<int64_t, int64_t> taken_;  // begin, size
  int64_t used_ = 0;
};

// An image is a shared library, which exports run_<kernel> for each kernel (dpu_compiler.cc): it runs all blocks of a
// grid and returns null, or what was wrong.
using Run = const char* (*)(char* memory, void** params, const int64_t* grid);

class Module : public DeviceModule {
 public:
  static StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view image) {
    std::string path = fs::temp_directory_path() / "dpu_XXXXXX";
    const int file = mkstemp(path.data());
    if (file < 0) return absl::UnavailableError(Cat("dpu: can't write '", path, "'"));
    close(file);
    std::ofstream(path, std::ios::binary) << image;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* why = handle == nullptr ? dlerror() : nullptr;
    unlink(path.c_str());
    if (handle == nullptr) return InvalidArgument("dpu: no image: ", why);
    return std::unique_ptr<DeviceModule>(new Module(handle));
  }
  ~Module() override { dlclose(handle_); }

  StatusOr<void*> Kernel(const std::string& name) override {
    void* kernel = dlsym(handle_, name.c_str());
    if (kernel == nullptr) return absl::NotFoundError(Cat("dpu: no kernel '", name, "'"));
    return kernel;
  }

 private:
  explicit Module(void* handle) : handle_(handle) {}
  void* handle_;
};

// Work is done when a call returns: there are no streams.
class Api : public DeviceApi {
 public:
  StatusOr<int> Count() override { return 1; }
  StatusOr<Target> Detect(int) override {
    const DeviceKind* kinds[] = {&Kind()};
    return Target::Parse("dpu -arch=dpu2", kinds);
  }

  StatusOr<void*> Alloc(int device, int64_t bytes, void*) override {
    if (device != 0) return InvalidArgument("dpu: there is no device ", device);
    return memory_.Alloc(bytes);
  }
  void Free(int, void* data) override { memory_.Free(data); }
  StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void* stream) override {
    return Alloc(device, bytes, stream);
  }
  void FreeWorkspace(int, void* data, void*) override { memory_.Free(data); }

  Status Copy(int, void* to, const void* from, int64_t bytes, void*) override {
    ++copies_;
    char *at_to = memory_.At(to, bytes), *at_from = memory_.At(from, bytes);
    if (at_to == nullptr || at_from == nullptr)
      return InvalidArgument("dpu: a copy of ", bytes, " bytes outside of it");
    memmove(at_to, at_from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view image) override { return Module::Load(image); }
  Status Launch(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv&) override {
    ++launches_;
    const char* wrong = reinterpret_cast<Run>(kernel)(memory_.begin(), params, shape.grid.data());
    return wrong == nullptr ? absl::OkStatus() : absl::OutOfRangeError(wrong);
  }

  Counts counts() { return {launches_, copies_, memory_.used()}; }

 private:
  Memory memory_;
  std::atomic<int64_t> launches_{0}, copies_{0};
};

Api& TheApi() {
  static auto* api = new Api;
  return *api;
}

StatusOr<DeviceApi*> GetApi() { return &TheApi(); }

}  // namespace

Counts CountsSoFar() { return TheApi().counts(); }

}  // namespace dpu

const cinn_like::RuntimeDevice cinn_device_dpu = {kDLExtDev, kDLExtDev, &dpu::GetApi};
