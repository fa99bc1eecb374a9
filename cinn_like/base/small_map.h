// A map for walks that mostly see few nodes: the first ones are pairs in place, which costs no memory of its own; more
// go to a hash table. Keys are compared, so they should be pointers or numbers.
#pragma once
#include <array>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace cinn_like {

template <class K, class V>
class SmallMap {
 public:
  // Null if there is none; good until the next insertion.
  const V* Find(K key) const {
    if (size_ <= kFew) {
      for (size_t i = 0; i < size_; ++i) {
        if (few_[i].first == key) return &few_[i].second;
      }
      return nullptr;
    }
    auto it = many_.find(key);
    return it == many_.end() ? nullptr : &it->second;
  }

  // `key` is not in the map yet.
  void Insert(K key, V value) {
    if (size_ < kFew) {
      few_[size_] = {key, std::move(value)};
    } else {
      if (size_ == kFew) many_.insert(few_.begin(), few_.end());
      many_.emplace(key, std::move(value));
    }
    ++size_;
  }

 private:
  static constexpr size_t kFew = 12;
  size_t size_ = 0;
  std::array<std::pair<K, V>, kFew> few_;
  absl::flat_hash_map<K, V> many_;
};

}  // namespace cinn_like
