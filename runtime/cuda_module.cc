#include "runtime/cuda_module.h"

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "runtime/bounds_report.h"
#include "runtime/cuda_driver.h"

namespace cinn_like {
namespace {

using namespace cuda;

// What a CUkernel handle does not tell: its name, the shared memory it may already use on each device, and its image
// where that reports accesses out of bounds, else null.
struct KernelInfo {
  std::string name;
  std::map<int, int64_t> shared_limit;
  Library reports = nullptr;
};
// Some image has been loaded that reports.
std::atomic<bool> any_reports = false;
std::shared_mutex mutex;
std::map<void*, KernelInfo>& Kernels() {
  static auto* kernels = new std::map<void*, KernelInfo>;
  return *kernels;
}

std::string NameOf(void* kernel) {
  const std::shared_lock lock(mutex);
  const auto at = Kernels().find(kernel);
  return at == Kernels().end() ? "(unknown kernel)" : at->second.name;
}

Status AllowShared(const Driver& driver, void* kernel, int device, int64_t bytes) {
  {
    const std::shared_lock lock(mutex);
    const auto at = Kernels().find(kernel);
    if (at != Kernels().end()) {
      const auto limit = at->second.shared_limit.find(device);
      if (limit != at->second.shared_limit.end() && limit->second >= bytes) return absl::OkStatus();
    }
  }
  const std::unique_lock lock(mutex);
  KernelInfo& info = Kernels()[kernel];
  RETURN_IF_ERROR(driver.Check(driver.cuKernelSetAttribute(kMaxDynamicSharedBytes, static_cast<int>(bytes),
                                                           static_cast<cuda::Kernel>(kernel), device),
                               Cat("allowing ", bytes, " bytes of shared memory")));
  info.shared_limit[device] = bytes;
  return absl::OkStatus();
}

Status Launch(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env) {
  const auto& [grid, block, shared_bytes] = shape;
  const LaunchLimits& limits = CudaKind().limits;
  for (size_t i = 0; i < 3; ++i) {
    if (grid[i] < 0 || grid[i] > limits.grid[i]) {
      return InvalidArgument("grid dimension ", i, " is ", grid[i], ", at most ", limits.grid[i], " is possible");
    }
    if (block[i] < 1 || block[i] > limits.block[i]) {
      return InvalidArgument("block dimension ", i, " is ", block[i], ", expected 1..", limits.block[i]);
    }
  }
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  ASSIGN_OR_RETURN(const Context context, PrimaryContext(*driver, env.device.device_id));
  const ContextScope scope(*driver, context);
  RETURN_IF_ERROR(scope.status());
  if (shared_bytes > limits.shared_bytes) {
    RETURN_IF_ERROR(AllowShared(*driver, kernel, env.device.device_id, shared_bytes));
  }
  const Result result = driver->cuLaunchKernel(
      kernel, static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]), static_cast<unsigned>(grid[2]),
      static_cast<unsigned>(block[0]), static_cast<unsigned>(block[1]), static_cast<unsigned>(block[2]),
      static_cast<unsigned>(shared_bytes), static_cast<Stream>(env.stream), params, nullptr);
  if (result == kSuccess) [[likely]]
    return absl::OkStatus();
  return driver->Check(
      result, Cat("launch on cuda:", env.device.device_id, " with grid ", grid[0], "x", grid[1], "x", grid[2],
                  ", block ", block[0], "x", block[1], "x", block[2], ", ", shared_bytes, " bytes of shared memory"));
}

// Waits for the kernel; an error if one of its threads left a report, which is then cleared.
Status CheckBoundsReport(void* kernel, const CinnCallEnv& env) {
  Library library = nullptr;
  {
    const std::shared_lock lock(mutex);
    const auto at = Kernels().find(kernel);
    if (at == Kernels().end() || at->second.reports == nullptr) return absl::OkStatus();
    library = at->second.reports;
  }
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  ASSIGN_OR_RETURN(const Context context, PrimaryContext(*driver, env.device.device_id));
  const ContextScope scope(*driver, context);
  RETURN_IF_ERROR(scope.status());
  const auto stream = static_cast<Stream>(env.stream);
  BoundsReport report;
  const auto to = reinterpret_cast<DevicePtr>(&report);
  DevicePtr from = 0;
  size_t bytes = 0;
  RETURN_IF_ERROR(driver->Check(driver->cuLibraryGetGlobal(&from, &bytes, library, kBoundsReportName),
                                "finding the report of accesses out of bounds"));
  RET_CHECK(bytes == sizeof(report), Cat(bytes, " bytes of ", kBoundsReportName));
  RETURN_IF_ERROR(driver->Check(driver->cuMemcpyAsync(to, from, sizeof(report), stream), "reading the report"));
  RETURN_IF_ERROR(driver->Check(driver->cuStreamSynchronize(stream), "waiting for the kernel"));
  if (report.taken == 0) return absl::OkStatus();
  const BoundsReport none;
  RETURN_IF_ERROR(driver->Check(driver->cuMemcpyAsync(from, reinterpret_cast<DevicePtr>(&none), sizeof(none), stream),
                                "clearing the report"));
  RETURN_IF_ERROR(driver->Check(driver->cuStreamSynchronize(stream), "clearing the report"));
  const auto place = [](const int32_t(&at)[3]) { return Cat("(", at[0], ", ", at[1], ", ", at[2], ")"); };
  return absl::OutOfRangeError(Cat(report.text, ": expected 0 to ", report.size - 1, ", got ", report.index,
                                   ", in block ", place(report.block), ", thread ", place(report.thread)));
}

}  // namespace

StatusOr<std::unique_ptr<CudaModule>> CudaModule::Load(std::string_view image) {
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  const std::string copy(image);  // PTX ends with a NUL
  std::string log(8192, '\0');
  int options[] = {kErrorLogBuffer, kErrorLogBufferBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  Library library = nullptr;
  const Result result = driver->cuLibraryLoadData(&library, copy.data(), options, values, 2, nullptr, nullptr, 0);
  if (result != kSuccess) {
    log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
    const std::string what = Cat("loading a CUDA image of ", image.size(), " bytes");
    const Status status = driver->Check(result, what);
    return log.empty() ? status : Status(status.code(), Cat(Message(status), "\n", log));
  }
  // The symbol's name stands in CUBIN as in PTX.
  const bool reports = image.find(kBoundsReportName) != image.npos;
  if (reports) any_reports.store(true, std::memory_order_relaxed);
  return std::unique_ptr<CudaModule>(new CudaModule(library, reports));
}

CudaModule::~CudaModule() {
  {
    const std::unique_lock lock(mutex);
    for (void* kernel : kernels_) Kernels().erase(kernel);
  }
  if (const auto driver = GetDriver(); driver.ok()) (*driver)->cuLibraryUnload(static_cast<Library>(library_));
}

StatusOr<void*> CudaModule::Kernel(const std::string& name) {
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  cuda::Kernel kernel = nullptr;
  const Result result = driver->cuLibraryGetKernel(&kernel, static_cast<Library>(library_), name.c_str());
  if (result != kSuccess) {
    return absl::NotFoundError(Message(driver->Check(result, Cat("finding the kernel '", name, "'"))));
  }
  const std::unique_lock lock(mutex);
  const Library reports = reports_ ? static_cast<Library>(library_) : nullptr;
  if (Kernels().try_emplace(kernel, KernelInfo{name, {}, reports}).second) kernels_.push_back(kernel);
  return kernel;
}

Status LaunchCuda(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env) {
  Status status = Launch(kernel, shape, params, env);
  if (any_reports.load(std::memory_order_relaxed) && status.ok()) status = CheckBoundsReport(kernel, env);
  if (status.ok()) [[likely]]
    return status;
  return Annotate(status, Cat("kernel '", NameOf(kernel), "'"));
}

}  // namespace cinn_like
