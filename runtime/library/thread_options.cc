#include "runtime/thread_options.h"

namespace cinn_like {

ThreadOptions DefaultThreadOptions() { return {}; }

}  // namespace cinn_like
