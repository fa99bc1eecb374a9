// Devices of HIP: AMD's GPUs.
#include <list>
#include <map>
#include <mutex>

#include "runtime/device_api.h"
#include "runtime/hip_driver.h"

namespace cinn_like {
namespace {

using namespace hip;

// A code object, loaded on each device where a kernel of it is launched, for HIP's modules belong to devices.
class HipModule final : public DeviceModule {
 public:
  struct KernelInfo {
    HipModule* module;
    std::string name;
    std::map<int, Function> on;  // by device
  };

  static StatusOr<std::unique_ptr<HipModule>> Load(const Driver& driver, std::string_view image) {
    std::unique_ptr<HipModule> r(new HipModule(driver, image));
    RETURN_IF_ERROR(r->LoadOn(0).status());  // what is wrong with it is said now
    return r;
  }

  ~HipModule() override {
    for (const auto& [device, module] : modules_) {
      if (module == nullptr) continue;
      const DeviceScope scope(driver_, device);
      if (scope.status().ok()) driver_.hipModuleUnload(module);
    }
  }

  StatusOr<void*> Kernel(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    KernelInfo& info = kernels_.emplace_back(KernelInfo{this, name, {}});
    const StatusOr<Function> found = FindOn(info, 0);
    if (!found.ok()) return absl::NotFoundError(Message(found.status()));
    return &info;
  }

  Status Launch(KernelInfo& info, const LaunchShape& shape, void** params, const CinnCallEnv& env) {
    const int device = env.device.device_id;
    const DeviceScope scope(driver_, device);
    RETURN_IF_ERROR(scope.status());
    Function function = nullptr;
    {
      const std::lock_guard lock(mutex_);
      ASSIGN_OR_RETURN(function, FindOn(info, device));
    }
    const auto& [grid, block, shared_bytes] = shape;
    for (size_t i = 0; i < 3; ++i) {
      if (grid[i] > HipKind().limits.grid[i])
        return InvalidArgument("grid dimension ", i, " is ", grid[i], ", at most ", HipKind().limits.grid[i],
                               " is possible");
    }
    const auto u = [](int64_t n) { return static_cast<unsigned>(n); };
    const Result result =
        driver_.hipModuleLaunchKernel(function, u(grid[0]), u(grid[1]), u(grid[2]), u(block[0]), u(block[1]),
                                      u(block[2]), u(shared_bytes), static_cast<Stream>(env.stream), params, nullptr);
    if (result == kSuccess) [[likely]]
      return absl::OkStatus();
    return driver_.Check(
        result, Cat("launch on hip:", device, " with grid ", grid[0], "x", grid[1], "x", grid[2], ", block ", block[0],
                    "x", block[1], "x", block[2], ", ", shared_bytes, " bytes of shared memory"));
  }

 private:
  HipModule(const Driver& driver, std::string_view image) : driver_(driver), image_(image) {}

  // Under the lock, but for Load.
  StatusOr<Module> LoadOn(int device) {
    Module& known = modules_[device];
    if (known != nullptr) return known;
    const DeviceScope scope(driver_, device);
    RETURN_IF_ERROR(scope.status());
    const Result result = driver_.hipModuleLoadData(&known, image_.data());
    RETURN_IF_ERROR(driver_.Check(result, Cat("loading a code object of ", image_.size(), " bytes on hip:", device)));
    return known;
  }
  StatusOr<Function> FindOn(KernelInfo& info, int device) {
    Function& known = info.on[device];
    if (known != nullptr) return known;
    ASSIGN_OR_RETURN(const Module module, LoadOn(device));
    const DeviceScope scope(driver_, device);
    RETURN_IF_ERROR(scope.status());
    RETURN_IF_ERROR(driver_.Check(driver_.hipModuleGetFunction(&known, module, info.name.c_str()),
                                  Cat("finding the kernel '", info.name, "'")));
    return known;
  }

  const Driver& driver_;
  const std::string image_;
  std::mutex mutex_;
  std::map<int, Module> modules_;
  std::list<KernelInfo> kernels_;
};

class HipDevice final : public DeviceApi {
 public:
  explicit HipDevice(const Driver& driver) : driver_(driver) {}

  StatusOr<int> Count() override { return driver_.device_count; }
  StatusOr<Target> Detect(int device) override {
    ASSIGN_OR_RETURN(const std::string arch, driver_.ArchOf(device));
    return Target::Parse(Cat("hip -arch=", arch));
  }

  StatusOr<void*> Alloc(int device, int64_t bytes, void*) override {
    void* data = nullptr;
    RETURN_IF_ERROR(
        On(device, Cat("hipMalloc of ", bytes, " bytes"), [&] { return driver_.hipMalloc(&data, Size(bytes)); }));
    return data;
  }
  void Free(int device, void* data) override {
    On(device, "hipFree", [&] { return driver_.hipFree(data); }).IgnoreError();
  }
  StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void* stream) override {
    void* data = nullptr;
    RETURN_IF_ERROR(On(device, Cat("hipMallocAsync of ", bytes, " bytes"),
                       [&] { return driver_.hipMallocAsync(&data, Size(bytes), static_cast<Stream>(stream)); }));
    return data;
  }
  void FreeWorkspace(int device, void* data, void* stream) override {
    On(device, "hipFreeAsync", [&] { return driver_.hipFreeAsync(data, static_cast<Stream>(stream)); }).IgnoreError();
  }

  Status Copy(int device, void* to, const void* from, int64_t bytes, void* stream) override {
    if (bytes == 0) return absl::OkStatus();
    return On(device, Cat("hipMemcpyAsync of ", bytes, " bytes"), [&] {
      return driver_.hipMemcpyAsync(to, from, static_cast<size_t>(bytes), kByAddress, static_cast<Stream>(stream));
    });
  }

  StatusOr<void*> CreateStream(int device) override {
    Stream stream = nullptr;
    RETURN_IF_ERROR(On(device, "hipStreamCreateWithFlags",
                       [&] { return driver_.hipStreamCreateWithFlags(&stream, kNonBlocking); }));
    return stream;
  }
  void DestroyStream(int device, void* stream) override {
    if (stream == nullptr) return;
    On(device, "hipStreamDestroy", [&] { return driver_.hipStreamDestroy(static_cast<Stream>(stream)); }).IgnoreError();
  }
  Status Synchronize(int device, void* stream) override {
    return On(device, "hipStreamSynchronize",
              [&] { return driver_.hipStreamSynchronize(static_cast<Stream>(stream)); });
  }
  Status SynchronizeDevice(int device) override {
    return On(device, "hipDeviceSynchronize", [&] { return driver_.hipDeviceSynchronize(); });
  }

  StatusOr<void*> RecordEvent(int device, void* stream) override {
    Event event = nullptr;
    RETURN_IF_ERROR(
        On(device, "hipEventCreateWithFlags", [&] { return driver_.hipEventCreateWithFlags(&event, kDisableTiming); }));
    const Status recorded =
        On(device, "hipEventRecord", [&] { return driver_.hipEventRecord(event, static_cast<Stream>(stream)); });
    if (recorded.ok()) return event;
    driver_.hipEventDestroy(event);
    return recorded;
  }
  bool IsDone(int device, void* event) override {
    return On(device, "hipEventQuery", [&] { return driver_.hipEventQuery(static_cast<Event>(event)); }).ok();
  }
  Status WaitForEvent(int device, void* stream, void* event) override {
    return On(device, "hipStreamWaitEvent",
              [&] { return driver_.hipStreamWaitEvent(static_cast<Stream>(stream), static_cast<Event>(event), 0); });
  }
  void DestroyEvent(int device, void* event) override {
    On(device, "hipEventDestroy", [&] { return driver_.hipEventDestroy(static_cast<Event>(event)); }).IgnoreError();
  }

  StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view image) override {
    return HipModule::Load(driver_, image);
  }
  Status Launch(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env) override {
    auto& info = *static_cast<HipModule::KernelInfo*>(kernel);
    const Status status = info.module->Launch(info, shape, params, env);
    return status.ok() ? status : Annotate(status, Cat("kernel '", info.name, "'"));
  }

 private:
  static size_t Size(int64_t bytes) { return bytes <= 0 ? 1 : static_cast<size_t>(bytes); }

  template <class Call>
  Status On(int device, std::string_view what, const Call& call) const {
    const DeviceScope scope(driver_, device);
    RETURN_IF_ERROR(scope.status());
    return driver_.Check(call(), Cat("hip:", device, ": ", what));
  }

  const Driver& driver_;
};

}  // namespace

StatusOr<DeviceApi*> GetHipDevice() {
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  static auto* device = new HipDevice(*driver);
  return device;
}

}  // namespace cinn_like

extern "C" const cinn_like::RuntimeDevice cinn_device_hip = {kDLROCM, kDLROCMHost, cinn_like::GetHipDevice};
