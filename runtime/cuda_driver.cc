#include "runtime/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <mutex>

namespace cinn_like::cuda {
namespace {

Status NoDriver(std::string_view why) { return absl::FailedPreconditionError(Cat("no CUDA driver: ", why)); }

StatusOr<Driver> Open() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NoDriver(dlerror());
  using GetProcAddress = Result (*)(const char*, void**, int, uint64_t, int*);
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return NoDriver("libcuda.so.1 is older than CUDA 12.0");
  Driver driver;
#define X(name, version, params)                                                                              \
  if (void* address = nullptr; get(#name, &address, version, 0, nullptr) == kSuccess && address != nullptr) { \
    driver.name = reinterpret_cast<Result(*) params>(address);                                                \
  } else {                                                                                                    \
    return NoDriver(Cat("libcuda.so.1 has no " #name " of version ", version));                               \
  }
  CINN_CUDA_FUNCTIONS(X)
#undef X
  if (const Result result = driver.cuInit(0); result != kSuccess) {
    return NoDriver(Message(driver.Check(result, "cuInit")));
  }
  RETURN_IF_ERROR(driver.Check(driver.cuDriverGetVersion(&driver.version), "cuDriverGetVersion"));
  RETURN_IF_ERROR(driver.Check(driver.cuDeviceGetCount(&driver.device_count), "cuDeviceGetCount"));
  if (driver.device_count == 0) return NoDriver("no GPU");
  if (driver.device_count > kMaxDevices) driver.device_count = kMaxDevices;
  return driver;
}

}  // namespace

Status Driver::Check(Result result, std::string_view what) const {
  if (result == kSuccess) return absl::OkStatus();
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  const std::string message = Cat(what, " failed: ", name == nullptr ? Cat("CUDA error ", result) : std::string(name),
                                  " (", text == nullptr ? "unknown" : text, ")");
  return result == kOutOfMemory ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
}

StatusOr<const Driver*> GetDriver() {
  static const StatusOr<Driver> driver = Open();
  if (!driver.ok()) return driver.status();
  return &*driver;
}

StatusOr<Context> PrimaryContext(const Driver& driver, int device) {
  static std::array<std::atomic<Context>, kMaxDevices> contexts{};
  static std::mutex mutex;
  if (device < 0 || device >= driver.device_count) {
    return InvalidArgument("cuda:", device, ": there are ", driver.device_count, " CUDA devices");
  }
  if (Context known = contexts[device].load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(mutex);
  Context context = contexts[device].load(std::memory_order_relaxed);
  if (context == nullptr) {
    RETURN_IF_ERROR(driver.Check(driver.cuDevicePrimaryCtxRetain(&context, device),
                                 Cat("cuDevicePrimaryCtxRetain of cuda:", device)));
    contexts[device].store(context, std::memory_order_release);
  }
  return context;
}

}  // namespace cinn_like::cuda
