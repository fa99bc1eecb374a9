// Memory, streams, copies, code and launches of one kind of device. One object per kind and process; every call says
// which device, no call assumes device 0. Drivers are opened at run time: a kind whose driver is missing is an error
// that says so.
#pragma once
#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"
#include "cinn_like/base/target.h"
#include "runtime/call.h"

namespace cinn_like {

// Kernels that a device has loaded. None of them may be running or be launched when it goes.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  // For DeviceApi::Launch, on any device of the kind, as long as this lives; NotFound names it.
  virtual StatusOr<void*> Kernel(const std::string& name) = 0;
};

struct LaunchShape {
  std::array<int64_t, 3> grid, block;
  int64_t shared_bytes = 0;  // beside what a kernel declares itself
};

// A tensor as a copy engine is to know it (ir/stmt.h, TensorMap), of elements of 2 bytes.
struct TensorMapSpec {
  static constexpr size_t kMostRank = 5;
  void* address = nullptr;
  std::span<const int64_t> extents, strides, box;
};
inline constexpr size_t kTensorMapBytes = 128;

class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  virtual StatusOr<int> Count() = 0;
  virtual StatusOr<Target> Detect(int device) = 0;  // the exact arch and the numbers of this device

  // Long-lived memory, aligned to 64 bytes (CPU) or 256 (others), for work like that of `stream` (where memory belongs
  // to contexts: of its context). ResourceExhausted names the size.
  virtual StatusOr<void*> Alloc(int device, int64_t bytes, void* stream) = 0;
  virtual void Free(int device, void* data) = 0;
  // Memory of one call, in the order of `stream`, from a pool.
  virtual StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void* stream) = 0;
  virtual void FreeWorkspace(int device, void* data, void* stream) = 0;

  // Enqueues a copy between this kind and this kind or host memory; either pointer may be of either.
  virtual Status Copy(int device, void* to, const void* from, int64_t bytes, void* stream) = 0;

  // Where work is done when its call returns there are no streams, and these are as here.
  virtual StatusOr<void*> CreateStream(int) { return nullptr; }
  virtual void DestroyStream(int, void*) {}
  virtual Status Synchronize(int, void*) { return absl::OkStatus(); }
  virtual Status SynchronizeDevice(int) { return absl::OkStatus(); }  // every stream
  // A point in a stream's work, for other streams to wait for.
  virtual StatusOr<void*> RecordEvent(int, void*) { return nullptr; }
  virtual bool IsDone(int, void*) { return true; }
  // (device, stream, event): what is enqueued later waits.
  virtual Status WaitForEvent(int, void*, void*) { return absl::OkStatus(); }
  virtual void DestroyEvent(int, void*) {}

  // The rest is of kinds with kernels. `image` is what their compiler made (backends/device_compiler.h); it is copied.
  virtual StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view image);
  // Writes what kernels are passed for a tensor map: kTensorMapBytes, aligned to 64, that boxes arrive in as panels
  // (backends/wgmma_printer.h).
  virtual Status MakeTensorMap(void* map, DType dtype, const TensorMapSpec& spec, const CinnCallEnv& env);
  // Enqueues a kernel on env.device and env.stream; `params` points to each argument. The grid has blocks. Errors
  // name the kernel.
  virtual Status Launch(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env);
};

// A kind of device as the runtime sees it: the part of its registration (backends/device.h) that generated code hands
// to runtime functions, under the symbol cinn_device_<name>. It outlives all code for it.
struct RuntimeDevice {
  DLDeviceType type;
  DLDeviceType also;              // of other memory that code for it reads and writes (pinned, managed); else `type`
  StatusOr<DeviceApi*> (*api)();  // FailedPrecondition ("no CUDA driver: ...") where there is no such device
  // Where a tensor's `data` is no address, but a handle of memory: the address that generated code is given for its
  // first element, to add to and to hand back to DeviceApi; null: it is no memory of the device. Workspaces of such a
  // device are its own. Null: data + byte_offset.
  void* (*address)(const DLTensor& tensor) = nullptr;
};

StatusOr<DeviceApi*> GetHostDevice();
StatusOr<DeviceApi*> GetCudaDevice();
StatusOr<DeviceApi*> GetOpenClDevice();
StatusOr<DeviceApi*> GetHipDevice();

// `target` with what it leaves to the machine ("cuda", "-arch=native") filled in from the devices of its kind, which
// must be of one arch; other targets stay and need no device.
StatusOr<Target> ResolveTarget(const Target& target, const RuntimeDevice& device);

}  // namespace cinn_like

extern "C" {
extern const cinn_like::RuntimeDevice cinn_device_x86_64, cinn_device_cuda, cinn_device_opencl, cinn_device_hip,
    cinn_device_metal;

// DeviceApi::Launch from generated code.
int32_t cinn_launch(const cinn_like::RuntimeDevice* device, void* kernel, int64_t gx, int64_t gy, int64_t gz,
                    int64_t bx, int64_t by, int64_t bz, int64_t shared_bytes, void** params, const CinnCallEnv* env);
// DeviceApi::MakeTensorMap: `numbers` are extents, strides and the box, of `rank` each; `dtype` is a DType.
int32_t cinn_tensor_map(const cinn_like::RuntimeDevice* device, void* map, void* address, int64_t dtype, int64_t rank,
                        const int64_t* numbers, const CinnCallEnv* env);
}
