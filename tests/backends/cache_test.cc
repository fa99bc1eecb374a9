#include "backends/cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "runtime/kernel_images.h"

namespace cinn_like {
namespace {
namespace fs = std::filesystem;

constexpr int64_t kMegabyte = 1 << 20;

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "cache_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ / "a" / "b";
  }
  void TearDown() override {
    fs::permissions(root_, fs::perms::owner_all);
    fs::remove_all(root_);
  }
  std::string RandomBytes(size_t n) {
    std::string s(n, '\0');
    for (char& c : s) c = static_cast<char>(random_());
    return s;
  }
  Artifact Make(std::string bytes) {
    Artifact a;
    a.sections["info"] = "{}";
    a.sections["code"] = std::move(bytes);
    return a;
  }
  int64_t BytesOfFolder() {
    int64_t n = 0;
    for (const auto& e : fs::directory_iterator(folder_)) n += static_cast<int64_t>(e.file_size());
    return n;
  }
  size_t FilesInFolder() {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path root_, folder_;
  std::mt19937 random_{std::random_device{}()};
};

TEST_F(CacheTest, RoundTripInAPrivateFolder) {
  const std::string bytes = RandomBytes(100000);
  {
    DiskCache cache(folder_, 10 * kMegabyte);
    EXPECT_FALSE(cache.Find("graph-1", "graph-1").has_value());
    cache.Insert("graph-1", "graph-1", Make(bytes));
    cache.Insert("graph-2", "graph-2", Make(""));
    cache.Put("any key\n", bytes);
    EXPECT_TRUE(cache.TakeWarnings().empty());
  }
  struct stat st;
  ASSERT_EQ(stat(folder_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  ASSERT_EQ(stat((folder_ / "graph-1").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  DiskCache cache(folder_, 10 * kMegabyte);
  const auto a = cache.Find("graph-1", "graph-1");
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->sections, Make(bytes).sections);
  EXPECT_EQ(cache.Find("graph-2", "graph-2")->sections.at("code"), "");
  EXPECT_EQ(cache.Get("any key\n"), bytes);
  EXPECT_EQ(cache.Get("another key"), std::nullopt);
  EXPECT_FALSE(cache.Find("../b/graph-1", "../b/graph-1").has_value());
}

TEST_F(CacheTest, EveryDamageIsAMissAndIsRemoved) {
  DiskCache cache(folder_, 10 * kMegabyte);
  const Artifact good = Make(RandomBytes(300));
  const std::string bytes = good.Encode("kernel-1");
  std::vector<std::string> damaged = {"", "x", bytes.substr(0, 40), bytes.substr(0, bytes.size() - 1), bytes + "x"};
  for (size_t i = 0; i < bytes.size(); i += 1 + random_() % 8) {
    std::string s = bytes;
    s[i] = static_cast<char>(s[i] ^ (1 << random_() % 8));
    damaged.push_back(std::move(s));
  }
  for (const std::string& s : damaged) {
    std::ofstream(folder_ / "kernel-1", std::ios::binary) << s;
    fs::permissions(folder_ / "kernel-1", fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_FALSE(cache.Find("kernel-1", "kernel-1").has_value());
    EXPECT_FALSE(fs::exists(folder_ / "kernel-1"));
  }
  EXPECT_FALSE(cache.TakeWarnings().empty());
  cache.Insert("kernel-1", "kernel-1", good);
  EXPECT_TRUE(cache.Find("kernel-1", "kernel-1").has_value());
}

// Whose name is a hash may be there for another key of that hash.
TEST_F(CacheTest, AForgedCollisionIsAMiss) {
  DiskCache cache(folder_, 10 * kMegabyte);
  cache.Insert("graph-1", "the key", Make("one"));
  EXPECT_FALSE(cache.Find("graph-1", "another key").has_value());
  EXPECT_TRUE(cache.Find("graph-1", "the key").has_value());
  EXPECT_TRUE(cache.TakeWarnings().empty());
  cache.Put("key 1", "object 1");
  std::vector<fs::path> objects;
  auto list = [&] {
    objects.clear();
    for (const auto& e : fs::directory_iterator(folder_)) {
      if (e.path().filename().string().starts_with("object-")) objects.push_back(e.path());
    }
  };
  list();
  ASSERT_EQ(objects.size(), 1u);
  const fs::path first = objects[0];
  cache.Put("key 2", "object 2");
  list();
  ASSERT_EQ(objects.size(), 2u);
  const fs::path second = objects[0] == first ? objects[1] : objects[0];
  fs::copy_file(first, second, fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.Get("key 2"), std::nullopt);
  EXPECT_EQ(cache.Get("key 1"), "object 1");
}

TEST_F(CacheTest, LeastRecentlyUsedGoFirst) {
  DiskCache cache(folder_, kMegabyte);
  for (int i = 0; i < 12; ++i) {
    cache.Insert(Cat("object-", i), Cat("object-", i), Make(RandomBytes(60000)));
    // Times that differ on any file system, as if a minute apart; object-0 stays in use.
    const std::string path = folder_ / Cat("object-", i);
    const timespec old[2] = {{1000000 + i * 60, 0}, {1000000 + i * 60, 0}};
    utimensat(AT_FDCWD, path.c_str(), old, 0);
  }
  ASSERT_TRUE(cache.Find("object-0", "object-0").has_value());
  for (int i = 12; i < 30; ++i) {
    cache.Insert(Cat("object-", i), Cat("object-", i), Make(RandomBytes(60000)));
    ASSERT_TRUE(cache.Find("object-0", "object-0").has_value());
  }
  EXPECT_LE(BytesOfFolder(), kMegabyte + kMegabyte / 8);
  EXPECT_TRUE(cache.Find("object-0", "object-0").has_value());
  EXPECT_FALSE(cache.Find("object-1", "object-1").has_value());
  EXPECT_TRUE(cache.Find("object-29", "object-29").has_value());
  cache.Insert("object-large", "object-large", Make(RandomBytes(700000)));
  EXPECT_FALSE(cache.Find("object-large", "object-large").has_value());
  EXPECT_TRUE(absl::StrContains(cache.TakeWarnings().at(0), "takes no entry"));
}

TEST_F(CacheTest, LeftOversOfKilledWritersGo) {
  fs::create_directories(folder_);
  fs::permissions(folder_, fs::perms::owner_all);
  const std::string stale = folder_ / "tmp.1.2.3", fresh = folder_ / "tmp.4.5.6";
  std::ofstream(stale) << "x";
  std::ofstream(fresh) << "x";
  const timespec old[2] = {{1000000, 0}, {1000000, 0}};
  utimensat(AT_FDCWD, stale.c_str(), old, 0);
  DiskCache cache(folder_, kMegabyte);
  cache.Insert("graph-1", "graph-1", Make("x"));
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(CacheTest, UntrustedFoldersAndFilesAreNotRead) {
  {
    DiskCache cache(folder_, kMegabyte);
    cache.Insert("graph-1", "graph-1", Make("good"));
  }
  // A folder that others may write.
  fs::permissions(folder_, fs::perms::all);
  {
    DiskCache cache(folder_, kMegabyte);
    EXPECT_FALSE(cache.enabled());
    EXPECT_FALSE(cache.Find("graph-1", "graph-1").has_value());
    EXPECT_TRUE(absl::StrContains(cache.TakeWarnings().at(0), "writable by no other"));
  }
  fs::permissions(folder_, fs::perms::owner_all);
  // A folder behind a link.
  fs::create_directory_symlink(folder_, root_ / "link");
  EXPECT_FALSE(DiskCache(root_ / "link", kMegabyte).enabled());
  // An entry that is a link, a pipe, or writable by others.
  DiskCache cache(folder_, kMegabyte);
  fs::copy_file(folder_ / "graph-1", root_ / "elsewhere");
  fs::remove(folder_ / "graph-1");
  fs::create_symlink(root_ / "elsewhere", folder_ / "graph-1");
  EXPECT_FALSE(cache.Find("graph-1", "graph-1").has_value());
  cache.Insert("graph-1", "graph-1", Make("new"));  // replaces a link, does not follow it
  EXPECT_TRUE(cache.Find("graph-1", "graph-1").has_value());
  EXPECT_FALSE(fs::is_symlink(folder_ / "graph-1"));
  fs::permissions(folder_ / "graph-1", fs::perms::all);
  EXPECT_FALSE(cache.Find("graph-1", "graph-1").has_value());
  ASSERT_EQ(mkfifo((folder_ / "graph-2").c_str(), 0600), 0);
  EXPECT_FALSE(cache.Find("graph-2", "graph-2").has_value());
}

TEST_F(CacheTest, WorksWithoutAFolder) {
  std::ofstream(root_ / "file") << "x";
  DiskCache cache(root_ / "file" / "sub", kMegabyte);
  EXPECT_FALSE(cache.enabled());
  cache.Insert("graph-1", "graph-1", Make("x"));
  EXPECT_FALSE(cache.Find("graph-1", "graph-1").has_value());
  EXPECT_EQ(cache.TakeWarnings().size(), 1u);
  EXPECT_TRUE(cache.TakeWarnings().empty());
}

TEST_F(CacheTest, AFullDiskCostsAWarning) {
  // A limit on the size of files fails writes half way, as a full disk does.
  DiskCache cache(folder_, 10 * kMegabyte);
  cache.Insert("graph-1", "graph-1", Make("small"));
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    cache.Insert("graph-2", "graph-2", Make(RandomBytes(100000)));
    const bool fine = !cache.Find("graph-2", "graph-2").has_value() && cache.Find("graph-1", "graph-1").has_value() &&
                      absl::StrContains(cache.TakeWarnings().at(0), "could not write");
    _exit(fine ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(FilesInFolder(), 1u);
}

// Processes and threads that write, read, evict and damage the same few entries: a read gives what was written under
// that name, or nothing.
TEST_F(CacheTest, ManyProcesses) {
  std::vector<pid_t> children;
  for (int p = 0; p < 6; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      std::atomic<bool> fine{true};
      auto work = [&](unsigned seed) {
        DiskCache cache(folder_, 200000);
        std::mt19937 random(seed);
        for (int i = 0; i < 300; ++i) {
          const int k = static_cast<int>(random() % 12);
          const std::string name = Cat("kernel-", k);
          if (random() % 3 == 0) {
            cache.Insert(name, name, Make(std::string(5000 + random() % 20000, static_cast<char>('a' + k))));
          } else if (random() % 50 == 0) {
            std::error_code error;
            fs::resize_file(folder_ / name, 100, error);
          } else if (const auto a = cache.Find(name, name)) {
            const std::string& code = a->sections.at("code");
            fine = fine && code.size() >= 5000 && code.find_first_not_of(static_cast<char>('a' + k)) == code.npos;
          }
        }
      };
      std::thread other(work, 1000u + static_cast<unsigned>(p));
      work(static_cast<unsigned>(p));
      other.join();
      _exit(fine ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t c : children) {
    int status = 0;
    waitpid(c, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const auto& e : fs::directory_iterator(folder_))
    EXPECT_FALSE(absl::StartsWith(e.path().filename().string(), "tmp."));
  EXPECT_LE(BytesOfFolder(), 400000);
}

TEST(KernelImages, SurviveAnArtifact) {
  KernelImages k{{std::string("\177ELF\0x", 6), "second"}, {{"f_kernel", 1, "k12"}, {"g_kernel", 0, "k34"}}};
  Artifact a;
  k.AddTo(a);
  const auto decoded = Artifact::Decode(a.Encode("key"), "key");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto r = KernelImages::From(*decoded);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->images, k.images);
  ASSERT_EQ(r->kernels.size(), 2u);
  EXPECT_EQ(r->kernels[0].name, "f_kernel");
  EXPECT_EQ(r->kernels[0].image, 1u);
  EXPECT_EQ(r->kernels[1].entry, "k34");
  a.sections["kernels"] = "f_kernel 7 k12\n";
  EXPECT_FALSE(KernelImages::From(a).ok());
}

}  // namespace
}  // namespace cinn_like
