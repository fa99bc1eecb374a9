// NVRTC, opened when first needed: CUDA C++ text -> machine code (CUBIN) for one arch, or PTX. Nothing links to it and
// no GPU is needed.
//
// Searched in this order: `path` if given; a copy that the process has loaded; the CUDA wheels beside a loaded PyTorch
// or in $VIRTUAL_ENV; /usr/local/cuda*; the loader's path.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"

namespace cinn_like::backends {

enum class CudaForm { kCubin, kPtx, kFatbin };

// Of any compiler of CUDA C++.
struct NvrtcOptions {
  std::string arch;  // "sm_90a"
  CudaForm form = CudaForm::kCubin;
  bool exact = false;     // every operation rounded by itself; else a * b + c may fuse, and / and sqrt err by 2 ULP
  bool keep_log = false;  // also of a success
  bool keep_ptx = false;  // also beside a CUBIN
  bool tell_resources = false;  // the log says what kernels take (backends/kernel_resources.h)
  int64_t threads = 0;          // programs compiled at a time; 0: as many as the process may use
};

struct NvrtcCode {
  std::string code;  // a CUBIN, PTX text or a fat binary
  std::string log;
  std::string ptx;  // with keep_ptx
};

// What else than source and arch decides on code, as nvcc takes it: "-cubin", "--fmad=true", ...
std::vector<std::string> FlagsOf(const NvrtcOptions& options);

class Nvrtc {
 public:
  // `path` may be empty. NotFound says where it was looked for. A driver of version `driver` (13000 is CUDA 13.0) can't
  // load the CUBINs of a newer major version, which is then not considered; 0: any. The same library for every caller
  // that asks the same; it stays open.
  static StatusOr<const Nvrtc*> Open(std::string_view path, int driver = 0);

  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 13000 is 13.0
  // What it compiles for, "sm_75, sm_80, ...". An arch of the list may have a suffix ("sm_90a").
  std::string SupportedArchs() const;

  // Compiles every program, several at a time, on threads with stacks as deep as NVRTC needs. An error holds the log
  // and, for an unknown arch, the list of those known. The code depends on source and options alone.
  StatusOr<std::vector<NvrtcCode>> Compile(const std::vector<std::string>& sources, const NvrtcOptions& options) const;

 private:
  struct Api;
  Nvrtc() = default;
  static StatusOr<const Nvrtc*> OpenAt(const std::string& path);
  StatusOr<NvrtcCode> CompileOne(const std::string& source, const NvrtcOptions& options) const;

  std::string path_;
  int version_ = 0;
  const Api* api_ = nullptr;
};

}  // namespace cinn_like::backends
