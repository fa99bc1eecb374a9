#include "runtime/symbols.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/bind_args.h"
#include "runtime/parallel_for.h"

namespace cinn_like {
namespace {

TEST(RuntimeSymbols, HoldsTheRuntimeCalls) {
  const RuntimeSymbols symbols;
  EXPECT_EQ(symbols.Find("cinn_bind_args"), reinterpret_cast<void*>(&cinn_bind_args));
  EXPECT_EQ(symbols.Find("cinn_parallel_for"), reinterpret_cast<void*>(&cinn_parallel_for));
  EXPECT_EQ(symbols.Find("printf"), nullptr);
  for (const auto& [name, address] : symbols.All()) EXPECT_NE(address, nullptr) << name;
}

TEST(RuntimeSymbols, NamesAreUniqueAndBelongToOneObject) {
  RuntimeSymbols a, b;
  int x = 0, y = 0;
  EXPECT_TRUE(a.Add("f_kernel_ptr_", &x).ok());
  EXPECT_TRUE(a.Add("f_kernel_ptr_", &x).ok());
  const Status again = a.Add("f_kernel_ptr_", &y);
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Message(again), "runtime symbol 'f_kernel_ptr_' exists");
  EXPECT_EQ(b.Find("f_kernel_ptr_"), nullptr);
  a.Remove("f_kernel_ptr_");
  a.Remove("f_kernel_ptr_");
  EXPECT_EQ(a.Find("f_kernel_ptr_"), nullptr);
}

TEST(RuntimeSymbols, ThreadsMayShareOne) {
  RuntimeSymbols symbols;
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&symbols, &bad, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string name = Cat("k", t, "_", i);
        bad += symbols.Add(name, &bad).ok() ? 0 : 1;
        bad += symbols.Find(name) == &bad ? 0 : 1;
        symbols.Remove(name);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace cinn_like
