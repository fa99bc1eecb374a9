// The CUDA driver, opened at run time: the few types and functions that we use, pinned to the interface version that
// each has here. Included by .cc files alone. Needs a driver of CUDA 12.0 or newer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like::cuda {

using Result = int;  // CUresult
using Context = struct ContextImpl*;
using Stream = struct StreamImpl*;
using Event = struct EventImpl*;
using Library = struct LibraryImpl*;
using Kernel = struct KernelImpl*;
using MemPool = struct MemPoolImpl*;
using DevicePtr = unsigned long long;

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;

enum DeviceAttribute {
  kWarpSize = 10,
  kMultiprocessorCount = 16,
  kMemoryClockKHz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kSharedPerBlockOptIn = 97,
};
enum FunctionAttribute { kMaxDynamicSharedBytes = 8 };
enum JitOption { kErrorLogBuffer = 5, kErrorLogBufferBytes = 6 };
enum MemPoolAttribute { kReleaseThreshold = 4 };
enum TensorMapType { kTensorF16 = 6, kTensorBf16 = 9 };
enum TensorMapSwizzle { kSwizzle128Bytes = 3 };
enum TensorMapL2Promotion { kPromote256Bytes = 3 };
enum StreamFlags { kNonBlocking = 1 };
enum EventFlags { kDisableTiming = 2 };
enum LaunchAttributeId { kProgrammaticStreamSerialization = 6 };

constexpr int kMaxDevices = 64;
// The first driver that captures kernels with that attribute into graphs.
constexpr int kCapturesEarlyStarts = 12030;

struct MemPoolProps {
  int alloc_type = 1;  // pinned device memory
  int handle_types = 0;
  int location_type = 1;  // a device
  int location_id = 0;
  void* security_attributes = nullptr;
  size_t max_bytes = 0;
  unsigned char reserved[56] = {};
};
static_assert(sizeof(MemPoolProps) == 88);

struct LaunchAttribute {
  int id = 0;
  int padding = 0;
  int value = 0;  // of a union of 64 bytes
  char rest[60] = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned num_attributes;
};
static_assert(sizeof(LaunchConfig) == 56);

// X(function, interface version, parameters)
#define CINN_CUDA_FUNCTIONS(X)                                                                                 \
  X(cuInit, 2000, (unsigned flags))                                                                            \
  X(cuDriverGetVersion, 2020, (int* version))                                                                  \
  X(cuGetErrorName, 6000, (Result error, const char** text))                                                   \
  X(cuGetErrorString, 6000, (Result error, const char** text))                                                 \
  X(cuDeviceGetCount, 2000, (int* count))                                                                      \
  X(cuDeviceGetAttribute, 2000, (int* value, int attribute, int device))                                       \
  X(cuDevicePrimaryCtxRetain, 7000, (Context * context, int device))                                           \
  X(cuCtxGetCurrent, 4000, (Context * context))                                                                \
  X(cuCtxPushCurrent, 4000, (Context context))                                                                 \
  X(cuCtxPopCurrent, 4000, (Context * context))                                                                \
  X(cuMemAlloc, 3020, (DevicePtr * data, size_t bytes))                                                        \
  X(cuMemFree, 3020, (DevicePtr data))                                                                         \
  X(cuMemPoolCreate, 11020, (MemPool * pool, const MemPoolProps* properties))                                  \
  X(cuMemPoolSetAttribute, 11020, (MemPool pool, int attribute, void* value))                                  \
  X(cuMemAllocFromPoolAsync, 11020, (DevicePtr * data, size_t bytes, MemPool pool, Stream stream))             \
  X(cuMemFreeAsync, 11020, (DevicePtr data, Stream stream))                                                    \
  X(cuMemcpyAsync, 4000, (DevicePtr to, DevicePtr from, size_t bytes, Stream stream))                          \
  X(cuStreamCreate, 2000, (Stream * stream, unsigned flags))                                                   \
  X(cuStreamDestroy, 4000, (Stream stream))                                                                    \
  X(cuStreamSynchronize, 2000, (Stream stream))                                                                \
  X(cuStreamWaitEvent, 3020, (Stream stream, Event event, unsigned flags))                                     \
  X(cuEventCreate, 2000, (Event * event, unsigned flags))                                                      \
  X(cuEventRecord, 2000, (Event event, Stream stream))                                                         \
  X(cuEventQuery, 2000, (Event event))                                                                         \
  X(cuEventDestroy, 4000, (Event event))                                                                       \
  X(cuCtxSynchronize, 2000, ())                                                                                \
  X(cuLibraryLoadData, 12000,                                                                                  \
    (Library * library, const void* code, int* jit_options, void** jit_values, unsigned num_jit, int* options, \
     void** values, unsigned num_options))                                                                     \
  X(cuLibraryUnload, 12000, (Library library))                                                                 \
  X(cuLibraryGetGlobal, 12000, (DevicePtr * data, size_t* bytes, Library library, const char* name))           \
  X(cuLibraryGetKernel, 12000, (Kernel * kernel, Library library, const char* name))                           \
  X(cuKernelSetAttribute, 12000, (int attribute, int value, Kernel kernel, int device))                        \
  X(cuTensorMapEncodeTiled, 12000,                                                                             \
    (void* map, int type, unsigned rank, void* address, const uint64_t* extents, const uint64_t* strides,      \
     const unsigned* box, const unsigned* steps, int interleave, int swizzle, int l2_promotion, int fill))     \
  X(cuLaunchKernelEx, 11060, (const LaunchConfig* config, void* function, void** params, void** extra))

struct Driver {
#define X(name, version, params) Result(*name) params = nullptr;
  CINN_CUDA_FUNCTIONS(X)
#undef X
  int device_count = 0;
  int version = 0;  // 13000 is CUDA 13.0

  // "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"; OK for kSuccess.
  Status Check(Result result, std::string_view what) const;
};

// Opened and initialised once; FailedPrecondition "no CUDA driver: ..." where there is none or no GPU.
StatusOr<const Driver*> GetDriver();
// The device's primary context, which frameworks use too; retained once.
StatusOr<Context> PrimaryContext(const Driver& driver, int device);

// Makes `context` current until the end of scope, if it is not; the caller's own stays what it was.
class ContextScope {
 public:
  ContextScope(const Driver& driver, Context context) : driver_(driver) {
    Context current = nullptr;
    status_ = driver.cuCtxGetCurrent(&current);
    if (status_ != kSuccess || current == context) return;
    status_ = driver.cuCtxPushCurrent(context);
    pushed_ = status_ == kSuccess;
  }
  ~ContextScope() {
    Context popped;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  Status status() const { return driver_.Check(status_, "making a CUDA context current"); }

 private:
  const Driver& driver_;
  Result status_;
  bool pushed_ = false;
};

}  // namespace cinn_like::cuda
