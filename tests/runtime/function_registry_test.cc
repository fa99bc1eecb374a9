#include "runtime/function_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

CinnValue Int(int64_t i) { return {kCinnInt, 0, {.i = i}}; }

Status Twice(std::span<const CinnValue> args, CinnValue& result) {
  if (args.size() != 1 || args[0].tag != kCinnInt) return InvalidArgument("expected an integer");
  result = Int(2 * args[0].i);
  return absl::OkStatus();
}

std::string ErrorOf(const Status& status) { return Message(status); }

TEST(FunctionRegistry, RegistersFindsCallsRemoves) {
  ASSERT_TRUE(RegisterFunction("test.twice", &Twice).ok());
  EXPECT_EQ(ErrorOf(RegisterFunction("test.twice", &Twice)), "function 'test.twice' is registered already");
  auto twice = FindFunction("test.twice");
  ASSERT_TRUE(twice.ok());
  CinnValue v = Int(21);
  EXPECT_EQ((*twice)->Call({&v, 1})->i, 42);
  const auto names = RegisteredNames();
  EXPECT_EQ(std::count(names.begin(), names.end(), "test.twice"), 1);
  ASSERT_TRUE(RemoveFunction("test.twice").ok());
  EXPECT_EQ((*twice)->Call({&v, 1})->i, 42);  // who has found it keeps it
  EXPECT_TRUE(
      absl::StrContains(ErrorOf(FindFunction("test.twice").status()), "no function 'test.twice' is registered"));
  EXPECT_EQ(RemoveFunction("test.twice").code(), absl::StatusCode::kNotFound);
}

TEST(FunctionRegistry, ErrorsNameTheFunction) {
  ASSERT_TRUE(RegisterFunction("test.fails", &Twice).ok());
  SetLastError(Internal("an earlier one"));
  EXPECT_EQ((*FindFunction("test.fails"))->Call({}).status(),
            InvalidArgument("function 'test.fails': expected an integer"));
  const auto silent = [](void*, const CinnValue*, int32_t, CinnValue*) { return int32_t{-1}; };
  ASSERT_EQ(CinnGlobalRegister("test.fails", silent, nullptr, nullptr, 1), 0);
  EXPECT_EQ((*FindFunction("test.fails"))->Call({}).status(),
            absl::UnknownError("function 'test.fails': failed without a message"));
  ASSERT_TRUE(RemoveFunction("test.fails").ok());
  EXPECT_EQ(ErrorOf(RegisterFunction("", &Twice)), "a function's name is not empty");
  EXPECT_TRUE(absl::StrContains(ErrorOf(RegisterFunction("a\"b", &Twice)), "has no quotes"));
}

// `self` is released once, after the last who has the function; not where registering fails.
TEST(FunctionRegistry, ReleasesSelf) {
  int released = 0;
  const auto release = [](void* self) { ++*static_cast<int*>(self); };
  const auto call = [](void* self, const CinnValue*, int32_t, CinnValue* result) {
    *result = {kCinnInt, 0, {.i = *static_cast<int*>(self)}};
    return int32_t{0};
  };
  ASSERT_EQ(CinnGlobalRegister("test.self", call, &released, release, 0), 0);
  EXPECT_LT(CinnGlobalRegister("test.self", call, &released, release, 0), 0);
  EXPECT_EQ(released, 0);
  CinnGlobalFunction* f = nullptr;
  ASSERT_EQ(CinnGlobalFind("test.self", &f), 0);
  ASSERT_EQ(CinnGlobalRegister("test.self", call, &released, release, 1), 0);
  EXPECT_EQ(released, 0);
  CinnValue result{};
  EXPECT_EQ(CinnGlobalCall(f, nullptr, 0, &result), 0);
  EXPECT_EQ(result.i, 0);
  EXPECT_EQ(CinnGlobalCall(f, nullptr, 0, nullptr), 0);
  EXPECT_LT(CinnGlobalCall(f, nullptr, 1, nullptr), 0);
  CinnGlobalRelease(f);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(CinnGlobalRemove("test.self"), 0);
  EXPECT_EQ(released, 2);
  EXPECT_LT(CinnGlobalFind("test.self", &f), 0);
  EXPECT_EQ(f, nullptr);
  for (const int32_t code : {CinnGlobalRegister(nullptr, call, nullptr, nullptr, 0), CinnGlobalRemove(nullptr),
                             CinnGlobalFind("x", nullptr), CinnGlobalRegister("x", nullptr, nullptr, nullptr, 0),
                             CinnGlobalCall(nullptr, nullptr, 0, nullptr), CinnGlobalFail(nullptr)})
    EXPECT_LT(code, 0);
  CinnGlobalRelease(nullptr);
}

TEST(FunctionRegistry, ListIsJson) {
  ASSERT_TRUE(RegisterFunction("test.a.b", &Twice).ok());
  EXPECT_TRUE(absl::StrContains(CinnGlobalList(), "\"test.a.b\"")) << CinnGlobalList();
  ASSERT_TRUE(RemoveFunction("test.a.b").ok());
  EXPECT_FALSE(absl::StrContains(CinnGlobalList(), "test.a.b"));
}

TEST(FunctionRegistry, ThreadsMayDoAllOfIt) {
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&bad, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string name = Cat("test.thread", i % 3);
        // A function that removes itself, and is released while it runs.
        bad += RegisterFunction(
                   name,
                   [name](std::span<const CinnValue> args, CinnValue& result) -> Status {
                     RemoveFunction(name).IgnoreError();
                     result = Int(args[0].i + 1);
                     return absl::OkStatus();
                   },
                   true)
                       .ok()
                   ? 0
                   : 1;
        CinnValue v = Int(t);
        if (auto f = FindFunction(name); f.ok()) bad += (*f)->Call({&v, 1})->i == t + 1 ? 0 : 1;
        RegisteredNames();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace cinn_like
