// A point in the space of a tactic's parameters. A tactic asks for each of them by name, with the values that it can
// have and the one that it predicts to be the fastest, which it gets unless somebody looks at other points.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cinn_like::hlir {

class Point {
 public:
  struct Parameter {
    std::string name;
    std::vector<int64_t> options;  // one at least
    int64_t value;
  };

  // What is predicted to be the fastest.
  Point() = default;
  // Any: each parameter has any of its values, always the same for a seed.
  static Point Random(uint64_t seed);

  int64_t Choose(std::string_view name, const std::vector<int64_t>& options, int64_t predicted);
  bool ChooseBool(std::string_view name, bool predicted) { return Choose(name, {0, 1}, predicted ? 1 : 0) != 0; }

  // What was asked for, in order.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // "rows=6 vectors=2"
  std::string text() const;

 private:
  std::optional<uint64_t> seed_;
  std::vector<Parameter> parameters_;
};

// 1, 2, ... most; 1 at least.
std::vector<int64_t> UpTo(int64_t most);

}  // namespace cinn_like::hlir
