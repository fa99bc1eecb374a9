// Which groups of a fusion plan read what others compute.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace cinn_like::hlir {

// Directly or through others: a row of bits per group. Asked for every pair that might join, so it is kept up to date
// instead of searched.
class Reachability {
 public:
  // One group per stage, in topological order.
  explicit Reachability(const std::vector<std::vector<int>>& consumers)
      : words_((consumers.size() + 63) / 64), rows_(consumers.size() * words_) {
    for (size_t i = consumers.size(); i-- > 0;) {
      for (int c : consumers[i]) {
        Set(static_cast<int>(i), c);
        Add(static_cast<int>(i), c);
      }
    }
  }

  // A path of one step or more.
  bool Has(int from, int to) const { return Row(from)[to / 64] >> (to % 64) & 1; }

  // Group `b` is now a part of `a`. `producers(g)` are the groups that g reads, of the joined one as of the others.
  void Join(int a, int b, const std::function<std::vector<int>(int)>& producers) {
    Add(a, b);
    std::vector<int> work = producers(a);
    while (!work.empty()) {
      const int x = work.back();
      work.pop_back();
      if (x == a || (Has(x, a) && Has(x, b))) continue;  // and so have those before it
      Add(x, a);
      Set(x, a);
      Set(x, b);
      for (int q : producers(x)) work.push_back(q);
    }
  }

 private:
  const uint64_t* Row(int g) const { return &rows_[static_cast<size_t>(g) * words_]; }
  void Set(int from, int to) { rows_[static_cast<size_t>(from) * words_ + to / 64] |= uint64_t{1} << (to % 64); }
  void Add(int from, int other) {
    uint64_t* row = &rows_[static_cast<size_t>(from) * words_];
    for (size_t w = 0; w < words_; ++w) row[w] |= Row(other)[w];
  }

  size_t words_;
  std::vector<uint64_t> rows_;
};

}  // namespace cinn_like::hlir
