// Kernels of a module -> CUDA C++ -> machine code for one arch. Equal kernels (but for names) compile once; the others are
// spread over a few programs that compile in parallel. No GPU is needed.
//
//   @a_kernel, @b_kernel (equal), @c_kernel  ->  images {a and c}, a -> 0/k3f..., b -> 0/k3f..., c -> 0/k81...
#pragma once
#include <string>
#include <string_view>

#include "backends/cache.h"
#include "cinn_like/base/flags.h"
#include "cinn_like/base/target.h"
#include "ir/stmt.h"
#include "runtime/kernel_images.h"

namespace cinn_like {

struct CudaBuild {
  KernelImages images;
  std::string log;  // of NVRTC, if it is kept
  int unique = 0;   // different kernels
  int cached = 0;   // of these, how many came from the cache
};

// The text of the module's kernels, for people: each once, under a comment that names those who use it.
StatusOr<std::string> EmitCudaSource(const ir::Module& module);

// `cache` may be null.
StatusOr<CudaBuild> CompileCudaKernels(const ir::Module& module, const Target& target, const CompileOptions& options,
                                       DiskCache* cache);
// The same with the caller's text, which must define each kernel as extern "C" under its name.
StatusOr<CudaBuild> CompileCudaSource(const ir::Module& module, std::string_view source, const Target& target,
                                      const CompileOptions& options);

}  // namespace cinn_like
