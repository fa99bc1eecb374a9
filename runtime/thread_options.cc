#include "runtime/thread_options.h"

#include "cinn_like/base/flags.h"

namespace cinn_like {

ThreadOptions DefaultThreadOptions() {
  const StatusOr<CompileOptions> options = CompileOptions::FromFlags();
  if (!options.ok()) return {};
  return {options->num_threads, options->thread_pool == "own"};
}

}  // namespace cinn_like
