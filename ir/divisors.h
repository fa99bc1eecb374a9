// Numbers that terms of a sum are grouped by.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace cinn_like::ir {

// The distinct divisors > 1 to group terms by, largest first.
inline std::vector<int64_t> Candidates(const std::vector<int64_t>& divisors) {
  std::vector<int64_t> r;
  for (int64_t d : divisors) {
    if (d > 1) r.push_back(d);
  }
  std::sort(r.begin(), r.end(), std::greater<>());
  r.erase(std::unique(r.begin(), r.end()), r.end());
  return r;
}

}  // namespace cinn_like::ir
