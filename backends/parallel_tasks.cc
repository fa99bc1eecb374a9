#include "backends/parallel_tasks.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "runtime/parallel_for.h"

namespace cinn_like {
namespace {

constexpr size_t kStackBytes = size_t{64} << 20;  // address space, not memory

struct Queue {
  const std::vector<std::function<void()>>& tasks;
  std::atomic<size_t> next{0};

  void Run() {
    for (size_t i = next++; i < tasks.size(); i = next++) tasks[i]();
  }
};

}  // namespace

void RunTasks(const std::vector<std::function<void()>>& tasks, int64_t threads) {
  if (threads <= 0) threads = NumThreads();
  Queue queue{tasks};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  std::vector<pthread_t> workers;
  for (size_t i = 0; i < std::min(tasks.size(), static_cast<size_t>(threads)); ++i) {
    pthread_t worker;
    auto run = [](void* q) -> void* { return static_cast<Queue*>(q)->Run(), nullptr; };
    if (pthread_create(&worker, &attributes, run, &queue) == 0) workers.push_back(worker);
  }
  pthread_attr_destroy(&attributes);
  // Also where no thread could be had.
  if (workers.empty()) queue.Run();
  for (pthread_t worker : workers) pthread_join(worker, nullptr);
}

}  // namespace cinn_like
