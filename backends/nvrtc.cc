#include "backends/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "absl/strings/match.h"

namespace cinn_like::backends {

using Program = void*;
constexpr int kInvalidOption = 5;  // NVRTC_ERROR_INVALID_OPTION

struct Nvrtc::Api {
  int (*version)(int*, int*);
  int (*num_archs)(int*);
  int (*archs)(int*);
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char* const*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  const char* (*error_string)(int);
};

namespace {

constexpr size_t kStackBytes = size_t{8} << 20;

std::vector<std::string> Glob(const std::string& pattern) {
  glob_t g;
  std::vector<std::string> r;
  if (glob(pattern.c_str(), 0, nullptr, &g) == 0) r.assign(g.gl_pathv, g.gl_pathv + g.gl_pathc);
  globfree(&g);
  return r;
}

// The folders that hold packages ("site-packages") of which a library is loaded: PyTorch's, NVIDIA's, our own.
std::vector<std::string> PackageFolders() {
  std::vector<std::string> r;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        for (std::string_view part : {"/torch/lib/", "/nvidia/", "/cinn_like/libcinn_like.so"}) {
          const size_t at = path.find(part);
          if (at != path.npos) static_cast<std::vector<std::string>*>(data)->emplace_back(path.substr(0, at));
        }
        return 0;
      },
      &r);
  if (const char* venv = getenv("VIRTUAL_ENV")) {
    for (std::string& s : Glob(Cat(venv, "/lib/python3*/site-packages"))) r.push_back(std::move(s));
  }
  return r;
}

// Paths and names to try, best first.
std::vector<std::string> Candidates(int driver) {
  std::vector<std::string> majors;
  for (int major : {13, 12}) {
    if (driver == 0 || major * 1000 <= driver) majors.push_back(Cat(major));
  }
  std::vector<std::string> r;
  for (const std::string& m : majors) {
    const std::string name = Cat("libnvrtc.so.", m);
    if (void* h = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
      dlclose(h);
      r.push_back(name);
    }
  }
  for (const std::string& folder : PackageFolders()) {
    for (const std::string& m : majors) {
      for (const std::string& sub : {Cat("cu", m), std::string("cuda_nvrtc")}) {
        for (std::string& s : Glob(Cat(folder, "/nvidia/", sub, "/lib/libnvrtc.so.", m))) r.push_back(std::move(s));
      }
    }
  }
  for (const std::string& m : majors) {
    for (const char* where : {"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/local/cuda-*/targets/*/lib"}) {
      std::vector<std::string> found = Glob(Cat(where, "/libnvrtc.so.", m));
      r.insert(r.end(), found.rbegin(), found.rend());
    }
  }
  for (const std::string& m : majors) r.push_back(Cat("libnvrtc.so.", m));
  return r;
}

int ThreadsOfProcess() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// Runs fn(0) .. fn(n - 1) on threads with deep stacks that take no signals: those are the host's.
Status RunOnDeepStacks(size_t n, size_t threads, const std::function<void(size_t)>& fn) {
  struct Work {
    std::atomic<size_t> next{0};
    size_t n;
    const std::function<void(size_t)>* fn;
  } work{.n = n, .fn = &fn};
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, kStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::vector<pthread_t> ids;
  for (size_t i = 0; i < std::min(n, threads); ++i) {
    pthread_t id;
    auto body = [](void* p) -> void* {
      Work& w = *static_cast<Work*>(p);
      for (size_t k; (k = w.next++) < w.n;) (*w.fn)(k);
      return nullptr;
    };
    if (pthread_create(&id, &attr, body, &work) != 0) break;
    ids.push_back(id);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attr);
  for (pthread_t id : ids) pthread_join(id, nullptr);
  if (n > 0 && ids.empty()) return absl::ResourceExhaustedError("NVRTC: no thread could be started");
  return absl::OkStatus();
}

}  // namespace

StatusOr<const Nvrtc*> Nvrtc::OpenAt(const std::string& path) {
  // NVRTC looks for its builtins by name alone, so off the loader's path they must be there before it asks.
  const size_t slash = path.rfind('/');
  if (slash != path.npos) {
    const std::string suffix = path.substr(path.find(".so") == path.npos ? path.size() : path.find(".so"));
    for (const std::string& s : Glob(Cat(path.substr(0, slash), "/libnvrtc-builtins", suffix, "*"))) {
      dlopen(s.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::NotFoundError(Cat(path, ": ", dlerror()));
  auto* api = new Api;
  const char* missing = nullptr;
  auto take = [&](auto& fn, const char* name) {
    fn = reinterpret_cast<std::decay_t<decltype(fn)>>(dlsym(handle, name));
    if (fn == nullptr) missing = name;
  };
  take(api->version, "nvrtcVersion");
  take(api->num_archs, "nvrtcGetNumSupportedArchs");
  take(api->archs, "nvrtcGetSupportedArchs");
  take(api->create, "nvrtcCreateProgram");
  take(api->destroy, "nvrtcDestroyProgram");
  take(api->compile, "nvrtcCompileProgram");
  take(api->cubin_size, "nvrtcGetCUBINSize");
  take(api->cubin, "nvrtcGetCUBIN");
  take(api->ptx_size, "nvrtcGetPTXSize");
  take(api->ptx, "nvrtcGetPTX");
  take(api->log_size, "nvrtcGetProgramLogSize");
  take(api->log, "nvrtcGetProgramLog");
  take(api->error_string, "nvrtcGetErrorString");
  int major = 0, minor = 0;
  if (missing != nullptr || api->version(&major, &minor) != 0) {
    delete api;
    return absl::NotFoundError(Cat(path, ": ", missing == nullptr ? "no version" : Cat("no ", missing)));
  }
  auto* r = new Nvrtc;
  r->path_ = path;
  r->version_ = major * 1000 + minor * 10;
  r->api_ = api;
  return r;
}

StatusOr<const Nvrtc*> Nvrtc::Open(std::string_view path, int driver) {
  static std::mutex mutex;
  static auto* opened = new std::map<std::pair<std::string, int>, const Nvrtc*>();
  std::lock_guard lock(mutex);
  const auto key = std::make_pair(std::string(path), driver);
  if (auto it = opened->find(key); it != opened->end()) return it->second;
  std::string tried;
  const std::vector<std::string> candidates = path.empty() ? Candidates(driver) : std::vector<std::string>{key.first};
  for (const std::string& c : candidates) {
    StatusOr<const Nvrtc*> r = OpenAt(c);
    if (r.ok()) return (*opened)[key] = *r;
    tried += Cat("\n  ", Message(r.status()));
  }
  return absl::NotFoundError(
      Cat("NVRTC was not found; install the package nvidia-cuda-nvrtc or name the library by the flag "
          "cinn_nvrtc. Tried:",
          tried));
}

std::string Nvrtc::SupportedArchs() const {
  int n = 0;
  if (api_->num_archs(&n) != 0) return "";
  std::vector<int> v(static_cast<size_t>(n));
  if (api_->archs(v.data()) != 0) return "";
  std::string r;
  for (int a : v) r += Cat(r.empty() ? "" : ", ", "sm_", a);
  return r;
}

namespace {
constexpr char kTellResources[] = "--ptxas-options=-v";

std::array<const char*, 3> NumericFlags(bool exact) {
  return {exact ? "--fmad=false" : "--fmad=true", exact ? "--prec-div=true" : "--prec-div=false",
          exact ? "--prec-sqrt=true" : "--prec-sqrt=false"};
}
}  // namespace

std::vector<std::string> FlagsOf(const NvrtcOptions& options) {
  std::vector<std::string> r = {options.form == CudaForm::kPtx      ? "-ptx"
                                : options.form == CudaForm::kFatbin ? "-fatbin"
                                                                    : "-cubin"};
  for (const char* flag : NumericFlags(options.exact)) r.emplace_back(flag);
  if (options.tell_resources) r.emplace_back(kTellResources);
  return r;
}

StatusOr<NvrtcCode> Nvrtc::CompileOne(const std::string& source, const NvrtcOptions& options) const {
  if (options.form == CudaForm::kFatbin) return InvalidArgument("NVRTC makes no fat binaries; nvcc does");
  auto error = [&](int code) { return std::string(api_->error_string(code)); };
  Program program = nullptr;
  if (int rc = api_->create(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr); rc != 0) {
    return Internal("NVRTC ", path_, ": ", error(rc));
  }
  struct Destroyer {
    const Api* api;
    Program* p;
    ~Destroyer() { api->destroy(p); }
  } destroyer{api_, &program};
  const std::string arch = Cat("--gpu-architecture=", options.arch);
  // The last three save time only; an NVRTC that doesn't know them goes without.
  std::vector<const char*> flags = {arch.c_str()};
  for (const char* flag : NumericFlags(options.exact)) flags.push_back(flag);
  if (options.tell_resources) flags.push_back(kTellResources);
  const int needed = static_cast<int>(flags.size());
  for (const char* flag : {"--minimal", "-modify-stack-limit=false", "--no-cache"}) flags.push_back(flag);
  auto read_log = [&] {
    size_t size = 0;
    if (api_->log_size(program, &size) != 0 || size <= 1) return std::string();
    std::string log(size, '\0');
    if (api_->log(program, log.data()) != 0) return std::string();
    log.resize(size - 1);
    return log;
  };
  int rc = api_->compile(program, static_cast<int>(flags.size()), flags.data());
  std::string log = rc == 0 && !options.keep_log && !options.tell_resources ? "" : read_log();
  const bool bad_arch = rc == kInvalidOption && absl::StrContains(log, "gpu-architecture");
  if (rc == kInvalidOption && !bad_arch) {
    rc = api_->compile(program, needed, flags.data());
    log = read_log();
  }
  if (bad_arch) {
    return InvalidArgument("arch '", options.arch, "' is not known to NVRTC ", version_ / 1000, ".",
                           version_ % 1000 / 10, "; it knows ", SupportedArchs());
  }
  if (rc != 0) return Internal("NVRTC: ", error(rc), "\n", log, "\nin this source:\n", source);
  auto read_ptx = [&](std::string& text) {
    size_t size = 0;
    if (int bad = api_->ptx_size(program, &size); bad != 0) return bad;
    text.resize(size);
    const int bad = api_->ptx(program, text.data());
    if (!text.empty() && text.back() == '\0') text.pop_back();
    return bad;
  };
  auto read_cubin = [&](std::string& image) {
    size_t size = 0;
    if (int bad = api_->cubin_size(program, &size); bad != 0) return bad;
    image.resize(size);
    return api_->cubin(program, image.data());
  };
  NvrtcCode r;
  rc = options.form == CudaForm::kPtx ? read_ptx(r.code) : read_cubin(r.code);
  if (rc == 0 && options.keep_ptx) rc = read_ptx(r.ptx);
  if (rc != 0) return Internal("NVRTC: no code: ", error(rc));
  r.log = std::move(log);
  return r;
}

StatusOr<std::vector<NvrtcCode>> Nvrtc::Compile(const std::vector<std::string>& sources,
                                                const NvrtcOptions& options) const {
  const size_t threads = static_cast<size_t>(options.threads > 0 ? options.threads : ThreadsOfProcess());
  std::vector<std::optional<StatusOr<NvrtcCode>>> results(sources.size());
  RETURN_IF_ERROR(
      RunOnDeepStacks(sources.size(), threads, [&](size_t i) { results[i] = CompileOne(sources[i], options); }));
  std::vector<NvrtcCode> r;
  for (auto& x : results) {
    if (!x->ok()) return x->status();
    r.push_back(**std::move(x));
  }
  return r;
}

}  // namespace cinn_like::backends
