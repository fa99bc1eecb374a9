#include "cinn_like/base/runtime_calls.h"

#include <gtest/gtest.h>

#include <vector>

namespace cinn_like {
namespace {

TEST(RuntimeCalls, RowsAreRead) {
  const RuntimeCall* call = FindRuntimeCall("cinn_alloc_workspace");
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->result, CallType::kPtr);
  EXPECT_EQ(std::vector(call->params.begin(), call->params.end()),
            (std::vector{CallType::kPtr, CallType::kPtr, CallType::kI64}));
  call = FindRuntimeCall("cinn_cublaslt_matmul");
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->result, CallType::kI32);
  EXPECT_EQ(call->params.size(), 16u);
  EXPECT_EQ(call->params.front(), CallType::kI64);
  EXPECT_EQ(call->params.back(), CallType::kPtr);
  EXPECT_GT(call->workspace_bytes, 0);
  EXPECT_EQ(FindRuntimeCall("cinn_parallel_for")->result, CallType::kVoid);
  EXPECT_EQ(FindRuntimeCall("no_such_function"), nullptr);
}

}  // namespace
}  // namespace cinn_like
