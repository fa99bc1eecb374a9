// What kernels take of a GPU's core, read from what ptxas says of them (--ptxas-options=-v; NVRTC and nvcc log it):
//
//   kernel             threads    registers  spilled  stack  static shared  dynamic shared
//   matmul_k0_kernel   4 x 8 x 2         40        0      0          15360               0
//
// Registers, bytes spilled (stored and loaded again) and of stack are a thread's; shared memory is a block's, in bytes,
// the dynamic part of which host code asks for at the launch. Needs no GPU.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/stmt.h"

namespace cinn_like::backends {

struct KernelResources {
  std::string entry;  // its name in the source
  int64_t registers = 0, spilled_bytes = 0, stack_bytes = 0, static_shared_bytes = 0;
};

// Of each entry, in the log's order.
StatusOr<std::vector<KernelResources>> ParseKernelResources(std::string_view log);

// `kernels`: names in the module and in the source. Threads and dynamic memory are what the module's launches say.
// NotFound names one that the log doesn't have.
StatusOr<std::string> DescribeKernelResources(const ir::Module& module,
                                              const std::vector<std::pair<std::string, std::string>>& kernels,
                                              std::string_view log);

}  // namespace cinn_like::backends
