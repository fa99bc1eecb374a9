// One loaded CUBIN or PTX, and the launch of its kernels. A kernel is a CUkernel: one handle
// that launches in any context, so on any device that the image fits.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

  StatusOr<void*> Kernel(const std::string& name) override;  // a CUkernel

 private:
  CudaModule(void* library, bool reports) : library_(library), reports_(reports) {}
  void* library_;
  const bool reports_;  // accesses out of bounds (runtime/bounds_report.h)
  std::vector<void*> kernels_;
};

// DeviceApi::MakeTensorMap (runtime/cuda_tensor_map.cc).
Status MakeCudaTensorMap(void* map, DType dtype, const TensorMapSpec& spec, const CinnCallEnv& env);
// Sets the limit of dynamic shared memory once per kernel and device where it is above 48 KB. A kernel that reports
// accesses out of bounds is waited for: OutOfRange where there was one.
Status LaunchCuda(void* kernel, const LaunchShape& shape, void** params, const CinnCallEnv& env);

}  // namespace cinn_like
