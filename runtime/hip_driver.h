// The HIP runtime, opened at run time: the few functions that we use, whose interface no version has changed since ROCm
// 5.1. Included by .cc files alone.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like::hip {

using Result = int;  // hipError_t
using Stream = struct StreamImpl*;
using Event = struct EventImpl*;
using Module = struct ModuleImpl*;
using Function = struct FunctionImpl*;

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;

enum CopyKind { kByAddress = 4 };
enum StreamFlags { kNonBlocking = 1 };
enum EventFlags { kDisableTiming = 2 };

// X(function, result, parameters)
#define CINN_HIP_FUNCTIONS(X)                                                                         \
  X(hipInit, Result, (unsigned flags))                                                                \
  X(hipGetErrorName, const char*, (Result error))                                                     \
  X(hipGetErrorString, const char*, (Result error))                                                   \
  X(hipGetDeviceCount, Result, (int* count))                                                          \
  X(hipGetDeviceProperties, Result, (void* properties, int device))                                   \
  X(hipGetDevice, Result, (int* device))                                                              \
  X(hipSetDevice, Result, (int device))                                                               \
  X(hipDeviceSynchronize, Result, ())                                                                 \
  X(hipMalloc, Result, (void** data, size_t bytes))                                                   \
  X(hipFree, Result, (void* data))                                                                    \
  X(hipMallocAsync, Result, (void** data, size_t bytes, Stream stream))                               \
  X(hipFreeAsync, Result, (void* data, Stream stream))                                                \
  X(hipMemcpyAsync, Result, (void* to, const void* from, size_t bytes, CopyKind kind, Stream stream)) \
  X(hipStreamCreateWithFlags, Result, (Stream * stream, unsigned flags))                              \
  X(hipStreamDestroy, Result, (Stream stream))                                                        \
  X(hipStreamSynchronize, Result, (Stream stream))                                                    \
  X(hipStreamWaitEvent, Result, (Stream stream, Event event, unsigned flags))                         \
  X(hipEventCreateWithFlags, Result, (Event * event, unsigned flags))                                 \
  X(hipEventRecord, Result, (Event event, Stream stream))                                             \
  X(hipEventQuery, Result, (Event event))                                                             \
  X(hipEventDestroy, Result, (Event event))                                                           \
  X(hipModuleLoadData, Result, (Module * module, const void* image))                                  \
  X(hipModuleUnload, Result, (Module module))                                                         \
  X(hipModuleGetFunction, Result, (Function * function, Module module, const char* name))             \
  X(hipModuleLaunchKernel, Result,                                                                    \
    (Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
     unsigned shared_bytes, Stream stream, void** params, void** extra))

struct Driver {
#define X(name, result, params) result(*name) params = nullptr;
  CINN_HIP_FUNCTIONS(X)
#undef X
  int device_count = 0;

  // "gfx90a" of "gfx90a:sramecc+:xnack-".
  StatusOr<std::string> ArchOf(int device) const;
  // ResourceExhausted or Unavailable: "<what> failed: hipErrorNoDevice (...)".
  Status Check(Result result, std::string_view what) const;
};

// $ROCM_PATH/lib/libamdhip64.so, else the loader's libamdhip64.so. FailedPrecondition ("no HIP: ...") where there is
// none, or no device.
StatusOr<const Driver*> GetDriver();

// Makes a device the thread's current one until the end of the scope.
class DeviceScope {
 public:
  DeviceScope(const Driver& driver, int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  const Status& status() const { return status_; }

 private:
  const Driver& driver_;
  int before_ = -1;
  Status status_;
};

}  // namespace cinn_like::hip
