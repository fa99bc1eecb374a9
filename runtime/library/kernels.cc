// Kernels without a library file (runtime/library.h).
#include "runtime/kernel_images.h"
#include "runtime/last_error.h"
#include "runtime/library/loaded_file.h"

struct CinnKernels {
  std::unique_ptr<cinn_like::LoadedKernels> loaded;
};

namespace cinn_like {
namespace {

StatusOr<CinnKernels> Load(const char* name, std::string_view bytes) {
  ASSIGN_OR_RETURN(const RuntimeDevice* device, FindDevice(name));
  ASSIGN_OR_RETURN(const KernelImages images, KernelImages::Decode(bytes));
  CinnKernels kernels;
  ASSIGN_OR_RETURN(kernels.loaded, LoadedKernels::Load(images, *device));
  return kernels;
}

}  // namespace
}  // namespace cinn_like

using cinn_like::InvalidArgument;
using cinn_like::SetLastError;

extern "C" {

int32_t CinnKernelsLoad(const char* device, const void* bytes, size_t size, CinnKernels** out) {
  if (out != nullptr) *out = nullptr;
  if (device == nullptr || bytes == nullptr || out == nullptr)
    return SetLastError(InvalidArgument("device, bytes and out must not be null"));
  auto kernels = cinn_like::Load(device, {static_cast<const char*>(bytes), size});
  if (!kernels.ok()) return SetLastError(cinn_like::Annotate(kernels.status(), cinn_like::Cat("kernels for ", device)));
  *out = new CinnKernels(*std::move(kernels));
  return 0;
}

void* CinnKernelsFind(const CinnKernels* kernels, const char* kernel) {
  if (kernels == nullptr || kernel == nullptr) {
    SetLastError(InvalidArgument("kernels and the name of one must not be null"));
    return nullptr;
  }
  const auto found = kernels->loaded->Kernel(kernel);
  if (found.ok()) return *found;
  SetLastError(found.status());
  return nullptr;
}

void CinnKernelsRelease(CinnKernels* kernels) { delete kernels; }

}  // extern "C"
