#include "runtime/last_error.h"

#include <gtest/gtest.h>

#include <thread>

namespace cinn_like {
namespace {

TEST(LastError, OneMessagePerThread) {
  const int32_t code = SetLastError(InvalidArgument("mine"));
  EXPECT_LT(code, 0);
  std::thread([] {
    EXPECT_STREQ(LastError(), "");
    SetLastError(Internal("theirs"));
    EXPECT_STREQ(LastError(), "theirs");
  }).join();
  EXPECT_STREQ(LastError(), "mine");
  EXPECT_EQ(SetLastError(absl::OkStatus()), 0);
  EXPECT_STREQ(LastError(), "mine");
  EXPECT_EQ(LastErrorStatus(code), InvalidArgument("mine"));
  EXPECT_TRUE(LastErrorStatus(0).ok());
}

}  // namespace
}  // namespace cinn_like
