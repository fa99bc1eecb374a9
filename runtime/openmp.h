// The OpenMP runtime that the host process has loaded, if it has: PyTorch computes on one, and two pools of threads
// take each other's cores.
#pragma once
#include <string>

namespace cinn_like {

struct OpenMp {
  std::string path;  // of the library
  // Runs fn(data) on a team of `threads`, the caller among them, and returns when all have.
  void (*parallel)(void (*fn)(void* data), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*in_parallel)() = nullptr;
  int (*thread_num)() = nullptr;
};

// Looked for once: libgomp, or LLVM's and Intel's with libgomp's interface. Null: none is loaded, or the process is a
// child of one that had it (its threads did not survive the fork).
const OpenMp* FindOpenMp();

}  // namespace cinn_like
