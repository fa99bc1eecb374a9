#include "cinn_like/base/pass_pipeline.h"

#include <glog/logging.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

namespace cinn_like {

void StageTimes::Add(std::string_view stage, double seconds) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, sum] : stages_) {
    if (name == stage) {
      sum += seconds;
      return;
    }
  }
  stages_.emplace_back(stage, seconds);
}

std::vector<std::pair<std::string, double>> StageTimes::Get() const {
  const std::lock_guard lock(mutex_);
  return stages_;
}

void Dump(const CompileOptions& options, std::string_view name, std::string_view what, std::string_view text) {
  static std::atomic<int> count{0};
  const int number = count.fetch_add(1);
  if (options.dump_dir.empty()) {
    const std::string all = Cat("// ---- ", name, ": ", what, "\n", text, "\n");
    std::fwrite(all.data(), 1, all.size(), stderr);
    return;
  }
  std::error_code ignored;  // the open below reports
  std::filesystem::create_directories(options.dump_dir, ignored);
  const std::string path = Cat(options.dump_dir, "/", name, ".", absl::Dec(number, absl::kZeroPad4), ".", what);
  std::FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file == nullptr || std::fclose(file) != 0 || !written) LOG(WARNING) << "can't write the dump " << path;
}

}  // namespace cinn_like
