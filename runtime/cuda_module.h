// One loaded CUBIN or PTX, and the launch of its kernels from generated host code. A kernel is a CUkernel: one handle
// that launches in any context, so on any device that the image fits.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"
#include "runtime/call.h"

namespace cinn_like {

class CudaModule {
 public:
  // The image is copied. An error of a PTX image carries the driver's log.
  static StatusOr<std::unique_ptr<CudaModule>> Load(std::string_view image);
  // No kernel of it may be running or be launched later.
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  // The CUkernel for cinn_cuda_launch, valid as long as this; NotFound names it.
  StatusOr<void*> Kernel(const std::string& name);

 private:
  explicit CudaModule(void* library) : library_(library) {}
  void* library_;
  std::vector<void*> kernels_;
};

}  // namespace cinn_like

// Launches on env->device and env->stream. `params` points to each argument. A grid without blocks is no launch. Sets
// the limit of dynamic shared memory once per kernel and device where it is above 48 KB. Errors name the kernel.
extern "C" int32_t cinn_cuda_launch(void* kernel, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by,
                                    int64_t bz, int64_t shared_bytes, void** params, const CinnCallEnv* env);
