// What a caller puts between the source text of kernels and their code, on any device whose kernels are text:
//
//   generated text, or `source`  ->  `rewrite`  ->  the device's compiler, or `compile`  ->  code
//
// It is part of a device (backends/device.h), so all that is compiled with these Devices goes through it. Text is that
// of all kernels of a module, as Source("cuda") gives it; of C (--target=c) that of all functions but entries, without
// header and helpers. Kernels are under the names that the text gives them, or under their own (@add's first is
// add_k0_kernel, in C add_k0), with the parameters that generated ones have: how they are launched stays as it is.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"
#include "ir/stmt.h"

namespace cinn_like {

struct CompileRequest {
  std::string_view source, arch;     // "sm_90a"
  std::vector<std::string> options;  // as nvcc takes them; the first says what is asked for: -cubin, -ptx or -fatbin
};

struct SourceHooks {
  std::string source;  // empty: the generated one
  std::function<StatusOr<std::string>(std::string_view language, std::string_view source)> rewrite;
  // Of CUDA C++ alone, in place of NVRTC: gives a cubin, a fatbin or PTX. What it gives is in no cache.
  std::function<StatusOr<std::string>(const CompileRequest&)> compile;

  explicit operator bool() const { return !source.empty() || rewrite || compile; }
};

// The text to compile instead of `generate()`. Errors are those of the caller's functions, with what they were to do.
StatusOr<std::string> ReplaceSource(const SourceHooks& hooks, std::string_view language,
                                    const std::function<StatusOr<std::string>()>& generate);

// Whether `source` has a function of that name: the name before a parenthesis.
bool HasFunction(std::string_view source, std::string_view name);
// What a source lacks. InvalidArgument.
Status NoFunction(std::string_view name);

}  // namespace cinn_like
