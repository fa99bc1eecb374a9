// OpenCL 1.2, through the loader libOpenCL.so.1, which is opened at run time: the few types and functions that we use,
// none of OpenCL's headers. Included by .cc files alone. Devices are those of all platforms, in the loader's order,
// that compile kernels; opencl:0 is the first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"

namespace cinn_like::opencl {

using Result = int;  // cl_int
using Platform = struct PlatformImpl*;
using DeviceId = struct DeviceIdImpl*;
using Context = struct ContextImpl*;
using Queue = struct QueueImpl*;
using Mem = struct MemImpl*;
using Program = struct ProgramImpl*;
using Kernel = struct KernelImpl*;
using Event = struct EventImpl*;
using Bits = uint64_t;  // cl_bitfield
using Bool = unsigned;
using Destroyed = void (*)(Mem, void*);

constexpr Result kSuccess = 0;
constexpr Result kInvalidWorkGroupSize = -54;
constexpr Bits kAnyDevice = 0xffffffff;
constexpr Bits kReadWrite = 1, kUseHostPtr = 8, kCopyHostPtr = 32;  // of memory
constexpr Bits kOutOfOrder = 1;                                     // of queues
constexpr Bits kRoundsDivision = 128;                               // of a device's floats
constexpr int kComplete = 0;

enum DeviceInfo : unsigned {
  kMaxComputeUnits = 0x1002,
  kMaxWorkGroupSize = 0x1004,
  kSingleFpConfig = 0x101b,
  kGlobalCacheBytes = 0x101e,
  kLocalBytes = 0x1023,
  kCompilerAvailable = 0x1028,
  kDeviceName = 0x102b,
  kExtensions = 0x1030,
  kSubgroupSizes = 0x4108,  // of cl_intel_required_subgroup_size
};
enum QueueInfo : unsigned { kQueueContext = 0x1090, kQueueDevice = 0x1091, kQueueProperties = 0x1093 };
enum MemInfo : unsigned { kMemFlags = 0x1101, kMemSize = 0x1102, kMemHostPtr = 0x1103, kMemContext = 0x1106 };
enum BuildInfo : unsigned { kBuildLog = 0x1183 };
enum KernelWorkGroupInfo : unsigned { kKernelWorkGroupSize = 0x11b0, kKernelRequiredSize = 0x11b1 };
enum EventInfo : unsigned { kExecutionStatus = 0x11d3 };

// X(function, what it returns, parameters)
#define CINN_OPENCL_FUNCTIONS(X)                                                                                      \
  X(clGetPlatformIDs, Result, (unsigned entries, Platform* platforms, unsigned* count))                               \
  X(clGetDeviceIDs, Result, (Platform platform, Bits type, unsigned entries, DeviceId* devices, unsigned* count))     \
  X(clGetDeviceInfo, Result, (DeviceId device, unsigned what, size_t size, void* value, size_t* written))             \
  X(clCreateContext, Context,                                                                                         \
    (const intptr_t* properties, unsigned count, const DeviceId* devices, void* notify, void* user, Result* error))   \
  X(clCreateCommandQueue, Queue, (Context context, DeviceId device, Bits properties, Result * error))                 \
  X(clReleaseCommandQueue, Result, (Queue queue))                                                                     \
  X(clGetCommandQueueInfo, Result, (Queue queue, unsigned what, size_t size, void* value, size_t* written))           \
  X(clCreateBuffer, Mem, (Context context, Bits flags, size_t size, void* host, Result* error))                       \
  X(clReleaseMemObject, Result, (Mem memory))                                                                         \
  X(clGetMemObjectInfo, Result, (Mem memory, unsigned what, size_t size, void* value, size_t* written))               \
  X(clSetMemObjectDestructorCallback, Result, (Mem memory, Destroyed notify, void* user))                             \
  X(clCreateProgramWithSource, Program,                                                                               \
    (Context context, unsigned count, const char** texts, const size_t* lengths, Result* error))                      \
  X(clBuildProgram, Result,                                                                                           \
    (Program program, unsigned count, const DeviceId* devices, const char* options, void* notify, void* user))        \
  X(clGetProgramBuildInfo, Result,                                                                                    \
    (Program program, DeviceId device, unsigned what, size_t size, void* value, size_t* written))                     \
  X(clReleaseProgram, Result, (Program program))                                                                      \
  X(clCreateKernel, Kernel, (Program program, const char* name, Result* error))                                       \
  X(clReleaseKernel, Result, (Kernel kernel))                                                                         \
  X(clSetKernelArg, Result, (Kernel kernel, unsigned index, size_t size, const void* value))                          \
  X(clGetKernelWorkGroupInfo, Result,                                                                                 \
    (Kernel kernel, DeviceId device, unsigned what, size_t size, void* value, size_t* written))                       \
  X(clEnqueueNDRangeKernel, Result,                                                                                   \
    (Queue queue, Kernel kernel, unsigned dims, const size_t* offset, const size_t* global, const size_t* local,      \
     unsigned waits, const Event* events, Event* event))                                                              \
  X(clEnqueueReadBuffer, Result,                                                                                      \
    (Queue queue, Mem from, Bool blocking, size_t offset, size_t size, void* to, unsigned waits, const Event* events, \
     Event* event))                                                                                                   \
  X(clEnqueueWriteBuffer, Result,                                                                                     \
    (Queue queue, Mem to, Bool blocking, size_t offset, size_t size, const void* from, unsigned waits,                \
     const Event* events, Event* event))                                                                              \
  X(clEnqueueCopyBuffer, Result,                                                                                      \
    (Queue queue, Mem from, Mem to, size_t from_offset, size_t to_offset, size_t size, unsigned waits,                \
     const Event* events, Event* event))                                                                              \
  X(clEnqueueMarkerWithWaitList, Result, (Queue queue, unsigned waits, const Event* events, Event* event))            \
  X(clEnqueueBarrierWithWaitList, Result, (Queue queue, unsigned waits, const Event* events, Event* event))           \
  X(clGetEventInfo, Result, (Event event, unsigned what, size_t size, void* value, size_t* written))                  \
  X(clReleaseEvent, Result, (Event event))                                                                            \
  X(clFlush, Result, (Queue queue))                                                                                   \
  X(clFinish, Result, (Queue queue))

// With the context and the queue that calls without a stream use, made once.
struct Device {
  DeviceId id = nullptr;
  std::string name;  // as the driver calls it
  Context context = nullptr;
  Queue queue = nullptr;
};

struct Driver {
#define X(name, result, params) result(*name) params = nullptr;
  CINN_OPENCL_FUNCTIONS(X)
#undef X
  std::vector<Device> devices;

  // "clCreateBuffer failed: OpenCL error -61 (CL_INVALID_BUFFER_SIZE)"; OK for kSuccess.
  Status Check(Result result, std::string_view what) const;
  // InvalidArgument says how many there are.
  StatusOr<const Device*> Find(int device) const;
  // Of a device: a number, or text.
  template <class T>
  StatusOr<T> Info(DeviceId device, DeviceInfo what) const {
    T value{};
    RETURN_IF_ERROR(Check(clGetDeviceInfo(device, what, sizeof(value), &value, nullptr), "clGetDeviceInfo"));
    return value;
  }
  StatusOr<std::string> Text(DeviceId device, DeviceInfo what) const;
  // Of the sub-groups that a kernel can ask for and whose threads shuffle. Those of other devices are as large as the
  // driver likes, a kernel at a time: none.
  StatusOr<std::vector<size_t>> SubgroupSizes(DeviceId device) const;
};

// The size that functions are compiled for, of those that all devices offer, since a function runs on any of them. 16
// is first: measured as fast as 32 (PoCL 5) or twice as fast (Intel's driver for CPUs), smaller ones no faster than
// local memory. 1: there is none.
StatusOr<int64_t> CommonSubgroupSize(const Driver& driver);

// Opened once; FailedPrecondition "no OpenCL: ..." where there is no loader, no driver or no device.
StatusOr<const Driver*> GetDriver();

// What a call's work is enqueued on: the caller's queue, with its context, or the device's own where it gives none.
struct QueueOf {
  Queue queue = nullptr;
  Context context = nullptr;
  DeviceId device = nullptr;
  bool in_order = true;  // else what is enqueued waits for all before it
};
StatusOr<QueueOf> FindQueue(const Driver& driver, int device, void* stream);

}  // namespace cinn_like::opencl
