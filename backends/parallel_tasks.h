// Runs compile jobs on threads of their own, which end with the call: nothing is left behind for a fork, and stacks are
// large enough for deep recursion.
#pragma once
#include <functional>
#include <vector>

namespace cinn_like {

// Every task once, in order of the vector, on at most `threads` threads (0: as many as the process may use).
void RunTasks(const std::vector<std::function<void()>>& tasks, int64_t threads);

}  // namespace cinn_like
