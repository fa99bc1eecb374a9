#include <algorithm>
#include <cstring>

#include "runtime/device_api.h"
#include "runtime/opencl_driver.h"
#include "runtime/opencl_memory.h"
#include "runtime/opencl_module.h"

namespace cinn_like {
namespace {

using namespace opencl;

// A stream is a cl_command_queue. The driver itself frees memory after the work that uses it, and keeps what it wants
// to keep.
class OpenClDevice final : public DeviceApi {
 public:
  explicit OpenClDevice(const Driver& driver) : driver_(driver) {}

  StatusOr<int> Count() override { return static_cast<int>(driver_.devices.size()); }

  StatusOr<Target> Detect(int device) override {
    ASSIGN_OR_RETURN(const Device* d, driver_.Find(device));
    ASSIGN_OR_RETURN(Target t, Target::Parse("opencl -arch=generic"));
    ASSIGN_OR_RETURN(const unsigned cores, driver_.Info<unsigned>(d->id, kMaxComputeUnits));
    ASSIGN_OR_RETURN(const uint64_t cache_bytes, driver_.Info<uint64_t>(d->id, kGlobalCacheBytes));
    t.cores = std::max<int64_t>(cores, 1);
    if (cache_bytes > 0) t.l2_bytes = static_cast<int64_t>(cache_bytes);
    return t;
  }

  StatusOr<void*> Alloc(int device, int64_t bytes, void* stream) override {
    return AllocWorkspace(device, bytes, stream);
  }
  void Free(int device, void* data) override { FreeWorkspace(device, data, nullptr); }

  StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void* stream) override {
    ASSIGN_OR_RETURN(const QueueOf queue, FindQueue(driver_, device, stream));
    Result error = kSuccess;
    const Mem memory = driver_.clCreateBuffer(queue.context, kReadWrite,
                                              static_cast<size_t>(std::max<int64_t>(bytes, 1)), nullptr, &error);
    RETURN_IF_ERROR(Check(error, device, Cat("clCreateBuffer of ", bytes, " bytes")));
    StatusOr<void*> address = AddAddress(memory, queue.context, bytes);
    if (!address.ok()) driver_.clReleaseMemObject(memory);
    return address;
  }

  void FreeWorkspace(int, void* data, void*) override {
    if (const Mem memory = data == nullptr ? nullptr : RemoveAddress(data)) driver_.clReleaseMemObject(memory);
  }

  // What the host's memory takes part in is done when this returns.
  Status Copy(int device, void* to, const void* from, int64_t bytes, void* stream) override {
    if (bytes == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const QueueOf queue, FindQueue(driver_, device, stream));
    if (!queue.in_order) RETURN_IF_ERROR(Barrier(queue, device, nullptr));
    Place source, target;
    const bool reads = FindPlace(from, &source), writes = FindPlace(to, &target);
    if ((reads && source.context != queue.context) || (writes && target.context != queue.context)) {
      return InvalidArgument("opencl:", device, ": a copy of memory of another OpenCL context than the call's stream");
    }
    const auto size = static_cast<size_t>(bytes), source_offset = static_cast<size_t>(source.offset),
               target_offset = static_cast<size_t>(target.offset);
    const std::string what = Cat("a copy of ", bytes, " bytes");
    if (reads && writes) {
      return Check(driver_.clEnqueueCopyBuffer(queue.queue, source.memory, target.memory, source_offset, target_offset,
                                               size, 0, nullptr, nullptr),
                   device, what);
    }
    if (reads) {
      return Check(
          driver_.clEnqueueReadBuffer(queue.queue, source.memory, 1, source_offset, size, to, 0, nullptr, nullptr),
          device, what);
    }
    if (writes) {
      return Check(
          driver_.clEnqueueWriteBuffer(queue.queue, target.memory, 1, target_offset, size, from, 0, nullptr, nullptr),
          device, what);
    }
    RETURN_IF_ERROR(Synchronize(device, stream));
    std::memmove(to, from, size);
    return absl::OkStatus();
  }

  StatusOr<void*> CreateStream(int device) override {
    ASSIGN_OR_RETURN(const Device* d, driver_.Find(device));
    Result error = kSuccess;
    const Queue queue = driver_.clCreateCommandQueue(d->context, d->id, 0, &error);
    RETURN_IF_ERROR(Check(error, device, "clCreateCommandQueue"));
    return queue;
  }
  void DestroyStream(int, void* stream) override {
    if (stream != nullptr) driver_.clReleaseCommandQueue(static_cast<Queue>(stream));
  }

  Status Synchronize(int device, void* stream) override {
    ASSIGN_OR_RETURN(const QueueOf queue, FindQueue(driver_, device, stream));
    return Check(driver_.clFinish(queue.queue), device, "clFinish");
  }
  // OpenCL knows no queues of a context: those of others are theirs to wait for.
  Status SynchronizeDevice(int device) override { return Synchronize(device, nullptr); }

  StatusOr<void*> RecordEvent(int device, void* stream) override {
    ASSIGN_OR_RETURN(const QueueOf queue, FindQueue(driver_, device, stream));
    Event event = nullptr;
    RETURN_IF_ERROR(Check(driver_.clEnqueueMarkerWithWaitList(queue.queue, 0, nullptr, &event), device,
                          "clEnqueueMarkerWithWaitList"));
    RETURN_IF_ERROR(Check(driver_.clFlush(queue.queue), device, "clFlush"));  // else other queues could wait for ever
    return event;
  }
  bool IsDone(int, void* event) override {
    int status = kComplete + 1;
    return event == nullptr || (driver_.clGetEventInfo(static_cast<Event>(event), kExecutionStatus, sizeof(status),
                                                       &status, nullptr) == kSuccess &&
                                status == kComplete);
  }
  Status WaitForEvent(int device, void* stream, void* event) override {
    ASSIGN_OR_RETURN(const QueueOf queue, FindQueue(driver_, device, stream));
    return event == nullptr ? absl::OkStatus() : Barrier(queue, device, static_cast<Event>(event));
  }
  void DestroyEvent(int, void* event) override {
    if (event != nullptr) driver_.clReleaseEvent(static_cast<Event>(event));
  }

  StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view image) override { return Module::Load(image); }
  Status Launch(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env) override {
    return LaunchKernel(kernel, shape, params, env);
  }

 private:
  Status Check(Result result, int device, std::string_view what) const {
    return result == kSuccess ? absl::OkStatus() : driver_.Check(result, Cat("opencl:", device, ": ", what));
  }
  // What comes later waits for the event, or for all that came before.
  Status Barrier(const QueueOf& queue, int device, Event event) const {
    return Check(driver_.clEnqueueBarrierWithWaitList(queue.queue, event == nullptr ? 0 : 1,
                                                      event == nullptr ? nullptr : &event, nullptr),
                 device, "clEnqueueBarrierWithWaitList");
  }

  const Driver& driver_;
};

}  // namespace

StatusOr<DeviceApi*> GetOpenClDevice() {
  ASSIGN_OR_RETURN(const Driver* driver, GetDriver());
  static auto* device = new OpenClDevice(*driver);
  return device;
}

}  // namespace cinn_like

extern "C" const cinn_like::RuntimeDevice cinn_device_opencl = {kDLOpenCL, kDLOpenCL, cinn_like::GetOpenClDevice,
                                                                cinn_like::opencl::AddressOf};
