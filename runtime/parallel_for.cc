#include "runtime/parallel_for.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "cinn_like/base/host_cpu.h"
#include "runtime/openmp.h"
#include "runtime/thread_options.h"
#include "runtime/timeline.h"

namespace cinn_like {
namespace {

using Body = void (*)(int64_t, int64_t, void*);

constexpr int kMaxThreads = 256;
constexpr int kPiecesPerPart = 4;  // so that a thread that falls behind can be helped
constexpr auto kSpinTime = std::chrono::microseconds(50);

// One thread's share of the loop. Its own cache line: only helpers contend.
struct alignas(64) Part {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

// The loop in flight, written while no worker can be in it.
struct Loop {
  Body body = nullptr;
  void* ctx = nullptr;
  int64_t piece = 1;
  int parts = 0;
  Part* part = nullptr;
};

thread_local bool inside_loop = false;

// [begin, end) in as many parts, which lie in `part`.
Loop Share(int64_t begin, int64_t end, int64_t grain, int parts, Body body, void* ctx, Part* part) {
  const auto count = static_cast<uint64_t>(end) - static_cast<uint64_t>(begin);
  const auto per_part = static_cast<int64_t>(count / parts);
  const auto rest = static_cast<int64_t>(count % parts);
  int64_t at = begin;
  for (int p = 0; p < parts; ++p) {
    part[p].next.store(at, std::memory_order_relaxed);
    at += per_part + (p < rest ? 1 : 0);
    part[p].end = at;
  }
  return {body, ctx, std::max(grain, (per_part + kPiecesPerPart - 1) / kPiecesPerPart), parts, part};
}

// Own part first, then everybody's.
void RunParts(const Loop loop, int self) {
  inside_loop = true;
  for (int i = 0; i < loop.parts; ++i) {
    Part& part = loop.part[(self + i) % loop.parts];
    for (;;) {
      int64_t begin = part.next.load(std::memory_order_relaxed);
      int64_t end;
      do {
        if (begin >= part.end) break;
        end = part.end - begin > loop.piece ? begin + loop.piece : part.end;
      } while (!part.next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
      if (begin >= part.end) break;
      const TimelineSpan span("parallel piece");
      loop.body(begin, end, loop.ctx);
    }
  }
  inside_loop = false;
}

class Pool {
 public:
  // Runs the loop on `threads` threads; false if another thread has one in flight.
  bool TryRun(int64_t begin, int64_t end, int64_t grain, int threads, Body body, void* ctx) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    loop_ = Share(begin, end, grain, threads, body, ctx, parts_);
    Grow(threads - 1);
    // Sequentially consistent together with Work's sleepers_ and active_: a worker either sees the loop or is woken.
    open_.store(true);
    generation_.fetch_add(1);
    if (sleepers_.load() > 0) Wake();
    RunParts(loop_, 0);
    open_.store(false);
    for (int spins = 0; active_.load() != 0; ++spins) {
      if (spins < 4096) {
        PauseCpu();
      } else {
        sched_yield();  // the worker we wait for may need this very core
      }
    }
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  void Work(int index) {
    uint64_t seen = 0;
    for (;;) {
      seen = WaitForLoop(seen);
      // After active_ is raised the launcher can't leave a loop that is open; a loop that has closed is not touched.
      active_.fetch_add(1);
      if (open_.load() && index < loop_.parts) RunParts(loop_, index);
      active_.fetch_sub(1);
    }
  }

  // Returns a generation other than `seen`: spins, then sleeps.
  uint64_t WaitForLoop(uint64_t seen) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 32; ++i) {
        if (const uint64_t now = generation_.load(std::memory_order_acquire); now != seen) return now;
        PauseCpu();
      }
    } while (std::chrono::steady_clock::now() < deadline);
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [&] { return generation_.load() != seen; });
    sleepers_.fetch_sub(1);
    return generation_.load();
  }

  void Wake() {
    {
      const std::lock_guard lock(mutex_);
    }  // a worker between its check and its sleep has the lock
    wake_.notify_all();
  }

  // Workers never take signals: those are for the host's own threads.
  void Grow(int workers) {
    if (workers <= workers_) return;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (; workers_ < workers; ++workers_) {
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
      auto* start = new Start{this, workers_ + 1};
      pthread_t thread;
      const int error = pthread_create(&thread, &attributes, &Pool::Main, start);
      pthread_attr_destroy(&attributes);
      if (error != 0) {  // fewer threads: the loop is still complete, since parts are shared
        delete start;
        break;
      }
      pthread_setname_np(thread, "cinn-worker");
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }

  struct Start {
    Pool* pool;
    int index;
  };
  static void* Main(void* argument) {
    const Start start = *static_cast<Start*>(argument);
    delete static_cast<Start*>(argument);
    start.pool->Work(start.index);
    return nullptr;
  }

  Loop loop_;
  Part parts_[kMaxThreads];
  alignas(64) std::atomic<uint64_t> generation_{0};
  std::atomic<bool> open_{false};
  alignas(64) std::atomic<int> active_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> busy_{false};
  int workers_ = 0;  // under busy_
  std::mutex mutex_;
  std::condition_variable wake_;
};

std::atomic<Pool*> pool{nullptr};  // never freed: workers live as long as the process
std::mutex pool_mutex;
std::atomic<int> num_threads{0};  // 0: not yet known

int UsableCpus() {
  cpu_set_t set;
  const int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                                : static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cpus, 1, kMaxThreads);
}

Pool* GetPool() {
  if (Pool* p = pool.load(std::memory_order_acquire)) return p;
  const std::lock_guard lock(pool_mutex);
  if (Pool* p = pool.load(std::memory_order_relaxed)) return p;
  [[maybe_unused]] static const int registered =
      pthread_atfork([] { pool_mutex.lock(); }, [] { pool_mutex.unlock(); },
                     [] {  // the child has no workers: it leaves the parent's pool alone and starts its own
                       pool.store(nullptr, std::memory_order_relaxed);
                       inside_loop = false;
                       pool_mutex.unlock();
                     });
  Pool* created = new Pool;
  pool.store(created, std::memory_order_release);
  return created;
}

// On a team of the host's OpenMP runtime. All of `threads` are asked for, whatever the number of parts: a team that
// changes its size stops threads and starts others.
void RunOnTeam(const OpenMp& omp, int64_t begin, int64_t end, int64_t grain, int parts, int threads, Body body,
               void* ctx) {
  thread_local const std::unique_ptr<Part[]> memory(new Part[kMaxThreads]);
  struct Team {
    Loop loop;
    const OpenMp& omp;
  } team{Share(begin, end, grain, parts, body, ctx, memory.get()), omp};
  omp.parallel(
      [](void* data) {
        const Team& t = *static_cast<const Team*>(data);
        RunParts(t.loop, t.omp.thread_num());
      },
      &team, static_cast<unsigned>(threads), 0);
}

std::atomic<int> own_pool{-1};  // -1: not yet known

const OpenMp* HostRuntime() {
  int own = own_pool.load(std::memory_order_relaxed);
  if (own < 0) {
    own = DefaultThreadOptions().own_pool;
    own_pool.store(own, std::memory_order_relaxed);
  }
  return own ? nullptr : FindOpenMp();
}

}  // namespace

void UseOwnPool(bool own) { own_pool.store(own, std::memory_order_relaxed); }

void SetNumThreads(int64_t threads) {
  num_threads.store(threads <= 0 ? UsableCpus() : static_cast<int>(std::min<int64_t>(threads, kMaxThreads)),
                    std::memory_order_relaxed);
}

int64_t NumThreads() {
  if (const int known = num_threads.load(std::memory_order_relaxed); known != 0) return known;
  SetNumThreads(DefaultThreadOptions().num_threads);
  return num_threads.load(std::memory_order_relaxed);
}

}  // namespace cinn_like

extern "C" void cinn_parallel_for(int64_t begin, int64_t end, int64_t grain, int64_t threads,
                                  void (*body)(int64_t begin, int64_t end, void* ctx), void* ctx) {
  using namespace cinn_like;
  if (begin >= end) return;
  grain = std::max<int64_t>(grain, 1);
  const uint64_t count = static_cast<uint64_t>(end) - static_cast<uint64_t>(begin);
  if (const uint64_t pieces = count / grain; pieces > 1 && !inside_loop) {
    const auto all = static_cast<int>(threads > 0 ? std::min<int64_t>(threads, kMaxThreads) : NumThreads());
    const auto parts = static_cast<int>(std::min<uint64_t>(pieces, all));
    if (parts > 1) {
      const OpenMp* omp = HostRuntime();
      if (omp == nullptr) {
        if (GetPool()->TryRun(begin, end, grain, parts, body, ctx)) return;
      } else if (omp->in_parallel() == 0) {
        return RunOnTeam(*omp, begin, end, grain, parts, all, body, ctx);
      }
    }
  }
  body(begin, end, ctx);
}
