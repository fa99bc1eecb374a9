// The disk cache: compiled code under names that hash all that it depends on. Entries are artifacts that hold the whole
// key too (runtime/artifact.h): another key of the same hash is a miss.
//
//   graph-<hash of the canonical graph, facts, target, versions, options>   host object, kernels, argument info,
//   choices object-<hash of the canonical function or source, target, options>      its code
//
// Any number of threads and processes may share a folder. It must be the user's own and closed to others: entries are
// code. An entry that is damaged is a miss and is removed. The least recently used entries go when the folder outgrows
// its limit. A cache that can't be written (no folder, a full disk) costs nothing but time: a warning is recorded.
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/object_cache.h"
#include "cinn_like/base/flags.h"
#include "runtime/artifact.h"

namespace cinn_like {

class DiskCache : public ObjectCache {
 public:
  // `folder` empty: $XDG_CACHE_HOME/cinn_like, else $HOME/.cache/cinn_like. Created if missing. Never fails: a folder
  // that can't be used or trusted leaves a cache that holds nothing, and a warning.
  DiskCache(std::string folder, int64_t limit_bytes);
  explicit DiskCache(const CompileOptions& options);
  ~DiskCache() override;
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // Names are of a-z, 0-9 and '-' and may be hashes; keys are any text. What is there for another key is not found.
  std::optional<Artifact> Find(std::string_view name, std::string_view key);
  void Insert(std::string_view name, std::string_view key, const Artifact& artifact);

  std::optional<std::string> Get(const std::string& key) override;
  void Put(const std::string& key, const std::string& object) override;

  bool enabled() const { return folder_fd_ >= 0; }
  const std::string& folder() const { return folder_; }
  // What went wrong since the last call, each thing once.
  std::vector<std::string> TakeWarnings();

 private:
  void Open();
  void Warn(std::string text);
  bool WriteTemporary(const std::string& temporary, std::string_view bytes);
  void Evict();

  std::string folder_;
  const int64_t limit_;
  int folder_fd_ = -1;
  std::mutex mutex_;  // guards what follows
  std::vector<std::string> warnings_;
  std::vector<std::string> warned_;
  int64_t written_since_scan_;
};

}  // namespace cinn_like
