// A program of OpenCL C, and the launch of its kernels. The image is its source, which each device's driver compiles
// for it, when a kernel is first launched in a context; behind each kernel's name stands what its arguments are:
//
//   // kernel kf31a pp8r        two pointers, each followed by its offset in bytes (a long); 8 bytes; a RangeReport
//   // exact                    f32 division and square root are rounded correctly
//   __kernel void kf31a(...) ...
//
// Threads of a block that a kernel requires in one row (reqd_work_group_size) are launched so, whatever the launch says
// of their axes. A program with intel_reqd_sub_group_size is FailedPrecondition on devices that don't offer such a
// size. A launch of a kernel with a report waits for it, and is OutOfRange where the kernel found an index to be that.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"
#include "runtime/call.h"
#include "runtime/device_api.h"

namespace cinn_like::opencl {

// Left by the first thread that finds a value outside of lo..end; its twin in device code is the helper cinn_report.
struct RangeReport {
  int32_t taken = 0, unused = 0;
  int64_t value = 0, lo = 0, end = 0;
  char text[256] = {};  // ends with a NUL
};

class Module : public DeviceModule {
 public:
  // InvalidArgument carries the log of the driver of opencl:0, which compiles it now.
  static StatusOr<std::unique_ptr<Module>> Load(std::string_view image);
  ~Module() override;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  StatusOr<void*> Kernel(const std::string& name) override;

  struct Impl;  // of the .cc

 private:
  explicit Module(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

Status LaunchKernel(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env);

}  // namespace cinn_like::opencl
