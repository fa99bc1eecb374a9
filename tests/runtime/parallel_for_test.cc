#include "runtime/parallel_for.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace cinn_like {
namespace {

// Calls a lambda through the C interface.
template <class F>
void For(int64_t begin, int64_t end, int64_t grain, F f) {
  cinn_parallel_for(begin, end, grain, 0, [](int64_t b, int64_t e, void* ctx) { (*static_cast<F*>(ctx))(b, e); }, &f);
}

class ParallelFor : public ::testing::Test {
 protected:
  void SetUp() override { SetNumThreads(4); }
};

TEST_F(ParallelFor, VisitsEachIndexOnce) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    SetNumThreads(1 + random() % 6);
    const int64_t begin = static_cast<int64_t>(random() % 100) - 50;
    const int64_t count = random() % (round % 10 == 0 ? 5000 : 50);
    const int64_t grain = 1 + random() % 20;
    std::vector<std::atomic<int>> visits(count);
    For(begin, begin + count, grain, [&](int64_t b, int64_t e) {
      ASSERT_LT(b, e);
      for (int64_t i = b; i < e; ++i) visits[i - begin].fetch_add(1, std::memory_order_relaxed);
    });
    ASSERT_TRUE(std::all_of(visits.begin(), visits.end(), [](auto& v) { return v == 1; })) << count << " " << grain;
  }
}

TEST_F(ParallelFor, PlainWritesAreSeenAfterwards) {  // what TSan watches
  std::vector<int64_t> data(10000);
  for (int64_t round = 1; round < 300; ++round) {
    For(0, 10000, 64, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) data[i] += i;
    });
    ASSERT_EQ(data[9999], round * 9999);
  }
}

TEST_F(ParallelFor, EmptyAndTinyRangesAreSerial) {
  int calls = 0;
  For(5, 5, 1, [&](int64_t, int64_t) { ++calls; });
  For(5, 3, 1, [&](int64_t, int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
  const auto self = std::this_thread::get_id();
  For(0, 15, 8, [&](int64_t b, int64_t e) {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(e - b, 15);
  });
  For(0, 3, 0, [&](int64_t b, int64_t e) { EXPECT_LE(e - b, 1); });
  EXPECT_EQ(calls, 1);
}

TEST_F(ParallelFor, ExtremeRanges) {
  std::atomic<int64_t> sum{0};
  For(INT64_MAX - 100, INT64_MAX, 10, [&](int64_t b, int64_t e) { sum += e - b; });
  EXPECT_EQ(sum, 100);
  sum = 0;
  For(INT64_MIN / 2, INT64_MAX / 2, 1, [&](int64_t b, int64_t e) { sum += e - b; });
  EXPECT_EQ(sum, INT64_MAX / 2 - INT64_MIN / 2);
}

TEST_F(ParallelFor, UsesSeveralThreads) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (int round = 0; round < 200 && threads.size() < 2; ++round) {
    For(0, 8, 1, [&](int64_t, int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  }
  EXPECT_GE(threads.size(), 2u);
  SetNumThreads(1);
  EXPECT_EQ(NumThreads(), 1);
  const auto self = std::this_thread::get_id();
  For(0, 100, 1, [&](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
  SetNumThreads(0);
  EXPECT_GE(NumThreads(), 1);
}

TEST_F(ParallelFor, ACallMaySayHowManyThreads) {
  SetNumThreads(4);
  const auto self = std::this_thread::get_id();
  cinn_parallel_for(
      0, 100, 1, 1,
      [](int64_t, int64_t, void* id) { EXPECT_EQ(std::this_thread::get_id(), *static_cast<std::thread::id*>(id)); },
      const_cast<std::thread::id*>(&self));
}

TEST_F(ParallelFor, NestedLoopsAreSerialAndComplete) {
  std::atomic<int> sum{0};
  For(0, 16, 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const auto self = std::this_thread::get_id();
      For(0, 100, 1, [&](int64_t nb, int64_t ne) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        sum += static_cast<int>(ne - nb);
      });
    }
  });
  EXPECT_EQ(sum, 1600);
}

TEST_F(ParallelFor, ManyCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> wrong{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&wrong, t] {
      for (int round = 0; round < 500; ++round) {
        std::vector<int> data(200 + t, 0);
        For(0, data.size(), 8, [&](int64_t b, int64_t e) {
          for (int64_t i = b; i < e; ++i) data[i]++;
        });
        wrong += std::count_if(data.begin(), data.end(), [](int v) { return v != 1; });
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ParallelFor, WorksAfterSleeping) {
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    std::atomic<int> sum{0};
    For(0, 64, 1, [&](int64_t b, int64_t e) { sum += static_cast<int>(e - b); });
    ASSERT_EQ(sum, 64);
  }
}

bool LoopIsRight() {
  std::vector<int> data(1000, 0);
  For(0, 1000, 10, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) data[i]++;
  });
  return std::all_of(data.begin(), data.end(), [](int v) { return v == 1; });
}

TEST_F(ParallelFor, WorksAfterFork) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "TSan does not follow threads started after a multi-threaded fork; ASan's allocator stays locked";
#endif
  ASSERT_TRUE(LoopIsRight());
  std::atomic<bool> stop{false};
  std::thread other(
      [&] {  // keeps the pool busy while we fork; no malloc, whose lock sanitizers leave held in the child
        std::atomic<int64_t> sum{0};
        while (!stop) For(0, 1000, 10, [&](int64_t b, int64_t e) { sum.fetch_add(e - b, std::memory_order_relaxed); });
      });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (int i = 0; i < 50; ++i) {
        if (!LoopIsRight()) _exit(1);
      }
      _exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  other.join();
}

TEST_F(ParallelFor, LaunchTime) {
  SetNumThreads(2);
  struct Counter {
    alignas(64) std::atomic<int64_t> sum{0};
  } counter;
  double best = 1;
  for (int round = 0; round < 50; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) {
      cinn_parallel_for(
          0, 2, 1, 0, [](int64_t b, int64_t e, void* c) { static_cast<Counter*>(c)->sum.fetch_add(e - b); }, &counter);
    }
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 1000);
  }
  EXPECT_EQ(counter.sum, 100000);
  std::printf("parallel_for, 2 threads, empty body: %.2f us\n", best * 1e6);
  EXPECT_LT(best, 200e-6);  // busy machines and sanitizers included; the goal is 0.6 us
}

}  // namespace
}  // namespace cinn_like
