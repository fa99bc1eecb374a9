// One loaded CUBIN or PTX, and the launch of its kernels: on any device that the image fits.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"
#include "runtime/call.h"
#include "runtime/device_api.h"

namespace cinn_like {

class CudaModule : public DeviceModule {
 public:
  // The image is copied. An error of a PTX image carries the driver's log.
  static StatusOr<std::unique_ptr<CudaModule>> Load(std::string_view image);
  ~CudaModule() override;
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  struct KernelInfo;
  StatusOr<void*> Kernel(const std::string& name) override;  // a KernelInfo

 private:
  CudaModule(void* library, bool reports);
  void* library_;
  const bool reports_;  // accesses out of bounds (runtime/bounds_report.h)
  std::mutex mutex_;
  std::list<KernelInfo> kernels_;
};

// DeviceApi::MakeTensorMap (runtime/cuda_tensor_map.cc).
Status MakeCudaTensorMap(void* map, DType dtype, const TensorMapSpec& spec, const CinnCallEnv& env);
// A kernel that waits itself (runtime/waiting_kernels.h) starts while the one before it in the stream ends. Sets the
// limit of dynamic shared memory once per kernel and device where it is above 48 KB. A kernel that reports
// accesses out of bounds is waited for: OutOfRange where there was one.
Status LaunchCuda(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env);

}  // namespace cinn_like
