// What groups of stages are predicted to take, remembered.
#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace cinn_like::hlir {

// Seconds by a group's target and text (nullopt: no tactic has a kernel), for all programs of the process: a model's
// layers are alike, and where the framework computes a convolution between them, each is a program of its own.
class Prices {
 public:
  static Prices& OfAll() {
    static auto* r = new Prices;
    return *r;
  }

  // Whether it is known.
  bool Find(const std::string& key, std::optional<double>* price) {
    const std::lock_guard lock(mutex_);
    const auto it = prices_.find(key);
    if (it != prices_.end()) *price = it->second;
    return it != prices_.end();
  }

  void Add(const std::string& key, std::optional<double> price) {
    constexpr size_t kMost = 4096;
    const std::lock_guard lock(mutex_);
    if (prices_.size() >= kMost) prices_.clear();
    prices_.emplace(key, price);
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::optional<double>> prices_;
};

}  // namespace cinn_like::hlir
