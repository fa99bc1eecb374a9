// Memory, streams and copies of one kind of device. One object per kind and process; every call says which device, no
// call assumes device 0. Drivers are opened at run time: a kind whose driver is missing is an error that says so.
#pragma once
#include <dlpack/dlpack.h>

#include <cstdint>

#include "cinn_like/base/status.h"
#include "cinn_like/base/target.h"

namespace cinn_like {

class DeviceApi {
 public:
  virtual ~DeviceApi() = default;
  // FailedPrecondition ("no CUDA driver: ..."), or InvalidArgument for a kind that we do not know.
  static StatusOr<DeviceApi*> Get(DLDeviceType type);

  virtual StatusOr<int> Count() = 0;
  virtual StatusOr<Target> Detect(int device) = 0;  // the exact arch and the numbers of this device

  // Long-lived memory, aligned to 64 bytes (CPU) or 256 (CUDA). ResourceExhausted names the size.
  virtual StatusOr<void*> Alloc(int device, int64_t bytes) = 0;
  virtual void Free(int device, void* data) = 0;
  // Memory of one call, in the order of `stream`, from a pool.
  virtual StatusOr<void*> AllocWorkspace(int device, int64_t bytes, void* stream) = 0;
  virtual void FreeWorkspace(int device, void* data, void* stream) = 0;

  // Enqueues a copy between this kind and this kind or host memory; either pointer may be of either.
  virtual Status Copy(int device, void* to, const void* from, int64_t bytes, void* stream) = 0;
  virtual StatusOr<void*> CreateStream(int device) = 0;
  virtual void DestroyStream(int device, void* stream) = 0;
  virtual Status Synchronize(int device, void* stream) = 0;
  virtual Status SynchronizeDevice(int device) = 0;  // every stream

  // A point in a stream's work, for other streams to wait for; null where work is done when its call returns.
  virtual StatusOr<void*> RecordEvent(int device, void* stream) = 0;
  virtual bool IsDone(int device, void* event) = 0;
  virtual Status WaitForEvent(int device, void* stream, void* event) = 0;  // what is enqueued later waits
  virtual void DestroyEvent(int device, void* event) = 0;
};

// The target that fits `device` exactly: "cuda -arch=sm_90a -sm-count=132 ...", "x86_64 -mcpu=native".
StatusOr<Target> DetectTarget(DLDevice device);
// `target` with what it leaves to the machine ("cuda", "-arch=native") filled in from its devices, which must be of one
// arch; other targets stay and need no device.
StatusOr<Target> ResolveTarget(const Target& target);

// The kinds, each defined in its own file.
StatusOr<DeviceApi*> GetHostDevice();
StatusOr<DeviceApi*> GetCudaDevice();

}  // namespace cinn_like
