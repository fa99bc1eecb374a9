// Parallel loops in a process that has an OpenMP runtime, as PyTorch's has.
#include "runtime/openmp.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/parallel_for.h"

namespace cinn_like {
namespace {

using Ids = std::set<std::thread::id>;

struct Seen {
  std::mutex mutex;
  Ids ids;
  size_t expected = 0;
  void Add() {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  }
  size_t Count() {
    const std::lock_guard lock(mutex);
    return ids.size();
  }
};

bool LoopIsRight(int64_t threads) {
  std::vector<int> visits(5000);
  cinn_parallel_for(
      0, 5000, 3, threads,
      [](int64_t b, int64_t e, void* v) {
        for (int64_t i = b; i < e; ++i) ++(*static_cast<std::vector<int>*>(v))[static_cast<size_t>(i)];
      },
      &visits);
  return std::all_of(visits.begin(), visits.end(), [](int v) { return v == 1; });
}

// Parts wait, for a while, until as many threads have come.
Ids IdsOfLoop(size_t threads = 2) {
  Seen seen;
  seen.expected = threads;
  cinn_parallel_for(
      0, 16, 1, 2,
      [](int64_t, int64_t, void* s) {
        auto* seen = static_cast<Seen*>(s);
        seen->Add();
        for (int i = 0; i < 5000 && seen->Count() < seen->expected; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      &seen);
  return seen.ids;
}

class OpenMpLoops : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "libgomp is not instrumented";
#endif
    // Before the first loop: that is when it is looked for.
    if (dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) GTEST_SKIP() << "no libgomp on this machine";
    UseOwnPool(false);
    omp_ = FindOpenMp();
    ASSERT_NE(omp_, nullptr);
  }
  Ids IdsOfTeam() const {
    Seen seen;
    omp_->parallel([](void* s) { static_cast<Seen*>(s)->Add(); }, &seen, 2, 0);
    return seen.ids;
  }
  const OpenMp* omp_ = nullptr;
};

TEST_F(OpenMpLoops, RunOnTheHostsThreads) {
  const Ids team = IdsOfTeam(), loop = IdsOfLoop();
  EXPECT_EQ(team.size(), 2u);
  EXPECT_EQ(loop, team);
  UseOwnPool(true);
  for (const std::thread::id& id : IdsOfLoop()) {
    EXPECT_TRUE(id == std::this_thread::get_id() || !team.contains(id));
  }
}

TEST_F(OpenMpLoops, VisitEachIndexOnce) {
  for (int64_t threads : {2, 3, 7, 2, 300}) EXPECT_TRUE(LoopIsRight(threads)) << threads;
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&wrong] {
      for (int i = 0; i < 50; ++i) wrong += !LoopIsRight(2);
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(OpenMpLoops, AreSerialInsideOfARegion) {
  omp_->parallel(
      [](void*) {
        EXPECT_EQ(IdsOfLoop(1), Ids{std::this_thread::get_id()});
        EXPECT_TRUE(LoopIsRight(2));
      },
      nullptr, 2, 0);
}

// Waits until no thread is ending but the caller, a team's other one and our pool's worker: one that ends takes locks
// of AddressSanitizer's allocator, which does not release them in a child (GCC 12).
bool OtherThreadsHaveEnded() {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  for (int i = 0; i < 10000 && threads() > 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return threads() <= 3;
}

TEST_F(OpenMpLoops, AChildHasAPoolOfItsOwn) {
  ASSERT_TRUE(LoopIsRight(2));
  ASSERT_TRUE(OtherThreadsHaveEnded());
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool right = FindOpenMp() == nullptr;
    for (int i = 0; i < 50; ++i) right = right && LoopIsRight(2);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(LoopIsRight(2));
}

}  // namespace
}  // namespace cinn_like
