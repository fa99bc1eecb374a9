// Compiled device kernels: images (CUBINs, or what the device takes; several kernels each) and where each kernel is
// found in them.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/device_api.h"

namespace cinn_like {

struct KernelImages {
  struct Kernel {
    std::string name;   // as the host code launches it; equal kernels of several names share code
    size_t image = 0;   // index of images
    std::string entry;  // its symbol there
  };
  std::vector<std::string> images;
  std::vector<Kernel> kernels;

  // Sections "kernels", "image.0", ...
  void AddTo(Artifact& artifact) const;
  static StatusOr<KernelImages> From(const Artifact& artifact);
  // An artifact of these alone: what lies in libraries, and what `cinn_compile --emit=kernels` writes.
  std::string Encode() const;
  static StatusOr<KernelImages> Decode(std::string_view bytes);
};

// Loaded images; they launch on any device that they were made for. Freed with this.
class LoadedKernels {
 public:
  // FailedPrecondition where there is an image and no driver.
  static StatusOr<std::unique_ptr<LoadedKernels>> Load(const KernelImages& images, const RuntimeDevice& device);
  // What <name>_kernel_ptr_ holds. NotFound names the kernel.
  StatusOr<void*> Kernel(std::string_view name) const;

 private:
  std::vector<std::unique_ptr<DeviceModule>> modules_;
  std::vector<std::pair<std::string, void*>> kernels_;
};

}  // namespace cinn_like
