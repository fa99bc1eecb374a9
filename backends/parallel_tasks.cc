#include "backends/parallel_tasks.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>

#include "runtime/parallel_for.h"

namespace cinn_like {
namespace {

constexpr size_t kStackBytes = size_t{64} << 20;  // address space, not memory

enum class WorkerState { kRunning, kEnded, kAbandoned };

struct Batch;
struct Worker {
  std::shared_ptr<Batch> batch;  // kept by an abandoned worker for good
  pthread_t thread = {};
  WorkerState state = WorkerState::kRunning;
};

struct Batch {
  explicit Batch(const std::vector<std::function<void()>>& t) : tasks(t) {}

  const std::vector<std::function<void()>>& tasks;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  size_t next = 0, running = 0;
  Status status;
  std::deque<std::shared_ptr<Worker>> workers;

  void Run() {
    for (;;) {
      size_t i = 0;
      {
        const std::lock_guard lock(mutex);
        if (next == tasks.size()) return;
        i = next++;
      }
      // Only what allocates can throw: sizes that no memory holds.
      try {
        tasks[i]();
      } catch (const std::exception& e) {
        const std::lock_guard lock(mutex);
        status.Update(absl::ResourceExhaustedError(Cat("compiling needs more than there is: ", e.what())));
      }
    }
  }

  void Leave(Worker& worker, WorkerState state) {
    const std::lock_guard lock(mutex);
    worker.state = state;
    --running;
    changed.notify_all();
  }
};

thread_local Worker* this_worker = nullptr;

// The thread of an abandoned worker still stands on it.
void KeepForever(std::shared_ptr<Worker> worker) {
  static std::mutex mutex;
  static auto* abandoned = new std::vector<std::shared_ptr<Worker>>;
  const std::lock_guard lock(mutex);
  abandoned->push_back(std::move(worker));
}

void* RunWorker(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  this_worker = worker;
  worker->batch->Run();
  worker->batch->Leave(*worker, WorkerState::kEnded);
  return nullptr;
}

bool StartWorker(const std::shared_ptr<Batch>& batch) {
  auto worker = std::make_shared<Worker>();
  worker->batch = batch;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const bool started = pthread_create(&worker->thread, &attributes, RunWorker, worker.get()) == 0;
  pthread_attr_destroy(&attributes);
  if (!started) return false;
  ++batch->running;
  batch->workers.push_back(std::move(worker));
  return true;
}

}  // namespace

Status RunTasks(const std::vector<std::function<void()>>& tasks, int64_t threads) {
  if (threads <= 0) threads = NumThreads();
  const auto batch = std::make_shared<Batch>(tasks);
  std::unique_lock lock(batch->mutex);
  for (;;) {
    // Another takes the place of an abandoned one.
    const size_t wanted = std::min(tasks.size() - batch->next + batch->running, static_cast<size_t>(threads));
    bool started = true;
    while (started && batch->running < wanted) started = StartWorker(batch);
    if (batch->running > 0) {
      batch->changed.wait(lock);
    } else if (batch->next < tasks.size()) {
      lock.unlock();
      batch->Run();  // no thread could be had
      lock.lock();
    } else {
      break;
    }
  }
  lock.unlock();
  for (const auto& worker : batch->workers) {
    if (worker->state == WorkerState::kEnded) {
      pthread_join(worker->thread, nullptr);
      worker->batch = nullptr;
    } else {
      pthread_detach(worker->thread);
      KeepForever(worker);
    }
  }
  batch->workers.clear();
  return batch->status;
}

void AbandonTask(std::string_view why) {
  Worker* worker = this_worker;
  if (worker == nullptr) return;
  {
    const std::lock_guard lock(worker->batch->mutex);
    worker->batch->status.Update(Internal(why));
  }
  worker->batch->Leave(*worker, WorkerState::kAbandoned);
  for (;;) pause();
}

}  // namespace cinn_like
