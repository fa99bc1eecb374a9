// Runs compile jobs on threads of their own, which end with the call: nothing is left behind for a fork, and stacks are
// large enough for deep recursion. A job that can't go on (LLVM gave up, no memory) is an error of this call and of
// nothing else.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"

namespace cinn_like {

// Every task once, in order of the vector, on at most `threads` threads (0: as many as the process may use). An error
// says which task did not end; the others did.
Status RunTasks(const std::vector<std::function<void()>>& tasks, int64_t threads);

// The task that this thread runs ends here: RunTasks returns `why`. What calls it neither can go on nor return (LLVM's
// fatal errors, in code built without exceptions), so nothing is unwound: the thread waits forever, what it holds is
// lost, and it must hold no lock that others want. Outside of tasks this returns.
void AbandonTask(std::string_view why);

}  // namespace cinn_like
