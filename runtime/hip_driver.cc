#include "runtime/hip_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace cinn_like::hip {
namespace {

Status NoHip(std::string_view why) { return absl::FailedPreconditionError(Cat("no HIP: ", why)); }

StatusOr<Driver> Open() {
  std::vector<std::string> names;
  if (const char* rocm = std::getenv("ROCM_PATH")) names.push_back(Cat(rocm, "/lib/libamdhip64.so"));
  names.insert(names.end(), {"libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5"});
  void* library = nullptr;
  std::string why;
  for (const std::string& name : names) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (why.empty()) why = dlerror();
  }
  if (library == nullptr) return NoHip(why);
  Driver driver;
#define X(name, result, params)                                            \
  driver.name = reinterpret_cast<result(*) params>(dlsym(library, #name)); \
  if (driver.name == nullptr) return NoHip("libamdhip64.so has no " #name ", of ROCm 5.1");
  CINN_HIP_FUNCTIONS(X)
#undef X
  if (const Result result = driver.hipInit(0); result != kSuccess) {
    return NoHip(Message(driver.Check(result, "hipInit")));
  }
  if (const Result result = driver.hipGetDeviceCount(&driver.device_count); result != kSuccess) {
    return NoHip(Message(driver.Check(result, "hipGetDeviceCount")));
  }
  if (driver.device_count == 0) return NoHip("no GPU");
  return driver;
}

}  // namespace

Status Driver::Check(Result result, std::string_view what) const {
  if (result == kSuccess) return absl::OkStatus();
  const char *name = hipGetErrorName(result), *text = hipGetErrorString(result);
  const std::string message = Cat(what, " failed: ", name == nullptr ? Cat("HIP error ", result) : std::string(name),
                                  " (", text == nullptr ? "unknown" : text, ")");
  return result == kOutOfMemory ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
}

// Versions of HIP differ in the fields of a device's properties and agree that the arch is among them, as text.
StatusOr<std::string> Driver::ArchOf(int device) const {
  constexpr size_t kMoreThanAnyHas = 16384;
  std::string properties(kMoreThanAnyHas, '\0');
  const std::string what = Cat("hipGetDeviceProperties of hip:", device);
  RETURN_IF_ERROR(Check(hipGetDeviceProperties(properties.data(), device), what));
  const size_t begin = properties.rfind("gfx");
  if (begin == properties.npos) return Internal(what, ": they name no arch, gfx...");
  return properties.substr(begin, std::min(properties.find(':', begin), properties.find('\0', begin)) - begin);
}

StatusOr<const Driver*> GetDriver() {
  static const StatusOr<Driver> driver = Open();
  if (!driver.ok()) return driver.status();
  return &*driver;
}

DeviceScope::DeviceScope(const Driver& driver, int device) : driver_(driver) {
  if (device < 0 || device >= driver.device_count) {
    status_ = InvalidArgument("hip:", device, ": there are ", driver.device_count, " HIP devices");
    return;
  }
  int current = -1;
  status_ = driver.Check(driver.hipGetDevice(&current), "hipGetDevice");
  if (!status_.ok() || current == device) return;
  status_ = driver.Check(driver.hipSetDevice(device), Cat("hipSetDevice of hip:", device));
  if (status_.ok()) before_ = current;
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) driver_.hipSetDevice(before_);
}

}  // namespace cinn_like::hip
