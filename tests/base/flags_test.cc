#include "cinn_like/base/flags.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace cinn_like {
namespace {

TEST(Flags, SetAndRead) {
  ASSERT_TRUE(SetFlag("cinn_dump_ir", "True").ok());
  ASSERT_TRUE(SetFlag("cinn_cache_size_mb", "17").ok());
  ASSERT_TRUE(SetFlag("cinn_disable_passes", "cse,fold_constants").ok());
  const StatusOr<CompileOptions> options = CompileOptions::FromFlags();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->dump_ir);
  EXPECT_EQ(options->cache_size_mb, 17);
  EXPECT_TRUE(options->IsDisabled("cse"));
  EXPECT_TRUE(options->IsDisabled("fold_constants"));
  EXPECT_FALSE(options->IsDisabled("fold"));
  EXPECT_FALSE(options->IsDisabled(""));
  EXPECT_EQ(*GetFlag("cinn_cache_size_mb"), "17");
  ASSERT_TRUE(SetFlag("cinn_dump_ir", "false").ok());
  EXPECT_FALSE(CompileOptions::FromFlags()->dump_ir);
}

TEST(Flags, DefaultsAreThoseOfTheTable) {
  const CompileOptions options;
  EXPECT_EQ(options.numerics, "fused");
  EXPECT_EQ(options.num_threads, 0);
  EXPECT_FALSE(options.verify);
  EXPECT_TRUE(options.Check().ok());
}

TEST(Flags, BadNamesAndValuesAreErrorsAndChangeNothing) {
  EXPECT_TRUE(Message(SetFlag("cinn_dumpir", "1")).starts_with("flag 'cinn_dumpir' is unknown; known: cinn_dump_ir, "));
  EXPECT_TRUE(Message(GetFlag("nope").status()).starts_with("flag 'nope' is unknown; known: "));
  EXPECT_EQ(Message(SetFlag("cinn_verify", "maybe")), "flag 'cinn_verify': expected true or false, got 'maybe'");
  EXPECT_EQ(Message(SetFlag("cinn_num_threads", "4x")), "flag 'cinn_num_threads': expected an integer, got '4x'");
  EXPECT_EQ(Message(SetFlag("cinn_num_threads", "-1")),
            "flag 'cinn_num_threads': expected an integer of at least 0, got '-1'");
  EXPECT_EQ(Message(SetFlag("cinn_numerics", "fast")), "flag 'cinn_numerics': expected fused or exact, got 'fast'");
  EXPECT_EQ(*GetFlag("cinn_numerics"), "fused");
  EXPECT_EQ(*GetFlag("cinn_num_threads"), "0");
  EXPECT_TRUE(CompileOptions::FromFlags().ok());
}

TEST(Flags, CacheKeyHoldsWhatChangesCode) {
  CompileOptions a, b;
  b.dump_ir = true;
  EXPECT_EQ(a.CacheKey(), b.CacheKey());
  b.numerics = "exact";
  EXPECT_NE(a.CacheKey(), b.CacheKey());
}

// Runs this program again with one variable set; returns what its PrintFlag test printed.
std::string WithEnvironment(const std::string& assignment) {
  std::array<char, 4096> path{};
  EXPECT_GT(readlink("/proc/self/exe", path.data(), path.size() - 1), 0);
  const std::string command =
      assignment + " CINN_FLAGS_TEST_CHILD=1 " + path.data() + " --gtest_filter=Flags.Child 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 512> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) output += buffer.data();
  pclose(pipe);
  return output;
}

TEST(Flags, Child) {
  if (std::getenv("CINN_FLAGS_TEST_CHILD") == nullptr) GTEST_SKIP() << "runs inside Flags.Environment";
  const StatusOr<CompileOptions> options = CompileOptions::FromFlags();
  std::printf("<%s>\n", options.ok() ? options->cache_dir.c_str() : Message(options.status()).c_str());
}

TEST(Flags, Environment) {
  EXPECT_NE(WithEnvironment("FLAGS_cinn_cache_dir=/tmp/somewhere").find("</tmp/somewhere>"), std::string::npos);
  EXPECT_NE(WithEnvironment("FLAGS_cinn_verify=perhaps")
                .find("<environment: flag 'cinn_verify': expected true or false, got 'perhaps'>"),
            std::string::npos);
  EXPECT_NE(WithEnvironment("FLAGS_cinn_numerics=fast").find("expected fused or exact, got 'fast'"), std::string::npos);
}

TEST(Flags, ThreadsMaySetAndRead) {
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &bad] {
      for (int i = 0; i < 200; ++i) {
        const std::string value(20 + t, static_cast<char>('a' + t));
        bad += SetFlag("cinn_cache_dir", value).ok() ? 0 : 1;
        const std::string read = CompileOptions::FromFlags()->cache_dir;
        bad += read.size() == size_t(20 + read[0] - 'a') ? 0 : 1;  // never half of one and half of another
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace cinn_like
