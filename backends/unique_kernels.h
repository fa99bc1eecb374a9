// The kernels of a module, equal ones (but for names) once.
//
//   @a_kernel, @b_kernel (equal), @c_kernel  ->  kf31a {a_kernel, b_kernel}, k90c2 {c_kernel}
//
// An entry is named by the hash of its text, so any program may hold it. The text decides: two of one hash are two
// kernels, of two names. Called by the compilers of devices.
#pragma once
#include <string>
#include <vector>

#include "backends/dialects.h"

namespace cinn_like::backends {

struct UniqueKernel {
  std::string form;  // with a placeholder as its name
  std::string text;
  std::string entry;
  std::vector<std::string> names;
  const ir::Func* func = nullptr;  // the first of them, in the module
};

StatusOr<std::vector<UniqueKernel>> FindUniqueKernels(const ir::Module& module, const Dialect& dialect);

// The same of a caller's `source`, or of what became of generated text: each under the name that it has there, that of
// generated text or its own. InvalidArgument names one that is missing.
struct KernelInSource {
  std::string name, entry;
  const ir::Func* func = nullptr;
};
StatusOr<std::vector<KernelInSource>> FindKernelsIn(std::string_view source, const ir::Module& module,
                                                    const Dialect& dialect);

// The source text with the names of equal kernels above each.
std::string JoinForPeople(const Dialect& dialect, const std::vector<UniqueKernel>& kernels);

}  // namespace cinn_like::backends
