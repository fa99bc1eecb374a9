// nvcc of a CUDA toolkit, run as a process of its own without a shell, in place of NVRTC: another version, fat
// binaries, or what NVRTC does not take. It needs a C++ compiler of the system.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backends/nvrtc.h"

namespace cinn_like::backends {

class Nvcc {
 public:
  // `path`, or where it is "nvcc" $CUDA_HOME/bin/nvcc, else that of $PATH. NotFound says where it was looked for. The
  // same for every caller that asks the same.
  static StatusOr<const Nvcc*> Open(std::string_view path);

  const std::string& path() const { return path_; }
  const std::string& version() const { return version_; }  // the last line of nvcc --version

  // Every source, several at a time. A fat binary has machine code and, for archs to come, PTX. An error holds what
  // nvcc said.
  StatusOr<std::vector<NvrtcCode>> Compile(const std::vector<std::string>& sources, const NvrtcOptions& options) const;

 private:
  Nvcc() = default;
  StatusOr<NvrtcCode> CompileOne(const std::string& source, const NvrtcOptions& options) const;

  std::string path_, version_;
};

}  // namespace cinn_like::backends
