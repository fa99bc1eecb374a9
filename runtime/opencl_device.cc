#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "runtime/device_api.h"
#include "runtime/opencl_driver.h"
#include "runtime/opencl_memory.h"
#include "runtime/opencl_module.h"

namespace cinn_like {
namespace {

using namespace opencl;

// Buffers that calls gave back, for the next calls: they repeat, and a new buffer costs more than most kernels. Never
// more bytes than were in use at one time.
class BufferPool {
 public:
  // What a buffer of at least `bytes` holds: of eight sizes between two powers of 2.
  static int64_t Round(int64_t bytes) {
    const int64_t step = std::max<int64_t>(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 8, 256);
    return bytes > INT64_MAX - step ? bytes : (bytes + step - 1) / step * step;
  }

  // A rounded size. Null: there is none, and the caller makes one and Adds it.
  void* Take(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto it = kept_.find(bytes);
    if (it == kept_.end()) return nullptr;
    void* buffer = it->second;
    kept_.erase(it);
    kept_bytes_ -= bytes;
    Use(buffer, bytes);
    return buffer;
  }
  void Add(void* buffer, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    Use(buffer, bytes);
  }
  // What is to be freed now.
  std::vector<void*> Give(void* buffer) {
    const std::lock_guard lock(mutex_);
    const auto it = in_use_.find(buffer);
    if (it == in_use_.end()) return {buffer};
    kept_.emplace(it->second, buffer);
    kept_bytes_ += it->second;
    used_bytes_ -= it->second;
    in_use_.erase(it);
    return Drop(most_used_bytes_);
  }
  std::vector<void*> DropAll() {
    const std::lock_guard lock(mutex_);
    return Drop(0);
  }

 private:
  void Use(void* buffer, int64_t bytes) {
    in_use_.emplace(buffer, bytes);
    used_bytes_ += bytes;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  }
  std::vector<void*> Drop(int64_t most) {
    std::vector<void*> dropped;
    while (kept_bytes_ > most) {
      const auto largest = std::prev(kept_.end());
      kept_bytes_ -= largest->first;
      dropped.push_back(largest->second);
      kept_.erase(largest);
    }
    return dropped;
  }

  std::mutex mutex_;
  absl::flat_hash_map<void*, int64_t> in_use_;  // bytes
  std::multimap<int64_t, void*> kept_;
  int64_t used_bytes_ = 0, most_used_bytes_ = 0, kept_bytes_ = 0;
};

// A stream is a cl_command_queue. The driver itself frees memory after the work that uses it.
class OpenClDevice final : public DeviceApi {
 public:
  explicit OpenClDevice(const Driver& driver) : driver_(driver), pools_(driver.devices.size()) {}

  StatusOr<int> Count() override { return static_cast<int>(driver_.devices.size()); }

  StatusOr<Target> Detect(int device) override {
    ASSIGN_OR_RETURN(const Device* d, driver_.Find(device));
    ASSIGN_OR_RETURN(Target t, Target::Parse("opencl -arch=generic"));
    ASSIGN_OR_RETURN(const unsigned cores, driver_.Info<unsigned>(d->id, kMaxComputeUnits));
    ASSIGN_OR_RETURN(const uint64_t cache_bytes, driver_.Info<uint64_t>(d->id, kGlobalCacheBytes));
    t.cores = std::max<int64_t>(cores, 1);
    if (cache_bytes > 0) t.l2_bytes = static_cast<int64_t>(cache_bytes);
    ASSIGN_OR_RETURN(const std::string extensions, driver_.Text(d->id, kExtensions));
    if (extensions.find("cl_khr_fp64") == extensions.npos) t.features = {"-fp64"};
    ASSIGN_OR_RETURN(t.subgroup_size, CommonSubgroupSize(driver_));
    return t;
  }

  StatusOr<void*> Alloc(int device, int64_t bytes, void* stream) override {
    ASSIGN_OR_RETURN(const QueueOf queue, FindQueue(driver_, device, stream));
    Result error = kSuccess;
    const Mem memory = driver_.clCreateBuffer(queue.context, kReadWrite,
                                              static_cast<size_t>(std::max<int64_t>(bytes, 1)), nullptr, &error);
    RETURN_IF_ERROR(Check(error, device, Cat("clCreateBuffer of ", bytes, " bytes")));
    StatusOr<void*> address = AddAddress(memory, queue.context, bytes);
    if (!address.ok()) driver_.clReleaseMemObject(memory);
    return address;
  }

  void Free(int, void* data) override {
    if (const Mem memory = data == nullptr ? nullptr : RemoveAddress(data)) driver_.clReleaseMemObject(memory);
  }

  // The device's own queue runs in order, so that what is enqueued there may have the memory of what came before.
  StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void* stream) override {
    if (stream != nullptr || bytes < 0) return Alloc(device, bytes, stream);
    RETURN_IF_ERROR(driver_.Find(device).status());
    BufferPool& pool = pools_[static_cast<size_t>(device)];
    const int64_t rounded = BufferPool::Round(bytes);
    if (void* kept = pool.Take(rounded)) return kept;
    StatusOr<void*> made = Alloc(device, rounded, stream);
    if (absl::IsResourceExhausted(made.status())) {
      FreeAll(device, pool.DropAll());
      made = Alloc(device, rounded, stream);
    }
    if (made.ok()) pool.Add(*made, rounded);
    return made;
  }
  void FreeWorkspace(int device, void* data, void* stream) override {
    if (stream != nullptr || data == nullptr) return Free(device, data);
    FreeAll(device, pools_[static_cast<size_t>(device)].Give(data));
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
  void FreeAll(int device, const std::vector<void*>& buffers) {
    for (void* buffer : buffers) Free(device, buffer);
  }
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
  std::vector<BufferPool> pools_;  // one per device
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
