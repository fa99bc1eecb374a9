#include "runtime/timeline.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/parallel_for.h"

namespace cinn_like {
namespace {

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Timeline, RecordsOnlyWhenOn) {
  {
    const TimelineSpan span("before");
  }
  Timeline::Start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 5; ++i) const TimelineSpan span("inside \"it\"\n");
    });
  }
  for (std::thread& t : threads) t.join();
  Timeline::Record("exact", 1000001, 3000500);
  Timeline::Stop();
  {
    const TimelineSpan span("after");
  }
  const std::string json = Timeline::ToJson();
  EXPECT_EQ(Count(json, "inside \\\"it\\\"\\u000a"), 15);
  EXPECT_EQ(Count(json, "before") + Count(json, "after"), 0);
  EXPECT_EQ(Count(json, "\"ts\":1000.001,\"dur\":2000.499}"), 1);
  Timeline::Start();
  Timeline::Stop();
  EXPECT_EQ(Timeline::ToJson(), "{\"traceEvents\":[\n]}\n");
}

TEST(Timeline, ShowsThePiecesOfParallelLoops) {
  SetNumThreads(2);
  Timeline::Start();
  cinn_parallel_for(0, 100, 10, 0, [](int64_t, int64_t, void*) {}, nullptr);
  Timeline::Stop();
  EXPECT_GE(Count(Timeline::ToJson(), "parallel piece"), 2);
}

TEST(Timeline, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(Message(Timeline::Write("/nonexistent/x.json")), "can't write the timeline to /nonexistent/x.json");
}

}  // namespace
}  // namespace cinn_like
