#include "runtime/openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <string_view>
#include <vector>

namespace cinn_like {
namespace {

std::atomic<bool> forked{false};

std::vector<std::string> LoadedRuntimes() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const std::string_view name = path.substr(path.rfind('/') + 1);
        for (const std::string_view known : {"libgomp", "libiomp5", "libomp"}) {
          if (name.starts_with(known)) {
            static_cast<std::vector<std::string>*>(found)->emplace_back(path);
            break;
          }
        }
        return 0;
      },
      &paths);
  return paths;
}

const OpenMp* Load() {
  for (const std::string& path : LoadedRuntimes()) {
    void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);  // never closed: it stays where it is
    if (library == nullptr) continue;
    OpenMp omp{path};
    omp.parallel = reinterpret_cast<decltype(omp.parallel)>(dlsym(library, "GOMP_parallel"));
    omp.in_parallel = reinterpret_cast<decltype(omp.in_parallel)>(dlsym(library, "omp_in_parallel"));
    omp.thread_num = reinterpret_cast<decltype(omp.thread_num)>(dlsym(library, "omp_get_thread_num"));
    if (omp.parallel == nullptr || omp.in_parallel == nullptr || omp.thread_num == nullptr) continue;
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
    return new OpenMp(std::move(omp));
  }
  return nullptr;
}

}  // namespace

const OpenMp* FindOpenMp() {
  static const OpenMp* const found = Load();
  return forked.load(std::memory_order_relaxed) ? nullptr : found;
}

}  // namespace cinn_like
