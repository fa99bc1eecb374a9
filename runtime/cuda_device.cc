#include <array>
#include <mutex>

#include "runtime/cuda_driver.h"
#include "runtime/cuda_module.h"
#include "runtime/device_api.h"

namespace cinn_like {
namespace {

using namespace cuda;

// What the pool keeps between calls; what is above goes back at the next synchronisation.
constexpr uint64_t kPoolKeepsBytes = uint64_t{256} << 20;

class CudaDevice final : public DeviceApi {
 public:
  explicit CudaDevice(const Driver& driver) : driver_(driver) {}

  StatusOr<int> Count() override { return driver_.device_count; }

  StatusOr<Target> Detect(int device) override {
    RETURN_IF_ERROR(PrimaryContext(driver_, device).status());
    ASSIGN_OR_RETURN(const int major, Attribute(device, kComputeMajor));
    ASSIGN_OR_RETURN(const int minor, Attribute(device, kComputeMinor));
    // From 9.0 on the instructions that matter (wgmma, TMA) belong to the exact arch.
    ASSIGN_OR_RETURN(Target t, Target::Parse(Cat("cuda -arch=sm_", major, minor, major >= 9 ? "a" : "")));
    ASSIGN_OR_RETURN(t.cores, Attribute(device, kMultiprocessorCount));
    ASSIGN_OR_RETURN(t.l2_bytes, Attribute(device, kL2Bytes));
    ASSIGN_OR_RETURN(t.shared_bytes, Attribute(device, kSharedPerBlockOptIn));
    ASSIGN_OR_RETURN(t.registers, Attribute(device, kRegistersPerMultiprocessor));
    ASSIGN_OR_RETURN(t.warp_size, Attribute(device, kWarpSize));
    ASSIGN_OR_RETURN(const int64_t clock_khz, Attribute(device, kMemoryClockKHz));
    ASSIGN_OR_RETURN(const int64_t bus_bits, Attribute(device, kMemoryBusBits));
    const int64_t bandwidth = clock_khz * 2 * (bus_bits / 8) / 1000000;  // two transfers per clock
    if (bandwidth > 0) t.bandwidth = bandwidth;
    return t;
  }

  StatusOr<void*> Alloc(int device, int64_t bytes, void*) override {
    ASSIGN_OR_RETURN(const Context context, PrimaryContext(driver_, device));
    const ContextScope scope(driver_, context);
    RETURN_IF_ERROR(scope.status());
    DevicePtr data = 0;
    RETURN_IF_ERROR(Check(driver_.cuMemAlloc(&data, Size(bytes)), device, Cat("cuMemAlloc of ", bytes, " bytes")));
    return reinterpret_cast<void*>(data);
  }

  void Free(int device, void* data) override {
    const auto context = PrimaryContext(driver_, device);
    if (data == nullptr || !context.ok()) return;
    const ContextScope scope(driver_, *context);
    driver_.cuMemFree(reinterpret_cast<DevicePtr>(data));
  }

  StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void* stream) override {
    ASSIGN_OR_RETURN(const Context context, PrimaryContext(driver_, device));
    const ContextScope scope(driver_, context);
    RETURN_IF_ERROR(scope.status());
    ASSIGN_OR_RETURN(const MemPool pool, Pool(device));
    DevicePtr data = 0;
    RETURN_IF_ERROR(Check(driver_.cuMemAllocFromPoolAsync(&data, Size(bytes), pool, static_cast<Stream>(stream)),
                          device, Cat("cuMemAllocFromPoolAsync of ", bytes, " bytes")));
    return reinterpret_cast<void*>(data);
  }

  void FreeWorkspace(int device, void* data, void* stream) override {
    const auto context = PrimaryContext(driver_, device);
    if (data == nullptr || !context.ok()) return;
    const ContextScope scope(driver_, *context);
    driver_.cuMemFreeAsync(reinterpret_cast<DevicePtr>(data), static_cast<Stream>(stream));
  }

  Status Copy(int device, void* to, const void* from, int64_t bytes, void* stream) override {
    if (bytes == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Context context, PrimaryContext(driver_, device));
    const ContextScope scope(driver_, context);
    RETURN_IF_ERROR(scope.status());
    return Check(driver_.cuMemcpyAsync(reinterpret_cast<DevicePtr>(to), reinterpret_cast<DevicePtr>(from),
                                       static_cast<size_t>(bytes), static_cast<Stream>(stream)),
                 device, Cat("cuMemcpyAsync of ", bytes, " bytes"));
  }

  StatusOr<void*> CreateStream(int device) override {
    ASSIGN_OR_RETURN(const Context context, PrimaryContext(driver_, device));
    const ContextScope scope(driver_, context);
    RETURN_IF_ERROR(scope.status());
    Stream stream = nullptr;
    RETURN_IF_ERROR(Check(driver_.cuStreamCreate(&stream, kNonBlocking), device, "cuStreamCreate"));
    return stream;
  }

  void DestroyStream(int device, void* stream) override {
    const auto context = PrimaryContext(driver_, device);
    if (stream == nullptr || !context.ok()) return;
    const ContextScope scope(driver_, *context);
    driver_.cuStreamDestroy(static_cast<Stream>(stream));
  }

  Status Synchronize(int device, void* stream) override {
    ASSIGN_OR_RETURN(const Context context, PrimaryContext(driver_, device));
    const ContextScope scope(driver_, context);
    RETURN_IF_ERROR(scope.status());
    return Check(driver_.cuStreamSynchronize(static_cast<Stream>(stream)), device, "cuStreamSynchronize");
  }

  Status SynchronizeDevice(int device) override {
    ASSIGN_OR_RETURN(const Context context, PrimaryContext(driver_, device));
    const ContextScope scope(driver_, context);
    RETURN_IF_ERROR(scope.status());
    return Check(driver_.cuCtxSynchronize(), device, "cuCtxSynchronize");
  }

  StatusOr<void*> RecordEvent(int device, void* stream) override {
    ASSIGN_OR_RETURN(const Context context, PrimaryContext(driver_, device));
    const ContextScope scope(driver_, context);
    RETURN_IF_ERROR(scope.status());
    Event event = nullptr;
    RETURN_IF_ERROR(Check(driver_.cuEventCreate(&event, kDisableTiming), device, "cuEventCreate"));
    const Status recorded = Check(driver_.cuEventRecord(event, static_cast<Stream>(stream)), device, "cuEventRecord");
    if (!recorded.ok()) {
      driver_.cuEventDestroy(event);
      return recorded;
    }
    return event;
  }

  bool IsDone(int device, void* event) override {
    const auto context = PrimaryContext(driver_, device);
    if (!context.ok()) return false;
    const ContextScope scope(driver_, *context);
    return driver_.cuEventQuery(static_cast<Event>(event)) == kSuccess;
  }

  Status WaitForEvent(int device, void* stream, void* event) override {
    ASSIGN_OR_RETURN(const Context context, PrimaryContext(driver_, device));
    const ContextScope scope(driver_, context);
    RETURN_IF_ERROR(scope.status());
    return Check(driver_.cuStreamWaitEvent(static_cast<Stream>(stream), static_cast<Event>(event), 0), device,
                 "cuStreamWaitEvent");
  }

  void DestroyEvent(int device, void* event) override {
    const auto context = PrimaryContext(driver_, device);
    if (event == nullptr || !context.ok()) return;
    const ContextScope scope(driver_, *context);
    driver_.cuEventDestroy(static_cast<Event>(event));
  }

  StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view image) override { return CudaModule::Load(image); }
  Status Launch(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env) override {
    return LaunchCuda(kernel, shape, params, env);
  }

  Status MakeTensorMap(void* map, DType dtype, const TensorMapSpec& spec, const CinnCallEnv& env) override {
    return MakeCudaTensorMap(map, dtype, spec, env);
  }

 private:
  static size_t Size(int64_t bytes) { return bytes <= 0 ? 1 : static_cast<size_t>(bytes); }

  Status Check(Result result, int device, std::string_view what) const {
    return result == kSuccess ? absl::OkStatus() : driver_.Check(result, Cat("cuda:", device, ": ", what));
  }

  StatusOr<int> Attribute(int device, int attribute) const {
    int value = 0;
    RETURN_IF_ERROR(Check(driver_.cuDeviceGetAttribute(&value, attribute, device), device,
                          Cat("cuDeviceGetAttribute ", attribute)));
    return value;
  }

  // Our own, so that the framework's use of the device's default pool is not changed.
  StatusOr<MemPool> Pool(int device) {
    const std::lock_guard lock(mutex_);
    MemPool& pool = pools_[device];
    if (pool == nullptr) {
      MemPoolProps properties;
      properties.location_id = device;
      RETURN_IF_ERROR(Check(driver_.cuMemPoolCreate(&pool, &properties), device, "cuMemPoolCreate"));
      uint64_t keeps = kPoolKeepsBytes;
      RETURN_IF_ERROR(
          Check(driver_.cuMemPoolSetAttribute(pool, kReleaseThreshold, &keeps), device, "cuMemPoolSetAttribute"));
    }
    return pool;
  }

  const Driver& driver_;
  std::mutex mutex_;
  std::array<MemPool, 64> pools_{};
};

}  // namespace

StatusOr<DeviceApi*> GetCudaDevice() {
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  static auto* device = new CudaDevice(*driver);
  return device;
}

}  // namespace cinn_like

// Managed memory belongs to its device.
extern "C" const cinn_like::RuntimeDevice cinn_device_cuda = {kDLCUDA, kDLCUDAManaged, cinn_like::GetCudaDevice};
