#include "hlir/tactics/point.h"

#include <algorithm>
#include <numeric>

#include "cinn_like/base/hash.h"
#include "cinn_like/base/status.h"

namespace cinn_like::hlir {

Point Point::Random(uint64_t seed) {
  Point p;
  p.seed_ = seed;
  return p;
}

int64_t Point::Choose(std::string_view name, const std::vector<int64_t>& options, int64_t predicted) {
  int64_t value = predicted;
  if (seed_.has_value() && !options.empty()) value = options[HashBytes(Cat(*seed_, " ", name)).low % options.size()];
  auto it = std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter& x) { return x.name == name; });
  if (it == parameters_.end()) it = parameters_.insert(it, {std::string(name), {}, 0});
  it->options = options;
  it->value = value;
  if (std::count(options.begin(), options.end(), value) == 0) it->options.push_back(value);
  return value;
}

std::string Point::text() const {
  std::string r;
  for (const Parameter& p : parameters_) r += Cat(r.empty() ? "" : " ", p.name, "=", p.value);
  return r;
}

std::vector<int64_t> UpTo(int64_t most) {
  std::vector<int64_t> r(static_cast<size_t>(std::max<int64_t>(most, 1)));
  std::iota(r.begin(), r.end(), 1);
  return r;
}

}  // namespace cinn_like::hlir
