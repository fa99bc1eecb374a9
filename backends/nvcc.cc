#include "backends/nvcc.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "backends/child_process.h"
#include "backends/parallel_tasks.h"

namespace cinn_like::backends {

StatusOr<const Nvcc*> Nvcc::Open(std::string_view path) {
  static std::mutex mutex;
  static auto* opened = new std::map<std::string, const Nvcc*, std::less<>>;
  std::string file(path);
  const char* home = std::getenv("CUDA_HOME");
  if (path == "nvcc" && home != nullptr) {
    const std::string of_home = Cat(home, "/bin/nvcc");
    std::error_code ignored;
    if (std::filesystem::exists(of_home, ignored)) file = of_home;
  }
  const std::lock_guard lock(mutex);
  if (const auto it = opened->find(file); it != opened->end()) return it->second;
  const StatusOr<Ended> ended = RunProgram({file, "--version"});
  if (absl::IsNotFound(ended.status())) {
    return absl::NotFoundError(Cat("nvcc was not found: there is no '", file, "'",
                                   path != "nvcc"    ? ""
                                   : home == nullptr ? " in $PATH, and $CUDA_HOME is not set"
                                                     : Cat(" in $PATH or in ", home, "/bin")));
  }
  RETURN_IF_ERROR(ended.status());
  std::string version = ended->text;
  while (!version.empty() && version.back() == '\n') version.pop_back();
  version.erase(0, version.rfind('\n') + 1);
  if (ended->status != 0) return Internal("'", file, " --version' failed: ", ended->text);
  auto* r = new Nvcc;
  r->path_ = file;
  r->version_ = version;
  (*opened)[file] = r;
  return r;
}

StatusOr<NvrtcCode> Nvcc::CompileOne(const std::string& source, const NvrtcOptions& options) const {
  TemporaryFolder folder;
  RETURN_IF_ERROR(folder.Make());
  RETURN_IF_ERROR(folder.Write("kernels.cu", source));
  std::vector<std::string> command = {path_};
  for (std::string& flag : FlagsOf(options)) command.push_back(std::move(flag));
  if (options.form == CudaForm::kFatbin) {
    const std::string compute = absl::StrReplaceAll(options.arch, {{"sm_", "compute_"}});
    // What is compressed hides the names in it, one of which runtime/cuda_module.cc looks for.
    command.insert(command.end(),
                   {Cat("-gencode=arch=", compute, ",code=[", options.arch, ",", compute, "]"), "--no-compress"});
  } else {
    command.push_back(Cat("-arch=", options.arch));
  }
  command.insert(command.end(), {"-std=c++17", "-o", folder.File("kernels.out"), folder.File("kernels.cu")});
  ASSIGN_OR_RETURN(const Ended ended, RunProgram(command));
  if (ended.status != 0 && absl::StrContains(ended.text, "Unsupported gpu architecture"))
    return InvalidArgument("arch '", options.arch, "' is not known to ", path_, " (", version_, "): ", ended.text);
  if (ended.status != 0) return Internal(path_, " failed:\n", ended.text, "\nin this source:\n", source);
  NvrtcCode r;
  ASSIGN_OR_RETURN(r.code, folder.Read("kernels.out"));
  if (options.keep_log || options.tell_resources) r.log = ended.text;
  if (options.keep_ptx) {
    NvrtcOptions ptx = options;
    ptx.form = CudaForm::kPtx;
    ptx.keep_ptx = false;
    ASSIGN_OR_RETURN(NvrtcCode text, CompileOne(source, ptx));
    r.ptx = std::move(text.code);
  }
  return r;
}

StatusOr<std::vector<NvrtcCode>> Nvcc::Compile(const std::vector<std::string>& sources,
                                               const NvrtcOptions& options) const {
  std::vector<StatusOr<NvrtcCode>> results(sources.size());
  std::vector<std::function<void()>> tasks;
  for (size_t i = 0; i < sources.size(); ++i) tasks.push_back([&, i] { results[i] = CompileOne(sources[i], options); });
  RETURN_IF_ERROR(RunTasks(tasks, options.threads));
  std::vector<NvrtcCode> r;
  for (StatusOr<NvrtcCode>& x : results) {
    if (!x.ok()) return x.status();
    r.push_back(*std::move(x));
  }
  return r;
}

}  // namespace cinn_like::backends
