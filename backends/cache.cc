#include "backends/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "absl/strings/match.h"
#include "cinn_like/base/hash.h"
#include "glog/logging.h"

namespace cinn_like {
namespace {

constexpr std::string_view kTemporary = "tmp.";
constexpr time_t kStaleSeconds = 3600;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string ErrnoText() { return strerror(errno); }

std::string DefaultFolder() {
  const char* xdg = getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return Cat(xdg, "/cinn_like");
  const char* home = getenv("HOME");
  return home != nullptr && home[0] == '/' ? Cat(home, "/.cache/cinn_like") : "";
}

bool MakeFolders(const std::string& path) {
  for (size_t i = path.find('/', 1);; i = path.find('/', i + 1)) {
    if (mkdir(path.substr(0, i).c_str(), 0700) != 0 && errno != EEXIST) return false;
    if (i == path.npos) return true;
  }
}

bool IsName(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(),
                                   [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

std::optional<std::string> ReadAll(int fd, int64_t size) {
  std::string r(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < r.size()) {
    const ssize_t n = read(fd, r.data() + done, r.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    done += static_cast<size_t>(n);
  }
  return r;
}

}  // namespace

DiskCache::DiskCache(std::string folder, int64_t limit_bytes)
    : folder_(folder.empty() ? DefaultFolder() : std::move(folder)),
      limit_(limit_bytes),
      written_since_scan_(limit_bytes) {
  Open();
}
DiskCache::DiskCache(const CompileOptions& options) : DiskCache(options.cache_dir, options.cache_size_mb << 20) {}
DiskCache::~DiskCache() {
  if (folder_fd_ >= 0) close(folder_fd_);
}

void DiskCache::Open() {
  if (folder_.empty()) return Warn("the disk cache is off: neither XDG_CACHE_HOME nor HOME names a folder");
  if (!MakeFolders(folder_)) return Warn(Cat("the disk cache is off: can't create ", folder_, ": ", ErrnoText()));
  const int fd = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return Warn(Cat("the disk cache is off: can't open ", folder_, ": ", ErrnoText()));
  struct stat st;
  // Whoever can write here can run code as this user.
  if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
    close(fd);
    return Warn(Cat("the disk cache is off: ", folder_, " must belong to this user and be writable by no other"));
  }
  folder_fd_ = fd;
}

void DiskCache::Warn(std::string text) {
  std::lock_guard lock(mutex_);
  if (std::find(warned_.begin(), warned_.end(), text) != warned_.end()) return;
  LOG(WARNING) << text;
  warned_.push_back(text);
  warnings_.push_back(std::move(text));
}

std::vector<std::string> DiskCache::TakeWarnings() {
  std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

std::optional<Artifact> DiskCache::Find(std::string_view name, std::string_view key) {
  if (!enabled() || !IsName(name)) return std::nullopt;
  const std::string file(name);
  // O_NONBLOCK: opening a pipe that someone left under this name must not wait.
  Fd fd(openat(folder_fd_, file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0) {
    if (errno == ELOOP) unlinkat(folder_fd_, file.c_str(), 0);
    return std::nullopt;
  }
  struct stat st;
  const bool is_ours =
      fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
  std::optional<std::string> bytes = is_ours ? ReadAll(fd.get(), st.st_size) : std::nullopt;
  if (bytes.has_value()) {
    StatusOr<Artifact> r = Artifact::Decode(*bytes, key);
    if (r.ok()) {
      futimens(fd.get(), nullptr);  // recently used
      return *std::move(r);
    }
    if (absl::IsNotFound(r.status())) return std::nullopt;
    Warn(Cat("the disk cache removed ", name, ": ", Message(r.status())));
  }
  unlinkat(folder_fd_, file.c_str(), 0);
  return std::nullopt;
}

bool DiskCache::WriteTemporary(const std::string& temporary, std::string_view bytes) {
  Fd fd(openat(folder_fd_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd.get() < 0) return false;
  while (!bytes.empty()) {
    const ssize_t n = write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void DiskCache::Insert(std::string_view name, std::string_view key, const Artifact& artifact) {
  if (!enabled() || !IsName(name)) return;
  const std::string bytes = artifact.Encode(key);
  const int64_t size = static_cast<int64_t>(bytes.size());
  if (size > limit_ / 2) return Warn(Cat("the disk cache takes no entry of ", size, " bytes: its limit is ", limit_));
  {
    std::lock_guard lock(mutex_);
    written_since_scan_ += size;
    // Other processes write too, so the folder is looked at again before this one alone could have filled it.
    if (written_since_scan_ >= limit_ / 16) Evict();
  }
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = Cat(kTemporary, getpid(), ".", counter++, ".", clock());
  if (!WriteTemporary(temporary, bytes) ||
      renameat(folder_fd_, temporary.c_str(), folder_fd_, std::string(name).c_str()) != 0) {
    const std::string why = ErrnoText();
    unlinkat(folder_fd_, temporary.c_str(), 0);
    Warn(Cat("the disk cache could not write to ", folder_, ": ", why));
  }
}

namespace {
constexpr std::string_view kBytes = "bytes";
std::string NameOf(const std::string& key) { return Cat("object-", HashBytes(key).Hex()); }
}  // namespace

std::optional<std::string> DiskCache::Get(const std::string& key) {
  std::optional<Artifact> a = Find(NameOf(key), key);
  if (!a.has_value() || a->Find(kBytes) == nullptr) return std::nullopt;
  return std::move(a->sections.find(kBytes)->second);
}

void DiskCache::Put(const std::string& key, const std::string& object) {
  Artifact a;
  a.sections.emplace(kBytes, object);
  Insert(NameOf(key), key, a);
}

void DiskCache::Evict() {
  struct Entry {
    std::string name;
    timespec used;
    int64_t size;
  };
  written_since_scan_ = 0;
  const int fd = openat(folder_fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = fd < 0 ? nullptr : fdopendir(fd);
  if (dir == nullptr) {
    if (fd >= 0) close(fd);
    return;
  }
  std::vector<Entry> entries;
  int64_t total = 0;
  while (const dirent* d = readdir(dir)) {
    struct stat st;
    if (fstatat(folder_fd_, d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) continue;
    const bool is_temporary = absl::StartsWith(d->d_name, "tmp.");
    if (is_temporary && st.st_mtim.tv_sec + kStaleSeconds < time(nullptr)) {
      unlinkat(folder_fd_, d->d_name, 0);  // its writer died
    } else if (!is_temporary && IsName(d->d_name)) {
      entries.push_back({d->d_name, st.st_mtim, st.st_size});
      total += st.st_size;
    }
  }
  closedir(dir);
  if (total <= limit_ - limit_ / 16) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  for (const Entry& e : entries) {
    if (total <= limit_ / 4 * 3) break;
    if (unlinkat(folder_fd_, e.name.c_str(), 0) == 0) total -= e.size;
  }
}

}  // namespace cinn_like
