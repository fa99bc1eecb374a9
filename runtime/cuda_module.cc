#include "runtime/cuda_module.h"

#include <array>
#include <atomic>
#include <mutex>

#include "runtime/bounds_report.h"
#include "runtime/cuda_driver.h"
#include "runtime/waiting_kernels.h"

namespace cinn_like {

using namespace cuda;

struct CudaModule::KernelInfo {
  const std::string name;
  const cuda::Kernel kernel;
  const Library reports;  // its image where that reports accesses out of bounds, else null
  const bool waits;       // itself for the kernels before it
  std::mutex mutex;       // of changes of what follows
  std::array<std::atomic<int64_t>, kMaxDevices> shared_limit{};  // that it may use, by device
};

namespace {

using KernelInfo = CudaModule::KernelInfo;

Status AllowShared(const Driver& driver, KernelInfo& info, int device, int64_t bytes) {
  std::atomic<int64_t>& limit = info.shared_limit[static_cast<size_t>(device)];
  if (limit.load(std::memory_order_acquire) >= bytes) return absl::OkStatus();
  const std::lock_guard lock(info.mutex);
  if (limit.load(std::memory_order_relaxed) >= bytes) return absl::OkStatus();
  RETURN_IF_ERROR(
      driver.Check(driver.cuKernelSetAttribute(kMaxDynamicSharedBytes, static_cast<int>(bytes), info.kernel, device),
                   Cat("allowing ", bytes, " bytes of shared memory")));
  limit.store(bytes, std::memory_order_release);
  return absl::OkStatus();
}

Status Launch(KernelInfo& info, const LaunchShape& shape, void** params, const CinnCallEnv& env) {
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
    RETURN_IF_ERROR(AllowShared(*driver, info, env.device.device_id, shared_bytes));
  }
  LaunchConfig config;
  for (size_t i = 0; i < 3; ++i) {
    config.grid[i] = static_cast<unsigned>(grid[i]);
    config.block[i] = static_cast<unsigned>(block[i]);
  }
  config.shared_bytes = static_cast<unsigned>(shared_bytes);
  config.stream = static_cast<Stream>(env.stream);
  LaunchAttribute starts_early{.id = kProgrammaticStreamSerialization};
  starts_early.value = 1;
  config.attributes = &starts_early;
  config.num_attributes = info.waits && driver->version >= kCapturesEarlyStarts ? 1 : 0;
  const Result result = driver->cuLaunchKernelEx(&config, info.kernel, params, nullptr);
  if (result == kSuccess) [[likely]]
    return absl::OkStatus();
  return driver->Check(
      result, Cat("launch on cuda:", env.device.device_id, " with grid ", grid[0], "x", grid[1], "x", grid[2],
                  ", block ", block[0], "x", block[1], "x", block[2], ", ", shared_bytes, " bytes of shared memory"));
}

// Waits for the kernel; an error if one of its threads left a report, which is then cleared.
Status CheckBoundsReport(const KernelInfo& info, const CinnCallEnv& env) {
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  ASSIGN_OR_RETURN(const Context context, PrimaryContext(*driver, env.device.device_id));
  const ContextScope scope(*driver, context);
  RETURN_IF_ERROR(scope.status());
  const auto stream = static_cast<Stream>(env.stream);
  BoundsReport report;
  const auto to = reinterpret_cast<DevicePtr>(&report);
  DevicePtr from = 0;
  size_t bytes = 0;
  RETURN_IF_ERROR(driver->Check(driver->cuLibraryGetGlobal(&from, &bytes, info.reports, kBoundsReportName),
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

CudaModule::CudaModule(void* library, bool reports) : library_(library), reports_(reports) {}

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
  return std::unique_ptr<CudaModule>(new CudaModule(library, reports));
}

CudaModule::~CudaModule() {
  if (const auto driver = GetDriver(); driver.ok()) (*driver)->cuLibraryUnload(static_cast<Library>(library_));
}

StatusOr<void*> CudaModule::Kernel(const std::string& name) {
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  cuda::Kernel kernel = nullptr;
  const Result result = driver->cuLibraryGetKernel(&kernel, static_cast<Library>(library_), name.c_str());
  if (result != kSuccess) {
    return absl::NotFoundError(Message(driver->Check(result, Cat("finding the kernel '", name, "'"))));
  }
  const Library reports = reports_ ? static_cast<Library>(library_) : nullptr;
  const std::lock_guard lock(mutex_);
  return &kernels_.emplace_back(name, kernel, reports, name.starts_with(kWaitingKernel));
}

Status LaunchCuda(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env) {
  KernelInfo& info = *static_cast<KernelInfo*>(kernel);
  Status status = Launch(info, shape, params, env);
  if (info.reports != nullptr && status.ok()) status = CheckBoundsReport(info, env);
  if (status.ok()) [[likely]]
    return status;
  return Annotate(status, Cat("kernel '", info.name, "'"));
}

}  // namespace cinn_like
