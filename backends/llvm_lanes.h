// Vector accesses whose lanes are not one after the other, but near each other and known when compiling: backwards,
// every other element, each element for several lanes. A few contiguous accesses and shuffles do what a gather would.
//
//   x[lane / 2], 16 lanes  ->  one access of 8 elements
//   x[lane * 2], 16 lanes  ->  two of 16, of which the second begins with the first's last element
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/expr.h"

namespace cinn_like {

struct NearLanes {
  struct Part {
    int64_t first = 0;  // element, counted from the one of lane 0
    int elements = 0;
    // The lanes that access each element, in turns: of the n-th turn, by element, -1: none. An element that lies in two
    // parts is the first one's.
    std::vector<std::vector<int>> lanes;
  };
  std::vector<Part> parts;
  std::vector<int> part_of, element_of;  // by lane
};

// nullopt: the lanes of `index` are not known, or too far apart; `most_turns`: how many lanes may access an element.
std::optional<NearLanes> FindNearLanes(ir::Expr index, size_t most_turns);

}  // namespace cinn_like
