#include "backends/parallel_tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>

namespace cinn_like {
namespace {

TEST(ParallelTasks, EveryTaskOnce) {
  for (int64_t threads : {1, 3, 100}) {
    std::vector<int> ran(20, 0);
    std::vector<std::function<void()>> tasks;
    for (int& r : ran) tasks.push_back([&r] { ++r; });
    EXPECT_TRUE(RunTasks(tasks, threads).ok());
    EXPECT_EQ(ran, std::vector<int>(20, 1));
  }
  EXPECT_TRUE(RunTasks({}, 2).ok());
}

// As from inside of LLVM, which can neither go on nor unwind: the other tasks run, on one thread as on many.
TEST(ParallelTasks, AnAbandonedTaskIsAnError) {
  for (int64_t threads : {1, 2, 8}) {
    std::atomic<int> done = 0;
    std::vector<std::function<void()>> tasks;
    for (int i = 0; i < 8; ++i) {
      tasks.push_back([&done, i] {
        if (i % 3 == 1) AbandonTask("no way on");
        ++done;
      });
    }
    const Status s = RunTasks(tasks, threads);
    EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(s.message(), "no way on");
    EXPECT_EQ(done, 5);
  }
  AbandonTask("outside of tasks this returns");
}

TEST(ParallelTasks, AnInnerTaskEndsItsOwnBatchOnly) {
  Status inner, outer;
  outer = RunTasks({[&] { inner = RunTasks({[] { AbandonTask("inner"); }}, 1); }}, 1);
  EXPECT_TRUE(outer.ok()) << outer;
  EXPECT_EQ(inner.message(), "inner");
}

TEST(ParallelTasks, NoMemoryIsAnError) {
  const Status s = RunTasks({[] { throw std::bad_alloc(); }, [] {}}, 1);
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted) << s;
}

}  // namespace
}  // namespace cinn_like
