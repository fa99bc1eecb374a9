// What parallel loops run on where nobody has said.
#pragma once
#include <cstdint>

namespace cinn_like {

struct ThreadOptions {
  int64_t num_threads = 0;  // 0: as many as the process may use
  bool own_pool = false;    // even where the process has an OpenMP runtime
};

// --cinn_num_threads and --cinn_thread_pool; the runtime of exported libraries has no flags, and takes the defaults
// (runtime/library/thread_options.cc).
ThreadOptions DefaultThreadOptions();

}  // namespace cinn_like
